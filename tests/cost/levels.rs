//! The cost of rollups that are sources.

use std::collections::BTreeMap;
use std::sync::Arc;

use afterwrite_deployment::cost::{
    CostSettings, CostTrial, DeployedModule, DeploymentPart, EntityRate, Observability, PriceList,
    StreamReaders, TrialTotals, estimate,
};
use afterwrite_model::table::Model;
use serde_json::json;

use super::DELIVERY;

const ORDERS: u32 = 120;
const CUSTOMERS: u32 = 10;

fn model() -> Arc<Model> {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../infra/tests/levels.toml");
    Arc::new(Model::load(file).unwrap())
}

/// The insertion of an order, of one shop and one day.
fn order(number: u32) -> String {
    let text = |text: String| json!({ "S": text });
    let key = json!({
        "PK": text(format!("CUSTOMER#{}", number % CUSTOMERS)), "SK": text(format!("ORDER#{number:04}")),
    });
    let mut item = key.clone();
    item["placed_at"] = text("2026-02-06T10:00:00Z".to_owned());
    item["total"] = json!({ "N": "12.50" });
    item["shop"] = text("corner".to_owned());
    json!({
        "eventID": number.to_string(), "eventName": "INSERT", "eventSource": "aws:dynamodb", "awsRegion": "eu-west-1",
        "eventSourceARN": "arn:aws:dynamodb:eu-west-1:123456789012:table/Orders/stream/2026-02-06T09:00:00.000",
        "dynamodb": {
            "ApproximateCreationDateTime": 1_770_372_000 + number, "Keys": key, "NewImage": item,
            "SequenceNumber": format!("{:021}", 100 + number), "StreamViewType": "NEW_AND_OLD_IMAGES",
        },
    })
    .to_string()
}

/// Two orders a second for a minute, in twelve batches.
async fn trial() -> TrialTotals {
    let sample: Vec<String> = (0..ORDERS).map(order).collect();
    let rates = [EntityRate { entity: "order".to_owned(), per_second: 2.0 }];
    let trial = CostTrial {
        model: model(),
        records: &sample,
        rates: &rates,
        delivery: DELIVERY,
        indexes: BTreeMap::new(),
        events: BTreeMap::new(),
    };
    trial.run().await.unwrap()
}

#[tokio::test]
async fn each_level_counts_the_changes_of_the_level_below() {
    let totals = trial().await;
    assert_eq!((totals.records, totals.batches), (u64::from(ORDERS), 12));
    let [members, days] = &totals.levels[..] else { panic!("{:?}", totals.levels) };
    assert_eq!((members.level, days.level), (2, 3));
    // Ten orders of ten customers in each batch: each changes a member, and the day is written once. New members change the day again.
    assert_eq!(members.records, u64::from(ORDERS));
    assert!((12..=24).contains(&days.records), "{days:?}");
    let of_levels: f64 = totals.levels.iter().map(|level| level.write_units).sum();
    let all = f64::from(u32::try_from(totals.write_units).unwrap());
    assert!(of_levels > 0.0 && of_levels < all, "{of_levels} of {all}");
    assert!(totals.level_batches > 0 && totals.rows > 0, "{totals:?}");
}

#[tokio::test]
async fn the_estimate_shows_each_level_and_the_readers_of_the_state_table() {
    let (totals, model) = (trial().await, model());
    let module =
        |parts: &[DeploymentPart], readers| DeployedModule::new(&model, parts.iter().copied(), readers);
    let settings = CostSettings {
        module: module(&[DeploymentPart::Archive], StreamReaders::Separate),
        queries_a_day: 0.0,
        month: 1.0,
    };
    let priced = estimate(&totals, &settings, &PriceList::built_in().unwrap());
    let quantity = |part: &str| priced.parts.iter().find(|line| line.part == part).map(|line| line.quantity);
    let writes: f64 = ["DynamoDB writes", "DynamoDB writes: level 2", "DynamoDB writes: level 3"]
        .iter()
        .map(|part| quantity(part).unwrap_or_else(|| panic!("no {part}")))
        .sum();
    let units = priced.write_units_a_record * priced.records;
    assert!((writes / units - 1.0).abs() < 1e-9, "{writes} of {units}");
    assert!(quantity("state table: stream, read by Lambda").unwrap() > 0.0);
    assert!(priced.assumptions.iter().any(|assumption| assumption.contains("level 2 counts")));
    // A heartbeat a minute into each of both tables.
    assert_eq!(quantity("heartbeat"), Some(2.0 * 730.0 * 60.0));
    // Each mapping has two alarms: aggregator and relay, or one function for both, read both streams.
    let alarms = |module: DeployedModule| module.observed(Observability::Minimal).alarms();
    let without = Model::load("shop").unwrap();
    let plain = DeployedModule::new(&without, [DeploymentPart::Archive], StreamReaders::Separate);
    let tables = plain.tables;
    assert_eq!(
        alarms(module(&[DeploymentPart::Archive], StreamReaders::Separate)),
        alarms(plain) - 2 * 2 * tables + 2 * 2 * 2
    );
}
