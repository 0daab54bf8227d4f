//! The measure `latest`, against an oracle that sorts: records in any cut and twice, ties, deletions, a backfill, and damage that an operator mends.

use std::collections::BTreeMap;
use std::fs;
use std::sync::Arc;

use afterwrite_functions::StreamAggregator;
use afterwrite_ledger::Ledger;
use afterwrite_local::dynamodb::{EmbeddedDynamoDb, KeyDefinition, TableDefinition as LocalTable};
use afterwrite_memory::{MEMORY_STREAM_LABEL, MemoryTables, TableDefinition};
use afterwrite_model::clock::Clock as _;
use afterwrite_model::record::{AttributeValue, Decimal, Item, Timestamp};
use afterwrite_model::table::Model;
use afterwrite_tests::change_record::change_record;
use afterwrite_tests::clock::StillClock;
use afterwrite_tests::deployment::event;
use afterwrite_tests::programs::embedded_afterwrite;
use afterwrite_tests::random::SeededRandom;
use aws_sdk_dynamodb::types::AttributeValue as SdkValue;
use serde_json::Value;
use tempfile::TempDir;

use super::world::{STATE, item_of, sdk_item};

const TABLE: &str = "Parcels";

const MODEL: &str = r##"
name = "parcels"
generation = 1
tables.Parcels.key = ["pk", "sk"]

[entities.parcel]
key = { pk = "CUSTOMER#{customer}", sk = "PARCEL#{parcel}" }
attributes = { status = "S", weight = "N", changed_at = "N", day = "S" }

[rollups.customer]
key = { PK = "CUSTOMER#{customer}", SK = "ROLLUP" }

[[aggregates]]
name = "parcels"
of = "parcel"
into = "customer"
[aggregates.measures]
parcels = "count"
last_status = { latest = "status", by = "changed_at" }
last_weight = { latest = "weight", by = "day", when.weight = [{ numeric = [">", 0] }] }
"##;

/// A version of a parcel: customer, parcel, status, weight, time and day.
type Parcel = (u64, u64, &'static str, i64, i64, u64);

/// By `PK` of the customer: the last status and the last weight.
type ShownValues = BTreeMap<String, (Option<String>, Option<i64>)>;

const STATUSES: [&str; 4] = ["OPEN", "SENT", "LOST\tFOUND", ""];

fn parcel(random: &mut SeededRandom) -> Parcel {
    let status = *random.pick(&STATUSES).unwrap();
    let number = |random: &mut SeededRandom, below| i64::try_from(random.below(below)).unwrap();
    let (weight, time) = (number(random, 5) - 1, number(random, 30) * 37 - 400);
    (random.below(3), random.below(6), status, weight, time, random.below(9))
}

fn item((customer, parcel, status, weight, time, day): Parcel) -> Item {
    let text = |text: String| AttributeValue::text(text);
    let number = |number: i64| AttributeValue::N(Decimal::from(number));
    [
        ("pk", text(format!("CUSTOMER#{customer}"))),
        ("sk", text(format!("PARCEL#{parcel}"))),
        ("status", text(status.to_owned())),
        ("weight", number(weight)),
        ("changed_at", number(time)),
        ("day", text(format!("2026-02-0{day}"))),
    ]
    .into_iter()
    .map(|(name, value)| (name.into(), value))
    .collect()
}

/// The status and the weight that each customer's rollup must show: of the versions that were ever written, those that sort last.
fn oracle(versions: &[Parcel]) -> ShownValues {
    let mut expected = BTreeMap::new();
    for customer in versions.iter().map(|version| version.0) {
        let of_customer = versions.iter().filter(|version| version.0 == customer);
        let status =
            of_customer.clone().max_by_key(|(_, parcel, status, _, time, _)| (*time, *parcel, *status));
        let weights = of_customer.filter(|version| version.3 > 0);
        let weight = weights.max_by_key(|(_, parcel, _, weight, _, day)| (*day, *parcel, *weight));
        let shown = (status.map(|status| status.2.to_owned()), weight.map(|weight| weight.3));
        expected.insert(format!("CUSTOMER#{customer}"), shown);
    }
    expected
}

fn shown(rollups: &[Item]) -> ShownValues {
    let rollups =
        rollups.iter().filter(|item| item.get("SK").and_then(AttributeValue::as_text) == Some("ROLLUP"));
    let shown = rollups.map(|item| {
        let text = |name: &str| item.get(name).and_then(AttributeValue::as_text).map(ToOwned::to_owned);
        let weight = item.get("last_weight").and_then(AttributeValue::as_number).and_then(Decimal::to_i64);
        (text("PK").unwrap(), (text("last_status"), weight))
    });
    shown.collect()
}

/// Writes and deletes parcels; returns the versions that were written, and the records of the stream.
fn write_parcels(tables: &MemoryTables, random: &mut SeededRandom) -> (Vec<Parcel>, Vec<Value>) {
    let mut versions = Vec::new();
    for _ in 0..40 {
        let version = parcel(random);
        if random.chance(150) {
            // A deletion takes nothing back; some of these parcels do not exist.
            drop(tables.delete(&tables.key_of(TABLE, &item(version)).unwrap()));
        } else {
            tables.put(TABLE, item(version)).unwrap();
            versions.push(version);
        }
    }
    let stream = format!("arn:aws:dynamodb:eu-west-1:1:table/{TABLE}/stream/{MEMORY_STREAM_LABEL}");
    // Sequence numbers are above 0, which stands for the start of a stream.
    let changes = tables.take_changes(TABLE).into_iter().enumerate();
    let records = changes
        .map(|(number, change)| change_record(&stream, &format!("{:021}", number + 1), &change))
        .collect();
    (versions, records)
}

#[test]
fn the_latest_value_is_that_of_an_oracle() {
    let clock: &'static StillClock =
        Box::leak(Box::new(StillClock::at(Timestamp::from_epoch_seconds(1_770_400_000))));
    let model = Arc::new(Model::parse(MODEL, "m.toml").unwrap_or_else(|errors| panic!("{errors}")));
    for seed in 0..60 {
        let mut random = SeededRandom::new(seed);
        let tables = MemoryTables::new();
        tables.create_table(TableDefinition::new(STATE, "PK").sort("SK"));
        tables.create_table(TableDefinition::new(TABLE, "pk").sort("sk").streamed());
        // Records of long ago would be reconciled, and their images not seen.
        tables.set_time(clock.now());
        let (tables, names) = (Arc::new(tables), vec![Arc::from(TABLE)]);
        let ledger = Ledger::new(Arc::clone(&model), names, Arc::from(STATE), Arc::clone(&tables), clock);
        let aggregator = StreamAggregator::new(ledger);
        let (versions, records) = write_parcels(&tables, &mut random);
        let mut rest = records.as_slice();
        while !rest.is_empty() {
            let (batch, after) = rest.split_at(rest.len().min(1 + usize::try_from(random.below(7)).unwrap()));
            let payload = event(batch);
            let handled = aggregator.handle(payload.as_bytes(), Timestamp::from_epoch_ms(i64::MAX));
            let handled = futures::executor::block_on(handled).unwrap();
            assert!(handled.failures.is_empty() && handled.parked.is_empty(), "seed {seed}");
            // Some batches are delivered twice.
            rest = if random.chance(800) { after } else { rest };
        }
        assert_eq!(shown(&MemoryTables::scan(&tables, STATE)), oracle(&versions), "seed {seed}");
    }
}

/// Parcels on an embedded DynamoDB, which an operator counts with the release binaries.
struct ParcelTable {
    dynamodb: EmbeddedDynamoDb,
    folder: TempDir,
}

impl ParcelTable {
    async fn start() -> Self {
        let dynamodb = EmbeddedDynamoDb::start().await.unwrap();
        dynamodb.create_table(&LocalTable::state(STATE)).await.unwrap();
        let key = KeyDefinition::new("pk", "sk");
        let source = LocalTable { name: TABLE.to_owned(), key, stream: true, ..LocalTable::default() };
        dynamodb.create_table(&source).await.unwrap();
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("model.toml"), MODEL).unwrap();
        Self { dynamodb, folder }
    }

    /// Writes parcels, each once; returns them.
    async fn write(&self, random: &mut SeededRandom) -> Vec<Parcel> {
        let parcels = (0..30).map(|_| parcel(random)).map(|version| ((version.0, version.1), version));
        let parcels: BTreeMap<(u64, u64), Parcel> = parcels.collect();
        for version in parcels.values() {
            let put = self.dynamodb.client().put_item().table_name(TABLE);
            put.set_item(Some(sdk_item(&item(*version)).into_iter().collect())).send().await.unwrap();
        }
        parcels.into_values().collect()
    }

    async fn delete_all(&self) {
        let pages = self.dynamodb.client().scan().table_name(TABLE).into_paginator().items().send();
        for mut item in pages.collect::<Result<Vec<_>, _>>().await.unwrap() {
            item.retain(|name, _| ["pk", "sk"].contains(&name.as_str()));
            let delete = self.dynamodb.client().delete_item().table_name(TABLE);
            delete.set_key(Some(item)).send().await.unwrap();
        }
    }

    /// Runs a command, which must end with this code.
    fn run(&self, code: i32, arguments: &[&str]) {
        let mut command = embedded_afterwrite(&self.dynamodb.endpoint(), STATE);
        command.current_dir(self.folder.path()).args(arguments).env("AFTERWRITE_MODEL", "model.toml");
        let output = tokio::task::block_in_place(|| command.output().unwrap());
        let text = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        assert_eq!(output.status.code(), Some(code), "{arguments:?}\n{}", text.concat());
    }

    /// Removes the findings about items from a report.
    fn keep_findings_of_rollups(&self, report: &str) {
        let path = self.folder.path().join(report);
        let lines = fs::read_to_string(&path).unwrap();
        let place = |line: &str| serde_json::from_str::<Value>(line).unwrap().get("place").cloned();
        let is_of_item = |line: &&str| place(line) == Some("extreme".into());
        // The first line has the number of the findings.
        let number = format!(",\"findings\":{}", lines.lines().count());
        let lines = lines.replace(&number, "");
        let (of_items, kept): (Vec<&str>, Vec<&str>) = lines.lines().partition(is_of_item);
        assert!(!of_items.is_empty() && !kept.is_empty(), "{lines}");
        fs::write(path, kept.join("\n") + "\n").unwrap();
    }

    async fn shown(&self) -> ShownValues {
        let pages = self.dynamodb.client().scan().table_name(STATE).into_paginator().items().send();
        let items: Vec<_> = pages.collect::<Result<_, _>>().await.unwrap();
        shown(&items.iter().map(item_of).collect::<Vec<_>>())
    }

    /// Changes or removes an attribute of a customer's rollup behind Afterwrite's back.
    async fn damage(&self, customer: &str, attribute: &str, value: Option<SdkValue>) {
        let update = self.dynamodb.client().update_item().table_name(STATE);
        let update = update.key("PK", SdkValue::S(customer.to_owned()));
        let update = update.key("SK", SdkValue::S("ROLLUP".to_owned()));
        let update = update.expression_attribute_names("#a", attribute);
        let update = match value {
            Some(value) => update.update_expression("SET #a = :v").expression_attribute_values(":v", value),
            None => update.update_expression("REMOVE #a"),
        };
        update.send().await.unwrap();
    }
}

/// A measure that another program has changed, of another type, or removed; and the attribute from which it follows.
fn damages() -> [(&'static str, Option<SdkValue>); 9] {
    let text = |text: &str| Some(SdkValue::S(text.to_owned()));
    [
        ("last_status", text("STOLEN")),
        ("last_weight", text("3")),
        ("last_status", None),
        ("last_weight_seen", None),
        ("last_status_seen", text("0")),
        // Texts that are above those of all items, and are not made of a time, a key and a value.
        ("last_status_seen", text("zone2")),
        ("last_status_seen", text("9999\tCUSTOMER")),
        ("last_weight_seen", text("9999-12-31\tone\tweight")),
        ("last_weight_seen", Some(SdkValue::N("5".to_owned()))),
    ]
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the release binaries: run tests/run"]
async fn the_latest_value_is_filled_judged_and_mended() {
    let table = ParcelTable::start().await;
    let expected = oracle(&table.write(&mut SeededRandom::new(7)).await);
    let verify = ["verify", "--tolerance", "0", "--report", "drift.jsonl"];
    table.run(0, &["backfill", "--yes", "--without-recovery"]);
    assert_eq!(table.shown().await, expected);
    table.run(0, &verify);
    // One of each customer at a time.
    for damages in damages().chunks(expected.len()) {
        for (customer, (attribute, value)) in expected.keys().zip(damages) {
            table.damage(customer, attribute, value.clone()).await;
        }
        table.run(1, &verify);
        let report = fs::read_to_string(table.folder.path().join("drift.jsonl")).unwrap();
        assert!(expected.keys().all(|customer| report.contains(customer)), "{damages:?}\n{report}");
        table.run(0, &["repair", "drift.jsonl", "--yes", "--without-recovery", "--tolerance", "0"]);
        table.run(0, &verify);
        assert_eq!(table.shown().await, expected, "{damages:?}");
    }
    let beyond_all = Some(SdkValue::S("zone2".to_owned()));
    // A repair that knows the rollup alone, as of a sample without its items, leaves the value; a backfill of all items sees them again.
    table.damage("CUSTOMER#1", "last_status_seen", beyond_all.clone()).await;
    table.run(1, &verify);
    table.keep_findings_of_rollups("drift.jsonl");
    table.run(0, &["repair", "drift.jsonl", "--yes", "--without-recovery", "--tolerance", "0"]);
    assert_eq!(table.shown().await, expected);
    table.damage("CUSTOMER#1", "last_status_seen", beyond_all).await;
    table.run(0, &["backfill", "--all", "--yes", "--without-recovery"]);
    assert_eq!(table.shown().await, expected);
    table.run(0, &verify);
    table.dynamodb.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the release binaries: run tests/run"]
async fn a_latest_value_that_no_item_has_any_more_is_judged_by_its_second_attribute_alone() {
    let table = ParcelTable::start().await;
    table.write(&mut SeededRandom::new(7)).await;
    table.run(0, &["backfill", "--yes", "--without-recovery"]);
    table.delete_all().await;
    table.run(0, &["backfill", "--yes", "--without-recovery"]);
    let verify = ["verify", "--tolerance", "0", "--report", "drift.jsonl"];
    table.run(0, &verify);
    let named = || fs::read_to_string(table.folder.path().join("drift.jsonl")).unwrap();
    for (damaged, is_undecided) in [("last_weight_seen", true), ("last_weight", false)] {
        table.damage("CUSTOMER#1", damaged, None).await;
        table.run(i32::from(is_undecided), &verify);
        assert_eq!(named().contains("`last_weight` has a value"), is_undecided, "{}", named());
    }
    // A text of the right form may be of an item that was deleted: the measure follows it.
    table.damage("CUSTOMER#1", "last_status_seen", Some(SdkValue::S("9999\tkey\tSLOST".to_owned()))).await;
    table.run(1, &verify);
    table.run(0, &["repair", "drift.jsonl", "--yes", "--without-recovery", "--tolerance", "0"]);
    table.run(0, &verify);
    let shown = table.shown().await;
    assert!(shown.values().any(|(status, _)| status.as_deref() == Some("LOST")), "{shown:?}");
    table.dynamodb.stop().await.unwrap();
}
