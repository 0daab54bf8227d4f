//! Change records that a command reads.

use std::sync::Arc;

use afterwrite_input::{InputObject, RecordInput, TimeRange};
use afterwrite_model::record::Timestamp;
use afterwrite_model::{Error, ErrorKind, Result};
use afterwrite_services::config::s3_client;
use afterwrite_services::s3::{NamedBy, S3Bucket};
use clap::Args;

use crate::arguments::time;

/// The prefixes of a bucket of failed records: Lambda's, and those of `afterwrite redrive`.
const FAILED: [&str; 2] = ["aws/lambda", "redriven/"];

/// Places with change records, and a range of time.
#[derive(Debug, Args)]
pub(crate) struct InputArguments {
    /// Files, folders, s3://BUCKET/PREFIX, or - for standard input: JSON lines, Lambda events, on-failure objects; gzip or plain.
    #[arg(value_name = "INPUT")]
    pub(crate) inputs: Vec<RecordInput>,
    /// Only changes that were made at this time or later.
    #[arg(long, value_name = "TIME", value_parser = time)]
    from: Option<Timestamp>,
    /// Only changes that were made before this time.
    #[arg(long, value_name = "TIME", value_parser = time)]
    to: Option<Timestamp>,
}

impl InputArguments {
    /// The range of time.
    pub(crate) fn range(&self) -> TimeRange {
        TimeRange { from: self.from, to: self.to }
    }

    /// The files and objects, in the order of the arguments and of their names.
    ///
    /// # Errors
    /// An empty range; a path or a bucket that cannot be read.
    pub(crate) async fn objects(&self) -> Result<Vec<InputObject<S3Bucket>>> {
        if self.range().is_empty() {
            return Err(Error::new(ErrorKind::Configuration, "--from is not earlier than --to"));
        }
        objects_of(&self.inputs, &self.range()).await
    }
}

/// The files and objects of inputs.
///
/// # Errors
/// A path or a bucket that cannot be read.
pub(crate) async fn objects_of(
    inputs: &[RecordInput],
    range: &TimeRange,
) -> Result<Vec<InputObject<S3Bucket>>> {
    let mut objects = Vec::new();
    for input in inputs {
        match input {
            RecordInput::StandardInput => objects.push(InputObject::StandardInput),
            RecordInput::Path(path) => objects.extend(InputObject::of_path(path)?),
            RecordInput::Prefix { bucket, prefix } => {
                let name: Arc<str> = Arc::from(bucket.as_str());
                let client = Box::pin(s3_client()).await?;
                let bucket = S3Bucket::retrying(client, Arc::clone(&name));
                let bucket = Arc::new(bucket.named_by(named_by(&name, prefix)));
                objects.extend(InputObject::of_prefix(&bucket, &name, prefix, range).await?);
            }
        }
    }
    Ok(objects)
}

/// The source of the name of an input's bucket: its name and prefix tell whether it is the bucket of failed records.
fn named_by(bucket: &str, prefix: &str) -> NamedBy<'static> {
    let is_of_failures =
        bucket.contains("-failures-") || FAILED.iter().any(|failed| prefix.starts_with(failed));
    if is_of_failures { NamedBy::FailuresArgument } else { NamedBy::Argument }
}
