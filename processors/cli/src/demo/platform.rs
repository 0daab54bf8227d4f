//! The exam platform that the demo plays: its table and its items, and writing them as its application would.
//!
//! The application writes its items and nothing else: it counts nothing.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};

use afterwrite::{Error, ErrorKind, Result};
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::{AttributeValue, Put, TransactWriteItem};

use crate::local::table::{KeyDefinition, TableDefinition};

/// The table's name, as the model knows it.
pub(super) const TABLE: &str = "ExamBuddyTable";

/// An item as the AWS SDK has it.
pub(super) type Item = HashMap<String, AttributeValue>;

/// A primary key: `PK` and `SK`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key(pub(super) String, pub(super) String);

/// The platform's table, as its own design document has it.
pub(super) fn table() -> TableDefinition {
    let index = |number: u8| {
        let name = format!("GSI{number}");
        let key = KeyDefinition::new(&format!("{name}PK"), &format!("{name}SK"));
        (name, key)
    };
    TableDefinition {
        name: TABLE.to_owned(),
        key: KeyDefinition::new("PK", "SK"),
        indexes: (1..=3).map(index).collect(),
        stream: true,
        ttl_attribute: Some("ttl".to_owned()),
    }
}

pub(super) fn text(value: impl Into<String>) -> AttributeValue {
    AttributeValue::S(value.into())
}

pub(super) fn number(value: i64) -> AttributeValue {
    AttributeValue::N(value.to_string())
}

/// An item of these attributes.
pub(super) fn item<const N: usize>(attributes: [(&str, AttributeValue); N]) -> Item {
    attributes.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

pub(super) fn user(id: &str, role: &str, created_at: &str) -> Item {
    let email = format!("{}@example.com", id.split('-').next().unwrap_or(id));
    item([
        ("PK", text(format!("USER#{email}"))),
        ("SK", text(format!("USER#{email}"))),
        ("GSI1PK", text(format!("USER#{id}"))),
        ("GSI1SK", text(format!("USER#{id}"))),
        ("EntityType", text("USER")),
        ("user_id", text(id)),
        ("email", text(email)),
        ("name", text("Émile \"Œ\" 試験")),
        ("role", text(role)),
        ("created_at", text(created_at)),
        ("updated_at", text(created_at)),
    ])
}

/// A project as it is known to its admin.
#[derive(Clone, Debug)]
pub(super) struct Project {
    pub(super) id: String,
    pub(super) admin_id: String,
    pub(super) title: String,
    pub(super) created_at: String,
}

impl Project {
    pub(super) fn key(&self) -> Key {
        Key(format!("ADMIN#{}", self.admin_id), format!("PROJECT#{}", self.id))
    }

    /// The project's item, with the count of questions that the application believes.
    pub(super) fn item(&self, is_archived: bool, question_count: i64) -> Item {
        let Key(partition, sort) = self.key();
        item([
            ("GSI1PK", text(&sort)),
            ("GSI1SK", text(&sort)),
            ("GSI2PK", text(&partition)),
            ("GSI2SK", text(format!("{}#{}", self.created_at, self.id))),
            ("GSI3PK", text(format!("{partition}#STATUS#{is_archived}"))),
            ("GSI3SK", text(&sort)),
            ("PK", text(partition)),
            ("SK", text(sort)),
            ("EntityType", text("PROJECT")),
            ("project_id", text(&self.id)),
            ("admin_id", text(&self.admin_id)),
            ("title", text(&self.title)),
            ("description", text("Practice questions")),
            ("archived", AttributeValue::Bool(is_archived)),
            ("question_count", number(question_count)),
            ("created_at", text(&self.created_at)),
            ("updated_at", text(&self.created_at)),
        ])
    }
}

pub(super) fn question_key(project_id: &str, question_id: &str) -> Key {
    Key(format!("PROJECT#{project_id}"), format!("QUESTION#{question_id}"))
}

pub(super) fn question(project_id: &str, question_id: &str, order: i64, created_at: &str) -> Item {
    let Key(partition, sort) = question_key(project_id, question_id);
    item([
        ("PK", text(partition)),
        ("GSI1PK", text(&sort)),
        ("GSI1SK", text(&sort)),
        ("SK", text(sort)),
        ("EntityType", text("QUESTION")),
        ("question_id", text(question_id)),
        ("project_id", text(project_id)),
        ("question_text", text("What is Amazon S3?")),
        ("question_type", text("multiple_choice")),
        ("options", AttributeValue::L(["A", "B", "C", "D"].map(text).to_vec())),
        ("correct_answer", text("C")),
        ("explanation", text("Amazon S3 is object storage.")),
        ("order", number(order)),
        ("created_at", text(created_at)),
    ])
}

pub(super) fn attempt_key(candidate_id: &str, attempt_id: &str) -> Key {
    Key(format!("CANDIDATE#{candidate_id}"), format!("ATTEMPT#{attempt_id}"))
}

/// An attempt that was just started.
pub(super) fn attempt(candidate_id: &str, attempt_id: &str, project_id: &str, started_at: &str) -> Item {
    let Key(partition, sort) = attempt_key(candidate_id, attempt_id);
    item([
        ("PK", text(partition)),
        ("GSI1PK", text(&sort)),
        ("GSI1SK", text(&sort)),
        ("SK", text(sort)),
        ("GSI2PK", text(format!("PROJECT#{project_id}"))),
        ("GSI2SK", text(format!("{started_at}#{attempt_id}"))),
        ("EntityType", text("ATTEMPT")),
        ("attempt_id", text(attempt_id)),
        ("candidate_id", text(candidate_id)),
        ("project_id", text(project_id)),
        ("started_at", text(started_at)),
        ("status", text("IN_PROGRESS")),
    ])
}

/// An answer; `key` is what its sort key names, which is the answer's id or the question's.
pub(super) fn answer(
    attempt_id: &str,
    answer_id: &str,
    question_id: &str,
    key: &str,
    is_correct: bool,
) -> Item {
    item([
        ("PK", text(format!("ATTEMPT#{attempt_id}"))),
        ("SK", text(format!("ANSWER#{key}"))),
        ("GSI1PK", text(format!("ANSWER#{answer_id}"))),
        ("GSI1SK", text(format!("ANSWER#{answer_id}"))),
        ("EntityType", text("ANSWER")),
        ("answer_id", text(answer_id)),
        ("attempt_id", text(attempt_id)),
        ("question_id", text(question_id)),
        ("selected_answer", text(if is_correct { "C" } else { "A" })),
        ("is_correct", AttributeValue::Bool(is_correct)),
    ])
}

/// The application's writes, through the AWS SDK.
#[derive(Debug)]
pub(super) struct Application {
    client: Client,
    writes: AtomicU64,
}

impl Application {
    pub(super) fn new(client: Client) -> Self {
        Self { client, writes: AtomicU64::new(0) }
    }

    /// How many items it has written.
    pub(super) fn writes(&self) -> u64 {
        self.writes.load(Ordering::Relaxed)
    }

    pub(super) async fn put(&self, item: Item) -> Result<()> {
        self.writes.fetch_add(1, Ordering::Relaxed);
        let put = self.client.put_item().table_name(TABLE).set_item(Some(item)).send().await;
        put.map(|_| ()).map_err(|error| failed("putting an item", error.into_service_error()))
    }

    /// Puts all of these or none.
    pub(super) async fn put_together(&self, items: Vec<Item>) -> Result<()> {
        self.writes.fetch_add(u64::try_from(items.len()).unwrap_or(0), Ordering::Relaxed);
        let mut request = self.client.transact_write_items();
        for item in items {
            let put = Put::builder().table_name(TABLE).set_item(Some(item)).build();
            let put = put.map_err(|error| failed("putting items", error))?;
            request = request.transact_items(TransactWriteItem::builder().put(put).build());
        }
        let put = request.send().await;
        put.map(|_| ()).map_err(|error| failed("putting items", error.into_service_error()))
    }

    /// Sets attributes of an item.
    pub(super) async fn set(&self, key: &Key, attributes: Vec<(&str, AttributeValue)>) -> Result<()> {
        self.writes.fetch_add(1, Ordering::Relaxed);
        let mut request =
            self.client.update_item().table_name(TABLE).key("PK", text(&key.0)).key("SK", text(&key.1));
        let mut assignments = Vec::new();
        for (position, (name, value)) in attributes.into_iter().enumerate() {
            assignments.push(format!("#{position} = :{position}"));
            request = request
                .expression_attribute_names(format!("#{position}"), name)
                .expression_attribute_values(format!(":{position}"), value);
        }
        let set = request.update_expression(format!("SET {}", assignments.join(", "))).send().await;
        set.map(|_| ()).map_err(|error| failed("updating an item", error.into_service_error()))
    }

    pub(super) async fn delete(&self, key: &Key) -> Result<()> {
        self.writes.fetch_add(1, Ordering::Relaxed);
        let request = self.client.delete_item().table_name(TABLE);
        let delete = request.key("PK", text(&key.0)).key("SK", text(&key.1)).send().await;
        delete.map(|_| ()).map_err(|error| failed("deleting an item", error.into_service_error()))
    }
}

/// All items of a table, strongly consistent.
pub(super) async fn scan(client: &Client, table: &str) -> Result<Vec<Item>> {
    let mut pages = client.scan().table_name(table).consistent_read(true).into_paginator().send();
    let mut items = Vec::new();
    while let Some(page) = pages.next().await {
        let page = page.map_err(|error| failed("scanning a table", error.into_service_error()))?;
        items.extend(page.items.unwrap_or_default());
    }
    Ok(items)
}

pub(super) fn failed(doing: &str, cause: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
    Error::new(ErrorKind::Unavailable, format!("{doing} failed")).caused_by(cause)
}
