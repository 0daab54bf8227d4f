//! Five tables, one without a sort key; expired items kept by one aggregate and subtracted by another; mirrors in a map that may not
//! exist yet.

use serde_json::{Value, json};

use crate::models::delivery::DeliveryOrder;
use crate::models::workload::TableWorkload;

fn user(id: &str, stats: Option<Value>) -> Value {
    let mut user = json!({ "userId": id, "email": format!("{id}@example.com"), "username": id,
                           "createdAt": "2026-02-01T08:00:00Z", "preferences": { "theme": "dark" } });
    if let Some(stats) = stats {
        user["stats"] = stats;
    }
    user
}

fn progress(
    user: &str,
    question: &str,
    (attempts, correct): (u32, u32),
    mastery: u8,
    is_wrong: bool,
) -> Value {
    json!({ "userId": user, "questionId": question, "sessionId": "s", "attempts": attempts, "correctAttempts": correct,
            "incorrectAttempts": attempts - correct, "firstSeenAt": "2026-02-06T10:00:00Z",
            "lastAttemptAt": "2026-02-06T11:00:00Z", "masteryLevel": mastery, "wrongAnswerCount": 0, "isInWrongPool": is_wrong })
}

fn session(id: &str, user: &str, status: &str) -> Value {
    json!({ "sessionId": id, "userId": user, "config": { "size": 10 }, "sources": ["aws"], "totalQuestions": 10,
            "currentQuestion": 3, "answeredQuestions": ["q1", "q2"], "wrongAnswers": ["q2"],
            "startedAt": "2026-02-06T10:00:00Z", "status": status, "ttl": 1_773_000_000 })
}

fn wrong(user: &str, at: &str, tries: u8) -> Value {
    json!({ "userId": user, "timestamp": at, "questionId": "q2", "sessionId": "s", "remainingTries": tries,
            "lastAttemptAt": at, "shuffledAnswers": ["b", "a"] })
}

fn question(id: &str, category: &str, language: &str, difficulty: u8) -> Value {
    json!({ "questionId": id, "category": category, "question": "?", "type": "SINGLE_CHOICE", "language": language,
            "difficulty": difficulty, "provider": "AWS", "certificate": "SAA", "createdAt": "2026-02-01T08:00:00Z" })
}

#[tokio::test]
async fn progress_is_counted_for_users_and_questions_and_mirrored_on_the_user() {
    let mut workload = TableWorkload::of("quiz");
    workload
        .put("quiz-users", user("bare", None))
        .put("quiz-users", user("full", Some(json!({ "streak": 4, "attempts": 99 }))))
        .put("quiz-users", user("left", None))
        .remove("quiz-users", json!({ "userId": "left" }))
        .put("quiz-progress", progress("bare", "q1", (0, 0), 0, false))
        .put("quiz-progress", progress("bare", "q1", (3, 2), 2, false))
        .put("quiz-progress", progress("bare", "q2", (1, 0), 1, true))
        .put("quiz-progress", progress("full", "q1", (2, 2), 2, false))
        .put("quiz-progress", progress("full", "q2", (5, 5), 2, false))
        .remove("quiz-progress", json!({ "userId": "full", "questionId": "q2" }))
        .put("quiz-progress", progress("left", "q1", (1, 1), 1, false))
        .put("quiz-progress", progress("never", "q1", (1, 0), 0, true));
    let rollups = [
        (
            "USER#bare",
            "ROLLUP#PROGRESS",
            json!({ "questions": 2, "attempts": 4, "correct": 2, "mastered": 1, "in_wrong_pool": 1 }),
        ),
        (
            "USER#full",
            "ROLLUP#PROGRESS",
            json!({ "questions": 1, "attempts": 2, "correct": 2, "mastered": 1 }),
        ),
        ("USER#left", "ROLLUP#PROGRESS", json!({ "questions": 1, "attempts": 1, "correct": 1 })),
        ("USER#never", "ROLLUP#PROGRESS", json!({ "questions": 1, "attempts": 1, "in_wrong_pool": 1 })),
        ("QUESTION#q1", "ROLLUP#PROGRESS", json!({ "users": 4, "attempts": 7, "correct": 5 })),
        ("QUESTION#q2", "ROLLUP#PROGRESS", json!({ "users": 1, "attempts": 1 })),
    ];
    let of = |id: &str| json!({ "userId": id });
    let shown = |id: &str, path: &'static str, value: i64| ("quiz-users", of(id), path, Some(json!(value)));
    let shown = [
        shown("bare", "stats.questionsSeen", 2),
        shown("bare", "stats.attempts", 4),
        shown("bare", "stats.correctAttempts", 2),
        shown("bare", "stats.mastered", 1),
        shown("full", "stats.questionsSeen", 1),
        shown("full", "stats.attempts", 2),
        shown("full", "stats.correctAttempts", 2),
        shown("full", "stats.mastered", 1),
        shown("full", "stats.streak", 4),
        ("quiz-users", of("left"), "userId", None),
        ("quiz-users", of("never"), "userId", None),
    ];
    workload.assert_derived(&rollups, &shown).await;
    assert_eq!(
        workload.deliver(DeliveryOrder::BatchTwice).await.count("quiz-users"),
        2,
        "a mirror creates no item"
    );
}

#[tokio::test]
async fn an_expired_session_stays_counted_and_an_expired_wrong_answer_does_not() {
    let mut workload = TableWorkload::of("quiz");
    let (early, late) = ("2026-02-05T10:00:00Z", "2026-02-06T10:00:00Z");
    workload
        .put("quiz-sessions", session("1", "u", "ACTIVE"))
        .put("quiz-sessions", session("1", "u", "COMPLETED"))
        .expire("quiz-sessions", json!({ "sessionId": "1", "userId": "u" }))
        .put("quiz-sessions", session("2", "u", "ACTIVE"))
        .put("quiz-sessions", session("3", "u", "ACTIVE"))
        .put("quiz-sessions", session("3", "u", "PAUSED"))
        .put("quiz-sessions", session("4", "u", "ACTIVE"))
        .remove("quiz-sessions", json!({ "sessionId": "4", "userId": "u" }))
        .put("quiz-wrong-answers", wrong("u", early, 2))
        .put("quiz-wrong-answers", wrong("u", late, 2))
        .put("quiz-wrong-answers", wrong("u", "2026-02-06T11:00:00Z", 1))
        .put("quiz-wrong-answers", wrong("u", "2026-02-06T11:00:00Z", 0))
        .expire("quiz-wrong-answers", json!({ "userId": "u", "timestamp": early }));
    let rollups = [
        ("USER#u", "ROLLUP#SESSIONS", json!({ "sessions": 3, "active": 1, "paused": 1, "completed": 1 })),
        ("USER#u", "ROLLUP#WRONG", json!({ "open": 1 })),
    ];
    workload.assert_derived(&rollups, &[]).await;
}

#[tokio::test]
async fn questions_are_counted_by_certificate_and_language() {
    let mut workload = TableWorkload::of("quiz");
    workload
        .put("quiz-questions", question("1", "Cloud#AWS#SAA", "EN", 3))
        .put("quiz-questions", question("2", "Cloud#AWS#SAA", "EN", 5))
        .put("quiz-questions", question("2", "Cloud#AWS#SAA", "EN", 4))
        .put("quiz-questions", question("3", "Cloud#AWS#SAA", "EN", 1))
        .put("quiz-questions", question("3", "Cloud#AWS#SAA", "DE", 1))
        // Without a certificate.
        .put(
            "quiz-questions",
            json!({ "questionId": "4", "category": "Misc", "language": "EN", "difficulty": 2 }),
        );
    let rollups = [
        ("CERTIFICATE#AWS#SAA", "ROLLUP#QUESTIONS#EN", json!({ "questions": 2, "difficulty_sum": 7 })),
        ("CERTIFICATE#AWS#SAA", "ROLLUP#QUESTIONS#DE", json!({ "questions": 1, "difficulty_sum": 1 })),
    ];
    workload.assert_derived(&rollups, &[]).await;
}

#[test]
fn each_change_makes_its_keys_stale() {
    let mut workload = TableWorkload::of("quiz");
    let mut stale = |table: &str, item: Value| workload.put(table, item).stale();
    assert_eq!(stale("quiz-users", user("u", None)), ["user:email:u@example.com", "user:u"]);
    assert_eq!(stale("quiz-questions", question("q", "c", "EN", 1)), ["question:q", "questions:c:EN"]);
    assert_eq!(
        stale("quiz-questions", question("q", "c", "DE", 1)),
        ["question:q", "questions:c:DE", "questions:c:EN"]
    );
    assert_eq!(stale("quiz-sessions", session("s", "u", "ACTIVE")), ["session:s", "user:u:sessions"]);
    assert_eq!(stale("quiz-progress", progress("u", "q", (1, 1), 0, false)), ["progress:u"]);
    assert_eq!(stale("quiz-wrong-answers", wrong("u", "2026-02-06T10:00:00Z", 2)), ["wrong:u"]);
    let of_session = json!({ "sessionId": "s", "userId": "u" });
    assert_eq!(workload.expire("quiz-sessions", of_session).stale(), ["session:s", "user:u:sessions"]);
}

#[tokio::test]
async fn sessions_progress_and_wrong_answers_are_rows_of_their_days() {
    let mut workload = TableWorkload::of("quiz");
    workload.put("quiz-sessions", session("s", "u", "COMPLETED")).assert_row("sessions 2026-02-06 INSERT");
    let (_, columns) = workload.rows().remove(0);
    assert_eq!([&*columns["session_id"], &*columns["user_id"], &*columns["status"]], ["s", "u", "COMPLETED"]);
    workload
        .expire("quiz-sessions", json!({ "sessionId": "s", "userId": "u" }))
        .assert_row("sessions 2026-02-06 EXPIRE");
    workload
        .put("quiz-progress", progress("u", "q", (3, 2), 1, true))
        .assert_row("progress 2026-02-06 INSERT");
    let (_, columns) = workload.rows().remove(0);
    assert_eq!([&*columns["attempts"], &*columns["correct_attempts"]], ["3", "2"]);
    workload
        .put("quiz-wrong-answers", wrong("u", "2026-02-05T23:30:00-01:00", 2))
        .assert_row("wrong_answers 2026-02-06 INSERT");
    let (_, columns) = workload.rows().remove(0);
    assert_eq!([&*columns["question_id"], &*columns["remaining_tries"]], ["q2", "2"]);
    let exported = workload.exported().await;
    let rows = ["sessions", "progress", "wrong_answers"].map(|dataset| exported[dataset].len());
    assert_eq!(rows, [2, 1, 1]);
    let session = &exported["sessions"][0];
    assert_eq!([&*session["answered_questions"], &*session["sources"]], ["[q1, q2]", r#"["aws"]"#]);
    assert_eq!(exported["progress"][0]["is_in_wrong_pool"], "true");
}
