//! Compactors that die at any request, and concurrent compactors and exporters: every version of both tables is right, and no file is
//! removed that a version within the retention has.

use std::sync::Mutex;

use serde_json::Value;

use super::super::temporary::{WorkFolder, remove_abandoned_folders};
use super::watched::{BucketCheck, WatchedBucket};
use super::*;

/// The hours at which compactors run: the last ones remove what was superseded, and what was left by dead compactors.
const RUNS: [u32; 5] = [0, 1, 2, 7, 26];

/// The exports: the version of the log, and the rows.
type Exports = Mutex<Vec<(u64, Vec<AttemptRow>)>>;

/// The observed history of a bucket.
#[derive(Default)]
struct ObservedHistory {
    now: Mutex<Option<Timestamp>>,
    exports: Exports,
    /// When each file left its table.
    superseded: Mutex<BTreeMap<String, Timestamp>>,
    commits: Mutex<usize>,
}

impl ObservedHistory {
    fn now(&self) -> Timestamp {
        self.now.lock().unwrap().unwrap()
    }

    /// The rows that the log had at a version.
    fn rows_at(&self, version: i64) -> BTreeSet<AttemptRow> {
        let exports = self.exports.lock().unwrap();
        let until = exports.iter().filter(|(exported, _)| i64::try_from(*exported).unwrap() <= version);
        until.flat_map(|(_, rows)| rows.clone()).collect()
    }
}

/// A table by the protocol's text, from its commits alone: the active paths, the recorded versions, and the removed paths.
#[derive(Default)]
struct ReplayedTable {
    paths: BTreeSet<String>,
    transactions: BTreeMap<String, i64>,
    removed: BTreeSet<String>,
}

fn replay(objects: &BTreeMap<String, Vec<u8>>, root: &str) -> ReplayedTable {
    let mut table = ReplayedTable::default();
    for version in 0.. {
        let Some(commit) = objects.get(&format!("{root}_delta_log/{version:020}.json")) else { break };
        for line in commit.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            let line: Value = serde_json::from_slice(line).unwrap();
            if let Some(path) = line["remove"]["path"].as_str() {
                assert!(table.paths.remove(path), "{path} was not in the table");
                table.removed.insert(format!("{root}{path}"));
            }
            if let Some(path) = line["add"]["path"].as_str() {
                assert!(table.paths.insert(path.to_owned()), "{path} is added twice");
            }
            if let Some(application) = line["txn"]["appId"].as_str() {
                let version = line["txn"]["version"].as_i64().unwrap();
                let before = table.transactions.insert(application.to_owned(), version);
                assert!(before.is_none_or(|before| before < version), "{application} goes back");
            }
        }
    }
    table
}

const LOG: &str = "datasets/attempts_log/";
const CURRENT: &str = "datasets/attempts/";

/// Checks both tables at every request.
fn check_tables(history: &Arc<ObservedHistory>) -> Arc<BucketCheck> {
    let history = Arc::clone(history);
    Arc::new(move |bucket, removed| {
        let objects = bucket.objects();
        let commits = objects.keys().filter(|key| key.contains("_delta_log")).count();
        let is_unchanged = std::mem::replace(&mut *history.commits.lock().unwrap(), commits) == commits;
        if is_unchanged && removed.is_empty() {
            return;
        }
        let (log, current) = (replay(&objects, LOG), replay(&objects, CURRENT));
        let now = history.now();
        let mut superseded = history.superseded.lock().unwrap();
        for key in log.removed.iter().chain(&current.removed) {
            superseded.entry(key.clone()).or_insert(now);
        }
        for key in removed.iter().filter(|key| !key.contains("_delta_log")) {
            let since = superseded.get(key);
            let is_orphan = since.is_none() && !log.paths.iter().any(|path| key.ends_with(path));
            let may_go = since.is_some_and(|since| now.since(*since) >= RETAINED) || is_orphan;
            assert!(may_go, "{key} was removed too early");
        }
        let rows = |root: &str, table: &ReplayedTable| -> Vec<AttemptRow> {
            table
                .paths
                .iter()
                .flat_map(|path| rows_of_file(objects[&format!("{root}{path}")].clone()))
                .collect()
        };
        let logged: BTreeSet<AttemptRow> = rows(LOG, &log).into_iter().collect();
        // A commit may have taken effect whose exporter does not know it yet.
        assert!(logged.is_superset(&history.rows_at(i64::MAX)), "a row is lost");
        if let Some(version) = current.transactions.get(&format!("log/dt={DAY}")) {
            let mut found = rows(CURRENT, &current);
            found.sort();
            assert_eq!(
                found,
                expected_current(&history.rows_at(*version)),
                "at version {version} of the log"
            );
        }
    })
}

fn at_hour(bucket: &MemoryObjects, history: &ObservedHistory, hour: u32) -> Timestamp {
    let now = NOW.plus(HOUR * hour);
    bucket.set_clock(now);
    *history.now.lock().unwrap() = Some(now);
    now
}

fn export_at(
    bucket: &Arc<MemoryObjects>,
    history: &ObservedHistory,
    model: &Model,
    name: u64,
    rows: Vec<AttemptRow>,
) {
    let version = export(bucket, model, DAY, name, &rows);
    history.exports.lock().unwrap().push((version, rows));
}

/// Rows of the first hours: new ones, late ones, and duplicates of removed items.
fn exported_at_hour(bucket: &Arc<MemoryObjects>, observed: &ObservedHistory, model: &Model, hour: u32) {
    let mut random = SeededRandom::new(u64::from(hour) + 3);
    for (number, rows) in (0..).zip(history(&mut random, 6, 2)) {
        if hour < 8 && !rows.is_empty() {
            export_at(bucket, observed, model, u64::from(hour) * 10 + number, rows);
        }
    }
}

/// The current table is derived from everything, and nothing superseded is left.
fn settle(model: &Arc<Model>, bucket: &Arc<MemoryObjects>, observed: &ObservedHistory) {
    for days in 2..5 {
        compact(model, bucket, options(), NOW.plus(HOUR * 24 * days));
    }
    assert_eq!(current_rows(bucket), expected_current(&observed.rows_at(i64::MAX)));
    for table in [log(bucket), current(bucket)] {
        let files =
            bucket.objects().into_keys().filter(|key| key.starts_with(&format!("{}dt", table.root())));
        assert_eq!(files.count(), super::files(&table).len(), "the files of no version are gone");
    }
}

/// Compacts every few hours; one request fails, and with it its compaction. Returns whether there was such a request.
fn compact_with_fault(fails_at: Option<(usize, bool)>) -> bool {
    let model = plain();
    let bucket = bucket(&model, &[]);
    let history = Arc::new(ObservedHistory::default());
    let check = check_tables(&history);
    let options = CompactionOptions { target_file_bytes: 6_000, memory_bytes: 40_000, ..options() };
    let mut requests = 0;
    for hour in RUNS {
        let now = at_hour(&bucket, &history, hour);
        exported_at_hour(&bucket, &history, &model, hour);
        let fails_at =
            fails_at.and_then(|(at, takes_effect)| Some((at.checked_sub(requests)?, takes_effect)));
        let watched = Arc::new(WatchedBucket::new(&bucket, fails_at, None, &check));
        let compactor = compactor(&model, Arc::clone(&watched), options.clone(), now);
        let compacted = block_on(compactor.compact(None, None));
        let has_failed = fails_at.is_some_and(|(at, _)| at < watched.operations());
        // A checkpoint or a clean-up may fail without consequences; everything else fails the compaction.
        assert!(compacted.is_ok() || has_failed, "{compacted:?}");
        requests += watched.operations();
    }
    settle(&model, &bucket, &history);
    fails_at.is_none_or(|(at, _)| at < requests)
}

#[test]
fn a_compactor_may_die_at_any_moment() {
    for takes_effect in [false, true] {
        let failed = (0..).take_while(|at| compact_with_fault(Some((*at, takes_effect)))).count();
        assert!(failed > 60, "only {failed} requests could fail");
    }
}

#[test]
fn concurrent_compactors_and_exporters_leave_nothing_wrong() {
    let mut overtaken = 0;
    for seed in 0..60 {
        let model = plain();
        let mut random = SeededRandom::new(seed);
        let bucket = bucket(&model, &[]);
        let history = Arc::new(ObservedHistory::default());
        let check = check_tables(&history);
        for hour in RUNS {
            let now = at_hour(&bucket, &history, hour);
            exported_at_hour(&bucket, &history, &model, hour);
            let compactor = |seed, fails_at| {
                let bucket = WatchedBucket::new(&bucket, fails_at, Some(SeededRandom::new(seed)), &check);
                let options = CompactionOptions { target_file_bytes: 6_000, ..options() };
                compactor(&model, bucket, options, now)
            };
            // One of them may die.
            let fails_at = (random.below(2) == 0).then(|| (usize::try_from(random.below(40)).unwrap(), true));
            let (one, other) =
                (compactor(random.below(1 << 40), None), compactor(random.below(1 << 40), fails_at));
            let (one, _) =
                block_on(async { futures::join!(one.compact(None, None), other.compact(None, None)) });
            overtaken += one.unwrap().overtaken;
        }
        settle(&model, &bucket, &history);
    }
    assert!(overtaken > 20, "{overtaken}");
}

#[test]
fn a_compactor_whose_inputs_another_packed_does_not_commit() {
    let model = plain();
    let bucket = bucket(&model, &history(&mut SeededRandom::new(7), 80, 4));
    let rows = distinct(&bucket);
    let slow = std::sync::atomic::AtomicBool::new(true);
    let (other, inner) = (Arc::clone(&model), Arc::clone(&bucket));
    // As soon as this compactor has written a file, the other does all its work.
    let check = move |objects: &MemoryObjects, _: &[String]| {
        let has_written = objects.objects().keys().any(|key| key.contains("/packed-"));
        if !has_written || !slow.swap(false, std::sync::atomic::Ordering::Relaxed) {
            return;
        }
        let overtake = || {
            export(&inner, &other, DAY, 50, &[row(1, 1, 100, "INSERT")]);
            compact(&other, &inner, options(), NOW);
        };
        std::thread::scope(|scope| scope.spawn(overtake).join()).unwrap();
    };
    let check: Arc<BucketCheck> = Arc::new(check);
    let watched = Arc::new(WatchedBucket::new(&bucket, None, None, &check));
    let slow_compactor = compactor(&model, Arc::clone(&watched), options(), NOW);
    let totals = block_on(slow_compactor.compact(None, None)).unwrap();
    assert_eq!(
        (totals.overtaken, totals.files_out),
        (2, 1),
        "neither its packing nor its derivation is newer"
    );
    assert_eq!(
        distinct(&bucket).len(),
        rows.iter().chain([&row(1, 1, 100, "INSERT")]).collect::<BTreeSet<_>>().len()
    );
    assert_eq!(files(&log(&bucket)).len(), 1);
}

#[test]
fn files_that_waited_too_long_are_not_committed() {
    let model = plain();
    for (step, overtaken) in [(crate::delta::ORPHAN_AGE / 100, 0), (crate::delta::ORPHAN_AGE / 2, 2)] {
        let bucket = bucket(&model, &[vec![row(1, 1, 1, "INSERT")], vec![row(1, 2, 1, "INSERT")]]);
        let clock = SteppingClock { now: std::sync::atomic::AtomicI64::new(NOW.epoch_ms()), step };
        let compactor = DatasetCompactor::new(Arc::clone(&model), Arc::clone(&bucket), options(), clock);
        let totals = block_on(compactor.compact(None, Some(DAY))).unwrap();
        assert_eq!((totals.files_out, totals.overtaken), (1, overtaken));
    }
}

/// A clock that advances by a step after each reading.
struct SteppingClock {
    now: std::sync::atomic::AtomicI64,
    step: Duration,
}

impl Clock for SteppingClock {
    fn now(&self) -> Timestamp {
        let step_ms = i64::try_from(self.step.as_millis()).unwrap();
        Timestamp::from_epoch_ms(self.now.fetch_add(step_ms, std::sync::atomic::Ordering::Relaxed))
    }

    async fn sleep(&self, _: Duration) {}

    async fn until(&self, _: Timestamp) {
        std::future::pending().await
    }

    fn permille(&self) -> u32 {
        0
    }
}

#[test]
fn the_files_of_a_killed_process_are_removed_and_those_of_a_living_one_stay() {
    // A folder of its own: in the system's folder, another process may be removing the abandoned folder at this moment.
    let parent = tempfile::tempdir().unwrap();
    let work_folder = || {
        remove_abandoned_folders(parent.path());
        WorkFolder::create_in(parent.path()).unwrap()
    };
    let abandoned = parent.path().join("afterwrite-compactor-of-a-killed-process");
    std::fs::create_dir(&abandoned).unwrap();
    std::fs::write(abandoned.join("lock"), "").unwrap();
    std::fs::write(abandoned.join("0"), "rows").unwrap();
    let living = work_folder();
    let file = living.new_file();
    drop(file.create().unwrap());
    let other = work_folder();
    assert!(!abandoned.exists() && file.path().exists());
    let folder = file.path().parent().unwrap().to_owned();
    drop((file, living, other));
    assert!(!folder.exists());
}
