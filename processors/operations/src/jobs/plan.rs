//! Before anything is written: the estimate of a job's cost, and the precondition that the state table can be restored.

use afterwrite_ledger::tables::{RecoveryState, TableScan};
use afterwrite_model::{Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};

/// The work and the cost of a job. Estimates come from the tables' sizes, which DynamoDB updates every six hours, and from a sample.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct JobPlan {
    /// The items that are processed, each once.
    pub items: u64,
    /// The number that the job's rate limits, if it is more than the items: also the entries and rows that are read for them.
    #[serde(default)]
    pub paced: u64,
    /// Their size in bytes.
    pub bytes: u64,
    /// The items that are expected to change something.
    pub changes: u64,
    /// Read units.
    pub read_units: u64,
    /// Write units.
    pub write_units: u64,
    /// The bytes that the state table grows by.
    pub storage_bytes: u64,
    /// Objects that are written to the bucket.
    #[serde(default)]
    pub put_requests: u64,
    /// Bytes that are imported into a new table.
    #[serde(default)]
    pub import_bytes: u64,
    /// The inputs that are searched, for people, if not all of what was named is read. The job's report has it, too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub searched: Option<String>,
    /// Assumptions and limits of the estimate, for people.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// Prices in dollars.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct UnitPrices {
    /// Of a million write units.
    pub million_writes: f64,
    /// Of a million read units.
    pub million_reads: f64,
    /// Of a gigabyte stored for a month.
    pub gigabyte_month: f64,
    /// Of a million PUT requests.
    pub million_puts: f64,
    /// Of a gigabyte that is imported.
    pub gigabyte_import: f64,
}

impl UnitPrices {
    /// DynamoDB on demand and S3 in us-east-1, standard classes.
    pub const ON_DEMAND: Self = Self {
        million_writes: 0.625,
        million_reads: 0.125,
        gigabyte_month: 0.25,
        million_puts: 5.0,
        gigabyte_import: 0.15,
    };
}

/// The cost of a plan.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct JobCosts {
    /// Of reads, writes, PUT requests and imports, once.
    pub dollars: f64,
    /// Of storage, each month.
    pub storage_dollars_a_month: f64,
    /// The time that the job takes at its rate, in seconds; absent without a rate.
    pub seconds: Option<u64>,
}

impl JobPlan {
    /// The cost at these prices and this rate (items a second).
    #[must_use]
    pub fn costs(&self, prices: UnitPrices, rate: Option<u64>) -> JobCosts {
        const MILLION: f64 = 1_000_000.0;
        const GIGABYTE: f64 = 1_073_741_824.0;
        let writes = approximate(self.write_units) / MILLION * prices.million_writes;
        let reads = approximate(self.read_units) / MILLION * prices.million_reads;
        let puts = approximate(self.put_requests) / MILLION * prices.million_puts;
        let imports = approximate(self.import_bytes) / GIGABYTE * prices.gigabyte_import;
        JobCosts {
            dollars: writes + reads + puts + imports,
            storage_dollars_a_month: approximate(self.storage_bytes) / GIGABYTE * prices.gigabyte_month,
            seconds: rate.filter(|rate| *rate > 0).map(|rate| self.items.max(self.paced).div_ceil(rate)),
        }
    }
}

/// A count as a floating-point number, for prices and rates.
#[expect(clippy::cast_precision_loss, reason = "prices and rates are shown with a few digits")]
pub fn approximate(number: u64) -> f64 {
    number as f64
}

/// Refuses to go on unless the state table has point-in-time recovery, or `without_recovery` accepts that it has not. Tables of emulators
/// need none.
///
/// # Errors
/// [`ErrorKind::Configuration`] if the table cannot be restored, or the service did not report whether it can.
pub async fn require_recovery(
    tables: &impl TableScan,
    state_table: &str,
    without_recovery: bool,
) -> Result<()> {
    let problem = match tables.describe(state_table).await?.recovery {
        RecoveryState::Enabled | RecoveryState::Emulated => return Ok(()),
        RecoveryState::Disabled => {
            "the state table has no point-in-time recovery, so a mistake could not be undone"
        }
        RecoveryState::Unknown => {
            "it is unknown whether the state table has point-in-time recovery (dynamodb:DescribeContinuousBackups)"
        }
    };
    if without_recovery {
        return Ok(());
    }
    Err(Error::new(ErrorKind::Configuration, problem)
        .with("table", state_table)
        .hint("Enable point-in-time recovery, or pass --without-recovery"))
}

#[cfg(test)]
mod tests {
    use afterwrite_ledger::tables::{ScanPage, ScanRequest, TableSummary};
    use afterwrite_model::record::Timestamp;
    use futures::executor::block_on;

    use super::*;

    #[test]
    fn an_import_is_paid_by_its_size() {
        let plan = JobPlan { import_bytes: 10 << 30, ..JobPlan::default() };
        assert!((plan.costs(UnitPrices::ON_DEMAND, None).dollars - 1.5).abs() < 1e-9);
    }

    #[test]
    fn a_million_writes_and_reads_cost_the_listed_prices() {
        let plan = JobPlan {
            items: 1_000,
            read_units: 2_000_000,
            write_units: 1_000_000,
            storage_bytes: 4 << 30,
            ..JobPlan::default()
        };
        let costs = plan.costs(UnitPrices::ON_DEMAND, Some(300));
        assert!((costs.dollars - 0.875).abs() < 1e-9 && (costs.storage_dollars_a_month - 1.0).abs() < 1e-9);
        assert_eq!((costs.seconds, plan.costs(UnitPrices::ON_DEMAND, None).seconds), (Some(4), None));
    }

    struct StateTable(RecoveryState);

    impl TableScan for StateTable {
        async fn scan(&self, _request: &ScanRequest) -> Result<ScanPage> {
            Err(Error::new(ErrorKind::State, "nothing is read"))
        }

        async fn describe(&self, _table: &str) -> Result<TableSummary> {
            Ok(TableSummary {
                id: None,
                arn: None,
                created_at: None,
                items: 0,
                bytes: 0,
                indexes: Vec::new(),
                stream_label: None,
                recovery: self.0,
                described_at: Timestamp::from_epoch_ms(0),
            })
        }
    }

    #[test]
    fn a_table_that_cannot_be_restored_is_refused_unless_that_is_accepted() {
        for (recovery, is_refused) in [
            (RecoveryState::Enabled, false),
            (RecoveryState::Emulated, false),
            (RecoveryState::Disabled, true),
            (RecoveryState::Unknown, true),
        ] {
            let refused = block_on(require_recovery(&StateTable(recovery), "state", false)).err();
            assert_eq!(refused.is_some(), is_refused, "{recovery:?}");
            let names_the_option = |error: Error| error.report().contains("--without-recovery");
            assert!(refused.is_none_or(names_the_option), "{recovery:?}");
            assert!(block_on(require_recovery(&StateTable(recovery), "state", true)).is_ok());
        }
    }
}
