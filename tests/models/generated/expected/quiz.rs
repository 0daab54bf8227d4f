//! quiz: five tables; sessions, progress and wrong answers are rows.

use afterwrite_demo::item::{SdkItem as Item, text_of};

use super::{ExpectedRow, key, present};

pub(super) fn cache_keys(table: &str, item: &Item) -> Vec<String> {
    let of = |name| text_of(item, name);
    let user = of("userId");
    match table {
        "quiz-users" => present([key(["user", user]), key(["user", "email", of("email")])]),
        "quiz-questions" => {
            present([key(["question", of("questionId")]), key(["questions", of("category"), of("language")])])
        }
        "quiz-sessions" => present([key(["session", of("sessionId")]), key(["user", user, "sessions"])]),
        "quiz-progress" => present([key(["progress", user])]),
        "quiz-wrong-answers" => present([key(["wrong", user])]),
        other => panic!("no table {other}"),
    }
}

pub(super) fn row<'i>(table: &str, item: &'i Item) -> Option<ExpectedRow<'i>> {
    let columns = match table {
        "quiz-sessions" => ExpectedRow::of("sessions", item, "startedAt")
            .scalar("session_id", "sessionId")
            .scalar("user_id", "userId")
            .scalar("status", "status")
            .instant("started_at", "startedAt")
            .instant("completed_at", "completedAt")
            .scalar("total_questions", "totalQuestions")
            .scalar("current_question", "currentQuestion")
            .list("answered_questions", "answeredQuestions")
            .list("wrong_answers", "wrongAnswers")
            .json("sources", "sources")
            .json("config", "config"),
        "quiz-progress" => ExpectedRow::of("progress", item, "firstSeenAt")
            .scalar("user_id", "userId")
            .scalar("question_id", "questionId")
            .scalar("session_id", "sessionId")
            .scalar("attempts", "attempts")
            .scalar("correct_attempts", "correctAttempts")
            .scalar("incorrect_attempts", "incorrectAttempts")
            .scalar("mastery_level", "masteryLevel")
            .scalar("wrong_answer_count", "wrongAnswerCount")
            .json("is_in_wrong_pool", "isInWrongPool")
            .instant("first_seen_at", "firstSeenAt")
            .instant("last_attempt_at", "lastAttemptAt"),
        "quiz-wrong-answers" => ExpectedRow::of("wrong_answers", item, "timestamp")
            .scalar("user_id", "userId")
            .scalar("missed_at", "timestamp")
            .scalar("question_id", "questionId")
            .scalar("session_id", "sessionId")
            .scalar("remaining_tries", "remainingTries")
            .instant("last_attempt_at", "lastAttemptAt")
            .json("shuffled_answers", "shuffledAnswers")
            .json("attempts", "attempts"),
        _ => return None,
    };
    Some(columns)
}
