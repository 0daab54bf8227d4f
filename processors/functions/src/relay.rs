//! The handler of the function `relay`, the stream's second reader.
//!
//! ```text
//!                               ┌─▶ invalidate: cache keys, then paths, of the old and the new image ─┐
//! event ─▶ decode ─▶ identify ──┼─▶ archive: the record's JSON as a line, without secrets ────────────┼─▶ response
//!                               └─▶ notify: the events of the model's rules ──────────────────────────┘
//! ```
//!
//! They run concurrently and independently: an unreachable cache does not stop the archive, nor an unreachable archive the invalidation.
//!
//! A record that failed at one target is redelivered, and with it every later record of its shard. The work that other targets have done
//! for them is remembered ([`EventMemory`]) and not repeated: no line is archived again, and no key is removed again, because another target failed.
//! A process that starts without the memory repeats them; every target can be repeated.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use afterwrite_lambda::{BatchResponse, MetricsLine};
use afterwrite_model::clock::Clock;
use afterwrite_model::entity::ItemCandidates;
use afterwrite_model::heartbeat::HeartbeatStage;
use afterwrite_model::projection::{SecretAttributes, archive_line};
use afterwrite_model::record::{RecordBatch, RecordFailure, StreamView, Timestamp};
use afterwrite_model::table::{ArchiveScope, Entity, Model};
use afterwrite_model::{Error, Result};
use afterwrite_relay::archive::{ArchiveLine, ArchiveTotals, ChangeArchiver};
use afterwrite_relay::invalidate::{
    CacheInvalidator, InvalidationChange, InvalidationStage, InvalidationTotals,
};
use afterwrite_relay::notify::{EventNotifier, EventTotals};
use afterwrite_relay::{EventFingerprint, EventMemory, RefusedPath};
use afterwrite_services::events::AwsEventTarget;
use afterwrite_services::{Cache, DeliveryStream, Distribution, EventTarget, ObjectStore, PathQueue};
use futures::future::{OptionFuture, join3};

use crate::batch::{
    FailedRecord, IdentifiedRecord, SourceTables, age_ms, batch_response, decode_event, failed_records,
    identify_records, newest_heartbeat, record_error,
};
use crate::notifying::{NotifiedRecords, RecordNotifier, add_events};

/// Invalidates caches, archives changes and publishes events.
#[derive(Debug)]
pub struct StreamRelay<K, D, Q, S, O, C, T = AwsEventTarget> {
    tables: SourceTables,
    invalidator: Option<CacheInvalidator<K, D, Q, C>>,
    archiver: Option<ChangeArchiver<S, O, C>>,
    notifier: Option<RecordNotifier<T, Q, C>>,
    secrets: SecretAttributes,
    handled: HandledEvents,
    clock: C,
}

/// The work that this process has done already.
#[derive(Debug, Default)]
struct HandledEvents {
    /// The changes whose cache keys are gone.
    keys_gone: EventMemory,
    /// The changes whose paths were sent as well.
    invalidated: EventMemory,
    /// The changes whose lines are archived.
    archived: EventMemory,
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
    /// Totals of the events; `None` if the function does not host them.
    pub notified: Option<EventTotals>,
    /// Redelivered records whose lines an earlier invocation of this process has archived.
    pub archived_before: usize,
    /// Paths that CloudFront refuses and would refuse again. They stay stale.
    pub refused: Vec<RefusedPath>,
    /// The records that were not invalidated, not archived, or whose events were not published.
    pub failures: Vec<FailedRecord>,
    /// The age of the newest change, in milliseconds.
    pub age_ms: Option<u64>,
    /// The age of the newest heartbeat, if the batch has one and was archived completely.
    pub archived_heartbeat_age: Option<Duration>,
}

impl RelayedBatch {
    /// The batch's metrics, for the projections that the function hosts.
    #[must_use]
    pub fn metrics(&self) -> MetricsLine {
        let mut line = MetricsLine::default();
        line.count("records_relayed", self.records);
        line.count("relay_failed", self.failures.len());
        if let Some(invalidated) = &self.invalidated {
            line.count("keys_invalidated", invalidated.keys);
            line.count("paths_invalidated", invalidated.paths);
            line.count("cache_commands", invalidated.commands);
            line.count("paths_refused", self.refused.len());
            line.count("invalidation_requests", invalidated.requests);
            line.count("paths_queued", invalidated.queued_paths);
            line.count("queue_requests", invalidated.queue_requests);
            if let Some(gone_ms) = invalidated.keys_gone_ms {
                line.milliseconds("KeysGone", gone_ms);
            }
        }
        if let Some(archived) = &self.archived {
            line.count("lines_archived", archived.lines);
            line.count("firehose_records", archived.firehose_records);
            line.count("archive_bytes", archived.bytes);
            line.count("billed_units", archived.billed_units);
            line.count("archive_retries", archived.retries);
            line.count("direct_objects", archived.direct_objects);
            line.count("lines_archived_before", self.archived_before);
        }
        if let Some(notified) = &self.notified {
            add_events(&mut line, notified);
            line.count("events_queued", notified.queued);
        }
        if let Some(age_ms) = self.age_ms {
            line.milliseconds("RelayedRecordAge", age_ms);
        }
        line.freshness(HeartbeatStage::Archived, self.archived_heartbeat_age);
        line
    }
}

/// The events of a batch, aligned with its records; `None` for a record that cannot be recognised.
type BatchEvents = Vec<Option<EventFingerprint>>;

impl<K, D, Q, S, O, C: Clock> StreamRelay<K, D, Q, S, O, C> {
    /// A handler that invalidates, archives, or both.
    pub fn new(
        tables: SourceTables,
        invalidator: Option<CacheInvalidator<K, D, Q, C>>,
        archiver: Option<ChangeArchiver<S, O, C>>,
        clock: C,
    ) -> Self {
        let secrets = SecretAttributes::new(tables.model());
        let handled = HandledEvents::default();
        Self { tables, invalidator, archiver, notifier: None, secrets, handled, clock }
    }

    /// A handler of the projections that are there; `None` if none is.
    pub fn hosting(
        tables: SourceTables,
        invalidator: Option<CacheInvalidator<K, D, Q, C>>,
        archiver: Option<ChangeArchiver<S, O, C>>,
        notifier: Option<EventNotifier<AwsEventTarget, Q, C>>,
        clock: C,
    ) -> Option<Self>
    where
        Q: PathQueue,
    {
        if invalidator.is_none() && archiver.is_none() && notifier.is_none() {
            return None;
        }
        let relay = Self::new(tables, invalidator, archiver, clock);
        Some(match notifier {
            Some(notifier) => relay.notifying(notifier),
            None => relay,
        })
    }

    /// The same handler, which also publishes events.
    pub fn notifying<T: EventTarget>(
        self,
        notifier: EventNotifier<T, Q, C>,
    ) -> StreamRelay<K, D, Q, S, O, C, T>
    where
        Q: PathQueue,
    {
        let Self { tables, invalidator, archiver, notifier: _, secrets, handled, clock } = self;
        let notifier = Some(RecordNotifier::new(tables.model(), notifier));
        StreamRelay { tables, invalidator, archiver, notifier, secrets, handled, clock }
    }
}

impl<K, D, Q, S, O, C, T> StreamRelay<K, D, Q, S, O, C, T>
where
    K: Cache,
    D: Distribution,
    Q: PathQueue,
    S: DeliveryStream,
    O: ObjectStore,
    C: Clock,
    T: EventTarget,
{
    /// The model.
    #[must_use]
    pub fn model(&self) -> &Arc<Model> {
        self.tables.model()
    }

    /// Handles one event and returns before `deadline`.
    ///
    /// # Errors
    /// The whole invocation fails if the payload is not a DynamoDB stream event ([`Event`](afterwrite_model::ErrorKind::Event)), or if its table
    /// is unknown or of another region, or its stream does not carry the images that invalidation or a dataset needs
    /// ([`Stream`](afterwrite_model::ErrorKind::Stream)). Failures of single records are in the response instead.
    pub async fn handle(&self, event: &[u8], deadline: Timestamp) -> Result<RelayedBatch> {
        let batch = decode_event(event, self.model(), "relay")?;
        let sources = self.tables.source_keys(&batch)?;
        let records = identify_records(self.model(), &batch, &sources);
        let events: BatchEvents =
            (0..batch.records.len()).map(|index| EventFingerprint::of(&batch, index)).collect();
        let invalidate = self.invalidator.as_ref().map(|to| self.invalidate(to, &records, &events, deadline));
        let archive = self.archiver.as_ref().map(|to| self.archive(to, &batch, &records, &events, deadline));
        let notify = self.notifier.as_ref().map(|to| to.notify(&batch, &records, deadline));
        let (invalidated, archived, notified) =
            join3(OptionFuture::from(invalidate), OptionFuture::from(archive), OptionFuture::from(notify))
                .await;
        let invalidated = invalidated.transpose()?;
        let archived = archived.transpose()?;
        let (notified, unpublished) = notified.transpose()?.map(NotifiedRecords::into_parts).unzip();
        let archived_before = archived.as_ref().map_or(0, |archived| archived.before);
        let now = self.clock.now();
        let is_archived = archived.as_ref().is_some_and(|archived| archived.failures.is_empty());
        let heartbeat = newest_heartbeat(&batch, &records).filter(|_| is_archived);
        let archived_heartbeat_age = heartbeat.map(|written| now.since(written));
        let (archived, unarchived) = archived.map(|archived| (archived.totals, archived.failures)).unzip();
        let mut failures: Vec<RecordFailure> = unarchived.into_iter().chain(unpublished).flatten().collect();
        let (mut totals, mut refused) = (None, Vec::new());
        if let Some(invalidated) = invalidated {
            failures.extend(invalidated.failures);
            refused = invalidated.refused;
            totals = Some(invalidated.totals);
        }
        Ok(RelayedBatch {
            response: batch_response(&batch, &failures),
            records: batch.records.len(),
            invalidated: totals,
            archived,
            notified,
            archived_before,
            refused,
            failures: failed_records(&batch, failures),
            age_ms: age_ms(&batch, now),
            archived_heartbeat_age,
        })
    }

    async fn invalidate(
        &self,
        invalidator: &CacheInvalidator<K, D, Q, C>,
        records: &[IdentifiedRecord<'_>],
        events: &BatchEvents,
        deadline: Timestamp,
    ) -> Result<InvalidatedRecords> {
        let (mut changes, mut failures) = (Vec::new(), Vec::new());
        for record in records {
            let event = event_of(events, record.index);
            if event.is_some_and(|event| self.handled.invalidated.contains(event)) {
                continue;
            }
            let is_gone = event.is_some_and(|event| self.handled.keys_gone.contains(event));
            let stage = if is_gone { InvalidationStage::KeysGone } else { InvalidationStage::KeysStale };
            match self.cached_change(record, stage) {
                Ok(change) => changes.extend(change),
                Err(error) => {
                    failures.push(RecordFailure { index: record.index, error: record_error(error)? });
                }
            }
        }
        let outcome = Box::pin(invalidator.invalidate(&changes, deadline)).await;
        let gone = outcome.keys_gone.iter();
        self.handled.keys_gone.extend(gone.filter_map(|index| event_of(events, *index)));
        let done = changes.iter().filter(|change| !outcome.failures.contains_key(&change.record));
        self.handled.invalidated.extend(done.filter_map(|change| event_of(events, change.record)));
        failures.extend(outcome.failures.into_iter().map(|(index, error)| RecordFailure { index, error }));
        Ok(InvalidatedRecords { totals: outcome.totals, failures, refused: outcome.refused })
    }

    /// The change of an item that caches may hold; `None` for any other item.
    fn cached_change<'b>(
        &self,
        item: &'b IdentifiedRecord<'b>,
        stage: InvalidationStage,
    ) -> Result<Option<InvalidationChange<'b>>> {
        let record = item.record.map_err(|bad| bad.error.restated())?;
        item.source.map_err(Error::restated)?;
        let has_caches =
            |candidates: &&ItemCandidates<'_, '_>| candidates.any(|entity| !entity.caches.is_empty());
        let Some(candidates) = item.candidates.as_ref().filter(has_caches) else { return Ok(None) };
        if record.lacks_image() {
            return Err(candidates.missing_image(record, "invalidating caches"));
        }
        let old = record.old.decode(&self.model().attributes)?;
        let (index, event_id, new) = (item.index, &*record.event_id, record.new.as_ref());
        Ok(Some(InvalidationChange { record: index, event_id, candidates, old, new, stage }))
    }

    async fn archive(
        &self,
        archiver: &ChangeArchiver<S, O, C>,
        batch: &RecordBatch<'_>,
        records: &[IdentifiedRecord<'_>],
        events: &BatchEvents,
        deadline: Timestamp,
    ) -> Result<ArchivedRecords> {
        let (mut texts, mut failures) = (Vec::with_capacity(records.len()), Vec::new());
        let mut before = 0;
        for (record, json) in records.iter().zip(&batch.json) {
            self.check_dataset_images(record)?;
            if !self.is_archived(record) {
                continue;
            }
            if event_of(events, record.index).is_some_and(|event| self.handled.archived.contains(event)) {
                before += 1;
                continue;
            }
            let secrets = self.secrets.of_change(record.record.ok().zip(record.candidates.as_ref()));
            match archive_line(json, &secrets) {
                Ok(text) => texts.push((record.index, text)),
                Err(error) => failures.push(RecordFailure { index: record.index, error }),
            }
        }
        let lines: Vec<ArchiveLine<'_>> = texts
            .iter()
            .map(|(index, text)| ArchiveLine { index: *index, event_id: batch.event_id(*index), text })
            .collect();
        let outcome = Box::pin(archiver.archive(&lines, deadline)).await;
        let failed: BTreeSet<usize> = outcome.failures.iter().map(|failure| failure.index).collect();
        let done = texts.iter().map(|(index, _)| *index).filter(|index| !failed.contains(index));
        self.handled.archived.extend(done.filter_map(|index| event_of(events, index)));
        failures.extend(outcome.failures);
        Ok(ArchivedRecords { totals: outcome.totals, failures, before })
    }

    /// A record whose item is unknown because it is malformed is archived: nothing could restore it.
    ///
    /// Of the state table, only the items of rollups are archived that datasets export, or that event or cache rules read.
    fn is_archived(&self, record: &IdentifiedRecord<'_>) -> bool {
        let table = record.source.ok().map(|source| source.table);
        if table.is_some() && table == self.model().state_source() {
            return record.candidates.as_ref().is_some_and(|known| known.any(Entity::is_archived));
        }
        match self.model().archive {
            ArchiveScope::All => true,
            ArchiveScope::Matched => {
                let is_known = record.is_matched() || record.is_heartbeat();
                is_known || record.record.is_err() || record.source.is_err()
            }
        }
    }

    /// A stream that does not carry the images of a dataset's rows must not fill the archive unnoticed.
    fn check_dataset_images(&self, item: &IdentifiedRecord<'_>) -> Result<()> {
        let (Ok(record), Some(candidates)) = (item.record, &item.candidates) else { return Ok(()) };
        let may_lack_images = match record.view {
            Some(StreamView::NewImage | StreamView::OldImage | StreamView::KeysOnly) => true,
            Some(StreamView::NewAndOldImages) | None => false,
        };
        let is_incomplete = may_lack_images && record.lacks_image();
        if is_incomplete && candidates.any(|entity| !entity.datasets.is_empty()) {
            return Err(candidates.missing_image(record, "a dataset"));
        }
        Ok(())
    }
}

/// The result of invalidating caches for a batch.
struct InvalidatedRecords {
    totals: InvalidationTotals,
    failures: Vec<RecordFailure>,
    refused: Vec<RefusedPath>,
}

/// The result of archiving a batch.
struct ArchivedRecords {
    totals: ArchiveTotals,
    failures: Vec<RecordFailure>,
    /// Records whose lines are in the archive already.
    before: usize,
}

fn event_of(events: &BatchEvents, index: usize) -> Option<EventFingerprint> {
    events.get(index).copied().flatten()
}
