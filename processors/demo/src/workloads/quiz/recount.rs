//! The values to derive from the quiz's items, computed without the model.

use aws_sdk_dynamodb::types::AttributeValue;

use super::items::{PROGRESS, QUESTIONS, SESSIONS, USERS, WRONG_ANSWERS};
use crate::exact::ExactNumber;
use crate::item::{SdkItem, TableItem, integer_of, number_of, text_of};
use crate::recount::{Recount, RollupSums, WorkloadOutcome};
use crate::rollups::RollupKey;

pub(super) fn recount(outcome: &WorkloadOutcome) -> Recount {
    let mut recount = Recount::of(outcome, |sums, TableItem { table, item }| match table.as_str() {
        QUESTIONS => count_question(item, sums),
        SESSIONS => count_session(item, sums),
        PROGRESS => count_progress(item, sums),
        // Expired wrong answers no longer count.
        WRONG_ANSWERS if !sums.expired => {
            let is_open = integer_of(item, "remainingTries").is_some_and(|tries| tries > 0);
            sums.add(of_user(text_of(item, "userId"), "WRONG"), &[("open", is_open.into())]);
        }
        _ => {}
    });
    for TableItem { item, .. } in outcome.items.iter().filter(|stored| stored.table == USERS) {
        let id = text_of(item, "userId");
        for (path, measure) in [
            ("stats.questionsSeen", "questions"),
            ("stats.attempts", "attempts"),
            ("stats.correctAttempts", "correct"),
            ("stats.mastered", "mastered"),
        ] {
            let expected = recount.sum(&of_user(id, "PROGRESS"), measure);
            recount.mirror(id, item, path, expected);
        }
    }
    recount
}

fn count_progress(item: &SdkItem, sums: &mut RollupSums<'_>) {
    let sum = |name: &str| number_of(item, name).unwrap_or_default();
    let answers = [("attempts", sum("attempts")), ("correct", sum("correctAttempts"))];
    let is_mastered = integer_of(item, "masteryLevel") == Some(2);
    let is_wrong = item.get("isInWrongPool") == Some(&AttributeValue::Bool(true));
    let learner = of_user(text_of(item, "userId"), "PROGRESS");
    sums.add(learner.clone(), &answers);
    sums.add(
        learner,
        &[
            ("questions", ExactNumber::one()),
            ("mastered", is_mastered.into()),
            ("in_wrong_pool", is_wrong.into()),
        ],
    );
    let question = RollupKey::new(format!("QUESTION#{}", text_of(item, "questionId")), "ROLLUP#PROGRESS");
    sums.add(question.clone(), &answers);
    sums.add(question, &[("users", ExactNumber::one())]);
}

fn count_session(item: &SdkItem, sums: &mut RollupSums<'_>) {
    let is = |status: &str| ExactNumber::from(text_of(item, "status") == status);
    let measures = [
        ("sessions", ExactNumber::one()),
        ("active", is("ACTIVE")),
        ("paused", is("PAUSED")),
        ("completed", is("COMPLETED")),
    ];
    sums.add(of_user(text_of(item, "userId"), "SESSIONS"), &measures);
}

fn count_question(item: &SdkItem, sums: &mut RollupSums<'_>) {
    let [provider, certificate, language] =
        ["provider", "certificate", "language"].map(|name| text_of(item, name));
    if [provider, certificate, language].contains(&"") {
        return;
    }
    let certificate = format!("CERTIFICATE#{provider}#{certificate}");
    let difficulty = number_of(item, "difficulty").unwrap_or_default();
    let key = RollupKey::new(certificate, format!("ROLLUP#QUESTIONS#{language}"));
    sums.add(key, &[("questions", ExactNumber::one()), ("difficulty_sum", difficulty)]);
}

fn of_user(id: &str, rollup: &str) -> RollupKey {
    RollupKey::new(format!("USER#{id}"), format!("ROLLUP#{rollup}"))
}
