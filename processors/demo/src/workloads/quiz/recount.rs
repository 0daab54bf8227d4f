//! What must be derived of the quiz's items, found out by hand.

use aws_sdk_dynamodb::types::AttributeValue;

use super::items::{PROGRESS, QUESTIONS, SESSIONS, USERS, WRONG_ANSWERS};
use crate::exact::Exact;
use crate::item::{Item, number_of, text_of};
use crate::recount::{Countable, Counted, Key, Outcome};

pub(super) fn recount(outcome: &Outcome) -> Counted {
    let mut counted = Counted::default();
    for Countable { table, item, expired } in outcome.countable() {
        match table {
            QUESTIONS => count_question(item, expired, &mut counted),
            SESSIONS => count_session(item, expired, &mut counted),
            PROGRESS => count_progress(item, expired, &mut counted),
            // What expired here counts no more.
            WRONG_ANSWERS if !expired => count_wrong_answer(item, &mut counted),
            _ => {}
        }
    }
    for user in outcome.items.iter().filter(|placed| placed.table == USERS).map(|placed| &placed.item) {
        let id = text_of(user, "userId");
        for (path, measure) in [
            ("stats.questionsSeen", "questions"),
            ("stats.attempts", "attempts"),
            ("stats.correctAttempts", "correct"),
            ("stats.mastered", "mastered"),
        ] {
            counted.show(id, user, path, counted.sum(&of_user(id, "PROGRESS"), measure));
        }
    }
    counted
}

fn count_progress(item: &Item, expired: bool, counted: &mut Counted) {
    let sum = |name: &str| number_of(item, name).unwrap_or_default();
    let (attempts, correct) = (("attempts", sum("attempts")), ("correct", sum("correctAttempts")));
    let is_mastered = number_of(item, "masteryLevel") == Some(Exact::whole(2));
    let is_wrong = item.get("isInWrongPool") == Some(&AttributeValue::Bool(true));
    let of_learner = [
        ("questions", Exact::ONE),
        attempts,
        correct,
        ("mastered", Exact::from(is_mastered)),
        ("in_wrong_pool", Exact::from(is_wrong)),
    ];
    counted.add(&of_user(text_of(item, "userId"), "PROGRESS"), &of_learner, expired);
    let question = Key::new(format!("QUESTION#{}", text_of(item, "questionId")), "ROLLUP#PROGRESS");
    counted.add(&question, &[("users", Exact::ONE), attempts, correct], expired);
}

fn count_session(item: &Item, expired: bool, counted: &mut Counted) {
    let is = |status: &str| Exact::from(text_of(item, "status") == status);
    let measures = [
        ("sessions", Exact::ONE),
        ("active", is("ACTIVE")),
        ("paused", is("PAUSED")),
        ("completed", is("COMPLETED")),
    ];
    counted.add(&of_user(text_of(item, "userId"), "SESSIONS"), &measures, expired);
}

fn count_wrong_answer(item: &Item, counted: &mut Counted) {
    let is_open = number_of(item, "remainingTries").is_some_and(|tries| tries > Exact::ZERO);
    counted.add(&of_user(text_of(item, "userId"), "WRONG"), &[("open", Exact::from(is_open))], false);
}

fn count_question(item: &Item, expired: bool, counted: &mut Counted) {
    let of = ["provider", "certificate", "language"].map(|name| text_of(item, name));
    let [provider, certificate, language] = of;
    if of.iter().all(|part| !part.is_empty()) {
        let key =
            Key::new(format!("CERTIFICATE#{provider}#{certificate}"), format!("ROLLUP#QUESTIONS#{language}"));
        let difficulty = number_of(item, "difficulty").unwrap_or_default();
        counted.add(&key, &[("questions", Exact::ONE), ("difficulty_sum", difficulty)], expired);
    }
}

fn of_user(id: &str, of: &str) -> Key {
    Key::new(format!("USER#{id}"), format!("ROLLUP#{of}"))
}
