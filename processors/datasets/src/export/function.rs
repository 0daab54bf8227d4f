//! The exporter as a Lambda function: exports the objects that an event names.

use std::time::Instant;

use afterwrite::commit::{Clock as _, RememberedLookups, SystemClock};
use afterwrite::config::{
    EnvironmentSettings, FunctionConfig, bucket, dynamodb_client, s3_client, state_table,
};
use afterwrite::sink::Tables;
use afterwrite::sink::dynamodb::DynamoDb;
use afterwrite::sink::s3::{Bucket, S3Bucket};
use afterwrite_functions::Response;
use afterwrite_functions::host::log;
use afterwrite_functions::metrics::Line;
use afterwrite_functions::response::BatchItemFailure;
use lambda_runtime::{Error, LambdaEvent, service_fn, tracing};
use serde_json::value::RawValue;

use super::event::{CreatedObject, ExporterEvent};
use super::{ArchiveExporter, ExportTotals};

const FUNCTION: &str = "exporter";

/// The function: an exporter and its bucket.
#[derive(Debug)]
struct ExporterFunction<B, T> {
    exporter: ArchiveExporter<B, T>,
    bucket: String,
}

/// Runs the exporter until Lambda ends it.
///
/// # Errors
/// A missing or invalid setting; the error names its variable.
pub async fn run() -> Result<(), Error> {
    log();
    let settings = EnvironmentSettings::from_env();
    let config = FunctionConfig::resolve(&settings, &[])?;
    let name = bucket(&settings)?;
    let objects = S3Bucket::retrying(s3_client().await?, name.clone());
    let remembered = match &settings.state_table {
        Some(_) => {
            let tables = DynamoDb::new(Box::pin(dynamodb_client()).await?);
            Some(RememberedLookups::new(config.model.clone(), state_table(&settings)?, tables))
        }
        None => None,
    };
    let exporter = ArchiveExporter::new(config.model, config.table_names, objects, remembered);
    let function = ExporterFunction { exporter, bucket: name.to_string() };
    lambda_runtime::run(service_fn(|event: LambdaEvent<Box<RawValue>>| function.handle(event))).await
}

impl<B: Bucket, T: Tables> ExporterFunction<B, T> {
    /// Exports the objects of an event. If one of them fails, an event of S3 fails and is redelivered as a whole; of SQS messages
    /// only the failed ones are reported in the response.
    async fn handle(&self, event: LambdaEvent<Box<RawValue>>) -> Result<Response, Error> {
        let mut response = Response::default();
        match ExporterEvent::read(event.payload.get())? {
            ExporterEvent::Objects(created) => Box::pin(self.export(&created)).await?,
            ExporterEvent::Messages(messages) => {
                for (item_identifier, created) in messages {
                    let exported = match created {
                        Ok(created) => Box::pin(self.export(&created)).await,
                        Err(error) => Err(error),
                    };
                    if let Err(error) = exported {
                        tracing::warn!(message = item_identifier, %error, "the objects of a message were not exported");
                        response.batch_item_failures.push(BatchItemFailure { item_identifier });
                    }
                }
            }
        }
        Ok(response)
    }

    /// Exports as many of these objects as possible; returns the first error.
    async fn export(&self, created: &[CreatedObject]) -> afterwrite::Result<()> {
        let mut first_error = None;
        for CreatedObject { bucket, key } in created {
            if *bucket != self.bucket {
                tracing::warn!(bucket, "ignored an object of a bucket other than AFTERWRITE_BUCKET");
                continue;
            }
            let begun = Instant::now();
            match self.exporter.export(key).await {
                Ok(totals) => {
                    let model = &self.exporter.model().name;
                    println!("{}", metrics(&totals).of(FUNCTION, model, begun.elapsed(), SystemClock.now()));
                }
                Err(error) => {
                    tracing::warn!(object = key, %error, "an object was not exported");
                    first_error.get_or_insert(error);
                }
            }
        }
        first_error.map_or(Ok(()), Err)
    }
}

fn metrics(totals: &ExportTotals) -> Line {
    let mut line = Line::default();
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
