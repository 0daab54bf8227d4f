//! The jobs of a state table.
//!
//! Jobs are found without a scan: the item `AFTERWRITE#JOB#` has an attribute for each job, its id, with the time of its creation. It keeps the
//! newest [`MAX_LISTED`].

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use afterwrite::clock::Clock;
use afterwrite::commit::OperationItem;
use afterwrite::effect::{AttributeChange, ItemKey, Write, WriteAction, WriteCondition, WriteRefusal};
use afterwrite::record::{AttributePath, AttributeValue, Item, Timestamp};
use afterwrite::retry::RetryPolicy;
use afterwrite::sink::{Tables, WriteError};
use afterwrite::{Error, ErrorKind, Result};
use serde_json::Value;

use super::codec;
use super::plan::JobPlan;
use super::state::{JobKind, JobLease, JobState, JobStatus, WorkUnit};

/// The jobs that a list shows.
const MAX_LISTED: usize = 100;
/// How long a process keeps a job without a sign of life.
pub(super) const LEASE_TIME: Duration = Duration::from_secs(60);
/// How long a request on a job is retried.
const REQUEST_TIME: Duration = Duration::from_secs(20);
/// The attributes of the list that are not ids.
const LIST_ATTRIBUTES: [&str; 3] = ["PK", "SK", "EntityType"];

/// A request of an operator, from any machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobControl {
    /// The process that runs it saves its cursors and ends.
    Pause,
    /// As [`JobControl::Pause`], and the job can never be resumed.
    Stop,
    /// Sets the most items a second; `None` for no limit.
    SetRate(Option<u64>),
}

/// The jobs of one state table.
#[derive(Debug)]
pub struct JobStore<T, C> {
    tables: T,
    clock: C,
    state_table: Arc<str>,
}

impl<T: Tables, C: Clock> JobStore<T, C> {
    /// The jobs in `state_table`.
    pub fn new(tables: T, clock: C, state_table: Arc<str>) -> Self {
        Self { tables, clock, state_table }
    }

    /// The state table.
    pub(super) fn state_table(&self) -> &Arc<str> {
        &self.state_table
    }

    /// The source of time and randomness.
    #[must_use]
    pub fn clock(&self) -> &C {
        &self.clock
    }

    /// Creates a job with this work.
    ///
    /// # Errors
    /// As [`Tables::write`].
    pub async fn create(
        &self,
        kind: JobKind,
        arguments: Value,
        units: Vec<WorkUnit>,
        plan: JobPlan,
        rate: Option<u64>,
    ) -> Result<JobState> {
        let now = self.clock.now();
        let job = JobState {
            id: new_id(kind, now, &self.clock),
            kind,
            arguments,
            status: JobStatus::Planned,
            units,
            rate,
            totals: BTreeMap::new(),
            plan,
            lease: None,
            created_at: now,
            started_at: None,
            updated_at: now,
            failure: None,
        };
        let key = OperationItem::Job.key(&self.state_table, &job.id);
        let action = WriteAction::Put(codec::encode(&job)?);
        // A second attempt may find the item of the first.
        self.write(Write { key, condition: WriteCondition::Always, action }).await?;
        self.list_job(&job).await?;
        Ok(job)
    }

    /// Adds a job to the list, and removes the oldest ones beyond the limit.
    async fn list_job(&self, job: &JobState) -> Result<()> {
        let mut listed = self.listed().await?;
        let entity_type = AttributeValue::text(OperationItem::Job.entity_type());
        let mut changes = vec![
            AttributeChange::Set(AttributePath::from("EntityType"), entity_type),
            AttributeChange::Set(AttributePath::from(job.id.as_str()), codec::time_value(job.created_at)),
        ];
        listed.truncate(listed.len().saturating_sub(MAX_LISTED - 1));
        changes.extend(listed.iter().map(|id| AttributeChange::Remove(AttributePath::from(id.as_str()))));
        let action = WriteAction::Update(changes);
        self.write(Write { key: self.list_key(), condition: WriteCondition::Always, action }).await.map(drop)
    }

    /// The listed ids, the oldest first.
    async fn listed(&self) -> Result<Vec<String>> {
        let Some(list) = self.read(&[self.list_key()]).await?.pop().flatten() else { return Ok(Vec::new()) };
        let ids = list.iter().filter(|(name, _)| !LIST_ATTRIBUTES.contains(&name.as_ref()));
        let mut ids: Vec<(i64, String)> = ids
            .map(|(id, at)| (at.as_number().and_then(|at| at.to_i64()).unwrap_or(0), id.to_string()))
            .collect();
        ids.sort();
        Ok(ids.into_iter().map(|(_, id)| id).collect())
    }

    fn list_key(&self) -> ItemKey {
        OperationItem::Job.key(&self.state_table, "")
    }

    /// The newest jobs, the newest first.
    ///
    /// # Errors
    /// As [`Tables::read`]; [`ErrorKind::State`] for an unreadable job.
    pub async fn list(&self) -> Result<Vec<JobState>> {
        let ids = self.listed().await?;
        let keys: Vec<_> = ids.iter().rev().map(|id| OperationItem::Job.key(&self.state_table, id)).collect();
        self.read(&keys).await?.into_iter().flatten().map(|item| codec::decode(&item)).collect()
    }

    /// The job with this id.
    ///
    /// # Errors
    /// [`ErrorKind::Configuration`] if there is no such job; as [`JobStore::list`].
    pub async fn load(&self, id: &str) -> Result<JobState> {
        match self.read(&[OperationItem::Job.key(&self.state_table, id)]).await?.pop().flatten() {
            Some(item) => codec::decode(&item),
            None => Err(Error::new(ErrorKind::Configuration, "the state table has no such job")
                .with("job", id)
                .with("table", &*self.state_table)
                .hint("`afterwrite jobs list` shows the jobs")),
        }
    }

    /// Controls a job, whether or not a process runs it.
    ///
    /// # Errors
    /// [`ErrorKind::Configuration`] if there is no such job, or it has ended.
    pub async fn control(&self, id: &str, control: JobControl) -> Result<JobState> {
        let job = self.load(id).await?;
        if !job.status.can_run() {
            return Err(Error::new(ErrorKind::Configuration, "the job has ended").with("job", id));
        }
        let status = |status: JobStatus| set(codec::STATUS, AttributeValue::text(status.name()));
        let change = match control {
            JobControl::Pause => status(JobStatus::Paused),
            JobControl::Stop => status(JobStatus::Stopped),
            JobControl::SetRate(Some(rate)) => set(codec::RATE, codec::number_value(rate)),
            JobControl::SetRate(None) => AttributeChange::Remove(AttributePath::from(codec::RATE)),
        };
        let condition = WriteCondition::All(vec![
            WriteCondition::ItemExists,
            differs(JobStatus::Done),
            differs(JobStatus::Stopped),
        ]);
        match self.update(id, condition, vec![change]).await? {
            None => self.load(id).await,
            Some(_) => Err(Error::new(ErrorKind::Configuration, "the job has ended").with("job", id)),
        }
    }

    /// Takes the lease of a job, so that this process alone runs it.
    ///
    /// # Errors
    /// [`ErrorKind::Configuration`] if the job has ended, or another process runs it.
    pub async fn acquire(&self, id: &str) -> Result<JobState> {
        let now = self.clock.now();
        let job = self.load(id).await?;
        if !job.status.can_run() {
            return Err(Error::new(ErrorKind::Configuration, format!("the job is {}", job.status.name()))
                .with("job", id)
                .hint("Create a new job with the same arguments"));
        }
        let lease = JobLease { owner: new_owner(now, &self.clock), until: now.plus(LEASE_TIME) };
        let free = WriteCondition::Any(vec![
            WriteCondition::Absent(AttributePath::from(codec::LEASE_OWNER)),
            WriteCondition::Less(AttributePath::from(codec::LEASE_UNTIL), codec::time_value(now)),
            // The response to an earlier attempt was lost.
            WriteCondition::Equals(
                AttributePath::from(codec::LEASE_OWNER),
                AttributeValue::text(lease.owner.as_str()),
            ),
        ]);
        let started_at = job.started_at.unwrap_or(now);
        let mut changes = lease_changes(&lease);
        changes.extend([
            set(codec::STATUS, AttributeValue::text(JobStatus::Running.name())),
            set(codec::STARTED_AT, codec::time_value(started_at)),
            set(codec::UPDATED_AT, codec::time_value(now)),
            AttributeChange::Remove(AttributePath::from(codec::FAILURE)),
        ]);
        let condition =
            WriteCondition::All(vec![free, differs(JobStatus::Done), differs(JobStatus::Stopped)]);
        match self.update(id, condition, changes).await? {
            None => self.load(id).await,
            Some(other) => {
                let until =
                    codec::decode(&other)?.lease.map_or_else(String::new, |lease| lease.until.to_string());
                Err(Error::new(ErrorKind::Configuration, "another process runs the job")
                    .with("job", id)
                    .with("its lease ends at", until)
                    .hint("Pause the job first, or wait for the end of the lease if that process was killed"))
            }
        }
    }

    /// Saves the progress of a job that this process runs, and renews the lease. Returns the job as another process changed it, if
    /// it is no longer this process's to run.
    pub(super) async fn save(&self, job: &mut JobState) -> Result<Option<JobState>> {
        let Some(lease) = &mut job.lease else { return Ok(Some(job.clone())) };
        let now = self.clock.now();
        lease.until = now.plus(LEASE_TIME);
        job.updated_at = now;
        let mut changes = lease_changes(lease);
        let owned = owned_by(lease);
        changes.extend(progress_changes(job)?);
        let running = WriteCondition::Equals(
            AttributePath::from(codec::STATUS),
            AttributeValue::text(JobStatus::Running.name()),
        );
        match self.update(&job.id, WriteCondition::All(vec![owned, running]), changes).await? {
            None => Ok(None),
            Some(stored) => codec::decode(&stored).map(Some),
        }
    }

    /// Saves the progress of a job and gives up its lease. A status that an operator set in the meantime is kept.
    pub(super) async fn release(&self, job: &mut JobState) -> Result<()> {
        let Some(lease) = job.lease.take() else { return Ok(()) };
        job.updated_at = self.clock.now();
        let mut changes = progress_changes(job)?;
        for name in [codec::LEASE_OWNER, codec::LEASE_UNTIL] {
            changes.push(AttributeChange::Remove(AttributePath::from(name)));
        }
        let mut with_status = changes.clone();
        with_status.push(set(codec::STATUS, AttributeValue::text(job.status.name())));
        if let Some(failure) = &job.failure {
            with_status.push(set(codec::FAILURE, AttributeValue::text(failure.as_str())));
        }
        let running = WriteCondition::Equals(
            AttributePath::from(codec::STATUS),
            AttributeValue::text(JobStatus::Running.name()),
        );
        let condition = WriteCondition::All(vec![owned_by(&lease), running]);
        let Some(stored) = self.update(&job.id, condition, with_status).await? else { return Ok(()) };
        let stored = codec::decode(&stored)?;
        if stored.lease.as_ref().is_some_and(|other| other.owner == lease.owner) {
            let status = set(codec::STATUS, AttributeValue::text(final_status(job, &stored).name()));
            job.status = final_status(job, &stored);
            changes.push(status);
            self.update(&job.id, owned_by(&lease), changes).await?;
        }
        Ok(())
    }

    /// The stored state of a job, for its status and rate.
    pub(super) async fn reload(&self, job: &JobState) -> Result<JobState> {
        self.load(&job.id).await
    }

    /// Updates a job; returns the stored item if the condition does not hold.
    async fn update(
        &self,
        id: &str,
        condition: WriteCondition,
        changes: Vec<AttributeChange>,
    ) -> Result<Option<Item>> {
        let key = OperationItem::Job.key(&self.state_table, id);
        self.write(Write { key, condition, action: WriteAction::Update(changes) }).await
    }

    /// Carries out an idempotent write; returns the stored item if the condition does not hold.
    pub(super) async fn write(&self, write: Write) -> Result<Option<Item>> {
        let deadline = self.clock.now().plus(REQUEST_TIME);
        let mut attempt = 0;
        loop {
            let error = match self.tables.write(&write).await {
                Ok(_) => return Ok(None),
                Err(WriteError::Refused(WriteRefusal::Condition(stored))) => {
                    return Ok(Some(stored.unwrap_or_default()));
                }
                Err(WriteError::Failed(error)) => error,
                Err(WriteError::Refused(WriteRefusal::Conflict | WriteRefusal::Throttled)) => {
                    Error::new(ErrorKind::Unavailable, "DynamoDB could not take the state of a job")
                        .with("table", &*self.state_table)
                }
                Err(WriteError::Refused(WriteRefusal::Invalid(reason))) => {
                    Error::new(ErrorKind::Rejected, "DynamoDB rejected the state of a job")
                        .with("reason", reason)
                }
            };
            attempt += 1;
            if !error.is_retryable() || !RetryPolicy::STANDARD.wait(attempt, deadline, &self.clock).await {
                return Err(error);
            }
        }
    }

    pub(super) async fn read(&self, keys: &[ItemKey]) -> Result<Vec<Option<Item>>> {
        let deadline = self.clock.now().plus(REQUEST_TIME);
        let mut attempt = 0;
        loop {
            match self.tables.read(keys).await {
                Ok(snapshot) => return Ok(snapshot.items),
                Err(error) => {
                    attempt += 1;
                    let is_time = error.is_retryable()
                        && RetryPolicy::STANDARD.wait(attempt, deadline, &self.clock).await;
                    if !is_time {
                        return Err(error);
                    }
                }
            }
        }
    }
}

/// The status of a job that an operator changed while its process ended: work that is done stays done.
fn final_status(job: &JobState, stored: &JobState) -> JobStatus {
    if job.status == JobStatus::Done { JobStatus::Done } else { stored.status }
}

fn set(name: &str, value: AttributeValue<'static>) -> AttributeChange {
    AttributeChange::Set(AttributePath::from(name), value)
}

fn differs(status: JobStatus) -> WriteCondition {
    WriteCondition::Differs(AttributePath::from(codec::STATUS), AttributeValue::text(status.name()))
}

fn owned_by(lease: &JobLease) -> WriteCondition {
    WriteCondition::Equals(
        AttributePath::from(codec::LEASE_OWNER),
        AttributeValue::text(lease.owner.as_str()),
    )
}

fn lease_changes(lease: &JobLease) -> Vec<AttributeChange> {
    vec![
        set(codec::LEASE_OWNER, AttributeValue::text(lease.owner.as_str())),
        set(codec::LEASE_UNTIL, codec::time_value(lease.until)),
    ]
}

fn progress_changes(job: &JobState) -> Result<Vec<AttributeChange>> {
    Ok(vec![
        set(codec::PROGRESS, codec::json_value(&job.units)?),
        set(codec::TOTALS, codec::json_value(&job.totals)?),
        set(codec::UPDATED_AT, codec::time_value(job.updated_at)),
    ])
}

/// `backfill-20260206T101500-042`.
fn new_id(kind: JobKind, now: Timestamp, clock: &impl Clock) -> String {
    let time: String =
        now.to_string().chars().filter(|character| character.is_ascii_alphanumeric()).collect();
    format!("{}-{}-{:03}", kind.name(), time.trim_end_matches('Z'), clock.permille())
}

fn new_owner(now: Timestamp, clock: &impl Clock) -> String {
    let random: Vec<String> = (0..4).map(|_| format!("{:03}", clock.permille())).collect();
    format!("{}-{}", now.epoch_ms(), random.concat())
}
