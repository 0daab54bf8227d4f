//! Rollups of rollups as an operator fills, compares and mends them, while no function runs: release binaries against embedded servers.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use afterwrite_demo::item::SdkItem;
use afterwrite_local::dynamodb::{EmbeddedDynamoDb, KeyDefinition, TableDefinition};
use afterwrite_tests::programs::embedded_afterwrite;
use aws_sdk_dynamodb::types::AttributeValue;
use tempfile::TempDir;

use super::world::STATE;

pub(super) const TABLE: &str = "Shop";

/// Orders by day; days by month; months in all, with the customers of all orders. The rollups are not in the order of their levels.
pub(super) const MODEL: &str = r##"
name = "levels"
generation = 1

[tables.Shop]
key = ["pk", "sk"]

[entities.order]
key = { pk = "SHOP#{shop}", sk = "ORDER#{order}" }
attributes = { total = "N", placed_at = "S", customer = "S", status = "S" }

[rollups.total]
key = { PK = "TOTAL#{shop}", SK = "ALL" }

[rollups.month]
key = { PK = "SHOP#{shop}", SK = "MONTH#{placed_at:month}" }

[rollups.day]
key = { PK = "SHOP#{shop}", SK = "DAY#{placed_at:day}" }

[[aggregates]]
name = "months"
of = "month"
into = "total"
[aggregates.measures]
months = "count"
revenue = { sum = "revenue" }
best = { max = "revenue" }

[[aggregates]]
name = "days"
of = "day"
into = "month"
[aggregates.measures]
days = "count"
revenue = { sum = "revenue" }

[[aggregates]]
name = "orders"
of = "order"
into = "day"
[aggregates.measures]
orders = "count"
revenue = { sum = "total" }
payers = { distinct = "customer", when.status = ["PAID"] }

[[aggregates]]
name = "customers"
of = "order"
into = "total"
measures.customers = { distinct = "customer" }
"##;

/// The model, with days that expire 30 days after their start: those of all orders have expired.
pub(super) fn with_expired_days() -> String {
    let day = "SK = \"DAY#{placed_at:day}\" }\n";
    let expiring =
        MODEL.replace(day, &format!("{day}expires = {{ after = \"30 days\", of = \"placed_at\" }}\n"));
    assert_ne!(expiring, MODEL);
    expiring
}

/// An order: shop, number, day of the month, month, total, customer, whether it is paid.
pub(super) type Order = (u32, u32, u32, u32, i64, u32, bool);

/// Numbers by key and measure.
pub(super) type Numbers = BTreeMap<(String, String, String), i64>;

pub(super) struct LevelDeployment {
    pub(super) dynamodb: EmbeddedDynamoDb,
    pub(super) folder: TempDir,
}

impl LevelDeployment {
    pub(super) async fn start() -> Self {
        let dynamodb = EmbeddedDynamoDb::start().await.unwrap();
        let state = TableDefinition { stream: true, ..TableDefinition::state(STATE) };
        dynamodb.create_table(&state).await.unwrap();
        let key = KeyDefinition::new("pk", "sk");
        let source =
            TableDefinition { name: TABLE.to_owned(), key, stream: true, ..TableDefinition::default() };
        dynamodb.create_table(&source).await.unwrap();
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("model.toml"), MODEL).unwrap();
        Self { dynamodb, folder }
    }

    pub(super) async fn put(&self, order: Order) {
        let (shop, number, day, month, total, customer, is_paid) = order;
        let text = |value: String| AttributeValue::S(value);
        let put = self.dynamodb.client().put_item().table_name(TABLE);
        let put = put.item("pk", text(format!("SHOP#{shop}"))).item("sk", text(format!("ORDER#{number}")));
        let put = put.item("total", AttributeValue::N(total.to_string()));
        let put = put.item("placed_at", text(format!("2026-{month:02}-{day:02}T10:00:00Z")));
        let put = put.item("customer", text(format!("c{customer}")));
        put.item("status", text(if is_paid { "PAID" } else { "OPEN" }.to_owned())).send().await.unwrap();
    }

    async fn delete(&self, order: Order) {
        let delete = self.dynamodb.client().delete_item().table_name(TABLE);
        let delete = delete.key("pk", AttributeValue::S(format!("SHOP#{}", order.0)));
        delete.key("sk", AttributeValue::S(format!("ORDER#{}", order.1))).send().await.unwrap();
    }

    /// Runs a command in the deployment's folder, which must end with this code; returns what it prints.
    pub(super) fn run(&self, code: i32, arguments: &[&str]) -> String {
        let mut command = embedded_afterwrite(&self.dynamodb.endpoint(), STATE);
        command.current_dir(self.folder.path()).args(arguments).env("AFTERWRITE_MODEL", "model.toml");
        let output = tokio::task::block_in_place(|| command.output().unwrap());
        let text =
            [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
        assert_eq!(output.status.code(), Some(code), "{arguments:?}\n{text}");
        text
    }

    /// The measures of all rollups except members that are not 0.
    async fn numbers(&self) -> Numbers {
        self.numbers_of(STATE).await
    }

    /// The same of another state table.
    pub(super) async fn numbers_of(&self, table: &str) -> Numbers {
        let client = self.dynamodb.client();
        let pages = client.scan().table_name(table).into_paginator().items().send();
        let items: Vec<SdkItem> = pages.collect::<Result<_, _>>().await.unwrap();
        let mut numbers = Numbers::new();
        for item in items {
            let [partition, sort] = ["PK", "SK"].map(|name| item.get(name).unwrap().as_s().unwrap().clone());
            let is_rollup = ["SHOP#", "TOTAL#"].iter().any(|begin| partition.starts_with(begin));
            if !is_rollup || partition.contains("#DISTINCT#") {
                continue;
            }
            for measure in ["orders", "revenue", "payers", "days", "months", "best", "customers"] {
                let number = item.get(measure).map_or(0, |number| number.as_n().unwrap().parse().unwrap());
                if number != 0 {
                    numbers.insert((partition.clone(), sort.clone(), measure.to_owned()), number);
                }
            }
        }
        numbers
    }

    /// Changes a measure of a rollup behind Afterwrite's back.
    pub(super) async fn damage(&self, partition: &str, sort: &str, measure: &str) {
        let update = self.dynamodb.client().update_item().table_name(STATE);
        let update = update.key("PK", AttributeValue::S(partition.to_owned()));
        let update = update.key("SK", AttributeValue::S(sort.to_owned()));
        let update = update.update_expression("ADD #m :n").expression_attribute_names("#m", measure);
        let update = update.expression_attribute_values(":n", AttributeValue::N("1000".to_owned()));
        update.send().await.unwrap();
    }
}

/// Fails with the numbers that differ.
pub(super) fn assert_numbers(found: Numbers, expected: Numbers) {
    let of = |numbers: &Numbers, key: &(String, String, String)| numbers.get(key).copied().unwrap_or(0);
    let keys: BTreeSet<_> = found.keys().chain(expected.keys()).collect();
    let differing = keys.into_iter().filter(|key| of(&found, key) != of(&expected, key));
    let differing: Vec<String> = differing
        .map(|key| format!("{key:?}: expected {}, found {}", of(&expected, key), of(&found, key)))
        .collect();
    assert!(differing.is_empty(), "{}", differing.join("\n"));
}

/// The numbers of these orders, without a line of the product. `best` is the largest revenue that a month ever had, which the test states.
pub(super) fn recount(orders: &[Order], best: &BTreeMap<u32, i64>) -> Numbers {
    let mut numbers = Numbers::new();
    let (mut payers, mut customers) = (BTreeSet::new(), BTreeSet::new());
    let (mut days, mut months) = (BTreeSet::new(), BTreeSet::new());
    let mut add = |partition: String, sort: String, measure: &str, number: i64| {
        *numbers.entry((partition, sort, measure.to_owned())).or_default() += number;
    };
    for (shop, _, day, month, total, customer, is_paid) in orders.iter().copied() {
        let (partition, whole) = (format!("SHOP#{shop}"), format!("TOTAL#{shop}"));
        let date = format!("DAY#2026-{month:02}-{day:02}");
        let month_key = format!("MONTH#2026-{month:02}");
        add(partition.clone(), date.clone(), "orders", 1);
        add(partition.clone(), date.clone(), "revenue", total);
        add(partition.clone(), month_key.clone(), "revenue", total);
        add(whole.clone(), "ALL".to_owned(), "revenue", total);
        if is_paid && payers.insert((shop, date.clone(), customer)) {
            add(partition.clone(), date.clone(), "payers", 1);
        }
        if customers.insert((shop, customer)) {
            add(whole.clone(), "ALL".to_owned(), "customers", 1);
        }
        if days.insert((shop, date)) {
            add(partition, month_key.clone(), "days", 1);
        }
        if months.insert((shop, month_key)) {
            add(whole, "ALL".to_owned(), "months", 1);
        }
    }
    for (shop, best) in best {
        numbers.insert((format!("TOTAL#{shop}"), "ALL".to_owned(), "best".to_owned()), *best);
    }
    numbers
}

pub(super) const FILL: [&str; 5] = ["backfill", "--yes", "--without-recovery", "--segments", "2"];
const VERIFY: [&str; 5] = ["verify", "--tolerance", "0", "--report", "drift.jsonl"];

/// A deployment with orders that are counted, and the largest revenue that a month of each shop has had.
pub(super) async fn filled() -> (LevelDeployment, Vec<Order>, BTreeMap<u32, i64>) {
    let deployment = LevelDeployment::start().await;
    let order = |n: u32| (n % 2, n, 1 + n % 5, 1 + n % 3, 10 + i64::from(n), n % 7, !n.is_multiple_of(3));
    let orders: Vec<Order> = (0..60).map(order).collect();
    for order in &orders {
        deployment.put(*order).await;
    }
    let plan = deployment.run(2, &["backfill", "--without-recovery"]);
    assert!(plan.contains("items to change"), "{plan}");
    deployment.run(0, &FILL);
    let of_month = |shop: u32, month: u32| -> i64 {
        orders.iter().filter(|order| (order.0, order.3) == (shop, month)).map(|order| order.4).sum()
    };
    let best = [0, 1].map(|shop| (shop, (1..=3).map(|month| of_month(shop, month)).max().unwrap()));
    let best = BTreeMap::from(best);
    assert_numbers(deployment.numbers().await, recount(&orders, &best));
    deployment.run(0, &VERIFY);
    (deployment, orders, best)
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the release binaries: run tests/run"]
async fn a_damaged_rollup_of_any_level_is_named_and_mended() {
    let (deployment, orders, best) = filled().await;
    deployment.damage("SHOP#0", "MONTH#2026-01", "revenue").await;
    deployment.damage("TOTAL#1", "ALL", "customers").await;
    deployment.run(1, &VERIFY);
    deployment.run(0, &["repair", "drift.jsonl", "--yes", "--without-recovery", "--tolerance", "0"]);
    assert_numbers(deployment.numbers().await, recount(&orders, &best));
    deployment.run(0, &VERIFY);
    deployment.dynamodb.stop().await.unwrap();
}

/// No function counts the levels: a day that was damaged is counted into its month and the total, and orders are written whose records are lost. Each time, one
/// repair mends all levels; only the largest value ever stays.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the release binaries: run tests/run"]
async fn one_repair_mends_every_level_above_what_it_writes() {
    let (deployment, mut orders, mut best) = filled().await;
    deployment.damage("SHOP#0", "DAY#2026-01-01", "revenue").await;
    deployment.run(0, &FILL);
    let january =
        orders.iter().filter(|order| (order.0, order.3) == (0, 1)).map(|order| order.4).sum::<i64>();
    best.insert(0, january + 1000);
    deployment.run(1, &VERIFY);
    let repair = ["repair", "drift.jsonl", "--yes", "--without-recovery", "--tolerance", "0"];
    let planned = deployment.run(0, &["repair", "drift.jsonl", "--dry-run", "--tolerance", "0"]);
    assert!(planned.contains("MONTH#2026-01") && planned.contains("would be reconciled"), "{planned}");
    deployment.run(0, &repair);
    assert_numbers(deployment.numbers().await, recount(&orders, &best));
    deployment.run(0, &VERIFY);
    let late = [(1, 900, 17, 2, 4, 1, true), (0, 901, 17, 9, 3, 88, true)];
    for order in late {
        deployment.put(order).await;
    }
    orders.extend(late);
    let february =
        orders.iter().filter(|order| (order.0, order.3) == (1, 2)).map(|order| order.4).sum::<i64>();
    best.entry(1).and_modify(|best| *best = february.max(*best));
    deployment.run(1, &VERIFY);
    deployment.run(0, &repair);
    assert_numbers(deployment.numbers().await, recount(&orders, &best));
    deployment.run(0, &VERIFY);
    deployment.dynamodb.stop().await.unwrap();
}

/// A job that writes rollups may take them over the threshold of an event rule: its plan says so, before anything is written.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the release binaries: run tests/run"]
async fn every_plan_that_writes_rollups_names_their_events() {
    let deployment = LevelDeployment::start().await;
    let rule =
        "\n[[events]]\nname = \"good_month\"\nof = \"month\"\nwhen.revenue = [{ numeric = [\">\", 100] }]\n";
    let file = |name: &str, text: &str| fs::write(deployment.folder.path().join(name), text).unwrap();
    file("model.toml", &[MODEL, rule].concat());
    file("drift.jsonl", "");
    file("records.jsonl", "");
    for (code, arguments) in [
        (2, &["backfill", "--without-recovery"][..]),
        (2, &["replay", "records.jsonl", "--without-recovery"]),
        (0, &["repair", "drift.jsonl", "--dry-run"]),
    ] {
        let plan = deployment.run(code, arguments);
        assert!(plan.contains("rollups have event rules (good_month)"), "{arguments:?}\n{plan}");
    }
    let plan = deployment.run(2, &["replay", "records.jsonl", "--only", "archive"]);
    assert!(!plan.contains("good_month"), "{plan}");
    deployment.dynamodb.stop().await.unwrap();
}

/// The records of the deletions are lost: the last orders of a day and of a customer go, at every level.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the release binaries: run tests/run"]
async fn a_backfill_brings_lost_deletions_and_a_new_measure_to_every_level() {
    let (deployment, mut orders, best) = filled().await;
    let is_kept = |order: &Order| order.2 != 4 && order.5 != 6;
    for order in orders.iter().filter(|order| !is_kept(order)) {
        deployment.delete(*order).await;
    }
    orders.retain(is_kept);
    deployment.run(1, &VERIFY);
    // The ended lives are named, and no TTL could have settled them.
    deployment.run(0, &[&FILL[..], &["--all"]].concat());
    assert_numbers(deployment.numbers().await, recount(&orders, &best));
    deployment.run(0, &[&FILL[..], &["--accept-lives"]].concat());
    deployment.run(0, &VERIFY);

    let more = MODEL.replace("generation = 1", "generation = 2").replace(
        "revenue = { sum = \"revenue\" }\nbest",
        "revenue = { sum = \"revenue\" }\nlong = { count = true, when.days = [{ numeric = [\">\", 3] }] }\nbest",
    );
    assert_ne!(more, MODEL);
    fs::write(deployment.folder.path().join("model.toml"), more).unwrap();
    deployment.run(0, &FILL);
    assert_numbers(deployment.numbers().await, recount(&orders, &best));
    deployment.run(0, &VERIFY);
    deployment.dynamodb.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the release binaries: run tests/run"]
async fn a_state_table_without_a_stream_is_refused_if_rollups_are_sources() {
    let deployment = LevelDeployment::start().await;
    let client = deployment.dynamodb.client();
    client.delete_table().table_name(STATE).send().await.unwrap();
    deployment.dynamodb.create_table(&TableDefinition::state(STATE)).await.unwrap();
    let text = deployment.run(2, &["backfill", "--yes", "--without-recovery"]);
    assert!(text.contains("stream") && text.contains(STATE), "{text}");
    deployment.dynamodb.stop().await.unwrap();
}
