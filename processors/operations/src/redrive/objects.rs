//! The objects that Lambda writes to an on-failure destination in S3.

use std::sync::Arc;

use afterwrite::clock::Clock;
use afterwrite::record::Timestamp;
use afterwrite::sink::Bucket;
use afterwrite::{Error, ErrorKind, Result};
use futures::TryStreamExt as _;
use serde::Serialize;

use crate::input::{InputObject, TimeRange};
use crate::jobs::JobTotals;
use crate::replay::{RecordTarget, TargetOutcome};

/// The prefix to which objects move whose records are processed.
const REDRIVEN: &str = "redriven/";
/// The time that the records of one object may take.
const OBJECT_TIME: std::time::Duration = std::time::Duration::from_secs(120);

/// What happens to an object whose records are all processed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SettledObjects {
    /// It moves to `redriven/<key>`.
    Move,
    /// It is deleted.
    Delete,
    /// It stays: a dry run.
    Keep,
}

/// The result of a redrive of objects.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
pub struct RedrivenObjects {
    /// Objects whose records are all processed.
    pub objects: u64,
    /// Their records, and those of the failed objects that were processed.
    pub records: u64,
    /// The objects that stay.
    pub failed: Vec<FailedObject>,
    /// Counters of the handlers.
    pub totals: JobTotals,
}

/// An object that stays, and why.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct FailedObject {
    /// Its key.
    pub key: String,
    /// The first reason.
    pub reason: String,
}

/// A redrive of the objects of a prefix.
#[derive(Debug)]
pub struct ObjectRedrive<'r, A, R, B, C> {
    /// The handler that counts.
    pub aggregator: &'r A,
    /// The handler that invalidates and archives.
    pub relay: &'r R,
    /// The bucket.
    pub bucket: &'r Arc<B>,
    /// What happens to processed objects.
    pub settled: SettledObjects,
    /// The clock.
    pub clock: C,
}

impl<A: RecordTarget, R: RecordTarget, B: Bucket, C: Clock> ObjectRedrive<'_, A, R, B, C> {
    /// Processes the objects of a prefix, the oldest first. `progress` is called after each object.
    ///
    /// # Errors
    /// As [`Bucket::list`]; a wrong setting, which would fail every object.
    pub async fn run(&self, prefix: &str, mut progress: impl FnMut(&RedrivenObjects)) -> Result<RedrivenObjects> {
        let mut objects = InputObject::of_prefix(self.bucket, &Arc::from(""), prefix, &TimeRange::default()).await?;
        objects.retain(|object| !key_of(object).starts_with(REDRIVEN));
        objects.sort_by(|one, other| age_of(one).cmp(&age_of(other)));
        let mut redriven = RedrivenObjects::default();
        for object in &objects {
            let key = key_of(object);
            match Box::pin(self.redrive(object, &mut redriven)).await {
                Ok(()) => {
                    self.settle(key).await?;
                    redriven.objects += 1;
                }
                Err(error) if concerns_all(&error) => return Err(error),
                Err(error) => redriven.failed.push(FailedObject { key: key.to_owned(), reason: error.to_string() }),
            }
            progress(&redriven);
        }
        Ok(redriven)
    }

    /// Delivers the records of an object; an error is the first reason why it is not settled.
    async fn redrive(&self, object: &InputObject<B>, redriven: &mut RedrivenObjects) -> Result<()> {
        let mut reader = object.open().await?;
        let mut records = Vec::new();
        while let Some(record) = reader.next_record()? {
            records.push(record.map_err(|rejected| not_redrivable(rejected.reason))?);
        }
        let event = format!("{{\"Records\":[{}]}}", records.join(",")).into_bytes();
        let deadline = self.clock.now().plus(OBJECT_TIME);
        let counted = self.aggregator.deliver(&event, deadline).await?;
        let relayed = self.relay.deliver(&event, deadline).await?;
        let mut unprocessed = 0;
        let mut first = None;
        for TargetOutcome { totals, failed, parked } in [counted, relayed] {
            for (name, number) in totals {
                *redriven.totals.entry(name).or_default() += number;
            }
            unprocessed += failed.len() + parked.len();
            first = first.or(failed.into_iter().chain(parked).next());
        }
        redriven.records += u64::try_from(records.len().saturating_sub(unprocessed)).unwrap_or(0);
        first.map_or(Ok(()), |failed| Err(failed.error))
    }

    async fn settle(&self, key: &str) -> Result<()> {
        match self.settled {
            SettledObjects::Keep => return Ok(()),
            SettledObjects::Delete => {}
            SettledObjects::Move => {
                let Some(chunks) = self.bucket.get(key).await? else { return Ok(()) };
                let content = chunks.try_collect::<Vec<_>>().await?.concat();
                self.bucket.put(&format!("{REDRIVEN}{key}"), content).await?;
            }
        }
        self.bucket.delete(&[key.to_owned()]).await
    }
}

fn key_of<B>(object: &InputObject<B>) -> &str {
    match object {
        InputObject::Object { key, .. } => key,
        InputObject::StandardInput | InputObject::File(_) => "",
    }
}

fn age_of<B>(object: &InputObject<B>) -> (Timestamp, &str) {
    match object {
        InputObject::Object { key, modified, .. } => (*modified, key),
        InputObject::StandardInput | InputObject::File(_) => (Timestamp::from_epoch_ms(0), ""),
    }
}

/// Whether an error is a wrong setting, and no property of an object.
fn concerns_all(error: &Error) -> bool {
    match error.kind() {
        ErrorKind::Configuration | ErrorKind::Model => true,
        ErrorKind::Event
        | ErrorKind::Stream
        | ErrorKind::Record
        | ErrorKind::Unavailable
        | ErrorKind::Conflict
        | ErrorKind::Rejected
        | ErrorKind::State => false,
    }
}

fn not_redrivable(reason: &str) -> Error {
    Error::new(ErrorKind::Rejected, format!("the object has no records: {reason}")).hint(
        "Only on-failure destinations in S3 have the event; what SQS and SNS destinations name is in the archive: replay its hour",
    )
}
