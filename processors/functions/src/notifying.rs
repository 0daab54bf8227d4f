//! The events of a batch: which records have them, their way to the notifier, and their metrics.

use std::collections::HashSet;
use std::sync::Arc;

use afterwrite_lambda::MetricsLine;
use afterwrite_model::Result;
use afterwrite_model::clock::Clock;
use afterwrite_model::entity::SourceKey;
use afterwrite_model::projection::{Event, EventChange, SecretAttributes, events_of};
use afterwrite_model::record::{RecordBatch, RecordFailure, Timestamp};
use afterwrite_model::table::Model;
use afterwrite_relay::notify::{EventNotifier, EventTotals, RecordEvents};
use afterwrite_services::{EventTarget, PathQueue};

use crate::batch::{IdentifiedRecord, record_error};

/// The result of publishing the events of a batch.
pub(crate) struct NotifiedRecords {
    pub(crate) totals: EventTotals,
    pub(crate) failures: Vec<RecordFailure>,
}

impl NotifiedRecords {
    pub(crate) fn into_parts(self) -> (EventTotals, Vec<RecordFailure>) {
        (self.totals, self.failures)
    }
}

/// Publishes the events of records.
#[derive(Debug)]
pub(crate) struct RecordNotifier<T, Q, C> {
    model: Arc<Model>,
    secrets: SecretAttributes,
    notifier: EventNotifier<T, Q, C>,
}

impl<T: EventTarget, Q: PathQueue, C: Clock> RecordNotifier<T, Q, C> {
    pub(crate) fn new(model: &Arc<Model>, notifier: EventNotifier<T, Q, C>) -> Self {
        Self { model: Arc::clone(model), secrets: SecretAttributes::new(model), notifier }
    }

    /// Publishes the events of a batch, by `deadline` at the latest.
    ///
    /// # Errors
    /// [`Stream`](afterwrite_model::ErrorKind::Stream) if the stream does not carry the images that events need.
    pub(crate) async fn notify(
        &self,
        batch: &RecordBatch<'_>,
        records: &[IdentifiedRecord<'_>],
        deadline: Timestamp,
    ) -> Result<NotifiedRecords> {
        let (mut with_events, mut failures) = (Vec::new(), Vec::new());
        let mut failed_items: HashSet<&SourceKey<'_>> = HashSet::new();
        for (record, json) in records.iter().zip(&batch.json) {
            match self.events(record, json) {
                Ok(events) if events.is_empty() => {}
                Ok(events) => {
                    let is_behind = record.source.is_ok_and(|source| failed_items.contains(source));
                    with_events.push(RecordEvents { record: record.index, is_behind, events });
                }
                Err(error) => {
                    failed_items.extend(record.source.ok());
                    failures.push(RecordFailure { index: record.index, error: record_error(error)? });
                }
            }
        }
        let outcome = Box::pin(self.notifier.notify(&with_events, deadline)).await;
        failures.extend(outcome.failures.into_iter().map(|(index, error)| RecordFailure { index, error }));
        Ok(NotifiedRecords { totals: outcome.totals, failures })
    }

    fn events(&self, item: &IdentifiedRecord<'_>, json: &str) -> Result<Vec<Event>> {
        let record = item.record.map_err(|bad| bad.error.restated())?;
        let source = item.source.map_err(afterwrite_model::Error::restated)?;
        let change = EventChange { source, candidates: item.candidates.as_ref(), record, json };
        events_of(&self.model, &change, &self.secrets)
    }
}

/// The metrics of published events, which two functions have.
pub(crate) fn add_events(line: &mut MetricsLine, totals: &EventTotals) {
    line.count("events", totals.sent);
    line.count("events_failed", totals.failed);
    line.count("events_detail_omitted", totals.detail_omitted);
    line.count("event_requests", totals.requests);
    if let Some(oldest) = totals.oldest {
        line.milliseconds("EventAge", u64::try_from(oldest.as_millis()).unwrap_or(u64::MAX));
    }
}
