//! Redrive: a poison record does not hold up its shard, and is counted exactly once after the model is corrected.

use std::sync::Arc;

use afterwrite_functions::StreamAggregator;
use afterwrite_input::item_json::ItemJson;
use afterwrite_ledger::{Ledger, PoisonPolicy, StateItems};
use afterwrite_memory::{IndexDefinition, MemoryObjects, MemoryTables, TableDefinition, item_key};
use afterwrite_model::clock::{Clock as _, SystemClock};
use afterwrite_model::record::{Item, Timestamp};
use afterwrite_model::table::Model;
use afterwrite_model::{ErrorKind, Result};
use afterwrite_operations::jobs::{JobTask as _, JobTotals};
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

/// The part of the model from generation 3 on: orders are counted for the shop of their user, too.
const SHOPS: &str = r##"
[entities.shop]
key = { PK = "SHOP#{shop}", SK = "SHOP" }
attributes = { user = "S" }
[lookups.shop]
of = "shop"
index = "GSI1"
key = { GSI1PK = "USER#{user}" }
gives = ["shop"]
[rollups.shop]
key = { PK = "SHOP#{shop}", SK = "ROLLUP" }
[[aggregates]]
name = "shops"
of = "order"
lookup = "shop"
into = "shop"
[aggregates.measures]
sold = "count"
"##;

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
    let source = if generation < 3 { source } else { source + SHOPS };
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
            let index = IndexDefinition::new("GSI1", "GSI1PK");
            tables.create_table(TableDefinition::new(table, "PK").sort("SK").index(index));
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

    fn object_redrive(&self, generation: u32, (prefix, settled): (&str, SettledObjects)) -> Task {
        let objects = ObjectRedrive {
            aggregator: self.aggregator(generation, PoisonPolicy::Fail),
            relay: NoTarget,
            bucket: Arc::clone(&self.bucket),
            name: Arc::from("failures"),
            prefix: prefix.to_owned(),
            settled,
            clock: SystemClock,
        };
        RedriveTask::new(Some(objects), None)
    }

    async fn redrive_objects(&self, generation: u32, settled: SettledObjects) -> (JobTotals, RedriveReport) {
        let task = self.object_redrive(generation, ("aws/lambda/", settled));
        (task.run().await.unwrap(), task.report())
    }

    /// Writes a failed batch.
    async fn fail(&self, key: &str, records: &[Value]) {
        let event = json!({ "Records": records }).to_string();
        let failed = json!({ "version": "1.0", "requestContext": { "condition": "RetryAttemptsExhausted" }, "payload": event });
        self.bucket.put(key, failed.to_string().into_bytes()).await.unwrap();
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
async fn a_parked_item_whose_lookup_finds_nothing_does_not_hold_up_the_others() {
    let world = OrderWorld::new();
    let shop = json!({ "PK": "SHOP#s", "SK": "SHOP", "GSI1PK": "USER#b", "user": "b" });
    world.tables.put("T", ItemJson::parse(&shop.to_string()).unwrap().to_item().unwrap()).unwrap();
    let records = [order(1, "a", json!("five")), order(2, "b", json!("five"))];
    assert_eq!(world.deliver(&world.aggregator(1, PoisonPolicy::Park), &records).await, (2, 0));
    let (totals, report) = world.redrive_parked(3).await;
    assert_eq!((total(&totals, "reconciled"), total(&totals, "still_parked")), (1, 1), "{totals:?}");
    assert!(report.staying_parked[0].reason.contains("lookup `shop` found no item"), "{report:?}");
    assert_eq!((world.orders("a"), world.orders("b"), world.parked().await), (0, 1, 1));
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
    let (good, bad) = (order(1, "a", json!(5)), order(2, "a", json!("five")));
    world.fail("aws/lambda/m/shard/1", &[good]).await;
    world.fail("aws/lambda/m/shard/2", &[order(3, "b", json!(1)), bad]).await;
    world.bucket.put("aws/lambda/m/shard/3", b"{\"DDBStreamBatchInfo\":{}}".to_vec()).await.unwrap();
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
async fn objects_of_the_archive_and_of_other_forms_are_never_settled() {
    let world = OrderWorld::new();
    let (line, archived) = (order(1, "a", json!(5)).to_string(), "archive/dt=2026-02-06/hh=10/1");
    for key in [archived, "datasets/orders/1", "reports/verify/1", "copied/1"] {
        world.bucket.put(key, line.clone().into_bytes()).await.unwrap();
    }
    world.fail("aws/lambda/m/1", &[order(2, "a", json!(5))]).await;
    for prefix in ["archive/", archived, "datasets/", "reports/"] {
        let task = world.object_redrive(1, (prefix, SettledObjects::Delete));
        for error in [task.count().await.unwrap_err(), task.run().await.unwrap_err()] {
            assert_eq!(error.kind(), ErrorKind::Configuration, "{prefix}");
            assert!(
                error.report().contains("afterwrite replay s3://failures/archive/"),
                "{}",
                error.report()
            );
        }
    }
    // The whole bucket, and a record outside of the archive that no on-failure object has.
    let task = world.object_redrive(1, ("", SettledObjects::Delete));
    let totals = task.run().await.unwrap();
    assert_eq!((total(&totals, "objects"), total(&totals, "objects_failed"), world.orders("a")), (1, 1, 1));
    let staying = task.report().staying_objects;
    assert_eq!(staying[0].key, "copied/1");
    assert!(staying[0].reason.contains("not an on-failure object"), "{staying:?}");
    assert_eq!(world.keys().await, [archived, "copied/1", "datasets/orders/1", "reports/verify/1"]);
}

/// Redrives the objects of a prefix, during whose first step they are listed; after it, `between` happens.
async fn redriven_slowly(slow: &Task, between: impl Future<Output = ()>) -> Result<JobTotals> {
    let mut unit = slow.units().remove(0);
    let mut step = slow.step(&unit).await?;
    assert_eq!(total(&step.totals, "objects"), 1);
    between.await;
    let mut totals = JobTotals::new();
    while step.cursor.is_some() {
        unit.cursor = step.cursor;
        step = slow.step(&unit).await?;
        totals.add_all(&step.totals);
    }
    Ok(totals)
}

#[tokio::test]
async fn objects_that_another_redrive_has_moved_meanwhile_are_counted_and_passed_over() {
    for (other, moved, failed) in [(SettledObjects::Move, 2, 0), (SettledObjects::Delete, 0, 2)] {
        let world = OrderWorld::new();
        for number in 1..=3 {
            world.fail(&format!("aws/lambda/m/{number}"), &[order(number, "a", json!(5))]).await;
        }
        let slow = world.object_redrive(1, ("aws/lambda/", SettledObjects::Move));
        let second = async { drop(world.redrive_objects(1, other).await) };
        let totals = redriven_slowly(&slow, second).await.unwrap();
        let found = (total(&totals, "moved_by_another_redrive"), total(&totals, "objects_failed"));
        assert_eq!((found, world.orders("a")), ((moved, failed), 3), "{other:?}");
        let staying = slow.report().staying_objects;
        let is_gone =
            |reason: &str| reason.contains("gone") && reason.contains("s3://failures/aws/lambda/m/");
        assert!(staying.iter().all(|object| is_gone(&object.reason)), "{staying:?}");
    }
}

#[tokio::test]
async fn an_object_that_the_arguments_name_must_exist() {
    let world = OrderWorld::new();
    for (number, key) in [(1, "aws/lambda/m/10"), (2, "aws/lambda/m/1")] {
        world.bucket.set_clock(Timestamp::from_epoch_seconds(number));
        world.fail(key, &[order(number.unsigned_abs(), "a", json!(5))]).await;
    }
    let named = world.object_redrive(1, ("aws/lambda/m/1", SettledObjects::Move));
    let second = async { drop(world.redrive_objects(1, SettledObjects::Move).await) };
    let error = redriven_slowly(&named, second).await.unwrap_err().report();
    assert!(error.contains("s3://failures/redriven/aws/lambda/m/1"), "{error}");
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
