//! Turns the changes of the tables into stream records in shards, as Lambda delivers them.
//!
//! The records of an item are in one shard, in order. A re-created stream has a new label, new shards, and sequence
//! numbers that start again. The remaining records of the old stream are still delivered, before or after.

use std::fmt::{self, Write as _};

use afterwrite::record::{AttributeValue, Item, Timestamp};
use afterwrite_memory::ItemChange;
use afterwrite_tests::random::SeededRandom;

use super::store::{EVENTS, MAIN};

const SHARDS: u64 = 3;

/// One change in a stream.
#[derive(Clone, Debug)]
pub(crate) struct StreamRecord {
    pub(crate) table: &'static str,
    pub(crate) partition: String,
    pub(crate) sort: Option<String>,
    pub(crate) label: String,
    pub(crate) sequence_number: String,
    pub(crate) created_at: Timestamp,
    pub(crate) old: Option<Item>,
    pub(crate) new: Option<Item>,
    pub(crate) is_expiry: bool,
    /// The JSON that Lambda delivers.
    pub(crate) json: String,
    /// Malformed JSON that is delivered instead, until the decoder is "corrected".
    pub(crate) malformed: Option<String>,
    /// When it was first reported as counted.
    pub(crate) first_counted_at: Option<Timestamp>,
}

impl StreamRecord {
    /// The position, as in the ledger entries and markers.
    pub(crate) fn position(&self) -> String {
        format!("{}#{:0>40}", self.label, self.sequence_number)
    }
}

impl fmt::Display for StreamRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let change = match (&self.old, &self.new) {
            (None, _) => "inserted",
            (Some(_), Some(_)) => "modified",
            (Some(_), None) if self.is_expiry => "expired",
            (Some(_), None) => "removed",
        };
        let (sort, malformed) =
            (self.sort.as_deref().unwrap_or(""), self.malformed.as_ref().map_or("", |_| ", malformed"));
        write!(f, "{} {sort} {change} at {}{malformed}", self.partition, self.position())
    }
}

/// A shard: its records, by number, and the position of the event source mapping.
#[derive(Debug, Default)]
pub(crate) struct StreamShard {
    pub(crate) records: Vec<usize>,
    pub(crate) checkpoint: usize,
    /// The task that handles the records after the checkpoint.
    pub(crate) in_flight: Option<u64>,
    pub(crate) attempts: u32,
    pub(crate) delayed_until: Option<Timestamp>,
}

/// The current stream of one table.
#[derive(Debug)]
struct TableStream {
    label: String,
    next: u128,
    /// The index of its first shard.
    first_shard: usize,
}

/// All streams of a run.
#[derive(Debug)]
pub(crate) struct StreamSet {
    pub(crate) records: Vec<StreamRecord>,
    pub(crate) shards: Vec<StreamShard>,
    streams: [TableStream; 2],
    /// Malformed records, per thousand.
    malformed: u64,
}

impl StreamSet {
    pub(crate) fn new(now: Timestamp, malformed: u64, random: &mut SeededRandom) -> Self {
        let mut shards = Vec::new();
        let streams = [(); 2].map(|()| Self::create(now, random, &mut shards));
        Self { records: Vec::new(), shards, streams, malformed }
    }

    fn create(now: Timestamp, random: &mut SeededRandom, shards: &mut Vec<StreamShard>) -> TableStream {
        let first_shard = shards.len();
        shards.extend((0..SHARDS).map(|_| StreamShard::default()));
        // Near a power of ten, so that sequence numbers of different lengths occur.
        let next = 10_u128.pow(21) - u128::from(random.below(60));
        TableStream { label: format!("{now}").replace('Z', ".000"), next, first_shard }
    }

    /// Disables the table's stream and enables it again.
    pub(crate) fn recreate(&mut self, table: &str, now: Timestamp, random: &mut SeededRandom) {
        let stream = Self::create(now, random, &mut self.shards);
        self.streams[usize::from(table == EVENTS)] = stream;
    }

    /// Appends changes.
    pub(crate) fn append(
        &mut self,
        table: &'static str,
        changes: Vec<ItemChange>,
        random: &mut SeededRandom,
    ) {
        for change in changes {
            let stream = &mut self.streams[usize::from(table == EVENTS)];
            stream.next += 1 + u128::from(random.below(3));
            let mut record = record(table, stream, change);
            if random.chance(self.malformed) {
                let field =
                    random.pick(&["\"eventName\":\"", "\"SequenceNumber\":\""]).copied().unwrap_or("");
                record.malformed = Some(record.json.replace(field, &format!("{field}X")));
            }
            let hash = record.partition.bytes().chain(record.sort.iter().flat_map(|sort| sort.bytes()));
            let hash = hash.fold(7_u64, |hash, byte| hash.wrapping_mul(31).wrapping_add(u64::from(byte)));
            let shard = stream.first_shard + usize::try_from(hash % SHARDS).unwrap();
            self.shards[shard].records.push(self.records.len());
            self.records.push(record);
        }
    }

    /// Whether all records have been delivered.
    pub(crate) fn is_drained(&self) -> bool {
        self.shards.iter().all(|shard| shard.checkpoint == shard.records.len())
    }

    /// The event with these records; malformed records are valid if `with_malformed` is false.
    pub(crate) fn event(&self, records: &[usize], with_malformed: bool) -> String {
        let json = |record: &usize| {
            let record = &self.records[*record];
            record.malformed.as_ref().filter(|_| with_malformed).unwrap_or(&record.json).as_str()
        };
        format!("{{\"Records\":[{}]}}", records.iter().map(json).collect::<Vec<_>>().join(","))
    }
}

fn record(table: &'static str, stream: &TableStream, change: ItemChange) -> StreamRecord {
    let text = |value: &AttributeValue<'_>| value.as_text().unwrap_or("").to_owned();
    let partition = text(&change.key.partition.value);
    let sort = change.key.sort.as_ref().map(|sort| text(&sort.value));
    let sequence_number = stream.next.to_string();
    let operation = match (&change.old, &change.new) {
        (None, _) => "INSERT",
        (Some(_), Some(_)) => "MODIFY",
        (Some(_), None) => "REMOVE",
    };
    let mut json = format!(
        "{{\"eventID\":\"{sequence_number}\",\"eventName\":\"{operation}\",\"eventVersion\":\"1.1\",\"eventSource\":\"aws:dynamodb\",\
         \"awsRegion\":\"eu-central-1\",\"dynamodb\":{{\"ApproximateCreationDateTime\":{},\"Keys\":",
        change.time.epoch_seconds()
    );
    let keys = [Some(&change.key.partition), change.key.sort.as_ref()].into_iter().flatten();
    let keys: Item = keys.map(|key| (key.name.to_string().into(), key.value.clone())).collect();
    write_item(&keys, &mut json);
    for (name, image) in [("NewImage", &change.new), ("OldImage", &change.old)] {
        if let Some(image) = image {
            write!(json, ",\"{name}\":").unwrap();
            write_item(image, &mut json);
        }
    }
    write!(
        json,
        ",\"SequenceNumber\":\"{sequence_number}\",\"SizeBytes\":100,\"StreamViewType\":\"NEW_AND_OLD_IMAGES\"}},\
         \"eventSourceARN\":\"arn:aws:dynamodb:eu-central-1:123456789012:table/{table}/stream/{}\"",
        stream.label
    )
    .unwrap();
    if change.is_expiry {
        json.push_str(",\"userIdentity\":{\"type\":\"Service\",\"principalId\":\"dynamodb.amazonaws.com\"}");
    }
    json.push('}');
    StreamRecord {
        table,
        partition,
        sort,
        label: stream.label.clone(),
        sequence_number,
        created_at: Timestamp::from_epoch_seconds(change.time.epoch_seconds()),
        old: change.old,
        new: change.new,
        is_expiry: change.is_expiry,
        json,
        malformed: None,
        first_counted_at: None,
    }
}

fn write_item(item: &Item, json: &mut String) {
    json.push('{');
    for (position, (name, value)) in item.iter().enumerate() {
        let comma = if position > 0 { "," } else { "" };
        write!(json, "{comma}\"{name}\":").unwrap();
        write_value(value, json);
    }
    json.push('}');
}

fn write_value(value: &AttributeValue<'_>, json: &mut String) {
    match value {
        AttributeValue::S(text) => write!(json, "{{\"S\":\"{text}\"}}").unwrap(),
        AttributeValue::N(number) => write!(json, "{{\"N\":\"{number}\"}}").unwrap(),
        AttributeValue::Bool(value) => write!(json, "{{\"BOOL\":{value}}}").unwrap(),
        AttributeValue::M(map) => {
            let map: Item = map
                .iter()
                .map(|(name, value)| (name.to_string().into(), value.clone().into_owned()))
                .collect();
            json.push_str("{\"M\":");
            write_item(&map, json);
            json.push('}');
        }
        other => panic!("the simulation's items have no values of type {}", other.type_name()),
    }
}

/// The two source tables.
pub(crate) const TABLES: [&str; 2] = [MAIN, EVENTS];
