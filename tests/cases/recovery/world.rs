//! A deployment on embedded servers: orders of a shop, whose changes are counted and archived, and tables that are restored.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::process::Output;

use afterwrite_local::dynamodb::{EmbeddedDynamoDb, TableDefinition};
use afterwrite_local::s3::EmbeddedS3;
use afterwrite_model::clock::{Clock as _, SystemClock};
use afterwrite_model::record::Timestamp;
use afterwrite_tests::archive::BUCKET;
use afterwrite_tests::change_record::{expired, stream_record};
use afterwrite_tests::programs::embedded_afterwrite;
use aws_sdk_dynamodb::types::AttributeValue;
use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::shop::{
    MODEL, OrderChange, OrderTotals, StoredItem, lines, order_item, source_table, visit_item, with_visits,
};

/// The table as the model names it.
pub(crate) const TABLE: &str = "Orders";
const STATE: &str = "NAME-state";
const VISITS_TABLE: &str = "Visits";
const HOUR: i64 = 3_600;

/// The deployment.
pub(crate) struct RecoveryWorld {
    dynamodb: EmbeddedDynamoDb,
    s3: EmbeddedS3,
    folder: TempDir,
    /// The variables that differ from the tables' first names, as an operator exports them.
    pub(crate) variables: BTreeMap<String, String>,
    /// The deployed name of the source table.
    source: String,
    label: String,
    has_ttl: bool,
    /// The orders that live, with their totals.
    orders: BTreeMap<String, i64>,
    /// The totals of what TTL has deleted.
    settled: OrderTotals,
    number: u64,
    /// Records that are not delivered yet.
    pending: Vec<Value>,
    objects: u64,
    now: i64,
}

impl RecoveryWorld {
    pub(crate) async fn start() -> Self {
        Self::with_ttl(true).await
    }

    pub(crate) async fn with_ttl(has_ttl: bool) -> Self {
        let dynamodb = EmbeddedDynamoDb::start().await.unwrap();
        let s3 = EmbeddedS3::start().await.unwrap();
        s3.create_bucket(BUCKET).await.unwrap();
        dynamodb.create_table(&TableDefinition::state(STATE)).await.unwrap();
        dynamodb.create_table(&source_table(TABLE, has_ttl)).await.unwrap();
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("model.toml"), MODEL).unwrap();
        let mut world = Self {
            dynamodb,
            s3,
            folder,
            variables: BTreeMap::new(),
            source: TABLE.to_owned(),
            label: String::new(),
            has_ttl,
            orders: BTreeMap::new(),
            settled: OrderTotals::default(),
            number: 100,
            pending: Vec::new(),
            objects: 0,
            now: SystemClock.now().epoch_seconds(),
        };
        world.label = world.stream_label().await;
        world
    }

    /// So many hours ago.
    pub(crate) fn hours_ago(&self, hours: i64) -> i64 {
        self.now - hours * HOUR
    }

    pub(crate) fn now(&self) -> i64 {
        self.now
    }

    /// Replaces the model.
    pub(crate) fn deploy(&self, change: impl FnOnce(String) -> String) {
        self.write("model.toml", &change(MODEL.to_owned()));
    }

    /// Writes a file into the folder of the commands.
    pub(crate) fn write(&self, name: &str, text: &str) {
        fs::write(self.folder.path().join(name), text).unwrap();
    }

    /// Changes an order, in the table and in the stream.
    pub(crate) async fn change(&mut self, at: i64, order: &str, change: OrderChange) {
        let old = self.orders.get(order).copied();
        let client = self.dynamodb.client();
        let new = match change {
            OrderChange::Put(total) => {
                let put = client.put_item().table_name(&self.source).set_item(Some(order_item(order, total)));
                put.send().await.unwrap();
                self.orders.insert(order.to_owned(), total);
                Some(total)
            }
            OrderChange::Delete | OrderChange::Expire => {
                let key = ["pk", "sk"].map(|name| (name.to_owned(), order_item(order, 0)[name].clone()));
                let delete = client.delete_item().table_name(&self.source).set_key(Some(key.into()));
                delete.send().await.unwrap();
                let total = self.orders.remove(order).expect("an order that lives");
                if change == OrderChange::Expire {
                    self.settled.orders += 1;
                    self.settled.revenue += total;
                }
                None
            }
        };
        self.number += 1;
        let record = self.record(at, order, (old, new), change == OrderChange::Expire);
        self.pending.push(record);
    }

    fn record(&self, at: i64, order: &str, (old, new): (Option<i64>, Option<i64>), is_expiry: bool) -> Value {
        let image = |total: i64| {
            json!({ "pk": { "S": "SHOP#s1" }, "sk": { "S": format!("ORDER#{order}") },
                "total": { "N": total.to_string() }, "placed_at": { "S": "2026-02-06T10:00:00Z" } })
        };
        let (source, label) = (&self.source, &self.label);
        let stream = format!("arn:aws:dynamodb:us-east-1:000000000000:table/{source}/stream/{label}");
        let (old, new) = (old.map(image), new.map(image));
        let number = format!("{:021}", self.number);
        let change = (&*number, at);
        let mut record = stream_record(&stream, &["pk", "sk"], change, (old.as_ref(), new.as_ref()));
        record["eventID"] = json!(format!("{label}-{}", self.number));
        if is_expiry { expired(record) } else { record }
    }

    /// Adds the table of visits.
    pub(crate) async fn add_visits(&self) {
        self.dynamodb.create_table(&source_table(VISITS_TABLE, true)).await.unwrap();
        self.deploy(with_visits);
    }

    /// A visit begins to exist, or TTL deletes it: in its table and in the stream.
    pub(crate) async fn visit(&mut self, at: i64, visit: &str, exists: bool) {
        let key = json!({ "pk": { "S": "SHOP#s1" }, "sk": { "S": format!("VISIT#{visit}") } });
        let item = visit_item(visit);
        let client = self.dynamodb.client();
        if exists {
            client.put_item().table_name(VISITS_TABLE).set_item(Some(item)).send().await.unwrap();
        } else {
            client.delete_item().table_name(VISITS_TABLE).set_key(Some(item)).send().await.unwrap();
        }
        self.number += 1;
        let label = self.stream_label_of(VISITS_TABLE).await;
        let stream = format!("arn:aws:dynamodb:us-east-1:000000000000:table/{VISITS_TABLE}/stream/{label}");
        let number = format!("{:021}", self.number);
        let images = if exists { (None, Some(&key)) } else { (Some(&key), None) };
        let mut record = stream_record(&stream, &["pk", "sk"], (&*number, at), images);
        record["eventID"] = json!(format!("{label}-{}", self.number));
        self.pending.push(if exists { record } else { expired(record) });
    }

    /// The number of visits that the state table shows.
    pub(crate) async fn visits(&self) -> i64 {
        let rows = self.rows(&self.state_table()).await;
        let of_visits = |row: &&StoredItem| row["SK"].as_s().is_ok_and(|key| key == "ROLLUP#VISITS");
        rows.iter().find(of_visits).map_or(0, |row| row["visits"].as_n().unwrap().parse().unwrap())
    }

    /// The functions count the pending records, and archive them at the time `arrived`.
    pub(crate) async fn deliver(&mut self, arrived: i64) {
        self.count();
        self.archive(arrived).await;
    }

    /// The functions park a record of an order that is deleted again.
    pub(crate) async fn park(&mut self, order: &str) {
        self.number += 1;
        let mut record = self.record(self.now, order, (None, Some(5)), false);
        record["dynamodb"]["NewImage"]["total"] = json!({ "S": "five" });
        self.write("records.jsonl", &lines(&[record]));
        self.try_run("afterwrite replay records.jsonl --yes");
        let parked = self.rows(STATE).await.into_iter().filter(|item| item.contains_key("behind"));
        assert_eq!(parked.count(), 1);
    }

    /// The functions count the pending records.
    pub(crate) fn count(&self) {
        self.write("records.jsonl", &lines(&self.pending));
        self.run(0, "afterwrite replay records.jsonl --yes");
    }

    /// The relay archives the pending records at the time `arrived`; nothing counts them.
    pub(crate) async fn archive(&mut self, arrived: i64) {
        self.objects += 1;
        let hour = Timestamp::from_epoch_seconds(arrived).to_string();
        let key = format!("archive/dt={}/hh={}/{:03}.gz", &hour[..10], &hour[11..13], self.objects);
        let put = self.s3.client().put_object().bucket(BUCKET).key(key);
        put.body(packed(&lines(&self.pending)).into()).send().await.unwrap();
        self.pending.clear();
    }

    /// Nothing reads the pending records.
    pub(crate) fn lose(&mut self) {
        self.pending.clear();
    }

    /// Nothing reads the newest pending record.
    pub(crate) fn lose_newest(&mut self) {
        self.pending.pop().unwrap();
    }

    /// The totals of the orders that live and of those that expired.
    pub(crate) fn truth(&self) -> OrderTotals {
        OrderTotals {
            orders: i64::try_from(self.orders.len()).unwrap() + self.settled.orders,
            revenue: self.orders.values().sum::<i64>() + self.settled.revenue,
        }
    }

    /// The totals that the state table shows.
    pub(crate) async fn totals(&self) -> OrderTotals {
        let get = self.dynamodb.client().get_item().table_name(self.state_table());
        let item = get.set_key(Some(rollup_key())).send().await.unwrap().item.unwrap_or_default();
        let number = |name: &str| item.get(name).map_or(0, |value| value.as_n().unwrap().parse().unwrap());
        OrderTotals { orders: number("orders"), revenue: number("revenue") }
    }

    /// Another program deletes the rollup.
    pub(crate) async fn delete_rollup(&self) {
        let delete = self.dynamodb.client().delete_item().table_name(self.state_table());
        delete.set_key(Some(rollup_key())).send().await.unwrap();
    }

    fn state_table(&self) -> String {
        self.variables.get("AFTERWRITE_STATE_TABLE").cloned().unwrap_or_else(|| STATE.to_owned())
    }

    /// A copy of the source table, with the orders and settled totals of that moment.
    pub(crate) async fn source_copy(&self) -> (Vec<StoredItem>, BTreeMap<String, i64>, OrderTotals) {
        (self.rows(&self.source).await, self.orders.clone(), self.settled)
    }

    /// A copy of the state table.
    pub(crate) async fn state_copy(&self) -> Vec<StoredItem> {
        self.rows(STATE).await
    }

    /// All items of a table.
    pub(crate) async fn rows(&self, table: &str) -> Vec<StoredItem> {
        let pages = self.dynamodb.client().scan().table_name(table).into_paginator().items().send();
        pages.collect::<Result<_, _>>().await.unwrap()
    }

    /// Restores the state table: into its own name, or into `name`.
    pub(crate) async fn restore_state(&self, copy: Vec<StoredItem>, name: Option<&str>) {
        self.restore(TableDefinition::state(name.unwrap_or(STATE)), copy).await;
    }

    /// Restores the source table, whose stream is a new one.
    pub(crate) async fn restore_source(
        &mut self,
        (copy, orders, settled): (Vec<StoredItem>, BTreeMap<String, i64>, OrderTotals),
        name: Option<&str>,
    ) {
        let name = name.unwrap_or(TABLE);
        self.restore(source_table(name, self.has_ttl), copy).await;
        (self.orders, self.settled, self.source) = (orders, settled, name.to_owned());
        let old = std::mem::take(&mut self.label);
        self.label = self.stream_label().await;
        assert!(self.label > old, "{} after {old}", self.label);
    }

    /// Deploys a table again that was never deleted, with the orders and settled totals that it had.
    pub(crate) async fn deploy_again(
        &mut self,
        (_, orders, settled): (Vec<StoredItem>, BTreeMap<String, i64>, OrderTotals),
        name: &str,
    ) {
        (self.orders, self.settled, self.source) = (orders, settled, name.to_owned());
        self.label = self.stream_label().await;
    }

    async fn restore(&self, table: TableDefinition, copy: Vec<StoredItem>) {
        let client = self.dynamodb.client();
        if client.describe_table().table_name(&table.name).send().await.is_ok() {
            client.delete_table().table_name(&table.name).send().await.unwrap();
        }
        self.dynamodb.create_table(&table).await.unwrap();
        for item in copy {
            client.put_item().table_name(&table.name).set_item(Some(item)).send().await.unwrap();
        }
    }

    /// Creates an empty state table.
    pub(crate) async fn create_state_table(&self, name: &str) {
        self.dynamodb.create_table(&TableDefinition::state(name)).await.unwrap();
    }

    async fn stream_label(&self) -> String {
        self.stream_label_of(&self.source).await
    }

    async fn stream_label_of(&self, table: &str) -> String {
        let table = self.dynamodb.client().describe_table().table_name(table).send().await.unwrap();
        table.table.unwrap().latest_stream_label.unwrap()
    }

    /// The functions give up the pending records: Lambda writes them to the on-failure bucket.
    pub(crate) async fn fail(&mut self, bucket: &str) {
        self.s3.create_bucket(bucket).await.unwrap();
        let event = json!({ "Records": std::mem::take(&mut self.pending) });
        let object = json!({
            "version": "1.0",
            "requestContext": { "condition": "RetryAttemptsExhausted", "approximateInvokeCount": 3 },
            "payload": event.to_string(),
        });
        let put = self.s3.client().put_object().bucket(bucket).key("aws/lambda/uuid/shard/2026/02/06/object");
        put.body(object.to_string().into_bytes().into()).send().await.unwrap();
    }

    /// Runs the commands of a page, all of which must succeed. `2026-02-06T10:00:00Z` stands for the time `at`, and the day before it for
    /// `since`. Settings are only made where a table has another name.
    pub(crate) fn follow(&mut self, block: &[String], (since, at): (i64, i64), exports: &[&str]) {
        let time = |seconds: i64| Timestamp::from_epoch_seconds(seconds).to_string();
        for line in block {
            let line = line.replace("2026-02-05T10:00:00Z", &time(since));
            let line = line.replace("2026-02-06T10:00:00Z", &time(at)).replace("s3://BUCKET/", &bucket_url());
            match line.strip_prefix("export ").and_then(|setting| setting.split_once('=')) {
                Some((name, value)) if exports.contains(&name) => {
                    self.variables.insert(name.to_owned(), value.to_owned());
                }
                Some(_) => {}
                None => drop(self.run(0, &line)),
            }
        }
    }

    /// Runs a command, which must end with this code; returns its standard output and standard error.
    pub(crate) fn run(&self, code: i32, line: &str) -> String {
        let (ended, text) = self.try_run(line);
        assert_eq!(ended, Some(code), "{line}\n{text}");
        text
    }

    /// Runs a command; returns its exit code, its standard output and standard error.
    pub(crate) fn try_run(&self, line: &str) -> (Option<i32>, String) {
        let mut words: Vec<&str> = line.split_whitespace().skip(1).collect();
        // Embedded tables cannot be restored, and nothing is in flight.
        words.extend(match words[0] {
            "backfill" | "replay" | "redrive" => &["--without-recovery"][..],
            "repair" => &["--without-recovery", "--tolerance", "0"][..],
            "verify" => &["--tolerance", "0"][..],
            _ => &[],
        });
        let output = tokio::task::block_in_place(|| self.output(&words));
        let text =
            [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
        (output.status.code(), text)
    }

    fn output(&self, words: &[&str]) -> Output {
        let mut command = embedded_afterwrite(&self.dynamodb.endpoint(), STATE);
        command.args(words).current_dir(self.folder.path());
        command.env("AWS_ENDPOINT_URL_S3", self.s3.endpoint()).env("AFTERWRITE_MODEL", "model.toml");
        command.envs(&self.variables).output().unwrap()
    }

    pub(crate) async fn stop(self) {
        self.s3.stop().await.unwrap();
        self.dynamodb.stop().await.unwrap();
    }
}

/// As the delivery stream writes an object.
fn packed(text: &str) -> Vec<u8> {
    let mut packed = GzEncoder::new(Vec::new(), Compression::default());
    packed.write_all(text.as_bytes()).unwrap();
    packed.finish().unwrap()
}

fn bucket_url() -> String {
    format!("s3://{BUCKET}/")
}

fn rollup_key() -> StoredItem {
    let key = [("PK", "SHOP#s1"), ("SK", "ROLLUP#ORDERS")];
    key.map(|(name, value)| (name.to_owned(), AttributeValue::S(value.to_owned()))).into()
}
