//! The items of the exam platform, as its own design document defines them.

use jiff::Timestamp;
use serde_json::json;

use crate::item::{SdkItem, with};
use crate::workloads::tools::{instant, key};

/// The table's name, as the model knows it.
pub(super) const TABLE: &str = "ExamBuddyTable";

pub(super) fn user(id: &str, role: &str, created_at: &str) -> SdkItem {
    let email = format!("{}@example.com", id.split('-').next().unwrap_or(id));
    let (user, indexed) = (format!("USER#{email}"), format!("USER#{id}"));
    let attributes = json!({
        "GSI1PK": indexed, "GSI1SK": indexed,
        "EntityType": "USER", "user_id": id, "role": role,
        "email": email, "name": "Émile \"Œ\" 試験",
        "created_at": created_at, "updated_at": created_at,
    });
    with(key(&user, &user), attributes)
}

/// A project as its admin knows it.
#[derive(Clone, Debug)]
pub(super) struct ExamProject {
    pub(super) id: String,
    pub(super) admin_id: String,
    pub(super) title: String,
    pub(super) created_at: String,
    /// Its questions, in the order in which they were added.
    pub(super) questions: Vec<String>,
    pub(super) is_archived: bool,
    pub(super) exists: bool,
}

impl ExamProject {
    pub(super) fn key(&self) -> SdkItem {
        key(&format!("ADMIN#{}", self.admin_id), &format!("PROJECT#{}", self.id))
    }

    /// The key of its index by status.
    pub(super) fn status(&self) -> String {
        format!("ADMIN#{}#STATUS#{}", self.admin_id, self.is_archived)
    }

    /// The project's item, with the application's count of questions.
    pub(super) fn item(&self, question_count: i64) -> SdkItem {
        let Self { id, admin_id, title, created_at, .. } = self;
        let project = format!("PROJECT#{id}");
        let attributes = json!({
            "GSI1PK": project, "GSI1SK": project,
            "GSI2PK": format!("ADMIN#{admin_id}"), "GSI2SK": format!("{created_at}#{id}"),
            "GSI3PK": self.status(), "GSI3SK": project,
            "EntityType": "PROJECT", "project_id": id, "admin_id": admin_id,
            "title": title, "description": "Practice questions",
            "archived": self.is_archived, "question_count": question_count,
            "created_at": created_at, "updated_at": created_at,
        });
        with(self.key(), attributes)
    }
}

pub(super) fn question_key(project_id: &str, question_id: &str) -> SdkItem {
    key(&format!("PROJECT#{project_id}"), &format!("QUESTION#{question_id}"))
}

pub(super) fn question(project_id: &str, question_id: &str, order: i64, created_at: &str) -> SdkItem {
    let indexed = format!("QUESTION#{question_id}");
    let attributes = json!({
        "GSI1PK": indexed, "GSI1SK": indexed,
        "EntityType": "QUESTION", "question_id": question_id, "project_id": project_id,
        "question_text": "What is Amazon S3?", "question_type": "multiple_choice",
        "options": ["A", "B", "C", "D"], "correct_answer": "C",
        "explanation": "Amazon S3 is object storage.",
        "order": order, "created_at": created_at,
    });
    with(question_key(project_id, question_id), attributes)
}

/// An attempt as its candidate knows it.
#[derive(Clone, Debug)]
pub(super) struct ExamAttempt {
    pub(super) candidate_id: String,
    pub(super) id: String,
    pub(super) project_id: String,
    pub(super) started_at: Timestamp,
    pub(super) answers: Vec<SdkItem>,
}

impl ExamAttempt {
    pub(super) fn key(&self) -> SdkItem {
        key(&format!("CANDIDATE#{}", self.candidate_id), &format!("ATTEMPT#{}", self.id))
    }

    /// An attempt that has just started.
    pub(super) fn item(&self) -> SdkItem {
        let Self { candidate_id, id, project_id, .. } = self;
        let (indexed, started_at) = (format!("ATTEMPT#{id}"), instant(self.started_at));
        let attributes = json!({
            "GSI1PK": indexed, "GSI1SK": indexed,
            "GSI2PK": format!("PROJECT#{project_id}"), "GSI2SK": format!("{started_at}#{id}"),
            "EntityType": "ATTEMPT", "attempt_id": id, "candidate_id": candidate_id,
            "project_id": project_id, "started_at": started_at, "status": "IN_PROGRESS",
        });
        with(self.key(), attributes)
    }

    /// An answer; its sort key has `key_id`, which is the answer's id or the question's.
    pub(super) fn answer(
        &self,
        id: &str,
        question_id: &str,
        key_id: &str,
        is_correct: bool,
        at: Timestamp,
    ) -> SdkItem {
        let indexed = format!("ANSWER#{id}");
        let attributes = json!({
            "GSI1PK": indexed, "GSI1SK": indexed,
            "EntityType": "ANSWER", "answer_id": id, "attempt_id": self.id, "question_id": question_id,
            "selected_answer": if is_correct { "C" } else { "A" }, "is_correct": is_correct,
            "answered_at": instant(at),
        });
        with(key(&format!("ATTEMPT#{}", self.id), &format!("ANSWER#{key_id}")), attributes)
    }
}
