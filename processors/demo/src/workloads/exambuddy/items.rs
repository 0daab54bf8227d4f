//! The items of the exam platform, as its own design document defines them.

use aws_sdk_dynamodb::types::AttributeValue;

use crate::item::{SdkItem, number, text, texts, with};
use crate::workloads::tools::key;

/// The table's name, as the model knows it.
pub(super) const TABLE: &str = "ExamBuddyTable";

pub(super) fn user(id: &str, role: &str, created_at: &str) -> SdkItem {
    let email = format!("{}@example.com", id.split('-').next().unwrap_or(id));
    let user = format!("USER#{email}");
    with(
        key(&user, &user),
        [
            ("GSI1PK", text(format!("USER#{id}"))),
            ("GSI1SK", text(format!("USER#{id}"))),
            ("EntityType", text("USER")),
            ("user_id", text(id)),
            ("email", text(email)),
            ("name", text("Émile \"Œ\" 試験")),
            ("role", text(role)),
            ("created_at", text(created_at)),
            ("updated_at", text(created_at)),
        ],
    )
}

/// A project as its admin knows it.
#[derive(Clone, Debug)]
pub(super) struct ExamProject {
    pub(super) id: String,
    pub(super) admin_id: String,
    pub(super) title: String,
    pub(super) created_at: String,
}

impl ExamProject {
    pub(super) fn key(&self) -> SdkItem {
        key(&format!("ADMIN#{}", self.admin_id), &format!("PROJECT#{}", self.id))
    }

    /// The project's item, with the application's count of questions.
    pub(super) fn item(&self, is_archived: bool, question_count: i64) -> SdkItem {
        let Self { id, admin_id, title, created_at } = self;
        with(
            self.key(),
            [
                ("GSI1PK", text(format!("PROJECT#{id}"))),
                ("GSI1SK", text(format!("PROJECT#{id}"))),
                ("GSI2PK", text(format!("ADMIN#{admin_id}"))),
                ("GSI2SK", text(format!("{created_at}#{id}"))),
                ("GSI3PK", text(format!("ADMIN#{admin_id}#STATUS#{is_archived}"))),
                ("GSI3SK", text(format!("PROJECT#{id}"))),
                ("EntityType", text("PROJECT")),
                ("project_id", text(id)),
                ("admin_id", text(admin_id)),
                ("title", text(title)),
                ("description", text("Practice questions")),
                ("archived", AttributeValue::Bool(is_archived)),
                ("question_count", number(question_count)),
                ("created_at", text(created_at)),
                ("updated_at", text(created_at)),
            ],
        )
    }
}

pub(super) fn question_key(project_id: &str, question_id: &str) -> SdkItem {
    key(&format!("PROJECT#{project_id}"), &format!("QUESTION#{question_id}"))
}

pub(super) fn question(project_id: &str, question_id: &str, order: i64, created_at: &str) -> SdkItem {
    with(
        question_key(project_id, question_id),
        [
            ("GSI1PK", text(format!("QUESTION#{question_id}"))),
            ("GSI1SK", text(format!("QUESTION#{question_id}"))),
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
        ],
    )
}

pub(super) fn attempt_key(candidate_id: &str, attempt_id: &str) -> SdkItem {
    key(&format!("CANDIDATE#{candidate_id}"), &format!("ATTEMPT#{attempt_id}"))
}

/// An attempt that has just started.
pub(super) fn attempt(candidate_id: &str, attempt_id: &str, project_id: &str, started_at: &str) -> SdkItem {
    with(
        attempt_key(candidate_id, attempt_id),
        [
            ("GSI1PK", text(format!("ATTEMPT#{attempt_id}"))),
            ("GSI1SK", text(format!("ATTEMPT#{attempt_id}"))),
            ("GSI2PK", text(format!("PROJECT#{project_id}"))),
            ("GSI2SK", text(format!("{started_at}#{attempt_id}"))),
            ("EntityType", text("ATTEMPT")),
            ("attempt_id", text(attempt_id)),
            ("candidate_id", text(candidate_id)),
            ("project_id", text(project_id)),
            ("started_at", text(started_at)),
            ("status", text("IN_PROGRESS")),
        ],
    )
}

/// An answer; its sort key has `key_id`, which is the answer's id or the question's.
pub(super) fn answer(
    attempt_id: &str,
    answer_id: &str,
    question_id: &str,
    key_id: &str,
    is_correct: bool,
    answered_at: &str,
) -> SdkItem {
    with(
        key(&format!("ATTEMPT#{attempt_id}"), &format!("ANSWER#{key_id}")),
        [
            ("GSI1PK", text(format!("ANSWER#{answer_id}"))),
            ("GSI1SK", text(format!("ANSWER#{answer_id}"))),
            ("EntityType", text("ANSWER")),
            ("answer_id", text(answer_id)),
            ("attempt_id", text(attempt_id)),
            ("question_id", text(question_id)),
            ("selected_answer", text(if is_correct { "C" } else { "A" })),
            ("is_correct", AttributeValue::Bool(is_correct)),
            ("answered_at", text(answered_at)),
        ],
    )
}
