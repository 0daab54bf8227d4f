//! Table exports: the data files that a manifest lists, checked and read item by item.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use afterwrite_bulk::export::{ExportManifest, ExportedLines, FILES, SUMMARY, read_object};
use afterwrite_ledger::StateItems;
use afterwrite_ledger::tables::TableScan;
use afterwrite_model::record::{Item, Timestamp};
use afterwrite_model::table::Model;
use afterwrite_model::{Error, ErrorKind, Result};
use afterwrite_services::s3::S3Bucket;
use serde::{Deserialize, Serialize};

/// A table export as a job names it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExportSource {
    /// The table, as the model names it.
    pub table: String,
    /// The folder `AWSDynamoDB/<export id>`: an absolute path, or `s3://bucket/…`.
    pub location: String,
    /// The point in time that the export shows, in epoch milliseconds.
    pub exported_at_ms: i64,
    /// Since when the functions have read the table's stream without a gap, in epoch milliseconds.
    pub mapping_since_ms: i64,
    /// The fingerprint of the export's manifests.
    pub manifest: String,
}

impl ExportSource {
    /// The point in time that the export shows.
    #[must_use]
    pub fn exported_at(&self) -> Timestamp {
        Timestamp::from_epoch_ms(self.exported_at_ms)
    }

    /// The note of a plan whose ledger has entries of an earlier generation: functions with it may have acknowledged records that the export does not show.
    pub(super) fn earlier_model_note(&self) -> String {
        format!(
            "the ledger has entries of an earlier generation. If a function with that model read the stream after {} (--mapping-since), it has acknowledged records of items that it did not know, and these items are counted as the export shows them: backfill without --export then, which reads the items themselves",
            Timestamp::from_epoch_ms(self.mapping_since_ms)
        )
    }

    /// The source of an export that is to be counted. `table` is its table, as the model names it; by default, the one that the manifest
    /// names.
    ///
    /// # Errors
    /// [`ErrorKind::Configuration`] if the export is of another table, or of an unknown table.
    pub fn of(
        export: &TableExport,
        location: &str,
        mapping_since: Timestamp,
        (table, model, table_names): (Option<&str>, &Model, &[Arc<str>]),
    ) -> Result<Self> {
        let known = || model.tables.iter().map(|table| table.name.to_string()).collect::<Vec<_>>().join(", ");
        let table = match table {
            Some(table) => table.to_owned(),
            // The manifests of some tools do not name the table.
            None if export.manifest.table.is_none() && table_names.len() > 1 => {
                return Err(Error::new(
                    ErrorKind::Configuration,
                    "the manifest of the export does not name its table",
                )
                .with("export", location)
                .hint(format!(
                    "Name the table of the export: --export-table NAME. The model has {}",
                    known()
                )));
            }
            None => {
                let index = export.manifest.table_among(table_names);
                let index = index.map_err(|error| error.with("export", location))?;
                model.tables.get(index).map(|table| table.name.to_string()).unwrap_or_default()
            }
        };
        let source = Self {
            table,
            location: location.to_owned(),
            exported_at_ms: export.manifest.exported_at.epoch_ms(),
            mapping_since_ms: mapping_since.epoch_ms(),
            manifest: export.manifest.fingerprint.clone(),
        };
        source.check_table(model, table_names, export)?;
        Ok(source)
    }

    /// Refuses the export of a table of another account or region, and of an earlier table with this name.
    ///
    /// # Errors
    /// [`ErrorKind::Configuration`] with the difference; as [`TableScan::describe`].
    pub(super) async fn check_origin(
        &self,
        (model, table_names): (&Model, &[Arc<str>]),
        export: &TableExport,
        tables: &impl TableScan,
    ) -> Result<()> {
        let position = model.tables.iter().position(|table| *table.name == *self.table);
        let Some(deployed) = position.and_then(|position| table_names.get(position)) else { return Ok(()) };
        let described = tables.describe(deployed).await?;
        export.manifest.check_origin(&described).map_err(|error| error.with("export", self.location.as_str()))
    }

    /// Refuses the export of another table.
    fn check_table(&self, model: &Model, table_names: &[Arc<str>], export: &TableExport) -> Result<()> {
        let mut tables = model.tables.iter().zip(table_names);
        let deployed = tables.find(|(table, _)| *table.name == *self.table).map(|(_, deployed)| deployed);
        let Some(deployed) = deployed else {
            return Err(self.refused("the export is of a table that the model does not have"));
        };
        match &export.manifest.table {
            Some(exported) if **exported != **deployed => {
                Err(Error::new(ErrorKind::Configuration, "the export is of another table")
                    .with("export", self.location.as_str())
                    .with("exported table", exported.as_str())
                    .with("table to count", &**deployed)
                    .hint("Name an export of that table. Set AFTERWRITE_TABLES if the table has another name than in the model"))
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Refuses an export whose items could be counted wrongly, and another one than the job was planned for.
    pub(super) fn check(
        &self,
        model: &Model,
        table_names: &[Arc<str>],
        export: &TableExport,
        now: Timestamp,
    ) -> Result<()> {
        self.check_table(model, table_names, export)?;
        if self.manifest != export.manifest.fingerprint {
            return Err(Error::new(
                ErrorKind::Configuration,
                "the folder has another export than the job was planned for",
            )
            .with("export", self.location.as_str())
            .hint("Restore the export, or plan the job again: items that are counted already are skipped"));
        }
        let problem = if self.mapping_since_ms > self.exported_at_ms {
            "the stream was not read before the export, so that changes between the two would be lost"
        } else if !StateItems::accepts_export(self.exported_at(), now) {
            "the export is older than tombstones are kept (35 days), so that deleted items would be counted"
        } else {
            return Ok(());
        };
        Err(self.refused(problem))
    }

    fn refused(&self, problem: &str) -> Error {
        Error::new(ErrorKind::Configuration, problem)
            .with("table", self.table.as_str())
            .with("export", self.location.as_str())
            .hint("Use a newer export, or leave out --export: the table is scanned then")
    }
}

/// Where the files of an export are.
#[derive(Clone, Debug)]
pub enum ExportFolder {
    /// A local folder with `manifest-files.json` and `data/`.
    Local(PathBuf),
    /// The objects of a bucket below this prefix.
    Bucket(S3Bucket, String),
}

/// A table export that is read.
#[derive(Debug)]
pub struct TableExport {
    folder: ExportFolder,
    manifest: ExportManifest,
    /// The files in progress. One for each worker is held in memory.
    open: Mutex<HashMap<usize, ExportedLines>>,
}

impl TableExport {
    /// Reads the manifest of an export.
    ///
    /// # Errors
    /// [`ErrorKind::Configuration`] if there is no readable manifest of a full export in DynamoDB JSON.
    pub async fn open(folder: ExportFolder) -> Result<(Self, Timestamp)> {
        let (summary, files) = (folder.read(SUMMARY).await?, folder.read(FILES).await?);
        let manifest = ExportManifest::parse(&summary, &files)?;
        let exported_at = manifest.exported_at;
        Ok((Self { folder, manifest, open: Mutex::default() }, exported_at))
    }

    /// Its manifests.
    #[must_use]
    pub fn manifest(&self) -> &ExportManifest {
        &self.manifest
    }

    /// The number of data files.
    #[must_use]
    pub fn count(&self) -> usize {
        self.manifest.files.len()
    }

    /// The items of a file from a line on, at most `limit`; fewer only at its end. They are items of this table of the model.
    pub(super) async fn items(
        &self,
        table: (&Model, usize),
        (index, begin): (usize, u64),
        limit: usize,
    ) -> Result<Vec<Item>> {
        let known = self.open.lock().unwrap_or_else(PoisonError::into_inner).remove(&index);
        let mut open = match known.filter(|open| open.position() == begin) {
            Some(open) => open,
            None => {
                let mut open = self.open_file(index).await?;
                open.skip(begin)?;
                open
            }
        };
        let mut items = Vec::with_capacity(limit);
        while items.len() < limit {
            let Some(item) = open.next_item(table, |_| true)? else { break };
            items.push(item);
        }
        if items.len() == limit {
            self.open.lock().unwrap_or_else(PoisonError::into_inner).insert(index, open);
        }
        Ok(items)
    }

    async fn open_file(&self, index: usize) -> Result<ExportedLines> {
        let file = self.manifest.files.get(index).ok_or_else(|| {
            Error::new(ErrorKind::Configuration, "the export has fewer files than when the job was created")
                .with("file", index.to_string())
                .hint("Create the job again")
        })?;
        file.open(self.folder.read_data(&file.data_file_s3_key).await?)
    }
}

impl ExportFolder {
    /// A local folder, or `s3://bucket/prefix` with a client of that bucket.
    #[must_use]
    pub fn bucket_and_prefix(location: &str) -> Option<(&str, &str)> {
        let rest = location.strip_prefix("s3://")?;
        Some(rest.split_once('/').unwrap_or((rest, "")))
    }

    async fn read(&self, name: &str) -> Result<Vec<u8>> {
        match self {
            Self::Local(folder) => read_file(folder.join(name)),
            Self::Bucket(bucket, prefix) => {
                read_object(bucket, &format!("{}/{name}", prefix.trim_end_matches('/'))).await
            }
        }
    }

    /// A data file by its key in the bucket of the export; a local folder has it in `data/`.
    async fn read_data(&self, key: &str) -> Result<Vec<u8>> {
        match self {
            Self::Local(folder) => {
                let name = key.rsplit('/').next().unwrap_or(key);
                read_file(folder.join("data").join(name))
            }
            Self::Bucket(bucket, _) => read_object(bucket, key).await,
        }
    }
}

fn read_file(path: PathBuf) -> Result<Vec<u8>> {
    std::fs::read(&path).map_err(|error| {
        Error::new(ErrorKind::Configuration, "a file of the export cannot be read")
            .with("file", path.display().to_string())
            .caused_by(error)
    })
}
