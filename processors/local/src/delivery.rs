//! Delivering one batch until its handler has accepted it, or what blocks it is given up.

use afterwrite::{ErrorKind, Result};
use fastrand::Rng;

use super::event::event_json;
use super::poller::{Handler, Settings};
use super::progress::{Progress, Skipped};
use super::response::{Verdict, verdict};
use super::stream::Record;

/// Delivers a shard's batches, one after the other.
pub(super) struct Delivery<'a, Function> {
    handler: &'a Function,
    settings: &'a Settings,
    progress: &'a Progress,
    shard: &'a str,
    random: Rng,
}

/// What is left of a batch, or a part of that.
#[derive(Clone, Copy)]
struct Part<'r> {
    records: &'r [Record],
    /// Deliveries so far in which its first record stayed where it is.
    attempts: u32,
}

impl<'r> Part<'r> {
    fn fresh(records: &'r [Record]) -> Option<Self> {
        (!records.is_empty()).then_some(Self { records, attempts: 0 })
    }
}

impl<'a, Function: Handler> Delivery<'a, Function> {
    pub(super) fn new(
        handler: &'a Function,
        settings: &'a Settings,
        progress: &'a Progress,
        shard: &'a str,
    ) -> Self {
        let seed = shard
            .bytes()
            .fold(settings.faults.seed, |seed, byte| seed.wrapping_mul(31).wrapping_add(u64::from(byte)));
        Self { handler, settings, progress, shard, random: Rng::with_seed(seed) }
    }

    /// Delivers a batch; returns once each of its records is accepted or skipped.
    pub(super) async fn deliver(&mut self, batch: &[Record]) -> Result<()> {
        let skipped = self.deliver_all(batch).await?;
        self.progress.accepted(batch.len() - skipped);
        if self.random.u32(0..1000) < self.settings.faults.redeliver_per_mille {
            let again = self.recut(batch);
            self.progress.redelivered(again.len());
            self.deliver_all(again).await?;
        }
        Ok(())
    }

    /// The whole batch, or any stretch of it.
    fn recut<'r>(&mut self, batch: &'r [Record]) -> &'r [Record] {
        let start = if self.random.bool() { 0 } else { self.random.usize(..batch.len().max(1)) };
        let rest = batch.get(start..).unwrap_or_default();
        let length = if self.random.bool() { rest.len() } else { self.random.usize(1..=rest.len().max(1)) };
        rest.get(..length).unwrap_or(rest)
    }

    /// Delivers until nothing is left, and says how many records were skipped.
    async fn deliver_all(&self, records: &[Record]) -> Result<usize> {
        // The next part is the last one.
        let mut parts: Vec<Part<'_>> = Part::fresh(records).into_iter().collect();
        let mut is_retry = false;
        let mut skipped = 0;
        while let Some(part) = parts.pop() {
            self.progress.invoked(is_retry);
            let (verdict, reason) = self.invoke(part.records).await?;
            is_retry = verdict != Verdict::Accepted;
            let attempts = part.attempts + 1;
            match verdict {
                Verdict::Accepted => {}
                Verdict::FailedFrom(index) if index > 0 => {
                    parts.extend(Part::fresh(part.records.get(index..).unwrap_or_default()));
                }
                Verdict::FailedFrom(_) | Verdict::Failed if attempts < self.settings.max_attempts => {
                    parts.push(Part { attempts, ..part });
                }
                Verdict::Failed if part.records.len() > 1 => {
                    // Nothing says which record fails.
                    let (first, second) = part.records.split_at(part.records.len() / 2);
                    parts.extend([second, first].into_iter().filter_map(Part::fresh));
                }
                Verdict::FailedFrom(_) | Verdict::Failed => {
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

    /// One invocation: what becomes of the batch, and the reason if not all of it was accepted.
    async fn invoke(&self, records: &[Record]) -> Result<(Verdict, String)> {
        let event = event_json(records.iter().map(|record| record.json.as_str()));
        let handling = self.handler.handle(event, self.settings.timeout);
        match tokio::time::timeout(self.settings.timeout, handling).await {
            Err(_) => Ok((Verdict::Failed, "the invocation took longer than its timeout".to_owned())),
            Ok(Err(error)) => match error.kind() {
                // No record is at fault and no later delivery mends it: whoever started the poller must know.
                ErrorKind::Event | ErrorKind::Stream | ErrorKind::Model | ErrorKind::Configuration => {
                    Err(error)
                }
                ErrorKind::Record
                | ErrorKind::Unavailable
                | ErrorKind::Conflict
                | ErrorKind::Rejected
                | ErrorKind::State => Ok((Verdict::Failed, error.to_string())),
            },
            Ok(Ok(response)) => {
                let numbers: Vec<&str> =
                    records.iter().map(|record| record.sequence_number.as_str()).collect();
                let (verdict, reason) = verdict(&response, &numbers);
                Ok((verdict, reason.to_owned()))
            }
        }
    }

    fn skip_first<'r>(&self, records: &'r [Record], reason: String) -> Option<Part<'r>> {
        let (first, rest) = records.split_first()?;
        self.progress.skip(Skipped {
            shard: self.shard.to_owned(),
            sequence_number: first.sequence_number.clone(),
            reason,
        });
        Part::fresh(rest)
    }
}
