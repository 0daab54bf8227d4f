//! The judge's items, as its design document defines them: abbreviated names, flags of 1 and 0, times in epoch seconds.

use aws_sdk_dynamodb::types::AttributeValue;

use crate::item::{SdkItem, flag, item, map, number, text, texts, with};

/// The table's name, as the model knows it.
pub(super) const TABLE: &str = "algoitny-main";
/// The platforms of the problems.
pub(super) const PLATFORMS: [&str; 3] = ["baekjoon", "codeforces", "leetcode"];
/// The time to live of usage logs.
pub(super) const USAGE_LIFE: i64 = 90 * 86_400;

pub(super) fn key(partition: &str, sort: &str) -> SdkItem {
    item([("pk", text(partition)), ("sk", text(sort))])
}

pub(super) fn user_key(id: &str) -> SdkItem {
    key(&format!("USER#{id}"), "META")
}

pub(super) fn user(id: &str, plan: AttributeValue, is_active: bool, at: i64) -> SdkItem {
    let email = format!("{id}@example.com");
    with(
        user_key(id),
        [
            ("et", text("USER")),
            ("em", text(&email)),
            ("nm", text("Émile \"Œ\" 試験")),
            ("gid", AttributeValue::Null(true)),
            ("sp", plan),
            ("ia", flag(is_active)),
            ("is", number(0)),
            ("ca", number(at)),
            ("gsi1pk", text(format!("EMAIL#{email}"))),
            ("gsi1sk", text("META")),
        ],
    )
}

pub(super) fn plan(name: &str, at: i64) -> SdkItem {
    let attributes = [("et", text("PLAN")), ("nm", text(name)), ("mepd", number(50)), ("ca", number(at))];
    with(key(&format!("PLAN#{name}"), "META"), attributes)
}

pub(super) fn problem_key(id: &str) -> SdkItem {
    key(&format!("PROB#{id}"), "META")
}

/// A problem, with its own count of runs if it has one.
pub(super) fn problem(id: &str, platform: &str, is_completed: bool, runs: Option<i64>, at: i64) -> SdkItem {
    let metadata = runs.map(|runs| map([("exec_count", number(runs)), ("level", number(3))]));
    let mut problem = with(
        problem_key(id),
        [
            ("et", text("PROBLEM")),
            ("pf", text(platform)),
            ("pid", text(format!("10{id}"))),
            ("nm", text("A+B")),
            ("tgs", texts(["math"])),
            ("lg", text("python")),
            ("ic", flag(is_completed)),
            ("id", number(0)),
            ("ca", number(at)),
            ("gsi2pk", text(format!("PROBALT#{platform}#10{id}"))),
            ("gsi2sk", text("META")),
        ],
    );
    problem.extend(metadata.map(|metadata| ("md".to_owned(), metadata)));
    problem
}

pub(super) fn testcase_key(problem: &str, index: u64) -> SdkItem {
    key(&format!("PROB#{problem}"), &format!("TC#{index:05}"))
}

pub(super) fn testcase(problem: &str, index: u64, at: i64) -> SdkItem {
    let attributes =
        [("et", text("TESTCASE")), ("tin", text("1 2")), ("tout", text("3")), ("ca", number(at))];
    with(testcase_key(problem, index), attributes)
}

/// A run of a solution.
#[derive(Clone, Debug)]
pub(super) struct SolutionRun {
    pub(super) id: String,
    /// The key of its user, if it has one.
    pub(super) user: Option<String>,
    /// The key of its problem, or of a contest.
    pub(super) problem: String,
    pub(super) platform: &'static str,
    pub(super) passed: i64,
    pub(super) failed: i64,
    pub(super) is_public: bool,
    pub(super) at: i64,
}

impl SolutionRun {
    pub(super) fn key(&self) -> SdkItem {
        key(&format!("HIST#{}", self.id), "META")
    }

    pub(super) fn item(&self) -> SdkItem {
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
                ("pc", number(self.passed)),
                ("fc", number(self.failed)),
                ("tc", number(self.passed + self.failed)),
                ("icp", flag(self.is_public)),
                ("ca", number(self.at)),
            ],
        );
        if let Some(user) = &self.user {
            let newest_first = text(format!("HIST#{newest_first}"));
            history = with(history, [("gsi1pk", text(user)), ("gsi1sk", newest_first)]);
        }
        if self.is_public {
            let newest_first = text(newest_first.to_string());
            history = with(history, [("gsi2pk", text("PUBLIC#1")), ("gsi2sk", newest_first)]);
        }
        history
    }
}

pub(super) fn usage_key(user: &str, day: &str, action: &str, at: i64) -> SdkItem {
    key(&format!("USER#{user}"), &format!("USAGE#{day}#{action}#{at}"))
}

pub(super) fn usage(user: &str, day: &str, action: &str, at: i64) -> SdkItem {
    with(
        usage_key(user, day, action, at),
        [
            ("et", text("USAGELOG")),
            ("ac", text(action)),
            ("pid", text("PROB#1")),
            ("md", map([("task_id", text("t")), ("language", text("python"))])),
            ("ca", number(at)),
            ("ttl", number(at + USAGE_LIFE)),
        ],
    )
}

pub(super) fn job_key(id: &str) -> SdkItem {
    key(&format!("JOB#{id}"), "META")
}

pub(super) fn job(id: &str, at: i64) -> SdkItem {
    with(
        job_key(id),
        [
            ("et", text("JOB")),
            ("st", text("PENDING")),
            ("err", AttributeValue::Null(true)),
            ("ca", number(at)),
            ("gsi2pk", text(format!("TASK#{id}"))),
            ("gsi2sk", text("META")),
        ],
    )
}

pub(super) fn task_result(id: &str, at: i64, ttl: i64) -> SdkItem {
    let attributes =
        [("et", text("TASKRESULT")), ("st", text("SUCCESS")), ("ca", number(at)), ("ttl", number(ttl))];
    with(key(&format!("TASK#{id}"), "META"), attributes)
}
