//! A simulation of exports and compactions during queries: DuckDB, with the checked-in SQL alone, and the package deltalake see in every
//! version of both tables the rows of a recount.
//!
//! The seeds take a dataset of each built-in model in turn. A seeded simulation exports changes (late ones, and duplicates, also of removed items) with up to four exporters at once, compacts
//! (two compactors at once), and advances time by hours. Each of them may die at any request. Queries read the logs of the tables at
//! one moment and open the files later. In every second simulation compaction keeps only the newest rows, so a late duplicate may be
//! the only row of a removed item except its removal.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use afterwrite_datasets::compact::{CompactionOptions, CompactionTotals, DatasetCompactor};
use afterwrite_datasets::delta::ORPHAN_AGE;
use afterwrite_datasets::export::ArchiveExporter;
use afterwrite_memory::{MemoryObjects, MemoryTables};
use afterwrite_model::record::Timestamp;
use afterwrite_model::table::{Model, RowHistory};
use afterwrite_services::{Bucket as _, ObjectStore as _};
use afterwrite_tests::clock::StillClock;
use afterwrite_tests::datasets::{gzip, rows_of};
use afterwrite_tests::duckdb::{DatasetRows, ViewServer};
use afterwrite_tests::random::SeededRandom;
use afterwrite_tests::unreliable_bucket::UnreliableBucket;
use futures::TryStreamExt as _;
use serde_json::{Value, json};

use super::dataset_shape::{DatasetShape, ItemState, SHAPES, name};

const STEPS: usize = 14;
const ITEMS: u64 = 6;
const RETENTION: Duration = Duration::from_secs(6 * 60 * 60);
const BEGIN: i64 = 1_770_000_000;

/// A row of the table: the partition, the id, the status and the score of an item.
type ViewRow = (String, String, String, Option<i64>);

fn day(day: u64) -> String {
    format!("2026-02-{day:02}")
}

/// The effect of a change on its item.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ChangeEffect {
    Written,
    Removed,
    Expired,
}

/// A change of an item, and its archive line.
#[derive(Clone)]
struct ItemChange {
    number: u64,
    id: u64,
    day: u64,
    line: String,
    effect: ChangeEffect,
    row: ViewRow,
}

/// A query that has read the logs of both tables.
struct RunningQuery {
    begun: Timestamp,
    /// The objects of the logs.
    logs: BTreeMap<String, Vec<u8>>,
}

struct CompactionWorld {
    random: SeededRandom,
    shape: &'static DatasetShape,
    tables: [String; 2],
    model: Arc<Model>,
    history: RowHistory,
    bucket: Arc<MemoryObjects>,
    now: Timestamp,
    items: BTreeMap<u64, ItemState>,
    changes: Vec<ItemChange>,
    /// The numbers of the changes that each version of the log added.
    logged: BTreeMap<i64, BTreeSet<u64>>,
    objects: u64,
    queries: Vec<RunningQuery>,
    coverage: SimulationCoverage,
}

/// The number of times that each event happened in all simulations. An event that never happens is not tested.
#[derive(Debug, Default)]
struct SimulationCoverage {
    queries: u64,
    late_queries: u64,
    outlasted_queries: u64,
    compactions: u64,
    compactor_deaths: u64,
    exporter_deaths: u64,
    overtaken: u64,
    removed: u64,
    outdated: u64,
    behind: u64,
    late_duplicates: u64,
    later_lives: u64,
}

impl SimulationCoverage {
    fn check(&self) {
        for (what, number) in [
            ("queries that ended out of order", self.late_queries),
            ("queries that ran longer than the retention", self.outlasted_queries),
            ("compactions", self.compactions),
            ("deaths of compactors", self.compactor_deaths),
            ("deaths of exporters", self.exporter_deaths),
            ("commits overtaken", self.overtaken),
            ("files removed", self.removed),
            ("rows dropped", self.outdated),
            ("days derived from an earlier version of the log", self.behind),
            ("late duplicates of removed items", self.late_duplicates),
            ("lives after an expiry", self.later_lives),
        ] {
            assert!(number > 0, "there were no {what}");
        }
        assert!(self.outlasted_queries < self.queries, "{self:?}");
    }
}

fn options() -> CompactionOptions {
    CompactionOptions {
        target_file_bytes: 32 * 1024,
        memory_bytes: 64 * 1024,
        retention: RETENTION,
        ..CompactionOptions::default()
    }
}

/// The built-in model, with this history of the dataset.
fn model(shape: &DatasetShape, history: RowHistory) -> Model {
    let source = Model::built_in(shape.model).unwrap();
    let dataset = format!("[datasets.{}]\n", shape.dataset);
    let source = match history {
        RowHistory::All => source.to_owned(),
        RowHistory::Newest => source.replace(&dataset, &format!("{dataset}history = \"newest\"\n")),
    };
    Model::parse(&source, "model.toml").unwrap_or_else(|errors| panic!("{errors}"))
}

/// The lines of a table's commits, version by version.
fn commits(objects: &BTreeMap<String, Vec<u8>>, root: &str) -> Vec<Vec<Value>> {
    let commit = |version: usize| objects.get(&format!("{root}_delta_log/{version:020}.json"));
    let lines = |commit: &Vec<u8>| {
        let lines = commit.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        lines.map(|line| serde_json::from_slice(line).unwrap()).collect()
    };
    (0..).map_while(commit).map(lines).collect()
}

impl CompactionWorld {
    fn new(seed: u64, shape: &'static DatasetShape, coverage: SimulationCoverage) -> Self {
        let history = if (seed / 5).is_multiple_of(2) { RowHistory::All } else { RowHistory::Newest };
        let now = Timestamp::from_epoch_seconds(BEGIN);
        let bucket = Arc::new(MemoryObjects::default());
        bucket.set_clock(now);
        Self {
            random: SeededRandom::new(seed),
            shape,
            tables: shape.tables(),
            model: Arc::new(model(shape, history)),
            history,
            bucket,
            now,
            items: BTreeMap::new(),
            changes: Vec::new(),
            logged: BTreeMap::new(),
            objects: 0,
            queries: Vec::new(),
            coverage,
        }
    }

    /// Changes an item as the application does, or deletes it as time to live does.
    fn change(&mut self) {
        let id = self.random.below(ITEMS);
        let old = self.items.get(&id).cloned();
        let (event, new) = match &old {
            None => {
                let day = self.shape.day(id, self.random.below(3));
                ("INSERT", Some(ItemState { day, score: None }))
            }
            Some(old) if self.random.chance(700) => {
                ("MODIFY", Some(ItemState { day: old.day, score: Some(self.random.below(100)) }))
            }
            Some(_) => ("REMOVE", None),
        };
        let expires = event == "REMOVE" && self.random.chance(400);
        let number = u64::try_from(self.changes.len()).unwrap() + 1;
        let image = |state: &Option<ItemState>| state.as_ref().map(|state| self.shape.image(id, state));
        let stream = format!("table/{}/stream/2026-01-01T00:00:00.000", self.shape.table);
        let mut record = json!({
            "eventID": number.to_string(), "eventName": event,
            "eventSourceARN": format!("arn:aws:dynamodb:eu-west-1:1:{stream}"),
            "dynamodb": {
                "ApproximateCreationDateTime": self.now.epoch_seconds(),
                "Keys": (self.shape.keys)(id),
                "NewImage": image(&new), "OldImage": image(&old), "SequenceNumber": format!("{}", 1000 + number),
            },
        });
        if expires {
            record["userIdentity"] = json!({ "type": "Service", "principalId": "dynamodb.amazonaws.com" });
        }
        let last = new.as_ref().or(old.as_ref()).unwrap();
        let effect = match (&new, expires) {
            (Some(_), _) => ChangeEffect::Written,
            (None, true) => ChangeEffect::Expired,
            (None, false) => ChangeEffect::Removed,
        };
        let (day, row) = (last.day, view_row(id, last));
        self.changes.push(ItemChange { number, id, day, line: record.to_string(), effect, row });
        match new {
            Some(new) => _ = self.items.insert(id, new),
            None => _ = self.items.remove(&id),
        }
    }

    /// New and old changes, in any order, as one object of the archive.
    fn object(&mut self) -> (String, Vec<u8>) {
        let all = u64::try_from(self.changes.len()).unwrap();
        let mut chosen: Vec<&ItemChange> = Vec::new();
        for _ in 0..=self.random.below(6) {
            let back = if self.random.chance(600) { 6 } else { all };
            let place = usize::try_from(all - 1 - self.random.below(back.min(all))).unwrap();
            chosen.extend(self.changes.get(place));
        }
        let text: String = chosen.iter().map(|change| format!("{}\n", change.line)).collect();
        self.objects += 1;
        (format!("archive/dt=2026-02-01/hh=00/{:05}.gz", self.objects), gzip(&text))
    }

    /// Up to four exporters at once; each exports one or two new objects, and maybe one that has been exported.
    async fn export(&mut self) {
        for _ in 0..=self.random.below(8) {
            self.change();
        }
        let mut exporters = Vec::new();
        for _ in 0..=self.random.below(4) {
            let mut keys = Vec::new();
            for _ in 0..=self.random.below(2) {
                let (key, object) = self.object();
                self.bucket.put(&key, object).await.unwrap();
                keys.push(key);
            }
            let again = 1 + self.random.below(self.objects);
            keys.push(format!("archive/dt=2026-02-01/hh=00/{again:05}.gz"));
            let dies_at = if self.random.chance(300) { self.random.below(30) } else { u64::MAX };
            let bucket = UnreliableBucket::new(Arc::clone(&self.bucket), dies_at, self.random.chance(500));
            exporters.push((keys, bucket));
        }
        let (model, now) = (&self.model, self.now);
        let exports = exporters.into_iter().map(|(keys, bucket)| async move {
            let tables = model.tables.iter().map(|table| Arc::clone(&table.name)).collect();
            let exporter: ArchiveExporter<_, MemoryTables, _> =
                ArchiveExporter::new(Arc::clone(model), tables, bucket, None, StillClock::at(now));
            exporter.export(&keys, now.plus(Duration::from_secs(60))).await
        });
        let outcomes = futures::future::join_all(exports).await;
        let is_dead = |outcomes: &&Vec<Result<_, _>>| outcomes.iter().any(Result::is_err);
        self.coverage.exporter_deaths += u64::try_from(outcomes.iter().filter(is_dead).count()).unwrap();
        self.read_log();
    }

    /// Reads which changes the new versions of the log added.
    fn read_log(&mut self) {
        let objects = self.bucket.objects();
        for (version, lines) in (0..).zip(commits(&objects, &self.tables[1])) {
            if self.logged.contains_key(&version) {
                continue;
            }
            let added = lines.iter().filter(|line| line["add"]["dataChange"] == true);
            let files = added.filter_map(|line| line["add"]["path"].as_str());
            let rows = files.flat_map(|path| rows_of(objects[&format!("{}{path}", self.tables[1])].clone()));
            let number = |position: &str| position.rsplit('#').next().unwrap().parse::<u64>().unwrap() - 1000;
            let numbers: BTreeSet<u64> = rows.map(|row| number(&row["_position"])).collect();
            self.count_late_duplicates(version, &numbers);
            self.logged.insert(version, numbers);
        }
    }

    fn count_late_duplicates(&mut self, version: i64, numbers: &BTreeSet<u64>) {
        let known = self.numbers_at(version);
        let is_gone = |change: &ItemChange| {
            let later = self.changes.iter().filter(|other| (other.id, other.day) == (change.id, change.day));
            let newest = later.filter(|other| known.contains(&other.number)).max_by_key(|other| other.number);
            newest
                .is_some_and(|newest| newest.number > change.number && newest.effect == ChangeEffect::Removed)
        };
        let changes = self.changes.iter().filter(|change| numbers.contains(&change.number));
        let late = changes.filter(|change| known.contains(&change.number) && is_gone(change)).count();
        self.coverage.late_duplicates += u64::try_from(late).unwrap();
    }

    /// The changes that the log had at a version.
    fn numbers_at(&self, version: i64) -> BTreeSet<u64> {
        self.logged.range(..=version).flat_map(|(_, numbers)| numbers.iter().copied()).collect()
    }

    /// The current rows of a day, recounted from the changes that the log had at a version: every life that expired, and the newest
    /// state of each item unless it is gone.
    fn recount(&mut self, day: u64, version: i64) -> Vec<ViewRow> {
        let numbers = self.numbers_at(version);
        let mut rows = Vec::new();
        for id in 0..ITEMS {
            let changes = self.changes.iter().filter(|change| (change.id, change.day) == (id, day));
            let changes: Vec<_> = changes.filter(|change| numbers.contains(&change.number)).collect();
            let expired = changes.iter().filter(|change| change.effect == ChangeEffect::Expired);
            let kept = expired.filter(|_| self.shape.keeps_expired);
            rows.extend(kept.map(|change| change.row.clone()));
            if let Some(last) = changes.last().filter(|last| last.effect == ChangeEffect::Written) {
                self.coverage.later_lives +=
                    u64::from(changes.iter().any(|change| change.effect == ChangeEffect::Expired));
                rows.push(last.row.clone());
            }
        }
        rows
    }

    async fn compact(&mut self) {
        let compactor = |random: &mut SeededRandom| {
            let dies_at = if random.chance(400) { random.below(60) } else { u64::MAX };
            let bucket = UnreliableBucket::new(Arc::clone(&self.bucket), dies_at, random.chance(500));
            DatasetCompactor::new(Arc::clone(&self.model), bucket, options(), StillClock::at(self.now))
        };
        let (one, other) = (compactor(&mut self.random), compactor(&mut self.random));
        let dataset = Some(self.shape.dataset);
        let outcomes = if self.random.chance(500) {
            let (one, other) = futures::join!(one.compact(dataset, None), other.compact(dataset, None));
            vec![one, other]
        } else {
            vec![one.compact(dataset, None).await]
        };
        for outcome in outcomes {
            self.coverage.compactions += 1;
            match outcome {
                Ok(totals) => self.count(totals),
                Err(_) => self.coverage.compactor_deaths += 1,
            }
        }
        self.read_log();
    }

    fn count(&mut self, totals: CompactionTotals) {
        self.coverage.overtaken += totals.overtaken;
        self.coverage.removed += totals.files_removed;
        self.coverage.outdated += totals.outdated;
        assert!(self.history == RowHistory::Newest || totals.outdated == 0, "{totals:?}");
    }

    fn begin_query(&mut self) {
        let logs: BTreeMap<String, Vec<u8>> =
            self.bucket.objects().into_iter().filter(|(key, _)| key.contains("_delta_log")).collect();
        if self.tables.iter().all(|root| !commits(&logs, root).is_empty()) {
            self.queries.push(RunningQuery { begun: self.now, logs });
        }
    }

    /// Opens the files that the logs had when the query began.
    async fn end_query(&mut self, query: RunningQuery, duckdb: &mut ViewServer) {
        let folder = tempfile::tempdir().unwrap();
        let write = |key: &str, content: &[u8]| {
            let path = folder.path().join(key);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        };
        query.logs.iter().for_each(|(key, content)| write(key, content));
        for root in &self.tables {
            for path in active_files(&commits(&query.logs, root)) {
                let key = format!("{root}{path}");
                let Some(chunks) = self.bucket.get(&key).await.unwrap() else {
                    let ran = self.now.since(query.begun);
                    assert!(ran >= RETENTION, "{key} is gone, and the query began {ran:?} ago");
                    self.coverage.outlasted_queries += 1;
                    return;
                };
                let chunks: Vec<_> = chunks.try_collect().await.unwrap();
                write(&key, &chunks.concat());
            }
        }
        self.check_query(folder.path(), duckdb);
    }

    /// Runs a query on the files that it has opened, and checks its rows.
    fn check_query(&mut self, folder: &Path, duckdb: &mut ViewServer) {
        let DatasetRows { current, now, versions } = duckdb.rows(folder);
        let log_version = versions[&format!("{}_log", self.shape.dataset)].version;
        let (mut expected_current, mut expected_now) = (Vec::new(), Vec::new());
        for number in 1..=3 {
            let recorded = versions[self.shape.dataset].transactions.get(&format!("log/dt={}", day(number)));
            if let Some(version) = recorded {
                self.coverage.behind += u64::from(*version < log_version);
                expected_current.extend(self.recount(number, *version));
            }
            expected_now.extend(self.recount(number, log_version));
        }
        assert_eq!(view_rows(self.shape, &current), sorted(expected_current), "the table of current rows");
        assert_eq!(view_rows(self.shape, &now), sorted(expected_now), "the view over the log");
        self.coverage.queries += 1;
    }

    async fn step(&mut self, duckdb: &mut ViewServer) {
        match self.random.below(10) {
            0..4 => self.export().await,
            4..8 => self.compact().await,
            _ => {
                let least = if self.random.chance(250) { ORPHAN_AGE } else { Duration::ZERO };
                self.now = self.now.plus(least + Duration::from_secs(self.random.below(90 * 60)));
                self.bucket.set_clock(self.now);
            }
        }
        if self.random.chance(500) {
            self.begin_query();
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

/// The paths of the files that a table has after these commits.
fn active_files(commits: &[Vec<Value>]) -> BTreeSet<String> {
    let mut files = BTreeSet::new();
    for line in commits.iter().flatten() {
        if let Some(path) = line["remove"]["path"].as_str() {
            files.remove(path);
        }
        files.extend(line["add"]["path"].as_str().map(str::to_owned));
    }
    files
}

fn view_row(id: u64, state: &ItemState) -> ViewRow {
    let score = state.score.and_then(|score| i64::try_from(score).ok());
    (day(state.day), name(id), state.status().to_owned(), score)
}

fn view_rows(shape: &DatasetShape, rows: &[Value]) -> Vec<ViewRow> {
    let [id, status, score] = shape.columns;
    let text = |row: &Value, name: &str| row[name].as_str().unwrap_or_default().to_owned();
    let view_row =
        |row: &Value| (text(row, "dt"), text(row, id), text(row, status), whole_number(&row[score]));
    sorted(rows.iter().map(view_row).collect())
}

/// A whole number; that of a decimal column has decimals.
fn whole_number(value: &Value) -> Option<i64> {
    let text = value.as_number()?.to_string();
    text.split('.').next()?.parse().ok()
}

fn sorted(mut rows: Vec<ViewRow>) -> Vec<ViewRow> {
    rows.sort();
    rows
}

#[tokio::test]
#[ignore = "needs duckdb: run tests/run"]
async fn duckdb_and_deltalake_see_the_rows_of_a_recount_in_every_version() {
    simulate(0..afterwrite_tests::size::size(60, 100)).await;
}

mod full {
    #[tokio::test]
    #[ignore = "needs duckdb: run tests/run --full"]
    async fn they_see_the_rows_of_a_recount_with_the_next_seeds() {
        super::simulate(100..200).await;
    }

    #[tokio::test]
    #[ignore = "needs duckdb: run tests/run --full"]
    async fn they_see_the_rows_of_a_recount_with_the_last_seeds() {
        super::simulate(200..300).await;
    }
}

async fn simulate(seeds: Range<u64>) {
    let mut readers: Vec<_> =
        SHAPES.iter().map(|shape| (shape, ViewServer::start(shape.model, shape.dataset))).collect();
    let mut coverage = SimulationCoverage::default();
    for seed in seeds {
        let place = usize::try_from(seed).unwrap() % SHAPES.len();
        let (shape, duckdb) = &mut readers[place];
        let mut world = CompactionWorld::new(seed, shape, coverage);
        println!("seed {seed}, {}", shape.model);
        world.export().await;
        for _ in 0..STEPS {
            world.step(duckdb).await;
        }
        // In the end, after everything has been removed that may be, the rows are still the same.
        for _ in 0..3 {
            let (model, bucket, clock) =
                (Arc::clone(&world.model), Arc::clone(&world.bucket), StillClock::at(world.now));
            let compactor = DatasetCompactor::new(model, bucket, options(), clock);
            world.count(compactor.compact(None, None).await.unwrap());
            world.now = world.now.plus(ORPHAN_AGE);
            world.bucket.set_clock(world.now);
        }
        world.read_log();
        world.queries.clear();
        world.begin_query();
        let query = world.queries.remove(0);
        world.end_query(query, duckdb).await;
        coverage = world.coverage;
    }
    println!("{coverage:?}");
    coverage.check();
}
