//! The findings of verifications, as files that `afterwrite repair` reads: in a folder that only this user may read, because they have keys.
//! The files stay when the console ends, because a verification that was paused writes its file when it is resumed.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use afterwrite_deployment::doctor::{DriftCounts, REPORTS};
use afterwrite_model::{Error, ErrorKind, Result};
use afterwrite_services::Bucket as _;
use afterwrite_services::s3::S3Bucket;
use futures::TryStreamExt as _;

/// The folder of the files, which is created with the first of them.
#[derive(Debug, Default)]
pub(crate) struct FindingsFolder(Mutex<Option<PathBuf>>);

impl FindingsFolder {
    /// The file of the findings with this name.
    ///
    /// # Errors
    /// `State` if the folder cannot be created.
    pub(crate) fn file(&self, name: &str) -> Result<PathBuf> {
        let mut folder = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let created = match folder.take() {
            Some(created) => created,
            None => {
                let created = tempfile::Builder::new().prefix("afterwrite-console-").tempdir();
                created.map_err(unwritable)?.keep()
            }
        };
        Ok(folder.insert(created).join(format!("{name}.jsonl")))
    }
}

/// Where findings come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum FindingsSource {
    /// A verification that this console has started, by the id of its command.
    Started(String),
    /// A report of the verifier in the bucket, by its time.
    Report(String),
}

impl FindingsSource {
    /// The source that a text names: `run:ID`, or `report:TIME`. No text can leave the folder.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (kind, name) = text.split_once(':')?;
        let is_name = !name.is_empty()
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-:.".contains(&byte))
            && !name.starts_with('.');
        match kind {
            "run" if is_name => Some(Self::Started(name.to_owned())),
            "report" if is_name => Some(Self::Report(name.to_owned())),
            _ => None,
        }
    }

    /// The text that names it.
    pub(crate) fn name(&self) -> String {
        match self {
            Self::Started(id) => format!("run:{id}"),
            Self::Report(time) => format!("report:{time}"),
        }
    }

    /// The file with the findings. The findings of a report are read from the bucket.
    ///
    /// # Errors
    /// `Configuration` if there are no such findings; as [`Bucket::get`](afterwrite_services::Bucket::get).
    pub(crate) async fn file(&self, folder: &FindingsFolder, bucket: Option<&S3Bucket>) -> Result<PathBuf> {
        match self {
            Self::Started(id) => {
                let file = folder.file(id)?;
                if file.exists() { Ok(file) } else { Err(no_findings()) }
            }
            Self::Report(time) => {
                let bucket = bucket.ok_or_else(no_findings)?;
                let report = object(bucket, &format!("{REPORTS}{time}.json")).await?;
                let findings = DriftCounts::parse(time, &report)?.findings.ok_or_else(no_findings)?;
                let file = folder.file(&time.replace(':', "-"))?;
                std::fs::write(&file, object(bucket, &findings).await?).map_err(unwritable)?;
                Ok(file)
            }
        }
    }
}

async fn object(bucket: &S3Bucket, key: &str) -> Result<Vec<u8>> {
    let chunks = bucket.get(key).await?.ok_or_else(no_findings)?;
    Ok(chunks.try_collect::<Vec<_>>().await?.concat())
}

fn unwritable(error: std::io::Error) -> Error {
    Error::new(ErrorKind::State, "the findings cannot be written to a file")
        .hint("Run the command in a terminal")
        .caused_by(error)
}

fn no_findings() -> Error {
    Error::new(ErrorKind::Configuration, "there are no findings of this name")
        .hint("Start `verify` on the page Health")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_is_a_name_without_a_path() {
        for named in ["run:7c1e", "report:2026-02-06T10:15:00.000Z"] {
            assert_eq!(FindingsSource::parse(named).map(|source| source.name()).as_deref(), Some(named));
        }
        for refused in
            ["", "run", "run:", "run:../x", "run:a/b", "run:.x", "report:a b", "file:x", "run:--yes/"]
        {
            assert_eq!(FindingsSource::parse(refused), None, "{refused}");
        }
    }
}
