//! The jobs of a state table.
//!
//! Jobs are found without a scan: by the list of the newest [`MAX_LISTED`].
//!
//! # The time of a lease
//!
//! The clocks of two machines may differ by minutes. So the end of a lease is a time of DynamoDB, as its responses have it: a process reads the job,
//! and sets the end of its lease, or compares that of another process, by the time of that response. A response is older than the write
//! that follows it, so a lease ends too early rather than too late.

use std::sync::Arc;
use std::time::Duration;

use afterwrite_ledger::state::{job, job_list, units};
use afterwrite_ledger::tables::{MAX_READ_KEYS, Tables};
use afterwrite_model::clock::Clock;
use afterwrite_model::effect::{AttributeChange, ItemKey, Write, WriteAction, WriteCondition};
use afterwrite_model::record::{Item, Timestamp};
use afterwrite_model::{Error, ErrorKind, Result};

use super::basis::JobBasis;
use super::codec::{self, progress_changes};
use super::control::JobControl;
use super::requests;
use super::state::{JobKind, JobLease, JobState, JobStatus, NewJob};
use super::totals::{JobTotals, job_totals};
use super::units::{AcquiredJob, JobUnits, PART_UNITS, StoredPart, batches};

/// The jobs that a list shows.
const MAX_LISTED: usize = 100;
/// How long a process keeps a job without a sign of life.
pub(super) const LEASE_TIME: Duration = Duration::from_secs(60);

job_totals! {
    /// The counters of a job of every kind.
    pub enum ProcessTotal {
        /// Processes of the job that ended before they had saved their last steps. These steps are repeated, but their counters are lost.
        EndedUnsaved = "processes_ended_unsaved",
    }
}

/// A job in a list.
#[derive(Debug)]
pub enum ListedJob {
    /// A job.
    Readable(Box<JobState>),
    /// An item that this version cannot read.
    Unreadable {
        /// The job's id.
        id: String,
        /// Why.
        error: Error,
    },
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

    /// The source of time and randomness. Leases go by DynamoDB's time.
    #[must_use]
    pub fn clock(&self) -> &C {
        &self.clock
    }

    /// Creates a job with this work.
    ///
    /// # Errors
    /// As [`Tables::write`].
    pub async fn create(&self, new: NewJob) -> Result<JobState> {
        let now = self.clock.now();
        let mut units = JobUnits::new(new.units);
        let job = JobState {
            id: new_id(new.kind, now, &self.clock),
            kind: new.kind,
            arguments: new.arguments,
            basis: Some(new.basis),
            status: JobStatus::Planned,
            work: units.summary(),
            rate: new.rate,
            totals: JobTotals::new(),
            plan: new.plan,
            lease: None,
            created_at: now,
            started_at: None,
            updated_at: now,
            failure: None,
            waiting: None,
        };
        // Nothing finds the units before the job has been written.
        for parts in batches(&units.take_changed(now)?) {
            requests::transact(&self.tables, &self.clock, &self.part_writes(&job.id, parts)).await?;
        }
        let key = self.key(&job.id);
        let action = WriteAction::Put(codec::encode(&job)?);
        // A second attempt may find the item of the first.
        self.write(Write { key, condition: WriteCondition::Always, action }).await?;
        self.list_job(&job).await?;
        Ok(job)
    }

    /// Adds a job to the list, and removes the oldest ones beyond the limit.
    async fn list_job(&self, job: &JobState) -> Result<()> {
        let mut listed = self.listed().await?;
        listed.truncate(listed.len().saturating_sub(MAX_LISTED - 1));
        let list = job_list::key(&self.state_table);
        self.write(job_list::write(list, (&job.id, job.created_at), &listed)).await.map(drop)
    }

    /// The listed ids, the oldest first.
    async fn listed(&self) -> Result<Vec<String>> {
        let list = self.read(&[job_list::key(&self.state_table)]).await?.pop().flatten();
        Ok(list.as_ref().map(job_list::decode).unwrap_or_default())
    }

    fn key(&self, id: &str) -> ItemKey {
        job::key(&self.state_table, id)
    }

    fn part_key(&self, id: &str, number: usize) -> ItemKey {
        units::key(&self.state_table, id, number)
    }

    fn part_writes(&self, id: &str, parts: &[StoredPart]) -> Vec<Write> {
        let write = |(number, item): &StoredPart| Write {
            key: self.part_key(id, *number),
            condition: WriteCondition::Always,
            action: WriteAction::Put(item.clone()),
        };
        parts.iter().map(write).collect()
    }

    /// The newest jobs, the newest first, including jobs that this version cannot read.
    ///
    /// # Errors
    /// As [`Tables::read`].
    pub async fn list(&self) -> Result<Vec<ListedJob>> {
        let ids: Vec<String> = self.listed().await?.into_iter().rev().collect();
        let keys: Vec<_> = ids.iter().map(|id| self.key(id)).collect();
        let read = requests::read(&self.tables, &self.clock, &keys).await?;
        let jobs = ids.into_iter().zip(read.items).filter_map(|(id, item)| Some((id, item?)));
        Ok(jobs
            .map(|(id, item)| match codec::decode(&item, read.server_time) {
                Ok(job) => ListedJob::Readable(Box::new(job)),
                Err(error) => ListedJob::Unreadable { id, error },
            })
            .collect())
    }

    /// The job with this id.
    ///
    /// # Errors
    /// [`ErrorKind::Configuration`] if there is no such job; [`ErrorKind::State`] if this version cannot read it.
    pub async fn load(&self, id: &str) -> Result<JobState> {
        self.load_at(id).await.map(|(job, _)| job)
    }

    /// The job with this id, and DynamoDB's time of the response.
    async fn load_at(&self, id: &str) -> Result<(JobState, Timestamp)> {
        let mut read = requests::read(&self.tables, &self.clock, &[self.key(id)]).await?;
        let now = read.server_time;
        // The list has the key of a job without an id.
        match read.items.pop().flatten().filter(|_| !id.is_empty()) {
            Some(item) => {
                codec::decode(&item, now).map(|job| (job, now)).map_err(|error| error.with("job", id))
            }
            None => Err(Error::new(ErrorKind::Configuration, "the state table has no such job")
                .with("job", id)
                .with("table", &*self.state_table)
                .hint("`afterwrite jobs list` shows the jobs")),
        }
    }

    /// Controls a job, whether or not a process runs it.
    ///
    /// # Errors
    /// [`ErrorKind::Configuration`] if there is no such job, it has ended, or it has failed and is to be paused.
    pub async fn control(&self, id: &str, control: JobControl) -> Result<JobState> {
        let (condition, change) = match control {
            JobControl::Pause => (job::can_be_paused(), job::set_status(JobStatus::Paused)),
            JobControl::Stop => (job::has_not_ended(), job::set_status(JobStatus::Stopped)),
            JobControl::SetRate(rate) => (job::has_not_ended(), job::set_rate(rate)),
        };
        loop {
            control.check(&self.load(id).await?)?;
            if self.update(id, condition.clone(), vec![change.clone()]).await?.is_none() {
                return self.load(id).await;
            }
            // The job ended, or a step of it failed, after it was read.
        }
    }

    /// Takes the lease of a job, so that this process alone runs it, on what it was planned for.
    ///
    /// # Errors
    /// [`ErrorKind::Configuration`] if the job was planned for something else than `basis`, has ended, or another process runs it.
    pub async fn acquire(&self, id: &str, basis: &JobBasis) -> Result<AcquiredJob> {
        loop {
            let (job, now) = self.load_at(id).await?;
            job.check_can_run()?;
            job.check_basis(basis)?;
            let local = self.clock.now();
            let owner = new_owner(local, &self.clock);
            let lease = JobLease { owner, until: now.plus(LEASE_TIME), has_ended: false };
            let is_free = job::is_free_for(&lease, now, job.status);
            let condition = WriteCondition::All(vec![is_free, job::has_not_ended()]);
            let mut changes = vec![job::set_status(JobStatus::Running), job::set_failure(None)];
            changes.extend(job::set_lease(Some(&lease)));
            changes.extend(job::set_started(job.started_at.unwrap_or(local), local));
            let Some(other) = self.update(id, condition, changes).await? else {
                return self.acquired(id, job.has_unsaved_end()).await;
            };
            let other = codec::decode(&other, now)?;
            if other.has_process() {
                return Err(taken(&other));
            }
            // Its status changed after it was read: another process may have ended meanwhile.
        }
    }

    /// A job whose lease this process has taken. Its units are read after that, when no other process writes them. An earlier process that
    /// ended before it had saved its last steps is counted. The count is saved with the first progress; a process that ends before leaves its
    /// lease, by which the next process counts it.
    async fn acquired(&self, id: &str, has_unsaved_end: bool) -> Result<AcquiredJob> {
        let mut state = self.load(id).await?;
        let parts: Vec<usize> = (0..state.work.units.div_ceil(PART_UNITS)).collect();
        let mut items = Vec::with_capacity(parts.len());
        for numbers in parts.chunks(MAX_READ_KEYS) {
            let keys: Vec<_> = numbers.iter().map(|number| self.part_key(id, *number)).collect();
            items.extend(self.read(&keys).await?);
        }
        let mut units = JobUnits::decode(items, state.work.units).map_err(|error| error.with("job", id))?;
        units.add(ProcessTotal::EndedUnsaved, u64::from(has_unsaved_end));
        // The counters of units are saved with the units; those of the job may lack the last ones.
        (state.work, state.totals) = (units.summary(), units.totals());
        Ok(AcquiredJob { state, units })
    }

    /// Saves the progress of a job that this process runs, and renews the lease, by DynamoDB's time `now`. Returns whether the job is still
    /// this process's to run.
    pub(super) async fn save(
        &self,
        job: &mut JobState,
        parts: &[StoredPart],
        now: Timestamp,
    ) -> Result<bool> {
        let Some(lease) = &mut job.lease else { return Ok(false) };
        lease.until = now.plus(LEASE_TIME);
        job.updated_at = self.clock.now();
        let owned = job::is_run_by(lease);
        self.save_parts(job, parts, owned).await
    }

    /// Saves parts in transactions that renew the lease, on a condition.
    async fn save_parts(&self, job: &JobState, parts: &[StoredPart], owned: WriteCondition) -> Result<bool> {
        let mut changes = progress_changes(job)?;
        changes.extend(job::set_lease(job.lease.as_ref()));
        if parts.is_empty() {
            return Ok(self.update(&job.id, owned, changes).await?.is_none());
        }
        for parts in batches(parts) {
            let action = WriteAction::Update(changes.clone());
            let mut writes = vec![Write { key: self.key(&job.id), condition: owned.clone(), action }];
            writes.extend(self.part_writes(&job.id, parts));
            if !requests::transact(&self.tables, &self.clock, &writes).await? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Saves the progress of a job and gives up its lease. A status that an operator set in the meantime is kept. Returns whether the job was
    /// this process's.
    pub(super) async fn release(&self, job: &mut JobState, parts: &[StoredPart]) -> Result<bool> {
        let Some(lease) = job.lease.clone() else { return Ok(false) };
        job.updated_at = self.clock.now();
        if !parts.is_empty() && !self.save_parts(job, parts, job::is_owned_by(&lease)).await? {
            return Ok(false);
        }
        job.lease = None;
        let mut changes = progress_changes(job)?;
        changes.extend(job::set_lease(None));
        let mut with_status = changes.clone();
        with_status.push(job::set_status(job.status));
        if job.failure.is_some() {
            with_status.push(job::set_failure(job.failure.as_deref()));
        }
        let stored = self.update(&job.id, job::is_run_by(&lease), with_status).await?;
        let Some(stored) = stored else { return Ok(true) };
        let stored = codec::decode(&stored, lease.until)?;
        if stored.lease.as_ref().is_none_or(|other| other.owner != lease.owner) {
            // The response to an earlier attempt may have been lost.
            return Ok(stored.lease.is_none() && stored.status == job.status);
        }
        job.status = final_status(job, &stored);
        changes.push(job::set_status(job.status));
        if job.status == JobStatus::Failed {
            changes.push(job::set_failure(job.failure.as_deref()));
        }
        Ok(self.update(&job.id, job::is_owned_by(&lease), changes).await?.is_none())
    }

    /// The stored state of a job, for its status and rate, and DynamoDB's time.
    pub(super) async fn reload(&self, job: &JobState) -> Result<(JobState, Timestamp)> {
        self.load_at(&job.id).await
    }

    /// Updates a job; returns the stored item if the condition does not hold.
    async fn update(
        &self,
        id: &str,
        condition: WriteCondition,
        changes: Vec<AttributeChange>,
    ) -> Result<Option<Item>> {
        self.write(Write { key: self.key(id), condition, action: WriteAction::Update(changes) }).await
    }

    /// Carries out an idempotent write; returns the stored item if the condition does not hold.
    pub(super) async fn write(&self, write: Write) -> Result<Option<Item>> {
        let written = requests::write(&self.tables, &self.clock, &write).await;
        written.map_err(|error| error.with("table", &*self.state_table))
    }

    pub(super) async fn read(&self, keys: &[ItemKey]) -> Result<Vec<Option<Item>>> {
        Ok(requests::read(&self.tables, &self.clock, keys).await?.items)
    }
}

/// The error of a job that another process has.
fn taken(job: &JobState) -> Error {
    let hint = match job.status {
        JobStatus::Running => {
            "Pause the job first, or wait for the end of the lease if that process was killed"
        }
        JobStatus::Planned | JobStatus::Paused | JobStatus::Stopped | JobStatus::Done | JobStatus::Failed => {
            "The process saves its progress and ends within seconds. If it was killed, wait for the end of its lease"
        }
    };
    let until = job.lease.as_ref().map_or_else(String::new, |lease| lease.until.to_string());
    Error::new(ErrorKind::Configuration, "another process runs the job")
        .with("job", job.id.as_str())
        .with("its lease ends at", until)
        .hint(hint)
}

/// The status of a job that an operator changed while its process ended: work that is done stays done, and a pause hides no failure.
fn final_status(job: &JobState, stored: &JobState) -> JobStatus {
    match (job.status, stored.status) {
        (JobStatus::Done, _) => JobStatus::Done,
        (JobStatus::Failed, JobStatus::Paused) => JobStatus::Failed,
        (_, stored) => stored,
    }
}

/// `backfill-20260206T101500-042713958`. Jobs that begin in the same second differ in the random digits.
fn new_id(kind: JobKind, now: Timestamp, clock: &impl Clock) -> String {
    let time: String =
        now.to_string().chars().filter(|character| character.is_ascii_alphanumeric()).collect();
    format!("{}-{}-{}", kind.name(), time.trim_end_matches('Z'), random_digits(9, clock))
}

fn new_owner(now: Timestamp, clock: &impl Clock) -> String {
    format!("{}-{}", now.epoch_ms(), random_digits(12, clock))
}

fn random_digits(count: usize, clock: &impl Clock) -> String {
    (0..count.div_ceil(3)).map(|_| format!("{:03}", clock.permille())).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use afterwrite_model::clock::SystemClock;

    use super::*;

    #[test]
    fn jobs_that_begin_in_the_same_second_have_different_ids() {
        let now = Timestamp::from_epoch_ms(1_770_000_000_000);
        let ids: BTreeSet<String> = (0..200).map(|_| new_id(JobKind::Verify, now, &SystemClock)).collect();
        assert_eq!(ids.len(), 200, "{ids:?}");
    }
}
