//! B2. A request that fails once changes nothing in what a verification finds: its step is repeated.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use afterwrite_ledger::tables::{
    ConsumedUnits, IndexPage, IndexQuery, ReadSnapshot, ScanPage, ScanRequest, TableScan, TableSummary,
    Tables, TransactError, WriteError,
};
use afterwrite_memory::{MemoryObjects, MemoryTables};
use afterwrite_model::effect::{ItemKey, Write};
use afterwrite_model::record::{AttributeValue, Item};
use afterwrite_model::{Error, ErrorKind};
use afterwrite_operations::DeploymentContext;
use afterwrite_operations::backfill::BackfillArguments;
use afterwrite_operations::jobs::SilentObserver;
use afterwrite_operations::verify::{
    DatasetCoverage, ThreeWayCheck, VerifyArguments, VerifyJob, VerifyReport, VerifyTask,
};

use super::world::{ProofWorld, STATE, TABLE, TOLERANCE};

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
        self.tables.write(write).await
    }

    async fn transact(&self, writes: &[Write]) -> Result<ConsumedUnits, TransactError> {
        self.tables.transact(writes).await
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
    let requests = Arc::new(AtomicUsize::new(0));
    let tables = FailsOnce { tables: Arc::clone(&world.tables), requests: Arc::clone(&requests), failing };
    let DeploymentContext { model, table_names, state_table, clock, .. } = world.context();
    let task =
        VerifyTask::new(DeploymentContext { model, table_names, state_table, tables, clock }, arguments);
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
