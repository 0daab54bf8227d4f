//! The stream's second reader: caches invalidated, every change archived.
//!
//! ```text
//!                   ┌─▶ what is it? ─▶ invalidate: keys and paths of the old and the new image ┐
//! event ─▶ decode ──┤                                                                          ├─▶ lowest failure
//!                   └─▶ as it came ──▶ archive: a line each, without secrets ──────────────────┘
//! ```
//!
//! The two are done side by side and know nothing of each other: a dead cache keeps no record out of the archive, nor the reverse.
//! Both can be done twice, so whatever fails simply comes again.

use std::collections::BTreeSet;
use std::sync::Arc;

use afterwrite::clock::Clock;
use afterwrite::commit::RecordFailure;
use afterwrite::entity::{ItemIdentity, SourceKey};
use afterwrite::projection::archive_line;
use afterwrite::record::{AttributePath, ChangeRecord, Image, Operation, RecordBatch, StreamView, Timestamp};
use afterwrite::relay::archive::{self, ArchiveLine, Archiver};
use afterwrite::relay::invalidate::{self, CacheInvalidator, InvalidationChange};
use afterwrite::sink::DeliveryStream;
use afterwrite::sink::ObjectStore;
use afterwrite::sink::{Cache, Distribution};
use afterwrite::table::{ArchiveScope, Model};
use afterwrite::{ErrorKind, Result};
use afterwrite_lambda::BatchResponse;
use futures::future::{OptionFuture, join};

use crate::response::{FailedRecord, batch_response, failed_records};
use crate::tables::{SourceTables, age_ms, decode_event, foreign_key, missing_image};

/// The handler of the function `relay`.
#[derive(Debug)]
pub struct Relay<K, D, S, O, C> {
    tables: SourceTables,
    invalidator: Option<CacheInvalidator<K, D, C>>,
    archiver: Option<Archiver<S, O, C>>,
    /// What no line of the archive may hold, whatever its item is: all secrets of the model.
    secrets: Vec<AttributePath>,
    clock: C,
}

/// What became of a batch.
#[derive(Debug)]
pub struct Relayed {
    /// What is answered.
    pub response: BatchResponse,
    /// How many records there were.
    pub records: usize,
    /// What was invalidated, where that is hosted.
    pub invalidated: Option<invalidate::InvalidationTotals>,
    /// What was archived, where that is hosted.
    pub archived: Option<archive::ArchiveTotals>,
    /// The records of which something failed, and why.
    pub failures: Vec<FailedRecord>,
    /// How long ago the newest record's change was made, in milliseconds.
    pub age_ms: Option<u64>,
}

/// A record's item and its images.
struct Found<'r> {
    index: usize,
    identity: ItemIdentity<'r, 'r>,
    old: Option<Image<'r>>,
    new: Option<&'r Image<'r>>,
}

impl<K: Cache, D: Distribution, S: DeliveryStream, O: ObjectStore, C: Clock> Relay<K, D, S, O, C> {
    /// A handler that hosts what it is given: invalidation, the archive, or both.
    pub fn new(
        tables: SourceTables,
        invalidator: Option<CacheInvalidator<K, D, C>>,
        archiver: Option<Archiver<S, O, C>>,
        clock: C,
    ) -> Self {
        let secrets = secrets(tables.model());
        Self { tables, invalidator, archiver, secrets, clock }
    }

    /// The model it goes by.
    #[must_use]
    pub fn model(&self) -> &Arc<Model> {
        self.tables.model()
    }

    /// Handles one event, and answers before `deadline`.
    ///
    /// # Errors
    /// The whole invocation fails if the event is none ([`ErrorKind::Event`]), or if its table is unknown or its stream does not carry
    /// the images that invalidation or a dataset needs ([`ErrorKind::Stream`]). Whatever concerns single records is in the response instead.
    pub async fn handle(&self, event: &[u8], deadline: Timestamp) -> Result<Relayed> {
        let batch = decode_event(event, self.model(), "relay")?;
        let sources = self.tables.sources(&batch)?;
        let invalidate = self.invalidator.as_ref().map(|to| self.invalidate(to, &batch, &sources, deadline));
        let archive = self.archiver.as_ref().map(|to| self.archive(to, &batch, &sources, deadline));
        let (invalidated, archived) = join(OptionFuture::from(invalidate), OptionFuture::from(archive)).await;
        let (invalidated, stale) = invalidated.transpose()?.unzip();
        let (archived, unarchived) = archived.transpose()?.unzip();
        let failures: Vec<RecordFailure> = stale.into_iter().chain(unarchived).flatten().collect();
        Ok(Relayed {
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
        batch: &RecordBatch<'_>,
        sources: &[Option<SourceKey<'_>>],
        deadline: Timestamp,
    ) -> Result<(invalidate::InvalidationTotals, Vec<RecordFailure>)> {
        let (mut found, mut failures) = (Vec::new(), Vec::new());
        for (index, (record, source)) in batch.records.iter().zip(sources).enumerate() {
            let images = match (record, source) {
                (Err(bad), _) => Err(bad.error.restated()),
                (Ok(_), None) => Err(foreign_key()),
                (Ok(record), Some(source)) => self.cached(index, record, source),
            };
            match images {
                Ok(images) => found.extend(images),
                Err(error) if error.kind() == ErrorKind::Stream => return Err(error),
                Err(error) => failures.push(RecordFailure { index, error }),
            }
        }
        let changes: Vec<InvalidationChange<'_>> = found
            .iter()
            .map(|Found { index, identity, old, new }| InvalidationChange {
                record: *index,
                event_id: batch.event_id(*index),
                identity,
                old: old.as_ref(),
                new: *new,
            })
            .collect();
        let outcome = Box::pin(invalidator.invalidate(&changes, deadline)).await;
        failures.extend(outcome.failures.into_iter().map(|(index, error)| RecordFailure { index, error }));
        Ok((outcome.totals, failures))
    }

    /// The images of a record of whose item something may be cached.
    fn cached<'r>(
        &'r self,
        index: usize,
        record: &'r ChangeRecord<'r>,
        source: &'r SourceKey<'r>,
    ) -> Result<Option<Found<'r>>> {
        let Some(identity) = source.identify(self.model()) else { return Ok(None) };
        if identity.entity.caches.is_empty() {
            return Ok(None);
        }
        if lacks_image(record) {
            return Err(missing_image(record, identity.entity, "invalidating caches"));
        }
        let old = record.old.decode(&self.model().attributes)?;
        Ok(Some(Found { index, identity, old, new: record.new.as_ref() }))
    }

    async fn archive(
        &self,
        archiver: &Archiver<S, O, C>,
        batch: &RecordBatch<'_>,
        sources: &[Option<SourceKey<'_>>],
        deadline: Timestamp,
    ) -> Result<(archive::ArchiveTotals, Vec<RecordFailure>)> {
        for (record, source) in batch.records.iter().zip(sources) {
            if let (Ok(record), Some(source)) = (record, source) {
                self.check_images_for_rows(record, source)?;
            }
        }
        let (mut texts, mut failures) = (Vec::with_capacity(batch.json.len()), Vec::new());
        let is_wanted = |index: usize| match self.model().archive {
            ArchiveScope::All => true,
            // What cannot be told is kept: nobody could bring it back.
            ArchiveScope::Matched => match (batch.records.get(index), sources.get(index)) {
                (Some(Ok(_)), Some(Some(source))) => source.identify(self.model()).is_some(),
                _ => true,
            },
        };
        for (index, record) in batch.json.iter().enumerate().filter(|(index, _)| is_wanted(*index)) {
            match archive_line(record, &self.secrets) {
                Ok(text) => texts.push((index, text)),
                Err(error) => failures.push(RecordFailure { index, error }),
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

    /// A stream that does not carry what rows are made of must not fill the archive unnoticed.
    fn check_images_for_rows(&self, record: &ChangeRecord<'_>, source: &SourceKey<'_>) -> Result<()> {
        if matches!(record.view, Some(StreamView::NewAndOldImages) | None) || !lacks_image(record) {
            return Ok(());
        }
        let Some(identity) = source.identify(self.model()) else { return Ok(()) };
        match self.model().datasets_of(identity.entity).next() {
            Some(_) => Err(missing_image(record, identity.entity, "a dataset")),
            None => Ok(()),
        }
    }
}

/// Whether a record lacks an image that such a change has.
fn lacks_image(record: &ChangeRecord<'_>) -> bool {
    let lacks_new = record.operation != Operation::Remove && record.new.is_none();
    let lacks_old = record.operation != Operation::Insert && !record.old.is_present();
    lacks_new || lacks_old
}

/// Every attribute that some entity keeps secret: a line is cleaned of them all, because an item that matches no entity, or a
/// malformed record, may hold what another would.
fn secrets(model: &Model) -> Vec<AttributePath> {
    let all = model.entities.iter().flat_map(|entity| &entity.secrets);
    all.collect::<BTreeSet<_>>().into_iter().cloned().collect()
}
