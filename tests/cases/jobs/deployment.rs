//! A shop's table on the embedded DynamoDB, and the release binary as its operator runs it.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use afterwrite_local::dynamodb::{EmbeddedDynamoDb, KeyDefinition, TableDefinition};
use afterwrite_model::clock::{Clock as _, SystemClock};
use afterwrite_tests::change_record::stream_record;
use afterwrite_tests::programs::embedded_afterwrite;
use aws_sdk_dynamodb::operation::update_item::builders::UpdateItemFluentBuilder;
use aws_sdk_dynamodb::types::AttributeValue;
use serde_json::{Value, json};
use tempfile::TempDir;

pub(super) const STATE: &str = "state";
pub(super) const ORDERS: &str = "Orders";

const MODEL: &str = r##"
name = "shop"
generation = 1
[tables.Orders]
key = ["PK", "SK"]
[entities.order]
table = "Orders"
key = { PK = "SHOP#{shop}", SK = "ORDER#{order}" }
attributes = { price = "N" }
[rollups.shop]
key = { PK = "SHOP#{shop}", SK = "TOTAL" }
[[aggregates]]
name = "orders"
of = "order"
into = "shop"
[aggregates.measures]
orders = "count"
spent = { sum = "price" }
"##;

/// The addition of the second generation: another table.
const RETURNS: &str = r##"
[tables.Returns]
key = ["PK", "SK"]
[entities.return]
table = "Returns"
key = { PK = "SHOP#{shop}", SK = "RETURN#{return}" }
[[aggregates]]
name = "returns"
of = "return"
into = "shop"
measures.returns = "count"
"##;

/// A deployment of the shop.
pub(super) struct Shop {
    pub(super) server: EmbeddedDynamoDb,
    pub(super) folder: TempDir,
    /// The endpoint of DynamoDB that the binary uses.
    pub(super) endpoint: String,
}

impl Shop {
    /// A shop with so many orders, each with a price of 3, of which nothing is counted.
    pub(super) async fn with_orders(count: u64) -> Self {
        let server = EmbeddedDynamoDb::start().await.unwrap();
        server.create_table(&TableDefinition::state(STATE)).await.unwrap();
        let shop = Self { endpoint: server.endpoint(), server, folder: tempfile::tempdir().unwrap() };
        shop.create_table(ORDERS).await;
        for order in 0..count {
            shop.put_order(ORDERS, order).await;
        }
        std::fs::write(shop.path("model.toml"), MODEL).unwrap();
        let second = format!("{}{RETURNS}", MODEL.replace("generation = 1", "generation = 2"));
        std::fs::write(shop.path("second.toml"), second).unwrap();
        shop
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(super) async fn create_table(&self, name: &str) {
        let key = KeyDefinition::new("PK", "SK");
        let table = TableDefinition {
            name: name.to_owned(),
            key,
            indexes: vec![],
            stream: true,
            ttl_attribute: None,
        };
        self.server.create_table(&table).await.unwrap();
    }

    pub(super) async fn put_order(&self, table: &str, order: u64) {
        let text = |value: String| AttributeValue::S(value);
        let put = self.server.client().put_item().table_name(table);
        let put =
            put.item("PK", text(format!("SHOP#{}", order % 7))).item("SK", text(format!("ORDER#{order}")));
        put.item("price", AttributeValue::N("3".to_owned())).send().await.unwrap();
    }

    pub(super) async fn delete_order(&self, table: &str, order: u64) {
        let text = |value: String| AttributeValue::S(value);
        let delete = self.server.client().delete_item().table_name(table);
        let delete = delete.key("PK", text(format!("SHOP#{}", order % 7)));
        delete.key("SK", text(format!("ORDER#{order}"))).send().await.unwrap();
    }

    /// The number of orders that are counted.
    pub(super) async fn counted(&self) -> u64 {
        let scan = self.server.client().scan().table_name(STATE).into_paginator().items().send();
        let items: Vec<_> = scan.try_collect().await.unwrap();
        let is_total = |item: &&std::collections::HashMap<String, AttributeValue>| {
            item.get("SK").is_some_and(|key| *key == AttributeValue::S("TOTAL".to_owned()))
        };
        let orders = items.iter().filter(is_total).filter_map(|item| item.get("orders")?.as_n().ok());
        orders.map(|orders| orders.parse::<u64>().unwrap()).sum()
    }

    pub(super) fn command(&self, folder: &Path, arguments: &[&str]) -> Command {
        let mut command = embedded_afterwrite(&self.endpoint, STATE);
        command.args(arguments).current_dir(folder).env("AFTERWRITE_MODEL", self.path("model.toml"));
        command
    }

    pub(super) fn run_in(&self, folder: &Path, arguments: &[&str]) -> Output {
        tokio::task::block_in_place(|| self.command(folder, arguments).output().unwrap())
    }

    /// The outputs of a command with this exit code.
    pub(super) fn text(&self, code: i32, arguments: &[&str]) -> String {
        let output = self.run_in(self.folder.path(), arguments);
        let text =
            format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert_eq!(output.status.code(), Some(code), "{arguments:?}\n{text}");
        text
    }

    /// The JSON of a command with this exit code.
    pub(super) fn json(&self, code: i32, arguments: &[&str]) -> Value {
        let output = self.run_in(self.folder.path(), arguments);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}\n{errors}");
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// The outputs of a command in an environment with another variable.
    pub(super) fn text_with(&self, variable: (&str, &str), code: i32, arguments: &[&str]) -> String {
        let mut command = self.command(self.folder.path(), arguments);
        let output = tokio::task::block_in_place(|| command.env(variable.0, variable.1).output().unwrap());
        let text =
            format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert_eq!(output.status.code(), Some(code), "{arguments:?}\n{text}");
        text
    }

    /// Starts a command in the folder of the shop.
    pub(super) fn start(&self, arguments: &[&str]) -> Child {
        let mut command = self.command(self.folder.path(), arguments);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
    }

    /// Starts a job in a folder and pauses it in its midst; returns its id.
    pub(super) fn paused_in(&self, folder: &Path, arguments: &[&str]) -> String {
        let started = self.command(folder, arguments).stdin(Stdio::null()).stdout(Stdio::null()).spawn();
        self.pause(started.unwrap())
    }

    /// Pauses the job that a process runs; returns its id.
    pub(super) fn pause(&self, mut process: Child) -> String {
        let begin = Instant::now();
        loop {
            let jobs = self.json(0, &["jobs", "list", "--json"]);
            let mut jobs = jobs.as_array().unwrap().iter();
            let has_begun = |job: &&Value| job["status"] == "running" && job["progress"]["items"] != 0;
            if let Some(job) = jobs.find(has_begun) {
                let id = job["id"].as_str().unwrap().to_owned();
                self.text(0, &["jobs", "pause", &id]);
                assert_eq!(process.wait().unwrap().code(), Some(1), "a paused job");
                self.text(0, &["jobs", "set", &id, "rate=none"]);
                return id;
            }
            assert!(begin.elapsed() < Duration::from_secs(60), "no job has begun");
            std::thread::sleep(Duration::from_millis(200));
        }
    }

    /// A change of the item of a job, as only Afterwrite may write it.
    pub(super) fn update_job(&self, id: &str) -> UpdateItemFluentBuilder {
        let update = self.server.client().update_item().table_name(STATE);
        let update = update.key("PK", AttributeValue::S(format!("AFTERWRITE#JOB#{id}")));
        update.key("SK", AttributeValue::S("-".to_owned()))
    }

    /// The records of new orders, as the stream has them.
    pub(super) fn records(orders: std::ops::Range<u64>) -> String {
        let now = SystemClock.now().epoch_seconds();
        let record = |order: u64| {
            let image = json!({
                "PK": { "S": format!("SHOP#{}", order % 7) }, "SK": { "S": format!("ORDER#{order}") }, "price": { "N": "3" },
            });
            let stream = format!(
                "arn:aws:dynamodb:us-east-1:000000000000:table/{ORDERS}/stream/2026-01-01T00:00:00.000"
            );
            let number = format!("{:021}", 100 + order);
            let record = stream_record(&stream, &["PK", "SK"], (&number, now), (None, Some(&image)));
            format!("{record}\n")
        };
        orders.map(record).collect()
    }
}
