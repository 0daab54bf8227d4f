//! Recorded streams, with the rollups and mirrors that must follow from them.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use serde_json::Value;
use serde_json::value::RawValue;

/// A recorded stream: its records by shard, the final table, and the expected rollups and mirrors.
#[derive(Debug)]
pub struct StreamRecording {
    /// The records of each shard in order, as Lambda delivers them.
    pub shards: Vec<Vec<Box<RawValue>>>,
    /// The shard of each record, in the order of time.
    pub order: Vec<usize>,
    /// The table after the last record, as DynamoDB JSON.
    pub items: Vec<Value>,
    /// The nonzero measures of every rollup, by its key.
    pub rollups: BTreeMap<(String, String), BTreeMap<String, i64>>,
    /// The mirrored attributes of every item that has some, by its key.
    pub mirrored: BTreeMap<(String, String), BTreeMap<String, i64>>,
}

#[derive(serde::Deserialize)]
struct RecordedLine {
    shard: usize,
    record: Box<RawValue>,
}

impl StreamRecording {
    /// Reads the recording of this name from the fixtures.
    ///
    /// # Panics
    /// If it is missing or incomplete.
    #[must_use]
    pub fn load(name: &str) -> Self {
        let folder = fixtures().join(name);
        let mut shards: Vec<Vec<Box<RawValue>>> = Vec::new();
        let mut order = Vec::new();
        for line in lines(&folder.join("records.jsonl.gz")) {
            let line: RecordedLine = serde_json::from_str(&line).expect("a record");
            if shards.len() <= line.shard {
                shards.resize_with(line.shard + 1, Vec::new);
            }
            shards.get_mut(line.shard).expect("the shard was added").push(line.record);
            order.push(line.shard);
        }
        let items = lines(&folder.join("items.jsonl.gz"));
        let items = items.iter().map(|line| serde_json::from_str(line).expect("an item")).collect();
        let expected = std::fs::read(folder.join("expected.json")).expect("expected.json");
        let expected: BTreeMap<String, Vec<BTreeMap<String, Value>>> =
            serde_json::from_slice(&expected).expect("expectations");
        let mut expected: BTreeMap<String, BTreeMap<_, _>> = expected
            .into_iter()
            .map(|(name, items)| (name, items.into_iter().map(keyed).collect()))
            .collect();
        let rollups = expected.remove("rollups").expect("rollups");
        let mirrored = expected.into_values().next().expect("a mirrored attribute");
        Self { shards, order, items, rollups, mirrored }
    }

    /// The last image of every item, deleted items included.
    ///
    /// # Panics
    /// If a record is malformed.
    #[must_use]
    pub fn last_images(&self) -> Vec<Value> {
        let mut images = BTreeMap::new();
        for record in self.records() {
            let mut record = parsed(record);
            let change = &mut record["dynamodb"];
            let key = change["Keys"].to_string();
            if let Some(image) = change.get_mut("NewImage") {
                images.insert(key, image.take());
            }
        }
        images.into_values().collect()
    }

    /// The records of a shard, moved in time so that the last change of all shards is made at `end`. A function with a real clock
    /// does not apply records older than the life of tombstones.
    ///
    /// # Panics
    /// If a record is malformed.
    #[must_use]
    pub fn shard_ending(&self, shard: usize, end: i64) -> Vec<Value> {
        let shift = end - self.end();
        self.shards[shard].iter().map(|record| shifted(record, shift)).collect()
    }

    /// The records of all shards in the order of time, moved in time as by [`Self::shard_ending`].
    ///
    /// # Panics
    /// If a record is malformed.
    #[must_use]
    pub fn records_ending(&self, end: i64) -> Vec<Value> {
        let shift = end - self.end();
        self.records().map(|record| shifted(record, shift)).collect()
    }

    /// The time of the last change, in epoch seconds.
    ///
    /// # Panics
    /// If a record has no time.
    #[must_use]
    pub fn end(&self) -> i64 {
        let time = |record: &RawValue| change_time(&parsed(record));
        self.records().map(time).max().expect("a recording with records")
    }

    /// The records of all shards in the order of time.
    pub fn records(&self) -> impl Iterator<Item = &RawValue> {
        let mut next = vec![0; self.shards.len()];
        self.order.iter().filter_map(move |shard| {
            let position: &mut usize = next.get_mut(*shard)?;
            *position += 1;
            self.shards.get(*shard)?.get(*position - 1).map(AsRef::as_ref)
        })
    }
}

fn parsed(record: &RawValue) -> Value {
    serde_json::from_str(record.get()).expect("a record")
}

/// The time of a record's change, in epoch seconds.
fn change_time(record: &Value) -> i64 {
    record["dynamodb"]["ApproximateCreationDateTime"].as_i64().expect("a time in seconds")
}

/// The record with its change `seconds` later.
fn shifted(record: &RawValue, seconds: i64) -> Value {
    let mut record = parsed(record);
    record["dynamodb"]["ApproximateCreationDateTime"] = (change_time(&record) + seconds).into();
    record
}

/// An event of these records.
pub fn event<'r>(records: impl IntoIterator<Item = &'r RawValue>) -> Vec<u8> {
    let records: Vec<&str> = records.into_iter().map(RawValue::get).collect();
    format!("{{\"Records\":[{}]}}", records.join(",")).into_bytes()
}

/// The folder of the fixtures.
#[must_use]
pub fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures")
}

fn lines(path: &Path) -> Vec<String> {
    let file = std::fs::File::open(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let mut text = String::new();
    flate2::read::GzDecoder::new(file).read_to_string(&mut text).expect("gzip of text");
    text.lines().map(str::to_owned).collect()
}

/// The key of an item, and its other attributes, all of which are whole numbers.
fn keyed(mut item: BTreeMap<String, Value>) -> ((String, String), BTreeMap<String, i64>) {
    let mut take_key = |name| {
        let value = item.remove(name);
        value.and_then(|value| value.as_str().map(str::to_owned)).expect("a key")
    };
    let key = (take_key("PK"), take_key("SK"));
    (key, item.into_iter().map(|(name, value)| (name, value.as_i64().expect("a whole number"))).collect())
}
