//! Exam attempts, as an exporter would have written them.

mod faults;
mod newest;
mod result;
mod watched;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::AtomicI64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use afterwrite::sink::ObjectStore as _;
use afterwrite_memory::MemoryObjects;
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
use crate::paths::is_compacted_file;
use crate::schema;

const DAY: &str = "2026-02-06";
/// 2026-02-07T00:00:00Z
const NOW: Timestamp = Timestamp::from_epoch_seconds(1_770_422_400);
const GRACE: Duration = Duration::from_secs(3600);

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
        ("project_id", _) => texts(|row| row.project.clone()),
        ("attempt_id", _) => texts(|row| row.attempt.clone()),
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

fn exported(model: &Model, day: &str, name: u64) -> String {
    format!("datasets/attempts/dt={day}/{name:032x}-{}.parquet", schema::fingerprint(model, dataset(model)))
}

fn block_on<F: Future>(future: F) -> F::Output {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
}

/// A bucket with these files of one day.
fn bucket(model: &Model, files: &[Vec<AttemptRow>]) -> Arc<MemoryObjects> {
    let bucket = Arc::new(MemoryObjects::default());
    bucket.set_clock(NOW);
    for (name, rows) in (0..).zip(files) {
        put(&bucket, &exported(model, DAY, name), parquet(model, rows));
    }
    bucket
}

fn put(bucket: &MemoryObjects, key: &str, body: Vec<u8>) {
    block_on(bucket.put(key, body)).unwrap();
}

fn options() -> CompactionOptions {
    CompactionOptions { grace_period: GRACE, ..CompactionOptions::default() }
}

/// A clock that advances by a step after each reading.
struct SteppingClock {
    now: AtomicI64,
    step: Duration,
}

impl Clock for SteppingClock {
    fn now(&self) -> Timestamp {
        let step_ms = i64::try_from(self.step.as_millis()).unwrap();
        Timestamp::from_epoch_ms(self.now.fetch_add(step_ms, Relaxed))
    }

    async fn sleep(&self, _: Duration) {}

    async fn until(&self, _: Timestamp) {
        std::future::pending().await
    }

    fn permille(&self) -> u32 {
        0
    }
}

/// A compactor at a fixed time.
fn compactor<B: Bucket>(
    model: &Arc<Model>,
    bucket: B,
    options: CompactionOptions,
    now: Timestamp,
) -> DatasetCompactor<B, SteppingClock> {
    let clock = SteppingClock { now: AtomicI64::new(now.epoch_ms()), step: Duration::ZERO };
    DatasetCompactor::new(Arc::clone(model), bucket, options, clock)
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

fn keys(bucket: &MemoryObjects, prefix: &str) -> Vec<String> {
    bucket.objects().into_keys().filter(|key| key.starts_with(prefix)).collect()
}

fn files(bucket: &MemoryObjects) -> Vec<String> {
    keys(bucket, "datasets/")
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

/// The rows of all files without duplicates, as readers see them.
fn distinct(bucket: &MemoryObjects) -> BTreeSet<AttemptRow> {
    let objects = bucket.objects().into_iter().filter(|(key, _)| key.starts_with("datasets/"));
    objects.flat_map(|(_, file)| rows_of_file(file)).collect()
}

/// The newest row of every key, computed without the order of the compactor.
fn view(rows: &BTreeSet<AttemptRow>) -> BTreeMap<(String, String), AttemptRow> {
    let mut items: BTreeMap<_, Vec<&AttemptRow>> = BTreeMap::new();
    for row in rows {
        items.entry((row.project.clone(), row.attempt.clone())).or_default().push(row);
    }
    items.into_iter().map(|(key, rows)| (key, newest_row(rows).clone())).collect()
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
