//! Verifications and repairs that are killed, and resumed by another process.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use afterwrite_ledger::tables::{
    ConsumedUnits, IndexPage, IndexQuery, ReadSnapshot, ScanPage, ScanRequest, TableScan, TableSummary,
    Tables, TransactError, WriteError,
};
use afterwrite_memory::MemoryObjects;
use afterwrite_model::Error;
use afterwrite_model::clock::Clock as _;
use afterwrite_model::effect::{ItemKey, Write};
use afterwrite_model::record::AttributeValue;
use afterwrite_operations::backfill::{BackfillArguments, BackfillTask};
use afterwrite_operations::jobs::{
    JobJournal, JobKind, JobRunner, JobStatus, JobStore, JobTask as _, SilentObserver,
};
use afterwrite_operations::repair::{DriftRepairer, RepairTask, repair_units};
use afterwrite_operations::verify::{
    DatasetCheck, DatasetCoverage, VerifyArguments, VerifyFinding, VerifyJob, VerifyReport, VerifyTask,
    verify_units,
};
use afterwrite_tests::clock::StillClock;
use futures::FutureExt as _;

use super::created::{acquire, new_job};
use super::lake::{compact, export_archive, filling, judge, store_heartbeat};
use super::world::{OperationWorld, STATE};

const TOLERANCE: Duration = Duration::from_secs(120);

/// Tables whose requests never return after so many of them: their process was killed.
#[derive(Clone)]
struct MortalTables {
    tables: Arc<OperationWorld>,
    left: Arc<AtomicUsize>,
}

impl MortalTables {
    async fn live(&self) {
        let left = self.left.load(Ordering::Relaxed);
        if left == 0 {
            std::future::pending::<()>().await;
        }
        self.left.store(left - 1, Ordering::Relaxed);
    }
}

impl Tables for MortalTables {
    async fn read(&self, keys: &[ItemKey]) -> Result<ReadSnapshot, Error> {
        self.live().await;
        self.tables.read(keys).await
    }

    async fn write(&self, write: &Write) -> Result<ConsumedUnits, WriteError> {
        self.live().await;
        self.tables.write(write).await
    }

    async fn transact(&self, writes: &[Write]) -> Result<ConsumedUnits, TransactError> {
        self.live().await;
        self.tables.transact(writes).await
    }

    async fn query_index(&self, query: &IndexQuery) -> Result<IndexPage, Error> {
        self.live().await;
        self.tables.query_index(query).await
    }
}

impl TableScan for MortalTables {
    async fn scan(&self, request: &ScanRequest) -> Result<ScanPage, Error> {
        self.live().await;
        self.tables.scan(request).await
    }

    async fn describe(&self, table: &str) -> Result<TableSummary, Error> {
        self.live().await;
        self.tables.describe(table).await
    }
}

type MortalStore = JobStore<MortalTables, &'static StillClock>;

/// A world with drift in the ledger and in datasets, and its processes.
struct DriftedWorld {
    world: Arc<OperationWorld>,
    objects: Arc<MemoryObjects>,
}

impl DriftedWorld {
    async fn new(seed: u64) -> Self {
        let world = OperationWorld::new("exambuddy", seed, 60, 700);
        let objects = Arc::new(MemoryObjects::default());
        objects.set_clock(world.clock.now());
        let drifted = Self { world, objects };
        drifted.fill().await;
        let world = &drifted.world;
        world.finish();
        export_archive(world, &drifted.objects, "rest").await;
        compact(world, &drifted.objects).await;
        let table = world.table_names().remove(0);
        let is_attempt =
            |sort: &AttributeValue<'_>| sort.as_text().is_some_and(|sort| sort.starts_with("ATTEMPT#"));
        let attempts = world.rows(&table).into_iter().filter(|item| item.get("SK").is_some_and(is_attempt));
        for attempt in attempts.take(3) {
            world.tables.delete(&world.tables.key_of(&table, &attempt).unwrap()).unwrap();
        }
        let _ = world.tables.take_changes(&table);
        world.clock.sleep(Duration::from_secs(3600)).await;
        let tomorrow = world.clock.now().plus(Duration::from_secs(24 * 3600));
        store_heartbeat(&drifted.objects, tomorrow).await;
        drifted.objects.set_clock(world.clock.now());
        drifted
    }

    async fn fill(&self) {
        let world = &self.world;
        let counting =
            BackfillTask::new(world.context(Arc::clone(world)), BackfillArguments::default(), None);
        let counting = counting.await.unwrap();
        let fill = filling(world, Arc::clone(&self.objects), Arc::clone(world), "fill");
        let (store, _) = self.process(usize::MAX);
        for (units, is_counting) in [(counting.units(), true), (fill.units(), false)] {
            let job = store.create(new_job(JobKind::Backfill, units)).await.unwrap();
            let job = acquire(world, &store, &job.id).await.unwrap();
            let runner = JobRunner { store: &store, observer: &SilentObserver, workers: 3 };
            let done =
                if is_counting { runner.run(job, &counting).await } else { runner.run(job, &fill).await };
            assert_eq!(done.unwrap().status, JobStatus::Done);
        }
    }

    /// The jobs and tables of a process that is killed after so many requests.
    fn process(&self, requests: usize) -> (MortalStore, MortalTables) {
        let tables =
            MortalTables { tables: Arc::clone(&self.world), left: Arc::new(AtomicUsize::new(requests)) };
        (JobStore::new(tables.clone(), self.world.clock, Arc::from(STATE)), tables)
    }

    /// Runs or resumes the verification in a process; returns its report unless it was killed.
    async fn verify(&self, id: &str, requests: usize) -> Option<VerifyReport> {
        let (store, tables) = self.process(requests);
        let arguments = arguments();
        let world = &self.world;
        let state = VerifyTask::new(world.context(tables.clone()), arguments.clone());
        let rows = judge(world, Arc::clone(&self.objects), tables.clone(), TOLERANCE);
        let check = DatasetCheck::new(rows, arguments);
        let journal = JobJournal::new(JobStore::new(tables, world.clock, Arc::from(STATE)), id);
        let job = VerifyJob::new(state, Some(check), DatasetCoverage::Compared).with_journal(journal);
        let running = async {
            let mut acquired = acquire(&self.world, &store, id).await.unwrap();
            job.restore(&mut acquired).await.unwrap();
            let runner = JobRunner { store: &store, observer: &SilentObserver, workers: 3 };
            let done = runner.run(acquired, &job).await.unwrap();
            assert_eq!(done.status, JobStatus::Done);
            job.report(&done.totals)
        };
        let report = running.now_or_never();
        // The lease of a process that was killed ends.
        self.world.clock.sleep(Duration::from_secs(61)).await;
        report
    }

    async fn new_verification(&self) -> String {
        let (store, _) = self.process(usize::MAX);
        let units = verify_units(&self.world.model(), &arguments());
        store.create(new_job(JobKind::Verify, units)).await.unwrap().id
    }

    /// Runs or resumes a repair in a process; returns whether it ended.
    async fn repair(&self, id: &str, findings: &[VerifyFinding], requests: usize) -> bool {
        self.objects.set_clock(self.world.clock.now());
        let (store, tables) = self.process(requests);
        let world = &self.world;
        let repairer = DriftRepairer::new(world.context(tables.clone()), TOLERANCE);
        let rows = judge(world, Arc::clone(&self.objects), tables, TOLERANCE);
        let task = RepairTask::new(repairer, Some(rows), id, findings);
        let running = async {
            let acquired = acquire(&self.world, &store, id).await.unwrap();
            let runner = JobRunner { store: &store, observer: &SilentObserver, workers: 3 };
            runner.run(acquired, &task).await.unwrap()
        };
        let done = running.now_or_never();
        world.clock.sleep(Duration::from_secs(61)).await;
        done.is_some_and(|job| job.status == JobStatus::Done)
    }
}

fn arguments() -> VerifyArguments {
    VerifyArguments {
        tolerance_seconds: TOLERANCE.as_secs(),
        segments: 2,
        datasets: DatasetCoverage::Compared,
        ..VerifyArguments::default()
    }
}

#[tokio::test]
async fn a_verification_that_was_killed_finds_the_same_as_one_that_was_not() {
    let drifted = DriftedWorld::new(300).await;
    let whole = drifted.new_verification().await;
    let expected = drifted.verify(&whole, usize::MAX).await.unwrap();
    assert!(expected.findings.len() >= 6, "ledger, rollups and datasets: {:#?}", expected.findings);
    let killed = drifted.new_verification().await;
    let mut kills = 0;
    let mut report = None;
    for requests in [10, 40, 90, 150, 220, 300, 400, 520, 700, 1_000, usize::MAX] {
        report = drifted.verify(&killed, requests).await;
        if report.is_some() {
            break;
        }
        kills += 1;
    }
    assert!(kills >= 5, "{kills} kills");
    let report = report.unwrap();
    assert_eq!(report.findings, expected.findings);
    assert_eq!(report.summary, expected.summary);
}

#[tokio::test]
async fn a_repair_that_was_killed_is_resumed_and_leaves_nothing() {
    let drifted = DriftedWorld::new(301).await;
    let id = drifted.new_verification().await;
    let findings = drifted.verify(&id, usize::MAX).await.unwrap().findings;
    let (store, _) = drifted.process(usize::MAX);
    let job = store.create(new_job(JobKind::Repair, repair_units(&findings))).await.unwrap();
    let journal = JobJournal::new(drifted.process(usize::MAX).0, &job.id);
    for part in findings.chunks(2) {
        let stored: Vec<VerifyFinding> = part.iter().map(VerifyFinding::without_values).collect();
        journal.append(&stored).await.unwrap();
    }
    let (mut kills, mut is_done) = (0, false);
    for requests in [6, 12, 20, 30, 45, usize::MAX] {
        let stored: Vec<Vec<VerifyFinding>> =
            JobJournal::new(drifted.process(usize::MAX).0, &job.id).read().await.unwrap();
        let stored = stored.concat();
        assert_eq!(repair_units(&stored), repair_units(&findings));
        is_done = drifted.repair(&job.id, &stored, requests).await;
        if is_done {
            break;
        }
        kills += 1;
    }
    assert!(is_done && kills >= 3, "{kills} kills");
    let id = drifted.new_verification().await;
    let after = drifted.verify(&id, usize::MAX).await.unwrap();
    assert_eq!(after.findings, []);
    assert_eq!(drifted.world.differences(), []);
}
