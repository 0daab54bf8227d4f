//! What happens to one batch, from top to bottom.

use afterwrite::clock::Clock;
use afterwrite::commit::{
    CommitOutcome, CommitTotals, ItemRecord, ItemRecords, Ledger, RecordFailure, SourceItem,
};
use afterwrite::entity::{ItemIdentity, SourceKey};
use afterwrite::record::{BadRecord, ChangeRecord, Operation, RecordBatch, Timestamp};
use afterwrite::sink::Tables;
use afterwrite::table::{Entity, OnExpiry};
use afterwrite::{ErrorKind, Result};
use afterwrite_lambda::BatchResponse;
use hashbrown::HashMap;

use crate::response::{FailedRecord, batch_response, failed_records};
use crate::tables::{age_ms, decode_event, foreign_key, missing_image, sources};

/// The handler of the function `aggregator`: a stream's batches in, rollups right.
#[derive(Debug)]
pub struct Aggregator<T, C> {
    ledger: Ledger<T, C>,
}

/// What became of a batch.
#[derive(Debug)]
pub struct Handled {
    /// What is answered.
    pub response: BatchResponse,
    /// How many records there were.
    pub records: u64,
    /// How many were of no entity.
    pub unmatched: u64,
    /// What was done for the others.
    pub totals: CommitTotals,
    /// The records that were not counted, and why.
    pub failures: Vec<FailedRecord>,
    /// How long ago the newest record's change was made, in milliseconds.
    pub age_ms: Option<u64>,
}

/// A record whose item the model may know.
struct Found<'r> {
    index: usize,
    record: std::result::Result<&'r ChangeRecord<'r>, &'r BadRecord<'r>>,
    source: SourceKey<'r>,
}

impl<T: Tables, C: Clock> Aggregator<T, C> {
    /// A handler that commits to this ledger.
    pub fn new(ledger: Ledger<T, C>) -> Self {
        Self { ledger }
    }

    /// The ledger it commits to.
    #[must_use]
    pub fn ledger(&self) -> &Ledger<T, C> {
        &self.ledger
    }

    /// Handles one event, and answers before `deadline`.
    ///
    /// # Errors
    /// The whole invocation fails if the event is none ([`ErrorKind::Event`]), if its table is unknown or its images are
    /// missing ([`ErrorKind::Stream`]), or if the state table cannot be used ([`ErrorKind::Configuration`]). Whatever concerns
    /// single records is in the response instead.
    pub async fn handle(&self, event: &[u8], deadline: Timestamp) -> Result<Handled> {
        let model = self.ledger.model();
        let batch = decode_event(event, model, "aggregator")?;
        let mut failures = Vec::new();
        let found = self.find(&batch, &mut failures)?;
        let identities: Vec<Option<ItemIdentity<'_, '_>>> =
            found.iter().map(|found| found.source.identify(model)).collect();
        let items = items(&found, &identities, &mut failures)?;
        let CommitOutcome { failures: uncounted, totals } = self.ledger.commit(items, deadline).await?;
        failures.extend(uncounted);
        let unmatched = identities.iter().filter(|identity| identity.is_none()).count();
        Ok(self.report(&batch, unmatched, totals, failures))
    }

    /// The records whose item is known; the malformed ones that are not even that have failed.
    fn find<'r>(
        &self,
        batch: &'r RecordBatch<'r>,
        failures: &mut Vec<RecordFailure>,
    ) -> Result<Vec<Found<'r>>> {
        let sources = sources(self.ledger.model(), batch, |table| self.ledger.table_index(table))?;
        let mut found = Vec::with_capacity(batch.records.len());
        for (index, (record, source)) in batch.records.iter().zip(sources).enumerate() {
            let record = record.as_ref().map_err(AsRef::as_ref);
            match (source, record) {
                (Some(source), record) => found.push(Found { index, record, source }),
                (None, Ok(_)) => failures.push(RecordFailure { index, error: foreign_key() }),
                (None, Err(bad)) => failures.push(RecordFailure { index, error: bad.error.restated() }),
            }
        }
        Ok(found)
    }

    fn report(
        &self,
        batch: &RecordBatch<'_>,
        unmatched: usize,
        totals: CommitTotals,
        failures: Vec<RecordFailure>,
    ) -> Handled {
        let response = batch_response(batch, &failures);
        Handled {
            response,
            records: count(batch.records.len()),
            unmatched: count(unmatched),
            totals,
            failures: failed_records(batch, failures),
            age_ms: age_ms(batch, self.ledger.clock().now()),
        }
    }
}

/// The source items of a batch, each with all its records; those without the images that they need have failed.
fn items<'r>(
    found: &'r [Found<'r>],
    identities: &'r [Option<ItemIdentity<'r, 'r>>],
    failures: &mut Vec<RecordFailure>,
) -> Result<Vec<SourceItem<'r>>> {
    let mut items: Vec<SourceItem<'r>> = Vec::with_capacity(found.len());
    let mut by_source: HashMap<&SourceKey<'_>, usize> = HashMap::with_capacity(found.len());
    for (found, identity) in found.iter().zip(identities) {
        let Some(identity) = identity.as_ref().filter(|identity| is_used(identity.entity)) else { continue };
        if let Ok(record) = found.record
            && lacks_image(record, identity.entity)
        {
            let error = missing_image(record, identity.entity, "the model");
            if error.kind() == ErrorKind::Stream {
                return Err(error);
            }
            failures.push(RecordFailure { index: found.index, error });
            continue;
        }
        let record = ItemRecord { index: found.index, record: found.record };
        match by_source.get(&found.source).and_then(|index| items.get_mut(*index)) {
            Some(item) => item.records.push(record),
            None => {
                by_source.insert(&found.source, items.len());
                items.push(SourceItem {
                    source: &found.source,
                    identity,
                    records: ItemRecords::from([record]),
                });
            }
        }
    }
    Ok(items)
}

/// Whether anything follows from a change of such an item.
fn is_used(entity: &Entity) -> bool {
    !entity.aggregates.is_empty() || !entity.answers.is_empty() || !entity.mirrors.is_empty()
}

/// Whether a record lacks an image that counting it needs.
fn lacks_image(record: &ChangeRecord<'_>, entity: &Entity) -> bool {
    let lacks_new = record.operation != Operation::Remove && record.new.is_none();
    let must_settle = record.expired && entity.on_expiry == OnExpiry::Keep;
    let lacks_old = must_settle && !record.old.is_present();
    lacks_new || lacks_old
}

fn count(length: usize) -> u64 {
    u64::try_from(length).unwrap_or(u64::MAX)
}
