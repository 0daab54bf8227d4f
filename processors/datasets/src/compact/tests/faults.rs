//! Compactors that die at any operation, and concurrent compactors: every row is in some file, and no file is removed too early.

use std::sync::Mutex;
use std::sync::atomic::AtomicBool;

use afterwrite::sink::ObjectStore as _;

use super::super::manifest::CompactionManifest;
use super::super::run::CompactionRun;
use super::watched::{BucketCheck, WatchedBucket};
use super::*;

/// The hours at which compactors run.
const HOURS: u32 = 5;

/// The bucket's time, and the times at which each file was first superseded and each run began.
#[derive(Default)]
struct ObservedTimes {
    now: Option<Timestamp>,
    superseded: BTreeMap<String, Timestamp>,
    begun: BTreeMap<String, Timestamp>,
}

/// At any moment every row is in some file, and a removed file was superseded a grace period ago, or its run is abandoned.
fn check_no_row_is_lost(rows: BTreeSet<AttemptRow>, known: &Arc<Mutex<ObservedTimes>>) -> Arc<BucketCheck> {
    let known = Arc::clone(known);
    // Reading all files is slow: read them only after the list of files has changed.
    let seen = Mutex::new(Vec::new());
    Arc::new(move |bucket, removed| {
        let mut known = known.lock().unwrap();
        let now = known.now.unwrap();
        for (key, object) in bucket.objects().iter().filter(|(key, _)| key.starts_with("compactions/")) {
            if let Some((_, run)) = key.strip_suffix(".begun").and_then(|key| key.rsplit_once('/')) {
                known.begun.entry(run.to_owned()).or_insert(now);
                continue;
            }
            for input in serde_json::from_slice::<CompactionManifest>(object).unwrap().inputs {
                known.superseded.entry(input).or_insert(now);
            }
        }
        for key in removed.iter().filter(|key| key.starts_with("datasets/")) {
            let for_long = |since: &Timestamp, time| now.since(*since) >= time;
            let mut runs = known.begun.iter().filter(|(run, _)| key.contains(&***run));
            let may_go = known.superseded.get(key).is_some_and(|since| for_long(since, GRACE))
                || runs.any(|(_, begun)| for_long(begun, ABANDONED_AFTER));
            assert!(may_go, "{key} was removed too early");
        }
        let files = files(bucket);
        let mut seen = seen.lock().unwrap();
        if *seen != files {
            assert_eq!(distinct(bucket), rows);
            *seen = files;
        }
    })
}

fn at_hour(bucket: &MemoryObjects, known: &Mutex<ObservedTimes>, hour: u32) -> Timestamp {
    let now = NOW.plus(GRACE * hour);
    bucket.set_clock(now);
    known.lock().unwrap().now = Some(now);
    now
}

fn put_late_duplicate(model: &Model, bucket: &MemoryObjects, hour: u32) {
    if hour == 2 {
        put(bucket, &exported(model, DAY, 100), parquet(model, &[row(1, 1, 100, "INSERT")]));
    }
}

/// Compacts every hour; one operation fails, and with it its compaction. Returns whether there was such an operation.
fn compact_with_fault(fails_at: Option<(usize, bool)>) -> bool {
    let model = plain();
    let bucket = bucket(&model, &history(&mut SeededRandom::new(5), 60, 4));
    put(&bucket, &exported(&model, DAY, 99), parquet(&model, &[row(1, 1, 100, "INSERT")]));
    let rows = distinct(&bucket);
    let known = Arc::default();
    let check = check_no_row_is_lost(rows.clone(), &known);
    let options = CompactionOptions {
        small_file_bytes: 12_000,
        target_file_bytes: 6_000,
        memory_bytes: 40_000,
        ..options()
    };
    let mut operations = 0;
    for hour in 0..HOURS {
        put_late_duplicate(&model, &bucket, hour);
        let now = at_hour(&bucket, &known, hour);
        let fails_at =
            fails_at.and_then(|(at, takes_effect)| Some((at.checked_sub(operations)?, takes_effect)));
        let watched = Arc::new(WatchedBucket::new(&bucket, fails_at, None, &check));
        let compactor = compactor(&model, Arc::clone(&watched), options.clone(), now);
        let compacted = block_on(compactor.compact(None, None));
        let has_failed = fails_at.is_some_and(|(at, _)| at < watched.operations());
        assert_eq!(compacted.is_err(), has_failed, "{compacted:?}");
        operations += watched.operations();
    }
    settle(&model, &bucket, &rows);
    fails_at.is_none_or(|(at, _)| at < operations)
}

/// Without faults, one file is left, no manifest, and no mark.
fn settle(model: &Arc<Model>, bucket: &Arc<MemoryObjects>, rows: &BTreeSet<AttemptRow>) {
    for hour in HOURS..HOURS + 9 {
        compact(model, bucket, options(), NOW.plus(GRACE * hour));
    }
    assert_eq!((files(bucket).len(), keys(bucket, "compactions/").len()), (1, 0));
    assert_eq!(distinct(bucket), *rows);
}

#[test]
fn a_compactor_may_die_at_any_moment() {
    for takes_effect in [false, true] {
        let failed = (0..).take_while(|at| compact_with_fault(Some((*at, takes_effect)))).count();
        assert!(failed > 30, "only {failed} operations could fail");
    }
}

/// The number of rows in all files, duplicates included.
fn row_count(bucket: &MemoryObjects) -> usize {
    let objects = bucket.objects().into_iter().filter(|(key, _)| key.starts_with("datasets/"));
    objects.map(|(_, file)| rows_of_file(file).len()).sum()
}

/// One operation of a compaction fails, which leaves files that are too large to be compacted again. They are removed. Returns
/// whether there was such an operation.
fn remove_after_fault(fails_at: (usize, bool)) -> bool {
    let model = plain();
    let bucket = bucket(&model, &history(&mut SeededRandom::new(7), 80, 4));
    let rows = distinct(&bucket);
    let known = Arc::default();
    let check = check_no_row_is_lost(rows.clone(), &known);
    let options = CompactionOptions {
        small_file_bytes: 6_000,
        target_file_bytes: 12_000,
        memory_bytes: 40_000,
        ..options()
    };
    let compact = |hour, fails_at| {
        let now = at_hour(&bucket, &known, hour);
        let watched = Arc::new(WatchedBucket::new(&bucket, fails_at, None, &check));
        let compactor = compactor(&model, Arc::clone(&watched), options.clone(), now);
        (block_on(compactor.compact(None, None)), watched.operations())
    };
    let (_, operations) = compact(0, Some(fails_at));
    for hour in 1..7 {
        compact(hour, None).0.unwrap();
    }
    assert_eq!(row_count(&bucket), rows.len(), "every row is in one file: {:?}", files(&bucket));
    assert!(keys(&bucket, "compactions/").is_empty());
    fails_at.0 < operations
}

#[test]
fn the_files_of_a_dead_compactor_are_removed() {
    for takes_effect in [false, true] {
        let failed = (0..).take_while(|at| remove_after_fault((*at, takes_effect))).count();
        assert!(failed > 12, "only {failed} operations could fail");
    }
}

#[test]
fn concurrent_compactors_lose_no_row() {
    let model = plain();
    let mut overtaken = 0;
    for seed in 0..60 {
        let mut random = SeededRandom::new(seed);
        let bucket = bucket(&model, &history(&mut random, 40, 3));
        let rows = distinct(&bucket);
        let known = Arc::default();
        let check = check_no_row_is_lost(rows.clone(), &known);
        for hour in 0..HOURS {
            let now = at_hour(&bucket, &known, hour);
            let compactor = |seed, fails_at| {
                let bucket = WatchedBucket::new(&bucket, fails_at, Some(SeededRandom::new(seed)), &check);
                let options =
                    CompactionOptions { small_file_bytes: 20_000, target_file_bytes: 6_000, ..options() };
                compactor(&model, bucket, options, now)
            };
            // One of them may die.
            let fails_at = (random.below(2) == 0).then(|| (usize::try_from(random.below(25)).unwrap(), true));
            let (one, other) =
                (compactor(random.below(1 << 40), None), compactor(random.below(1 << 40), fails_at));
            let (one, _) =
                block_on(async { futures::join!(one.compact(None, None), other.compact(None, None)) });
            overtaken += one.unwrap().overtaken;
        }
        settle(&model, &bucket, &rows);
    }
    assert!(overtaken > 20, "{overtaken}");
}

#[test]
fn a_late_run_does_not_commit() {
    let model = plain();
    let partition = DatasetPartition { dataset: dataset(&model), day: DAY.to_owned() };
    let key = format!("compactions/attempts/dt={DAY}/00000000-0000-4000-8000-000000000000.begun");
    let mark = ListedObject { key, size: 0, modified: NOW };
    let run = CompactionRun::from_mark(&partition, &mark).unwrap();
    let half = ABANDONED_AFTER / 2;
    assert_eq!([half - Duration::from_millis(1), half].map(|age| run.is_late(NOW.plus(age))), [false, true]);
}

#[test]
fn a_compaction_that_takes_too_long_does_not_commit() {
    let model = plain();
    let half = ABANDONED_AFTER / 2;
    for (step, overtaken) in [(half - Duration::from_millis(1), 0), (half, 1)] {
        let bucket = bucket(&model, &[vec![row(1, 1, 1, "INSERT")], vec![row(1, 2, 1, "INSERT")]]);
        let clock = SteppingClock { now: AtomicI64::new(NOW.epoch_ms()), step };
        let compactor = DatasetCompactor::new(Arc::clone(&model), Arc::clone(&bucket), options(), clock);
        let totals = block_on(compactor.compact(None, None)).unwrap();
        assert_eq!((totals.files_out, totals.overtaken), (1, overtaken));
        let manifests = keys(&bucket, "compactions/").into_iter().filter(|key| key.ends_with(".json"));
        assert_eq!(manifests.count(), usize::from(overtaken == 0));
    }
}

#[test]
fn a_compactor_whose_inputs_another_superseded_does_not_commit() {
    let model = plain();
    let options = CompactionOptions { small_file_bytes: 6_000, target_file_bytes: 12_000, ..options() };
    for is_swept in [false, true] {
        let bucket = bucket(&model, &history(&mut SeededRandom::new(7), 80, 4));
        let rows = distinct(&bucket);
        let slow = AtomicBool::new(true);
        let known = Arc::default();
        at_hour(&bucket, &known, 0);
        let (other, inner) = (Arc::clone(&model), Arc::clone(&bucket));
        let other_options = options.clone();
        // As soon as this compactor has written a file, the other does all its work.
        let check = move |objects: &MemoryObjects, _: &[String]| {
            if !files(objects).iter().any(|key| is_compacted_file(key)) || !slow.swap(false, Relaxed) {
                return;
            }
            let overtake = || {
                put(&inner, &exported(&other, DAY, 50), parquet(&other, &[row(1, 1, 100, "INSERT")]));
                for hour in 0..=u32::from(is_swept) {
                    compact(&other, &inner, other_options.clone(), NOW.plus(GRACE * hour));
                }
            };
            std::thread::scope(|scope| scope.spawn(overtake).join()).unwrap();
        };
        let check: Arc<BucketCheck> = Arc::new(check);
        let watched = Arc::new(WatchedBucket::new(&bucket, None, None, &check));
        let slow_compactor = compactor(&model, Arc::clone(&watched), options.clone(), NOW);
        assert_eq!(block_on(slow_compactor.compact(None, None)).unwrap().overtaken, 1);
        for hour in 1..8 {
            compact(&model, &bucket, options.clone(), NOW.plus(GRACE * hour));
            assert_eq!(distinct(&bucket), rows);
        }
        assert_eq!(row_count(&bucket), rows.len(), "every row is in one file: {:?}", files(&bucket));
    }
}

#[test]
fn a_manifest_whose_outputs_are_gone_removes_nothing() {
    let model = plain();
    let bucket = bucket(&model, &history(&mut SeededRandom::new(6), 20, 3));
    let rows = distinct(&bucket);
    compact(&model, &bucket, options(), NOW);
    let outputs: Vec<String> = files(&bucket).into_iter().filter(|key| is_compacted_file(key)).collect();
    block_on(bucket.delete(&outputs)).unwrap();
    let swept = compact(&model, &bucket, options(), NOW.plus(GRACE));
    assert_eq!((swept.files_removed, swept.files_in), (0, 3), "they are compacted again");
    assert_eq!(distinct(&bucket), rows);
}

#[test]
fn a_file_that_is_exported_again_is_not_superseded() {
    let model = plain();
    let bucket = bucket(&model, &[vec![row(1, 1, 1, "INSERT")], vec![row(1, 2, 1, "INSERT")]]);
    let again = exported(&model, DAY, 0);
    compact(&model, &bucket, options(), NOW);
    // As if the sweeper had died between the files and the manifest.
    block_on(bucket.delete(std::slice::from_ref(&again))).unwrap();
    let now = NOW.plus(GRACE);
    bucket.set_clock(now);
    block_on(bucket.put(&again, parquet(&model, &[row(1, 1, 1, "INSERT")]))).unwrap();
    let compacted = compact(&model, &bucket, options(), now);
    assert_eq!((compacted.files_removed, compacted.files_in), (1, 2));
    assert!(bucket.objects().contains_key(&again), "a query that has listed it can read it");
}

#[test]
fn a_compaction_that_fails_before_its_files_are_complete_leaves_nothing() {
    let model = plain();
    let bucket = bucket(&model, &[vec![row(1, 1, 1, "INSERT")], vec![row(1, 2, 1, "INSERT")]]);
    // The second file's footer is valid, its first page is not.
    let torn = exported(&model, DAY, 1);
    let mut file = bucket.objects()[&torn].to_vec();
    file[4..20].fill(0xff);
    put(&bucket, &torn, file);
    let before = bucket.objects();
    let compactor = compactor(&model, Arc::clone(&bucket), options(), NOW);
    let error = block_on(compactor.compact(None, None)).unwrap_err();
    assert!(error.to_string().contains(&torn), "{error}");
    assert_eq!(bucket.objects(), before);
}

#[test]
fn other_partitions_are_compacted_if_one_cannot_be_read() {
    let model = plain();
    let bucket = bucket(&model, &[vec![row(1, 1, 1, "INSERT")]]);
    let later = exported(&model, "2026-02-07", 1);
    put(&bucket, &later, parquet(&model, &[row(1, 2, 1, "INSERT")]));
    put(&bucket, &format!("compactions/attempts/dt={DAY}/torn.json"), b"{".to_vec());
    let compactor = compactor(&model, Arc::clone(&bucket), options(), NOW);
    let error = block_on(compactor.compact(None, None)).unwrap_err();
    assert!(error.to_string().contains("torn.json"), "{error}");
    assert_eq!(files(&bucket).len(), 3, "the other day is compacted");
}
