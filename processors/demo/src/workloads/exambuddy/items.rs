//! The exam platform's table and its items, as its own design document has them.

use aws_sdk_dynamodb::types::AttributeValue;

use crate::item::{Item, item, text, texts, whole as number};
use crate::workloads::tools::table as define;
use afterwrite_local::dynamodb::{KeyDefinition, TableDefinition};

/// The table's name, as the model knows it.
pub(super) const TABLE: &str = "ExamBuddyTable";

/// A primary key: `PK` and `SK`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key(pub(super) String, pub(super) String);

impl Key {
    /// The key's attributes.
    pub(super) fn item(&self) -> Item {
        item([("PK", text(&self.0)), ("SK", text(&self.1))])
    }
}

/// The platform's table.
pub(super) fn table() -> TableDefinition {
    let key = |prefix: &str| KeyDefinition::new(&format!("{prefix}PK"), &format!("{prefix}SK"));
    let indexes = ["GSI1", "GSI2", "GSI3"].map(|name| (name, key(name)));
    define(TABLE, key(""), &indexes, true)
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
        ("options", texts(["A", "B", "C", "D"])),
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
    answered_at: &str,
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
        ("answered_at", text(answered_at)),
    ])
}
