//! B2, C1. A request that fails once changes nothing in what a verification finds, in the vanished items that a backfill names, or in the
//! copies that a repair writes.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use afterwrite_ledger::tables::{
    ConsumedUnits, IndexPage, IndexQuery, ReadSnapshot, ScanPage, ScanRequest, TableScan, TableSummary,
    Tables, TransactError, WriteError,
};
use afterwrite_memory::{MemoryObjects, MemoryTables};
use afterwrite_model::effect::{ItemKey, Write};
use afterwrite_model::record::{AttributeValue, Decimal, Item};
use afterwrite_model::table::Model;
use afterwrite_model::{Error, ErrorKind};
use afterwrite_operations::DeploymentContext;
use afterwrite_operations::backfill::{BackfillArguments, BackfillTask};
use afterwrite_operations::jobs::SilentObserver;
use afterwrite_operations::repair::{DriftRepairer, RepairTask, repair_units};
use afterwrite_operations::verify::{
    DatasetCoverage, ThreeWayCheck, VerifyArguments, VerifyFinding, VerifyJob, VerifyReport, VerifyTask,
};
use afterwrite_tests::clock::StillClock;

use super::world::{ProofWorld, STATE, TABLE, TOLERANCE, model_text};

/// Tables of which one request fails.
#[derive(Clone)]
struct FailsOnce {
    tables: Arc<MemoryTables>,
    requests: Arc<AtomicUsize>,
    /// The number of the request that fails.
    failing: usize,
}

impl FailsOnce {
    fn request(&self) -> Result<(), Error> {
        if self.requests.fetch_add(1, Ordering::Relaxed) == self.failing {
            return Err(Error::new(ErrorKind::Unavailable, "the table is throttled"));
        }
        Ok(())
    }
}

impl Tables for FailsOnce {
    async fn read(&self, keys: &[ItemKey]) -> Result<ReadSnapshot, Error> {
        self.request()?;
        self.tables.read(keys).await
    }

    async fn write(&self, write: &Write) -> Result<ConsumedUnits, WriteError> {
        self.request().map_err(WriteError::Failed)?;
        self.tables.write(write).await
    }

    async fn transact(&self, writes: &[Write]) -> Result<ConsumedUnits, TransactError> {
        self.request().map_err(TransactError::Failed)?;
        // The response is lost as well, as if the process was killed then.
        let done = self.tables.transact(writes).await;
        self.request().map_err(TransactError::Failed)?;
        done
    }

    async fn query_index(&self, query: &IndexQuery) -> Result<IndexPage, Error> {
        self.request()?;
        self.tables.query_index(query).await
    }
}

impl TableScan for FailsOnce {
    async fn scan(&self, request: &ScanRequest) -> Result<ScanPage, Error> {
        self.request()?;
        self.tables.scan(request).await
    }

    async fn describe(&self, table: &str) -> Result<TableSummary, Error> {
        self.tables.describe(table).await
    }
}

/// The deployment with tables of which one request fails, and the number of requests.
fn failing_once(
    world: &ProofWorld,
    failing: usize,
) -> (DeploymentContext<FailsOnce, &'static StillClock>, Arc<AtomicUsize>) {
    let requests = Arc::new(AtomicUsize::new(0));
    let tables = FailsOnce { tables: Arc::clone(&world.tables), requests: Arc::clone(&requests), failing };
    (world.context().with_tables(tables), requests)
}

/// Verifies while one request fails; returns the report and the number of requests. The report is an error if the request failed so late in
/// its step that the step is not repeated: then the job fails.
async fn verify(world: &ProofWorld, failing: usize) -> (Result<VerifyReport, Error>, usize) {
    let arguments = VerifyArguments {
        tolerance_seconds: TOLERANCE.as_secs(),
        segments: 2,
        three_way: Some(ThreeWayCheck {
            attribute: "order_count".to_owned(),
            rollup: "country".to_owned(),
            measure: "orders".to_owned(),
        }),
        ..VerifyArguments::default()
    };
    let (context, requests) = failing_once(world, failing);
    let task = VerifyTask::new(context, arguments);
    let units = task.units();
    let job: VerifyJob<Arc<MemoryObjects>, _, _> = VerifyJob::new(task, None, DatasetCoverage::NoDatasets);
    let done = world.run(units, &job, &SilentObserver).await;
    (done.map(|done| job.report(&done.totals)), requests.load(Ordering::Relaxed))
}

#[tokio::test]
async fn b2_a_request_that_fails_once_changes_no_finding() {
    let world = ProofWorld::new(20);
    world.put_customer(0, &[("country", "NO")]);
    let shown = |customer: &'static str, count: i64| {
        let number = AttributeValue::N(count.into());
        let item = [
            ("pk".into(), AttributeValue::text(customer)),
            ("country".into(), AttributeValue::text("NO")),
            ("order_count".into(), number),
        ];
        world.tables.put(TABLE, Item::from(item)).unwrap();
    };
    shown("CUSTOMER#1", 20);
    shown("CUSTOMER#2", 19);
    world.backfill(BackfillArguments::default()).await.unwrap();
    // A wrong rollup, and an order that nothing has counted.
    let state = MemoryTables::scan(&world.tables, STATE);
    let rollup = state.into_iter().find(|item| item.get("orders").is_some());
    let mut rollup = rollup.expect("the rollup of the country");
    rollup.insert("amount".into(), AttributeValue::N(1.into()));
    world.tables.put(STATE, rollup).unwrap();
    world.put_order(77, "3", 5);

    let (right, requests) = verify(&world, usize::MAX).await;
    let right = right.unwrap();
    assert!(right.findings.len() >= 3 && requests > 10, "{requests} requests, {right:#?}");
    let mut finished = 0;
    for failing in 0..requests {
        let Ok(report) = verify(&world, failing).await.0 else { continue };
        finished += 1;
        assert_eq!(report.findings, right.findings, "request {failing} fails");
        assert_eq!(report.summary, right.summary, "request {failing} fails");
    }
    assert!(finished * 2 > requests, "{finished} of {requests}");
}

/// Subtracts orders that vanished while one request fails; returns the vanished orders that the last job names, and the number of requests.
async fn subtract(failing: usize) -> (Option<u64>, usize) {
    const VANISHED: u32 = 5;
    let world = ProofWorld::new(20);
    world.backfill(BackfillArguments::default()).await.unwrap();
    (0..VANISHED).for_each(|order| {
        let item = Item::from([("pk".into(), AttributeValue::text(format!("ORDER#{order}")))]);
        world.tables.delete(&world.tables.key_of(TABLE, &item).unwrap()).unwrap();
    });
    let all = BackfillArguments { all: true, segments: 2, ..BackfillArguments::default() };
    let (context, requests) = failing_once(&world, failing);
    let done = match BackfillTask::new(context, all.clone(), None).await {
        Ok(task) => world.run(task.units(), &task, &SilentObserver).await,
        Err(error) => Err(error),
    };
    // An operator plans a job that failed again.
    let done = match done {
        Ok(done) => done,
        Err(_) => world.backfill(all).await.unwrap(),
    };
    (done.totals.get("vanished").copied(), requests.load(Ordering::Relaxed))
}

#[tokio::test]
async fn c1_a_backfill_names_what_vanished_although_a_request_fails() {
    let (named, requests) = subtract(usize::MAX).await;
    assert!(named == Some(5) && requests > 10, "{requests} requests: {named:?}");
    for failing in 0..requests {
        assert_eq!(subtract(failing).await.0, Some(5), "request {failing} fails");
    }
}

/// Countries show the number of their orders.
const MIRROR: &str = r##"
[entities.country]
key = { pk = "COUNTRY#{country}" }

[[mirrors]]
onto = "country"
from = "country"
attributes = { order_count = "orders" }
"##;

/// Two countries whose rollups are wrong, and shown.
async fn wrong_countries() -> ProofWorld {
    let model = Model::parse(&(model_text(1, "ORDER", &["country"]) + MIRROR), "orders.toml");
    let world = ProofWorld::new(20).with(Arc::new(model.unwrap()));
    world.put_customer(0, &[("country", "SE")]);
    for country in ["NO", "SE"] {
        let key = ("pk".into(), AttributeValue::text(format!("COUNTRY#{country}")));
        world.tables.put(TABLE, Item::from([key])).unwrap();
    }
    world.backfill(BackfillArguments::default()).await.unwrap();
    for mut rollup in MemoryTables::scan(&world.tables, STATE) {
        if rollup.contains_key("orders") {
            let rev = rollup["rev"].as_number().unwrap().plus(&Decimal::ONE).unwrap();
            rollup.insert("orders".into(), AttributeValue::N(99.into()));
            rollup.insert("rev".into(), AttributeValue::N(rev));
            world.tables.put(STATE, rollup).unwrap();
        }
    }
    world.backfill(BackfillArguments { mirrors: true, ..BackfillArguments::default() }).await.unwrap();
    world
}

/// Repairs while one request fails, and again if the job has failed; returns the findings that are left, and the number of requests.
async fn repair(failing: usize) -> (Vec<VerifyFinding>, usize) {
    let world = wrong_countries().await;
    let findings = world.verify(VerifyArguments::default()).await.unwrap().findings;
    assert_eq!(findings.len(), 2, "{findings:#?}");
    let (context, requests) = failing_once(&world, failing);
    for context in [context, failing_once(&world, usize::MAX).0] {
        let repairer = DriftRepairer::new(context, TOLERANCE);
        let task: RepairTask<Arc<MemoryObjects>, _, _> = RepairTask::new(repairer, None, "repair", &findings);
        if world.run(repair_units(&findings), &task, &SilentObserver).await.is_ok() {
            break;
        }
    }
    let report = world.verify(VerifyArguments::default()).await.unwrap();
    (report.findings, requests.load(Ordering::Relaxed))
}

#[tokio::test]
async fn c1_a_repair_of_rollups_writes_every_copy_although_a_request_fails() {
    let (left, requests) = repair(usize::MAX).await;
    assert!(left.is_empty() && requests > 5, "{requests} requests: {left:#?}");
    for failing in 0..requests {
        let left = repair(failing).await.0;
        assert!(left.is_empty(), "request {failing} fails: {left:#?}");
    }
}

#[tokio::test]
async fn b2_a_rollup_that_never_expires_is_judged_although_it_has_an_expiry() {
    let world = ProofWorld::new(20);
    world.backfill(BackfillArguments::default()).await.unwrap();
    let rollups =
        MemoryTables::scan(&world.tables, STATE).into_iter().filter(|item| item.contains_key("orders"));
    for mut rollup in rollups {
        rollup.insert("orders".into(), AttributeValue::N(99.into()));
        rollup.insert("expires_at".into(), AttributeValue::N(1_770_000_000.into()));
        world.tables.put(STATE, rollup).unwrap();
    }
    let report = world.verify(VerifyArguments::default()).await.unwrap();
    let values: Vec<_> = report.findings.iter().flat_map(|finding| finding.values.keys()).collect();
    assert_eq!(values, ["expires_at", "orders"], "{report:#?}");
    let repairer = DriftRepairer::new(world.context(), TOLERANCE);
    let task: RepairTask<Arc<MemoryObjects>, _, _> =
        RepairTask::new(repairer, None, "repair", &report.findings);
    world.run(repair_units(&report.findings), &task, &SilentObserver).await.unwrap();
    let report = world.verify(VerifyArguments::default()).await.unwrap();
    assert_eq!((report.summary.drift, report.summary.rollups_confirmed), (0, 1), "{report:#?}");
}
