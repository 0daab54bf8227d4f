//! Exam attempts, as an exporter would have written them.

mod faults;
mod newest;
mod result;
mod watched;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use afterwrite_memory::MemoryObjects;
use afterwrite_services::ObjectStore as _;
use arrow_array::cast::AsArray as _;
use arrow_array::types::{Int64Type, TimestampMillisecondType};
use arrow_array::{
    Array as _, ArrayRef, Int64Array, ListArray, RecordBatch, StringArray, TimestampMillisecondArray,
};
use arrow_buffer::OffsetBuffer;
use arrow_schema::DataType;
use bytes::Bytes;
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::basic::Encoding;

use super::*;
use crate::delta::FileStatistics;
use crate::export::commit::{LogAddition, add_to_log};
use crate::fixed_clock::FixedClock;
use crate::paths::exported_prefix;
use crate::schema;

const DAY: &str = "2026-02-06";
/// 2026-02-07T00:00:00Z
const NOW: Timestamp = Timestamp::from_epoch_seconds(1_770_422_400);
const HOUR: Duration = Duration::from_secs(3600);
const RETAINED: Duration = Duration::from_secs(6 * 3600);

/// A model whose dataset has these settings, and these columns in addition to the key.
fn model(settings: &str, columns: &str) -> Arc<Model> {
    model_of(1, settings, columns)
}

fn model_of(generation: u64, settings: &str, columns: &str) -> Arc<Model> {
    let model = format!(
        "name = \"exams\"\ngeneration = {generation}\n[tables.exams]\nkey = [\"pk\", \"sk\"]\n[entities.attempt]\n\
         key = {{ pk = \"PROJECT#{{project_id}}\", sk = \"ATTEMPT#{{attempt_id}}\" }}\nattributes = {{ started_at = \"S\" }}\n\
         [datasets.attempts]\nof = \"attempt\"\npartition = \"started_at:day\"\n{settings}\n\
         [datasets.attempts.columns]\nattempt_id = \"string\"\nproject_id = \"string\"\n{columns}\n"
    );
    Arc::new(Model::parse(&model, "exams.toml").unwrap())
}

fn plain() -> Arc<Model> {
    model("sort = [\"project_id\"]", "score = \"int64\"\ntags = \"list<string>\"")
}

fn newest() -> Arc<Model> {
    model("sort = [\"project_id\"]\nhistory = \"newest\"", "score = \"int64\"\ntags = \"list<string>\"")
}

/// A row; compares by the columns by which files are sorted, then by the others.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct AttemptRow {
    project: String,
    attempt: String,
    position: String,
    operation: String,
    changed_at: Option<i64>,
    score: Option<i64>,
    tags: Option<Vec<String>>,
}

fn row(project: u64, attempt: u64, position: u64, operation: &str) -> AttemptRow {
    AttemptRow {
        project: format!("project-{project:02}"),
        attempt: format!("attempt-{attempt:04}"),
        position: format!("2026-01-01T00:00:00.000#{position:040}"),
        operation: operation.to_owned(),
        changed_at: Some(NOW.epoch_ms() + i64::try_from(position).unwrap() * 1000),
        score: Some(i64::try_from(position * 7 % 100).unwrap()),
        tags: (!position.is_multiple_of(3))
            .then(|| vec!["tag".to_owned(); usize::try_from(position % 3).unwrap()]),
    }
}

/// Pseudo-random numbers.
struct SeededRandom(u64);

impl SeededRandom {
    fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % bound
    }
}

/// The changes of some attempts, some of them several times, in files.
fn history(random: &mut SeededRandom, attempts: u64, files: usize) -> Vec<Vec<AttemptRow>> {
    let mut written = vec![Vec::new(); files];
    for attempt in 0..attempts {
        for change in 0..=random.below(4) {
            let operation =
                ["INSERT", "MODIFY", "MODIFY", "MODIFY", "REMOVE"][usize::try_from(change).unwrap()];
            for _ in 0..=random.below(2) {
                let file = usize::try_from(random.below(u64::try_from(files).unwrap())).unwrap();
                written[file].push(row(attempt % 7, attempt, 100 + change, operation));
            }
        }
    }
    written
}

fn column(name: &str, data_type: &DataType, rows: &[AttemptRow]) -> ArrayRef {
    let texts =
        |text: fn(&AttemptRow) -> String| Arc::new(StringArray::from_iter_values(rows.iter().map(text)));
    match (name, data_type) {
        ("project_id" | "_key_project_id", _) => texts(|row| row.project.clone()),
        ("attempt_id" | "_key_attempt_id", _) => texts(|row| row.attempt.clone()),
        (schema::POSITION, _) => texts(|row| row.position.clone()),
        (schema::OPERATION, _) => texts(|row| row.operation.clone()),
        (schema::CHANGED_AT, _) => Arc::new(
            rows.iter()
                .map(|row| row.changed_at)
                .collect::<TimestampMillisecondArray>()
                .with_timezone("+00:00"),
        ),
        ("score", DataType::Int64) => Arc::new(rows.iter().map(|row| row.score).collect::<Int64Array>()),
        ("tags", DataType::List(element)) => {
            let tags = rows.iter().map(|row| row.tags.as_deref().unwrap_or_default());
            let lengths = tags.clone().map(<[_]>::len);
            let values = tags.flatten().map(Some).collect::<StringArray>();
            let nulls = rows.iter().map(|row| row.tags.is_some()).collect::<Vec<_>>().into();
            let offsets = OffsetBuffer::from_lengths(lengths);
            Arc::new(ListArray::new(element.clone(), offsets, Arc::new(values), Some(nulls)))
        }
        (_, other) => arrow_array::new_null_array(other, rows.len()),
    }
}

fn dataset(model: &Model) -> &Dataset {
    &model.datasets[0]
}

fn parquet(model: &Model, rows: &[AttemptRow]) -> Vec<u8> {
    let schema = schema::arrow_schema(dataset(model));
    let generation: ArrayRef =
        Arc::new(Int64Array::from_value(i64::try_from(model.generation).unwrap(), rows.len()));
    let column = |name: &String, data_type| match &**name {
        schema::GENERATION => Arc::clone(&generation),
        name => column(name, data_type, rows),
    };
    let columns = schema.fields().iter().map(|field| column(field.name(), field.data_type())).collect();
    let batch = RecordBatch::try_new(schema.clone(), columns).unwrap();
    let mut file = Vec::new();
    let properties = schema::writer_properties().build();
    let mut writer = ArrowWriter::try_new(&mut file, schema, Some(properties)).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
    file
}

fn block_on<F: Future>(future: F) -> F::Output {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
}

type MemoryTable = DeltaTable<Arc<MemoryObjects>>;

fn log(bucket: &Arc<MemoryObjects>) -> MemoryTable {
    DeltaTable::new(Arc::clone(bucket), "datasets/attempts_log/")
}

fn current(bucket: &Arc<MemoryObjects>) -> MemoryTable {
    DeltaTable::new(Arc::clone(bucket), "datasets/attempts/")
}

/// Writes a file of the exporter and commits it; returns the version of the log.
fn export(bucket: &Arc<MemoryObjects>, model: &Model, day: &str, name: u64, rows: &[AttemptRow]) -> u64 {
    let body = parquet(model, rows);
    let metadata = parquet::file::metadata::ParquetMetaDataReader::new()
        .parse_and_finish(&Bytes::from(body.clone()))
        .unwrap();
    let prefix =
        exported_prefix(day, &format!("archive/{name}.gz"), &schema::fingerprint(model, dataset(model)));
    let file = DataFile {
        path: format!("{prefix}.parquet"),
        day: day.to_owned(),
        size: u64::try_from(body.len()).unwrap(),
        modified: NOW,
        statistics: Some(FileStatistics::of(&metadata, &schema::arrow_schema(dataset(model)))),
    };
    let table = log(bucket);
    put(bucket, &format!("{}{}", table.root(), file.path), body);
    let addition = LogAddition { dataset: 0, prefix, file };
    let committed =
        add_to_log(dataset(model), &table, &FixedClock(NOW), NOW.plus(HOUR), std::slice::from_ref(&addition));
    block_on(committed).unwrap().unwrap()
}

/// A bucket whose log has these files of one day.
fn bucket(model: &Model, files: &[Vec<AttemptRow>]) -> Arc<MemoryObjects> {
    let bucket = Arc::new(MemoryObjects::default());
    bucket.set_clock(NOW);
    for (name, rows) in (0..).zip(files) {
        export(&bucket, model, DAY, name, rows);
    }
    bucket
}

fn put(bucket: &MemoryObjects, key: &str, body: Vec<u8>) {
    block_on(bucket.put(key, body)).unwrap();
}

fn options() -> CompactionOptions {
    CompactionOptions { retention: RETAINED, ..CompactionOptions::default() }
}

/// A compactor at a fixed time.
fn compactor<B: Bucket>(
    model: &Arc<Model>,
    bucket: B,
    options: CompactionOptions,
    now: Timestamp,
) -> DatasetCompactor<B, FixedClock> {
    DatasetCompactor::new(Arc::clone(model), bucket, options, FixedClock(now))
}

/// Compacts everything; the bucket's clock is at `now`, too.
fn compact(
    model: &Arc<Model>,
    bucket: &Arc<MemoryObjects>,
    options: CompactionOptions,
    now: Timestamp,
) -> CompactionTotals {
    bucket.set_clock(now);
    block_on(compactor(model, Arc::clone(bucket), options, now).compact(None, None)).unwrap()
}

/// The files of a table, in the order of their paths: path and content.
fn files(table: &MemoryTable) -> Vec<(String, Vec<u8>)> {
    let snapshot = block_on(table.snapshot()).unwrap();
    let objects = table.bucket().objects();
    let content = |file: &Arc<DataFile>| {
        let content = objects[&format!("{}{}", table.root(), file.path)].clone();
        assert_eq!(
            (content.len() as u64, rows_of_file(content.clone()).len() as u64),
            (file.size, file.rows())
        );
        (file.path.clone(), content)
    };
    snapshot.files().map(content).collect()
}

/// The rows of a table's files, file by file.
fn rows_of_table(table: &MemoryTable) -> Vec<Vec<AttemptRow>> {
    files(table).into_iter().map(|(_, file)| rows_of_file(file)).collect()
}

fn batches(file: Vec<u8>) -> Vec<RecordBatch> {
    let reader = ParquetRecordBatchReaderBuilder::try_new(Bytes::from(file)).unwrap().build().unwrap();
    reader.map(Result::unwrap).collect()
}

/// The rows of a file, in its order; columns that it lacks are null.
fn rows_of_file(file: Vec<u8>) -> Vec<AttemptRow> {
    let mut rows = Vec::new();
    for batch in batches(file) {
        let text = |name: &str, at: usize| batch[name].as_string::<i32>().value(at).to_owned();
        for at in 0..batch.num_rows() {
            let changed_at = batch[schema::CHANGED_AT].as_primitive::<TimestampMillisecondType>();
            let score =
                batch.column_by_name("score").and_then(|scores| scores.as_primitive_opt::<Int64Type>());
            let tags = batch.column_by_name("tags").map(|tags| tags.as_list::<i32>());
            let tags = tags.filter(|tags| tags.is_valid(at)).map(|tags| tags.value(at));
            let owned = |tag: Option<&str>| tag.unwrap().to_owned();
            rows.push(AttemptRow {
                project: text("project_id", at),
                attempt: text("attempt_id", at),
                position: text(schema::POSITION, at),
                operation: text(schema::OPERATION, at),
                changed_at: changed_at.is_valid(at).then(|| changed_at.value(at)),
                score: score.filter(|scores| scores.is_valid(at)).map(|scores| scores.value(at)),
                tags: tags.map(|tags| tags.as_string::<i32>().iter().map(owned).collect()),
            });
        }
    }
    rows
}

/// The rows of the log without duplicates.
fn distinct(bucket: &Arc<MemoryObjects>) -> BTreeSet<AttemptRow> {
    rows_of_table(&log(bucket)).into_iter().flatten().collect()
}

/// The rows of the current table, sorted.
fn current_rows(bucket: &Arc<MemoryObjects>) -> Vec<AttemptRow> {
    let mut rows: Vec<AttemptRow> = rows_of_table(&current(bucket)).concat();
    rows.sort();
    rows
}

fn by_item(rows: &BTreeSet<AttemptRow>) -> BTreeMap<(String, String), Vec<&AttemptRow>> {
    let mut items: BTreeMap<_, Vec<&AttemptRow>> = BTreeMap::new();
    for row in rows {
        items.entry((row.project.clone(), row.attempt.clone())).or_default().push(row);
    }
    items
}

/// The newest row of every key, computed without the order of the compactor.
fn view(rows: &BTreeSet<AttemptRow>) -> BTreeMap<(String, String), AttemptRow> {
    by_item(rows).into_iter().map(|(key, rows)| (key, newest_row(rows).clone())).collect()
}

/// The rows that are current if expired items are kept, computed without the order of the compactor; sorted.
fn expected_current(rows: &BTreeSet<AttemptRow>) -> Vec<AttemptRow> {
    let mut current = Vec::new();
    for rows in by_item(rows).into_values() {
        let expired: BTreeMap<&str, &AttemptRow> =
            rows.iter().filter(|row| row.operation == "EXPIRE").map(|row| (&*row.position, *row)).collect();
        current.extend(expired.into_values().cloned());
        let newest = newest_row(rows);
        if !["REMOVE", "EXPIRE"].contains(&&*newest.operation) {
            current.push(newest.clone());
        }
    }
    current.sort();
    current
}

/// The newest of the rows of one key.
fn newest_row(rows: Vec<&AttemptRow>) -> &AttemptRow {
    let (snapshots, changes): (Vec<&AttemptRow>, Vec<&AttemptRow>) =
        rows.into_iter().partition(|row| row.operation == "SNAPSHOT");
    let snapshot = snapshots.into_iter().max_by_key(|row| (row.changed_at, &row.position));
    let read_at = snapshot.and_then(|row| row.changed_at);
    let counts = |change: &&AttemptRow| match (change.changed_at, read_at) {
        (None, _) | (_, None) => true,
        (Some(changed_at), Some(read_at)) => changed_at > read_at - 15 * 60 * 1000,
    };
    changes.into_iter().filter(counts).max_by_key(|row| &row.position).or(snapshot).unwrap()
}
