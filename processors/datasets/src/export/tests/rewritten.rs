//! Archive objects that are written again after their export.

use std::collections::BTreeSet;
use std::time::Duration;

use super::*;
use crate::delta::{TableChange, TableSnapshot};
use crate::export::missing::{ArchiveRange, archive_objects};

const KEY: &str = "archive/dt=2026-02-06/hh=14/a.gz";
const HOUR: Duration = Duration::from_secs(60 * 60);

/// The lines of this many books, on three days.
fn books(number: u64) -> String {
    (1..=number).map(|number| book(number, number % 3 + 1)).collect()
}

/// Writes this many books at a time; what follows is later.
fn written(bucket: &Arc<MemoryObjects>, at: Timestamp, number: u64) {
    bucket.set_clock(at);
    block_on(bucket.put(KEY, gzip(&books(number)))).unwrap();
    bucket.set_clock(at.plus(Duration::from_secs(1)));
}

fn missing(bucket: &Arc<MemoryObjects>) -> Vec<String> {
    let model = exporter(bucket).model;
    block_on(archive_objects(bucket, &model, &ArchiveRange::default(), true)).unwrap()
}

fn log(bucket: &Arc<MemoryObjects>) -> DeltaTable<Arc<MemoryObjects>> {
    DeltaTable::new(Arc::clone(bucket), "datasets/books_log/")
}

/// The number of files in the log, and of different rows in them.
fn logged(bucket: &Arc<MemoryObjects>) -> (usize, usize) {
    let snapshot = block_on(log(bucket).snapshot()).unwrap();
    let files =
        snapshot.files().map(|file| bucket.objects()[&file.object_key("datasets/books_log/")].clone());
    let rows: BTreeSet<String> = files.flat_map(rows_of).collect();
    (snapshot.files().count(), rows.len())
}

/// The files that an export writes, and those that it finds.
fn files(totals: Result<ExportTotals>) -> (usize, usize) {
    let totals = totals.unwrap();
    (totals.files, totals.existing_files)
}

/// Exports an object as version 0.1.0 did: its files are named by its key alone.
fn exported_formerly(bucket: &Arc<MemoryObjects>, text: &str) {
    block_on(async {
        bucket.put(KEY, gzip(text)).await.unwrap();
        let exporter = exporter(bucket);
        let (partitions, ..) = exporter.read(KEY).await.unwrap().0.finish().unwrap();
        let partitions = partitions.into_iter();
        let partitions = partitions.map(|part| ((part.dataset, part.day), part.writer)).collect();
        let files = exporter.upload_chunk(KEY, partitions, &mut ExportTotals::default()).await.unwrap();
        exporter.commit_chunk(&files, NOW.plus(HOUR)).await.unwrap();
    });
}

/// Takes all files out of the log, as a compaction does that has packed them; they stay in the bucket.
fn remove_from_log(bucket: &Arc<MemoryObjects>) {
    let remove = |snapshot: &TableSnapshot| {
        Ok(Some(TableChange {
            remove: snapshot.files().map(|file| file.path.clone()).collect(),
            ..TableChange::new("PACK", arrow_schema(&exporter(bucket).model.datasets[0]))
        }))
    };
    block_on(log(bucket).update(&FixedClock(NOW), NOW.plus(HOUR), remove)).unwrap();
}

#[test]
fn a_rewritten_object_is_missing_and_gets_new_files_for_every_day() {
    let bucket = Arc::new(MemoryObjects::default());
    let export = || files(block_on(export_one(&exporter(&bucket), KEY)));
    written(&bucket, NOW, 40);
    assert_eq!(export(), (3, 0));
    assert_eq!((missing(&bucket), logged(&bucket)), (vec![], (3, 40)));
    written(&bucket, NOW.plus(HOUR), 150);
    assert_eq!(missing(&bucket), [KEY]);
    assert_eq!(export(), (3, 0));
    assert_eq!((missing(&bucket), logged(&bucket)), (vec![], (6, 150)));
    assert_eq!(export(), (0, 3), "the second delivery of an event changes nothing");
    // The same content, written again.
    written(&bucket, NOW.plus(2 * HOUR), 150);
    assert_eq!(missing(&bucket), [KEY]);
    assert_eq!(export(), (0, 3));
    assert_eq!((missing(&bucket), logged(&bucket)), (vec![], (6, 150)));
}

#[test]
fn a2_an_object_that_is_rewritten_within_the_second_of_its_mark_is_missing() {
    let bucket = Arc::new(MemoryObjects::default());
    let export = || files(block_on(export_one(&exporter(&bucket), KEY)));
    written(&bucket, NOW, 40);
    assert_eq!(export(), (3, 0));
    block_on(bucket.put(KEY, gzip(&books(150)))).unwrap();
    assert_eq!(missing(&bucket), [KEY]);
    bucket.set_clock(NOW.plus(HOUR));
    assert_eq!(export(), (3, 0));
    assert_eq!((missing(&bucket), logged(&bucket)), (vec![], (6, 150)));
}

#[test]
fn a2_an_object_whose_mark_is_of_the_same_second_is_exported_once_more_and_changes_nothing() {
    let bucket = Arc::new(MemoryObjects::default());
    let export = || files(block_on(export_one(&exporter(&bucket), KEY)));
    bucket.set_clock(NOW);
    block_on(bucket.put(KEY, gzip(&books(40)))).unwrap();
    assert_eq!(export(), (3, 0));
    assert_eq!(missing(&bucket), [KEY]);
    bucket.set_clock(NOW.plus(HOUR));
    assert_eq!(export(), (0, 3));
    assert_eq!((missing(&bucket), logged(&bucket)), (vec![], (3, 40)));
}

#[test]
fn files_that_are_named_by_the_key_alone_are_of_an_object_that_is_not_newer() {
    let bucket = Arc::new(MemoryObjects::default());
    exported_formerly(&bucket, &books(40));
    let names: Vec<String> = parquet_of(&bucket, "datasets/").into_iter().map(|(key, _)| key).collect();
    let former = hex(&Sha256::digest(KEY), 16);
    assert!(names.len() == 3 && names.iter().all(|name| name.contains(&former)), "{names:?}");
    let export = || files(block_on(export_one(&exporter(&bucket), KEY)));
    assert_eq!(export(), (0, 3));
    assert_eq!(logged(&bucket), (3, 40));
    remove_from_log(&bucket);
    assert_eq!(export(), (0, 3), "the log remembers the files");
    assert_eq!(logged(&bucket), (0, 0));
    bucket.set_clock(NOW.plus(HOUR));
    block_on(bucket.put(KEY, gzip(&books(150)))).unwrap();
    assert_eq!(export(), (3, 0));
    assert_eq!(export(), (0, 3));
    assert_eq!(logged(&bucket), (3, 150));
}

#[test]
fn files_that_are_named_by_the_key_alone_lack_the_lines_that_an_object_got_since() {
    let bucket = Arc::new(MemoryObjects::default());
    exported_formerly(&bucket, &books(40));
    bucket.set_clock(NOW.plus(HOUR));
    block_on(bucket.put(KEY, gzip(&books(150)))).unwrap();
    let export = || files(block_on(export_one(&exporter(&bucket), KEY)));
    assert_eq!((export(), export()), ((3, 0), (0, 3)));
    assert_eq!(logged(&bucket), (6, 150));
}
