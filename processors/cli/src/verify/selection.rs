//! The selection that a run judges, and how a later run judges the same.

use std::path::Path;

use afterwrite_model::{Error, ErrorKind, Result};
use afterwrite_operations::TenantFilter;
use afterwrite_operations::verify::{KeySample, ThreeWayCheck, VerifyArguments, VerifyFinding};
use serde::Deserialize;

use super::report_file::{findings_in, report_text};

/// The items, rollups and rows that a run judges, as its JSON names them.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub(super) struct VerifySelection {
    #[serde(flatten)]
    pub(super) sample: KeySample,
    #[serde(default)]
    pub(super) only: Option<TenantFilter>,
    #[serde(default)]
    pub(super) three_way: Option<ThreeWayCheck>,
}

impl VerifySelection {
    /// The selection of a job's arguments.
    pub(super) fn of(arguments: &VerifyArguments) -> Self {
        Self {
            sample: arguments.key_sample(),
            only: arguments.only.clone(),
            three_way: arguments.three_way.clone(),
        }
    }
}

/// A file to judge again.
pub(super) enum RecheckFile {
    /// The findings of a run, one a line.
    Findings(Vec<VerifyFinding>),
    /// The summary of a run: the same sample is judged again.
    Run(VerifySelection),
}

/// Reads a file to judge again.
pub(super) fn read_recheck(file: &Path) -> Result<RecheckFile> {
    let text = report_text(file)?;
    // A single finding is an object, too; it has a place.
    let object: Option<serde_json::Map<String, serde_json::Value>> = serde_json::from_str(&text).ok();
    match object.filter(|object| !object.contains_key("place")) {
        None => findings_in(&text, file).map(RecheckFile::Findings),
        Some(object) => {
            let run = serde_json::from_value(serde_json::Value::Object(object)).map_err(|error| {
                Error::new(ErrorKind::Configuration, "the file names no sample of a verification")
                    .with("file", file.display().to_string())
                    .hint("Pass the findings of `afterwrite verify --report FILE`, or the JSON of `afterwrite verify --json`")
                    .caused_by(error)
            })?;
            Ok(RecheckFile::Run(run))
        }
    }
}
