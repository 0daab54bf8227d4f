//! The exporter as a Lambda function: which objects an event names, and the response.

use std::time::Instant;

use afterwrite::Result;
use afterwrite::commit::RememberedLookups;
use afterwrite::config::{EnvironmentSettings, FunctionConfig, dynamodb_client, s3_client};
use afterwrite::sink::dynamodb::DynamoDb;
use afterwrite::sink::s3::S3Bucket;
use afterwrite_lambda::{
    BatchItemFailure, BatchResponse, EventSource, Invocation, LambdaFunction, MetricsLine,
};

use super::event::{CreatedObject, ExporterEvent};
use super::{ArchiveExporter, ExportTotals};

const FUNCTION: &str = "exporter";

/// The function `exporter`.
#[derive(Debug)]
pub struct ExporterFunction {
    exporter: ArchiveExporter<S3Bucket, DynamoDb>,
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
        let name = settings.required_bucket()?;
        let objects = S3Bucket::retrying(s3_client().await?, name.clone());
        let remembered = match &settings.state_table {
            Some(_) => {
                let tables = DynamoDb::retrying(Box::pin(dynamodb_client()).await?);
                Some(RememberedLookups::new(config.model.clone(), settings.required_state_table()?, tables))
            }
            None => None,
        };
        let exporter = ArchiveExporter::new(config.model, config.table_names, objects, remembered);
        Ok(Self { exporter, bucket: name.to_string() })
    }

    /// Exports the objects of each message; the response names the messages that failed.
    async fn export_messages(&self, messages: Vec<(String, Result<Vec<CreatedObject>>)>) -> BatchResponse {
        let mut response = BatchResponse::default();
        for (item_identifier, created) in messages {
            let exported = match created {
                Ok(created) => self.export(&created).await,
                Err(error) => Err(error),
            };
            if let Err(error) = exported {
                tracing::warn!(message = item_identifier, %error, "a message's objects were not exported");
                response.batch_item_failures.push(BatchItemFailure { item_identifier });
            }
        }
        response
    }

    /// Exports all of these objects, or as many as possible; returns the first error, if any.
    async fn export(&self, created: &[CreatedObject]) -> Result<()> {
        let mut first_error = None;
        for CreatedObject { bucket, key } in created {
            if *bucket != self.bucket {
                tracing::warn!(
                    bucket,
                    "an object of another bucket was skipped; AFTERWRITE_BUCKET names this function's bucket"
                );
                continue;
            }
            let started = Instant::now();
            match self.exporter.export(key).await {
                Ok(totals) => metrics(&totals).print(FUNCTION, &self.exporter.model().name, started),
                Err(error) => {
                    tracing::warn!(object = key, %error, "an object was not exported");
                    first_error.get_or_insert(error);
                }
            }
        }
        first_error.map_or(Ok(()), Err)
    }
}

impl LambdaFunction for ExporterFunction {
    type Response = BatchResponse;

    /// Exports the objects that an event names. An event of S3 fails with the first error of any object, and S3 redelivers it as a whole. Of
    /// SQS messages only those fail that the response names.
    async fn handle(&self, invocation: Invocation) -> Result<BatchResponse> {
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
        match ExporterEvent::read(invocation.payload())? {
            ExporterEvent::Objects(created) => {
                Box::pin(self.export(&created)).await.map(|()| BatchResponse::default())
            }
            ExporterEvent::Messages(messages) => Ok(Box::pin(self.export_messages(messages)).await),
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
    line.count("files", totals.files);
    line.count("files_there", totals.existing_files);
    line.count("file_bytes", totals.file_bytes);
    line
}
