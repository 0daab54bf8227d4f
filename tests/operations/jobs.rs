//! Jobs: their life, their lease, their control from elsewhere, and their recovery after a kill.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use afterwrite_ledger::tables::{
    ConsumedUnits, IndexPage, IndexQuery, ReadSnapshot, Tables, TransactError, WriteError,
};
use afterwrite_memory::{MemoryTables, TableDefinition};
use afterwrite_model::clock::Clock;
use afterwrite_model::effect::{ItemKey, Write};
use afterwrite_model::record::Timestamp;
use afterwrite_model::{Error, ErrorKind, Result};
use afterwrite_operations::jobs::{
    AcquiredJob, JobBasis, JobControl, JobKind, JobObserver, JobPlan, JobReport, JobRunner, JobState,
    JobStatus, JobStore, JobTask, ListedJob, NewJob, NextStep, ProcessTotal, SilentObserver, StepOutcome,
    WorkUnit,
};
use afterwrite_tests::clock::StillClock;

const STATE: &str = "state";
/// The items of each unit.
const UNIT_ITEMS: u64 = 10;

type Store<'c> = JobStore<Arc<MemoryTables>, &'c StillClock>;

fn tables() -> Arc<MemoryTables> {
    let tables = MemoryTables::new();
    tables.create_table(TableDefinition::new(STATE, "PK").sort("SK"));
    Arc::new(tables)
}

fn clock() -> StillClock {
    StillClock::at(Timestamp::from_epoch_seconds(1_770_000_000))
}

fn store<'c>(tables: &Arc<MemoryTables>, clock: &'c StillClock) -> Store<'c> {
    JobStore::new(Arc::clone(tables), clock, Arc::from(STATE))
}

async fn create(store: &Store<'_>, phases: &[u32], rate: Option<u64>) -> JobState {
    let units = phases.iter().enumerate().map(|(index, phase)| WorkUnit::new(format!("u{index}"), *phase));
    let plan = JobPlan { items: 10 * phases.len() as u64, ..JobPlan::default() };
    store.create(new_job(units.collect(), plan, rate)).await.unwrap()
}

fn new_job(units: Vec<WorkUnit>, plan: JobPlan, rate: Option<u64>) -> NewJob {
    let (kind, arguments, basis) = (JobKind::Backfill, serde_json::json!({}), JobBasis::default());
    NewJob { kind, arguments, basis, units, plan, rate }
}

/// Acquires a job at the time of the clock, which is that of the tables, too.
async fn acquire(store: &Store<'_>, tables: &MemoryTables, id: &str) -> Result<AcquiredJob> {
    tables.set_time(store.clock().now());
    store.acquire(id, &JobBasis::default()).await
}

/// Counts items; each step takes a second, and an action can be taken at each.
struct CountingTask<'t> {
    clock: &'t StillClock,
    steps: Mutex<Vec<(String, u64)>>,
    fails_at: AtomicU64,
    hangs_at: AtomicU64,
    on_step: Box<dyn Fn(usize) -> Option<JobControl> + Sync + 't>,
    store: &'t Store<'t>,
    id: String,
}

impl<'t> CountingTask<'t> {
    fn new(store: &'t Store<'t>, clock: &'t StillClock, id: &str) -> Self {
        Self {
            clock,
            steps: Mutex::default(),
            fails_at: AtomicU64::new(u64::MAX),
            hangs_at: AtomicU64::new(u64::MAX),
            on_step: Box::new(|_| None),
            store,
            id: id.to_owned(),
        }
    }
}

impl JobTask for CountingTask<'_> {
    async fn step(&self, unit: &WorkUnit) -> Result<StepOutcome> {
        let begin = unit.cursor.as_ref().and_then(serde_json::Value::as_u64).unwrap_or(0);
        let number = {
            let mut steps = self.steps.lock().unwrap();
            steps.push((unit.name.clone(), begin));
            steps.len()
        };
        if number as u64 == self.fails_at.load(Ordering::Relaxed) {
            return Err(Error::new(ErrorKind::State, "the step failed"));
        }
        if number as u64 == self.hangs_at.load(Ordering::Relaxed) {
            std::future::pending::<()>().await;
        }
        if let Some(control) = (self.on_step)(number) {
            self.store.control(&self.id, control).await?;
        }
        self.clock.sleep(Duration::from_secs(1)).await;
        let cursor = (begin + 1 < UNIT_ITEMS).then(|| (begin + 1).into());
        let totals = [("counted", 1)].into();
        Ok(StepOutcome { cursor, items: 1, bytes: 0, spent: 1, totals })
    }
}

async fn run(store: &Store<'_>, job: AcquiredJob, task: &CountingTask<'_>) -> Result<JobState> {
    JobRunner { store, observer: &SilentObserver, workers: 1 }.run(job, task).await
}

#[tokio::test]
async fn a_job_does_every_unit_phase_by_phase() {
    let (tables, clock) = (tables(), clock());
    let store = store(&tables, &clock);
    let job = create(&store, &[1, 0, 1], None).await;
    assert_eq!((job.status, store.load(&job.id).await.unwrap()), (JobStatus::Planned, job.clone()));
    let task = CountingTask::new(&store, &clock, &job.id);
    let done = run(&store, acquire(&store, &tables, &job.id).await.unwrap(), &task).await.unwrap();
    assert_eq!((done.status, done.totals["counted"]), (JobStatus::Done, 30));
    let names: Vec<_> = task.steps.lock().unwrap().iter().map(|(name, _)| name.clone()).collect();
    assert!(names[..10].iter().all(|name| name == "u1"), "the lowest phase comes first: {names:?}");
    let stored = store.load(&job.id).await.unwrap();
    assert_eq!((stored.status, stored.lease.clone(), stored.totals["counted"]), (JobStatus::Done, None, 30));
    assert_eq!(acquire(&store, &tables, &job.id).await.unwrap_err().kind(), ErrorKind::Configuration);
}

#[tokio::test]
async fn two_processes_never_run_one_job_and_a_killed_one_is_resumed_after_its_lease() {
    let (tables, clock) = (tables(), clock());
    let store = store(&tables, &clock);
    let job = create(&store, &[0], None).await;
    let running = acquire(&store, &tables, &job.id).await.unwrap();
    assert_eq!(running.state.status, JobStatus::Running);
    clock.sleep(Duration::from_millis(1)).await;
    let error = acquire(&store, &tables, &job.id).await.unwrap_err();
    assert!(error.to_string().contains("another process runs the job"), "{error}");
    clock.sleep(Duration::from_secs(61)).await;
    let resumed = acquire(&store, &tables, &job.id).await.unwrap();
    assert_ne!(resumed.state.lease.unwrap().owner, running.state.lease.clone().unwrap().owner);
    // The first process wakes up: its lease is gone, and it saves nothing.
    let task = CountingTask::new(&store, &clock, &job.id);
    let error = run(&store, running, &task).await.unwrap_err();
    assert!(error.to_string().contains("taken over"), "{error}");
    assert!(store.load(&job.id).await.unwrap().totals.is_empty());
}

#[tokio::test]
async fn a_process_that_ended_unsaved_is_known_until_the_job_ends() {
    for is_killed in [false, true] {
        let (tables, clock) = (tables(), clock());
        let store = store(&tables, &clock);
        let job = create(&store, &[0], None).await;
        let task = CountingTask::new(&store, &clock, &job.id);
        let first = acquire(&store, &tables, &job.id).await.unwrap();
        let paused = store.control(&job.id, JobControl::Pause).await.unwrap();
        // The process saves its progress and ends, or was killed before the pause.
        let has_resume = |job: &JobState| NextStep::all_of(job).contains(&NextStep::Resume);
        assert!(paused.has_process() && !has_resume(&paused));
        if is_killed {
            clock.sleep(Duration::from_millis(1)).await;
            let refused = acquire(&store, &tables, &job.id).await.unwrap_err().report();
            assert!(refused.contains("wait for the end of its lease"), "{refused}");
            clock.sleep(Duration::from_secs(61)).await;
        } else {
            run(&store, first, &task).await.unwrap();
        }
        tables.set_time(clock.now());
        assert!(has_resume(&store.load(&job.id).await.unwrap()));
        // The second process is paused, too, and saves everything.
        let second = acquire(&store, &tables, &job.id).await.unwrap();
        store.control(&job.id, JobControl::Pause).await.unwrap();
        assert_eq!(run(&store, second, &task).await.unwrap().status, JobStatus::Paused);
        let third = acquire(&store, &tables, &job.id).await.unwrap();
        let done = run(&store, third, &task).await.unwrap();
        assert_eq!((done.status, done.totals["counted"]), (JobStatus::Done, 10));
        assert_eq!(done.totals.number(ProcessTotal::EndedUnsaved), u64::from(is_killed));
    }
}

#[tokio::test]
async fn a_pause_hides_no_failure() {
    for is_paused_before in [false, true] {
        let (tables, clock) = (tables(), clock());
        let store = store(&tables, &clock);
        let job = create(&store, &[0, 0], None).await;
        let mut task = CountingTask::new(&store, &clock, &job.id);
        task.fails_at.store(2, Ordering::Relaxed);
        task.on_step = Box::new(|number| (is_paused_before && number == 1).then_some(JobControl::Pause));
        let acquired = acquire(&store, &tables, &job.id).await.unwrap();
        let ended =
            JobRunner { store: &store, observer: &SilentObserver, workers: 2 }.run(acquired, &task).await;
        let failed = store.load(&job.id).await.unwrap();
        assert!(
            ended.is_err() && failed.status == JobStatus::Failed && failed.failure.is_some(),
            "{failed:?}"
        );
        let refused = store.control(&job.id, JobControl::Pause).await.unwrap_err().to_string();
        assert!(refused.contains("a step of it has failed"), "{refused}");
        let done = run(&store, acquire(&store, &tables, &job.id).await.unwrap(), &task).await.unwrap();
        assert_eq!((done.status, done.totals.number(ProcessTotal::EndedUnsaved)), (JobStatus::Done, 1));
    }
}

#[tokio::test]
async fn a_resumed_job_repeats_only_what_was_not_saved() {
    let (tables, clock) = (tables(), clock());
    let store = store(&tables, &clock);
    let job = create(&store, &[0], None).await;
    let task = CountingTask::new(&store, &clock, &job.id);
    task.hangs_at.store(8, Ordering::Relaxed);
    {
        let acquired = acquire(&store, &tables, &job.id).await.unwrap();
        let hanging = std::pin::pin!(run(&store, acquired, &task));
        // Killed: the future is dropped in the middle of the eighth step.
        assert!(futures::FutureExt::now_or_never(hanging).is_none());
    }
    let saved = store.load(&job.id).await.unwrap();
    assert_eq!((saved.status, saved.work.items), (JobStatus::Running, 5), "saved every five seconds");
    clock.sleep(Duration::from_secs(61)).await;
    let done = run(&store, acquire(&store, &tables, &job.id).await.unwrap(), &task).await.unwrap();
    assert_eq!((done.status, done.totals["counted"]), (JobStatus::Done, 10));
    let steps = task.steps.lock().unwrap();
    let begins: Vec<u64> = steps.iter().map(|(_, begin)| *begin).collect();
    assert_eq!(begins, [0, 1, 2, 3, 4, 5, 6, 7, 5, 6, 7, 8, 9]);
}

#[tokio::test]
async fn a_failed_step_leaves_a_job_that_can_be_resumed() {
    let (tables, clock) = (tables(), clock());
    let store = store(&tables, &clock);
    let job = create(&store, &[0, 0], None).await;
    let task = CountingTask::new(&store, &clock, &job.id);
    task.fails_at.store(7, Ordering::Relaxed);
    let error = run(&store, acquire(&store, &tables, &job.id).await.unwrap(), &task).await.unwrap_err();
    assert!(error.to_string().contains("the step failed"), "{error}");
    let failed = store.load(&job.id).await.unwrap();
    assert_eq!((failed.status, failed.totals["counted"]), (JobStatus::Failed, 6));
    assert!(failed.failure.unwrap().contains("the step failed"));
    let done = run(&store, acquire(&store, &tables, &job.id).await.unwrap(), &task).await.unwrap();
    assert_eq!((done.status, done.totals["counted"], done.failure), (JobStatus::Done, 20, None));
}

#[tokio::test]
async fn an_operator_pauses_resumes_and_stops_a_job_while_it_runs() {
    let (tables, clock) = (tables(), clock());
    let store = store(&tables, &clock);
    let job = create(&store, &[0, 0], None).await;
    let mut task = CountingTask::new(&store, &clock, &job.id);
    task.on_step = Box::new(|number| match number {
        5 => Some(JobControl::Pause),
        12 => Some(JobControl::Stop),
        _ => None,
    });
    let paused = run(&store, acquire(&store, &tables, &job.id).await.unwrap(), &task).await.unwrap();
    let done_before = paused.totals["counted"];
    assert!(paused.status == JobStatus::Paused && (5..=7).contains(&done_before), "{paused:?}");
    let stopped = run(&store, acquire(&store, &tables, &job.id).await.unwrap(), &task).await.unwrap();
    assert!(stopped.status == JobStatus::Stopped && stopped.totals["counted"] > done_before, "{stopped:?}");
    assert_eq!(acquire(&store, &tables, &job.id).await.unwrap_err().kind(), ErrorKind::Configuration);
    assert!(store.control(&job.id, JobControl::Pause).await.is_err(), "a stopped job has ended");
}

#[tokio::test]
async fn the_rate_is_obeyed_and_can_be_changed_while_the_job_runs() {
    let (tables, clock) = (tables(), clock());
    let store = store(&tables, &clock);
    let slow = create(&store, &[0], Some(1)).await;
    let task = CountingTask::new(&store, &clock, &slow.id);
    let begin = clock.now();
    run(&store, acquire(&store, &tables, &slow.id).await.unwrap(), &task).await.unwrap();
    let slow_time = clock.now().since(begin);
    // A step takes a second, in which the rate allows its item.
    assert!((10..=12).contains(&slow_time.as_secs()), "{slow_time:?}");

    let faster = create(&store, &[0], Some(1)).await;
    let mut task = CountingTask::new(&store, &clock, &faster.id);
    task.on_step = Box::new(|number| (number == 3).then_some(JobControl::SetRate(None)));
    let begin = clock.now();
    let done = run(&store, acquire(&store, &tables, &faster.id).await.unwrap(), &task).await.unwrap();
    let fast_time = clock.now().since(begin);
    assert!(fast_time.as_secs() < 16 && done.rate.is_none(), "{fast_time:?}");
}

#[derive(Default)]
struct SeenReports(Mutex<Vec<JobReport>>);

impl JobObserver for SeenReports {
    fn observe(&self, report: &JobReport) {
        self.0.lock().unwrap().push(report.clone());
    }
}

#[tokio::test]
async fn progress_has_rate_backlog_eta_and_next_steps() {
    let (tables, clock) = (tables(), clock());
    let store = store(&tables, &clock);
    let job = create(&store, &[0, 0], None).await;
    let task = CountingTask::new(&store, &clock, &job.id);
    let seen = SeenReports::default();
    let acquired = acquire(&store, &tables, &job.id).await.unwrap();
    JobRunner { store: &store, observer: &seen, workers: 1 }.run(acquired, &task).await.unwrap();
    let reports = seen.0.into_inner().unwrap();
    assert!(reports.len() >= 20, "{} reports in 20 seconds", reports.len());
    let middle = &reports[9];
    assert_eq!((middle.progress.items, middle.progress.backlog, middle.eta), (10, 10, Some(10)));
    assert!((middle.progress.rate - 1.0).abs() < 0.2 && (middle.progress.percent - 50.0).abs() < 0.1);
    assert!(middle.next_steps.iter().any(|step| step.starts_with("afterwrite jobs pause ")));
    let last = reports.last().unwrap();
    assert_eq!((last.status, last.progress.percent, last.next_steps.len()), ("done", 100.0, 0));
}

#[tokio::test]
async fn the_list_has_the_newest_hundred_jobs() {
    let (tables, clock) = (tables(), clock());
    let store = store(&tables, &clock);
    assert!(store.list().await.unwrap().is_empty());
    let mut ids = Vec::new();
    for _ in 0..105 {
        clock.sleep(Duration::from_secs(1)).await;
        ids.push(create(&store, &[0], None).await.id);
    }
    let readable = |listed: ListedJob| match listed {
        ListedJob::Readable(job) => job.id,
        ListedJob::Unreadable { id, error } => panic!("{id}: {error}"),
    };
    let listed: Vec<String> = store.list().await.unwrap().into_iter().map(readable).collect();
    ids.reverse();
    assert_eq!(listed, ids[..100]);
    let error = store.load("backfill-0").await.unwrap_err();
    assert!(error.to_string().contains("afterwrite jobs list"), "{error}");
}

/// Tables that take one request at a time, in order; each takes a while.
#[derive(Clone)]
struct NarrowTables {
    tables: Arc<MemoryTables>,
    gate: Arc<tokio::sync::Semaphore>,
}

impl NarrowTables {
    async fn one_at_a_time<T>(&self, request: impl Future<Output = T>) -> T {
        let _permit = self.gate.acquire().await.unwrap();
        tokio::time::sleep(Duration::from_millis(1)).await;
        request.await
    }
}

impl Tables for NarrowTables {
    async fn read(&self, keys: &[ItemKey]) -> Result<ReadSnapshot> {
        self.one_at_a_time(self.tables.read(keys)).await
    }

    async fn write(&self, write: &Write) -> Result<ConsumedUnits, WriteError> {
        self.one_at_a_time(self.tables.write(write)).await
    }

    async fn transact(&self, writes: &[Write]) -> Result<ConsumedUnits, TransactError> {
        self.one_at_a_time(self.tables.transact(writes)).await
    }

    async fn query_index(&self, query: &IndexQuery) -> Result<IndexPage> {
        self.one_at_a_time(self.tables.query_index(query)).await
    }
}

/// Reads through the tables of its store.
struct ReadingTask<'t> {
    tables: NarrowTables,
    clock: &'t StillClock,
}

impl JobTask for ReadingTask<'_> {
    async fn step(&self, unit: &WorkUnit) -> Result<StepOutcome> {
        let begin = unit.cursor.as_ref().and_then(serde_json::Value::as_u64).unwrap_or(0);
        for _ in 0..4 {
            self.tables.read(&[]).await?;
            self.clock.sleep(Duration::from_millis(400)).await;
        }
        let cursor = (begin + 1 < UNIT_ITEMS).then(|| (begin + 1).into());
        Ok(StepOutcome { cursor, items: 1, spent: 1, ..StepOutcome::default() })
    }
}

#[tokio::test]
async fn a_job_whose_steps_use_up_the_permitted_requests_still_saves_its_state() {
    let (tables, clock) = (tables(), clock());
    let narrow = NarrowTables { tables, gate: Arc::new(tokio::sync::Semaphore::new(1)) };
    let store = JobStore::new(narrow.clone(), &clock, Arc::from(STATE));
    let units = (0..8).map(|index| WorkUnit::new(format!("u{index}"), 0)).collect();
    let job = store.create(new_job(units, JobPlan::default(), None)).await.unwrap();
    let job = store.acquire(&job.id, &JobBasis::default()).await.unwrap();
    let runner = JobRunner { store: &store, observer: &SilentObserver, workers: 8 };
    let task = ReadingTask { tables: narrow, clock: &clock };
    let run = tokio::time::timeout(Duration::from_secs(30), runner.run(job, &task));
    let done = run.await.expect("steps and the job's state wait for each other").unwrap();
    assert_eq!(done.status, JobStatus::Done);
    assert_eq!(done.work.items, 8 * UNIT_ITEMS);
}
