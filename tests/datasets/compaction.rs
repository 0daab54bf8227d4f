//! Compaction while analysts ask: DuckDB, which knows nothing of Afterwrite but the SQL that is checked in, must never see a difference.
//!
//! A seeded world exports changes (late ones, and ones that were there before, of removed items too), compacts (two at once, and dying at
//! any request), and lets hours pass. Queries list files at one moment and open them by their keys at a later one. In every second
//! world compaction keeps only the newest rows, so that what comes late may be all that is left of a removed item but its end.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use afterwrite::record::Timestamp;
use afterwrite::sink::Bucket as _;
use afterwrite::table::{Model, RowHistory};
use afterwrite_datasets::compact::{ABANDONED_AFTER, Compacted, Compactor, Options};
use afterwrite_memory::MemoryObjects;
use afterwrite_tests::datasets::{export, gzip, rows_of};
use afterwrite_tests::random::Random;
use afterwrite_tests::unreliable_bucket::UnreliableBucket;
use afterwrite_tests::view_server::ViewServer;
use futures::TryStreamExt as _;
use serde_json::{Value, json};

const SEEDS: u64 = 300;
const STEPS: usize = 14;
const ITEMS: u64 = 6;
const GRACE: Duration = Duration::from_secs(60 * 60);
const BEGIN: i64 = 1_770_000_000;

/// What an analyst sees of an attempt: its partition, its id, its status and score.
type Seen = BTreeSet<(String, String, String, Option<i64>)>;

/// An attempt as it stands in the table.
#[derive(Clone)]
struct Attempt {
    day: u64,
    score: Option<u64>,
}

impl Attempt {
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

    fn seen(&self, id: u64) -> (String, String, String, Option<i64>) {
        let score = self.score.and_then(|score| i64::try_from(score).ok());
        (format!("2026-02-{:02}", self.day), format!("t{id}"), self.status().to_owned(), score)
    }
}

/// A change of an item: its line, and what the view shows of the item's partition when it is the newest there.
#[derive(Clone)]
struct Change {
    number: u64,
    id: u64,
    line: String,
    day: u64,
    shows: Option<(String, String, String, Option<i64>)>,
}

/// A query that has listed its files.
struct Query {
    listed: Timestamp,
    files: Vec<String>,
    /// Those of them that a manifest then said were superseded.
    superseded: BTreeSet<String>,
    sees: Seen,
}

/// Why a query found a file gone that it had listed: a query that has lost several is told by the last of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Lost {
    /// The file had been superseded before, and its grace period ended while the query ran. Who reads a plain folder, and no
    /// manifests, cannot know.
    Superseded,
    /// The query ran for the grace period or longer.
    Outlasted,
    /// A compactor that died, or was overtaken, had left the file.
    Abandoned,
}

struct World {
    random: Random,
    model: Arc<Model>,
    history: RowHistory,
    bucket: Arc<MemoryObjects>,
    now: Timestamp,
    items: BTreeMap<u64, Attempt>,
    changes: Vec<Change>,
    /// By partition and item, the newest change that was exported.
    newest: BTreeMap<(u64, u64), Change>,
    /// The numbers of all changes that were exported.
    exported: BTreeSet<u64>,
    objects: u64,
    /// Since when a manifest says that a file is superseded; of a file that is gone, since when one said so.
    superseded: BTreeMap<String, Timestamp>,
    /// The files that ever superseded others.
    committed: BTreeSet<String>,
    /// When a compaction that has not ended began.
    begun: BTreeMap<String, Timestamp>,
    queries: Vec<Query>,
    done: Done,
}

/// What happened in all worlds: a simulation in which one of these never happens proves nothing of it.
#[derive(Debug, Default)]
struct Done {
    answers: u64,
    late_answers: u64,
    /// Answers from files of which some were superseded while the query ran.
    kept_answers: u64,
    lost_superseded: u64,
    lost_outlasted: u64,
    lost_abandoned: u64,
    compactions: u64,
    deaths: u64,
    overtaken: u64,
    removed: u64,
    outdated: u64,
    late_duplicates: u64,
    /// Late duplicates of removed items' rows that compaction had dropped: no file held them any more.
    late_duplicates_of_dropped: u64,
}

impl Done {
    fn check(&self) {
        for (what, number) in [
            ("late answers", self.late_answers),
            ("answers from files that were superseded meanwhile", self.kept_answers),
            ("queries of files that had been superseded", self.lost_superseded),
            ("queries that ran too long", self.lost_outlasted),
            ("queries of files that were abandoned", self.lost_abandoned),
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
        assert!(lost * 5 < self.answers, "{lost} queries were lost, and {} answered", self.answers);
    }
}

fn options() -> Options {
    Options { small: 16 * 1024, target: 32 * 1024, memory: 64 * 1024, grace: GRACE, ..Options::default() }
}

/// The built-in model, but for what compaction keeps of an attempt.
fn model(history: RowHistory) -> Model {
    let source = Model::built_in("exambuddy").unwrap();
    let dataset = "[datasets.attempts]\n";
    let source = match history {
        RowHistory::All => source.to_owned(),
        RowHistory::Newest => source.replace(dataset, &format!("{dataset}history = \"newest\"\n")),
    };
    Model::parse(&source, "exambuddy.toml").unwrap_or_else(|errors| panic!("{errors}"))
}

impl World {
    fn new(seed: u64, done: Done) -> Self {
        let history = if seed.is_multiple_of(2) { RowHistory::All } else { RowHistory::Newest };
        let now = Timestamp::from_epoch_seconds(BEGIN);
        let bucket = Arc::new(MemoryObjects::default());
        bucket.set_clock(now);
        Self {
            random: Random::new(seed),
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
            done,
        }
    }

    /// The application changes an item, or time to live deletes it.
    fn change(&mut self) {
        let id = self.random.below(ITEMS);
        let old = self.items.get(&id).cloned();
        let (event, new) = match &old {
            None => ("INSERT", Some(Attempt { day: 1 + self.random.below(3), score: None })),
            Some(old) if self.random.chance(700) => {
                ("MODIFY", Some(Attempt { day: old.day, score: Some(self.random.below(100)) }))
            }
            Some(_) => ("REMOVE", None),
        };
        let expires = event == "REMOVE" && self.random.chance(400);
        let number = u64::try_from(self.changes.len()).unwrap() + 1;
        let image = |attempt: &Option<Attempt>| attempt.as_ref().map(|attempt| attempt.image(id));
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
        let stands = new.as_ref().or(old.as_ref()).unwrap();
        let shows = if new.is_some() || expires { Some(stands.seen(id)) } else { None };
        let day = stands.day;
        self.changes.push(Change { number, id, line: record.to_string(), day, shows });
        match new {
            Some(new) => _ = self.items.insert(id, new),
            None => _ = self.items.remove(&id),
        }
    }

    /// Some of what has happened is exported: new changes and old, in any order, and some of them twice.
    async fn export(&mut self) {
        for _ in 0..=self.random.below(8) {
            self.change();
        }
        let all = u64::try_from(self.changes.len()).unwrap();
        let mut chosen: Vec<Change> = Vec::new();
        for _ in 0..=self.random.below(6) {
            let back = if self.random.chance(600) { 6 } else { all };
            let place = usize::try_from(all - 1 - self.random.below(back.min(all))).unwrap();
            chosen.push(self.changes[place].clone());
        }
        if self.random.chance(500) {
            chosen.extend(self.outlived());
        }
        for change in &chosen {
            let held = self.newest.entry((change.day, change.id)).or_insert_with(|| change.clone());
            let is_late = held.number > change.number && held.shows.is_none();
            if change.number > held.number {
                *held = change.clone();
            }
            if is_late {
                let was_dropped = self.exported.contains(&change.number) && !self.is_there(change);
                assert!(self.history == RowHistory::Newest || !was_dropped, "a row is lost: {}", change.line);
                self.done.late_duplicates += 1;
                self.done.late_duplicates_of_dropped += u64::from(was_dropped);
            }
        }
        self.exported.extend(chosen.iter().map(|change| change.number));
        let text: String = chosen.iter().map(|change| format!("{}\n", change.line)).collect();
        self.objects += 1;
        let key = format!("archive/dt=2026-02-01/hh=00/{:05}.gz", self.objects);
        export(&self.model, &self.bucket, &BTreeMap::from([(key, gzip(&text))])).await;
    }

    /// A change that was exported of an item that has been removed since.
    fn outlived(&mut self) -> Option<Change> {
        let is_outlived = |change: &&Change| {
            let newest = self.newest.get(&(change.day, change.id));
            self.exported.contains(&change.number)
                && newest.is_some_and(|newest| newest.number > change.number && newest.shows.is_none())
        };
        let outlived: Vec<&Change> = self.changes.iter().filter(is_outlived).collect();
        self.random.pick(&outlived).map(|change| (*change).clone())
    }

    /// Whether any file holds the row of a change.
    fn is_there(&self, change: &Change) -> bool {
        let partition = format!("datasets/attempts/dt=2026-02-{:02}/", change.day);
        let position = format!("{:040}", 1000 + change.number);
        let files = self.bucket.objects().into_iter().filter(|(key, _)| key.starts_with(&partition));
        files.flat_map(|(_, file)| rows_of(file)).any(|row| row["_position"].ends_with(&position))
    }

    async fn compact(&mut self) {
        let compactor = |random: &mut Random| {
            let dies_at = if random.chance(400) { random.below(30) } else { u64::MAX };
            let bucket = UnreliableBucket::new(Arc::clone(&self.bucket), dies_at, random.chance(500));
            Compactor::new(Arc::clone(&self.model), bucket, options())
        };
        let (one, other) = (compactor(&mut self.random), compactor(&mut self.random));
        let outcomes = if self.random.chance(500) {
            let (one, other) = futures::join!(
                one.compact(Some("attempts"), None, self.now),
                other.compact(Some("attempts"), None, self.now)
            );
            vec![one, other]
        } else {
            vec![one.compact(Some("attempts"), None, self.now).await]
        };
        for outcome in outcomes {
            self.done.compactions += 1;
            match outcome {
                Ok(compacted) => self.count(compacted),
                Err(_) => self.done.deaths += 1,
            }
        }
        self.read_manifests();
    }

    fn count(&mut self, compacted: Compacted) {
        self.done.overtaken += compacted.overtaken;
        self.done.removed += compacted.files_removed;
        self.done.outdated += compacted.outdated;
        assert!(self.history == RowHistory::Newest || compacted.outdated == 0, "{compacted:?}");
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
        // A file that is there, and of which no manifest says so any more, is needed again.
        self.superseded.retain(|file, _| superseded.contains(file) || !objects.contains_key(file));
        for file in superseded {
            self.superseded.entry(file).or_insert(self.now);
        }
    }

    async fn begin_query(&mut self) {
        let files = self.bucket.list("datasets/attempts/").await.unwrap();
        let files: Vec<String> = files.into_iter().map(|file| file.key).collect();
        let superseded = files.iter().filter(|file| self.superseded.contains_key(*file)).cloned().collect();
        let sees = self.newest.values().filter_map(|change| change.shows.clone()).collect();
        self.queries.push(Query { listed: self.now, files, superseded, sees });
    }

    /// Why a file is gone that a query has listed. There is nothing else that it may be gone for.
    fn lost(&self, key: &str, query: &Query) -> Lost {
        let ran = self.now.since(query.listed);
        let age = self.superseded.get(key).map(|since| self.now.since(*since));
        if age.is_some_and(|age| age >= GRACE) {
            let was_needed = !query.superseded.contains(key);
            assert!(ran >= GRACE || !was_needed, "{key} was needed {ran:?} ago, and is gone");
            return if ran >= GRACE { Lost::Outlasted } else { Lost::Superseded };
        }
        let run = self.begun.iter().find(|(run, _)| key.contains(&***run));
        let is_old = run.is_some_and(|(_, begun)| self.now.since(*begun) >= ABANDONED_AFTER);
        let is_abandoned = is_old && !self.committed.contains(key);
        assert!(is_abandoned, "{key} is gone, superseded {age:?} ago, listed {ran:?} ago");
        Lost::Abandoned
    }

    /// Opens the files that a query has listed, by their keys.
    async fn end_query(&mut self, query: Query, duckdb: &mut ViewServer) {
        let folder = tempfile::tempdir().unwrap();
        let mut lost = None;
        for key in &query.files {
            let Some(chunks) = self.bucket.get(key).await.unwrap() else {
                lost = lost.max(Some(self.lost(key, &query)));
                continue;
            };
            let chunks: Vec<_> = chunks.try_collect().await.unwrap();
            let path = folder.path().join(key);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, chunks.concat()).unwrap();
        }
        match lost {
            Some(Lost::Superseded) => self.done.lost_superseded += 1,
            Some(Lost::Outlasted) => self.done.lost_outlasted += 1,
            Some(Lost::Abandoned) => self.done.lost_abandoned += 1,
            None => self.answer(&query, folder.path(), duckdb),
        }
    }

    /// Answers a query from the files that it has opened.
    fn answer(&mut self, query: &Query, folder: &Path, duckdb: &mut ViewServer) {
        let rows = duckdb.rows(folder);
        let text = |row: &Value, name: &str| row[name].as_str().unwrap_or_default().to_owned();
        let seen = |row: &Value| {
            (text(row, "dt"), text(row, "attempt_id"), text(row, "status"), row["score"].as_i64())
        };
        let found: Seen = rows.iter().map(seen).collect();
        assert_eq!(found.len(), rows.len(), "an item is there twice");
        assert_eq!(found, query.sees);
        let is_kept = |file: &String| self.superseded.contains_key(file) && !query.superseded.contains(file);
        self.done.answers += 1;
        self.done.kept_answers += u64::from(query.files.iter().any(is_kept));
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
            self.done.late_answers += u64::from(place + 1 < self.queries.len());
            let query = self.queries.remove(place);
            self.end_query(query, duckdb).await;
        }
    }
}

#[tokio::test]
#[ignore = "needs duckdb: run tests/run"]
async fn duckdb_sees_no_difference_while_files_are_compacted() {
    let mut duckdb = ViewServer::start("exambuddy", "attempts");
    let mut done = Done::default();
    for seed in 0..SEEDS {
        let mut world = World::new(seed, done);
        println!("seed {seed}");
        world.export().await;
        for _ in 0..STEPS {
            world.step(&mut duckdb).await;
        }
        // In the end, when everything has been swept, the answer is still the same.
        for _ in 0..2 {
            let compactor = Compactor::new(Arc::clone(&world.model), Arc::clone(&world.bucket), options());
            world.count(compactor.compact(None, None, world.now).await.unwrap());
            world.read_manifests();
            world.now = world.now.plus(GRACE);
            world.bucket.set_clock(world.now);
        }
        world.queries.clear();
        world.begin_query().await;
        let query = world.queries.remove(0);
        world.end_query(query, &mut duckdb).await;
        done = world.done;
    }
    println!("{done:?}");
    done.check();
}
