//! The handler of the function `aggregator`.
//!
//! ```text
//! event ─▶ decode ─▶ identify: the item of each record ─▶ group: all records of each item ─▶ commit ─▶ response
//! ```

use std::sync::Arc;
use std::time::Duration;

use afterwrite_lambda::{BatchResponse, MetricsLine};
use afterwrite_ledger::tables::Tables;
use afterwrite_ledger::{CommitOutcome, CommitTotals, ItemRecord, ItemRecords, Ledger, SourceItem};
use afterwrite_model::clock::Clock;
use afterwrite_model::entity::{ItemCandidates, SourceKey};
use afterwrite_model::heartbeat::HeartbeatStage;
use afterwrite_model::record::{ChangeRecord, Operation, RecordFailure, Timestamp};
use afterwrite_model::table::{Entity, OnExpiry};
use afterwrite_model::{Error, Result};
use hashbrown::HashMap;

use crate::batch::{
    FailedRecord, IdentifiedRecord, SourceTables, StreamRegion, age_ms, batch_response, decode_event,
    failed_records, identify_records, newest_heartbeat, record_error,
};

/// Keeps rollups, counters and mirrors in step with a table's stream.
#[derive(Debug)]
pub struct StreamAggregator<T, C> {
    ledger: Ledger<T, C>,
    sources: SourceTables,
}

/// The outcome of a batch.
#[derive(Debug)]
pub struct AggregatedBatch {
    /// The function's response.
    pub response: BatchResponse,
    /// How many records the batch has.
    pub records: u64,
    /// How many of them match no entity.
    pub unmatched: u64,
    /// Totals of the commits for the other records.
    pub totals: CommitTotals,
    /// The records that were not counted and are delivered again.
    pub failures: Vec<FailedRecord>,
    /// The records that can never be counted as they are. The ledger marks their items as parked.
    pub parked: Vec<FailedRecord>,
    /// Why copies on applications' items could not be written. The measures that they show are counted.
    pub unwritable_mirrors: Vec<Error>,
    /// The age of the newest change, in milliseconds.
    pub age_ms: Option<u64>,
    /// The age of the newest heartbeat, if the batch has one.
    pub heartbeat_age: Option<Duration>,
}

impl AggregatedBatch {
    /// The batch's metrics.
    #[must_use]
    pub fn metrics(&self) -> MetricsLine {
        let mut line = MetricsLine::default();
        line.count("records", self.records);
        line.count("unmatched", self.unmatched);
        line.count("failed", self.failures.len());
        for (name, number) in self.totals.named() {
            line.count(name, number);
        }
        if let Some(age_ms) = self.age_ms {
            line.milliseconds("RecordAge", age_ms);
        }
        line.freshness(HeartbeatStage::Counted, self.heartbeat_age);
        line
    }
}

impl<T: Tables, C: Clock> StreamAggregator<T, C> {
    /// A handler that commits to this ledger.
    pub fn new(ledger: Ledger<T, C>) -> Self {
        let sources = SourceTables::new(Arc::clone(ledger.model()), ledger.table_names().to_vec());
        Self { ledger, sources }
    }

    /// Sets the region of the streams. Without it, the first record decides.
    #[must_use]
    pub fn in_region(mut self, region: StreamRegion) -> Self {
        self.sources = self.sources.in_region(region);
        self
    }

    /// The ledger.
    #[must_use]
    pub fn ledger(&self) -> &Ledger<T, C> {
        &self.ledger
    }

    /// Handles one event and returns before `deadline`.
    ///
    /// # Errors
    /// The whole invocation fails if the payload is not a DynamoDB stream event ([`Event`](afterwrite_model::ErrorKind::Event)), if its table is
    /// unknown or of another region, or its images are missing ([`Stream`](afterwrite_model::ErrorKind::Stream)), or if the state table cannot be used
    /// ([`Configuration`](afterwrite_model::ErrorKind::Configuration)). Failures of single records are in the response instead.
    pub async fn handle(&self, event: &[u8], deadline: Timestamp) -> Result<AggregatedBatch> {
        let model = self.ledger.model();
        let batch = decode_event(event, model, "aggregator")?;
        let keys = self.sources.source_keys(&batch)?;
        let records = identify_records(model, &batch, &keys);
        let (items, mut failures) = group_by_item(&records)?;
        let outcome = self.ledger.commit(items, deadline).await?;
        let CommitOutcome { failures: uncommitted, parked, unwritable_mirrors, totals } = outcome;
        failures.extend(uncommitted);
        let is_unmatched = |record: &&IdentifiedRecord<'_>| {
            record.source.is_ok() && !record.is_matched() && !record.is_heartbeat()
        };
        let now = self.ledger.clock().now();
        Ok(AggregatedBatch {
            response: batch_response(&batch, &failures),
            records: count(records.len()),
            unmatched: count(records.iter().filter(is_unmatched).count()),
            totals,
            failures: failed_records(&batch, failures),
            parked: failed_records(&batch, parked),
            unwritable_mirrors,
            age_ms: age_ms(&batch, now),
            heartbeat_age: newest_heartbeat(&batch, &records).map(|written| now.since(written)),
        })
    }
}

/// The source items of a batch, each with all its records, and the records that cannot be counted.
fn group_by_item<'b>(
    records: &'b [IdentifiedRecord<'b>],
) -> Result<(Vec<SourceItem<'b>>, Vec<RecordFailure>)> {
    let (mut items, mut failures) = (Vec::<SourceItem<'b>>::with_capacity(records.len()), Vec::new());
    let mut item_indexes: HashMap<&SourceKey<'_>, usize> = HashMap::with_capacity(records.len());
    for IdentifiedRecord { index, record, source, candidates } in records {
        let source = match *source {
            Ok(source) => source,
            Err(error) => {
                failures.push(RecordFailure { index: *index, error: error.restated() });
                continue;
            }
        };
        let Some(candidates) = candidates.as_ref().filter(|candidates| candidates.any(Entity::is_used))
        else {
            continue;
        };
        let uncountable = match record {
            Ok(change) if lacks_counted_image(change, candidates) => {
                Some(record_error(candidates.missing_image(change, "the model"))?)
            }
            Ok(_) | Err(_) => None,
        };
        let record = ItemRecord { index: *index, uncountable, record: *record };
        match item_indexes.get(source).and_then(|item_index| items.get_mut(*item_index)) {
            Some(item) => item.records.push(record),
            None => {
                item_indexes.insert(source, items.len());
                items.push(SourceItem { source, candidates, records: ItemRecords::from([record]) });
            }
        }
    }
    Ok((items, failures))
}

/// Whether a record lacks an image that is needed to count it.
fn lacks_counted_image(record: &ChangeRecord<'_>, candidates: &ItemCandidates<'_, '_>) -> bool {
    let lacks_new = record.operation != Operation::Remove && record.new.is_none();
    // An expiry that stays counted is settled from its old image. An expiry without DynamoDB's mark is recognized by its old image, so it has one.
    let must_settle = record.expired && candidates.any(|entity| entity.on_expiry == OnExpiry::Keep);
    lacks_new || (must_settle && !record.old.has_attributes())
}

fn count(length: usize) -> u64 {
    u64::try_from(length).unwrap_or(u64::MAX)
}
