//! The quiz's items, as its design document defines them: five tables, one kind of item in each.

use serde_json::{Value, json};

use crate::item::{SdkItem, item, with};

pub(super) const USERS: &str = "quiz-users";
pub(super) const QUESTIONS: &str = "quiz-questions";
pub(super) const SESSIONS: &str = "quiz-sessions";
pub(super) const PROGRESS: &str = "quiz-progress";
pub(super) const WRONG_ANSWERS: &str = "quiz-wrong-answers";

pub(super) fn user_key(id: &str) -> SdkItem {
    item(json!({ "userId": id }))
}

pub(super) fn user(id: &str, at: &str) -> SdkItem {
    let attributes = json!({
        "email": format!("{id}@example.com"), "username": "Émile \"Œ\" 試験",
        "createdAt": at, "updatedAt": at,
        "preferences": { "language": "DE", "theme": "dark" },
    });
    with(user_key(id), attributes)
}

/// A question.
#[derive(Clone, Debug)]
pub(super) struct QuizQuestion {
    pub(super) id: String,
    pub(super) provider: &'static str,
    pub(super) certificate: &'static str,
    pub(super) language: &'static str,
    pub(super) difficulty: i64,
}

impl QuizQuestion {
    pub(super) fn key(&self) -> SdkItem {
        let category = format!("Cloud#{}#{}", self.provider, self.certificate);
        item(json!({ "questionId": self.id, "category": category }))
    }

    pub(super) fn item(&self, at: &str) -> SdkItem {
        let Self { id, provider, certificate, language, difficulty } = self;
        let attributes = json!({
            "question": "Which of these?", "type": "SINGLE_CHOICE",
            "answers": ["this", "that"], "correctAnswers": [0],
            "provider": provider, "certificate": certificate,
            "language": language, "difficulty": difficulty, "createdAt": at,
            "language#difficulty": format!("{language}#{difficulty}"),
            "provider#certificate": format!("{provider}#{certificate}"),
            "language#questionId": format!("{language}#{id}"),
        });
        with(self.key(), attributes)
    }
}

/// A session of some questions.
#[derive(Clone, Debug)]
pub(super) struct QuizSession {
    pub(super) id: String,
    pub(super) user: String,
    pub(super) started_at: String,
    pub(super) answered: Vec<String>,
    pub(super) wrong: Vec<String>,
}

impl QuizSession {
    pub(super) fn key(&self) -> SdkItem {
        item(json!({ "sessionId": self.id, "userId": self.user }))
    }

    pub(super) fn item(&self) -> SdkItem {
        let attributes = json!({
            "config": { "size": 10 }, "sources": ["aws"],
            "totalQuestions": 10, "currentQuestion": 0,
            "answeredQuestions": self.answered, "wrongAnswers": self.wrong,
            "startedAt": self.started_at, "status": "ACTIVE",
            "status#startedAt": format!("ACTIVE#{}", self.started_at),
        });
        with(self.key(), attributes)
    }
}

/// A learner's progress with one question.
#[derive(Clone, Debug)]
pub(super) struct LearningProgress {
    pub(super) user: String,
    pub(super) question: String,
    pub(super) session: String,
    pub(super) first_seen_at: String,
    pub(super) attempts: i64,
    pub(super) correct: i64,
    pub(super) mastery: i64,
    pub(super) is_wrong: bool,
}

impl LearningProgress {
    pub(super) fn key(&self) -> SdkItem {
        item(json!({ "userId": self.user, "questionId": self.question }))
    }

    /// The attributes that an answer changes.
    pub(super) fn changed(&self, at: &str) -> Value {
        json!({
            "attempts": self.attempts, "correctAttempts": self.correct,
            "incorrectAttempts": self.attempts - self.correct,
            "lastAttemptAt": at, "masteryLevel": self.mastery, "isInWrongPool": self.is_wrong,
            "isInWrongPool#firstSeenAt": format!("{}#{}", self.is_wrong, self.first_seen_at),
        })
    }

    pub(super) fn item(&self, at: &str) -> SdkItem {
        let attributes = json!({
            "sessionId": self.session, "firstSeenAt": self.first_seen_at,
            "wrongAnswerCount": i64::from(self.is_wrong),
        });
        with(with(self.key(), self.changed(at)), attributes)
    }
}

pub(super) fn wrong_key(user: &str, at: &str) -> SdkItem {
    item(json!({ "userId": user, "timestamp": at }))
}

pub(super) fn wrong_answer(progress: &LearningProgress, at: &str) -> SdkItem {
    let attributes = json!({
        "questionId": progress.question, "sessionId": progress.session,
        "remainingTries": 2, "lastAttemptAt": at, "remainingTries#timestamp": format!("2#{at}"),
        "shuffledAnswers": ["that", "this"], "attempts": [{ "answer": "that" }],
    });
    with(wrong_key(&progress.user, at), attributes)
}
