//! Files and commits of the change log.

use super::buckets::{HangingBucket, LimitedBucket};
use super::*;
use crate::export::missing::{ArchiveRange, archive_objects};

fn log(bucket: &Arc<MemoryObjects>) -> DeltaTable<Arc<MemoryObjects>> {
    DeltaTable::new(Arc::clone(bucket), "datasets/books_log/")
}

fn log_files(bucket: &Arc<MemoryObjects>) -> Vec<(String, u64, u64)> {
    let snapshot = block_on(log(bucket).snapshot()).unwrap();
    snapshot.files().map(|file| (file.path.clone(), file.size, file.rows())).collect()
}

fn days(days: u64) -> String {
    (1..=days)
        .map(|number| book(number, number % 28 + 1).replace("2026-02", &format!("20{:02}-02", number / 28)))
        .collect()
}

#[test]
fn an_object_that_cannot_be_read_in_time_fails_alone() {
    let bucket = Arc::new(MemoryObjects::default());
    let keys = ["archive/a.gz", "archive/b.gz", "archive/c.gz"].map(str::to_owned);
    for (number, key) in (1..).zip(&keys) {
        block_on(bucket.put(key, gzip(&book(number, number)))).unwrap();
    }
    let hanging = HangingBucket { inner: Arc::clone(&bucket), hanging: "archive/b.gz" };
    let model = Arc::new(Model::parse(MODEL, "library.toml").unwrap());
    let clock = afterwrite_model::clock::SystemClock;
    let exporter: ArchiveExporter<_, MemoryTables, _> =
        ArchiveExporter::new(model, vec![Arc::from("library")], hanging, None, clock);
    let deadline = afterwrite_model::clock::Clock::now(&clock).plus(std::time::Duration::from_secs(4));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let outcomes = runtime.block_on(exporter.export(&keys, deadline));
    assert_eq!(outcomes[0].as_ref().unwrap().files, 1);
    assert!(outcomes[1..].iter().all(|outcome| outcome.as_ref().unwrap_err().is_retryable()));
    assert_eq!(log_files(&bucket).len(), 1, "the object that was uploaded is committed");
}

#[test]
fn one_commit_adds_the_files_of_all_objects() {
    let bucket = Arc::new(MemoryObjects::default());
    let keys = ["archive/a.gz", "archive/b.gz", "archive/c.gz"].map(str::to_owned);
    for (number, key) in (1..).zip(&keys) {
        block_on(bucket.put(key, gzip(&book(number, number)))).unwrap();
    }
    let outcomes = block_on(exporter(&bucket).export(&keys, NOW.plus(std::time::Duration::from_secs(60))));
    assert!(outcomes.iter().all(|outcome| outcome.as_ref().unwrap().files == 1));
    let snapshot = block_on(log(&bucket).snapshot()).unwrap();
    assert_eq!((snapshot.version(), snapshot.files().count()), (Some(0), 3));
    let versions: Vec<(&str, i64)> = snapshot.transactions().collect();
    assert_eq!(versions, [("dt=2026-02-01", 0), ("dt=2026-02-02", 0), ("dt=2026-02-03", 0)]);
    assert_eq!(parquet_of(&bucket, "datasets/").len(), 3);
    assert!(log_files(&bucket).iter().all(|(path, size, rows)| {
        let file = &bucket.objects()[&format!("datasets/books_log/{path}")];
        file.len() as u64 == *size && rows_of(file.clone()).len() as u64 == *rows
    }));
}

#[test]
fn files_of_many_days_are_uploaded_at_once_and_a_retry_uses_those_that_are_there() {
    use std::sync::atomic::Ordering::Relaxed;
    let inner = Arc::new(MemoryObjects::default());
    let key = "archive/a.gz";
    block_on(inner.put(key, gzip(&days(2_500)))).unwrap();
    let attempt = |limit| {
        let bucket = Arc::new(LimitedBucket::new(&inner, limit));
        let model = Arc::new(Model::parse(MODEL, "library.toml").unwrap());
        let tables = vec![Arc::from("library")];
        let exporter: ArchiveExporter<_, MemoryTables, _> =
            ArchiveExporter::new(model, tables, Arc::clone(&bucket), None, FixedClock(NOW));
        let deadline = NOW.plus(std::time::Duration::from_secs(60));
        let outcome = block_on(exporter.export(&[key.to_owned()], deadline)).remove(0);
        (outcome, bucket.most_in_flight.load(Relaxed))
    };
    let (first, in_flight) = attempt(1_000);
    assert_eq!(first.unwrap_err().kind(), ErrorKind::Unavailable);
    assert!(in_flight >= 16, "{in_flight} at once");
    assert_eq!(log_files(&inner), [], "nothing is committed before all files are there");
    let (second, _) = attempt(usize::MAX);
    let second = second.unwrap();
    assert_eq!((second.files + second.existing_files, second.existing_files), (2_500, 1_000));
    assert_eq!(log_files(&inner).len(), 2_500);
    let (third, _) = attempt(0);
    assert_eq!(third.unwrap().existing_files, 2_500, "what the log has is not sent");
}

#[test]
fn a_file_of_an_earlier_attempt_has_its_own_size_and_statistics() {
    let bucket = Arc::new(MemoryObjects::default());
    let key = "archive/a.gz";
    let books = book(1, 6) + &book(2, 6);
    exported(&bucket, key, &books).unwrap();
    let (path, ..) = log_files(&bucket).remove(0);
    // The commit was lost, and the file has other rows: as if a lookup had been remembered in between.
    let log_objects: Vec<String> =
        bucket.objects().into_keys().filter(|key| key.contains("_delta_log")).collect();
    block_on(bucket.delete(&log_objects)).unwrap();
    let other = Arc::new(MemoryObjects::default());
    exported(&other, key, &book(1, 6)).unwrap();
    let (_, file) = parquet_of(&other, "datasets/").remove(0);
    let size = file.len() as u64;
    block_on(bucket.put(&format!("datasets/books_log/{path}"), file)).unwrap();
    let totals = exported(&bucket, key, &books).unwrap();
    assert_eq!((totals.files, totals.existing_files), (0, 1));
    assert_eq!(log_files(&bucket), [(path, size, 1)]);
}

#[test]
fn a_file_that_a_vacuum_may_remove_is_not_committed() {
    let bucket = Arc::new(MemoryObjects::default());
    let key = "archive/a.gz";
    exported(&bucket, key, &book(1, 6)).unwrap();
    let log_objects: Vec<String> =
        bucket.objects().into_keys().filter(|key| key.contains("_delta_log")).collect();
    block_on(bucket.delete(&log_objects)).unwrap();
    let later = NOW.plus(crate::delta::ORPHAN_AGE / 2);
    let exporter = ArchiveExporter { clock: FixedClock(later), ..exporter(&bucket) };
    let totals = block_on(exporter.export(&[key.to_owned()], later.plus(std::time::Duration::from_secs(9))));
    assert_eq!(totals[0].as_ref().unwrap().files, 1);
    let (path, ..) = log_files(&bucket).remove(0);
    assert!(path.ends_with("-1.parquet"), "{path}");
}

#[test]
fn an_object_that_was_packed_is_not_added_again() {
    let bucket = Arc::new(MemoryObjects::default());
    let key = "archive/a.gz";
    exported(&bucket, key, &book(1, 6)).unwrap();
    let remove = |snapshot: &crate::delta::TableSnapshot| {
        Ok(Some(crate::delta::TableChange {
            remove: snapshot.files().map(|file| file.path.clone()).collect(),
            ..crate::delta::TableChange::new("PACK", arrow_schema(&exporter(&bucket).model.datasets[0]))
        }))
    };
    block_on(log(&bucket).update(&FixedClock(NOW), NOW.plus(std::time::Duration::from_secs(9)), remove))
        .unwrap();
    let totals = exported(&bucket, key, &book(1, 6)).unwrap();
    assert_eq!((totals.files, totals.existing_files, log_files(&bucket).len()), (0, 1, 0));
    assert_eq!(block_on(log(&bucket).snapshot()).unwrap().version(), Some(1), "there is no commit");
}

#[test]
fn objects_without_a_mark_are_missing() {
    let bucket = Arc::new(MemoryObjects::default());
    let object = |day: u64| format!("archive/dt=2026-02-{day:02}/hh=14/a.gz");
    bucket.set_clock(NOW);
    for day in 1..=4 {
        block_on(bucket.put(&object(day), gzip(&book(day, day)))).unwrap();
    }
    bucket.set_clock(NOW.plus(std::time::Duration::from_secs(1)));
    block_on(export_one(&exporter(&bucket), &object(2))).unwrap();
    let model = exporter(&bucket).model;
    let range = |from: Option<&str>, to: Option<&str>| ArchiveRange {
        from: from.map(str::to_owned),
        to: to.map(str::to_owned),
    };
    let keys =
        |range: &ArchiveRange, missing| block_on(archive_objects(&bucket, &model, range, missing)).unwrap();
    assert_eq!(keys(&range(None, None), true), [1, 3, 4].map(object));
    assert_eq!(keys(&range(Some("2026-02-02"), Some("2026-02-03")), true), [object(3)]);
    assert_eq!(keys(&range(Some("2026-02-02"), Some("2026-02-03")), false), [2, 3].map(object));
    let corrected = MODEL.replace("generation = 1", "generation = 2");
    let corrected = Model::parse(&corrected, "library.toml").unwrap();
    let all = block_on(archive_objects(&bucket, &corrected, &range(None, None), true)).unwrap();
    assert_eq!(all.len(), 4, "a corrected model has exported nothing yet");
}
