//! The exporter as a Lambda function: which objects an event speaks of, and what is answered.

use std::time::Instant;

use afterwrite::commit::{Clock as _, RememberedLookups, SystemClock};
use afterwrite::config::{
    EnvironmentSettings, FunctionConfig, bucket, dynamodb_client, s3_client, state_table,
};
use afterwrite::sink::Bucket;
use afterwrite::sink::Tables;
use afterwrite::sink::dynamodb::DynamoDb;
use afterwrite::sink::s3::S3Bucket;
use afterwrite_functions::Response;
use afterwrite_functions::host::log;
use afterwrite_functions::metrics::Line;
use afterwrite_functions::response::BatchItemFailure;
use lambda_runtime::{Error, LambdaEvent, service_fn, tracing};
use serde_json::value::RawValue;

use super::event::{Created, Notice};
use super::{Exporter, Tally};

const FUNCTION: &str = "exporter";

/// Exports what invocations speak of.
#[derive(Debug)]
pub struct Host<B, T> {
    exporter: Exporter<B, T>,
    bucket: String,
}

/// Runs the exporter until Lambda ends it.
///
/// # Errors
/// What is unset or wrong in the settings, named by its variable.
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
    let exporter = Exporter::new(config.model, config.table_names, objects, remembered);
    let host = Host::new(exporter, &name);
    lambda_runtime::run(service_fn(|event| host.answer(event))).await
}

impl<B: Bucket, T: Tables> Host<B, T> {
    /// A host of this exporter, for the objects of this bucket alone.
    #[must_use]
    pub fn new(exporter: Exporter<B, T>, bucket: &str) -> Self {
        Self { exporter, bucket: bucket.to_owned() }
    }

    async fn answer(&self, event: LambdaEvent<Box<RawValue>>) -> Result<Response, Error> {
        Ok(Box::pin(self.handle(event.payload.get())).await?)
    }

    /// Exports what an event speaks of.
    ///
    /// # Errors
    /// For an event of S3, the first failure of any object: S3's event comes again as a whole. Of messages only those fail that
    /// the response names.
    pub async fn handle(&self, event: &str) -> afterwrite::Result<Response> {
        match Notice::read(event)? {
            Notice::Direct(created) => self.export(&created).await.map(|()| Response::default()),
            Notice::Queued(messages) => {
                let mut response = Response::default();
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
                Ok(response)
            }
        }
    }

    /// Exports all of these objects, or as many as can be; the first error, if any.
    async fn export(&self, created: &[Created]) -> afterwrite::Result<()> {
        let mut failed = None;
        for Created { bucket, key } in created {
            if *bucket != self.bucket {
                tracing::warn!(
                    bucket,
                    "an object of another bucket was left alone; AFTERWRITE_BUCKET names ours"
                );
                continue;
            }
            let begun = Instant::now();
            match self.exporter.export(key).await {
                Ok(tally) => {
                    let model = &self.exporter.model().name;
                    println!("{}", metrics(&tally).of(FUNCTION, model, begun.elapsed(), SystemClock.now()));
                }
                Err(error) => {
                    tracing::warn!(object = key, %error, "an object was not exported");
                    failed.get_or_insert(error);
                }
            }
        }
        failed.map_or(Ok(()), Err)
    }
}

fn metrics(tally: &Tally) -> Line {
    let mut line = Line::default();
    line.count("foreign_objects", tally.foreign);
    line.count("lines", tally.lines);
    line.count("rows", tally.rows);
    line.count("duplicate_lines", tally.duplicates);
    line.count("unmatched", tally.unmatched);
    line.count("rejected_lines", tally.rejected);
    line.count("rescued_rows", tally.rescued);
    line.count("files", tally.files);
    line.count("files_there", tally.files_there);
    line.count("file_bytes", tally.file_bytes);
    line
}
