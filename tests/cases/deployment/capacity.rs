//! Provisioned capacity of the state table: what throttles does not lose anything, and its price.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use afterwrite_functions::StreamAggregator;
use afterwrite_ledger::Ledger;
use afterwrite_memory::{IndexDefinition, MemoryTables, TableDefinition};
use afterwrite_model::clock::Clock as _;
use afterwrite_model::record::{AttributeValue, Timestamp};
use afterwrite_model::table::Model;
use afterwrite_tests::clock::StillClock;
use afterwrite_tests::faults::{FaultRates, FaultyTables};
use afterwrite_tests::recording::{StreamRecording, event};
use afterwrite_tests::replay::STATE;
use afterwrite_tests::sdk_items::item_of_json;
use serde_json::Value;

use super::{afterwrite, text};

/// The time of an invocation.
const TIME_LIMIT_MS: i64 = 60_000;
/// The deliveries of a batch: `maximum_retry_attempts` of the module.
const DELIVERIES: usize = 20;

/// The numbers of each rollup, by its key.
type Rollups = BTreeMap<(String, String), BTreeMap<String, String>>;

/// The rollups of a recording whose writes are throttled at this rate, the retries, and the time that passed.
async fn counted(throttle: u64) -> (Rollups, u64, i64) {
    let recording = StreamRecording::load("exam-42");
    let model = Arc::new(Model::load("exambuddy").expect("a built-in model"));
    let tables = MemoryTables::new();
    tables.create_table(TableDefinition::new(STATE, "PK").sort("SK"));
    let source = Arc::clone(&model.tables[0].name);
    let index = |name: &str| {
        IndexDefinition::new(name, format!("{name}PK").as_str()).sort(format!("{name}SK").as_str())
    };
    let definition = TableDefinition::new(source.as_ref(), "PK").sort("SK");
    tables.create_table(definition.index(index("GSI1")).index(index("GSI2")).index(index("GSI3")));
    for item in recording.last_images().iter().chain(&recording.items) {
        tables.put(&source, item_of_json(item)).expect("an item of the recording");
    }
    let begin = Timestamp::from_epoch_seconds(recording.end() + 60);
    let rates = FaultRates { throttle, ..FaultRates::NONE };
    let faulty = FaultyTables::new(tables, rates, 7);
    let ledger = Ledger::new(model, vec![source], Arc::from(STATE), faulty, StillClock::at(begin));
    let aggregator = StreamAggregator::new(ledger);
    let mut retries = 0;
    for shard in &recording.shards {
        for batch in shard.chunks(200) {
            let event = event(batch.iter().map(AsRef::as_ref));
            for delivery in 0.. {
                assert!(delivery < DELIVERIES, "a batch is never counted");
                let deadline =
                    Timestamp::from_epoch_ms(aggregator.ledger().clock().now().epoch_ms() + TIME_LIMIT_MS);
                let handled = aggregator.handle(&event, deadline).await.expect("an event of the recording");
                retries += handled.totals.retries;
                assert!(handled.parked.is_empty(), "a throttled record is parked");
                if handled.failures.is_empty() {
                    break;
                }
            }
        }
    }
    let rollups = rollups_of(aggregator.ledger().tables().inner());
    let passed = aggregator.ledger().clock().now().epoch_ms() - begin.epoch_ms();
    (rollups, retries, passed)
}

/// The rollups in the state table.
fn rollups_of(tables: &MemoryTables) -> Rollups {
    let mut rollups = Rollups::new();
    for item in tables.scan(STATE) {
        let text =
            |name: &str| item.get(name).and_then(AttributeValue::as_text).unwrap_or_default().to_owned();
        if text("EntityType") == "ROLLUP" {
            let numbers =
                item.iter().filter_map(|(name, value)| Some((name.to_string(), value.as_number()?)));
            let numbers = numbers.filter(|(name, _)| name != "rev");
            let numbers = numbers.map(|(name, number)| (name, number.to_string()));
            rollups.insert((text("PK"), text("SK")), numbers.collect());
        }
    }
    rollups
}

#[tokio::test]
async fn h13_a_throttled_state_table_delays_batches_and_loses_nothing() {
    let (expected, _, unthrottled) = counted(0).await;
    let (rollups, retries, throttled) = counted(300).await;
    assert!(expected.len() > 50 && retries > 50, "{} rollups, {retries} retries", expected.len());
    assert_eq!(rollups, expected);
    assert!(throttled > unthrottled, "{throttled} ms, and {unthrottled} ms without throttling");
}

#[test]
#[ignore = "needs the release binaries: run tests/run"]
fn h13_the_price_of_provisioned_capacity_is_shown_with_the_rate_from_which_it_is_cheaper() {
    let arguments = ["cost", "exambuddy", "--rate", "attempt=4/s", "--rate", "answer=40/s", "--json"];
    let output = afterwrite(&arguments, &HashMap::new());
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let estimate: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let dollars = |name: &str| estimate["capacity"][name].as_f64().unwrap_or_default();
    let (on_demand, provisioned) = (dollars("on_demand_dollars"), dollars("provisioned_dollars"));
    assert!(provisioned > 0.0 && provisioned < 0.5 * on_demand, "{provisioned} and {on_demand}");
    let from = dollars("cheaper_from_write_units_a_second");
    assert!((1.0..10.0).contains(&from), "{from}");
    assert!(estimate["assumptions"].to_string().contains("state_table_capacity"), "{estimate}");
}

#[test]
#[ignore = "needs the release binaries: run tests/run"]
fn h13_the_template_scales_the_state_table() {
    let template = text(&afterwrite(&["template", "sam", "exambuddy"], &HashMap::new()).stdout);
    for part in ["StateWriteUnitsMax", "StateReadTarget", "DynamoDBWriteCapacityUtilization", "IsProvisioned"]
    {
        assert!(template.contains(part), "the template lacks {part}");
    }
}

#[test]
#[ignore = "needs the release binaries: run tests/run"]
fn h12_minimal_observability_costs_less_than_five_dollars() {
    let rates =
        ["cost", "exambuddy", "--rate", "attempt=100/d", "--rate", "answer=2500/d", "--month", "1", "--json"];
    let estimate = |more: &[&str]| {
        let output = afterwrite(&[&rates[..], more].concat(), &HashMap::new());
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        serde_json::from_slice::<Value>(&output.stdout).expect("JSON")
    };
    let observed = |estimate: &Value| {
        let lines = estimate["parts"].as_array().expect("parts").iter();
        let watched = ["CloudWatch metrics", "CloudWatch alarms", "CloudWatch dashboard"];
        let watched = lines.filter(|line| watched.iter().any(|part| line["part"] == *part));
        watched.filter_map(|line| line["dollars"].as_f64()).sum::<f64>()
    };
    let (full, minimal) = (estimate(&[]), estimate(&["--observability", "minimal"]));
    assert!(
        observed(&full) > 20.0 && observed(&minimal) <= 5.0,
        "{} and {}",
        observed(&full),
        observed(&minimal)
    );
    let named = full["assumptions"].to_string();
    assert!(named.contains("Below about") && named.contains("minimal"), "{named}");
}
