//! Turns the changes of the tables into stream records in shards, as Lambda delivers them.
//!
//! The records of an item are in one shard, in order. A re-created stream has a new label, new shards, and sequence
//! numbers that start again. The remaining records of the old stream are still delivered, before or after. A shard that is
//! split is closed and continued by two children, whose records are delivered after all of its own.

use std::fmt::{self, Write as _};

use afterwrite_memory::ItemChange;
use afterwrite_model::record::{AttributeValue, Item, Timestamp};
use afterwrite_tests::random::SeededRandom;

use super::options::RunOptions;
use super::oracle::{ItemKind, item_kind};
use super::source_rollups::SourceRollup;
use super::store::{EVENTS, MAIN, METERS, STATE, key_text};

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

    /// The JSON of a delivery that damaged it: nothing but its item and its position can be read.
    pub(crate) fn damaged(&self) -> String {
        self.json.replace("\"eventName\":\"", "\"eventName\":\"X")
    }

    /// The same, but the item cannot be read either.
    pub(crate) fn damaged_without_item(&self) -> String {
        self.damaged().replace("\"Keys\":{", "\"Keys\":{},\"X\":{")
    }

    /// The source rollup of a record of the state table.
    pub(crate) fn source(&self) -> Option<SourceRollup> {
        match item_kind(self.table, &self.partition, self.sort.as_deref()) {
            ItemKind::Rollup(source) => Some(source),
            _ => None,
        }
    }

    /// Whether the record is malformed, and a corrected decoder reads it: the expiry of an item that remains counted. Such an
    /// expiry changes no mirrored value. (If a process counts another malformed record and crashes, an earlier decoder acknowledges
    /// it without refreshing the mirrors that it cannot name.)
    pub(crate) fn is_corrected(&self) -> bool {
        let kind = item_kind(self.table, &self.partition, self.sort.as_deref());
        self.malformed.is_some() && self.is_expiry && kind.is_kept()
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
    /// The shard that this one continues.
    pub(crate) parent: Option<usize>,
}

/// A shard that takes new records: those of items whose hash leaves this remainder.
#[derive(Clone, Copy, Debug)]
struct OpenShard {
    shard: usize,
    modulus: u64,
    remainder: u64,
}

/// The current stream of one table.
#[derive(Debug)]
struct TableStream {
    label: String,
    next: u128,
    open: Vec<OpenShard>,
}

/// All streams of a run.
#[derive(Debug)]
pub(crate) struct StreamSet {
    pub(crate) records: Vec<StreamRecord>,
    pub(crate) shards: Vec<StreamShard>,
    streams: [TableStream; STREAMED.len()],
    /// Malformed records, per thousand.
    malformed: u64,
    /// Malformed expiries, per thousand.
    malformed_expiries: u64,
    /// The shards of a new stream.
    new_shards: u64,
}

impl StreamSet {
    pub(crate) fn new(now: Timestamp, options: &RunOptions, random: &mut SeededRandom) -> Self {
        let mut shards = Vec::new();
        let streams = [(); STREAMED.len()].map(|()| create(now, options.shards, random, &mut shards));
        Self {
            records: Vec::new(),
            shards,
            streams,
            malformed: options.malformed,
            malformed_expiries: options.malformed_expiries,
            new_shards: options.shards,
        }
    }

    /// Disables the table's stream and enables it again.
    pub(crate) fn recreate(&mut self, table: &str, now: Timestamp, random: &mut SeededRandom) {
        self.streams[table_index(table)] = create(now, self.new_shards, random, &mut self.shards);
    }

    /// Closes one of the table's shards; two children continue it.
    pub(crate) fn split(&mut self, table: &str, random: &mut SeededRandom) {
        let open = &mut self.streams[table_index(table)].open;
        let chosen = usize::try_from(random.below(u64::try_from(open.len()).unwrap())).unwrap();
        let OpenShard { shard: parent, modulus, remainder } = open.swap_remove(chosen);
        for remainder in [remainder, remainder + modulus] {
            open.push(OpenShard { shard: self.shards.len(), modulus: 2 * modulus, remainder });
            self.shards.push(StreamShard { parent: Some(parent), ..StreamShard::default() });
        }
    }

    /// Whether a reader that has read this much of each shard may read the shard: parents come first.
    pub(crate) fn is_readable(&self, shard: usize, read: impl Fn(usize) -> usize) -> bool {
        let parent = self.shards[shard].parent;
        parent.is_none_or(|parent| {
            read(parent) == self.shards[parent].records.len() && self.is_readable(parent, read)
        })
    }

    /// The label of a table's current stream.
    pub(crate) fn label(&self, table: &str) -> &str {
        &self.streams[table_index(table)].label
    }

    /// Appends the changes whose records the filter passes.
    pub(crate) fn append(
        &mut self,
        table: &'static str,
        changes: Vec<ItemChange>,
        passes: impl Fn(&StreamRecord) -> bool,
        random: &mut SeededRandom,
    ) {
        for change in changes {
            let stream = &mut self.streams[table_index(table)];
            stream.next += 1 + u128::from(random.below(3));
            let mut record = record(table, stream, change);
            if !passes(&record) {
                continue;
            }
            let malformed = if record.is_expiry { self.malformed_expiries } else { self.malformed };
            if random.chance(malformed) {
                // Without a position, a record cannot be parked: it fails.
                let fields = ["\"eventName\":\"", "\"SequenceNumber\":\""];
                let is_parkable = record.is_expiry && random.chance(500);
                let field = if is_parkable { fields[0] } else { random.pick(&fields).copied().unwrap_or("") };
                record.malformed = Some(record.json.replace(field, &format!("{field}X")));
            }
            let hash = record.partition.bytes().chain(record.sort.iter().flat_map(|sort| sort.bytes()));
            let hash = hash.fold(7_u64, |hash, byte| hash.wrapping_mul(31).wrapping_add(u64::from(byte)));
            let is_its = |open: &&OpenShard| hash % open.modulus == open.remainder;
            let shard = stream.open.iter().find(is_its).expect("the shards cover all hashes").shard;
            self.shards[shard].records.push(self.records.len());
            self.records.push(record);
        }
    }

    /// Whether all records have been delivered.
    pub(crate) fn is_drained(&self) -> bool {
        self.shards.iter().all(|shard| shard.checkpoint == shard.records.len())
    }

    /// The event with these records. Of the malformed ones, those are valid that `is_malformed` does not select.
    pub(crate) fn event(&self, records: &[usize], is_malformed: impl Fn(&StreamRecord) -> bool) -> String {
        let json = |record: &usize| {
            let record = &self.records[*record];
            record.malformed.as_ref().filter(|_| is_malformed(record)).unwrap_or(&record.json).as_str()
        };
        format!("{{\"Records\":[{}]}}", records.iter().map(json).collect::<Vec<_>>().join(","))
    }
}

fn create(
    now: Timestamp,
    modulus: u64,
    random: &mut SeededRandom,
    shards: &mut Vec<StreamShard>,
) -> TableStream {
    // Near a power of ten, so that sequence numbers of different lengths occur.
    let next = 10_u128.pow(21) - u128::from(random.below(60));
    let open = (0..modulus).map(|remainder| {
        shards.push(StreamShard::default());
        OpenShard { shard: shards.len() - 1, modulus, remainder }
    });
    TableStream { label: format!("{now}").replace('Z', ".000"), next, open: open.collect() }
}

fn table_index(table: &str) -> usize {
    STREAMED.iter().position(|known| *known == table).expect("a table with a stream")
}

fn record(table: &'static str, stream: &TableStream, change: ItemChange) -> StreamRecord {
    let partition = key_text(&change.key.partition.value);
    let sort = change.key.sort.as_ref().map(|sort| key_text(&sort.value));
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
        // Contributions of ledger entries are texts of JSON.
        AttributeValue::S(text) => write!(json, "{{\"S\":{}}}", serde_json::json!(text)).unwrap(),
        AttributeValue::N(number) => write!(json, "{{\"N\":\"{number}\"}}").unwrap(),
        AttributeValue::B(_) => write!(json, "{{\"B\":\"{}\"}}", key_text(value)).unwrap(),
        AttributeValue::Null => json.push_str("{\"NULL\":true}"),
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
        AttributeValue::L(values) => {
            json.push_str("{\"L\":[");
            for (position, value) in values.iter().enumerate() {
                json.push_str(if position > 0 { "," } else { "" });
                write_value(value, json);
            }
            json.push_str("]}");
        }
        AttributeValue::Ss(texts) => {
            let texts: Vec<String> = texts.iter().map(|text| format!("\"{text}\"")).collect();
            write!(json, "{{\"SS\":[{}]}}", texts.join(",")).unwrap();
        }
        other => panic!("the simulation's items have no values of type {}", other.type_name()),
    }
}

/// The application's tables.
pub(crate) const TABLES: [&str; 3] = [MAIN, EVENTS, METERS];
/// The tables whose streams are read, in the order of the model.
pub(crate) const STREAMED: [&str; 4] = [MAIN, EVENTS, METERS, STATE];
