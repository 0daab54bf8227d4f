//! Source keys of the maximum length. The ledger's keys contain them and would be longer, so they are truncated and
//! hashed, and still distinguish items and expiries.

use std::collections::BTreeSet;

use afterwrite_functions::StreamAggregator;
use afterwrite_memory::MemoryTables;
use afterwrite_model::record::{AttributeValue, Timestamp};
use afterwrite_tests::clock::StillClock;
use afterwrite_tests::deployment::event;
use afterwrite_tests::replay::STATE;
use serde_json::{Value, json};

use super::platform::{TABLE, aggregator, counted, expiry, item, record, tables};

/// DynamoDB's limits on key values, in bytes.
const PARTITION_BYTES: usize = 2_048;
const SORT_BYTES: usize = 1_024;
/// Characters of one byte and of two bytes: a truncation may fall into the middle of a character.
const FILLERS: [char; 2] = ['x', 'ü'];

/// The longest keys of an attempt; they differ only in their last characters.
fn longest_keys(filler: char, [partition_end, sort_end]: [char; 2]) -> (String, String) {
    let fill = |beginning: &str, end: char, bytes: usize| {
        let room = bytes - beginning.len() - end.len_utf8();
        let (filling, odd) = (room / filler.len_utf8(), room % filler.len_utf8());
        format!("{beginning}{}{}{end}", "-".repeat(odd), filler.to_string().repeat(filling))
    };
    let keys = (fill("CANDIDATE#", partition_end, PARTITION_BYTES), fill("ATTEMPT#", sort_end, SORT_BYTES));
    assert_eq!((keys.0.len(), keys.1.len()), (PARTITION_BYTES, SORT_BYTES));
    keys
}

fn borrowed((partition, sort): &(String, String)) -> (&str, &str) {
    (partition, sort)
}

/// An attempt's attributes.
fn attempt(status: &str) -> Value {
    json!({
        "project_id": { "S": "p1" },
        "started_at": { "S": "2026-02-06T14:30:00Z" },
        "status": { "S": status },
    })
}

/// An aggregator that counts a project's attempts.
struct AttemptCounter(StreamAggregator<MemoryTables, StillClock>);

impl AttemptCounter {
    fn new() -> Self {
        let tables = tables();
        tables.put(TABLE, item("ADMIN#a1", "PROJECT#p1", "PROJECT#p1")).expect("a project");
        Self(aggregator(tables))
    }

    async fn deliver(&self, records: &[Value]) {
        let event = event(records);
        let handled = self.0.handle(event.as_bytes(), Timestamp::from_epoch_ms(i64::MAX)).await;
        assert!(handled.expect("an event").failures.is_empty());
    }

    /// The number of counted attempts, and of completed ones.
    fn counted(&self) -> (i64, i64) {
        let state = self.0.ledger().tables().scan(STATE);
        let count = |measure| counted(&state, ("ADMIN#a1", "ROLLUP#TOTAL"), measure).unwrap_or(0);
        (count("attempts"), count("completed"))
    }

    /// The keys of the ledger entries and markers.
    fn ledger(&self) -> BTreeSet<(String, String)> {
        let state = self.0.ledger().tables().scan(STATE);
        let text = |item: &afterwrite_model::record::Item, name: &str| {
            item.get(name).and_then(AttributeValue::as_text).unwrap_or_default().to_owned()
        };
        let keys = state.iter().map(|item| (text(item, "PK"), text(item, "SK")));
        keys.filter(|(partition, _)| partition.starts_with("LEDGER#")).collect()
    }
}

#[tokio::test]
async fn an_item_with_long_keys_counts_once_through_changes_expiries_and_redeliveries() {
    for filler in FILLERS {
        let attempts = AttemptCounter::new();
        let keys = longest_keys(filler, ['1', '1']);
        let keys = borrowed(&keys);
        let (started, completed) = (attempt("IN_PROGRESS"), attempt("COMPLETED"));
        // An item that TTL deletes remains counted, and a new item with its key counts again.
        let changes = [
            (record(1, keys, None, Some(&started)), (1, 0)),
            (record(2, keys, Some(&started), Some(&completed)), (1, 1)),
            (expiry(3, keys, &completed), (1, 1)),
            (record(4, keys, None, Some(&started)), (2, 1)),
            (expiry(5, keys, &started), (2, 1)),
        ];
        for (record, counted) in &changes {
            for _ in 0..2 {
                attempts.deliver(std::slice::from_ref(record)).await;
                assert_eq!(attempts.counted(), *counted, "{filler}: after {record}");
            }
        }
        for (record, _) in &changes {
            attempts.deliver(std::slice::from_ref(record)).await;
        }
        let all: Vec<Value> = changes.into_iter().map(|(record, _)| record).collect();
        attempts.deliver(&all).await;
        assert_eq!(attempts.counted(), (2, 1), "{filler}: all records again");
        // An entry and two markers.
        let ledger = attempts.ledger();
        assert_eq!(ledger.len(), 3, "{filler}: {ledger:?}");
        assert!(ledger.iter().all(|(partition, _)| partition.contains("#SHA256#")), "{filler}: {ledger:?}");
        let hashed = ledger.iter().filter(|(_, sort)| sort.contains("#SHA256#")).count();
        assert_eq!(hashed, 2, "{filler}: a marker's sort key is longer than its item's: {ledger:?}");
    }
}

#[tokio::test]
async fn long_keys_that_differ_in_the_last_byte_are_different_items() {
    for filler in FILLERS {
        let attempts = AttemptCounter::new();
        let ends = [['1', '1'], ['1', '2'], ['2', '1'], ['2', '2']];
        let all = ends.map(|ends| longest_keys(filler, ends));
        let image = attempt("COMPLETED");
        let created = |(number, keys)| record(number, borrowed(keys), None, Some(&image));
        let mut records: Vec<Value> = (1..).zip(&all).map(created).collect();
        attempts.deliver(&records).await;
        assert_eq!(attempts.counted(), (4, 4), "{filler}: four attempts");
        // Each expiry has its own marker. With a shared marker, the item would be subtracted.
        for (number, keys) in (5..).zip(&all) {
            records.push(expiry(number, borrowed(keys), &image));
            attempts.deliver(&records[records.len() - 1..]).await;
            assert_eq!(attempts.counted(), (4, 4), "{filler}: TTL deleted {number}");
        }
        assert_eq!(attempts.ledger().len(), 8, "{filler}: an entry and a marker each");
        records.extend((9..).zip(&all).map(created));
        attempts.deliver(&records[8..]).await;
        assert_eq!(attempts.counted(), (8, 8), "{filler}: four attempts again");
        // The application deletes one of them; the others remain counted.
        let [first, ..] = &all;
        records.push(record(13, borrowed(first), Some(&image), None));
        attempts.deliver(&records[12..]).await;
        assert_eq!(attempts.counted(), (7, 7), "{filler}: one is deleted");
        for record in &records {
            attempts.deliver(std::slice::from_ref(record)).await;
        }
        attempts.deliver(&records).await;
        assert_eq!(attempts.counted(), (7, 7), "{filler}: all records again");
    }
}
