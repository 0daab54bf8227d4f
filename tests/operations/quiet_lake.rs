//! A quiet world with complete datasets, and verifications of it.

use std::sync::Arc;
use std::time::Duration;

use afterwrite_ledger::tables::{TableScan, Tables};
use afterwrite_memory::MemoryObjects;
use afterwrite_model::clock::Clock as _;
use afterwrite_model::record::{AttributeValue, Item};
use afterwrite_operations::backfill::{BackfillArguments, BackfillJob, BackfillTask};
use afterwrite_operations::jobs::JobKind;
use afterwrite_operations::repair::{DatasetRepairer, RepairLogEntry, RepairOutcome};
use afterwrite_operations::verify::{
    DatasetCheck, DatasetCoverage, FindingPlace, FindingVerdict, VerifyArguments, VerifyFinding, VerifyJob,
    VerifyReport, VerifyTask, recheck_rows, verify_units,
};
use afterwrite_services::Bucket;

use super::created::run;
use super::lake::{compact, differences, export_archive, filling, judge, store_heartbeat};
use super::world::OperationWorld;

pub(super) const TOLERANCE: Duration = Duration::from_secs(120);

/// Counts all items, and fills the datasets.
pub(super) async fn fill(world: &Arc<OperationWorld>, objects: &Arc<MemoryObjects>) {
    let counting = BackfillTask::new(world.context(Arc::clone(world)), BackfillArguments::default(), None);
    let task = BackfillJob {
        counting: Some(counting.await.unwrap()),
        filling: Some(filling(world, Arc::clone(objects), Arc::clone(world), "fill")),
    };
    run(world, JobKind::Verify, task.units(), &task).await;
}

pub(super) fn arguments() -> VerifyArguments {
    VerifyArguments {
        tolerance_seconds: TOLERANCE.as_secs(),
        segments: 3,
        datasets: DatasetCoverage::Compared,
        ..VerifyArguments::default()
    }
}

pub(super) async fn verify<B, T>(
    world: &OperationWorld,
    bucket: B,
    tables: T,
    arguments: VerifyArguments,
) -> VerifyReport
where
    B: Bucket + Clone,
    T: Tables + TableScan + Clone,
{
    let units = verify_units(&world.model(), &arguments);
    let state = VerifyTask::new(world.context(tables.clone()), arguments.clone());
    let check = DatasetCheck::new(judge(world, bucket, tables, TOLERANCE), arguments);
    let job = VerifyJob::new(state, Some(check), DatasetCoverage::Compared);
    let done = run(world, JobKind::Verify, units, &job).await;
    job.report(&done.totals)
}

/// A quiet world whose datasets are complete: some rows are of a backfill, some of the stream.
pub(super) struct QuietLake {
    pub(super) world: Arc<OperationWorld>,
    pub(super) objects: Arc<MemoryObjects>,
}

impl QuietLake {
    pub(super) async fn new(model: &str, seed: u64) -> Self {
        let world = OperationWorld::new(model, seed, 40, 500);
        let objects = Arc::new(MemoryObjects::default());
        objects.set_clock(world.clock.now());
        fill(&world, &objects).await;
        world.finish();
        export_archive(&world, &objects, "rest").await;
        compact(&world, &objects).await;
        let lake = Self { world, objects };
        assert_eq!(differences(&lake.world, &lake.objects).await, [""; 0]);
        lake.pass(Duration::from_secs(3600)).await;
        lake
    }

    /// Time passes, and heartbeats go on for another day.
    pub(super) async fn pass(&self, time: Duration) {
        self.world.clock.sleep(time).await;
        self.objects.set_clock(self.world.clock.now());
        let tomorrow = self.world.clock.now().plus(Duration::from_secs(24 * 3600));
        store_heartbeat(&self.objects, tomorrow).await;
    }

    pub(super) async fn verify(&self) -> VerifyReport {
        self.verify_with(arguments()).await
    }

    pub(super) async fn verify_with(&self, arguments: VerifyArguments) -> VerifyReport {
        verify(&self.world, Arc::clone(&self.objects), Arc::clone(&self.world), arguments).await
    }

    pub(super) async fn repair(&self, findings: &[VerifyFinding], id: &str) -> Vec<RepairLogEntry> {
        self.objects.set_clock(self.world.clock.now());
        let judge = judge(&self.world, Arc::clone(&self.objects), Arc::clone(&self.world), TOLERANCE);
        DatasetRepairer::new(&judge, id, false).repair(findings).await.unwrap()
    }

    pub(super) fn table(&self) -> Arc<str> {
        self.world.table_names().remove(0)
    }

    /// An attempt, and a change of it that the stream never delivers.
    pub(super) fn attempt(&self) -> Item {
        let is_attempt = |item: &Item| text(item, "SK").starts_with("ATTEMPT#");
        self.world.rows(&self.table()).into_iter().find(is_attempt).unwrap()
    }

    pub(super) fn put_unseen(&self, item: Item) {
        self.world.tables.put(&self.table(), item).unwrap();
        let _ = self.world.tables.take_changes(&self.table());
    }

    pub(super) fn delete_unseen(&self, item: &Item) {
        let key = self.world.tables.key_of(&self.table(), item).unwrap();
        self.world.tables.delete(&key).unwrap();
        let _ = self.world.tables.take_changes(&self.table());
    }

    /// The findings about datasets are found again, repaired, and gone.
    pub(super) async fn assert_repaired(&self, report: &VerifyReport) {
        let findings = of_datasets(report);
        let before = self.objects.objects();
        let judge = judge(&self.world, Arc::clone(&self.objects), Arc::clone(&self.world), TOLERANCE);
        assert_eq!(recheck_rows(&judge, &findings).await.unwrap(), findings);
        let dry = DatasetRepairer::new(&judge, "dry", true).repair(&findings).await.unwrap();
        assert_eq!(self.objects.objects(), before, "a dry run writes nothing");
        let log = self.repair(&findings, "repair").await;
        let findings_of =
            |log: &[RepairLogEntry]| log.iter().map(|entry| entry.finding.clone()).collect::<Vec<_>>();
        assert_eq!(findings_of(&log), findings_of(&dry), "a dry run shows what the repair does");
        assert!(dry.iter().all(|entry| entry.outcome == RepairOutcome::WouldBeRepaired), "{dry:#?}");
        assert!(log.iter().all(|entry| entry.outcome == RepairOutcome::Repaired), "{log:#?}");
        assert_eq!(of_datasets(&self.verify().await), [], "rows that wait for their compaction count");
        compact(&self.world, &self.objects).await;
        assert_eq!(differences(&self.world, &self.objects).await, [""; 0]);
        assert_eq!(of_datasets(&self.verify().await), []);
        let again = self.repair(&findings, "again").await;
        assert!(again.iter().all(|entry| entry.outcome == RepairOutcome::AlreadyRight), "{again:#?}");
    }
}

pub(super) fn text<'i>(item: &'i Item, name: &str) -> &'i str {
    item.get(name).and_then(AttributeValue::as_text).unwrap_or_default()
}

pub(super) fn of_datasets(report: &VerifyReport) -> Vec<VerifyFinding> {
    let findings = report.findings.iter().filter(|finding| finding.place() == FindingPlace::Dataset);
    findings.cloned().collect()
}

/// The only finding about datasets.
pub(super) fn single(report: &VerifyReport) -> VerifyFinding {
    let findings = of_datasets(report);
    let [finding] = findings.as_slice() else { panic!("{findings:#?}") };
    assert_eq!(finding.verdict, FindingVerdict::Drift, "{finding:#?}");
    finding.clone()
}
