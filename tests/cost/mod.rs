//! `afterwrite cost` against the meter: the units that a trial predicts are those that the embedded DynamoDB charges.
//!
//! Both are of the same changes of a demo's application, cut into the same batches. The trial runs on tables in memory, whose units follow
//! from rules; the measurement is the sum of what the server reports for each request.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test that meets the unexpected must fail at once"
)]

mod events;
mod exam;
mod levels;

use std::collections::BTreeMap;
use std::sync::Arc;

use afterwrite_demo::workload::Workload;
use afterwrite_demo::{records, workloads};
use afterwrite_deployment::cost::{CostTrial, DeliverySettings, EntityRate, TrialTotals, entity_counts};
use afterwrite_ledger::tables::{IndexProjection, TableIndex};
use afterwrite_local::dynamodb::TableDefinition;
use afterwrite_model::clock::{Clock as _, SystemClock};
use afterwrite_model::table::Model;
use afterwrite_tests::sdk_items::{SdkItem, sdk_item_of_json};
use afterwrite_tests::size::size;
use serde_json::Value;

use self::exam::MeteredDeployment;

const STATE: &str = "state";
/// The seconds in which the application makes its changes.
const SECONDS: f64 = 60.0;
const DELIVERY: DeliverySettings = DeliverySettings { batch_size: 100, window_seconds: 5.0, shards: 1 };

/// Each entity's share of the sample, as a rate.
fn rates(model: &Model, sample: &[String]) -> Vec<EntityRate> {
    let counts = entity_counts(model, sample).into_iter();
    counts.map(|(entity, count)| EntityRate { entity, per_second: count / SECONDS }).collect()
}

fn indexes(workload: &Workload) -> BTreeMap<String, Vec<TableIndex>> {
    let of_table = |table: &TableDefinition| {
        let keys = table.indexes.iter().map(|(_, key)| key.attributes().map(|name| Arc::from(name.as_str())));
        keys.map(|keys| TableIndex { keys: keys.collect(), projection: IndexProjection::All }).collect()
    };
    workload.tables().iter().map(|table| (table.name.clone(), of_table(table))).collect()
}

async fn predicted(workload: &Workload, size: u64, seed: u64, now: i64) -> TrialTotals {
    let model = Arc::new(Model::load(workload.model).unwrap());
    let sample = records::records(workload, seed, size, now);
    let rates = rates(&model, &sample);
    let trial = CostTrial {
        model: Arc::clone(&model),
        records: &sample,
        rates: &rates,
        delivery: DELIVERY,
        indexes: indexes(workload),
        events: BTreeMap::new(),
    };
    trial.run().await.unwrap()
}

/// Write units and records of a run on the embedded server.
async fn measured(workload: &Workload, size: u64, seed: u64, now: i64) -> (f64, u64) {
    let model = Arc::new(Model::load(workload.model).unwrap());
    let sample = records::records(workload, seed, size, now);
    let items = final_items(&sample).into_iter();
    let mut deployment = MeteredDeployment::start(&model, &workload.tables(), items).await;
    for (at, batch) in batches(&sample) {
        deployment.deliver(at, &batch).await;
    }
    deployment.deliver_rollups(f64::INFINITY).await;
    (deployment.units.all(), u64::try_from(sample.len()).unwrap())
}

/// The sample at an even pace, cut by the delivery's rules: a batch of a table ends when it is full, or when its window has passed. Each batch
/// has the second in which it is delivered.
fn batches(sample: &[String]) -> Vec<(f64, Vec<&str>)> {
    let mut open: BTreeMap<String, (f64, Vec<&str>)> = BTreeMap::new();
    let mut delivered = Vec::new();
    for (record, number) in sample.iter().zip(0_u32..) {
        let at = f64::from(number) * SECONDS / f64::from(u32::try_from(sample.len()).unwrap());
        let is_due = |since: f64| at - since >= DELIVERY.window_seconds;
        let due = open.extract_if(.., |_, (since, _)| is_due(*since));
        delivered.extend(due.map(|(_, (since, batch))| (since + DELIVERY.window_seconds, batch)));
        let (_, batch) = open.entry(table_of(record)).or_insert_with(|| (at, Vec::new()));
        batch.push(record);
        if batch.len() == DELIVERY.batch_size {
            delivered.extend(open.remove(&table_of(record)).map(|(_, batch)| (at, batch)));
        }
    }
    delivered.extend(open.into_values().map(|(since, batch)| (since + DELIVERY.window_seconds, batch)));
    delivered
}

fn table_of(record: &str) -> String {
    let record: Value = serde_json::from_str(record).unwrap();
    record["eventSourceARN"].as_str().unwrap().split('/').nth(1).unwrap().to_owned()
}

/// The items after the last record, with their tables.
fn final_items(sample: &[String]) -> Vec<(String, SdkItem)> {
    let mut items: BTreeMap<(String, String), Option<Value>> = BTreeMap::new();
    for record in sample {
        let table = table_of(record);
        let mut record: Value = serde_json::from_str(record).unwrap();
        let key = record["dynamodb"]["Keys"].to_string();
        let image = record["dynamodb"].get_mut("NewImage").map(Value::take);
        items.insert((table, key), image);
    }
    let stored = items.into_iter().filter_map(|((table, _), image)| Some((table, sdk_item_of_json(&image?))));
    stored.collect()
}

#[tokio::test]
async fn predicted_and_measured_units_of_all_demos_differ_by_less_than_five_percent() {
    let now = SystemClock.now().epoch_seconds();
    for workload in workloads::ALL {
        let size = workload.usual_size / size(8, 4);
        let trial = predicted(workload, size, 7, now).await;
        let (units, records) = measured(workload, size, 7, now).await;
        #[expect(clippy::cast_precision_loss, reason = "counts of a demo are far below 2^53")]
        let (predicted, measured) = (trial.write_units as f64 / trial.records as f64, units / records as f64);
        let difference = (predicted / measured - 1.0) * 100.0;
        println!(
            "{}: predicted {predicted:.3}, measured {measured:.3} units a record: {difference:+.1} %",
            workload.model
        );
        assert!(difference.abs() < 5.0, "{}: {difference:+.1} %", workload.model);
    }
}
