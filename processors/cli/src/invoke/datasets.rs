//! An event of `exporter` or `compactor`, on the environment's bucket or on an embedded S3 with the files of a folder.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use afterwrite_datasets::compact::{CompactionOptions, DatasetCompactor};
use afterwrite_datasets::export::ArchiveExporter;
use afterwrite_datasets::export::event::ExporterEvent;
use afterwrite_input::InputObject;
use afterwrite_lambda::{BatchItemFailure, BatchResponse};
use afterwrite_local::s3::EmbeddedS3;
use afterwrite_model::clock::{Clock as _, SystemClock};
use afterwrite_model::harmless::{harmless, harmless_lines};
use afterwrite_model::{Error, ErrorKind, Result};
use afterwrite_services::config::{EnvironmentSettings, FunctionConfig, s3_client};
use afterwrite_services::s3::S3Bucket;
use afterwrite_services::{Bucket as _, ObjectStore as _};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::model_option::remembered_lookups;

/// The name of the embedded bucket.
const LOCAL_BUCKET: &str = "local";
/// The time that an invocation may take.
const TIME_LIMIT: Duration = Duration::from_secs(300);

/// An event of `exporter` or `compactor`.
pub(super) struct DatasetInvocation<'i> {
    pub(super) settings: &'i EnvironmentSettings,
    pub(super) config: FunctionConfig,
    /// The folder with the objects of the embedded bucket.
    pub(super) objects: Option<&'i Path>,
    pub(super) event: &'i str,
}

/// The result of an invocation.
#[derive(Debug, Default, Serialize)]
pub(super) struct DatasetReport {
    /// The response to SQS messages: the messages that failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) response: Option<BatchResponse>,
    /// The totals by name.
    pub(super) totals: Value,
    /// The keys of new objects; `None` for the environment's bucket, which is not listed.
    pub(super) new_objects: Option<Vec<String>>,
    /// Objects that were not exported and messages that were not read, and why.
    pub(super) errors: Vec<String>,
}

/// The objects that an event names.
#[derive(Default)]
struct NamedObjects {
    /// Their keys, whatever their bucket.
    keys: Vec<String>,
    /// The SQS message of each key; empty for an event of S3.
    messages: Vec<String>,
    /// The messages that cannot be read.
    unread: Vec<(String, Error)>,
    is_of_queue: bool,
}

#[derive(Default, Deserialize)]
struct CompactionTarget {
    dataset: Option<String>,
    dt: Option<String>,
}

/// The bucket of an invocation.
enum InvokedBucket {
    Deployed(S3Bucket),
    Embedded(EmbeddedS3, S3Bucket),
}

impl DatasetInvocation<'_> {
    /// Exports the objects that the event names.
    pub(super) async fn export(&self, is_deployed: bool) -> Result<DatasetReport> {
        let named = NamedObjects::of(self.event)?;
        let bucket = self.bucket(is_deployed).await?;
        let before = bucket.keys().await?;
        let model = &self.config.model;
        let remembered = if is_deployed { remembered_lookups(self.settings, model).await? } else { None };
        let exporter = ArchiveExporter::new(
            Arc::clone(model),
            self.config.table_names.clone(),
            bucket.objects().clone(),
            remembered,
            SystemClock,
        );
        let outcomes = Box::pin(exporter.export(&named.keys, SystemClock.now().plus(TIME_LIMIT))).await;
        let mut report = named.report(&outcomes);
        let mut totals = afterwrite_datasets::export::ExportTotals::default();
        outcomes.into_iter().flatten().for_each(|exported| totals += exported);
        report.totals = serde_json::to_value(totals).unwrap_or_default();
        self.finish(report, bucket, before).await
    }

    /// Compacts the dataset and the day that the event names.
    pub(super) async fn compact(&self, is_deployed: bool) -> Result<DatasetReport> {
        let target: CompactionTarget = serde_json::from_str(self.event).map_err(|error| {
            Error::new(ErrorKind::Configuration, "no function handles this event")
                .hint("Name the function with --function; `compactor` takes {\"dataset\": …, \"dt\": …}")
                .caused_by(error)
        })?;
        let bucket = self.bucket(is_deployed).await?;
        let before = bucket.keys().await?;
        let (model, objects) = (Arc::clone(&self.config.model), bucket.objects().clone());
        let compactor = DatasetCompactor::new(model, objects, CompactionOptions::default(), SystemClock);
        let compaction = compactor.compact(target.dataset.as_deref(), target.dt.as_deref());
        let totals = serde_json::to_value(Box::pin(compaction).await?).unwrap_or_default();
        self.finish(DatasetReport { totals, ..DatasetReport::default() }, bucket, before).await
    }

    async fn bucket(&self, is_deployed: bool) -> Result<InvokedBucket> {
        if is_deployed {
            let bucket = self.settings.required_bucket()?;
            return Ok(InvokedBucket::Deployed(S3Bucket::retrying(Box::pin(s3_client()).await?, bucket)));
        }
        let s3 = EmbeddedS3::start().await?;
        s3.create_bucket(LOCAL_BUCKET).await?;
        let bucket = S3Bucket::retrying(s3.client(), Arc::from(LOCAL_BUCKET));
        if let Some(folder) = self.objects {
            for file in InputObject::<S3Bucket>::of_path(folder)? {
                let InputObject::File(path) = file else { continue };
                let content = std::fs::read(&path).map_err(|error| unreadable(&path, error))?;
                let key = path.strip_prefix(folder).unwrap_or(&path).display().to_string();
                bucket.put(&key, content).await?;
            }
        }
        Ok(InvokedBucket::Embedded(s3, bucket))
    }

    async fn finish(
        &self,
        mut report: DatasetReport,
        bucket: InvokedBucket,
        before: Option<BTreeSet<String>>,
    ) -> Result<DatasetReport> {
        if let (Some(before), Some(after)) = (before, bucket.keys().await?) {
            report.new_objects = Some(after.difference(&before).cloned().collect());
        }
        match bucket {
            InvokedBucket::Deployed(_) => {}
            InvokedBucket::Embedded(s3, _) => s3.stop().await?,
        }
        Ok(report)
    }
}

impl NamedObjects {
    fn of(event: &str) -> Result<Self> {
        let mut named = Self::default();
        match ExporterEvent::read(event)? {
            ExporterEvent::Objects(created) => {
                named.keys = created.into_iter().map(|object| object.key).collect();
            }
            ExporterEvent::Messages(messages) => {
                named.is_of_queue = true;
                for (message, created) in messages {
                    match created {
                        Ok(created) => {
                            named.messages.extend(created.iter().map(|_| message.clone()));
                            named.keys.extend(created.into_iter().map(|object| object.key));
                        }
                        Err(error) => named.unread.push((message, error)),
                    }
                }
            }
        }
        Ok(named)
    }

    /// The errors, and the response of the function if the event is of a queue: a message fails if it cannot be read, or one of its objects
    /// is not exported.
    fn report<O>(&self, outcomes: &[Result<O>]) -> DatasetReport {
        let mut report = DatasetReport::default();
        let mut failed: BTreeSet<&str> = BTreeSet::new();
        for (message, error) in &self.unread {
            failed.insert(message);
            report.errors.push(format!("message {message}: {}", error.report()));
        }
        for (index, (key, outcome)) in self.keys.iter().zip(outcomes).enumerate() {
            if let Err(error) = outcome {
                failed.extend(self.messages.get(index).map(String::as_str));
                report.errors.push(format!("{key}: {}", error.report()));
            }
        }
        let failures = failed.into_iter().map(|id| BatchItemFailure { item_identifier: id.to_owned() });
        let response = BatchResponse { batch_item_failures: failures.collect() };
        report.response = self.is_of_queue.then_some(response);
        report
    }
}

impl InvokedBucket {
    fn objects(&self) -> &S3Bucket {
        match self {
            Self::Deployed(bucket) | Self::Embedded(_, bucket) => bucket,
        }
    }

    /// The keys of an embedded bucket.
    async fn keys(&self) -> Result<Option<BTreeSet<String>>> {
        match self {
            Self::Deployed(_) => Ok(None),
            Self::Embedded(_, bucket) => {
                Ok(Some(bucket.list("").await?.into_iter().map(|object| object.key).collect()))
            }
        }
    }
}

impl DatasetReport {
    /// The totals that are not 0, the new objects and the errors.
    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        for (name, number) in self.totals.as_object().into_iter().flatten() {
            if number != &Value::from(0) {
                let _ = writeln!(text, "{}: {number}", name.replace('_', " "));
            }
        }
        for key in self.new_objects.iter().flatten() {
            let _ = writeln!(text, "new object: {}", harmless(key));
        }
        for error in &self.errors {
            let _ = writeln!(text, "not exported: {}", harmless_lines(error));
        }
        for failure in self.response.iter().flat_map(|response| &response.batch_item_failures) {
            let _ = writeln!(
                text,
                "the function answers that a message failed: {}",
                harmless(&failure.item_identifier)
            );
        }
        text
    }
}

fn unreadable(path: &Path, cause: std::io::Error) -> Error {
    Error::new(ErrorKind::Configuration, "a file of --objects cannot be read")
        .with("file", path.display().to_string())
        .caused_by(cause)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_message_that_cannot_be_read_fails_alone_as_in_the_function() {
        let created = json!({ "Records": [{ "s3": { "bucket": { "name": "lake" }, "object": { "key": "archive/a.gz" } } }] });
        let event = json!({ "Records": [
            { "messageId": "m1", "body": "hello" },
            { "messageId": "m2", "body": created.to_string() },
            { "messageId": "m3", "body": created.to_string() },
        ]});
        let named = NamedObjects::of(&event.to_string()).unwrap();
        assert_eq!(named.keys, ["archive/a.gz", "archive/a.gz"]);
        let lost = Error::new(ErrorKind::Unavailable, "the object cannot be read now");
        let report = named.report(&[Ok(()), Err(lost)]);
        let failed = report.response.as_ref().map(|response| &response.batch_item_failures[..]);
        let ids: Vec<&str> = failed.unwrap().iter().map(|failed| failed.item_identifier.as_str()).collect();
        assert_eq!((ids, report.errors.len()), (vec!["m1", "m3"], 2), "{report:?}");
        assert!(report.text().contains("message m1"), "{}", report.text());
        // An event of S3 succeeds or fails as a whole.
        let named = NamedObjects::of(&created.to_string()).unwrap();
        assert!(named.report(&[Ok(())]).response.is_none());
    }
}
