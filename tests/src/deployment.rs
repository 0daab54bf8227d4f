//! The surroundings of a deployed function: an embedded DynamoDB with its tables, and an application that writes to them.

#![expect(clippy::unwrap_used, reason = "a test or benchmark whose surroundings fail must fail at once")]

use std::collections::HashMap;
use std::path::Path;

use afterwrite_local::dynamodb::{EmbeddedDynamoDb, KeyDefinition, TableDefinition};
use afterwrite_local::sdk::{CREDENTIAL, REGION};
use afterwrite_mapping::{ShardPosition, StreamSource as _};
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::AttributeValue;
use serde_json::{Value, json};

use crate::runtime_api::{FunctionProcess, RuntimeApi};

/// The source table.
pub const SOURCE: &str = "ExamBuddyTable";
/// The state table.
pub const STATE: &str = "state";
/// A value of items that must not leave the source table.
pub const SECRET: &str = "for the candidate's eyes only";

/// An embedded DynamoDB with a source table and a state table, and the exam platform that writes to the source table.
pub struct FunctionDeployment {
    server: EmbeddedDynamoDb,
    client: Client,
}

/// An event of these records.
#[must_use]
pub fn event(records: &[Value]) -> String {
    json!({ "Records": records }).to_string()
}

impl FunctionDeployment {
    /// Starts the server and creates both tables, the source table with a stream.
    ///
    /// # Panics
    /// Like all functions here: if the server does not start, or refuses a request.
    pub async fn new() -> Self {
        let server = EmbeddedDynamoDb::start().await.unwrap();
        let deployment = Self { client: server.client(), server };
        deployment.server.create_table(&TableDefinition::state(STATE)).await.unwrap();
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

    /// The server's URL.
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
        self.create(&table).await;
    }

    /// Creates a table.
    pub async fn create(&self, table: &TableDefinition) {
        self.server.create_table(table).await.unwrap();
    }

    /// Starts a function with these tables under a Runtime API of its own. `environment` adds settings or overrides them.
    pub async fn function(
        &self,
        binary: &Path,
        environment: &[(&str, &str)],
    ) -> (RuntimeApi, FunctionProcess) {
        let api = RuntimeApi::start().await.unwrap();
        let endpoint = self.server.endpoint();
        let mut settings = vec![
            ("AFTERWRITE_MODEL", "exambuddy"),
            ("AFTERWRITE_STATE_TABLE", STATE),
            ("AWS_ENDPOINT_URL_DYNAMODB", &*endpoint),
            ("AWS_REGION", REGION),
            ("AWS_ACCESS_KEY_ID", CREDENTIAL),
            ("AWS_SECRET_ACCESS_KEY", CREDENTIAL),
        ];
        settings.extend(environment);
        let function = FunctionProcess::start(binary, &api, &settings).unwrap();
        (api, function)
    }

    /// Writes a project of the only admin, `a1`.
    pub async fn put_project(&self, project: &str) {
        let put = self.client.put_item().table_name(SOURCE);
        let put = put.item("PK", text("ADMIN#a1")).item("SK", text(&format!("PROJECT#{project}")));
        let put = put.item("GSI1PK", text(&format!("PROJECT#{project}")));
        let put = put.item("GSI1SK", text(&format!("PROJECT#{project}")));
        let put = put.item("archived", AttributeValue::Bool(false)).item("title", text(SECRET));
        put.item("question_count", AttributeValue::N("0".to_owned())).send().await.unwrap();
    }

    /// Writes a question of a project.
    pub async fn put_question(&self, project: &str, question: &str) {
        let put = self.client.put_item().table_name(SOURCE);
        let put = put.item("PK", text(&format!("PROJECT#{project}")));
        let put = put.item("SK", text(&format!("QUESTION#{question}")));
        let put = put.item("GSI1PK", text(&format!("QUESTION#{question}")));
        let put = put.item("GSI1SK", text(&format!("QUESTION#{question}")));
        put.item("question_text", text(SECRET)).send().await.unwrap();
    }

    /// Writes an item that matches no entity of the model.
    pub async fn put_stranger(&self) {
        let put = self.client.put_item().table_name(SOURCE);
        put.item("PK", text("STRANGER#1")).item("SK", text("STRANGER#1")).send().await.unwrap();
    }

    /// Writes a candidate's completed attempt at a project's exam.
    pub async fn put_attempt(&self, project: &str, attempt: &str) {
        let number = |number: &str| AttributeValue::N(number.to_owned());
        let put = self.client.put_item().table_name(SOURCE);
        let put = put.item("PK", text("CANDIDATE#c1")).item("SK", text(&format!("ATTEMPT#{attempt}")));
        let put = put.item("project_id", text(project)).item("started_at", text("2026-02-06T14:30:00Z"));
        let put = put.item("status", text("COMPLETED")).item("notes", text(SECRET));
        put.item("score", number("42")).item("total_questions", number("50")).send().await.unwrap();
    }

    /// The first 1,000 records of the source table's stream, as Lambda delivers them.
    pub async fn records(&self) -> Vec<Value> {
        let stream = self.server.stream(SOURCE).await.unwrap();
        let mut records = Vec::new();
        for shard in stream.describe(None).await.unwrap().shards {
            let iterator = stream.iterator(&shard.id, &ShardPosition::TrimHorizon).await.unwrap();
            let page = stream.read(&iterator).await.unwrap();
            records.extend(
                page.records.iter().map(|record| serde_json::from_str::<Value>(&record.json).unwrap()),
            );
        }
        records
    }

    /// The texts and numbers of an item; empty if it does not exist.
    pub async fn item(&self, table: &str, partition: &str, sort: &str) -> HashMap<String, String> {
        let get = self.client.get_item().table_name(table).consistent_read(true);
        let got = get.key("PK", text(partition)).key("SK", text(sort)).send().await.unwrap();
        let scalar = |(name, value): (String, AttributeValue)| {
            value.as_s().or_else(|_| value.as_n()).ok().map(|text| (name, text.clone()))
        };
        got.item.unwrap_or_default().into_iter().filter_map(scalar).collect()
    }
}

fn text(value: &str) -> AttributeValue {
    AttributeValue::S(value.to_owned())
}
