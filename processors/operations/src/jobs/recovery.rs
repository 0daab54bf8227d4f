//! The precondition of every job that writes: the state table can be restored.

use afterwrite_ledger::tables::{RecoveryState, TableScan};
use afterwrite_model::{Error, ErrorKind, Result};

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

    struct StateTable(RecoveryState);

    impl TableScan for StateTable {
        async fn scan(&self, _request: &ScanRequest) -> Result<ScanPage> {
            Err(Error::new(ErrorKind::State, "nothing is read"))
        }

        async fn describe(&self, _table: &str) -> Result<TableSummary> {
            Ok(TableSummary {
                id: None,
                arn: None,
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
