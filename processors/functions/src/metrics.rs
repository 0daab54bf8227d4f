//! The metrics of a batch.

use afterwrite_lambda::MetricsLine;

use crate::{AggregatedBatch, RelayedBatch};

/// What was counted of a batch.
#[must_use]
pub fn aggregated(handled: &AggregatedBatch) -> MetricsLine {
    let mut line = MetricsLine::default();
    line.count("records", handled.records);
    line.count("unmatched", handled.unmatched);
    line.count("failed", handled.failures.len());
    for (name, number) in handled.totals.named() {
        line.count(name, number);
    }
    if let Some(age_ms) = handled.age_ms {
        line.milliseconds("RecordAge", age_ms);
    }
    line
}

/// What was passed on of a batch: of each part what it hosts.
#[must_use]
pub fn relayed(relayed: &RelayedBatch) -> MetricsLine {
    let mut line = MetricsLine::default();
    line.count("records_relayed", relayed.records);
    line.count("relay_failed", relayed.failures.len());
    if let Some(invalidated) = &relayed.invalidated {
        line.count("keys_invalidated", invalidated.keys);
        line.count("paths_invalidated", invalidated.paths);
        line.count("cache_commands", invalidated.commands);
        line.count("invalidation_requests", invalidated.requests);
        if let Some(gone_ms) = invalidated.keys_gone_ms {
            line.milliseconds("KeysGone", gone_ms);
        }
    }
    if let Some(archived) = &relayed.archived {
        line.count("lines_archived", archived.lines);
        line.count("firehose_records", archived.firehose_records);
        line.count("archive_bytes", archived.bytes);
        line.count("billed_units", archived.billed_units);
        line.count("archive_retries", archived.retries);
        line.count("direct_objects", archived.direct_objects);
    }
    if let Some(age_ms) = relayed.age_ms {
        line.milliseconds("RelayedRecordAge", age_ms);
    }
    line
}
