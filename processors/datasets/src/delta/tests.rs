//! Tables in a bucket in memory.

mod log;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use afterwrite_memory::MemoryObjects;
use afterwrite_model::clock::{Clock, SystemClock};
use afterwrite_model::record::Timestamp;
use afterwrite_model::{Error, ErrorKind, Result};
use afterwrite_services::{Bucket, ListedObject, ObjectBody, ObjectChunks, ObjectStore, PutOutcome};
use arrow_array::{
    ArrayRef, Date32Array, Decimal128Array, Float64Array, Int64Array, RecordBatch, StringArray,
    TimestampMillisecondArray,
};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use bytes::Bytes;
use parquet::arrow::ArrowWriter;
use serde_json::{Value, json};

use super::log_files::{checkpoint_key, commit_key, last_checkpoint_key};
use super::schema::merge_schema;
use super::*;
use crate::fixed_clock::FixedClock;

const ROOT: &str = "datasets/attempts_log/";
/// 2026-02-07T00:00:00Z
const NOW: Timestamp = Timestamp::from_epoch_seconds(1_770_422_400);
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

fn schema(columns: &[(&str, DataType)]) -> SchemaRef {
    let fields = columns.iter().map(|(name, data_type)| Field::new(*name, data_type.clone(), true));
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

fn file(name: &str) -> DataFile {
    DataFile {
        path: format!("dt=2026-02-06/{name}.parquet"),
        day: "2026-02-06".to_owned(),
        size: 100,
        modified: NOW,
        statistics: Some(FileStatistics::stored("{\"numRecords\":7}".to_owned())),
    }
}

fn change(add: &[&str], remove: &[&str]) -> TableChange {
    TableChange {
        add: add.iter().map(|name| file(name)).collect(),
        remove: remove.iter().map(|name| file(name).path).collect(),
        ..TableChange::new("TEST", schema(&[("id", DataType::Utf8)]))
    }
}

fn block_on<F: Future>(future: F) -> F::Output {
    tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(future)
}

fn commit<B: Bucket>(table: &DeltaTable<B>, clock: &impl Clock, change: &TableChange) -> Result<Option<u64>> {
    let deadline = clock.now().plus(Duration::from_secs(30));
    block_on(table.update(clock, deadline, |_| Ok(Some(change.clone()))))
}

fn table(bucket: &Arc<MemoryObjects>) -> DeltaTable<Arc<MemoryObjects>> {
    DeltaTable::new(Arc::clone(bucket), ROOT)
}

fn paths(snapshot: &TableSnapshot) -> BTreeSet<String> {
    snapshot.files().map(|file| file.path.clone()).collect()
}

fn lines(bucket: &MemoryObjects, version: u64) -> Vec<Value> {
    let commit = bucket.objects()[&commit_key(ROOT, version)].clone();
    commit.split(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice(line).ok()).collect()
}

#[test]
fn the_first_commit_creates_the_table_as_the_protocol_writes_it() {
    let bucket = Arc::new(MemoryObjects::default());
    assert_eq!(commit(&table(&bucket), &FixedClock(NOW), &change(&["a"], &[])).unwrap(), Some(0));
    let lines = lines(&bucket, 0);
    assert_eq!(lines[0]["commitInfo"]["operation"], "TEST");
    assert_eq!(lines[1], json!({ "protocol": { "minReaderVersion": 1, "minWriterVersion": 2 } }));
    let metadata = &lines[2]["metaData"];
    assert_eq!(metadata["partitionColumns"], json!(["dt"]));
    assert_eq!(metadata["format"], json!({ "provider": "parquet", "options": {} }));
    assert_eq!(metadata["configuration"]["delta.deletedFileRetentionDuration"], "interval 604800 seconds");
    let field = |name: &str| json!({ "name": name, "type": "string", "nullable": true, "metadata": {} });
    let schema: Value = serde_json::from_str(metadata["schemaString"].as_str().unwrap()).unwrap();
    assert_eq!(schema, json!({ "type": "struct", "fields": [field("id"), field("dt")] }));
    assert_eq!(
        lines[3],
        json!({ "add": {
            "path": "dt=2026-02-06/a.parquet", "partitionValues": { "dt": "2026-02-06" }, "size": 100,
            "modificationTime": NOW.epoch_ms(), "dataChange": true, "stats": "{\"numRecords\":7}",
        } })
    );
}

#[test]
fn every_reader_sees_the_same_table_whatever_it_read_before() {
    let bucket = Arc::new(MemoryObjects::default());
    let (writer, follower) = (table(&bucket), table(&bucket));
    for number in 0..250_u64 {
        let (new, old) = (format!("f{number}"), format!("f{}", number / 2));
        let removed: &[&str] = if number % 3 == 1 { &[&old] } else { &[] };
        let mut next = change(&[&new], removed);
        next.transactions.insert(format!("app {}", number % 5), i64::try_from(number).unwrap());
        assert_eq!(commit(&writer, &FixedClock(NOW), &next).unwrap(), Some(number));
        if number % 7 == 0 {
            block_on(follower.snapshot()).unwrap();
        }
    }
    let read = |table: &DeltaTable<_>| block_on(table.snapshot()).unwrap();
    let (ours, followed, fresh) = (read(&writer), read(&follower), read(&table(&bucket)));
    for read in [&followed, &fresh] {
        assert_eq!(read.version(), Some(249));
        assert_eq!(paths(read), paths(&ours));
        assert_eq!(read.checkpoint_lines(NOW), ours.checkpoint_lines(NOW));
    }
    assert!(ours.files().all(|file| file.rows() == 7));
    assert_eq!(ours.transaction("app 3"), Some(248));
    assert!(
        ours.known_paths("dt=2026-02-06/f2.parquet").next().is_some()
            && !paths(&ours).contains("dt=2026-02-06/f2.parquet")
    );
    let checkpoints = bucket.objects().into_keys().filter(|key| key.ends_with(".checkpoint.parquet"));
    assert_eq!(checkpoints.collect::<Vec<_>>(), [checkpoint_key(ROOT, 100), checkpoint_key(ROOT, 200)]);
}

/// A bucket whose other users go first, and one of whose responses is lost.
struct BusyBucket {
    inner: Arc<MemoryObjects>,
    random: AtomicU64,
    /// The commit whose response is lost, after which the sender finds that it exists, as a retry does.
    loses: Option<u64>,
    /// How many writes are refused because another one is being carried out.
    conflicts: AtomicU64,
}

impl BusyBucket {
    async fn wait(&self) {
        let random = self.random.fetch_add(1, Relaxed).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        for _ in 0..(random >> 61) {
            tokio::task::yield_now().await;
        }
    }
}

impl ObjectStore for BusyBucket {
    async fn put(&self, key: &str, body: Vec<u8>) -> Result<()> {
        self.wait().await;
        self.inner.put(key, body).await
    }
}

impl Bucket for BusyBucket {
    async fn get(&self, key: &str) -> Result<Option<ObjectChunks>> {
        self.wait().await;
        self.inner.get(key).await
    }
    async fn put_new(&self, key: &str, body: ObjectBody) -> Result<PutOutcome> {
        self.wait().await;
        if self.conflicts.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1)).is_ok() {
            return Err(Error::new(ErrorKind::Conflict, "injected"));
        }
        let outcome = self.inner.put_new(key, body).await;
        let is_lost = self.loses.is_some_and(|version| key == commit_key(ROOT, version));
        if is_lost { Ok(PutOutcome::AlreadyExists) } else { outcome }
    }
    async fn list(&self, prefix: &str) -> Result<Vec<ListedObject>> {
        self.wait().await;
        self.inner.list(prefix).await
    }
    async fn delete(&self, keys: &[String]) -> Result<()> {
        self.inner.delete(keys).await
    }
}

#[test]
fn no_commit_of_sixteen_writers_is_lost() {
    let bucket = Arc::new(MemoryObjects::default());
    let clock = FixedClock(NOW);
    let writers: Vec<_> = (0..16)
        .map(|writer| {
            let random = AtomicU64::new(writer * 1000);
            DeltaTable::new(
                BusyBucket { inner: Arc::clone(&bucket), random, loses: None, conflicts: AtomicU64::new(0) },
                ROOT,
            )
        })
        .collect();
    let (writers, clock) = (&writers, &clock);
    let commits = (0..16).map(|writer| async move {
        for number in 0..20 {
            let name = format!("w{writer}-{number}");
            let deadline = NOW.plus(Duration::from_secs(60));
            let next = change(&[&name], &[]);
            writers[writer].update(clock, deadline, |_| Ok(Some(next.clone()))).await.unwrap();
        }
    });
    block_on(futures::future::join_all(commits));
    let snapshot = block_on(table(&bucket).snapshot()).unwrap();
    assert_eq!((snapshot.version(), paths(&snapshot).len()), (Some(319), 320));
}

#[test]
fn a_commit_whose_response_was_lost_is_recognised() {
    let bucket = Arc::new(MemoryObjects::default());
    let (random, conflicts) = (AtomicU64::new(0), AtomicU64::new(0));
    let busy = BusyBucket { inner: Arc::clone(&bucket), random, loses: Some(1), conflicts };
    let writer = DeltaTable::new(busy, ROOT);
    for version in 0..3 {
        let committed = commit(&writer, &FixedClock(NOW), &change(&[&format!("f{version}")], &[]));
        assert_eq!(committed.unwrap(), Some(version));
    }
    assert_eq!(paths(&block_on(table(&bucket).snapshot()).unwrap()).len(), 3);
}

#[test]
fn a_commit_is_repeated_while_the_store_reports_another_write() {
    let bucket = Arc::new(MemoryObjects::default());
    let (random, conflicts) = (AtomicU64::new(0), AtomicU64::new(7));
    let busy = BusyBucket { inner: Arc::clone(&bucket), random, loses: None, conflicts };
    let writer = DeltaTable::new(busy, ROOT);
    assert_eq!(commit(&writer, &FixedClock(NOW), &change(&["a"], &[])).unwrap(), Some(0));
    assert_eq!(paths(&block_on(table(&bucket).snapshot()).unwrap()).len(), 1);
}

#[test]
fn a_writer_gives_up_at_its_deadline() {
    let bucket = Arc::new(MemoryObjects::default());
    let (writer, other) = (table(&bucket), table(&bucket));
    let decide = |snapshot: &TableSnapshot| {
        // Another writer is faster every time.
        let faster = commit_key(ROOT, snapshot.next_version());
        std::thread::scope(|scope| {
            let put = || commit(&other, &FixedClock(NOW), &change(&[&faster[faster.len() - 9..]], &[]));
            scope.spawn(put).join().unwrap().unwrap();
        });
        Ok(Some(change(&["late"], &[])))
    };
    let deadline = SystemClock.now().plus(Duration::from_millis(200));
    let error = block_on(writer.update(&SystemClock, deadline, decide)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict);
}

#[test]
fn columns_are_added_and_never_change_their_type() {
    let (narrow, wide) =
        (schema(&[("id", DataType::Utf8)]), schema(&[("score", DataType::Int64), ("id", DataType::Utf8)]));
    let first = merge_schema(None, &narrow).unwrap();
    let second = merge_schema(Some(&first), &wide).unwrap();
    let fields: Value = serde_json::from_str(&second).unwrap();
    let names: Vec<&Value> =
        fields["fields"].as_array().unwrap().iter().map(|field| &field["name"]).collect();
    assert_eq!(names, ["id", "score", "dt"]);
    assert_eq!(merge_schema(Some(&second), &narrow).unwrap(), second, "an older model removes no column");
    let error = merge_schema(Some(&second), &schema(&[("score", DataType::Utf8)])).unwrap_err();
    assert!(error.to_string().contains("score") && error.kind() == ErrorKind::Configuration, "{error}");
}

#[test]
fn a_table_of_another_key_is_refused() {
    let key = |name| schema(&[("id", DataType::Utf8), (name, DataType::Utf8)]);
    let table = merge_schema(None, &key("_key_user")).unwrap();
    assert_eq!(merge_schema(Some(&table), &key("_key_user")).unwrap(), table);
    let error = merge_schema(Some(&table), &key("_key_customer")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Configuration);
    assert!(["_key_user", "_key_customer"].iter().all(|name| error.to_string().contains(name)), "{error}");
}

#[test]
fn bounds_in_years_that_readers_do_not_know_are_left_out() {
    let days = |days: &[i32]| -> ArrayRef { Arc::new(Date32Array::from(days.to_vec())) };
    let times = |times: &[i64]| -> ArrayRef {
        Arc::new(TimestampMillisecondArray::from(times.to_vec()).with_timezone("UTC"))
    };
    let columns = [
        ("before", days(&[-719_163, 0])),
        ("after", days(&[0, 2_932_897])),
        ("known", days(&[-719_162, 0])),
        ("time_before", times(&[-62_135_596_800_001, 0])),
        ("time_known", times(&[-62_135_596_800_000, 0])),
    ];
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    let mut writer = ArrowWriter::try_new(Vec::new(), batch.schema(), None).unwrap();
    writer.write(&batch).unwrap();
    let statistics = FileStatistics::of(&writer.finish().unwrap(), &batch.schema());
    let statistics: Value = serde_json::from_str(statistics.as_json()).unwrap();
    let least = json!({ "known": "0001-01-01", "time_known": "0001-01-01T00:00:00.000Z" });
    let greatest = json!({ "known": "1970-01-01", "time_known": "1970-01-01T00:00:00.000Z" });
    assert_eq!((&statistics["minValues"], &statistics["maxValues"]), (&least, &greatest));
}

#[test]
fn a_changed_schema_is_part_of_the_commit_that_needs_it() {
    let bucket = Arc::new(MemoryObjects::default());
    let writer = table(&bucket);
    commit(&writer, &FixedClock(NOW), &change(&["a"], &[])).unwrap();
    let wide = TableChange { schema: schema(&[("score", DataType::Float64)]), ..change(&["b"], &["a"]) };
    commit(&writer, &FixedClock(NOW), &wide).unwrap();
    commit(&writer, &FixedClock(NOW), &change(&["c"], &[])).unwrap();
    let kinds = |version| {
        let kinds = lines(&bucket, version).into_iter();
        kinds.map(|line| line.as_object().unwrap().keys().next().unwrap().clone()).collect::<Vec<_>>()
    };
    assert_eq!(kinds(1), ["commitInfo", "metaData", "remove", "add"]);
    assert_eq!(kinds(2), ["commitInfo", "add"]);
    let ids = [0, 1].map(|version| {
        lines(&bucket, version)[usize::try_from(2 - version).unwrap()]["metaData"]["id"].clone()
    });
    assert_eq!(ids[0], ids[1]);
}

#[test]
fn tables_of_a_higher_protocol_are_refused() {
    let bucket = Arc::new(MemoryObjects::default());
    let protocol = "{\"protocol\":{\"minReaderVersion\":3,\"minWriterVersion\":7,\"readerFeatures\":[],\"writerFeatures\":[]}}";
    block_on(bucket.put(&commit_key(ROOT, 0), protocol.as_bytes().to_vec())).unwrap();
    let error = block_on(table(&bucket).snapshot()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::State);
}

#[test]
fn the_vacuum_removes_only_what_no_version_within_the_retention_has() {
    let bucket = Arc::new(MemoryObjects::default());
    let writer = table(&bucket);
    let put = |name: &str, at: Timestamp| {
        bucket.set_clock(at);
        block_on(bucket.put(&format!("{ROOT}dt=2026-02-06/{name}.parquet"), Vec::new())).unwrap();
    };
    let at = |days: u32| NOW.plus(DAY * days);
    for name in ["kept", "early", "late", "foreign"] {
        put(name, NOW);
    }
    let retained = TableChange { retention: Some(DAY * 3), ..change(&["kept", "early", "late"], &[]) };
    commit(&writer, &FixedClock(NOW), &retained).unwrap();
    commit(&writer, &FixedClock(at(1)), &change(&[], &["early"])).unwrap();
    commit(&writer, &FixedClock(at(3)), &change(&[], &["late"])).unwrap();
    put("old-orphan", at(1));
    put("orphan", at(3));
    let vacuum = |now| block_on(writer.vacuum(now, |path| !path.contains("foreign"))).unwrap();
    assert_eq!(vacuum(at(4)), VacuumTotals::default(), "everything is within the retention");
    assert_eq!(vacuum(at(5)).files, 2, "the early one and the old orphan");
    assert_eq!(vacuum(at(5)).files, 0);
    let left: Vec<String> = bucket.objects().into_keys().filter(|key| key.ends_with(".parquet")).collect();
    let expected = ["foreign", "kept", "late", "orphan"];
    assert_eq!(left, expected.map(|name| format!("{ROOT}dt=2026-02-06/{name}.parquet")));
}

#[test]
fn the_old_part_of_the_log_is_removed() {
    let bucket = Arc::new(MemoryObjects::default());
    let writer = table(&bucket);
    for number in 0..250_u32 {
        let now = NOW.plus(DAY * (number / 10));
        bucket.set_clock(now);
        commit(&writer, &FixedClock(now), &change(&[&format!("f{number}")], &[])).unwrap();
    }
    let files = paths(&block_on(writer.snapshot()).unwrap());
    // Checkpoint 100 was written on the tenth day, checkpoint 200 on the twentieth.
    let vacuum = |days| block_on(writer.vacuum(NOW.plus(DAY * days), |_| true)).unwrap().log_files;
    assert_eq!([vacuum(40), vacuum(41), vacuum(41), vacuum(51)], [0, 100, 0, 101]);
    assert_eq!(paths(&block_on(table(&bucket).snapshot()).unwrap()), files);
}

#[test]
fn statistics_bound_every_value_of_a_file() {
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("text", Arc::new(StringArray::from(vec![Some("b"), None, Some("a")]))),
        ("number", Arc::new(Int64Array::from(vec![i64::MAX, -5, 7]))),
        ("rate", Arc::new(Float64Array::from(vec![0.1, f64::INFINITY, 1.5]))),
        ("day", Arc::new(Date32Array::from(vec![0, 20_490, -1]))),
        ("price", Arc::new(decimals(10))),
        ("wide", Arc::new(decimals(38))),
        ("nothing", Arc::new(Int64Array::from(vec![None, None, None]))),
    ];
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    let mut writer = ArrowWriter::try_new(Vec::new(), batch.schema(), None).unwrap();
    for part in [batch.slice(0, 1), batch.slice(1, 2)] {
        writer.write(&part).unwrap();
        writer.flush().unwrap();
    }
    let metadata = writer.finish().unwrap();
    let statistics = FileStatistics::of(&metadata, &batch.schema());
    assert_eq!(statistics.rows(), Some(3));
    let statistics: Value = serde_json::from_str(statistics.as_json()).unwrap();
    assert_eq!(
        statistics,
        json!({
            "numRecords": 3,
            "minValues": { "text": "a", "number": -5, "day": "1969-12-31", "price": -0.05 },
            "maxValues": { "text": "b", "number": i64::MAX, "day": "2026-02-06", "price": 12.3 },
            "nullCount": { "text": 1, "number": 0, "rate": 0, "day": 0, "price": 0, "wide": 0, "nothing": 3 },
        })
    );
}

fn decimals(precision: u8) -> Decimal128Array {
    Decimal128Array::from(vec![1230, -5, 0]).with_precision_and_scale(precision, 2).unwrap()
}

#[test]
fn an_unreadable_commit_is_an_error_that_names_it() {
    let bucket = Arc::new(MemoryObjects::default());
    block_on(bucket.put_new(&commit_key(ROOT, 0), ObjectBody::Bytes(Bytes::from("{")))).unwrap();
    let error: Error = block_on(table(&bucket).snapshot()).unwrap_err();
    assert!(error.to_string().contains("00000000000000000000.json"), "{error}");
}
