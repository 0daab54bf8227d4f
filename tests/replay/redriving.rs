//! Redrive: a poison record does not hold up its shard, and is counted exactly once after the model is corrected.

use std::sync::Arc;

use afterwrite_functions::StreamAggregator;
use afterwrite_input::item_json::ItemJson;
use afterwrite_ledger::{Ledger, PoisonPolicy, StateItems};
use afterwrite_memory::{MemoryObjects, MemoryTables, TableDefinition, item_key};
use afterwrite_model::clock::{Clock as _, SystemClock};
use afterwrite_model::record::Item;
use afterwrite_model::table::Model;
use afterwrite_operations::jobs::JobTotals;
use afterwrite_operations::redrive::{
    ObjectRedrive, ParkedRedrive, RedriveReport, RedriveTask, SettledObjects, parked_by_scan,
};
use afterwrite_operations::replay::NoTarget;
use afterwrite_preview::tables::OverlayTables;
use afterwrite_services::{Bucket as _, ObjectStore as _};
use serde_json::{Value, json};

use super::heartbeat::names;

type Aggregator = StreamAggregator<Arc<MemoryTables>, SystemClock>;
type Task = RedriveTask<Aggregator, NoTarget, MemoryObjects, Arc<MemoryTables>, SystemClock>;

/// Orders of users. In generation 1 the model takes `total` for a number; some items have it as text.
struct OrderWorld {
    tables: Arc<MemoryTables>,
    bucket: Arc<MemoryObjects>,
}

fn model(generation: u32) -> Arc<Model> {
    let measures = match generation {
        1 => "orders = \"count\"\nspent = { sum = \"total\" }",
        _ => "orders = \"count\"",
    };
    let source = format!(
        "name = \"orders\"\ngeneration = {generation}\n[tables.T]\nkey = [\"PK\", \"SK\"]\n\
         [entities.order]\nkey = {{ PK = \"USER#{{user}}\", SK = \"ORDER#{{order}}\" }}\n{}\
         [rollups.user]\nkey = {{ PK = \"USER#{{user}}\", SK = \"ROLLUP\" }}\n\
         [[aggregates]]\nname = \"orders\"\nof = \"order\"\ninto = \"user\"\n[aggregates.measures]\n{measures}\n",
        if generation == 1 { "attributes = { total = \"N\" }\n" } else { "" },
    );
    Arc::new(Model::parse(&source, "orders.toml").unwrap_or_else(|errors| panic!("{errors}")))
}

fn order(number: u64, user: &str, total: Value) -> Value {
    let image = json!({ "PK": format!("USER#{user}"), "SK": format!("ORDER#{number}"), "total": total });
    let item = ItemJson::parse(&image.to_string()).unwrap();
    let model = model(1);
    let record = item.insert_record(&model.tables[0], "T", number, Some(SystemClock.now())).unwrap();
    serde_json::from_str(&record).unwrap()
}

impl OrderWorld {
    fn new() -> Self {
        let tables = MemoryTables::new();
        for table in ["T", "state"] {
            tables.create_table(TableDefinition::new(table, "PK").sort("SK"));
        }
        tables.set_time(SystemClock.now());
        Self { tables: Arc::new(tables), bucket: Arc::new(MemoryObjects::default()) }
    }

    fn ledger(&self, generation: u32) -> Ledger<Arc<MemoryTables>, SystemClock> {
        let (tables, state) = (Arc::clone(&self.tables), Arc::from("state"));
        Ledger::new(model(generation), vec![Arc::from("T")], state, tables, SystemClock)
    }

    fn aggregator(&self, generation: u32, policy: PoisonPolicy) -> Aggregator {
        StreamAggregator::new(self.ledger(generation).on_poison(policy))
    }

    /// Writes the items of records to the table, and delivers the records.
    async fn deliver(&self, aggregator: &Aggregator, records: &[Value]) -> (usize, usize) {
        for record in records {
            let image = ItemJson::parse(&record["dynamodb"]["NewImage"].to_string()).unwrap();
            self.tables.put("T", image.to_item().unwrap()).unwrap();
        }
        let event = json!({ "Records": records }).to_string();
        let deadline = SystemClock.now().plus(std::time::Duration::from_secs(10));
        let handled = aggregator.handle(event.as_bytes(), deadline).await.unwrap();
        (handled.parked.len(), handled.failures.len())
    }

    fn rollup(&self, user: &str) -> Option<Item> {
        self.tables.get(&item_key("state", &format!("USER#{user}"), "ROLLUP"))
    }

    fn orders(&self, user: &str) -> i64 {
        let rollup = self.rollup(user);
        rollup.and_then(|rollup| rollup.get("orders")?.as_number()?.to_i64()).unwrap_or(0)
    }

    async fn parked(&self) -> usize {
        parked_by_scan(&self.tables, &Arc::from("state")).await.unwrap().len()
    }

    async fn redrive_parked(&self, generation: u32) -> (JobTotals, RedriveReport) {
        let items = parked_by_scan(&self.tables, &Arc::from("state")).await.unwrap();
        let redrive = ParkedRedrive {
            ledger: self.ledger(generation),
            entries: StateItems::new(model(generation), names(&model(generation)), Arc::from("state")),
            stream_labels: vec!["2026-02-06T10:00:00.000".to_owned()],
        };
        let task: Task = RedriveTask::new(None, Some((redrive, items)));
        (task.run().await.unwrap(), task.report())
    }

    async fn redrive_objects(&self, generation: u32, settled: SettledObjects) -> (JobTotals, RedriveReport) {
        let objects = ObjectRedrive {
            aggregator: self.aggregator(generation, PoisonPolicy::Fail),
            relay: NoTarget,
            bucket: Arc::clone(&self.bucket),
            prefix: "aws/lambda/".to_owned(),
            settled,
            clock: SystemClock,
        };
        let task: Task = RedriveTask::new(Some(objects), None);
        (task.run().await.unwrap(), task.report())
    }

    async fn keys(&self) -> Vec<String> {
        self.bucket.list("").await.unwrap().into_iter().map(|object| object.key).collect()
    }
}

fn total(totals: &JobTotals, name: &str) -> u64 {
    totals.get(name).copied().unwrap_or(0)
}

#[tokio::test]
async fn a_poison_record_is_parked_and_a_corrected_model_with_a_redrive_counts_it_once() {
    let world = OrderWorld::new();
    let aggregator = world.aggregator(1, PoisonPolicy::Park);
    let records = [order(1, "a", json!(5)), order(2, "a", json!("five")), order(3, "a", json!(1))];
    assert_eq!(world.deliver(&aggregator, &records).await, (1, 0), "the shard goes on");
    assert_eq!((world.orders("a"), world.parked().await), (2, 1));

    let (totals, report) = world.redrive_parked(1).await;
    assert_eq!((total(&totals, "still_parked"), world.parked().await), (1, 1), "the model is still wrong");
    assert!(report.staying_parked[0].reason.contains("total"), "{report:?}");
    assert_eq!(world.orders("a"), 2);

    for _ in 0..2 {
        world.redrive_parked(2).await;
        assert_eq!((world.orders("a"), world.parked().await), (3, 0));
    }
    // The original record, delivered again, is counted already.
    let corrected = world.aggregator(2, PoisonPolicy::Park);
    assert_eq!(world.deliver(&corrected, &records).await, (0, 0));
    assert_eq!(world.orders("a"), 3);
}

#[tokio::test]
async fn the_next_change_of_a_parked_item_heals_it() {
    let world = OrderWorld::new();
    let aggregator = world.aggregator(1, PoisonPolicy::Park);
    world.deliver(&aggregator, &[order(1, "a", json!("five"))]).await;
    assert_eq!((world.orders("a"), world.parked().await), (0, 1));
    let mut next = order(1, "a", json!(7));
    next["eventName"] = json!("MODIFY");
    next["dynamodb"]["SequenceNumber"] = json!("9");
    next["dynamodb"]["OldImage"] = next["dynamodb"]["NewImage"].clone();
    world.deliver(&aggregator, &[next]).await;
    assert_eq!((world.orders("a"), world.parked().await), (1, 0));
    let (totals, _) = world.redrive_parked(1).await;
    assert_eq!(totals, JobTotals::new(), "nothing is left to redrive");
}

#[tokio::test]
async fn a_dry_run_of_parked_items_writes_nothing_and_names_the_rollup() {
    let world = OrderWorld::new();
    world.deliver(&world.aggregator(1, PoisonPolicy::Park), &[order(1, "a", json!("five"))]).await;
    let before = world.tables.scan("state");
    let overlay = Arc::new(OverlayTables::new(Arc::clone(&world.tables)));
    let ledger =
        Ledger::new(model(2), vec![Arc::from("T")], Arc::from("state"), Arc::clone(&overlay), SystemClock);
    let redrive = ParkedRedrive {
        ledger,
        entries: StateItems::new(model(2), names(&model(2)), Arc::from("state")),
        stream_labels: vec!["2026-02-06T10:00:00.000".to_owned()],
    };
    let items = parked_by_scan(&world.tables, &Arc::from("state")).await.unwrap();
    let task: RedriveTask<NoTarget, NoTarget, MemoryObjects, _, SystemClock> =
        RedriveTask::new(None, Some((redrive, items)));
    assert_eq!(total(&task.run().await.unwrap(), "reconciled"), 1);
    assert_eq!(world.tables.scan("state"), before);
    let changed: Vec<String> =
        overlay.differences().iter().map(|item| item.entity_type().to_owned()).collect();
    assert_eq!(changed, ["LEDGER", "ROLLUP"]);
}

#[tokio::test]
async fn objects_are_redriven_oldest_first_and_those_that_fail_stay_with_their_reason() {
    let world = OrderWorld::new();
    let failed = |records: &[Value]| {
        let event = json!({ "Records": records }).to_string();
        json!({ "version": "1.0", "requestContext": { "condition": "RetryAttemptsExhausted" }, "payload": event })
            .to_string()
            .into_bytes()
    };
    let (good, bad) = (order(1, "a", json!(5)), order(2, "a", json!("five")));
    for (key, content) in [
        ("aws/lambda/m/shard/1", failed(&[good])),
        ("aws/lambda/m/shard/2", failed(&[order(3, "b", json!(1)), bad])),
        ("aws/lambda/m/shard/3", b"{\"DDBStreamBatchInfo\":{}}".to_vec()),
    ] {
        world.bucket.put(key, content).await.unwrap();
    }
    // A dry run of the objects settles none of them.
    world.redrive_objects(1, SettledObjects::Keep).await;
    assert_eq!(world.keys().await.len(), 3);

    let (totals, report) = world.redrive_objects(1, SettledObjects::Move).await;
    assert_eq!((total(&totals, "objects"), total(&totals, "objects_failed")), (1, 2));
    let staying: Vec<&str> = report.staying_objects.iter().map(|object| &*object.key).collect();
    assert_eq!(staying, ["aws/lambda/m/shard/2", "aws/lambda/m/shard/3"]);
    assert!(report.staying_objects[0].reason.contains("total"), "{report:?}");
    assert!(report.staying_objects[1].reason.contains("no records"), "{report:?}");
    assert_eq!((world.orders("a"), world.orders("b")), (1, 1), "the other records of the batch are counted");
    assert_eq!(
        world.keys().await,
        ["aws/lambda/m/shard/2", "aws/lambda/m/shard/3", "redriven/aws/lambda/m/shard/1"]
    );

    let (totals, _) = world.redrive_objects(2, SettledObjects::Delete).await;
    assert_eq!((total(&totals, "objects"), total(&totals, "objects_failed")), (1, 1));
    assert_eq!((world.orders("a"), world.orders("b")), (2, 1), "each record is counted once");
    assert_eq!(world.keys().await, ["aws/lambda/m/shard/3", "redriven/aws/lambda/m/shard/1"]);
}

#[tokio::test]
async fn c6_a_redrive_of_a_parked_item_that_does_not_exist_names_its_life() {
    let world = OrderWorld::new();
    let aggregator = world.aggregator(1, PoisonPolicy::Park);
    world.deliver(&aggregator, &[order(1, "a", json!(5))]).await;
    let mut changed = order(1, "a", json!("five"));
    changed["eventName"] = json!("MODIFY");
    changed["dynamodb"]["SequenceNumber"] = json!("9");
    changed["dynamodb"]["OldImage"] = order(1, "a", json!(5))["dynamodb"]["NewImage"].clone();
    world.deliver(&aggregator, &[changed]).await;
    assert_eq!((world.orders("a"), world.parked().await), (1, 1));
    // It expired, perhaps: its record is lost.
    let key = item_key("T", "USER#a", "ORDER#1");
    world.tables.delete(&key).unwrap();
    let (totals, _) = world.redrive_parked(2).await;
    assert_eq!((total(&totals, "reconciled"), total(&totals, "vanished")), (1, 1), "{totals:?}");
}
