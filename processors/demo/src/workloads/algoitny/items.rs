//! The judge's items, as its design document defines them: abbreviated names, flags of 1 and 0, times in epoch seconds.

use serde_json::json;

use crate::item::{SdkItem, attribute, item, with};

/// The table's name, as the model knows it.
pub(super) const TABLE: &str = "algoitny-main";
/// The platforms of the problems.
pub(super) const PLATFORMS: [&str; 3] = ["baekjoon", "codeforces", "leetcode"];
/// The time to live of usage logs.
pub(super) const USAGE_LIFE: i64 = 90 * 86_400;

pub(super) fn key(partition: &str, sort: &str) -> SdkItem {
    item(json!({ "pk": partition, "sk": sort }))
}

pub(super) fn user_key(id: &str) -> SdkItem {
    key(&format!("USER#{id}"), "META")
}

pub(super) fn user(id: &str, plan: Option<&str>, is_active: bool, at: i64) -> SdkItem {
    let email = format!("{id}@example.com");
    let attributes = json!({
        "et": "USER", "em": email, "nm": "Émile \"Œ\" 試験", "gid": null,
        "sp": plan, "ia": i64::from(is_active), "is": 0, "ca": at,
        "gsi1pk": format!("EMAIL#{email}"), "gsi1sk": "META",
    });
    with(user_key(id), attributes)
}

pub(super) fn plan(name: &str, at: i64) -> SdkItem {
    with(key(&format!("PLAN#{name}"), "META"), json!({ "et": "PLAN", "nm": name, "mepd": 50, "ca": at }))
}

pub(super) fn problem_key(id: &str) -> SdkItem {
    key(&format!("PROB#{id}"), "META")
}

/// A problem, with its own count of runs if it has one.
pub(super) fn problem(id: &str, platform: &str, is_completed: bool, runs: Option<i64>, at: i64) -> SdkItem {
    let attributes = json!({
        "et": "PROBLEM", "pf": platform, "pid": format!("10{id}"),
        "nm": "A+B", "tgs": ["math"], "lg": "python",
        "ic": i64::from(is_completed), "id": 0, "ca": at,
        "gsi2pk": format!("PROBALT#{platform}#10{id}"), "gsi2sk": "META",
    });
    let mut problem = with(problem_key(id), attributes);
    let metadata = runs.map(|runs| attribute(json!({ "exec_count": runs, "level": 3 })));
    problem.extend(metadata.map(|metadata| ("md".to_owned(), metadata)));
    problem
}

pub(super) fn testcase_key(problem: &str, index: u64) -> SdkItem {
    key(&format!("PROB#{problem}"), &format!("TC#{index:05}"))
}

pub(super) fn testcase(problem: &str, index: u64, at: i64) -> SdkItem {
    let attributes = json!({ "et": "TESTCASE", "tin": "1 2", "tout": "3", "ca": at });
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
        let attributes = json!({
            "et": "HISTORY", "uid": self.user, "pid": self.problem, "pf": self.platform,
            "pnum": "1000", "pnm": "A+B", "lg": "python", "cd": "print()",
            "rs": { "status": status }, "pc": self.passed, "fc": self.failed,
            "tc": self.passed + self.failed,
            "icp": i64::from(self.is_public), "ca": self.at,
        });
        let mut history = with(self.key(), attributes);
        if let Some(user) = &self.user {
            let by_user = json!({ "gsi1pk": user, "gsi1sk": format!("HIST#{newest_first}") });
            history = with(history, by_user);
        }
        if self.is_public {
            let by_time = json!({ "gsi2pk": "PUBLIC#1", "gsi2sk": newest_first.to_string() });
            history = with(history, by_time);
        }
        history
    }
}

pub(super) fn usage_key(user: &str, day: &str, action: &str, at: i64) -> SdkItem {
    key(&format!("USER#{user}"), &format!("USAGE#{day}#{action}#{at}"))
}

pub(super) fn usage(user: &str, day: &str, action: &str, at: i64) -> SdkItem {
    let attributes = json!({
        "et": "USAGELOG", "ac": action, "pid": "PROB#1",
        "md": { "task_id": "t", "language": "python" }, "ca": at, "ttl": at + USAGE_LIFE,
    });
    with(usage_key(user, day, action, at), attributes)
}

pub(super) fn job_key(id: &str) -> SdkItem {
    key(&format!("JOB#{id}"), "META")
}

pub(super) fn job(id: &str, at: i64) -> SdkItem {
    let attributes = json!({
        "et": "JOB", "st": "PENDING", "err": null, "ca": at,
        "gsi2pk": format!("TASK#{id}"), "gsi2sk": "META",
    });
    with(job_key(id), attributes)
}

pub(super) fn task_result(id: &str, at: i64, ttl: i64) -> SdkItem {
    let attributes = json!({ "et": "TASKRESULT", "st": "SUCCESS", "ca": at, "ttl": ttl });
    with(key(&format!("TASK#{id}"), "META"), attributes)
}
