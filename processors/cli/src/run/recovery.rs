//! The recovery of a consumer whose stream lacks changes.
//!
//! | policy | recovery |
//! |---|---|
//! | `stop` | none: the consumer ends with exit code 3 |
//! | `backfill` | every item is reconciled with its table |
//! | `replay-archive` | the archive is replayed, from a day before the last checkpoint on |
//!
//! **Why a day.** A record that was not delivered when the checkpoint was written was in the stream then, so it was at most 24 hours old.
//! Records that are counted already are skipped; records that are older than tombstones live are reconciled.
//!
//! **When the archive is not enough.** If the stream was created again, the table had none for a while, and changes of that time are in no
//! archive. If the archive's writer was off for a day, changes are missing in the archive, too: between the last checkpoint and now, no object
//! arrived for 23 hours. Of the state table, the archive has no changes of rollups that are only counted. Each of these ends the consumer.

use std::collections::BTreeSet;
use std::time::Duration;

use afterwrite_input::{InputObject, RecordInput, TimeRange};
use afterwrite_mapping::StreamGap;
use afterwrite_model::clock::{Clock as _, SystemClock};
use afterwrite_model::record::Timestamp;
use afterwrite_model::table::{Entity, Model};
use afterwrite_model::{Error, ErrorKind, Result};
use afterwrite_operations::jobs::require_recovery;
use afterwrite_operations::replay::InputSource;
use afterwrite_services::config::{EnvironmentSettings, ProjectionKind};
use afterwrite_services::s3::S3Bucket;

use crate::backfill::BackfillCommand;
use crate::deployment::DeploymentArguments;
use crate::inputs::objects_of;
use crate::job_output::JobOptions;
use crate::replay::ReplayJob;
use crate::replay_target::ReplayProjection;

/// The longest time that a stream keeps a record, and a margin.
const STREAM_RETENTION: Duration = Duration::from_secs(25 * 60 * 60);
/// The archive must have an object of every such span of time: its writer was never off for as long as the stream keeps records.
const ARCHIVE_OVERLAP: Duration = Duration::from_secs(23 * 60 * 60);

/// The recovery of a consumer that misses changes.
pub(super) enum GapRecovery {
    /// Reconciles every item.
    Backfill(Box<BackfillCommand>),
    /// Replays the archive.
    Archive(ArchiveRecovery),
}

/// A replay of the archive.
#[derive(Debug)]
pub(super) struct ArchiveRecovery {
    bucket: String,
    only: Vec<ReplayProjection>,
    without_recovery: bool,
    as_json: bool,
}

impl GapRecovery {
    /// Recovers the changes of a table that the gap lacks. A replay needs the time of the last checkpoint: changes after it may be missing.
    pub(super) async fn recover(
        &self,
        table: &str,
        gap: &StreamGap,
        checkpoint_at: Option<Timestamp>,
    ) -> Result<()> {
        match self {
            Self::Backfill(backfill) => {
                eprintln!("afterwrite: {gap}; all items are reconciled");
                if Box::pin(backfill.recover()).await? {
                    return Ok(());
                }
                Err(Error::new(ErrorKind::State, "the backfill could not count every item").hint(
                    "See `afterwrite jobs list`; correct the items or the model, and start this command again",
                ))
            }
            Self::Archive(archive) => archive.replay(table, gap, checkpoint_at).await,
        }
    }
}

impl ArchiveRecovery {
    /// A replay of the environment's archive into what this consumer hosts.
    ///
    /// # Errors
    /// [`ErrorKind::Configuration`] if no bucket is set, or this consumer writes the archive itself.
    pub(super) fn new(
        settings: &EnvironmentSettings,
        hosted: &BTreeSet<ProjectionKind>,
        without_recovery: bool,
        as_json: bool,
    ) -> Result<Self> {
        let mut only = Vec::new();
        for projection in hosted {
            only.push(match projection {
                ProjectionKind::Aggregate => ReplayProjection::Aggregate,
                ProjectionKind::Invalidate => ReplayProjection::Invalidate,
                ProjectionKind::Notify => ReplayProjection::Notify,
                ProjectionKind::Archive => {
                    let problem = "--on-expired replay-archive needs an archive that another consumer writes";
                    return Err(Error::new(ErrorKind::Configuration, problem)
                        .hint("Remove `archive` from AFTERWRITE_PROJECTIONS, or use --on-expired backfill"));
                }
            });
        }
        let bucket = settings.required_bucket()?.to_string();
        Ok(Self { bucket, only, without_recovery, as_json })
    }

    async fn replay(&self, table: &str, gap: &StreamGap, checkpoint_at: Option<Timestamp>) -> Result<()> {
        let checkpoint_at = match (gap, checkpoint_at) {
            (StreamGap::Trimmed { .. }, Some(at)) => at,
            (StreamGap::Trimmed { .. }, None) => {
                return Err(not_enough("it is unknown when the last checkpoint was written"));
            }
            (StreamGap::Recreated { .. }, _) => {
                return Err(not_enough(
                    "the stream was created again: changes that were made while the table had no stream are in no archive",
                ));
            }
        };
        let from = checkpoint_at.minus(STREAM_RETENTION);
        eprintln!("afterwrite: {gap}; the archive is replayed from {from} on");
        let deployment = Box::pin(DeploymentArguments::default().connect()).await?;
        self.check_archived(&deployment.config.model, (table, &deployment.state_table))?;
        if self.only.contains(&ReplayProjection::Aggregate) {
            let tables = deployment.patient_tables();
            require_recovery(&tables, &deployment.state_table, self.without_recovery).await?;
        }
        let input = RecordInput::Prefix { bucket: self.bucket.clone(), prefix: "archive/".to_owned() };
        let range = TimeRange { from: Some(from), to: None };
        let objects = Box::pin(objects_of(std::slice::from_ref(&input), &range)).await?;
        check_overlap(&objects, table, checkpoint_at).await?;
        let source = InputSource::in_range(objects, range);
        let job = ReplayJob::of_inputs(std::slice::from_ref(&input), &range, self.only.clone());
        let plan = job.plan(&source);
        let options = JobOptions {
            yes: true,
            without_recovery: self.without_recovery,
            rate: None,
            workers: 1,
            json: self.as_json,
        };
        if Box::pin(job.start(&deployment, source, plan, &options)).await? {
            return Ok(());
        }
        Err(Error::new(ErrorKind::State, "some records of the archive were not processed").hint(
            "See `afterwrite jobs list`; correct the cause, and start this command again: counted records are skipped",
        ))
    }
}

impl ArchiveRecovery {
    /// Refuses to close a gap of the state table's stream if this consumer counts rollups whose changes are not archived.
    fn check_archived(&self, model: &Model, (table, state_table): (&str, &str)) -> Result<()> {
        let counts = table == state_table && self.only.contains(&ReplayProjection::Aggregate);
        let is_lost = |entity: &&Entity| counts && entity.is_used() && !entity.is_archived();
        let names: Vec<&str> = model.entities.iter().filter(is_lost).map(|entity| &*entity.name).collect();
        if names.is_empty() {
            return Ok(());
        }
        Err(not_enough("it has no changes of rollups that are only counted")
            .with("rollups", names.join(", ")))
    }
}

/// Refuses an archive whose writer of this table's changes may have been off for so long since the checkpoint that it missed changes itself.
async fn check_overlap(
    objects: &[InputObject<S3Bucket>],
    table: &str,
    checkpoint_at: Timestamp,
) -> Result<()> {
    let mut arrived = Vec::new();
    for object in objects {
        if let InputObject::Object { modified, .. } = object
            && has_change_of(object, table).await?
        {
            arrived.push(*modified);
        }
    }
    if arrived.is_empty() {
        return Err(not_enough("the archive has no change of the table of that time"));
    }
    match longest_pause(arrived, checkpoint_at, SystemClock.now()) {
        (_, pause) if pause < ARCHIVE_OVERLAP => Ok(()),
        (since, _) => {
            Err(not_enough("its writer may have been off for a day, so that it lacks changes itself")
                .with("no object after", since.to_string()))
        }
    }
}

/// Whether an object of the archive has a change of a table: the archive is shared by the tables, and each has a writer of its own.
async fn has_change_of(object: &InputObject<S3Bucket>, table: &str) -> Result<bool> {
    let stream = format!(":table/{table}/stream/");
    let mut records = object.open().await?;
    while let Some(record) = records.next_record()? {
        if record.is_ok_and(|json| json.contains(&stream)) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The longest time without an arrival from the last arrival before `begin` to `end`, and when it began.
fn longest_pause(mut arrived: Vec<Timestamp>, begin: Timestamp, end: Timestamp) -> (Timestamp, Duration) {
    arrived.sort_unstable();
    let later = arrived.split_off(arrived.partition_point(|at| *at <= begin));
    let mut since = arrived.last().copied().unwrap_or(begin);
    let mut longest = (since, Duration::ZERO);
    for at in later.into_iter().chain([end]) {
        if at.since(since) > longest.1 {
            longest = (since, at.since(since));
        }
        since = at;
    }
    longest
}

fn not_enough(reason: &str) -> Error {
    Error::new(ErrorKind::State, format!("the archive does not close the gap: {reason}"))
        .hint("Use --on-expired backfill, which reconciles every item with its table")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_archive_closes_no_gap_of_rollups_that_are_only_counted() {
        let model = |rules: &str| {
            let text = format!(
                r##"
name = "shop"
generation = 1
tables.shop.key = ["pk", "sk"]
entities.order = {{ key = {{ pk = "SHOP#{{shop}}", sk = "ORDER#{{order}}" }} }}
rollups.all.key = {{ PK = "ALL", SK = "SHOPS" }}
rollups.orders.key = {{ PK = "SHOP#{{shop}}", SK = "ORDERS" }}
aggregates = [
    {{ name = "orders", of = "order", into = "orders", measures.orders = "count" }},
    {{ name = "shops", of = "orders", into = "all", measures.shops = "count" }},
]
{rules}
"##
            );
            Model::parse(&text, "shop.toml").unwrap_or_else(|errors| panic!("{errors}"))
        };
        let checked = |only: &[ReplayProjection], model: &Model| {
            let recovery = ArchiveRecovery {
                bucket: "b".to_owned(),
                only: only.to_vec(),
                without_recovery: false,
                as_json: false,
            };
            recovery.check_archived(model, ("state", "state"))
        };
        let read = model("events = [{ name = \"first\", of = \"orders\" }]");
        let (counting, notifying) = ([ReplayProjection::Aggregate], [ReplayProjection::Notify]);
        assert!(checked(&counting, &read).is_ok() && checked(&notifying, &model("")).is_ok());
        let problem = checked(&counting, &model("")).unwrap_err().to_string();
        assert!(problem.contains("orders"), "{problem}");
    }

    #[test]
    fn c3_the_longest_pause_of_an_archive_includes_the_outage_at_the_checkpoint() {
        let hour = |hour: i64| Timestamp::from_epoch_seconds(1_770_400_000 + hour * 3_600);
        let pause = |arrived: &[i64], begin: i64, end: i64| {
            let arrived = arrived.iter().copied().map(hour).collect();
            let (since, pause) = longest_pause(arrived, hour(begin), hour(end));
            (since, pause.as_secs() / 3_600)
        };
        assert_eq!(pause(&[30, -2, 5, 28], 0, 31), (hour(5), 23));
        assert_eq!(pause(&[-10, 26], 0, 26), (hour(-10), 36), "the writer was off before the checkpoint");
        assert_eq!(pause(&[1, 2], 0, 40), (hour(2), 38), "it is off now");
        assert_eq!(pause(&[], 0, 25), (hour(0), 25));
    }
}
