//! `--only export`: the objects of the archive are exported again.

use std::sync::Arc;
use std::time::Duration;

use afterwrite_datasets::export::{ArchiveExporter, ExportTotals};
use afterwrite_input::InputObject;
use afterwrite_ledger::RememberedLookups;
use afterwrite_model::clock::{Clock as _, SystemClock};
use afterwrite_model::harmless::harmless;
use afterwrite_model::{Error, ErrorKind, Result};
use afterwrite_services::config::{EnvironmentSettings, s3_client};
use afterwrite_services::s3::S3Bucket;

use crate::deployment::Deployment;
use crate::print::{json, print};

/// How many objects one commit adds.
const OBJECTS_PER_COMMIT: usize = 50;
/// How long a commit that loses races is tried.
const COMMIT_TIME: Duration = Duration::from_secs(300);

/// Exports objects; returns whether all were exported. An object that has been exported with the same model changes nothing.
///
/// # Errors
/// An input that is not in the archive of AFTERWRITE_BUCKET.
pub(super) async fn export_archive(
    deployment: &Deployment,
    objects: &[InputObject<S3Bucket>],
    as_json: bool,
) -> Result<bool> {
    let settings = EnvironmentSettings::from_env();
    let bucket = settings.required_bucket()?;
    let keys: Vec<String> =
        objects.iter().map(|object| archive_key(object, &bucket)).collect::<Result<_>>()?;
    let objects = S3Bucket::retrying(Box::pin(s3_client()).await?, bucket);
    let (model, state) = (Arc::clone(&deployment.config.model), Arc::clone(&deployment.state_table));
    let remembered = RememberedLookups::new(Arc::clone(&model), state, Arc::clone(&deployment.tables));
    let names = deployment.config.table_names.clone();
    let exporter = ArchiveExporter::new(model, names, objects, Some(remembered), SystemClock);
    let (mut totals, mut is_complete) = (ExportTotals::default(), true);
    for keys in keys.chunks(OBJECTS_PER_COMMIT) {
        let outcomes = Box::pin(exporter.export(keys, SystemClock.now().plus(COMMIT_TIME))).await;
        for (key, outcome) in keys.iter().zip(outcomes) {
            match outcome {
                Ok(exported) => totals += exported,
                Err(error) => {
                    is_complete = false;
                    eprintln!("afterwrite: {}: {}", harmless(key), error.report());
                }
            }
        }
    }
    let text = format!("{} objects exported: {} lines, {} rows\n", keys.len(), totals.lines, totals.rows);
    print(&if as_json { json(&totals)? } else { text })?;
    Ok(is_complete)
}

/// The key of an object of the archive in this bucket.
fn archive_key(object: &InputObject<S3Bucket>, bucket: &str) -> Result<String> {
    match object {
        InputObject::Object { name, key, .. } if **name == *bucket && key.starts_with("archive/") => Ok(key.clone()),
        InputObject::Object { .. } | InputObject::File(_) | InputObject::StandardInput => {
            Err(Error::new(ErrorKind::Configuration, "only objects of the archive can be exported")
                .with("input", object.name())
                .hint("Name s3://BUCKET/archive/… of AFTERWRITE_BUCKET, or add other records to the archive with --only archive"))
        }
    }
}
