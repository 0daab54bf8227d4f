//! Delivers a batch until its handler has accepted it, or the records that block it are skipped.

use std::time::Duration;

use afterwrite::{ErrorKind, Result};
use fastrand::Rng;

use super::progress::{PollerProgress, SkippedRecord, length};
use super::response::{BatchVerdict, judge_response};
use super::settings::{EventHandler, MappingSettings};
use crate::sample::derived_random;
use crate::stream::StreamRecord;

/// The function's timeout.
const INVOCATION_TIMEOUT: Duration = Duration::from_secs(60);

/// Delivers a shard's batches, one after the other.
pub(super) struct ShardDelivery<'a, Function> {
    handler: &'a Function,
    settings: &'a MappingSettings,
    progress: &'a PollerProgress,
    shard: &'a str,
    random: Rng,
}

/// The rest of a batch, or a part of it.
#[derive(Clone, Copy)]
struct BatchPart<'r> {
    records: &'r [StreamRecord],
    /// Deliveries so far that did not get past its first record.
    attempts: u32,
}

impl<'r> BatchPart<'r> {
    fn fresh(records: &'r [StreamRecord]) -> Option<Self> {
        (!records.is_empty()).then_some(Self { records, attempts: 0 })
    }
}

impl<'a, Function: EventHandler> ShardDelivery<'a, Function> {
    pub(super) fn new(
        handler: &'a Function,
        settings: &'a MappingSettings,
        progress: &'a PollerProgress,
        shard: &'a str,
    ) -> Self {
        Self { handler, settings, progress, shard, random: derived_random(settings.faults.seed, shard) }
    }

    /// Delivers a batch; returns once each of its records is accepted or skipped.
    pub(super) async fn deliver(&mut self, batch: &[StreamRecord]) -> Result<()> {
        let skipped = self.deliver_all(batch).await?;
        self.progress.count(|counts| counts.accepted += length(batch) - skipped);
        if self.random.u32(0..1000) < self.settings.faults.redeliver_per_mille {
            let again = self.choose_stretch(batch);
            self.progress.count(|counts| counts.redelivered += length(again));
            self.deliver_all(again).await?;
        }
        Ok(())
    }

    /// The whole batch, or any stretch of it.
    fn choose_stretch<'r>(&mut self, batch: &'r [StreamRecord]) -> &'r [StreamRecord] {
        let start = if self.random.bool() { 0 } else { self.random.usize(..batch.len().max(1)) };
        let rest = batch.get(start..).unwrap_or_default();
        let length = if self.random.bool() { rest.len() } else { self.random.usize(1..=rest.len().max(1)) };
        rest.get(..length).unwrap_or(rest)
    }

    /// Delivers until nothing is left; returns the number of skipped records.
    async fn deliver_all(&self, records: &[StreamRecord]) -> Result<u64> {
        // A stack: the next part is the last one.
        let mut parts: Vec<BatchPart<'_>> = BatchPart::fresh(records).into_iter().collect();
        let mut is_retry = false;
        let mut skipped = 0;
        while let Some(part) = parts.pop() {
            self.progress.count(|counts| {
                counts.batches += 1;
                counts.retries += u64::from(is_retry);
            });
            let (verdict, reason) = self.invoke(part.records).await?;
            is_retry = verdict != BatchVerdict::Accepted;
            let attempts = part.attempts + 1;
            match verdict {
                BatchVerdict::Accepted => {}
                BatchVerdict::FailedFrom(index) if index > 0 => {
                    parts.extend(BatchPart::fresh(part.records.get(index..).unwrap_or_default()));
                }
                BatchVerdict::FailedFrom(_) | BatchVerdict::Failed
                    if attempts < self.settings.max_attempts =>
                {
                    parts.push(BatchPart { attempts, ..part });
                }
                BatchVerdict::Failed if part.records.len() > 1 => {
                    // The failing record is unknown: bisect.
                    let (first, second) = part.records.split_at(part.records.len() / 2);
                    parts.extend([second, first].into_iter().filter_map(BatchPart::fresh));
                }
                BatchVerdict::FailedFrom(_) | BatchVerdict::Failed => {
                    skipped += 1;
                    parts.extend(self.skip_first(part.records, reason));
                }
            }
            if is_retry {
                tokio::time::sleep(self.settings.pause_after(attempts)).await;
            }
        }
        Ok(skipped)
    }

    /// Invokes the handler once; returns the verdict, and the reason if not all records were accepted.
    async fn invoke(&self, records: &[StreamRecord]) -> Result<(BatchVerdict, String)> {
        let records_json: Vec<&str> = records.iter().map(|record| record.json.as_str()).collect();
        let event = format!("{{\"Records\":[{}]}}", records_json.join(",")).into_bytes();
        let handling = self.handler.handle(event, INVOCATION_TIMEOUT);
        match tokio::time::timeout(INVOCATION_TIMEOUT, handling).await {
            Err(_) => Ok((BatchVerdict::Failed, "the invocation exceeded its timeout".to_owned())),
            Ok(Err(error)) => match error.kind() {
                // Not the fault of a record, and a retry does not help: the poller ends.
                ErrorKind::Event | ErrorKind::Stream | ErrorKind::Model | ErrorKind::Configuration => {
                    Err(error)
                }
                ErrorKind::Record
                | ErrorKind::Unavailable
                | ErrorKind::Conflict
                | ErrorKind::Rejected
                | ErrorKind::State => Ok((BatchVerdict::Failed, error.to_string())),
            },
            Ok(Ok(response)) => {
                let numbers: Vec<&str> =
                    records.iter().map(|record| record.sequence_number.as_str()).collect();
                let (verdict, reason) = judge_response(&response, &numbers);
                Ok((verdict, reason.to_owned()))
            }
        }
    }

    fn skip_first<'r>(&self, records: &'r [StreamRecord], reason: String) -> Option<BatchPart<'r>> {
        let (first, rest) = records.split_first()?;
        self.progress.add_skipped(SkippedRecord {
            shard: self.shard.to_owned(),
            sequence_number: first.sequence_number.clone(),
            reason,
        });
        BatchPart::fresh(rest)
    }
}
