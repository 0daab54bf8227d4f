//! The metrics of a batch that a handler returns.

pub use afterwrite_lambda::MetricsLabels;
use afterwrite_lambda::MetricsLine;
use afterwrite_model::heartbeat::HeartbeatStage;
use afterwrite_relay::notify::EventTotals;

use crate::{AggregatedBatch, InvalidatedMessages, RelayedBatch};

/// The metrics of the function `aggregator`.
#[must_use]
pub fn aggregated(batch: &AggregatedBatch) -> MetricsLine {
    let mut line = MetricsLine::default();
    line.count("records", batch.records);
    line.count("unmatched", batch.unmatched);
    line.count("failed", batch.failures.len());
    for (name, number) in batch.totals.named() {
        line.count(name, number);
    }
    if let Some(age_ms) = batch.age_ms {
        line.milliseconds("RecordAge", age_ms);
    }
    line.freshness(HeartbeatStage::Counted, batch.heartbeat_age);
    line
}

/// The metrics of the function `relay`, for the projections that it hosts.
#[must_use]
pub fn relayed(batch: &RelayedBatch) -> MetricsLine {
    let mut line = MetricsLine::default();
    line.count("records_relayed", batch.records);
    line.count("relay_failed", batch.failures.len());
    if let Some(invalidated) = &batch.invalidated {
        line.count("keys_invalidated", invalidated.keys);
        line.count("paths_invalidated", invalidated.paths);
        line.count("cache_commands", invalidated.commands);
        line.count("paths_refused", batch.refused.len());
        line.count("invalidation_requests", invalidated.requests);
        line.count("paths_queued", invalidated.queued_paths);
        line.count("queue_requests", invalidated.queue_requests);
        if let Some(gone_ms) = invalidated.keys_gone_ms {
            line.milliseconds("KeysGone", gone_ms);
        }
    }
    if let Some(archived) = &batch.archived {
        line.count("lines_archived", archived.lines);
        line.count("firehose_records", archived.firehose_records);
        line.count("archive_bytes", archived.bytes);
        line.count("billed_units", archived.billed_units);
        line.count("archive_retries", archived.retries);
        line.count("direct_objects", archived.direct_objects);
        line.count("lines_archived_before", batch.archived_before);
    }
    if let Some(notified) = &batch.notified {
        add_events(&mut line, notified);
        line.count("events_queued", notified.queued);
    }
    if let Some(age_ms) = batch.age_ms {
        line.milliseconds("RelayedRecordAge", age_ms);
    }
    line.freshness(HeartbeatStage::Archived, batch.archived_heartbeat_age);
    line
}

/// The metrics of the function `invalidator`.
#[must_use]
pub fn invalidated(batch: &InvalidatedMessages) -> MetricsLine {
    let mut line = MetricsLine::default();
    line.count("messages", batch.messages);
    line.count("messages_failed", batch.failures.len());
    line.count("paths_received", batch.received_paths);
    line.count("paths_invalidated", batch.paths);
    line.count("paths_refused", batch.refused.len());
    line.count("invalidation_requests", batch.requests);
    if let Some(notified) = &batch.notified {
        add_events(&mut line, notified);
    }
    line
}

/// The metrics of published events, which two functions have.
fn add_events(line: &mut MetricsLine, totals: &EventTotals) {
    line.count("events", totals.sent);
    line.count("events_failed", totals.failed);
    line.count("events_detail_omitted", totals.detail_omitted);
    line.count("event_requests", totals.requests);
    if let Some(oldest) = totals.oldest {
        line.milliseconds("EventAge", u64::try_from(oldest.as_millis()).unwrap_or(u64::MAX));
    }
}
