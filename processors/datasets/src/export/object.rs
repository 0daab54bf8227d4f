//! One archive object: its lines become rows, its rows files.

use std::borrow::Cow;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;

use afterwrite::entity::{ItemIdentity, SourceKey};
use afterwrite::projection::{
    DatasetRow, ImageScope, LookupKey, LookupOutputs, RecordImages, old_image, rows,
};
use afterwrite::record::{ChangeRecord, Image, RecordDecoder};
use afterwrite::sink::Bucket;
use afterwrite::sink::Tables;
use afterwrite::table::{Dataset, Model};
use afterwrite::{Error, ErrorKind, Result};
use hashbrown::hash_map::EntryRef;
use hashbrown::{DefaultHashBuilder, HashMap, HashSet};
use serde::Serialize;

use super::lines::lines;
use super::partition::Partition;
use super::{Exporter, Tally};

/// A guess that saves growing the list of a block's lines.
const TYPICAL_LINE_BYTES: usize = 1024;
/// An object with more bad lines is no object of the archive; nor is one of which more bytes of lines are bad, which are held in memory.
const BAD_LINES_AT_MOST: usize = 10_000;
const BAD_MEBIBYTES_AT_MOST: usize = 64;

/// What has been made of an object so far.
pub(super) struct ObjectExport<'e, B, T> {
    exporter: &'e Exporter<B, T>,
    /// For each of the model's datasets, by day.
    partitions: Vec<HashMap<String, Partition>>,
    /// How many changes have been staged since all that is staged was measured.
    unmeasured: usize,
    /// The changes that were there.
    seen: HashSet<Fingerprint>,
    hashers: (RandomState, DefaultHashBuilder),
    answers: HashMap<LookupKey<'static>, Option<Arc<LookupOutputs>>>,
    rejected: Vec<u8>,
    /// Whether a change was of a table that the model knows; a table that it does not.
    knows_a_table: bool,
    unknown_table: Option<String>,
    line: usize,
    pub(super) tally: Tally,
}

/// Two hashes of a change's key and position: one that nobody can foresee, and a faster one.
type Fingerprint = [u64; 2];

/// A line that is not exported, as it stands under `rejected/`.
#[derive(Serialize)]
struct Rejected<'l> {
    line: usize,
    reason: String,
    text: Cow<'l, str>,
}

/// A line that is a change, decoded.
struct Change<'b> {
    line: usize,
    text: &'b [u8],
    record: ChangeRecord<'b>,
    table: usize,
}

/// A change of an item that the model knows, and what its rows are made of.
struct ItemChange<'c, 'b> {
    change: &'c Change<'b>,
    identity: ItemIdentity<'c, 'c>,
    old: Option<Image<'b>>,
}

impl<'b> ItemChange<'_, 'b> {
    fn rows<'s>(&'s self, model: &'s Model, dataset: &Dataset) -> impl Iterator<Item = DatasetRow<'s, 'b>> {
        let record = &self.change.record;
        rows(
            model,
            dataset,
            &self.identity,
            record,
            RecordImages { new: record.new.as_ref(), old: self.old.as_ref() },
        )
    }
}

impl<'e, B: Bucket, T: Tables> ObjectExport<'e, B, T> {
    pub(super) fn new(exporter: &'e Exporter<B, T>) -> Self {
        Self {
            exporter,
            partitions: exporter.model.datasets.iter().map(|_| HashMap::new()).collect(),
            unmeasured: 0,
            seen: HashSet::new(),
            hashers: Default::default(),
            answers: HashMap::new(),
            rejected: Vec::new(),
            knows_a_table: false,
            unknown_table: None,
            line: 0,
            tally: Tally::default(),
        }
    }

    /// Exports a block of whole lines.
    pub(super) async fn block(&mut self, block: &[u8]) -> Result<()> {
        let exporter = self.exporter;
        let mut decoder = RecordDecoder::new(&exporter.model.row_vocabulary);
        let mut changes = Vec::with_capacity(block.len() / TYPICAL_LINE_BYTES);
        for text in lines(block) {
            self.line += 1;
            let text = text.trim_ascii();
            if text.is_empty() {
                continue;
            }
            self.tally.lines += 1;
            match self.decode(&mut decoder, text) {
                Ok(change) => changes.push(change),
                Err(error) => self.reject(self.line, text, &error)?,
            }
        }
        // The text after the last line feed was counted as a line.
        self.line -= usize::from(block.last() == Some(&b'\n'));
        let model = &self.exporter.model;
        let sources: Vec<_> = changes
            .iter()
            .map(|change| SourceKey::of_keys(model, change.table, &change.record.keys))
            .collect();
        let (mut items, mut fingerprints) =
            (Vec::with_capacity(changes.len()), Vec::with_capacity(changes.len()));
        for (change, source) in changes.iter().zip(&sources) {
            match self.identify(change, source.as_ref()) {
                Ok(Some((item, fingerprint))) => {
                    items.push(item);
                    fingerprints.push(fingerprint);
                }
                Ok(None) => self.tally.unmatched += 1,
                Err(error) => self.reject(change.line, change.text, &error)?,
            }
        }
        self.drop_duplicates(&mut items, fingerprints);
        self.look_up(&items).await?;
        items.iter().try_for_each(|item| self.append(item))?;
        self.unmeasured += items.len();
        self.encode_if_much()
    }

    fn decode<'b>(&mut self, decoder: &mut RecordDecoder<'_, 'b>, text: &'b [u8]) -> Result<Change<'b>> {
        let tables = &self.exporter.tables;
        let index = |name: &str| tables.iter().position(|known| **known == *name);
        let record = decoder.record(text).map_err(|bad| {
            self.knows_a_table |= bad.table.and_then(|table| index(&table)).is_some();
            bad.error
        })?;
        let Some(table) = index(&record.table) else {
            let message = "the change is of a table that the model does not know";
            let error = unknown_table(ErrorKind::Record, message, &record.table);
            self.unknown_table.get_or_insert_with(|| record.table.into_owned());
            return Err(error);
        };
        self.knows_a_table = true;
        Ok(Change { line: self.line, text, record, table })
    }

    /// A change as one of an item that the model knows, and the change's fingerprint; `None` if it is none. A copy that cannot be
    /// read has no fingerprint, and so does not pass for one that can.
    fn identify<'c, 'b>(
        &self,
        change: &'c Change<'b>,
        source: Option<&'c SourceKey<'c>>,
    ) -> Result<Option<(ItemChange<'c, 'b>, Fingerprint)>>
    where
        'e: 'c,
    {
        let (model, record) = (&self.exporter.model, &change.record);
        let source = source.ok_or_else(|| {
            Error::new(ErrorKind::Record, "the change's key is not its table's")
                .hint("Correct `key` and `types` of the table in the model")
        })?;
        let Some(identity) = source.identify(model) else { return Ok(None) };
        let old = old_image(model, &identity, record)?;
        let (secret, fast) = &self.hashers;
        let fingerprint =
            [secret.hash_one((source, &record.position)), fast.hash_one((source, &record.position))];
        Ok(Some((ItemChange { change, identity, old }, fingerprint)))
    }

    /// Leaves each change once. All of a block's at once: the set does not fit into a processor's cache, and what is awaited of the
    /// memory is then awaited together.
    fn drop_duplicates(&mut self, items: &mut Vec<ItemChange<'_, '_>>, fingerprints: Vec<Fingerprint>) {
        let is_new: Vec<bool> = fingerprints.into_iter().map(|one| self.seen.insert(one)).collect();
        let (before, mut is_new) = (items.len(), is_new.into_iter());
        items.retain(|_| is_new.next().unwrap_or(true));
        self.tally.duplicates += before - items.len();
    }

    fn reject(&mut self, line: usize, text: &[u8], error: &Error) -> Result<()> {
        self.tally.rejected += 1;
        if self.tally.rejected > BAD_LINES_AT_MOST
            || self.rejected.len() + text.len() > BAD_MEBIBYTES_AT_MOST * 1024 * 1024
        {
            self.refuse_foreign()?;
            return Err(Error::new(
                ErrorKind::Rejected,
                format!(
                    "an archive object has more than {BAD_LINES_AT_MOST} lines that are no changes, or more than \
                     {BAD_MEBIBYTES_AT_MOST} MiB of them; nothing of it was exported"
                ),
            )
            .hint("It is not one of the archive's; move it elsewhere"));
        }
        let rejected = Rejected { line, reason: error.to_string(), text: String::from_utf8_lossy(text) };
        // Text and numbers: there is nothing that JSON cannot say.
        self.rejected.extend(serde_json::to_vec(&rejected).unwrap_or_default());
        self.rejected.push(b'\n');
        Ok(())
    }

    /// An object of unknown tables alone must not pass for exported: mostly a setting is wrong, and would lose every object.
    fn refuse_foreign(&self) -> Result<()> {
        match &self.unknown_table {
            Some(name) if !self.knows_a_table => {
                let message = "an archive object holds changes of tables that the model does not know, and of no other; nothing of it was exported";
                Err(unknown_table(ErrorKind::Rejected, message, name))
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Reads what lookups have given for these changes, as far as it is not known yet.
    async fn look_up(&mut self, items: &[ItemChange<'_, '_>]) -> Result<()> {
        let model = &self.exporter.model;
        let Some(remembered) = &self.exporter.remembered else { return Ok(()) };
        let mut asked: HashSet<LookupKey<'static>> = HashSet::new();
        for item in items {
            for (_, dataset) in model.datasets_of(item.identity.entity) {
                for row in item.rows(model, dataset) {
                    asked.extend(questions(dataset, row.scope).flatten().map(LookupKey::into_owned));
                }
            }
        }
        let asked: Vec<_> =
            asked.into_iter().filter(|question| !self.answers.contains_key(question)).collect();
        if asked.is_empty() {
            return Ok(());
        }
        let answers = remembered.read(&asked).await?;
        self.answers.extend(asked.into_iter().zip(answers));
        Ok(())
    }

    fn append(&mut self, item: &ItemChange<'_, '_>) -> Result<()> {
        let exporter = self.exporter;
        let model = &exporter.model;
        let change = item.change;
        for (index, dataset) in model.datasets_of(item.identity.entity) {
            for mut row in item.rows(model, dataset) {
                let outputs = outputs(&self.answers, questions(dataset, row.scope));
                row.scope.outputs = &outputs;
                let Some(days) = self.partitions.get_mut(index) else { continue };
                let partition = match days.entry_ref(&*row.day) {
                    EntryRef::Occupied(held) => held.into_mut(),
                    EntryRef::Vacant(vacant) => {
                        vacant.insert(Partition::new(&exporter.model, dataset, exporter.schema(index))?)
                    }
                };
                self.tally.rescued += usize::from(partition.append(dataset, &row, &change.record));
                self.tally.rows += 1;
            }
        }
        Ok(())
    }

    /// Encodes what is staged if it is much. Measuring looks at each partition, so not before there are as many new rows.
    fn encode_if_much(&mut self) -> Result<()> {
        if self.unmeasured < self.partitions.iter().map(HashMap::len).sum() {
            return Ok(());
        }
        self.unmeasured = 0;
        let partitions = self.partitions.iter().flat_map(HashMap::values);
        let staged_bytes: usize = partitions.map(Partition::staged_bytes).sum();
        if staged_bytes >= self.exporter.staged_bytes { self.encode() } else { Ok(()) }
    }

    /// Encodes what is staged, one partition after the other: what a row group in the making takes, above all the state of its
    /// columns' compressors, is taken once, however many days an object holds changes of.
    fn encode(&mut self) -> Result<()> {
        self.partitions.iter_mut().flat_map(HashMap::values_mut).try_for_each(Partition::encode)
    }

    /// Writes the files, and the lines that were rejected.
    pub(super) async fn finish(mut self, key: &str) -> Result<Tally> {
        let exporter = self.exporter;
        self.refuse_foreign()?;
        if !self.rejected.is_empty() {
            exporter.bucket.put(&super::rejected_key(key), self.rejected).await?;
        }
        let partitions = self.partitions.into_iter().enumerate();
        let partitions =
            partitions.flat_map(|(dataset, days)| days.into_iter().map(move |day| (dataset, day)));
        for (dataset, (day, partition)) in partitions {
            let key = exporter.file_key(dataset, &day, key);
            let file = partition.finish()?;
            let bytes = file.len();
            let body = afterwrite::sink::ObjectBody::Bytes(file.into());
            match exporter.bucket.put_new(&key, body).await? {
                afterwrite::sink::PutOutcome::Written => {
                    self.tally.files += 1;
                    self.tally.file_bytes += bytes;
                }
                afterwrite::sink::PutOutcome::AlreadyExists => self.tally.files_there += 1,
            }
        }
        Ok(self.tally)
    }
}

fn unknown_table(kind: ErrorKind, message: &'static str, name: &str) -> Error {
    Error::new(kind, message)
        .with("table", name)
        .hint("If one of the model's tables lives under this name, say so in AFTERWRITE_TABLES")
}

/// What a row asks the dataset's lookups, each; `None` where it lacks what to ask by.
fn questions<'q>(
    dataset: &'q Dataset,
    scope: ImageScope<'q, 'q>,
) -> impl Iterator<Item = Option<LookupKey<'q>>> {
    dataset.lookups.iter().map(move |key| scope.question(key).ok())
}

/// What is known to have been given to these questions, each.
fn outputs<'q>(
    answers: &'q HashMap<LookupKey<'q>, Option<Arc<LookupOutputs>>>,
    questions: impl Iterator<Item = Option<LookupKey<'q>>>,
) -> Vec<&'q LookupOutputs> {
    if answers.is_empty() {
        return Vec::new();
    }
    let answer = |question: Option<LookupKey<'q>>| answers.get(&question?)?.as_deref();
    questions.map(|question| answer(question).unwrap_or_default()).collect()
}
