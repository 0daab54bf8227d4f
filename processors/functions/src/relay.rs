//! The handler of the function `relay`, the stream's second reader.
//!
//! ```text
//!                               ┌─▶ invalidate: cache keys and paths of the old and the new image ─┐
//! event ─▶ decode ─▶ identify ──┤                                                                  ├─▶ response
//!                               └─▶ archive: the record's JSON as a line, without secrets ─────────┘
//! ```
//!
//! Both run concurrently and independently: an unreachable cache does not stop the archive, nor an unreachable archive the invalidation.
//! Both are idempotent, so a failed record is simply redelivered.

use std::collections::BTreeSet;
use std::sync::Arc;

use afterwrite::clock::Clock;
use afterwrite::commit::RecordFailure;
use afterwrite::projection::archive_line;
use afterwrite::record::{AttributePath, ChangeRecord, Operation, RecordBatch, StreamView, Timestamp};
use afterwrite::relay::archive::{ArchiveLine, ArchiveTotals, ChangeArchiver};
use afterwrite::relay::invalidate::{CacheInvalidator, InvalidationChange, InvalidationTotals};
use afterwrite::sink::{Cache, DeliveryStream, Distribution, ObjectStore};
use afterwrite::table::{ArchiveScope, Model};
use afterwrite::{Error, Result};
use afterwrite_lambda::BatchResponse;
use futures::future::{OptionFuture, join};

use crate::batch::{
    FailedRecord, IdentifiedRecord, age_ms, batch_response, decode_event, failed_records, identify_records,
    missing_image, record_error,
};
use crate::tables::SourceTables;

/// Invalidates caches and archives changes.
#[derive(Debug)]
pub struct StreamRelay<K, D, S, O, C> {
    tables: SourceTables,
    invalidator: Option<CacheInvalidator<K, D, C>>,
    archiver: Option<ChangeArchiver<S, O, C>>,
    /// The attributes that are removed from every line of the archive.
    secrets: Vec<AttributePath>,
    clock: C,
}

/// The outcome of a batch.
#[derive(Debug)]
pub struct RelayedBatch {
    /// The function's response.
    pub response: BatchResponse,
    /// How many records the batch has.
    pub records: usize,
    /// Totals of the invalidation; `None` if the function does not host it.
    pub invalidated: Option<InvalidationTotals>,
    /// Totals of the archiving; `None` if the function does not host it.
    pub archived: Option<ArchiveTotals>,
    /// The records that were not invalidated or not archived.
    pub failures: Vec<FailedRecord>,
    /// The age of the newest change, in milliseconds.
    pub age_ms: Option<u64>,
}

impl<K: Cache, D: Distribution, S: DeliveryStream, O: ObjectStore, C: Clock> StreamRelay<K, D, S, O, C> {
    /// A handler that invalidates, archives, or both.
    pub fn new(
        tables: SourceTables,
        invalidator: Option<CacheInvalidator<K, D, C>>,
        archiver: Option<ChangeArchiver<S, O, C>>,
        clock: C,
    ) -> Self {
        let secrets = secret_paths(tables.model());
        Self { tables, invalidator, archiver, secrets, clock }
    }

    /// The model.
    #[must_use]
    pub fn model(&self) -> &Arc<Model> {
        self.tables.model()
    }

    /// Handles one event and returns before `deadline`.
    ///
    /// # Errors
    /// The whole invocation fails if the payload is not a DynamoDB stream event ([`Event`](afterwrite::ErrorKind::Event)), or if its table
    /// is unknown or of another region, or its stream does not carry the images that invalidation or a dataset needs
    /// ([`Stream`](afterwrite::ErrorKind::Stream)). Failures of single records are in the response instead.
    pub async fn handle(&self, event: &[u8], deadline: Timestamp) -> Result<RelayedBatch> {
        let batch = decode_event(event, self.model(), "relay")?;
        let sources = self.tables.source_keys(&batch)?;
        let records = identify_records(self.model(), &batch, &sources);
        let invalidate = self.invalidator.as_ref().map(|to| self.invalidate(to, &records, deadline));
        let archive = self.archiver.as_ref().map(|to| self.archive(to, &batch, &records, deadline));
        let (invalidated, archived) = join(OptionFuture::from(invalidate), OptionFuture::from(archive)).await;
        let (invalidated, stale) = invalidated.transpose()?.unzip();
        let (archived, unarchived) = archived.transpose()?.unzip();
        let failures: Vec<RecordFailure> = stale.into_iter().chain(unarchived).flatten().collect();
        Ok(RelayedBatch {
            response: batch_response(&batch, &failures),
            records: batch.records.len(),
            invalidated,
            archived,
            failures: failed_records(&batch, failures),
            age_ms: age_ms(&batch, self.clock.now()),
        })
    }

    async fn invalidate(
        &self,
        invalidator: &CacheInvalidator<K, D, C>,
        records: &[IdentifiedRecord<'_>],
        deadline: Timestamp,
    ) -> Result<(InvalidationTotals, Vec<RecordFailure>)> {
        let (mut changes, mut failures) = (Vec::new(), Vec::new());
        for record in records {
            match self.cached_change(record) {
                Ok(change) => changes.extend(change),
                Err(error) => {
                    failures.push(RecordFailure { index: record.index, error: record_error(error)? });
                }
            }
        }
        let outcome = Box::pin(invalidator.invalidate(&changes, deadline)).await;
        failures.extend(outcome.failures.into_iter().map(|(index, error)| RecordFailure { index, error }));
        Ok((outcome.totals, failures))
    }

    /// The change of an item that caches may hold; `None` for any other item.
    fn cached_change<'b>(&self, item: &'b IdentifiedRecord<'b>) -> Result<Option<InvalidationChange<'b>>> {
        let record = item.record.map_err(|bad| bad.error.restated())?;
        item.source.map_err(Error::restated)?;
        let Some(identity) = item.identity.as_ref().filter(|identity| !identity.entity.caches.is_empty())
        else {
            return Ok(None);
        };
        if lacks_image(record) {
            return Err(missing_image(record, identity.entity, "invalidating caches"));
        }
        let old = record.old.decode(&self.model().attributes)?;
        let (index, event_id, new) = (item.index, &*record.event_id, record.new.as_ref());
        Ok(Some(InvalidationChange { record: index, event_id, identity, old, new }))
    }

    async fn archive(
        &self,
        archiver: &ChangeArchiver<S, O, C>,
        batch: &RecordBatch<'_>,
        records: &[IdentifiedRecord<'_>],
        deadline: Timestamp,
    ) -> Result<(ArchiveTotals, Vec<RecordFailure>)> {
        let (mut texts, mut failures) = (Vec::with_capacity(records.len()), Vec::new());
        for (record, json) in records.iter().zip(&batch.json) {
            self.check_dataset_images(record)?;
            if self.is_archived(record) {
                match archive_line(json, &self.secrets) {
                    Ok(text) => texts.push((record.index, text)),
                    Err(error) => failures.push(RecordFailure { index: record.index, error }),
                }
            }
        }
        let lines: Vec<ArchiveLine<'_>> = texts
            .iter()
            .map(|(index, text)| ArchiveLine { index: *index, event_id: batch.event_id(*index), text })
            .collect();
        let outcome = Box::pin(archiver.archive(&lines, deadline)).await;
        failures.extend(outcome.failures);
        Ok((outcome.totals, failures))
    }

    /// A record whose item is unknown because it is malformed is archived: nothing could restore it.
    fn is_archived(&self, record: &IdentifiedRecord<'_>) -> bool {
        match self.model().archive {
            ArchiveScope::All => true,
            ArchiveScope::Matched => {
                record.identity.is_some() || record.record.is_err() || record.source.is_err()
            }
        }
    }

    /// A stream that does not carry the images of a dataset's rows must not fill the archive unnoticed.
    fn check_dataset_images(&self, item: &IdentifiedRecord<'_>) -> Result<()> {
        let (Ok(record), Some(identity)) = (item.record, &item.identity) else { return Ok(()) };
        let may_lack_images = match record.view {
            Some(StreamView::NewImage | StreamView::OldImage | StreamView::KeysOnly) => true,
            Some(StreamView::NewAndOldImages) | None => false,
        };
        let is_incomplete = may_lack_images && lacks_image(record);
        if is_incomplete && self.model().datasets_of(identity.entity).next().is_some() {
            return Err(missing_image(record, identity.entity, "a dataset"));
        }
        Ok(())
    }
}

/// Whether a record lacks an image that its operation implies.
fn lacks_image(record: &ChangeRecord<'_>) -> bool {
    let lacks_new = record.operation != Operation::Remove && record.new.is_none();
    let lacks_old = record.operation != Operation::Insert && !record.old.is_present();
    lacks_new || lacks_old
}

/// The secret attributes of all entities. All are removed from every line, because an item that matches no entity, or a malformed
/// record, may hold those of any.
fn secret_paths(model: &Model) -> Vec<AttributePath> {
    let paths: BTreeSet<_> = model.entities.iter().flat_map(|entity| &entity.secrets).collect();
    paths.into_iter().cloned().collect()
}
