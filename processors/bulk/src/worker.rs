//! The worker: carries out one request at a time, on this machine or in Lambda.

use std::sync::Arc;

use afterwrite_ledger::tables::{TableScan, Tables};
use afterwrite_model::clock::Clock;
use afterwrite_model::table::Model;
use afterwrite_model::{Error, ErrorKind, Result};
use afterwrite_services::Bucket;

use crate::map::{MapStep, MapTarget};
use crate::plan::{PlanTarget, RunRequests, plan, requests};
use crate::reduce::{DEFAULT_PASS_BYTES, reduce};
use crate::request::{BulkRequest, BulkResponse, BulkTotals, MapRequest, PlanReport, PlanRequest};

/// Carries out the requests of bulk backfills of one deployment.
#[derive(Clone, Debug)]
pub struct BulkWorker<B, T, C> {
    bucket: B,
    model: Arc<Model>,
    table_names: Vec<Arc<str>>,
    state_table: Arc<str>,
    tables: T,
    clock: C,
    pass_bytes: u64,
}

impl<B, T, C> BulkWorker<B, T, C>
where
    B: Bucket,
    T: Tables + TableScan + Clone,
    C: Clock + Clone,
{
    /// A worker for the exports in `bucket`. `state_table` is the deployed one: it remembers lookups.
    pub fn new(
        bucket: B,
        model: Arc<Model>,
        table_names: Vec<Arc<str>>,
        state_table: Arc<str>,
        tables: T,
        clock: C,
    ) -> Self {
        Self { bucket, model, table_names, state_table, tables, clock, pass_bytes: DEFAULT_PASS_BYTES }
    }

    /// Sets how many compressed bytes of partial rollups are merged at once; the default is 16 MiB.
    #[must_use]
    pub fn merging_at_once(mut self, bytes: u64) -> Self {
        self.pass_bytes = bytes;
        self
    }

    /// The bucket of the exports and of the runs.
    #[must_use]
    pub fn bucket(&self) -> &B {
        &self.bucket
    }

    /// Carries out a request. It may be repeated at any time, by any worker.
    ///
    /// # Errors
    /// [`ErrorKind::Configuration`] if the request does not fit the deployment; an export or an object that cannot be read; a service that
    /// cannot be reached, after which the request can be repeated.
    pub async fn handle(&self, request: &BulkRequest) -> Result<BulkResponse> {
        match request {
            BulkRequest::Plan(request) => {
                let target = self.plan_target();
                let planned = plan(&self.bucket, &target, &self.clock, request);
                Box::pin(planned).await.map(BulkResponse::Planned)
            }
            BulkRequest::Map(request) => {
                let step = MapStep::new(&self.bucket, request, self.map_target(&request.model)?)?;
                let totals = Box::pin(step.run()).await?;
                Ok(BulkResponse::Counted { totals })
            }
            BulkRequest::Reduce(request) => {
                self.check_model(&request.model)?;
                let totals = Box::pin(reduce(&self.bucket, &self.model, request, self.pass_bytes)).await?;
                Ok(BulkResponse::Counted { totals })
            }
        }
    }

    /// The requests of a run, without writing anything.
    ///
    /// # Errors
    /// As [`BulkWorker::handle`].
    pub async fn requests(&self, request: &PlanRequest) -> Result<(RunRequests, PlanReport)> {
        let target = self.plan_target();
        Box::pin(requests(&self.bucket, &target, &self.clock, request)).await
    }

    /// Counts the first items of a data file and writes no object: the counters have the sizes, for an estimate. Lookups are remembered
    /// in the tables of this worker.
    ///
    /// # Errors
    /// As [`BulkWorker::handle`].
    pub async fn sample(&self, request: &MapRequest, items: u64) -> Result<BulkTotals> {
        let step = MapStep::new(&self.bucket, request, self.map_target(&request.model)?)?;
        Box::pin(step.sample(items)).await
    }

    fn plan_target(&self) -> PlanTarget<'_, T> {
        PlanTarget { model: &self.model, table_names: &self.table_names, tables: &self.tables }
    }

    fn map_target(&self, model: &str) -> Result<MapTarget<'_, T, C>> {
        self.check_model(model)?;
        Ok(MapTarget {
            model: &self.model,
            table_names: &self.table_names,
            state_table: &self.state_table,
            deployed: self.tables.clone(),
            clock: self.clock.clone(),
        })
    }

    fn check_model(&self, fingerprint: &str) -> Result<()> {
        if fingerprint == &**self.model.fingerprint() {
            return Ok(());
        }
        Err(Error::new(ErrorKind::Configuration, "the run was planned with another model")
            .with("fingerprint of the plan", fingerprint)
            .with("fingerprint of this worker", &**self.model.fingerprint())
            .hint("Use one model for all steps, or plan another run"))
    }
}
