//! Values, keys and models that the other tests do not have.

use std::collections::BTreeMap;
use std::sync::Arc;

use afterwrite_functions::StreamAggregator;
use afterwrite_model::entity::SourceKey;
use afterwrite_model::projection::{
    ItemContributions, KnownLookups, LookupKey, LookupOutputs, RecordImages, RollupTargets, ShardAssignment,
    StaleCaches, contributions, decode_old_image, rows,
};
use afterwrite_model::record::{Decimal, Image, Item, RecordDecoder, Timestamp};
use afterwrite_model::{Error, ErrorKind};
use afterwrite_tests::deployment::event;
use serde_json::json;

use super::models::{READINGS, SHOP, reading};
use super::observed::ObservedTables;
use super::world::{DEADLINE, EdgeWorld, NOW, STATE, TABLE, deliver_to, key, ledger, parsed, reconcile};

#[tokio::test]
async fn only_the_item_that_needs_a_rollup_with_an_impossible_key_is_parked() {
    let by_day = READINGS
        .replace("attributes = { value = \"N\" }", "attributes = { value = \"N\", day = \"S\" }")
        .replace("TOTAL#{sensor_id}", "DAY#{day}");
    let with_extremes = by_day
        .replace("total = { sum = \"value\" }", "total = { sum = \"value\" }, top = { max = \"value\" }");
    for model in [by_day, with_extremes] {
        let mut world = EdgeWorld::new(&model);
        for (sort, day) in [("READING#good", "d1".to_owned()), ("READING#bad", "x".repeat(2_100))] {
            world.put("SENSOR#s1", sort, json!({ "value": { "N": "3" }, "day": { "S": day } }));
        }
        let delivery = world.deliver().await;
        assert_eq!((delivery.failures.len(), delivery.parked.len()), (0, 1));
        assert_eq!(world.measure("DAY#d1", "ROLLUP", "total"), Some(3));
        assert!(world.entry("SENSOR#s1", "READING#bad", "behind").is_some());
    }
}

#[tokio::test]
async fn an_item_whose_key_does_not_match_its_table_is_not_reconciled() {
    let world = EdgeWorld::new(READINGS);
    let failures = reconcile(world.aggregator.ledger(), "SENSOR#s1", None).await.failures;
    let errors: Vec<_> = failures.iter().map(|failure| failure.error.to_string()).collect();
    assert!(errors.len() == 1 && errors[0].contains("does not match the key schema"), "{errors:?}");
}

#[tokio::test]
async fn a_rollup_has_the_time_of_the_newest_record_of_the_transaction_that_changed_it_last() {
    let mut world = EdgeWorld::new(READINGS);
    for sort in ["READING#r1", "READING#r2", "READING#r3"] {
        world.put("SENSOR#s1", sort, reading(1));
    }
    world.stream();
    for (record, seconds) in world.records.iter_mut().zip([3, 9, 5]) {
        record["dynamodb"]["ApproximateCreationDateTime"] = json!(NOW + seconds);
    }
    world.deliver_these(&world.records).await;
    let rollup = world.tables.get(&key(STATE, "TOTAL#s1", "ROLLUP")).expect("a rollup");
    let newest = Timestamp::from_epoch_seconds(NOW + 9).to_string();
    assert_eq!(rollup["updated_at"].as_text(), Some(&*newest));
}

#[tokio::test]
async fn an_entry_has_integers_as_numbers_and_only_what_is_counted() {
    let mut world = EdgeWorld::new(READINGS);
    world.put("SENSOR#s1", "READING#r1", reading(7));
    world.put("SENSOR#s1", "READING#r2", json!({ "value": { "N": "7.5" } }));
    world.settle().await;
    let entry = |sort: &str| world.entry("SENSOR#s1", sort, "contributions").expect("an entry");
    assert!(entry("READING#r1").contains("\"total\":7}"), "{}", entry("READING#r1"));
    assert!(entry("READING#r2").contains("\"total\":\"7.5\"}"), "{}", entry("READING#r2"));

    let maximum =
        SHOP.replace("books = \"count\", ", "").replace("\"stats.books\" = \"books\"", "d = \"dearest\"");
    let mut world = EdgeWorld::new(&maximum);
    world.put("SHOP#s1", "BOOK#b1", json!({ "price": { "N": "5" } }));
    world.settle().await;
    assert_eq!(world.entry("SHOP#s1", "BOOK#b1", "contributions").as_deref(), Some("[]"));
}

#[tokio::test]
async fn a_histogram_has_numbers_of_any_size() {
    let histogram =
        READINGS.replace("readings = \"count\"", "bin = { histogram = \"value\", width = 10, bins = 3 }");
    let mut world = EdgeWorld::new(&histogram);
    let huge = format!("1{}", "0".repeat(30));
    for (number, value) in [huge.clone(), format!("-{huge}"), huge].into_iter().enumerate() {
        world.put("SENSOR#s1", &format!("READING#r{number}"), json!({ "value": { "N": value } }));
    }
    world.settle().await;
    let bins = ["bin_00", "bin_10", "bin_20"].map(|bin| world.measure("TOTAL#s1", "ROLLUP", bin));
    assert_eq!(bins, [None, None, Some(2)]);
}

#[tokio::test]
async fn items_are_spread_over_the_shards_of_a_rollup_and_stay_where_they_are_counted() {
    let sharded = |shards: u32, generation: u32| {
        let sharded =
            READINGS.replace("SK = \"ROLLUP\" }", &format!("SK = \"ROLLUP\" }}\nshards = {shards}"));
        format!("generation = {generation}\n{sharded}")
    };
    let mut world = EdgeWorld::new(&sharded(4, 1));
    for number in 0..100 {
        world.put("SENSOR#s1", &format!("READING#r{number}"), reading(1));
    }
    world.settle().await;
    let counted = |world: &EdgeWorld| {
        [0, 1, 2, 3].map(|shard| world.measure(&format!("TOTAL#s1#SHARD#{shard}"), "ROLLUP", "readings"))
    };
    let before = counted(&world);
    assert!(before.iter().all(|readings| readings.is_some_and(|readings| readings >= 10)), "{before:?}");
    for number in 0..100 {
        world.put("SENSOR#s1", &format!("READING#r{number}"), reading(2));
    }
    world.stream();
    let tables = Arc::clone(&world.tables);
    let handled = deliver_to(&sharded(5, 2), tables, world.newest(100)).await.expect("an event");
    assert!(handled.failures.is_empty(), "{handled:?}");
    assert_eq!(counted(&world), before);
}

#[tokio::test]
async fn a_list_in_place_of_a_single_value_meets_no_condition_of_an_entity() {
    let live = READINGS.replace("attributes = {", "when.state = [\"LIVE\"]\nattributes = { state = \"S\",");
    let mut world = EdgeWorld::new(&live);
    world.put("SENSOR#s1", "READING#r1", json!({ "value": { "N": "1" }, "state": { "S": "LIVE" } }));
    let list = json!({ "L": [{ "S": "LIVE" }] });
    world.put("SENSOR#s1", "READING#r2", json!({ "value": { "N": "2" }, "state": list }));
    world.stream();
    let handled = deliver_to(&live, Arc::clone(&world.tables), &world.records).await.expect("an event");
    assert_eq!((handled.failures.len(), handled.parked.len(), handled.unmatched), (0, 0, 1));
    assert_eq!(world.measure("TOTAL#s1", "ROLLUP", "total"), Some(1));
}

#[tokio::test]
async fn a_part_of_a_text_that_does_not_match_is_absent() {
    let proctors = READINGS
        .replace(
            "attributes = { value = \"N\" }",
            "attributes = { value = \"N\", proctor = \"S\" }\nderive.proctor_id = { part = [\"proctor\", \"P#{proctor_id}#{rest}\"] }",
        )
        .replace("TOTAL#{sensor_id}", "TOTAL#{proctor_id}")
        .replace("into = \"sensor\"", "into = \"sensor\"\noptional = [\"proctor_id\"]");
    let mut world = EdgeWorld::new(&proctors);
    for (sort, proctor) in [("READING#r1", "P#p1#x"), ("READING#r2", "P#p2#")] {
        world.put("SENSOR#s1", sort, json!({ "value": { "N": "1" }, "proctor": { "S": proctor } }));
    }
    assert_eq!(world.deliver().await.parked, BTreeMap::new());
    let totals = ["TOTAL#p1", "TOTAL#p2"].map(|total| world.measure(total, "ROLLUP", "total"));
    assert_eq!(totals, [Some(1), None]);
}

#[tokio::test]
async fn the_members_of_a_map_are_not_counted_as_lines() {
    let lines = READINGS.replace("attributes = { value = \"N\" }", "attributes = { lines = \"any\" }").replace(
        "measures = { readings = \"count\", total = { sum = \"value\" } }",
        "for_each = { line = \"lines\" }\nat_most = 4\nmeasures = { total = { sum = \"line.quantity\" } }",
    );
    let mut world = EdgeWorld::new(&lines);
    let line = json!({ "M": { "quantity": { "N": "2" } } });
    world.put("SENSOR#s1", "READING#r1", json!({ "lines": { "L": [line] } }));
    world.put("SENSOR#s1", "READING#r2", json!({ "lines": { "M": { "quantity": { "N": "5" } } } }));
    // A line that adds nothing writes no rollup.
    let empty = json!({ "M": { "quantity": { "N": "0" } } });
    world.put("SENSOR#s2", "READING#r1", json!({ "lines": { "L": [empty] } }));
    world.settle().await;
    assert_eq!(world.measure("TOTAL#s1", "ROLLUP", "total"), Some(2));
    assert_eq!(world.tables.get(&key(STATE, "TOTAL#s2", "ROLLUP")), None);
}

/// Lookups of which nothing is known.
struct NothingKnown;

impl KnownLookups for NothingKnown {
    fn outputs(&self, _: &LookupKey<'_>) -> Option<&LookupOutputs> {
        None
    }
}

#[test]
fn an_unknown_lookup_by_primary_key_is_not_taken_for_absent() {
    let source = r##"
[entities.project]
key = { PK = "PROJECT#{project_id}", SK = "PROJECT" }
attributes = { owner = "S" }
[entities.task]
key = { PK = "TASK#{task_id}", SK = "TASK" }
attributes = { project_id = "S" }
[lookups.owner]
of = "project"
key = { PK = "PROJECT#{project_id}", SK = "PROJECT" }
gives = ["owner"]
[rollups.owner]
key = { PK = "OWNER#{owner}", SK = "ROLLUP" }
[[aggregates]]
name = "tasks"
of = "task"
lookup = "owner"
into = "owner"
measures = { tasks = "count" }
"##;
    let model = parsed(source);
    let source = SourceKey { table: 0, partition: "TASK#t1".into(), sort: Some("TASK".into()) };
    let candidates = source.candidates(&model);
    let item = Item::from([("project_id".into(), "p1".into())]);
    let image = Image::from_item(&item, &model.attributes);
    let sharding = ShardAssignment { source: &source, current: &ItemContributions::NOTHING };
    let mut targets = RollupTargets::of(&model);
    let projected = contributions(&model, &candidates, (&image, &[]), &NothingKnown, sharding, &mut targets);
    assert_eq!(projected.expect_err("no outputs").kind(), ErrorKind::Unavailable);
}

#[tokio::test]
async fn each_item_keeps_its_shard_of_each_rollup() {
    let model = READINGS
        .replace(
            "[rollups.sensor]\nkey = { PK = \"TOTAL#{sensor_id}\", SK = \"ROLLUP\" }",
            concat!(
                "[rollups.many]\nkey = { PK = \"MANY#{sensor_id}\", SK = \"ROLLUP\" }\nshards = 8\n",
                "[rollups.few]\nkey = { PK = \"FEW#{sensor_id}\", SK = \"ROLLUP\" }\nshards = 2",
            ),
        )
        .replace("into = \"sensor\"", "into = [\"many\", \"few\"]");
    let mut world = EdgeWorld::new(&model);
    for value in [1, 2] {
        for number in 0..30 {
            world.put("SENSOR#s1", &format!("READING#r{number}"), reading(value));
        }
        world.settle().await;
        let total = |rollup: &str, shards: usize| {
            let shard = |shard| world.measure(&format!("{rollup}#s1#SHARD#{shard}"), "ROLLUP", "total");
            (0..shards).filter_map(shard).sum::<i64>()
        };
        assert_eq!((total("MANY", 8), total("FEW", 2)), (30 * value, 30 * value));
    }
}

#[tokio::test]
async fn a_rollup_of_two_templates_is_shown_although_the_other_was_counted_first() {
    let model = r##"
[entities.shop]
key = { PK = "SHOP#{shop_id}", SK = "SHOP" }
[entities.book]
key = { PK = "SHOP#{shop_id}", SK = "BOOK#{book_id}" }
attributes = { kind = "S" }
[entities.toy]
key = { PK = "SHOP#{shop_id}", SK = "TOY#{toy_id}" }
[rollups.kind]
key = { PK = "SHOP#{shop_id}", SK = "KIND#{kind}" }
[rollups.all]
key = { PK = "SHOP#{shop_id}", SK = "KIND#all" }
[[aggregates]]
name = "books"
of = "book"
into = "kind"
measures = { books = "count" }
[[aggregates]]
name = "toys"
of = "toy"
into = "all"
measures = { toys = "count" }
[[mirrors]]
onto = "shop"
from = "all"
attributes = { toys = "toys" }
"##;
    let mut world = EdgeWorld::new(model);
    world.put("SHOP#s1", "SHOP", json!({}));
    world.settle().await;
    world.put("SHOP#s1", "BOOK#b1", json!({ "kind": { "S": "all" } }));
    world.put("SHOP#s1", "TOY#t1", json!({}));
    world.settle().await;
    assert_eq!(world.measure("SHOP#s1", "KIND#all", "books"), Some(1));
    assert_eq!(world.shown("SHOP#s1", "SHOP", "toys"), Some(1));
}

#[tokio::test]
async fn an_item_of_an_entity_with_a_more_literal_key_gets_no_mirror() {
    let model = r##"
[entities.book]
key = { PK = "SHOP#{shop_id}", SK = "BOOK#{book_id}" }
[entities.thing]
key = { PK = "SHOP#{shop_id}", SK = "{thing_id}" }
[entities.sale]
key = { PK = "SALE#{sale_id}", SK = "SALE" }
attributes = { shop_id = "S", thing_id = "S" }
[rollups.thing]
key = { PK = "SOLD#{shop_id}", SK = "THING#{thing_id}" }
[[aggregates]]
name = "sales"
of = "sale"
into = "thing"
measures = { sales = "count" }
[[mirrors]]
onto = "thing"
from = "thing"
attributes = { sales = "sales" }
"##;
    let mut world = EdgeWorld::new(model);
    for sort in ["BOOK#b1", "t1"] {
        world.put("SHOP#s1", sort, json!({}));
    }
    world.settle().await;
    for (sale, thing) in [("SALE#1", "BOOK#b1"), ("SALE#2", "t1")] {
        world.put(sale, "SALE", json!({ "shop_id": { "S": "s1" }, "thing_id": { "S": thing } }));
    }
    world.settle().await;
    let shown = ["BOOK#b1", "t1"].map(|sort| world.shown("SHOP#s1", sort, "sales"));
    assert_eq!(shown, [None, Some(1)]);
}

#[tokio::test]
async fn the_report_of_a_mirror_that_cannot_be_written_names_its_key_only_if_the_operator_allows_it() {
    for names_keys in [false, true] {
        let mut world = EdgeWorld::new(SHOP);
        world.put("SHOP#s1", "SHOP", json!({ "stats": { "S": "many" } }));
        world.put("SHOP#s1", "BOOK#b1", json!({ "price": { "N": "5" } }));
        world.stream();
        let ledger = ledger(parsed(SHOP), Arc::clone(&world.tables));
        let aggregator = StreamAggregator::new(ledger.naming_keys(names_keys));
        let handled = aggregator.handle(event(&world.records).as_bytes(), DEADLINE).await.expect("an event");
        let reports: Vec<_> = handled.unwritable_mirrors.iter().map(Error::to_string).collect();
        assert_eq!((handled.failures.len(), reports.len()), (0, 1), "{reports:?}");
        assert_eq!(reports[0].contains("SHOP#s1"), names_keys, "{reports:?}");
    }
}

#[tokio::test]
async fn a_foreign_copy_is_replaced_by_the_rollup_as_it_is_by_then() {
    let model = SHOP.replace("stats.books", "shown");
    let mut world = EdgeWorld::new(&model);
    world.put("SHOP#s1", "SHOP", json!({}));
    world.put("SHOP#s1", "BOOK#b1", json!({ "price": { "N": "5" } }));
    world.settle().await;
    let mut shop = world.item("SHOP#s1", "SHOP").expect("a shop");
    for name in ["shown", "shown_rev"] {
        shop.insert(name.into(), Decimal::from(500_i64).into());
    }
    world.tables.put(TABLE, shop).expect("a shop");
    world.stream();
    let observed = ObservedTables::changing_before(&world.tables, ("write", TABLE), |tables| {
        let mut rollup = tables.get(&key(STATE, "SHOP#s1", "ROLLUP")).expect("a rollup");
        for name in ["books", "rev"] {
            rollup.insert(name.into(), Decimal::from(2_i64).into());
        }
        tables.put(STATE, rollup).expect("a rollup");
    });
    let restored = world.newest(1).to_vec();
    let handled = deliver_to(&model, observed, &restored).await.expect("an event");
    assert!(handled.failures.is_empty(), "{handled:?}");
    assert_eq!(world.shown("SHOP#s1", "SHOP", "shown"), Some(2));
}

#[test]
fn a_day_has_a_partition_only_if_it_is_of_a_year_with_four_digits() {
    let source = r##"
[entities.visit]
key = { PK = "SHOP#{shop_id}", SK = "VISIT#{visit_id}" }
attributes = { at = "N" }
[datasets.visits]
of = "visit"
partition = "at:day"
columns = { shop_id = "string" }
"##;
    let model = parsed(source);
    let day = |attributes: &str| {
        let keys = r#""PK":{"S":"SHOP#s1"},"SK":{"S":"VISIT#v1"}"#;
        let arn = format!("arn:aws:dynamodb:eu-west-1:1:table/{TABLE}/stream/2026-01-01T00:00:00.000");
        let line = format!(
            r#"{{"eventID":"1","eventName":"INSERT","eventSourceARN":"{arn}","dynamodb":{{"Keys":{{{keys}}},"NewImage":{{{keys}{attributes}}},"SequenceNumber":"100"}}}}"#
        );
        let record = RecordDecoder::new(&model.row_attributes).record(line.as_bytes()).expect("a record");
        let source = SourceKey::of_keys(&model, 0, &record.keys).expect("a key");
        let candidates = source.candidates(&model);
        let old = decode_old_image(&candidates, &record).expect("no old image");
        let images = RecordImages { new: record.new.as_ref(), old: old.as_ref() };
        let days = rows(&model.datasets[0], &candidates, &record, images).map(|row| row.day.to_string());
        days.collect::<Vec<_>>()
    };
    let at = |seconds: i64| day(&format!(r#","at":{{"N":"{seconds}"}}"#));
    assert_eq!(at(1_770_372_000), ["2026-02-06"]);
    // In the year -2.
    assert_eq!(at(-62_200_000_000), day(""));
}

#[test]
fn a_time_in_a_key_is_a_bucket_in_the_key_of_a_cache() {
    let source = r##"
[entities.visit]
key = { PK = "SHOP#{shop_id}", SK = "VISIT#{at}" }
[[caches]]
of = "visit"
keys = ["visits:{at:day}"]
"##;
    let model = parsed(source);
    let source =
        SourceKey { table: 0, partition: "SHOP#s1".into(), sort: Some("VISIT#2026-02-06T10:00:00Z".into()) };
    let candidates = source.candidates(&model);
    let image = Image::from_item(&Item::new(), &model.attributes);
    let mut stale = StaleCaches::default();
    stale.add(&candidates, 0, (None, Some(&image)));
    assert_eq!(stale.keys().map(|stale| stale.key).collect::<Vec<_>>(), ["visits:2026-02-06"]);
}
