//! Orders of customers on tables in memory, counted by their customer's country.

use std::sync::Arc;
use std::time::Duration;

use afterwrite_memory::{MemoryObjects, MemoryTables, TableDefinition};
use afterwrite_model::clock::Clock as _;
use afterwrite_model::record::{AttributeValue, Decimal, Item, Timestamp};
use afterwrite_model::table::Model;
use afterwrite_operations::DeploymentContext;
use afterwrite_operations::backfill::{BackfillArguments, BackfillTask};
use afterwrite_operations::jobs::{
    JobBasis, JobKind, JobObserver, JobPlan, JobReport, JobRunner, JobState, JobStore, JobTask, NewJob,
    SilentObserver, WorkUnit,
};
use afterwrite_operations::verifier::SampleRotation;
use afterwrite_operations::verify::{
    DatasetCoverage, VerifyArguments, VerifyFinding, VerifyJob, VerifyReport, VerifyTask,
};
use afterwrite_tests::clock::StillClock;
use serde_json::Value;

pub(super) const STATE: &str = "state";
pub(super) const TABLE: &str = "Shop";
pub(super) const TOLERANCE: Duration = Duration::from_secs(120);

/// The aggregate that counts orders by region.
const BY_REGION: &str = r##"
[rollups.region]
key = { PK = "REGION#{region}", SK = "ROLLUP" }

[[aggregates]]
name = "orders_by_region"
of = "order"
lookup = "buyer"
into = "region"
measures.orders = "count"
"##;

/// The model of this generation. Its lookup gives these attributes; with `region`, orders are counted by region, too.
pub(super) fn model(generation: u32, gives: &[&str]) -> Arc<Model> {
    model_of_orders(generation, "ORDER", gives)
}

/// The same model with another beginning of the keys of orders.
pub(super) fn model_of_orders(generation: u32, order: &str, gives: &[&str]) -> Arc<Model> {
    let source = model_text(generation, order, gives);
    Arc::new(Model::parse(&source, "orders.toml").unwrap_or_else(|errors| panic!("{}", errors.into_error())))
}

/// The file of that model.
pub(super) fn model_text(generation: u32, order: &str, gives: &[&str]) -> String {
    let outputs: Vec<String> = gives.iter().map(|name| format!("\"{name}\"")).collect();
    let by_region = if gives.contains(&"region") { BY_REGION } else { "" };
    format!(
        r#"
name = "orders"
generation = {generation}

[tables.{TABLE}]
key = ["pk"]

[entities.customer]
key = {{ pk = "CUSTOMER#{{customer_id}}" }}
attributes = {{ country = "S", region = "S" }}

[entities.order]
key = {{ pk = "{order}#{{order_id}}" }}
attributes = {{ customer = "S", amount = "N" }}

[lookups.buyer]
of = "customer"
key = {{ pk = "CUSTOMER#{{customer}}" }}
gives = [{}]

[rollups.country]
key = {{ PK = "COUNTRY#{{country}}", SK = "ROLLUP" }}

[[aggregates]]
name = "orders_by_country"
of = "order"
lookup = "buyer"
into = "country"
measures.orders = "count"
measures.amount = {{ sum = "amount" }}
{by_region}"#,
        outputs.join(", ")
    )
}

/// The tables, with a clock that only waits move.
pub(super) struct ProofWorld {
    pub(super) model: Arc<Model>,
    pub(super) tables: Arc<MemoryTables>,
    pub(super) clock: &'static StillClock,
}

impl ProofWorld {
    /// Ten customers, and so many orders, which nothing has counted.
    pub(super) fn new(orders: u32) -> Self {
        let now = Timestamp::from_epoch_seconds(1_770_400_000);
        let tables = MemoryTables::new();
        tables.create_table(TableDefinition::new(STATE, "PK").sort("SK"));
        tables.create_table(TableDefinition::new(TABLE, "pk").streamed());
        tables.set_time(now);
        let world = Self {
            model: model(1, &["country"]),
            tables: Arc::new(tables),
            clock: Box::leak(Box::new(StillClock::at(now))),
        };
        for customer in 0..10 {
            world.put_customer(customer, &[("country", "NO"), ("region", "north")]);
        }
        (0..orders).for_each(|order| world.put_order(order, &format!("{}", order % 10), 5));
        world
    }

    /// The same tables with another model.
    pub(super) fn with(&self, model: Arc<Model>) -> Self {
        Self { model, tables: Arc::clone(&self.tables), clock: self.clock }
    }

    /// The rotation before the first run, with a state table of this id.
    pub(super) async fn rotation(&self, id: &str) -> SampleRotation {
        let mut basis = JobBasis::of(&self.context(), None, &Value::Null).await.unwrap();
        basis.state_table.id = Some(id.to_owned());
        SampleRotation::new(&basis, &self.clock).unwrap()
    }

    pub(super) fn put_customer(&self, customer: u32, attributes: &[(&'static str, &str)]) {
        let mut item = Item::from([("pk".into(), AttributeValue::text(format!("CUSTOMER#{customer}")))]);
        item.extend(
            attributes
                .iter()
                .map(|(name, value)| ((*name).into(), AttributeValue::text((*value).to_owned()))),
        );
        self.tables.put(TABLE, item).unwrap();
    }

    pub(super) fn put_order(&self, order: u32, customer: &str, amount: i64) {
        let item = Item::from([
            ("pk".into(), AttributeValue::text(format!("ORDER#{order}"))),
            ("customer".into(), AttributeValue::text(customer.to_owned())),
            ("amount".into(), AttributeValue::N(Decimal::from(amount))),
        ]);
        self.tables.put(TABLE, item).unwrap();
    }

    pub(super) fn names(&self) -> Vec<Arc<str>> {
        vec![Arc::from(TABLE)]
    }

    /// The deployment.
    pub(super) fn context(&self) -> DeploymentContext<Arc<MemoryTables>, &'static StillClock> {
        DeploymentContext {
            model: Arc::clone(&self.model),
            table_names: self.names(),
            state_table: Arc::from(STATE),
            tables: Arc::clone(&self.tables),
            clock: self.clock,
        }
    }

    /// The task of a verification.
    pub(super) fn task(
        &self,
        arguments: VerifyArguments,
    ) -> VerifyTask<Arc<MemoryTables>, &'static StillClock> {
        let arguments = VerifyArguments { tolerance_seconds: TOLERANCE.as_secs(), segments: 3, ..arguments };
        VerifyTask::new(self.context(), arguments)
    }

    /// Verifies as a job.
    pub(super) async fn verify(
        &self,
        arguments: VerifyArguments,
    ) -> Result<VerifyReport, afterwrite_model::Error> {
        let task = self.task(arguments);
        let units = task.units();
        let job: VerifyJob<Arc<MemoryObjects>, _, _> =
            VerifyJob::new(task, None, DatasetCoverage::NoDatasets);
        let done = self.run(units, &job, &SilentObserver).await?;
        Ok(job.report(&done.totals))
    }

    /// Runs a job.
    pub(super) async fn run(
        &self,
        units: Vec<WorkUnit>,
        task: &impl JobTask,
        observer: &impl JobObserver,
    ) -> Result<JobState, afterwrite_model::Error> {
        let store = JobStore::new(Arc::clone(&self.tables), self.clock, Arc::from(STATE));
        let (arguments, basis) = (serde_json::json!({}), JobBasis::default());
        let (kind, plan) = (JobKind::Verify, JobPlan::default());
        let new = NewJob { kind, arguments, basis: basis.clone(), units, plan, rate: None };
        let job = store.create(new).await?;
        self.tables.set_time(self.clock.now());
        let job = store.acquire(&job.id, &basis).await?;
        // The clock stands still between jobs: the next one needs another id.
        self.clock.sleep(Duration::from_secs(1)).await;
        JobRunner { store: &store, observer, workers: 3 }.run(job, task).await
    }

    /// Counts what the tables have.
    pub(super) async fn backfill(
        &self,
        arguments: BackfillArguments,
    ) -> Result<JobState, afterwrite_model::Error> {
        let task = BackfillTask::new(self.context(), arguments, None);
        let task = task.await?;
        self.run(task.units(), &task, &SilentObserver).await
    }
}

/// The lines of a job's progress.
#[derive(Debug, Default)]
pub(super) struct SeenLines(std::sync::Mutex<Vec<String>>);

impl JobObserver for SeenLines {
    fn observe(&self, report: &JobReport) {
        self.0.lock().unwrap().push(report.line());
    }
}

impl SeenLines {
    pub(super) fn lines(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }
}

/// The keys of findings.
pub(super) fn keys(findings: &[VerifyFinding]) -> Vec<String> {
    findings.iter().map(|finding| finding.subject.key().1.join(" / ")).collect()
}
