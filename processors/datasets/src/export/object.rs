//! One archive object: its lines become rows, and its rows files.

use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;

use afterwrite_ledger::RememberedLookups;
use afterwrite_ledger::tables::Tables;
use afterwrite_model::entity::{ItemCandidates, SourceKey};
use afterwrite_model::heartbeat::heartbeat_time;
use afterwrite_model::projection::{
    DatasetRow, ImageScope, LookupKey, LookupOutputs, RecordImages, datasets_of, decode_old_image, rows,
};
use afterwrite_model::record::{ChangeRecord, Image, RecordDecoder, Timestamp};
use afterwrite_model::table::{Dataset, Model, NO_DAY};
use afterwrite_model::{Error, ErrorKind, Result};
use arrow_schema::SchemaRef;
use hashbrown::hash_map::EntryRef;
use hashbrown::{DefaultHashBuilder, HashMap, HashSet};
use serde::Serialize;

use super::lines::lines;
use super::partition_writer::PartitionWriter;
use super::rejected_line::RejectedLines;
use crate::schema::arrow_schema;

/// A guess that avoids growing the list of a block's lines.
const TYPICAL_LINE_BYTES: usize = 1024;

/// An object with more rejected lines, or more bytes of them, is not of the archive. They are held in memory.
const MAX_REJECTED_LINES: usize = 10_000;
const MAX_REJECTED_MEBIBYTES: usize = 64;

/// The totals of the export of objects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ExportTotals {
    /// Objects outside the archive, which were ignored.
    pub foreign: usize,
    /// Lines that were read.
    pub lines: usize,
    /// Rows that were made of them.
    pub rows: usize,
    /// Duplicates of changes earlier in the object.
    pub duplicates: usize,
    /// Changes of items that match no entity.
    pub unmatched: usize,
    /// Lines that are not change records; they are in `rejected/`.
    pub rejected: usize,
    /// Rows with values that do not fit their columns; they are in `_rescued`.
    pub rescued: usize,
    /// Rows whose item has no time that makes a partition; they are in `dt=0001-01-01`.
    pub undated: usize,
    /// Files that were written.
    pub files: usize,
    /// Files that existed from an earlier export, in the bucket or in the log.
    pub existing_files: usize,
    /// Bytes of the files that were written.
    pub file_bytes: usize,
    /// When the newest heartbeat was written, in milliseconds since 1970.
    #[serde(skip)]
    pub heartbeat_ms: Option<i64>,
}

impl std::ops::AddAssign for ExportTotals {
    fn add_assign(&mut self, other: Self) {
        self.foreign += other.foreign;
        self.lines += other.lines;
        self.rows += other.rows;
        self.duplicates += other.duplicates;
        self.unmatched += other.unmatched;
        self.rejected += other.rejected;
        self.rescued += other.rescued;
        self.undated += other.undated;
        self.files += other.files;
        self.existing_files += other.existing_files;
        self.file_bytes += other.file_bytes;
        self.heartbeat_ms = self.heartbeat_ms.max(other.heartbeat_ms);
    }
}

/// The export of an object, as far as it has been read.
pub(super) struct ObjectExport<'e, T> {
    model: &'e Model,
    /// The name of each of the model's tables in the account.
    tables: &'e [Arc<str>],
    remembered: Option<&'e RememberedLookups<T>>,
    /// How many bytes of rows are staged before they are encoded.
    staged_bytes: usize,
    datasets: Vec<DatasetExport>,
    /// How many changes have been staged since the staged rows were measured.
    unmeasured: usize,
    /// The changes so far.
    seen: HashSet<ChangeFingerprint>,
    hashers: (RandomState, DefaultHashBuilder),
    lookups: ReadOutputs,
    rejected: RejectedLines,
    /// Whether there was a change of one of the model's tables.
    has_known_table: bool,
    /// A table that is not one of the model's.
    unknown_table: Option<String>,
    line: usize,
    totals: ExportTotals,
}

/// The partitions of a dataset, by day.
struct DatasetExport {
    schema: SchemaRef,
    days: HashMap<String, PartitionWriter>,
}

/// The outputs of lookups; `None` where a lookup is not remembered.
pub(super) type ReadOutputs = HashMap<LookupKey<'static>, Option<Arc<LookupOutputs>>>;

/// Two hashes of a change's key and position, 128 bits together. One has a random seed, so that nobody can provoke collisions; the other is
/// faster.
type ChangeFingerprint = [u64; 2];

/// The partitions of an object, its rejected lines in JSON, and the counts.
type FinishedExport = (Vec<FinishedPartition>, Vec<u8>, ExportTotals);

/// The rows of one object in one partition.
pub(super) struct FinishedPartition {
    /// The dataset: an index into [`Model::datasets`].
    pub(super) dataset: usize,
    pub(super) day: String,
    pub(super) writer: PartitionWriter,
}

/// A line that is a change record, decoded.
struct DecodedLine<'b> {
    line: usize,
    text: &'b [u8],
    record: ChangeRecord<'b>,
    table: usize,
}

/// A change of an item that matches an entity.
struct ItemChange<'c, 'b> {
    record: &'c ChangeRecord<'b>,
    candidates: ItemCandidates<'c, 'c>,
    /// The old image, if a row is made of it.
    old: Option<Image<'b>>,
    fingerprint: ChangeFingerprint,
}

impl<'b> ItemChange<'_, 'b> {
    fn rows<'s>(&'s self, dataset: &Dataset) -> impl Iterator<Item = DatasetRow<'s, 'b>> {
        let images = RecordImages { new: self.record.new.as_ref(), old: self.old.as_ref() };
        rows(dataset, &self.candidates, self.record, images)
    }
}

impl<'e, T: Tables> ObjectExport<'e, T> {
    pub(super) fn new(
        model: &'e Model,
        tables: &'e [Arc<str>],
        remembered: Option<&'e RememberedLookups<T>>,
        staged_bytes: usize,
    ) -> Self {
        let datasets = model.datasets.iter();
        let datasets =
            datasets.map(|dataset| DatasetExport { schema: arrow_schema(dataset), days: HashMap::new() });
        Self {
            model,
            tables,
            remembered,
            staged_bytes,
            datasets: datasets.collect(),
            unmeasured: 0,
            seen: HashSet::new(),
            hashers: Default::default(),
            lookups: HashMap::new(),
            rejected: RejectedLines::default(),
            has_known_table: false,
            unknown_table: None,
            line: 0,
            totals: ExportTotals::default(),
        }
    }

    /// Adds a block of whole lines.
    pub(super) async fn add_block(&mut self, block: &[u8]) -> Result<()> {
        let model = self.model;
        let changes = self.decode_lines(block)?;
        let keys = changes.iter().map(|line| SourceKey::of_keys(model, line.table, &line.record.keys));
        let keys: Vec<_> = keys.collect();
        let mut items = Vec::with_capacity(changes.len());
        for (line, key) in changes.iter().zip(&keys) {
            match self.identify(&line.record, key.as_ref()) {
                Ok(Some(item)) => items.push(item),
                Ok(None) if key.as_ref().is_some_and(SourceKey::is_heartbeat) => {
                    let time = std::str::from_utf8(line.text).ok().and_then(heartbeat_time);
                    self.totals.heartbeat_ms = self.totals.heartbeat_ms.max(time.map(Timestamp::epoch_ms));
                }
                Ok(None) => self.totals.unmatched += 1,
                Err(error) => self.reject(line.line, line.text, &error)?,
            }
        }
        // All changes of a block one after the other: the set does not fit into a processor's cache, and this way the waits for
        // memory overlap.
        let identified = items.len();
        items.retain(|item| self.seen.insert(item.fingerprint));
        self.totals.duplicates += identified - items.len();
        self.look_up(&items).await?;
        items.iter().try_for_each(|item| self.append(item))?;
        self.unmeasured += items.len();
        self.encode_if_large()
    }

    fn decode_lines<'b>(&mut self, block: &'b [u8]) -> Result<Vec<DecodedLine<'b>>> {
        let mut decoder = RecordDecoder::new(&self.model.row_attributes);
        let mut changes = Vec::with_capacity(block.len() / TYPICAL_LINE_BYTES);
        for text in lines(block) {
            self.line += 1;
            let text = text.trim_ascii();
            if text.is_empty() {
                continue;
            }
            self.totals.lines += 1;
            match self.decode(&mut decoder, text) {
                Ok(change) => changes.push(change),
                Err(error) => self.reject(self.line, text, &error)?,
            }
        }
        // The empty text after the last line feed was counted as a line.
        self.line -= usize::from(block.last() == Some(&b'\n'));
        Ok(changes)
    }

    fn decode<'b>(&mut self, decoder: &mut RecordDecoder<'_, 'b>, text: &'b [u8]) -> Result<DecodedLine<'b>> {
        let index = |name: &str| self.model.table_deployed_as(self.tables, name);
        let record = decoder.record(text).map_err(|bad| {
            self.has_known_table |= bad.table.and_then(|table| index(&table)).is_some();
            bad.error
        })?;
        let Some(table) = index(&record.table) else {
            let message = "the change is of a table that the model does not have";
            let error = unknown_table(self.model, ErrorKind::Record, message, &record.table);
            self.unknown_table.get_or_insert_with(|| record.table.into_owned());
            return Err(error);
        };
        self.has_known_table = true;
        Ok(DecodedLine { line: self.line, text, record, table })
    }

    /// The item of a change; `None` if it matches no entity. A record whose old image cannot be decoded is an error, and is not remembered: a
    /// later duplicate of it is not dropped.
    fn identify<'c, 'b>(
        &self,
        record: &'c ChangeRecord<'b>,
        key: Option<&'c SourceKey<'c>>,
    ) -> Result<Option<ItemChange<'c, 'b>>>
    where
        'e: 'c,
    {
        let key = key.ok_or_else(|| {
            Error::new(ErrorKind::Record, "the change does not have its table's key")
                .hint("Correct `key` and `types` of the table in the model")
        })?;
        let candidates = key.candidates(self.model);
        if candidates.is_empty() || !candidates.match_change(record) {
            return Ok(None);
        }
        let old = decode_old_image(&candidates, record)?;
        let (secret, fast) = &self.hashers;
        let fingerprint = [secret.hash_one((key, &record.position)), fast.hash_one((key, &record.position))];
        Ok(Some(ItemChange { record, candidates, old, fingerprint }))
    }

    fn reject(&mut self, line: usize, text: &[u8], error: &Error) -> Result<()> {
        self.totals.rejected += 1;
        if self.totals.rejected > MAX_REJECTED_LINES
            || self.rejected.bytes() + text.len() > MAX_REJECTED_MEBIBYTES * 1024 * 1024
        {
            self.refuse_unknown_tables()?;
            let message = format!(
                "an archive object has more than {MAX_REJECTED_LINES} lines that are not change records, or more than \
                 {MAX_REJECTED_MEBIBYTES} MiB of them; nothing of it was exported"
            );
            return Err(Error::new(ErrorKind::Rejected, message)
                .hint("It is not an object of the archive; move it elsewhere"));
        }
        self.rejected.add(self.model, (line, text), error);
        Ok(())
    }

    /// Refuses an object that has changes of unknown tables alone: most likely a setting is wrong, which would lose every object.
    fn refuse_unknown_tables(&self) -> Result<()> {
        match &self.unknown_table {
            Some(name) if !self.has_known_table => {
                let message = "an archive object has only changes of tables that the model does not have; nothing of it was exported";
                Err(unknown_table(self.model, ErrorKind::Rejected, message, name))
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Reads the remembered lookups of these changes that are not known yet.
    async fn look_up(&mut self, items: &[ItemChange<'_, '_>]) -> Result<()> {
        let Some(remembered) = self.remembered else { return Ok(()) };
        let mut keys: HashSet<LookupKey<'static>> = HashSet::new();
        for item in items {
            let looking = datasets_of(&item.candidates).filter(|(_, dataset)| !dataset.lookups.is_empty());
            for (_, dataset) in looking {
                for row in item.rows(dataset) {
                    keys.extend(dataset_lookup_keys(dataset, row.scope).flatten().map(LookupKey::into_owned));
                }
            }
        }
        let keys: Vec<_> = keys.into_iter().filter(|key| !self.lookups.contains_key(key)).collect();
        if !keys.is_empty() {
            let outputs = remembered.read(&keys).await?;
            self.lookups.extend(keys.into_iter().zip(outputs));
        }
        Ok(())
    }

    /// Appends the rows of a change to their partitions.
    #[expect(clippy::indexing_slicing, reason = "there is one for each of the model's datasets")]
    fn append(&mut self, item: &ItemChange<'_, '_>) -> Result<()> {
        for (index, dataset) in datasets_of(&item.candidates) {
            let DatasetExport { schema, days, .. } = &mut self.datasets[index];
            for mut row in item.rows(dataset) {
                self.totals.undated += usize::from(row.day == NO_DAY);
                let outputs = lookup_outputs(&self.lookups, dataset_lookup_keys(dataset, row.scope));
                row.scope = row.scope.with_outputs(&dataset.lookups, &outputs);
                let partition = match days.entry_ref(&*row.day) {
                    EntryRef::Occupied(occupied) => occupied.into_mut(),
                    EntryRef::Vacant(vacant) => {
                        vacant.insert(PartitionWriter::new(self.model, dataset, schema)?)
                    }
                };
                self.totals.rescued += usize::from(partition.rows.append(
                    dataset,
                    &row,
                    &item.record.position,
                    item.record.created_at,
                ));
                self.totals.rows += 1;
            }
        }
        Ok(())
    }

    /// Encodes the staged rows if they are large. Measuring visits every partition, so it happens once for at least as many new
    /// rows.
    fn encode_if_large(&mut self) -> Result<()> {
        if self.unmeasured < self.datasets.iter().map(|dataset| dataset.days.len()).sum() {
            return Ok(());
        }
        self.unmeasured = 0;
        let partitions = self.datasets.iter().flat_map(|dataset| dataset.days.values());
        let staged_bytes: usize = partitions.map(|partition| partition.rows.bytes()).sum();
        if staged_bytes >= self.staged_bytes { self.encode() } else { Ok(()) }
    }

    /// Encodes the staged rows, one partition after the other: an open row group takes memory, mostly for the state of its columns'
    /// compressors. This way there is one, whatever the number of days in an object.
    fn encode(&mut self) -> Result<()> {
        let mut partitions = self.datasets.iter_mut().flat_map(|dataset| dataset.days.values_mut());
        partitions.try_for_each(PartitionWriter::encode)
    }

    /// Ends the object.
    pub(super) fn finish(self) -> Result<FinishedExport> {
        self.refuse_unknown_tables()?;
        let partitions =
            self.datasets.into_iter().enumerate().flat_map(|(dataset, DatasetExport { days, .. })| {
                days.into_iter().map(move |(day, writer)| FinishedPartition { dataset, day, writer })
            });
        Ok((partitions.collect(), self.rejected.into_stored(), self.totals))
    }
}

fn unknown_table(model: &Model, kind: ErrorKind, message: &'static str, name: &str) -> Error {
    Error::new(kind, message).with("table", name).hint(model.deployed_name_hint(name))
}

/// The key of each of the dataset's lookups in a row; `None` where the row lacks a value of the key.
pub(super) fn dataset_lookup_keys<'q>(
    dataset: &'q Dataset,
    scope: ImageScope<'q, 'q>,
) -> impl Iterator<Item = Option<LookupKey<'q>>> {
    dataset.lookups.iter().map(move |lookup| scope.lookup_key(lookup).ok())
}

/// The outputs of each of these lookups; empty where they are not known.
pub(super) fn lookup_outputs<'q>(
    known: &'q HashMap<LookupKey<'q>, Option<Arc<LookupOutputs>>>,
    keys: impl Iterator<Item = Option<LookupKey<'q>>>,
) -> Vec<&'q LookupOutputs> {
    if known.is_empty() {
        return Vec::new();
    }
    let outputs = |key: Option<LookupKey<'q>>| known.get(&key?)?.as_deref();
    keys.map(|key| outputs(key).unwrap_or_default()).collect()
}
