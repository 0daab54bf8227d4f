//! Abbreviated attribute names, epoch seconds, values that are keys, a hot partition, and usage logs that time to live deletes.

use serde_json::{Value, json};

use crate::models::delivery::DeliveryOrder;
use crate::models::values::plain_value;
use crate::models::workload::{TableWorkload, days_after, time};

const TABLE: &str = "algoitny-main";
/// Friday, 6 February 2026, 10:00 UTC.
const FRIDAY: i64 = 1_770_372_000;

fn user(id: &str, plan: &Value, active: u8) -> Value {
    json!({ "pk": format!("USER#{id}"), "sk": "META", "et": "USER", "em": format!("{id}@example.com"),
            "gid": null, "sp": plan, "ia": active, "is": 0, "ca": FRIDAY })
}

fn problem(id: &str, platform: &str, completed: u8, deleted: u8) -> Value {
    json!({ "pk": format!("PROB#{id}"), "sk": "META", "et": "PROBLEM", "pf": platform, "pid": "1000",
            "nm": "A+B", "ic": completed, "id": deleted, "ca": FRIDAY })
}

fn history(id: &str, user: &str, problem: &str, (passed, failed): (u32, u32), public: u8, at: i64) -> Value {
    json!({ "pk": format!("HIST#{id}"), "sk": "META", "et": "HISTORY", "uid": user, "ui": "a@example.com", "pid": problem,
            "pf": "baekjoon", "pnum": "1000", "lg": "python", "cd": "print()", "rs": { "status": "partial" },
            "pc": passed, "fc": failed, "tc": passed + failed, "icp": public, "ca": at })
}

fn usage(user: &str, day: &str, action: &str, at: i64) -> Value {
    json!({ "pk": format!("USER#{user}"), "sk": format!("USAGE#{day}#{action}#{at}"), "et": "USAGELOG", "ac": action,
            "pid": "PROB#5", "md": { "task_id": "t", "language": "python" }, "ca": at, "ttl": at + 90 * 86_400 })
}

fn job(id: &str, status: &str) -> Value {
    json!({ "pk": format!("JOB#{id}"), "sk": "META", "et": "JOB", "st": status, "err": null, "ca": FRIDAY })
}

fn key(of: &Value) -> Value {
    json!({ "pk": of["pk"], "sk": of["sk"] })
}

#[tokio::test]
async fn usage_is_counted_by_day_and_action_and_outlives_its_logs() {
    let mut workload = TableWorkload::of("algoitny");
    let first = usage("1", "2026-02-06", "execution", FRIDAY);
    workload
        .put(TABLE, first.clone())
        .put(TABLE, usage("1", "2026-02-06", "execution", FRIDAY + 5))
        .put(TABLE, usage("1", "2026-02-06", "hint", FRIDAY + 9))
        .put(TABLE, usage("1", "2026-02-07", "execution", FRIDAY + 80_000))
        .put(TABLE, usage("2", "2026-02-06", "execution", FRIDAY))
        .put(TABLE, usage("2", "2026-02-06", "execution", FRIDAY + 1))
        .expire(TABLE, key(&first))
        .remove(TABLE, key(&usage("2", "2026-02-06", "execution", FRIDAY + 1)))
        // Older than its rollup's life: the rollup must not be created again.
        .put(TABLE, usage("1", "2025-10-07", "execution", FRIDAY));
    let of_6 = days_after(90, "2026-02-06");
    let of_7 = days_after(90, "2026-02-07");
    let rollups = [
        ("USER#1", "ROLLUP#USAGE#2026-02-06#execution", json!({ "uses": 2, "expires_at": of_6 })),
        ("USER#1", "ROLLUP#USAGE#2026-02-06#hint", json!({ "uses": 1, "expires_at": of_6 })),
        ("USER#1", "ROLLUP#USAGE#2026-02-07#execution", json!({ "uses": 1, "expires_at": of_7 })),
        ("USER#2", "ROLLUP#USAGE#2026-02-06#execution", json!({ "uses": 1, "expires_at": of_6 })),
    ];
    workload.assert_derived(&rollups, &[]).await;
    let delivered = workload.deliver(DeliveryOrder::BatchTwice).await;
    let settled = delivered.stored("USER#1", "ROLLUP#USAGE#2026-02-06#execution", "settled_uses");
    assert_eq!(settled, Some(plain_value(&json!(1))));
}

#[tokio::test]
async fn histories_count_for_the_keys_in_their_attributes() {
    let mut workload = TableWorkload::of("algoitny");
    let moved = history("3", "USER#2", "PROB#5", (7, 0), 0, FRIDAY + 30);
    workload
        .put(TABLE, problem("5", "baekjoon", 1, 0))
        .put(TABLE, history("1", "USER#1", "PROB#5", (5, 2), 1, FRIDAY + 10))
        .put(TABLE, history("2", "USER#1", "PROB#5", (7, 0), 1, FRIDAY + 20))
        .put(TABLE, moved.clone())
        // Judged a second time, and made public.
        .put(TABLE, history("3", "USER#2", "PROB#5", (6, 1), 1, FRIDAY + 30))
        .put(TABLE, history("1", "USER#1", "PROB#5", (5, 2), 0, FRIDAY + 10))
        .put(TABLE, history("4", "USER#2", "PROB#6", (0, 3), 0, FRIDAY + 40))
        .remove(TABLE, json!({ "pk": "HIST#4", "sk": "META" }))
        // Without a user, and with a key of another kind than a problem.
        .put(TABLE, json!({ "pk": "HIST#5", "sk": "META", "uid": null, "pid": "PROB#7", "pc": 1, "fc": 0, "ca": FRIDAY }))
        .put(TABLE, json!({ "pk": "HIST#6", "sk": "META", "uid": "USER#3", "pid": "CONTEST#1", "pc": 1, "ca": FRIDAY }));
    let rollups = [
        (
            "USER#1",
            "ROLLUP#HISTORY",
            json!({ "executions": 2, "passed_sum": 12, "failed_sum": 2, "last_at": FRIDAY + 20 }),
        ),
        // `max` keeps the latest value ever seen, here that of a deleted item.
        (
            "USER#2",
            "ROLLUP#HISTORY",
            json!({ "executions": 1, "passed_sum": 6, "failed_sum": 1, "last_at": FRIDAY + 40 }),
        ),
        ("USER#3", "ROLLUP#HISTORY", json!({ "executions": 1, "passed_sum": 1, "last_at": FRIDAY })),
        (
            "PROB#5",
            "ROLLUP#EXECUTIONS",
            json!({ "executions": 3, "passed_sum": 18, "failed_sum": 3, "solved": 1 }),
        ),
        ("PROB#7", "ROLLUP#EXECUTIONS", json!({ "executions": 1, "passed_sum": 1, "solved": 1 })),
        ("PUBLIC#1", "ROLLUP#HISTORY", json!({ "executions": 2 })),
        ("PLATFORM#baekjoon", "ROLLUP#PROBLEMS", json!({ "problems": 1 })),
    ];
    let shown = [
        (TABLE, json!({ "pk": "PROB#5", "sk": "META" }), "md.exec_count", Some(json!(3))),
        (TABLE, json!({ "pk": "PROB#7", "sk": "META" }), "pk", None),
    ];
    workload.assert_derived(&rollups, &shown).await;
}

#[tokio::test]
async fn the_hot_partition_is_spread_over_ten_items() {
    let mut workload = TableWorkload::of("algoitny");
    for number in 0..200 {
        workload.put(TABLE, history(&number.to_string(), "USER#1", "PROB#1", (1, 0), 1, FRIDAY));
    }
    assert_eq!(workload.deliver(DeliveryOrder::OneBatch).await.shards("PUBLIC#1"), 10);
}

#[tokio::test]
async fn problems_users_and_jobs_are_counted_by_kind_and_state() {
    let mut workload = TableWorkload::of("algoitny");
    workload
        .put(TABLE, problem("1", "baekjoon", 1, 0))
        .put(TABLE, problem("2", "baekjoon", 0, 0))
        .put(TABLE, problem("3", "baekjoon", 0, 0))
        .put(TABLE, problem("3", "codeforces", 1, 0))
        .put(TABLE, problem("4", "codeforces", 1, 0))
        // Marked as deleted, but still stored.
        .put(TABLE, problem("4", "codeforces", 1, 1))
        .put(TABLE, json!({ "pk": "PROB#1", "sk": "TC#00001", "et": "TESTCASE", "tin": "1 2", "tout": "3" }))
        .put(TABLE, json!({ "pk": "PROB#1", "sk": "TC#00002", "et": "TESTCASE", "tin": "3 4", "tout": "7" }))
        .put(TABLE, json!({ "pk": "PROB#2", "sk": "TC#00001", "et": "TESTCASE", "tin": "1", "tout": "1" }))
        .remove(TABLE, json!({ "pk": "PROB#2", "sk": "TC#00001" }))
        .put(TABLE, user("1", &json!("Free"), 1))
        .put(TABLE, user("2", &json!("Free"), 0))
        .put(TABLE, user("3", &json!("Free"), 1))
        .put(TABLE, user("3", &json!("Pro"), 1))
        .put(TABLE, user("4", &Value::Null, 1))
        .put(TABLE, job("1", "PENDING"))
        .put(TABLE, job("1", "COMPLETED"))
        .put(TABLE, job("2", "PENDING"))
        .put(TABLE, json!({ "pk": "PLAN#Free", "sk": "META", "nm": "Free" }))
        .put(TABLE, json!({ "pk": "TASK#t", "sk": "META", "st": "SUCCESS", "ca": FRIDAY, "ttl": FRIDAY + 1 }))
        .expire(TABLE, json!({ "pk": "TASK#t", "sk": "META" }));
    let rollups = [
        ("PLATFORM#baekjoon", "ROLLUP#PROBLEMS", json!({ "problems": 1, "drafts": 1 })),
        ("PLATFORM#codeforces", "ROLLUP#PROBLEMS", json!({ "problems": 1 })),
        ("PROB#1", "ROLLUP#TESTCASES", json!({ "testcases": 2 })),
        ("PLAN#Free", "ROLLUP#USERS", json!({ "users": 2, "active": 1 })),
        ("PLAN#Pro", "ROLLUP#USERS", json!({ "users": 1, "active": 1 })),
        ("JOBS", "ROLLUP#STATUS#COMPLETED", json!({ "jobs": 1 })),
        ("JOBS", "ROLLUP#STATUS#PENDING", json!({ "jobs": 1 })),
    ];
    workload.assert_derived(&rollups, &[]).await;
}

#[test]
fn each_change_makes_its_keys_stale() {
    let mut workload = TableWorkload::of("algoitny");
    let mut stale = |item: Value| workload.put(TABLE, item).stale();
    // `gid` is NULL, so the key of a Google account is not rendered.
    assert_eq!(stale(user("1", &json!("Free"), 1)), ["user:1", "user:email:1@example.com"]);
    let mut renamed = user("1", &json!("Free"), 1);
    renamed["em"] = json!("new@example.com");
    renamed["gid"] = json!("g-1");
    assert_eq!(
        stale(renamed),
        ["user:1", "user:email:1@example.com", "user:email:new@example.com", "user:google:g-1"]
    );
    assert_eq!(
        stale(problem("5", "baekjoon", 1, 0)),
        ["problem:5", "problem:alt:baekjoon:1000", "problems:platform:baekjoon"]
    );
    assert_eq!(stale(json!({ "pk": "PROB#5", "sk": "TC#00001" })), ["problem:5"]);
    assert_eq!(stale(history("1", "USER#1", "PROB#5", (1, 0), 0, FRIDAY)), ["user_history:USER#1"]);
    let both = ["public_history", "user_history:USER#1"];
    assert_eq!(stale(history("1", "USER#1", "PROB#5", (1, 0), 1, FRIDAY)), both);
    assert_eq!(stale(history("1", "USER#1", "PROB#5", (1, 0), 0, FRIDAY)), both, "it was public before");
    assert_eq!(stale(usage("1", "2026-02-06", "hint", FRIDAY)), ["rate_limit:hint:1:2026-02-06"]);
    assert_eq!(stale(json!({ "pk": "PLAN#Free", "sk": "META" })), ["plan:Free", "plans"]);
    assert_eq!(stale(job("1", "PENDING")), [""; 0]);
    assert_eq!(
        workload.remove(TABLE, json!({ "pk": "PLAN#Free", "sk": "META" })).stale(),
        ["plan:Free", "plans"]
    );
}

#[tokio::test]
async fn histories_and_usage_are_rows_of_their_days() {
    let mut workload = TableWorkload::of("algoitny");
    assert_eq!(time("2026-02-06T10:00:00Z").epoch_seconds(), FRIDAY);
    workload
        .put(TABLE, history("1", "USER#1", "PROB#5", (5, 2), 1, FRIDAY))
        .assert_row("history 2026-02-06 INSERT");
    let (_, columns) = workload.rows().remove(0);
    for (column, value) in [
        ("history_id", "1"),
        ("user_id", "1"),
        ("problem_id", "5"),
        ("status", "partial"),
        ("passed", "5"),
        ("failed", "2"),
        ("total", "7"),
        ("is_public", "1"),
        ("created_at", "1770372000"),
    ] {
        assert_eq!(columns[column], value, "{column}");
    }
    assert!(!columns.values().any(|value| value.contains("print") || value.contains('@')));
    workload.remove(TABLE, json!({ "pk": "HIST#1", "sk": "META" })).assert_row("history 2026-02-06 REMOVE");
    let usage = usage("1", "2026-02-06", "hint", FRIDAY);
    workload.put(TABLE, usage.clone()).assert_row("usage 2026-02-06 INSERT");
    let (_, columns) = workload.rows().remove(0);
    assert_eq!(
        [&*columns["user_id"], &*columns["action"], &*columns["used_on"]],
        ["1", "hint", "2026-02-06"]
    );
    workload.expire(TABLE, key(&usage)).assert_row("usage 2026-02-06 EXPIRE");
    let exported = workload.exported().await;
    assert_eq!([exported["history"].len(), exported["usage"].len()], [2, 2]);
    let last = exported["usage"].last().expect("a row");
    assert_eq!([&*last["language"], &*last["created_at"]], ["python", "2026-02-06T10:00:00Z"]);
}
