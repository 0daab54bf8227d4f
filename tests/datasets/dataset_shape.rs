//! The items of the simulation: a dataset of each built-in model, and the items that fill it.

use serde_json::{Value, json};

/// The midnight that begins 1 February 2026, in epoch seconds.
const FEBRUARY: u64 = 1_769_904_000;
const DAY_SECONDS: u64 = 24 * 60 * 60;

/// The state of an item.
#[derive(Clone)]
pub(crate) struct ItemState {
    /// The day of its partition, of February 2026.
    pub(crate) day: u64,
    pub(crate) score: Option<u64>,
}

impl ItemState {
    pub(crate) fn status(&self) -> &'static str {
        if self.score.is_some() { "COMPLETED" } else { "IN_PROGRESS" }
    }

    fn time(&self) -> Value {
        json!({ "S": format!("2026-02-{:02}T10:00:00Z", self.day) })
    }

    fn score(&self) -> Option<Value> {
        self.score.map(|score| json!({ "N": score.to_string() }))
    }
}

/// A dataset, and how its items are written.
pub(crate) struct DatasetShape {
    pub(crate) model: &'static str,
    pub(crate) dataset: &'static str,
    /// The source table.
    pub(crate) table: &'static str,
    /// The key attributes of an item.
    pub(crate) keys: fn(u64) -> Value,
    /// The other attributes of an item.
    pub(crate) attributes: fn(&str, &ItemState) -> Value,
    /// The attribute that has the score.
    score: &'static str,
    /// The columns of the id, the status and the score.
    pub(crate) columns: [&'static str; 3],
    /// Whether an item that expired stays in the table of current rows.
    pub(crate) keeps_expired: bool,
    /// Whether the day follows from the key.
    pub(crate) has_day_in_key: bool,
}

impl DatasetShape {
    /// The image of an item.
    pub(crate) fn image(&self, id: u64, state: &ItemState) -> Value {
        let mut image = (self.attributes)(&name(id), state);
        let score = state.score().map(|score| (self.score.to_owned(), score));
        image.as_object_mut().unwrap().extend(score);
        image
    }

    /// The day of an item's next life.
    pub(crate) fn day(&self, id: u64, random: u64) -> u64 {
        1 + if self.has_day_in_key { id } else { random } % 3
    }

    /// Both tables, as prefixes of keys: the current rows, and the log.
    pub(crate) fn tables(&self) -> [String; 2] {
        [format!("datasets/{}/", self.dataset), format!("datasets/{}_log/", self.dataset)]
    }
}

/// The text that identifies an item.
pub(crate) fn name(id: u64) -> String {
    format!("t{id}")
}

/// One dataset of each built-in model.
pub(crate) const SHAPES: [DatasetShape; 5] = [
    DatasetShape {
        model: "exambuddy",
        dataset: "attempts",
        table: "ExamBuddyTable",
        keys: |id| json!({ "PK": { "S": "CANDIDATE#c1" }, "SK": { "S": format!("ATTEMPT#t{id}") } }),
        attributes: |name, state| {
            json!({
                "attempt_id": { "S": name }, "candidate_id": { "S": "c1" }, "project_id": { "S": "p1" },
                "started_at": state.time(), "status": { "S": state.status() },
            })
        },
        score: "score",
        columns: ["attempt_id", "status", "score"],
        keeps_expired: true,
        has_day_in_key: false,
    },
    DatasetShape {
        model: "algoitny",
        dataset: "history",
        table: "algoitny-main",
        keys: |id| json!({ "pk": { "S": format!("HIST#t{id}") }, "sk": { "S": "META" } }),
        attributes: |_, state| {
            let time = FEBRUARY + (state.day - 1) * DAY_SECONDS;
            json!({
                "uid": { "S": "USER#1" }, "pid": { "S": "PROB#1" }, "ca": { "N": time.to_string() },
                "rs": { "M": { "status": { "S": state.status() } } },
            })
        },
        score: "pc",
        columns: ["history_id", "status", "passed"],
        keeps_expired: true,
        has_day_in_key: false,
    },
    DatasetShape {
        model: "quiz",
        dataset: "wrong_answers",
        table: "quiz-wrong-answers",
        keys: |id| json!({ "userId": { "S": "u1" }, "timestamp": { "S": time_of_key(id) } }),
        attributes: |name, state| json!({ "questionId": { "S": name }, "sessionId": { "S": state.status() } }),
        score: "remainingTries",
        columns: ["question_id", "session_id", "remaining_tries"],
        keeps_expired: false,
        has_day_in_key: true,
    },
    DatasetShape {
        model: "shop",
        dataset: "orders",
        table: "EcommerceApp",
        keys: |id| json!({ "PK": { "S": "USER#1" }, "SK": { "S": format!("ORDER#2026#t{id}") } }),
        attributes: |_, state| json!({ "orderDate": state.time(), "status": { "S": state.status() } }),
        score: "total",
        columns: ["order_id", "status", "total"],
        keeps_expired: true,
        has_day_in_key: false,
    },
    DatasetShape {
        model: "glad",
        dataset: "skills",
        table: "glad-entities",
        keys: |id| json!({ "PK": { "S": "USER#ann" }, "SK": { "S": format!("SKILL#t{id}") } }),
        attributes: |_, state| json!({ "CreatedAt": state.time(), "ProficiencyLevel": { "S": state.status() } }),
        score: "Endorsements",
        columns: ["skill_name", "proficiency_level", "endorsements"],
        keeps_expired: true,
        has_day_in_key: false,
    },
];

fn time_of_key(id: u64) -> String {
    format!("2026-02-{:02}T10:00:{id:02}Z", 1 + id % 3)
}
