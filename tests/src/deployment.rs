//! What is around the function `aggregator`: its tables, and an application that writes to them.

#![expect(clippy::unwrap_used, reason = "a test or benchmark whose surroundings fail must fail at once")]

use std::collections::HashMap;
use std::path::Path;

use afterwrite_local::dynamodb::{EmbeddedDynamoDb, KeyDefinition, TableDefinition};
use afterwrite_local::sdk::REGION;
use afterwrite_local::stream::StreamSource as _;
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::AttributeValue;
use serde_json::{Value, json};

use crate::runtime_api::{Function, RuntimeApi};

/// The source table.
pub const SOURCE: &str = "ExamBuddyTable";
/// The state table.
pub const STATE: &str = "state";
/// What an item holds that nobody else is to see.
pub const SECRET: &str = "for the candidate's eyes only";

/// An embedded DynamoDB with a source table and a state table, and the exam platform that writes to the one.
pub struct Deployment {
    server: EmbeddedDynamoDb,
    client: Client,
}

/// The event that holds these records.
#[must_use]
pub fn event(records: &[Value]) -> String {
    json!({ "Records": records }).to_string()
}

impl Deployment {
    /// Starts the server and creates both tables, the source table with its stream.
    ///
    /// # Panics
    /// If the server does not start or refuses; so do all other functions here.
    pub async fn new() -> Self {
        let server = EmbeddedDynamoDb::start().await.unwrap();
        let deployment = Self { client: server.client(), server };
        deployment.create_table(STATE, ["PK", "SK"]).await;
        let source = TableDefinition {
            name: SOURCE.to_owned(),
            key: KeyDefinition::new("PK", "SK"),
            indexes: vec![("GSI1".to_owned(), KeyDefinition::new("GSI1PK", "GSI1SK"))],
            stream: true,
            ..TableDefinition::default()
        };
        deployment.server.create_table(&source).await.unwrap();
        deployment
    }

    /// A client of the server.
    #[must_use]
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Where the server listens.
    #[must_use]
    pub fn endpoint(&self) -> String {
        self.server.endpoint()
    }

    /// All items of a table.
    pub async fn scan(&self, table: &str) -> Vec<HashMap<String, AttributeValue>> {
        let pages =
            self.client.scan().table_name(table).consistent_read(true).into_paginator().items().send();
        pages.collect::<Result<Vec<_>, _>>().await.unwrap()
    }

    /// Creates a table without a stream.
    pub async fn create_table(&self, name: &str, [partition, sort]: [&str; 2]) {
        let table = TableDefinition {
            name: name.to_owned(),
            key: KeyDefinition::new(partition, sort),
            ..TableDefinition::default()
        };
        self.server.create_table(&table).await.unwrap();
    }

    /// Starts the function before these tables, under a Runtime API of its own; `environment` adds to its settings or
    /// overrides them.
    pub async fn function(&self, binary: &Path, environment: &[(&str, &str)]) -> (RuntimeApi, Function) {
        let api = RuntimeApi::start().await.unwrap();
        let endpoint = self.server.endpoint();
        let mut settings = vec![
            ("AFTERWRITE_STATE_TABLE", STATE),
            ("AWS_ENDPOINT_URL_DYNAMODB", &*endpoint),
            ("AWS_REGION", REGION),
            ("AWS_ACCESS_KEY_ID", "test"),
            ("AWS_SECRET_ACCESS_KEY", "test"),
        ];
        settings.extend(environment);
        let function = Function::start(binary, &api, &settings).unwrap();
        (api, function)
    }

    /// The application opens a project of its only admin, `a1`.
    pub async fn put_project(&self, project: &str) {
        let put = self.client.put_item().table_name(SOURCE);
        let put = put.item("PK", text("ADMIN#a1")).item("SK", text(&format!("PROJECT#{project}")));
        let put = put.item("GSI1PK", text(&format!("PROJECT#{project}")));
        let put = put.item("GSI1SK", text(&format!("PROJECT#{project}")));
        let put = put.item("archived", AttributeValue::Bool(false)).item("title", text(SECRET));
        put.item("question_count", AttributeValue::N("0".to_owned())).send().await.unwrap();
    }

    /// The application adds a question to a project.
    pub async fn put_question(&self, project: &str, question: &str) {
        let put = self.client.put_item().table_name(SOURCE);
        let put = put.item("PK", text(&format!("PROJECT#{project}")));
        let put = put.item("SK", text(&format!("QUESTION#{question}")));
        let put = put.item("GSI1PK", text(&format!("QUESTION#{question}")));
        let put = put.item("GSI1SK", text(&format!("QUESTION#{question}")));
        put.item("question_text", text(SECRET)).send().await.unwrap();
    }

    /// The application writes an item that the model does not know.
    pub async fn put_stranger(&self) {
        let put = self.client.put_item().table_name(SOURCE);
        put.item("PK", text("STRANGER#1")).item("SK", text("STRANGER#1")).send().await.unwrap();
    }

    /// A candidate completes an attempt at a project's exam.
    pub async fn put_attempt(&self, project: &str, attempt: &str) {
        let number = |number: &str| AttributeValue::N(number.to_owned());
        let put = self.client.put_item().table_name(SOURCE);
        let put = put.item("PK", text("CANDIDATE#c1")).item("SK", text(&format!("ATTEMPT#{attempt}")));
        let put = put.item("project_id", text(project)).item("started_at", text("2026-02-06T14:30:00Z"));
        let put = put.item("status", text("COMPLETED")).item("notes", text(SECRET));
        put.item("score", number("42")).item("total_questions", number("50")).send().await.unwrap();
    }

    /// The records of the source table's stream, as Lambda would deliver them: the first thousand.
    pub async fn records(&self) -> Vec<Value> {
        let stream = self.server.stream(SOURCE).await.unwrap();
        let mut records = Vec::new();
        for shard in stream.shards().await.unwrap() {
            let iterator = stream.iterator(&shard.id, None).await.unwrap();
            let page = stream.read(&iterator).await.unwrap();
            records.extend(
                page.records.iter().map(|record| serde_json::from_str::<Value>(&record.json).unwrap()),
            );
        }
        records
    }

    /// An item's texts and numbers; nothing if it is not there.
    pub async fn item(&self, table: &str, partition: &str, sort: &str) -> HashMap<String, String> {
        let get = self.client.get_item().table_name(table).consistent_read(true);
        let got = get.key("PK", text(partition)).key("SK", text(sort)).send().await.unwrap();
        let shown = |(name, value): (String, AttributeValue)| {
            value.as_s().or_else(|_| value.as_n()).ok().map(|text| (name, text.clone()))
        };
        got.item.unwrap_or_default().into_iter().filter_map(shown).collect()
    }
}

fn text(value: &str) -> AttributeValue {
    AttributeValue::S(value.to_owned())
}
