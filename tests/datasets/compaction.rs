//! A simulation of compaction during queries: DuckDB, with the checked-in SQL alone, never sees a difference.
//!
//! A seeded simulation exports changes (late ones, and duplicates, also of removed items), compacts (two compactors at once,
//! which may die at any request), and advances time by hours. Queries list files at one moment and open them by their keys later.
//! In every second simulation compaction keeps only the newest rows, so a late duplicate may be the only row of a removed item
//! except its removal.

use afterwrite_memory::MemoryObjects;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use afterwrite::record::Timestamp;
use afterwrite::sink::Bucket as _;
use afterwrite::table::{Model, RowHistory};
use afterwrite_datasets::compact::{ABANDONED_AFTER, CompactionOptions, CompactionTotals, DatasetCompactor};
use afterwrite_tests::clock::StillClock;
use afterwrite_tests::datasets::{export, gzip, rows_of};
use afterwrite_tests::duckdb::ViewServer;
use afterwrite_tests::random::SeededRandom;
use afterwrite_tests::unreliable_bucket::UnreliableBucket;
use futures::TryStreamExt as _;
use serde_json::{Value, json};

const SEEDS: u64 = 300;
const STEPS: usize = 14;
const ITEMS: u64 = 6;
const GRACE: Duration = Duration::from_secs(60 * 60);
const BEGIN: i64 = 1_770_000_000;

/// A row of the view: the partition, the id, the status and the score of an attempt.
type ViewRow = (String, String, String, Option<i64>);

/// The state of an attempt.
#[derive(Clone)]
struct AttemptState {
    day: u64,
    score: Option<u64>,
}

impl AttemptState {
    fn status(&self) -> &'static str {
        if self.score.is_some() { "COMPLETED" } else { "IN_PROGRESS" }
    }

    fn image(&self, id: u64) -> Value {
        let mut image = json!({
            "attempt_id": { "S": format!("t{id}") }, "candidate_id": { "S": "c1" }, "project_id": { "S": "p1" },
            "started_at": { "S": format!("2026-02-{:02}T10:00:00Z", self.day) }, "status": { "S": self.status() },
        });
        if let Some(score) = self.score {
            image["score"] = json!({ "N": score.to_string() });
        }
        image
    }

    fn view_row(&self, id: u64) -> ViewRow {
        let score = self.score.and_then(|score| i64::try_from(score).ok());
        (format!("2026-02-{:02}", self.day), format!("t{id}"), self.status().to_owned(), score)
    }
}

/// A change of an item: its archive line, and the item's row in the view if this is the newest change of the partition.
#[derive(Clone)]
struct AttemptChange {
    number: u64,
    id: u64,
    line: String,
    day: u64,
    row: Option<ViewRow>,
}

/// A query that has listed its files.
struct RunningQuery {
    listed: Timestamp,
    files: Vec<String>,
    /// Those of them that a manifest superseded then.
    superseded: BTreeSet<String>,
    expected: BTreeSet<ViewRow>,
}

/// Why a file that a query had listed is gone. A query that misses several files has the last of these causes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum MissingFileCause {
    /// The file had been superseded before, and its grace period ended while the query ran. A reader of a plain folder does not read
    /// manifests, so it cannot know.
    Superseded,
    /// The query ran for the grace period or longer.
    Outlasted,
    /// The file was left by a compactor that died, or was overtaken.
    Abandoned,
}

struct CompactionWorld {
    random: SeededRandom,
    model: Arc<Model>,
    history: RowHistory,
    bucket: Arc<MemoryObjects>,
    now: Timestamp,
    items: BTreeMap<u64, AttemptState>,
    changes: Vec<AttemptChange>,
    /// The newest exported change of each partition and item.
    newest: BTreeMap<(u64, u64), AttemptChange>,
    /// The numbers of all changes that were exported.
    exported: BTreeSet<u64>,
    objects: u64,
    /// When each file was superseded by a manifest, also of files that are gone.
    superseded: BTreeMap<String, Timestamp>,
    /// All files that have superseded others.
    committed: BTreeSet<String>,
    /// When each run began.
    begun: BTreeMap<String, Timestamp>,
    queries: Vec<RunningQuery>,
    coverage: SimulationCoverage,
}

/// The number of times that each event happened in all simulations. An event that never happens is not tested.
#[derive(Debug, Default)]
struct SimulationCoverage {
    queries: u64,
    late_queries: u64,
    /// Queries of files some of which were superseded while the query ran.
    queries_of_superseded: u64,
    lost_superseded: u64,
    lost_outlasted: u64,
    lost_abandoned: u64,
    compactions: u64,
    deaths: u64,
    overtaken: u64,
    removed: u64,
    outdated: u64,
    late_duplicates: u64,
    /// Late duplicates of removed items' rows that compaction had dropped.
    late_duplicates_of_dropped: u64,
}

impl SimulationCoverage {
    fn check(&self) {
        for (what, number) in [
            ("queries that ended out of order", self.late_queries),
            ("queries of files superseded meanwhile", self.queries_of_superseded),
            ("queries that missed superseded files", self.lost_superseded),
            ("queries that ran too long", self.lost_outlasted),
            ("queries that missed abandoned files", self.lost_abandoned),
            ("compactions", self.compactions),
            ("deaths", self.deaths),
            ("compactors overtaken", self.overtaken),
            ("files removed", self.removed),
            ("rows dropped", self.outdated),
            ("late duplicates of removed items", self.late_duplicates),
            ("late duplicates of rows that were dropped", self.late_duplicates_of_dropped),
        ] {
            assert!(number > 0, "there were no {what}");
        }
        let lost = self.lost_superseded + self.lost_outlasted + self.lost_abandoned;
        assert!(lost * 5 < self.queries, "{lost} queries failed, and {} succeeded", self.queries);
    }
}

fn options() -> CompactionOptions {
    CompactionOptions {
        small_file_bytes: 16 * 1024,
        target_file_bytes: 32 * 1024,
        memory_bytes: 64 * 1024,
        grace_period: GRACE,
        ..CompactionOptions::default()
    }
}

/// The built-in model, with this history of attempts.
fn model(history: RowHistory) -> Model {
    let source = Model::built_in("exambuddy").unwrap();
    let dataset = "[datasets.attempts]\n";
    let source = match history {
        RowHistory::All => source.to_owned(),
        RowHistory::Newest => source.replace(dataset, &format!("{dataset}history = \"newest\"\n")),
    };
    Model::parse(&source, "exambuddy.toml").unwrap_or_else(|errors| panic!("{errors}"))
}

impl CompactionWorld {
    fn new(seed: u64, coverage: SimulationCoverage) -> Self {
        let history = if seed.is_multiple_of(2) { RowHistory::All } else { RowHistory::Newest };
        let now = Timestamp::from_epoch_seconds(BEGIN);
        let bucket = Arc::new(MemoryObjects::default());
        bucket.set_clock(now);
        Self {
            random: SeededRandom::new(seed),
            model: Arc::new(model(history)),
            history,
            bucket,
            now,
            items: BTreeMap::new(),
            changes: Vec::new(),
            newest: BTreeMap::new(),
            exported: BTreeSet::new(),
            objects: 0,
            superseded: BTreeMap::new(),
            committed: BTreeSet::new(),
            begun: BTreeMap::new(),
            queries: Vec::new(),
            coverage,
        }
    }

    /// Changes an item as the application does, or deletes it as time to live does.
    fn change(&mut self) {
        let id = self.random.below(ITEMS);
        let old = self.items.get(&id).cloned();
        let (event, new) = match &old {
            None => ("INSERT", Some(AttemptState { day: 1 + self.random.below(3), score: None })),
            Some(old) if self.random.chance(700) => {
                ("MODIFY", Some(AttemptState { day: old.day, score: Some(self.random.below(100)) }))
            }
            Some(_) => ("REMOVE", None),
        };
        let expires = event == "REMOVE" && self.random.chance(400);
        let number = u64::try_from(self.changes.len()).unwrap() + 1;
        let image = |attempt: &Option<AttemptState>| attempt.as_ref().map(|attempt| attempt.image(id));
        let mut record = json!({
            "eventID": number.to_string(), "eventName": event,
            "eventSourceARN": "arn:aws:dynamodb:eu-west-1:1:table/ExamBuddyTable/stream/2026-01-01T00:00:00.000",
            "dynamodb": {
                "ApproximateCreationDateTime": self.now.epoch_seconds(),
                "Keys": { "PK": { "S": "CANDIDATE#c1" }, "SK": { "S": format!("ATTEMPT#t{id}") } },
                "NewImage": image(&new), "OldImage": image(&old), "SequenceNumber": format!("{}", 1000 + number),
            },
        });
        if expires {
            record["userIdentity"] = json!({ "type": "Service", "principalId": "dynamodb.amazonaws.com" });
        }
        let last = new.as_ref().or(old.as_ref()).unwrap();
        let row = if new.is_some() || expires { Some(last.view_row(id)) } else { None };
        let day = last.day;
        self.changes.push(AttemptChange { number, id, line: record.to_string(), day, row });
        match new {
            Some(new) => _ = self.items.insert(id, new),
            None => _ = self.items.remove(&id),
        }
    }

    /// Exports new and old changes, in any order, and some of them twice.
    async fn export(&mut self) {
        for _ in 0..=self.random.below(8) {
            self.change();
        }
        let all = u64::try_from(self.changes.len()).unwrap();
        let mut chosen: Vec<AttemptChange> = Vec::new();
        for _ in 0..=self.random.below(6) {
            let back = if self.random.chance(600) { 6 } else { all };
            let place = usize::try_from(all - 1 - self.random.below(back.min(all))).unwrap();
            chosen.push(self.changes[place].clone());
        }
        if self.random.chance(500) {
            chosen.extend(self.outdated_change());
        }
        for change in &chosen {
            let newest = self.newest.entry((change.day, change.id)).or_insert_with(|| change.clone());
            let is_late = newest.number > change.number && newest.row.is_none();
            if change.number > newest.number {
                *newest = change.clone();
            }
            if is_late {
                let was_dropped = self.exported.contains(&change.number) && !self.has_row(change);
                assert!(self.history == RowHistory::Newest || !was_dropped, "a row is lost: {}", change.line);
                self.coverage.late_duplicates += 1;
                self.coverage.late_duplicates_of_dropped += u64::from(was_dropped);
            }
        }
        self.exported.extend(chosen.iter().map(|change| change.number));
        let text: String = chosen.iter().map(|change| format!("{}\n", change.line)).collect();
        self.objects += 1;
        let key = format!("archive/dt=2026-02-01/hh=00/{:05}.gz", self.objects);
        export(&self.model, &self.bucket, &BTreeMap::from([(key, gzip(&text))])).await;
    }

    /// An exported change of an item that was removed later.
    fn outdated_change(&mut self) -> Option<AttemptChange> {
        let is_outdated = |change: &&AttemptChange| {
            let newest = self.newest.get(&(change.day, change.id));
            self.exported.contains(&change.number)
                && newest.is_some_and(|newest| newest.number > change.number && newest.row.is_none())
        };
        let outdated: Vec<&AttemptChange> = self.changes.iter().filter(is_outdated).collect();
        self.random.pick(&outdated).map(|change| (*change).clone())
    }

    /// Whether any file has the row of a change.
    fn has_row(&self, change: &AttemptChange) -> bool {
        let partition = format!("datasets/attempts/dt=2026-02-{:02}/", change.day);
        let position = format!("{:040}", 1000 + change.number);
        let files = self.bucket.objects().into_iter().filter(|(key, _)| key.starts_with(&partition));
        files.flat_map(|(_, file)| rows_of(file)).any(|row| row["_position"].ends_with(&position))
    }

    async fn compact(&mut self) {
        let compactor = |random: &mut SeededRandom| {
            let dies_at = if random.chance(400) { random.below(30) } else { u64::MAX };
            let bucket = UnreliableBucket::new(Arc::clone(&self.bucket), dies_at, random.chance(500));
            DatasetCompactor::new(Arc::clone(&self.model), bucket, options(), StillClock::at(self.now))
        };
        let (one, other) = (compactor(&mut self.random), compactor(&mut self.random));
        let outcomes = if self.random.chance(500) {
            let (one, other) =
                futures::join!(one.compact(Some("attempts"), None), other.compact(Some("attempts"), None));
            vec![one, other]
        } else {
            vec![one.compact(Some("attempts"), None).await]
        };
        for outcome in outcomes {
            self.coverage.compactions += 1;
            match outcome {
                Ok(totals) => self.count(totals),
                Err(_) => self.coverage.deaths += 1,
            }
        }
        self.read_manifests();
    }

    fn count(&mut self, totals: CompactionTotals) {
        self.coverage.overtaken += totals.overtaken;
        self.coverage.removed += totals.files_removed;
        self.coverage.outdated += totals.outdated;
        assert!(self.history == RowHistory::Newest || totals.outdated == 0, "{totals:?}");
    }

    fn read_manifests(&mut self) {
        let objects = self.bucket.objects();
        let mut superseded = BTreeSet::new();
        for (key, manifest) in &objects {
            let Some((_, name)) = key.strip_prefix("compactions/").and_then(|place| place.rsplit_once('/'))
            else {
                continue;
            };
            if let Some(run) = name.strip_suffix(".begun") {
                self.begun.entry(run.to_owned()).or_insert(self.now);
            } else {
                let manifest: Value = serde_json::from_slice(manifest).unwrap();
                let files = |which: &str| manifest[which].as_array().unwrap().clone();
                let name = |file: Value| file.as_str().unwrap().to_owned();
                superseded.extend(files("inputs").into_iter().map(name));
                self.committed.extend(files("outputs").into_iter().map(name));
            }
        }
        // An existing file that no manifest supersedes any more is needed again.
        self.superseded.retain(|file, _| superseded.contains(file) || !objects.contains_key(file));
        for file in superseded {
            self.superseded.entry(file).or_insert(self.now);
        }
    }

    async fn begin_query(&mut self) {
        let files = self.bucket.list("datasets/attempts/").await.unwrap();
        let files: Vec<String> = files.into_iter().map(|file| file.key).collect();
        let superseded = files.iter().filter(|file| self.superseded.contains_key(*file)).cloned().collect();
        let expected = self.newest.values().filter_map(|change| change.row.clone()).collect();
        self.queries.push(RunningQuery { listed: self.now, files, superseded, expected });
    }

    /// Why a file that a query has listed is gone. Any other cause is a failure.
    fn missing_file_cause(&self, key: &str, query: &RunningQuery) -> MissingFileCause {
        let ran = self.now.since(query.listed);
        let age = self.superseded.get(key).map(|since| self.now.since(*since));
        if age.is_some_and(|age| age >= GRACE) {
            let was_needed = !query.superseded.contains(key);
            assert!(ran >= GRACE || !was_needed, "{key} was needed {ran:?} ago, and is gone");
            return if ran >= GRACE { MissingFileCause::Outlasted } else { MissingFileCause::Superseded };
        }
        let run = self.begun.iter().find(|(run, _)| key.contains(&***run));
        let is_old = run.is_some_and(|(_, begun)| self.now.since(*begun) >= ABANDONED_AFTER);
        let is_abandoned = is_old && !self.committed.contains(key);
        assert!(is_abandoned, "{key} is gone, superseded {age:?} ago, listed {ran:?} ago");
        MissingFileCause::Abandoned
    }

    /// Opens the files that a query has listed, by their keys.
    async fn end_query(&mut self, query: RunningQuery, duckdb: &mut ViewServer) {
        let folder = tempfile::tempdir().unwrap();
        let mut missing = None;
        for key in &query.files {
            let Some(chunks) = self.bucket.get(key).await.unwrap() else {
                missing = missing.max(Some(self.missing_file_cause(key, &query)));
                continue;
            };
            let chunks: Vec<_> = chunks.try_collect().await.unwrap();
            let path = folder.path().join(key);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, chunks.concat()).unwrap();
        }
        match missing {
            Some(MissingFileCause::Superseded) => self.coverage.lost_superseded += 1,
            Some(MissingFileCause::Outlasted) => self.coverage.lost_outlasted += 1,
            Some(MissingFileCause::Abandoned) => self.coverage.lost_abandoned += 1,
            None => self.check_query(&query, folder.path(), duckdb),
        }
    }

    /// Runs a query on the files that it has opened, and checks its rows.
    fn check_query(&mut self, query: &RunningQuery, folder: &Path, duckdb: &mut ViewServer) {
        let rows = duckdb.rows(folder);
        let text = |row: &Value, name: &str| row[name].as_str().unwrap_or_default().to_owned();
        let view_row = |row: &Value| {
            (text(row, "dt"), text(row, "attempt_id"), text(row, "status"), row["score"].as_i64())
        };
        let found: BTreeSet<ViewRow> = rows.iter().map(view_row).collect();
        assert_eq!(found.len(), rows.len(), "the view has an item twice");
        assert_eq!(found, query.expected);
        let is_kept = |file: &String| self.superseded.contains_key(file) && !query.superseded.contains(file);
        self.coverage.queries += 1;
        self.coverage.queries_of_superseded += u64::from(query.files.iter().any(is_kept));
    }

    async fn step(&mut self, duckdb: &mut ViewServer) {
        match self.random.below(10) {
            0..4 => self.export().await,
            4..8 => self.compact().await,
            _ => {
                let least = if self.random.chance(250) { ABANDONED_AFTER } else { Duration::ZERO };
                self.now = self.now.plus(least + Duration::from_secs(self.random.below(90 * 60)));
                self.bucket.set_clock(self.now);
            }
        }
        if self.random.chance(500) {
            self.begin_query().await;
        }
        if self.random.chance(500) && !self.queries.is_empty() {
            let place =
                usize::try_from(self.random.below(u64::try_from(self.queries.len()).unwrap())).unwrap();
            self.coverage.late_queries += u64::from(place + 1 < self.queries.len());
            let query = self.queries.remove(place);
            self.end_query(query, duckdb).await;
        }
    }
}

#[tokio::test]
#[ignore = "needs duckdb: run tests/run"]
async fn duckdb_sees_no_difference_while_files_are_compacted() {
    let mut duckdb = ViewServer::start("exambuddy", "attempts");
    let mut coverage = SimulationCoverage::default();
    for seed in 0..SEEDS {
        let mut world = CompactionWorld::new(seed, coverage);
        println!("seed {seed}");
        world.export().await;
        for _ in 0..STEPS {
            world.step(&mut duckdb).await;
        }
        // In the end, after everything has been swept, the rows are still the same.
        for _ in 0..2 {
            let (model, bucket, clock) =
                (Arc::clone(&world.model), Arc::clone(&world.bucket), StillClock::at(world.now));
            let compactor = DatasetCompactor::new(model, bucket, options(), clock);
            world.count(compactor.compact(None, None).await.unwrap());
            world.read_manifests();
            world.now = world.now.plus(GRACE);
            world.bucket.set_clock(world.now);
        }
        world.queries.clear();
        world.begin_query().await;
        let query = world.queries.remove(0);
        world.end_query(query, &mut duckdb).await;
        coverage = world.coverage;
    }
    println!("{coverage:?}");
    coverage.check();
}
