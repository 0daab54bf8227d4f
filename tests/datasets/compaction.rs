//! Compaction while analysts ask: DuckDB, which knows nothing of Afterwrite but the SQL that is checked in, must never see a difference.
//!
//! A seeded world exports changes (late ones, and ones that were there before, of removed items too), compacts (two at once, and dying at
//! any request), and lets hours pass. Queries list files at one moment and open them by their keys at a later one.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::sync::Arc;
use std::time::Duration;

use afterwrite::record::Timestamp;
use afterwrite::sink::s3::{Bucket as _, MemoryObjects};
use afterwrite::table::Model;
use afterwrite_datasets::compact::{ABANDONED_AFTER, Compactor, Options};
use afterwrite_tests::datasets::{export, gzip};
use afterwrite_tests::random::Random;
use afterwrite_tests::unreliable_bucket::Unreliable;
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
    files: Vec<String>,
    sees: Seen,
}

struct World {
    random: Random,
    model: Arc<Model>,
    bucket: Arc<MemoryObjects>,
    now: Timestamp,
    items: BTreeMap<u64, Attempt>,
    changes: Vec<Change>,
    /// By partition and item, the newest change that was exported.
    newest: BTreeMap<(u64, u64), Change>,
    objects: u64,
    /// When a file was first said to be superseded.
    superseded: BTreeMap<String, Timestamp>,
    /// When a compaction that has not ended began.
    begun: BTreeMap<String, Timestamp>,
    queries: Vec<Query>,
    done: Done,
}

/// What happened in all worlds: a simulation in which one of these never happens proves nothing of it.
#[derive(Debug, Default)]
struct Done {
    queries: u64,
    late_answers: u64,
    compactions: u64,
    deaths: u64,
    overtaken: u64,
    removed: u64,
    late_duplicates: u64,
}

fn options() -> Options {
    Options { small: 16 * 1024, target: 32 * 1024, memory: 64 * 1024, grace: GRACE, ..Options::default() }
}

impl World {
    fn new(seed: u64, done: Done) -> Self {
        let now = Timestamp::from_epoch_seconds(BEGIN);
        let bucket = Arc::new(MemoryObjects::default());
        bucket.set_clock(now);
        Self {
            random: Random::new(seed),
            model: Arc::new(Model::load("exambuddy").unwrap()),
            bucket,
            now,
            items: BTreeMap::new(),
            changes: Vec::new(),
            newest: BTreeMap::new(),
            objects: 0,
            superseded: BTreeMap::new(),
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
        for change in &chosen {
            let held = self.newest.entry((change.day, change.id)).or_insert_with(|| change.clone());
            self.done.late_duplicates += u64::from(held.number > change.number && held.shows.is_none());
            if change.number > held.number {
                *held = change.clone();
            }
        }
        let text: String = chosen.iter().map(|change| format!("{}\n", change.line)).collect();
        self.objects += 1;
        let key = format!("archive/dt=2026-02-01/hh=00/{:05}.gz", self.objects);
        export(&self.model, &self.bucket, &BTreeMap::from([(key, gzip(&text))])).await;
    }

    async fn compact(&mut self) {
        let compactor = |random: &mut Random| {
            let dies_at = if random.chance(400) { random.below(30) } else { u64::MAX };
            let bucket = Unreliable::new(Arc::clone(&self.bucket), dies_at, random.chance(500));
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
                Ok(compacted) => {
                    self.done.overtaken += compacted.overtaken;
                    self.done.removed += compacted.files_removed;
                }
                Err(_) => self.done.deaths += 1,
            }
        }
        for (key, manifest) in self.bucket.objects() {
            let Some((_, name)) = key.strip_prefix("compactions/").and_then(|place| place.rsplit_once('/'))
            else {
                continue;
            };
            if let Some(run) = name.strip_suffix(".begun") {
                self.begun.entry(run.to_owned()).or_insert(self.now);
            } else {
                let manifest: Value = serde_json::from_slice(&manifest).unwrap();
                for input in manifest["inputs"].as_array().unwrap() {
                    let file = input.as_str().or_else(|| input["key"].as_str()).unwrap().to_owned();
                    self.superseded.entry(file).or_insert(self.now);
                }
            }
        }
    }

    async fn begin_query(&mut self) {
        let files = self.bucket.list("datasets/attempts/").await.unwrap();
        let sees = self.newest.values().filter_map(|change| change.shows.clone()).collect();
        self.queries.push(Query { files: files.into_iter().map(|file| file.key).collect(), sees });
    }

    /// Opens the files that a query has listed, by their keys. One that has been superseded for the grace period may be gone.
    async fn end_query(&mut self, query: Query, duckdb: &mut ViewServer) {
        let folder = tempfile::tempdir().unwrap();
        for key in &query.files {
            let Some(chunks) = self.bucket.get(key).await.unwrap() else {
                let age = self.superseded.get(key).map(|since| self.now.since(*since));
                let run = self.begun.iter().find(|(run, _)| key.contains(&***run));
                let is_abandoned = run.is_some_and(|(_, begun)| self.now.since(*begun) >= ABANDONED_AFTER);
                assert!(is_abandoned || age.is_some_and(|age| age >= GRACE), "{key} is gone after {age:?}");
                return;
            };
            let chunks: Vec<_> = chunks.try_collect().await.unwrap();
            let path = folder.path().join(key);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, chunks.concat()).unwrap();
        }
        let rows = duckdb.rows(folder.path());
        let text = |row: &Value, name: &str| row[name].as_str().unwrap_or_default().to_owned();
        let seen = |row: &Value| {
            (text(row, "dt"), text(row, "attempt_id"), text(row, "status"), row["score"].as_i64())
        };
        let found: Seen = rows.iter().map(seen).collect();
        assert_eq!(found.len(), rows.len(), "an item is there twice");
        assert_eq!(found, query.sees);
        self.done.queries += 1;
    }

    async fn step(&mut self, duckdb: &mut ViewServer) {
        match self.random.below(10) {
            0..4 => self.export().await,
            4..8 => self.compact().await,
            _ => {
                self.now = self.now.plus(Duration::from_secs(self.random.below(90 * 60)));
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
            compactor.compact(None, None, world.now).await.unwrap();
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
    let Done { queries, late_answers, compactions, deaths, overtaken, removed, late_duplicates } = done;
    for (what, number) in [
        ("queries", queries),
        ("late answers", late_answers),
        ("compactions", compactions),
        ("deaths", deaths),
        ("compactors overtaken", overtaken),
        ("files removed", removed),
        ("late duplicates of removed items", late_duplicates),
    ] {
        assert!(number > 0, "there were no {what}");
    }
}
