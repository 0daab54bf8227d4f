//! D2: changes that exceed 38 digits, between totals that do not.

use std::collections::BTreeMap;
use std::sync::Arc;

use afterwrite_ledger::tables::Tables as _;
use afterwrite_memory::item_key;
use afterwrite_model::effect::{AttributeChange, Write, WriteAction, WriteCondition};
use afterwrite_model::record::AttributePath;
use afterwrite_model::table::Model;
use serde_json::{Value, json};

use super::world::{CountingWorld, Rollups, item, model};

const READINGS: &str = r##"
    [entities.reading]
    key = { PK = "SENSOR#{sensor}", SK = "READING#{reading}" }
    attributes = { value = "N", weight = "N", expires_at = "N" }
    ttl = "expires_at"
    [rollups.sensor]
    key = { PK = "OF#{sensor}", SK = "ROLLUP" }
    [[aggregates]]
    name = "readings"
    of = "reading"
    into = "sensor"
    measures = { readings = "count", total = { sum = "value" } }
"##;

fn readings() -> Arc<Model> {
    model(READINGS)
}

/// The same with an average, and with an aggregate that counts into the same rollup.
fn averaged() -> Arc<Model> {
    let averaged = READINGS.replace(
        "{ sum = \"value\" } }",
        "{ sum = \"value\" }, mean = { avg = \"total\", over = \"readings\" } }",
    );
    model(&format!(
        "{averaged}\n[[aggregates]]\nname = 'weights'\nof = 'reading'\ninto = 'sensor'\nmeasures.weight = {{ sum = 'weight' }}"
    ))
}

fn reading(value: &str) -> Value {
    item("SENSOR#s", "READING#1", json!({ "value": { "N": value }, "weight": { "N": value } }))
}

fn total(world: &CountingWorld, measure: &str) -> Option<String> {
    world.rollups().get("OF#s / ROLLUP")?.get(measure).cloned()
}

#[tokio::test]
async fn d2_a_change_of_more_than_38_digits_is_counted() {
    let digits = "99999999999999999999999999999999999999";
    for (before, after) in [
        ("1E+39", "1"),
        ("1", "1E+39"),
        ("1E+125", "1E-130"),
        ("1E-130", "1E+125"),
        (digits, "0.00001"),
        ("-1E+50", "1"),
        ("9E+125", "-9E+125"),
    ] {
        for model in [readings(), averaged()] {
            let mut world = CountingWorld::new(&model);
            let (old, new) = (reading(before), reading(after));
            let records =
                [world.insert(&old), world.record(Some(&old), Some(&new)), world.record(Some(&new), None)];
            for (record, expected) in records.iter().zip([Some(&old), Some(&new), None]) {
                for delivery in 0..2 {
                    let handled = world.deliver(std::slice::from_ref(record)).await;
                    let is_counted = handled.failures.is_empty() && handled.parked.is_empty();
                    assert!(is_counted, "{before} {after} {delivery}: {handled:?}");
                }
                let expected: Option<afterwrite_model::record::Decimal> =
                    expected.map(|item| item["value"]["N"].as_str().unwrap().parse().unwrap());
                let expected = expected.map(|number| number.to_string());
                assert_eq!(total(&world, "total"), expected, "{before} {after}");
                if model.aggregates.len() > 1 {
                    assert_eq!(total(&world, "weight"), expected, "{before} {after}");
                }
            }
            assert_eq!((world.parked(), world.rollups()), (0, Rollups::new()), "{before} {after}");
        }
    }
}

#[tokio::test]
async fn d2_every_way_counts_such_a_change() {
    let (old, new) = (reading("1E+39"), reading("1"));
    let counted =
        BTreeMap::from([("readings".to_owned(), "1".to_owned()), ("total".to_owned(), "1".to_owned())]);
    for way in ["backfill", "repair", "later"] {
        let mut world = CountingWorld::new(&readings());
        let insert = world.insert(&old);
        world.deliver(&[insert]).await;
        // The record of this change is lost.
        world.put(&new);
        match way {
            "backfill" => {
                let job = world.backfill(true).await;
                assert_eq!(job.totals.get("failed"), None, "{job:?}");
            }
            "repair" => {
                let findings = world.verify().await.findings;
                assert_eq!(findings.len(), 1, "{findings:?}");
                world.repair(&findings).await;
            }
            _ => {
                let lost = world.record(Some(&old), Some(&new));
                let next = world.record(Some(&new), Some(&new));
                world.deliver(&[next]).await;
                world.deliver(&[lost]).await;
            }
        }
        assert_eq!(world.rollups().get("OF#s / ROLLUP"), Some(&counted), "{way}");
        assert_eq!(world.verify().await.findings, [], "{way}");
    }
}

#[tokio::test]
async fn d2_an_expiry_settles_such_a_number_once() {
    let mut old = reading("1E+39");
    old["expires_at"] = json!({ "N": "1" });
    let (mut world, new) = (CountingWorld::new(&readings()), reading("1"));
    let insert = world.insert(&old);
    let mut expiry = world.record(Some(&old), None);
    expiry["userIdentity"] = json!({ "type": "Service", "principalId": "dynamodb.amazonaws.com" });
    let again = world.insert(&new);
    let delivered = world.deliver(&[insert, expiry.clone()]).await;
    assert!(delivered.failures.is_empty() && delivered.parked.is_empty(), "{delivered:?}");
    assert_eq!(
        (total(&world, "total"), total(&world, "settled_total")),
        (Some("1E39".to_owned()), Some("1E39".to_owned()))
    );
    // 1E+39 + 1 has more than 38 digits: no rollup can have that total.
    let handled = world.deliver(&[expiry, again]).await;
    assert_eq!((handled.failures.len(), handled.parked.len()), (0, 1));
    assert_eq!(total(&world, "total").as_deref(), Some("1E39"));
}

#[tokio::test]
async fn d2_concurrent_additions_are_neither_lost_nor_repeated() {
    let mut world = CountingWorld::new(&readings());
    let (old, new) = (reading("1E+39"), reading("1"));
    let mut records = vec![world.insert(&old), world.record(Some(&old), Some(&new))];
    world.put(&new);
    for number in 2..40 {
        let other = item("SENSOR#s", &format!("READING#{number}"), json!({ "value": { "N": "1" } }));
        records.push(world.insert(&other));
    }
    let first = world.deliver(&records[..1]).await;
    assert!(first.parked.is_empty());
    // Another writer adds to the rollup between any two deliveries.
    for record in &records[1..] {
        let key = item_key("state", "OF#s", "ROLLUP");
        let action = WriteAction::Update(vec![AttributeChange::Add(AttributePath::from("rev"), 1.into())]);
        world.tables.write(&Write { key, condition: WriteCondition::Always, action }).await.unwrap();
        let handled = world.deliver(&[record.clone(), record.clone()]).await;
        assert!(handled.failures.is_empty() && handled.parked.is_empty(), "{handled:?}");
    }
    assert_eq!(
        (total(&world, "total").as_deref(), total(&world, "readings").as_deref()),
        (Some("39"), Some("39"))
    );
    assert_eq!(world.verify().await.findings, []);
}

#[tokio::test]
async fn d2_sums_are_verified_whatever_their_parts_are() {
    // The sum of the first two entries has more than 38 digits; that of all has one.
    let mut world = CountingWorld::new(&readings());
    for (number, value) in [("1", "1E+39"), ("3", "-1E+39"), ("2", "1")] {
        let item = item("SENSOR#s", &format!("READING#{number}"), json!({ "value": { "N": value } }));
        let record = world.insert(&item);
        assert!(world.deliver(&[record]).await.parked.is_empty());
    }
    assert_eq!(total(&world, "total").as_deref(), Some("1"));
    let report = world.verify().await;
    assert_eq!(report.findings, []);
    let mut key = world.tables.scan("state");
    key.retain(|item| item.get("PK").and_then(|value| value.as_text()) == Some("OF#s"));
    let mut rollup = key.pop().expect("the rollup");
    rollup.insert("total".into(), afterwrite_model::record::AttributeValue::N(2.into()));
    world.tables.put("state", rollup).unwrap();
    assert_eq!(world.verify().await.findings.len(), 1, "a wrong total is found");
}

#[tokio::test]
async fn d2_other_items_of_the_batch_fit_next_to_the_shorter_number() {
    let other =
        |number: u32| item("SENSOR#s", &format!("READING#0{number}"), json!({ "value": { "N": "1" } }));
    for (before, after, created) in [("1E+39", "1", true), ("-1E+39", "1", true), ("1", "1E+39", false)] {
        let mut world = CountingWorld::new(&readings());
        let (old, new) = (reading(before), reading(after));
        let mut first = vec![world.insert(&old)];
        let mut batch = Vec::new();
        for number in 0..3 {
            let other = other(number);
            if created {
                batch.push(world.insert(&other));
            } else {
                first.push(world.insert(&other));
                batch.push(world.record(Some(&other), None));
            }
        }
        batch.insert(0, world.record(Some(&old), Some(&new)));
        for records in [&first, &batch, &batch] {
            let handled = world.deliver(records).await;
            assert!(handled.failures.is_empty() && handled.parked.is_empty(), "{before}: {handled:?}");
        }
        let expected = if created { "4" } else { "1E39" };
        assert_eq!(total(&world, "total").as_deref(), Some(expected), "{before}");
    }
}

#[tokio::test]
async fn d2_the_order_of_the_elements_of_a_set_does_not_decide() {
    let model = model(
        r##"
        [entities.reading]
        key = { PK = "SENSOR#{sensor}", SK = "READING#{reading}" }
        attributes = { values = "NS" }
        [rollups.sensor]
        key = { PK = "OF#{sensor}", SK = "ROLLUP" }
        [[aggregates]]
        name = "values"
        of = "reading"
        for_each = { value = "values" }
        at_most = 10
        into = "sensor"
        measures = { number = "count", total = { sum = "value" } }
        "##,
    );
    let reading = |values: &[&str]| item("SENSOR#s", "READING#1", json!({ "values": { "NS": values } }));
    for values in [["1E+39", "1", "-1E+39"], ["1E+39", "-1E+39", "1"], ["1", "1E+39", "-1E+39"]] {
        let mut world = CountingWorld::new(&model);
        let insert = world.insert(&reading(&values));
        let handled = world.deliver(&[insert]).await;
        assert!(handled.failures.is_empty() && handled.parked.is_empty(), "{values:?}: {handled:?}");
        assert_eq!(total(&world, "total").as_deref(), Some("1"), "{values:?}");
        assert_eq!(world.verify().await.findings, [], "{values:?}");
        let backfilled = CountingWorld::with(&model, &[reading(&values)]);
        backfilled.backfill(true).await;
        assert_eq!(backfilled.rollups(), world.rollups(), "{values:?}");
    }
    let mut world = CountingWorld::new(&model);
    let insert = world.insert(&reading(&["1E+39", "1"]));
    let handled = world.deliver(&[insert]).await;
    assert_eq!((handled.parked.len(), world.rollups()), (1, Rollups::new()), "the sum of all has 40 digits");
}
