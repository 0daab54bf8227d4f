//! Changes that reach a rollup after it has expired, if the rollup is a source: the level above lacks them, and the ledger counts them.

use std::collections::BTreeMap;
use std::sync::Arc;

use afterwrite_tests::deployment::event;
use afterwrite_tests::faults::{FaultRates, FaultyTables};
use serde_json::{Value, json};

use super::world::{DEADLINE, EdgeWorld, aggregator_over, reconcile};

/// Readings by minute, for an hour; minutes in all. The time of the world is 17:46:40.
const MINUTES: &str = r##"
[entities.reading]
key = { PK = "SENSOR#{sensor_id}", SK = "READING#{reading_id}" }
attributes = { value = "N", at = "S", unit = "S" }
[rollups.minute]
key = { PK = "MINUTE#{sensor_id}", SK = "{at:minute}" }
expires = { after = "1 hours", of = "at" }
[rollups.all]
key = { PK = "TOTAL#{sensor_id}", SK = "ROLLUP" }
[[aggregates]]
name = "minutes"
of = "reading"
into = "minute"
measures = { readings = "count", total = { sum = "value" } }
[[aggregates]]
name = "all"
of = "minute"
into = "all"
measures = { minutes = "count", total = { sum = "total" } }
"##;

const LIVE: &str = "2026-02-06T17:30:00Z";
const EXPIRED: &str = "2026-02-06T15:40:00Z";

fn reading(value: i64, at: &str, unit: &str) -> Value {
    json!({ "value": { "N": value.to_string() }, "at": { "S": at }, "unit": { "S": unit } })
}

/// How many contributions the levels above lack after each of these states of a reading.
async fn dropped(model: &str, states: &[Value]) -> Vec<u64> {
    let mut world = EdgeWorld::new(model);
    let mut dropped = Vec::new();
    for state in states {
        world.put("SENSOR#s1", "READING#r1", state.clone());
        let delivery = world.deliver().await;
        assert_eq!(delivery.failures, BTreeMap::new());
        dropped.push(delivery.totals.dropped_contributions);
        let again = world.deliver_these(&world.records).await.totals;
        assert_eq!(again.dropped_contributions, 0, "a duplicate drops nothing");
    }
    dropped
}

#[tokio::test]
async fn what_an_expired_source_does_not_take_is_counted() {
    let (first, second) = (reading(1, EXPIRED, "C"), reading(2, EXPIRED, "C"));
    let other_attribute = {
        let mut reading = second.clone();
        reading["note"] = json!({ "S": "checked" });
        reading
    };
    assert_eq!(dropped(MINUTES, &[first.clone(), second, other_attribute, first]).await, [1, 1, 0, 1]);
    let moved = [reading(1, LIVE, "C"), reading(1, EXPIRED, "C"), reading(1, LIVE, "C")];
    assert_eq!(dropped(MINUTES, &moved).await, [0, 1, 1]);
}

#[tokio::test]
async fn an_expired_rollup_that_no_living_rollup_counts_drops_nothing_that_counts() {
    let states = [reading(1, EXPIRED, "C"), reading(2, EXPIRED, "F")];
    let (without, _) = MINUTES.split_once("[[aggregates]]\nname = \"all\"").expect("two aggregates");
    // The minutes are no source then; the members of their distinct counts are, and expire with them.
    let distinct = "total = { sum = \"value\" }, units = { distinct = \"unit\" }";
    let with_members = without.replace("total = { sum = \"value\" }", distinct);
    let subtracting = MINUTES.replace("of = \"at\" }", "of = \"at\" }\non_expiry = \"subtract\"");
    let hours = |after: &str| {
        MINUTES.replace(
            "key = { PK = \"TOTAL#{sensor_id}\", SK = \"ROLLUP\" }",
            &format!(
                "key = {{ PK = \"TOTAL#{{sensor_id}}\", SK = \"{{at:hour}}\" }}\nexpires = {{ after = \"{after}\", of = \"at\" }}"
            ),
        )
    };
    for model in [without, &with_members, &subtracting, &hours("90 minutes")] {
        assert_eq!(dropped(model, &states).await, [0, 0], "{model}");
    }
    assert_eq!(dropped(&hours("3 hours"), &states).await, [1, 1]);
}

#[tokio::test]
async fn an_extreme_of_an_expired_source_is_counted_once() {
    let extremes = MINUTES
        .replace("readings = \"count\", total = { sum = \"value\" }", "highest = { max = \"value\" }")
        .replace("total = { sum = \"total\" }", "highest = { max = \"highest\" }");
    let mut world = EdgeWorld::new(&extremes);
    world.put("SENSOR#s1", "READING#r1", reading(1, EXPIRED, "C"));
    assert_eq!(world.deliver().await.totals.dropped_contributions, 1);
    for _ in 0..2 {
        let outcome = reconcile(world.aggregator.ledger(), "SENSOR#s1", Some("READING#r1")).await;
        assert_eq!((outcome.totals.reconciled, outcome.totals.dropped_contributions), (1, 0));
    }
}

/// The write succeeds, and its response is lost: the entry that is read again shows nothing that was dropped.
#[tokio::test]
async fn a_lost_response_does_not_hide_what_was_dropped() {
    let mut world = EdgeWorld::new(MINUTES);
    world.put("SENSOR#s1", "READING#r1", reading(1, EXPIRED, "C"));
    world.stream();
    let rates = FaultRates { lost_answer: 1_000, ..FaultRates::NONE };
    let tables = FaultyTables::new(Arc::clone(&world.tables), rates, 1);
    let aggregator = aggregator_over(MINUTES, tables);
    let handled = aggregator.handle(event(&world.records).as_bytes(), DEADLINE).await.expect("an event");
    assert_eq!((handled.failures.len(), handled.totals.dropped_contributions), (0, 1));
    assert!(world.entry("SENSOR#s1", "READING#r1", "position").is_some());
}
