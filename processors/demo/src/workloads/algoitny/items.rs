//! The judge's items, as its design document has them: abbreviated names, flags of 1 and 0, times in epoch seconds.

use aws_sdk_dynamodb::types::AttributeValue;

use crate::item::{Item, item, map, text, texts, whole};

/// The table's name, as the model knows it.
pub(super) const TABLE: &str = "algoitny-main";
/// Where problems come from.
pub(super) const PLATFORMS: [&str; 3] = ["baekjoon", "codeforces", "leetcode"];
/// How long usage logs live.
pub(super) const USAGE_LIFE: i64 = 90 * 86_400;

pub(super) fn key(partition: &str, sort: &str) -> Item {
    item([("pk", text(partition)), ("sk", text(sort))])
}

fn with<const N: usize>(mut key: Item, attributes: [(&str, AttributeValue); N]) -> Item {
    key.extend(item(attributes));
    key
}

pub(super) fn user_key(id: &str) -> Item {
    key(&format!("USER#{id}"), "META")
}

pub(super) fn user(id: &str, plan: AttributeValue, is_active: bool, at: i64) -> Item {
    let email = format!("{id}@example.com");
    with(
        user_key(id),
        [
            ("et", text("USER")),
            ("em", text(&email)),
            ("nm", text("Émile \"Œ\" 試験")),
            ("gid", AttributeValue::Null(true)),
            ("sp", plan),
            ("ia", whole(i64::from(is_active))),
            ("is", whole(0)),
            ("ca", whole(at)),
            ("gsi1pk", text(format!("EMAIL#{email}"))),
            ("gsi1sk", text("META")),
        ],
    )
}

pub(super) fn plan(name: &str, at: i64) -> Item {
    let attributes = [("et", text("PLAN")), ("nm", text(name)), ("mepd", whole(50)), ("ca", whole(at))];
    with(key(&format!("PLAN#{name}"), "META"), attributes)
}

pub(super) fn problem_key(id: &str) -> Item {
    key(&format!("PROB#{id}"), "META")
}

/// A problem, which says of itself that it has been run so often.
pub(super) fn problem(id: &str, platform: &str, is_completed: bool, runs: Option<i64>, at: i64) -> Item {
    let mut problem = with(
        problem_key(id),
        [
            ("et", text("PROBLEM")),
            ("pf", text(platform)),
            ("pid", text(format!("10{id}"))),
            ("nm", text("A+B")),
            ("tgs", texts(["math"])),
            ("lg", text("python")),
            ("ic", whole(i64::from(is_completed))),
            ("id", whole(0)),
            ("ca", whole(at)),
            ("gsi2pk", text(format!("PROBALT#{platform}#10{id}"))),
            ("gsi2sk", text("META")),
        ],
    );
    problem
        .extend(runs.map(|runs| ("md".to_owned(), map([("exec_count", whole(runs)), ("level", whole(3))]))));
    problem
}

pub(super) fn testcase_key(problem: &str, number: u64) -> Item {
    key(&format!("PROB#{problem}"), &format!("TC#{number:05}"))
}

pub(super) fn testcase(problem: &str, number: u64, at: i64) -> Item {
    let attributes = [("et", text("TESTCASE")), ("tin", text("1 2")), ("tout", text("3")), ("ca", whole(at))];
    with(testcase_key(problem, number), attributes)
}

pub(super) fn history_key(id: &str) -> Item {
    key(&format!("HIST#{id}"), "META")
}

/// A run of a solution.
#[derive(Clone, Debug)]
pub(super) struct Run {
    pub(super) id: String,
    /// Its user by key, or nobody.
    pub(super) user: Option<String>,
    /// Its problem by key; not everything that is run is one.
    pub(super) problem: String,
    pub(super) platform: &'static str,
    pub(super) passed: i64,
    pub(super) failed: i64,
    pub(super) is_public: bool,
    pub(super) at: i64,
}

impl Run {
    pub(super) fn key(&self) -> Item {
        history_key(&self.id)
    }

    pub(super) fn item(&self) -> Item {
        let newest_first = 9_999_999_999 - self.at;
        let status = if self.failed == 0 { "passed" } else { "partial" };
        let user = self.user.as_ref().map_or(AttributeValue::Null(true), text);
        let mut history = with(
            self.key(),
            [
                ("et", text("HISTORY")),
                ("uid", user),
                ("pid", text(&self.problem)),
                ("pf", text(self.platform)),
                ("pnum", text("1000")),
                ("pnm", text("A+B")),
                ("lg", text("python")),
                ("cd", text("print()")),
                ("rs", map([("status", text(status))])),
                ("pc", whole(self.passed)),
                ("fc", whole(self.failed)),
                ("tc", whole(self.passed + self.failed)),
                ("icp", whole(i64::from(self.is_public))),
                ("ca", whole(self.at)),
            ],
        );
        if let Some(user) = &self.user {
            history.insert("gsi1pk".to_owned(), text(user));
            history.insert("gsi1sk".to_owned(), text(format!("HIST#{newest_first}")));
        }
        if self.is_public {
            history.insert("gsi2pk".to_owned(), text("PUBLIC#1"));
            history.insert("gsi2sk".to_owned(), text(newest_first.to_string()));
        }
        history
    }
}

pub(super) fn usage_key(user: &str, day: &str, action: &str, at: i64) -> Item {
    key(&format!("USER#{user}"), &format!("USAGE#{day}#{action}#{at}"))
}

pub(super) fn usage(user: &str, day: &str, action: &str, at: i64) -> Item {
    with(
        usage_key(user, day, action, at),
        [
            ("et", text("USAGELOG")),
            ("ac", text(action)),
            ("pid", text("PROB#1")),
            ("md", map([("task_id", text("t")), ("language", text("python"))])),
            ("ca", whole(at)),
            ("ttl", whole(at + USAGE_LIFE)),
        ],
    )
}

pub(super) fn job_key(id: &str) -> Item {
    key(&format!("JOB#{id}"), "META")
}

pub(super) fn job(id: &str, at: i64) -> Item {
    with(
        job_key(id),
        [
            ("et", text("JOB")),
            ("st", text("PENDING")),
            ("err", AttributeValue::Null(true)),
            ("ca", whole(at)),
            ("gsi2pk", text(format!("TASK#{id}"))),
            ("gsi2sk", text("META")),
        ],
    )
}

pub(super) fn task_result(id: &str, at: i64, ttl: i64) -> Item {
    let attributes =
        [("et", text("TASKRESULT")), ("st", text("SUCCESS")), ("ca", whole(at)), ("ttl", whole(ttl))];
    with(key(&format!("TASK#{id}"), "META"), attributes)
}
