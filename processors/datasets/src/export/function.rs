//! The exporter as a Lambda function: which objects an event names, and the response. It also carries out the steps of a bulk backfill.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Instant;

use afterwrite_bulk::BulkWorker;
use afterwrite_bulk::request::{BulkRequest, BulkResponse};
use afterwrite_lambda::{
    BatchItemFailure, BatchResponse, EventSource, HandledInvocation, Invocation, LambdaFunction,
    MetricsLabels, MetricsLine, response_json,
};
use afterwrite_ledger::RememberedLookups;
use afterwrite_model::clock::{Clock as _, SystemClock};
use afterwrite_model::heartbeat::HeartbeatStage;
use afterwrite_model::record::Timestamp;
use afterwrite_model::{Error, ErrorKind, Result};
use afterwrite_services::config::{EnvironmentSettings, FunctionConfig, ProjectionKind};
use afterwrite_services::dynamodb::DynamoDb;
use afterwrite_services::s3::S3Bucket;
use serde::Serialize;

use super::event::{CreatedObject, ExporterEvent};
use super::{ArchiveExporter, ExportTotals};

const FUNCTION: &str = "exporter";

/// The function `exporter`.
#[derive(Debug)]
pub struct ExporterFunction {
    exporter: ArchiveExporter<S3Bucket, Arc<DynamoDb>, SystemClock>,
    /// Carries out the steps of a bulk backfill; `None` without a state table.
    bulk: Option<BulkWorker<S3Bucket, Arc<DynamoDb>, SystemClock>>,
    labels: MetricsLabels,
    /// Objects of other buckets are skipped.
    bucket: String,
}

impl ExporterFunction {
    /// Creates the function.
    ///
    /// # Errors
    /// A missing or wrong setting, named by its variable.
    pub async fn start(settings: EnvironmentSettings) -> Result<Self> {
        let config = FunctionConfig::resolve(&settings)?;
        settings.check_state_source(&config.model, [ProjectionKind::Archive])?;
        let name = settings.required_bucket()?;
        let objects = S3Bucket::retrying(settings.s3_client().await?, name.clone());
        let (mut remembered, mut bulk) = (None, None);
        if settings.state_table.is_some() {
            let tables = Arc::new(DynamoDb::retrying(Box::pin(settings.dynamodb_client()).await?));
            let (model, state_table) = (config.model.clone(), settings.required_state_table()?);
            bulk = Some(BulkWorker::new(
                objects.clone(),
                model.clone(),
                config.table_names.clone(),
                state_table.clone(),
                Arc::clone(&tables),
                SystemClock,
            ));
            remembered = Some(RememberedLookups::new(model, state_table, tables));
        }
        let labels = MetricsLabels::new(&settings, FUNCTION, &config.model)?;
        let exporter =
            ArchiveExporter::new(config.model, config.table_names, objects, remembered, SystemClock);
        Ok(Self { exporter, bulk, labels, bucket: name.to_string() })
    }

    /// Exports the objects of all messages, with one commit for each dataset; the response names the messages that failed.
    async fn export_messages(
        &self,
        messages: Vec<(String, Result<Vec<CreatedObject>>)>,
        deadline: Timestamp,
    ) -> BatchResponse {
        let (mut response, mut keys, mut message_of_key) = (BatchResponse::default(), Vec::new(), Vec::new());
        let (mut failed, mut foreign) = (BTreeSet::new(), 0);
        for (index, (_, created)) in messages.iter().enumerate() {
            match created {
                Ok(created) => {
                    let (own, others) = self.own_keys(created);
                    foreign += others;
                    message_of_key.extend(own.iter().map(|_| index));
                    keys.extend(own);
                }
                Err(error) => {
                    tracing::warn!(%error, "a message was not read");
                    failed.insert(index);
                }
            }
        }
        let outcomes = self.export(&keys, foreign, deadline).await;
        failed.extend(
            message_of_key.into_iter().zip(&outcomes).filter(|(_, it)| it.is_err()).map(|(at, _)| at),
        );
        for (index, (item_identifier, _)) in messages.into_iter().enumerate() {
            if failed.contains(&index) {
                tracing::warn!(message = item_identifier, "a message's objects were not exported");
                response.batch_item_failures.push(BatchItemFailure { item_identifier });
            }
        }
        response
    }

    /// Carries out a step of a bulk backfill.
    async fn bulk_step(&self, request: &BulkRequest) -> Result<BulkResponse> {
        let started = Instant::now();
        let worker = self.bulk.as_ref().ok_or_else(|| {
            Error::new(ErrorKind::Configuration, "a bulk backfill needs the state table")
                .hint("Set AFTERWRITE_STATE_TABLE to the deployed state table: lookups are remembered there")
        })?;
        let response = Box::pin(worker.handle(request)).await?;
        let mut line = MetricsLine::default();
        match &response {
            BulkResponse::Planned(planned) => line.count("bulk_planned_items", planned.item_count),
            BulkResponse::Counted { totals } => {
                let total = |name: &str| totals.get(name).copied().unwrap_or(0);
                line.count("bulk_items", total("items"));
                line.count("bulk_entries", total("entries"));
                line.count("bulk_rollups", total("rollups"));
                line.count("bulk_failed", total("failed"));
            }
        }
        line.print(&self.labels, started);
        Ok(response)
    }

    /// The keys of the objects in this function's bucket, and the number of the other objects.
    fn own_keys(&self, created: &[CreatedObject]) -> (Vec<String>, usize) {
        let mut keys = Vec::with_capacity(created.len());
        for CreatedObject { bucket, key } in created {
            if *bucket == self.bucket {
                keys.push(key.clone());
            } else {
                tracing::error!(
                    bucket,
                    own = self.bucket,
                    "an object of another bucket was not exported: if it has changes of this deployment, correct AFTERWRITE_BUCKET, and export it with `afterwrite export`"
                );
            }
        }
        let others = created.len() - keys.len();
        (keys, others)
    }

    /// Exports all of these objects, or as many as possible. `foreign` is the number of objects of other buckets that the event named, too.
    async fn export(&self, keys: &[String], foreign: usize, deadline: Timestamp) -> Vec<Result<()>> {
        let started = Instant::now();
        let outcomes = self.exporter.export(keys, deadline).await;
        let mut totals = ExportTotals { foreign, ..ExportTotals::default() };
        let mut done = Vec::with_capacity(outcomes.len());
        for (key, outcome) in keys.iter().zip(outcomes) {
            done.push(match outcome {
                Ok(exported) => {
                    totals += exported;
                    Ok(())
                }
                Err(error) => {
                    tracing::warn!(object = key, %error, "an object was not exported");
                    Err(error)
                }
            });
        }
        let mut line = metrics(&totals);
        let heartbeat = totals.heartbeat_ms.map(Timestamp::from_epoch_ms);
        line.freshness(HeartbeatStage::Exported, heartbeat.map(|written| SystemClock.now().since(written)));
        line.print(&self.labels, started);
        done
    }
}

/// The response of an invocation.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub enum ExporterResponse {
    /// To an event: the messages that failed.
    Exported(BatchResponse),
    /// To a request of a bulk backfill.
    Bulk(BulkResponse),
}

impl LambdaFunction for ExporterFunction {
    fn handle(&self, invocation: Invocation) -> HandledInvocation<'_> {
        Box::pin(async move { response_json(&self.respond(invocation).await?) })
    }
}

impl ExporterFunction {
    /// Exports the objects that an event names. An event of S3 fails with the first error of any object, and S3 redelivers it as a whole. Of
    /// SQS messages only those fail that the response names.
    async fn respond(&self, invocation: Invocation) -> Result<ExporterResponse> {
        if let Some(request) = BulkRequest::read(invocation.payload())? {
            return Box::pin(self.bulk_step(&request)).await.map(ExporterResponse::Bulk);
        }
        match EventSource::detect(invocation.payload().as_bytes()) {
            None | Some(EventSource::S3 | EventSource::Sqs) => {}
            Some(source) => {
                return Err(source.unexpected(
                    FUNCTION,
                    "S3 events, directly or from an SQS queue",
                    "Let the bucket notify it, or the queue, of the objects created under archive/",
                ));
            }
        }
        let deadline = invocation.deadline();
        match ExporterEvent::read(invocation.payload())? {
            ExporterEvent::Objects(created) => {
                let (own, foreign) = self.own_keys(&created);
                let outcomes = Box::pin(self.export(&own, foreign, deadline)).await;
                outcomes.into_iter().collect::<Result<()>>()?;
                Ok(ExporterResponse::Exported(BatchResponse::default()))
            }
            ExporterEvent::Messages(messages) => {
                let response = Box::pin(self.export_messages(messages, deadline)).await;
                Ok(ExporterResponse::Exported(response))
            }
        }
    }
}

fn metrics(totals: &ExportTotals) -> MetricsLine {
    let mut line = MetricsLine::default();
    line.count("foreign_objects", totals.foreign);
    line.count("lines", totals.lines);
    line.count("rows", totals.rows);
    line.count("duplicate_lines", totals.duplicates);
    line.count("unmatched", totals.unmatched);
    line.count("rejected_lines", totals.rejected);
    line.count("rescued_rows", totals.rescued);
    line.count("undated_rows", totals.undated);
    line.count("files", totals.files);
    line.count("files_there", totals.existing_files);
    line.count("file_bytes", totals.file_bytes);
    line
}
