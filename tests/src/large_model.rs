//! A very large table model: ten exam platforms in one table, distinguished by a digit in their keys.
//!
//! The records of a platform are those of the recordings with the digit added. They change the same rollups as under the default
//! model, through four aggregates for each of the default model's.

use std::fmt::Write as _;

/// The number of platforms.
pub const PLATFORMS: usize = 10;

/// The prefixes of the recordings' keys.
const KEY_PREFIXES: [&str; 7] = ["USER", "ADMIN", "PROJECT", "QUESTION", "CANDIDATE", "ATTEMPT", "ANSWER"];

/// The model: 50 entities, 200 aggregates, 20 lookups, 60 rollups and 60 caches.
#[must_use]
pub fn model() -> String {
    let mut model =
        "name = \"large\"\ngeneration = 1\n\n[tables.ExamBuddyTable]\nkey = [\"PK\", \"SK\"]\n".to_owned();
    for platform in 0..PLATFORMS {
        let _ = write!(model, "\n{}", PLATFORM.replace('@', &platform.to_string()));
    }
    model
}

/// Records (an event, or a single one) moved to this platform.
#[must_use]
pub fn of_platform(records: &str, platform: usize) -> String {
    let mut records = records.to_owned();
    for prefix in KEY_PREFIXES {
        records = records.replace(&format!("\"{prefix}#"), &format!("\"{prefix}{platform}#"));
    }
    records
}

/// One platform. `@` is the place of its digit.
const PLATFORM: &str = r##"
[entities.user@]
key = { PK = "USER@#{email}", SK = "USER@#{email}" }
attributes = { user_id = "S", role = "S" }

[entities.project@]
key = { PK = "ADMIN@#{admin_id}", SK = "PROJECT@#{project_id}" }
attributes = { archived = "BOOL", question_count = "N", title = "S" }

[entities.question@]
key = { PK = "PROJECT@#{project_id}", SK = "QUESTION@#{question_id}" }
attributes = { question_type = "S", order = "N", explanation = "S" }

[entities.attempt@]
key = { PK = "CANDIDATE@#{candidate_id}", SK = "ATTEMPT@#{attempt_id}" }
attributes = { project_id = "S", started_at = "S", status = "S", score = "N", total_questions = "N", time_taken_seconds = "N" }
derive.percent = { percent = ["score", "total_questions"] }

[entities.answer@]
key = { PK = "ATTEMPT@#{attempt_id}", SK = "ANSWER@#{answer_key}" }
attributes = { question_id = "S", is_correct = "BOOL", selected_answer = "S" }

[lookups.project_owner@]
of = "project@"
index = "GSI1"
key = { GSI1PK = "PROJECT@#{project_id}", GSI1SK = "PROJECT@#{project_id}" }
gives = ["admin_id"]

[lookups.question_project@]
of = "question@"
index = "GSI1"
key = { GSI1PK = "QUESTION@#{question_id}" }
gives = ["project_id"]

[rollups.users@]
key = { PK = "USERS@", SK = "ROLLUP#TOTAL" }

[rollups.admin@]
key = { PK = "ADMIN@#{admin_id}", SK = "ROLLUP#TOTAL" }

[rollups.admin_day@]
key = { PK = "ADMIN@#{admin_id}", SK = "ROLLUP#DAY#{started_at:day}" }

[rollups.project@]
key = { PK = "ADMIN@#{admin_id}", SK = "ROLLUP#PROJECT#{project_id}#TOTAL" }

[rollups.project_day@]
key = { PK = "ADMIN@#{admin_id}", SK = "ROLLUP#PROJECT#{project_id}#DAY#{started_at:day}" }

[rollups.question@]
key = { PK = "PROJECT@#{project_id}", SK = "ROLLUP#QUESTION#{question_id}" }

[[aggregates]]
name = "users@"
of = "user@"
into = "users@"
measures.users = "count"

[[aggregates]]
name = "admins@"
of = "user@"
into = "users@"
when.role = ["ADMIN"]
measures.admins = "count"

[[aggregates]]
name = "candidates@"
of = "user@"
into = "users@"
when.role = ["CANDIDATE"]
measures.candidates = "count"

[[aggregates]]
name = "strangers@"
of = "user@"
into = "users@"
when.email = [{ anything-but = { suffix = ".example" } }]
measures.strangers = "count"

[[aggregates]]
name = "active@"
of = "project@"
into = "admin@"
measures.projects_active = { count = true, when.archived = [false] }

[[aggregates]]
name = "archived@"
of = "project@"
into = "admin@"
measures.projects_archived = { count = true, when.archived = [true] }

[[aggregates]]
name = "titled@"
of = "project@"
into = "admin@"
when.title = [{ exists = true }]
measures.titled = "count"

[[aggregates]]
name = "trials@"
of = "project@"
into = "admin@"
when."$or" = [{ title = [{ prefix = "Trial" }] }, { title = [{ equals-ignore-case = "test" }] }]
measures.trials = "count"

[[aggregates]]
name = "questions@"
of = "question@"
lookup = "project_owner@"
into = ["admin@", "project@"]
measures.questions = "count"

[[aggregates]]
name = "choices@"
of = "question@"
lookup = "project_owner@"
into = ["admin@", "project@"]
when.question_type = ["MULTIPLE_CHOICE"]
measures.choices = "count"

[[aggregates]]
name = "places@"
of = "question@"
lookup = "project_owner@"
into = ["admin@", "project@"]
measures.order_sum = { sum = "order" }

[[aggregates]]
name = "explained@"
of = "question@"
lookup = "project_owner@"
into = ["admin@", "project@"]
when.explanation = [{ exists = true }]
measures.explained = "count"

[[aggregates]]
name = "attempts@"
of = "attempt@"
lookup = "project_owner@"
into = ["admin@", "admin_day@", "project@", "project_day@"]
[aggregates.measures]
attempts = "count"
completed = { count = true, when.status = ["COMPLETED"] }

[[aggregates]]
name = "passed@"
of = "attempt@"
lookup = "project_owner@"
into = ["admin@", "admin_day@", "project@", "project_day@"]
measures.passed = { count = true, when = { status = ["COMPLETED"], percent = [{ numeric = [">=", 70] }] } }

[[aggregates]]
name = "sums@"
of = "attempt@"
lookup = "project_owner@"
into = ["admin@", "admin_day@", "project@", "project_day@"]
when = { status = ["COMPLETED"], percent = [{ exists = true }] }
[aggregates.measures]
score_sum = { sum = "score" }
questions_sum = { sum = "total_questions" }
time_taken_sum = { sum = "time_taken_seconds" }

[[aggregates]]
name = "percentages@"
of = "attempt@"
lookup = "project_owner@"
into = ["admin@", "admin_day@", "project@", "project_day@"]
measures.pct = { histogram = "percent", width = 10, bins = 10, when.status = ["COMPLETED"] }

[[aggregates]]
name = "answers@"
of = "answer@"
lookup = "question_project@"
into = "question@"
measures.answers = "count"

[[aggregates]]
name = "correct@"
of = "answer@"
lookup = "question_project@"
into = "question@"
measures.correct = { count = true, when.is_correct = [true] }

[[aggregates]]
name = "wrong@"
of = "answer@"
lookup = "question_project@"
into = "question@"
when.is_correct = [false]
measures.wrong = "count"

[[aggregates]]
name = "none_of_these@"
of = "answer@"
lookup = "question_project@"
into = "question@"
when.selected_answer = ["E", "NONE"]
measures.none_of_these = "count"

[[mirrors]]
onto = "project@"
from = "project@"
attributes = { question_count = "questions" }

[[caches]]
of = "user@"
keys = ["user:{user_id}", "user:email:{email}"]

[[caches]]
of = "project@"
keys = ["project:{project_id}", "admin:{admin_id}:projects"]
paths = ["/api/projects/{project_id}", "/api/projects/{project_id}/*"]

[[caches]]
of = "project@"
keys = ["admin:{admin_id}:projects:active"]
when.archived = [false]

[[caches]]
of = "question@"
keys = ["project:{project_id}:questions", "question:{question_id}"]
paths = ["/api/projects/{project_id}/*"]

[[caches]]
of = "attempt@"
keys = ["attempt:{attempt_id}", "candidate:{candidate_id}:attempts", "project:{project_id}:attempts"]
depends_on = ["status", "score", "project_id"]
remedy = { tombstone = "5s" }

[[caches]]
of = "answer@"
keys = ["attempt:{attempt_id}:answers"]
"##;

#[cfg(test)]
mod tests {
    use afterwrite_model::table::Model;

    use super::*;

    #[test]
    fn the_model_has_fifty_entities_and_two_hundred_aggregates() {
        let model = Model::parse(&model(), "large.toml").unwrap_or_else(|errors| panic!("{errors}"));
        assert_eq!((model.entities.len(), model.aggregates.len()), (50, 200));
        assert_eq!((model.lookups.len(), model.rollups.len(), model.caches.len()), (20, 60, 60));
    }

    #[test]
    fn records_of_a_platform_differ_only_in_their_keys() {
        let record = r#"{"PK":{"S":"ADMIN#a"},"SK":{"S":"PROJECT#p"},"project_id":{"S":"p"},"title":{"S":"on ADMIN#"}}"#;
        let moved = r#"{"PK":{"S":"ADMIN7#a"},"SK":{"S":"PROJECT7#p"},"project_id":{"S":"p"},"title":{"S":"on ADMIN#"}}"#;
        assert_eq!(of_platform(record, 7), moved);
    }
}
