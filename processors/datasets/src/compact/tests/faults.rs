//! Whoever dies when, and whoever else compacts meanwhile: every row lies in some file, and no file goes before its time.

use std::sync::Mutex;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use afterwrite::commit::{Clock as _, SystemClock};
use afterwrite::sink::ObjectStore as _;

use super::super::manifest::Manifest;
use super::super::run::Run;
use super::watched::{Check, Watched};
use super::*;

/// The hours at which compactors run.
const HOURS: u32 = 5;

/// The bucket's time, when each file was first superseded, and when each run began.
#[derive(Default)]
struct Known {
    now: Option<Timestamp>,
    superseded: BTreeMap<String, Timestamp>,
    begun: BTreeMap<String, Timestamp>,
}

/// At any moment every row lies in some file, and what is removed was superseded a grace period ago, or its run is long dead.
fn nothing_is_lost(rows: BTreeSet<Row>, known: &Arc<Mutex<Known>>) -> Arc<Check> {
    let known = Arc::clone(known);
    // Reading all files takes long; nothing changes while files stay.
    let seen = Mutex::new(Vec::new());
    Arc::new(move |bucket, removed| {
        let mut known = known.lock().unwrap();
        let now = known.now.unwrap();
        for (key, object) in bucket.objects().iter().filter(|(key, _)| key.starts_with("compactions/")) {
            if let Some((_, run)) = key.strip_suffix(".begun").and_then(|key| key.rsplit_once('/')) {
                known.begun.entry(run.to_owned()).or_insert(now);
                continue;
            }
            for input in serde_json::from_slice::<Manifest>(object).unwrap().inputs {
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

fn at_hour(bucket: &MemoryObjects, known: &Mutex<Known>, hour: u32) -> Timestamp {
    let now = NOW.plus(GRACE * hour);
    bucket.set_clock(now);
    known.lock().unwrap().now = Some(now);
    now
}

fn late(model: &Model, bucket: &MemoryObjects, hour: u32) {
    if hour == 2 {
        put(bucket, &exported(model, DAY, 100), parquet(model, &[row(1, 1, 100, "INSERT")]));
    }
}

/// Compacts every hour; an operation breaks, and with it the compaction that makes it. Says whether there was one to break.
fn compacts_although(breaks_at: Option<(usize, bool)>) -> bool {
    let model = plain();
    let bucket = bucket(&model, &history(&mut Random::new(5), 60, 4));
    put(&bucket, &exported(&model, DAY, 99), parquet(&model, &[row(1, 1, 100, "INSERT")]));
    let rows = distinct(&bucket);
    let known = Arc::default();
    let check = nothing_is_lost(rows.clone(), &known);
    let options = Options { small: 12_000, target: 6_000, memory: 40_000, ..options() };
    let mut operations = 0;
    for hour in 0..HOURS {
        late(&model, &bucket, hour);
        let now = at_hour(&bucket, &known, hour);
        let breaks_at =
            breaks_at.and_then(|(at, takes_effect)| Some((at.checked_sub(operations)?, takes_effect)));
        let watched = Arc::new(Watched::new(&bucket, breaks_at, None, &check));
        let compactor = Compactor::new(Arc::clone(&model), Arc::clone(&watched), options.clone());
        let compacted = block_on(compactor.compact(None, None, now));
        let is_broken = breaks_at.is_some_and(|(at, _)| at < watched.operations());
        assert_eq!(compacted.is_err(), is_broken, "{compacted:?}");
        operations += watched.operations();
    }
    settle(&model, &bucket, &rows);
    breaks_at.is_none_or(|(at, _)| at < operations)
}

/// Once nothing breaks any more, one file is left, no manifest, and no mark of a dead run.
fn settle(model: &Arc<Model>, bucket: &Arc<MemoryObjects>, rows: &BTreeSet<Row>) {
    for hour in HOURS..HOURS + 9 {
        compact(model, bucket, options(), NOW.plus(GRACE * hour));
    }
    assert_eq!((files(bucket).len(), keys(bucket, "compactions/").len()), (1, 0));
    assert_eq!(distinct(bucket), *rows);
}

#[test]
fn a_compactor_may_die_at_any_moment() {
    for takes_effect in [false, true] {
        let broken = (0..).take_while(|at| compacts_although(Some((*at, takes_effect)))).count();
        assert!(broken > 30, "only {broken} operations could break");
    }
}

/// How many rows lie in all files together.
fn rows_there(bucket: &MemoryObjects) -> usize {
    let objects = bucket.objects().into_iter().filter(|(key, _)| key.starts_with("datasets/"));
    objects.map(|(_, file)| rows_of_file(file).len()).sum()
}

/// One compaction breaks, which leaves files that are too large to be compacted again. Says whether there was an operation to break.
fn leaves_nothing(breaks_at: (usize, bool)) -> bool {
    let model = plain();
    let bucket = bucket(&model, &history(&mut Random::new(7), 80, 4));
    let rows = distinct(&bucket);
    let known = Arc::default();
    let check = nothing_is_lost(rows.clone(), &known);
    let options = Options { small: 6_000, target: 12_000, memory: 40_000, ..options() };
    let compact = |hour, breaks_at| {
        let now = at_hour(&bucket, &known, hour);
        let watched = Arc::new(Watched::new(&bucket, breaks_at, None, &check));
        let compactor = Compactor::new(Arc::clone(&model), Arc::clone(&watched), options.clone());
        (block_on(compactor.compact(None, None, now)), watched.operations())
    };
    let (_, operations) = compact(0, Some(breaks_at));
    for hour in 1..7 {
        compact(hour, None).0.unwrap();
    }
    assert_eq!(rows_there(&bucket), rows.len(), "every row lies in one file: {:?}", files(&bucket));
    assert!(keys(&bucket, "compactions/").is_empty());
    breaks_at.0 < operations
}

#[test]
fn what_a_dead_compactor_has_left_is_removed() {
    for takes_effect in [false, true] {
        let broken = (0..).take_while(|at| leaves_nothing((*at, takes_effect))).count();
        assert!(broken > 12, "only {broken} operations could break");
    }
}

#[test]
fn compactors_do_each_other_no_harm() {
    let model = plain();
    let mut overtaken = 0;
    for seed in 0..60 {
        let mut random = Random::new(seed);
        let bucket = bucket(&model, &history(&mut random, 40, 3));
        let rows = distinct(&bucket);
        let known = Arc::default();
        let check = nothing_is_lost(rows.clone(), &known);
        for hour in 0..HOURS {
            let now = at_hour(&bucket, &known, hour);
            let compactor = |seed, breaks_at| {
                let watched = Watched::new(&bucket, breaks_at, Some(Random::new(seed)), &check);
                Compactor::new(
                    Arc::clone(&model),
                    watched,
                    Options { small: 20_000, target: 6_000, ..options() },
                )
            };
            // One of them may die, too.
            let breaks_at =
                (random.below(2) == 0).then(|| (usize::try_from(random.below(25)).unwrap(), true));
            let (one, other) =
                (compactor(random.below(1 << 40), None), compactor(random.below(1 << 40), breaks_at));
            let (one, _) = block_on(async {
                futures::join!(one.compact(None, None, now), other.compact(None, None, now))
            });
            overtaken += one.unwrap().overtaken;
        }
        settle(&model, &bucket, &rows);
    }
    assert!(overtaken > 20, "{overtaken}");
}

#[test]
fn a_late_run_does_not_commit() {
    let model = plain();
    let partition = Partition { dataset: dataset(&model), day: DAY.to_owned() };
    let key = format!("compactions/attempts/dt={DAY}/00000000-0000-4000-8000-000000000000.begun");
    let is_late = |ago| {
        let modified = Timestamp::from_epoch_ms(SystemClock.now().epoch_ms() - i64::try_from(ago).unwrap());
        Run::of_mark(&partition, &ListedObject { key: key.clone(), size: 0, modified }).unwrap().is_late()
    };
    let half = (ABANDONED_AFTER / 2).as_millis();
    assert_eq!([half - 60_000, half].map(is_late), [false, true]);
}

/// What another compactor has done to our inputs since we read them.
#[test]
fn who_is_overtaken_does_not_commit() {
    let model = plain();
    let options = Options { small: 6_000, target: 12_000, ..options() };
    for is_swept in [false, true] {
        let bucket = bucket(&model, &history(&mut Random::new(7), 80, 4));
        let rows = distinct(&bucket);
        let slow = AtomicBool::new(true);
        let known = Arc::default();
        at_hour(&bucket, &known, 0);
        let (other, inner) = (Arc::clone(&model), Arc::clone(&bucket));
        let other_options = options.clone();
        // As soon as we have begun to write, the other does all its work.
        let check = move |objects: &MemoryObjects, _: &[String]| {
            if !files(objects).iter().any(|key| Partition::is_compacted(key)) || !slow.swap(false, Relaxed) {
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
        let check: Arc<Check> = Arc::new(check);
        let watched = Arc::new(Watched::new(&bucket, None, None, &check));
        let compactor = Compactor::new(Arc::clone(&model), Arc::clone(&watched), options.clone());
        assert_eq!(block_on(compactor.compact(None, None, NOW)).unwrap().overtaken, 1);
        for hour in 1..8 {
            compact(&model, &bucket, options.clone(), NOW.plus(GRACE * hour));
            assert_eq!(distinct(&bucket), rows);
        }
        assert_eq!(rows_there(&bucket), rows.len(), "every row lies in one file: {:?}", files(&bucket));
    }
}

#[test]
fn a_manifest_whose_outputs_are_gone_removes_nothing() {
    let model = plain();
    let bucket = bucket(&model, &history(&mut Random::new(6), 20, 3));
    let rows = distinct(&bucket);
    compact(&model, &bucket, options(), NOW);
    let outputs: Vec<String> =
        files(&bucket).into_iter().filter(|key| Partition::is_compacted(key)).collect();
    block_on(bucket.delete(&outputs)).unwrap();
    let swept = compact(&model, &bucket, options(), NOW.plus(GRACE));
    assert_eq!((swept.files_removed, swept.files_in), (0, 3), "they are compacted again");
    assert_eq!(distinct(&bucket), rows);
}

#[test]
fn a_file_that_is_exported_again_is_a_new_one() {
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
    assert!(bucket.objects().contains_key(&again), "whoever has listed it reads it");
}

#[test]
fn a_compaction_that_fails_before_all_is_written_leaves_nothing() {
    let model = plain();
    let bucket = bucket(&model, &[vec![row(1, 1, 1, "INSERT")], vec![row(1, 2, 1, "INSERT")]]);
    // The second file's footer is whole, its first page is not.
    let torn = exported(&model, DAY, 1);
    let mut file = bucket.objects()[&torn].to_vec();
    file[4..20].fill(0xff);
    put(&bucket, &torn, file);
    let before = bucket.objects();
    let compactor = Compactor::new(Arc::clone(&model), Arc::clone(&bucket), options());
    let error = block_on(compactor.compact(None, None, NOW)).unwrap_err();
    assert!(error.to_string().contains(&torn), "{error}");
    assert_eq!(bucket.objects(), before);
}

#[test]
fn one_partition_that_cannot_be_read_keeps_no_other_from_being_compacted() {
    let model = plain();
    let bucket = bucket(&model, &[vec![row(1, 1, 1, "INSERT")]]);
    let later = exported(&model, "2026-02-07", 1);
    put(&bucket, &later, parquet(&model, &[row(1, 2, 1, "INSERT")]));
    put(&bucket, &format!("compactions/attempts/dt={DAY}/torn.json"), b"{".to_vec());
    let compactor = Compactor::new(Arc::clone(&model), Arc::clone(&bucket), options());
    let error = block_on(compactor.compact(None, None, NOW)).unwrap_err();
    assert!(error.to_string().contains("torn.json"), "{error}");
    assert_eq!(files(&bucket).len(), 3, "the other day is compacted");
}
