//! The quiz's items, as its design document defines them: five tables, one kind of item in each.

use aws_sdk_dynamodb::types::AttributeValue;

use crate::item::{SdkItem, flag, item, map, number, text, texts, with};

pub(super) const USERS: &str = "quiz-users";
pub(super) const QUESTIONS: &str = "quiz-questions";
pub(super) const SESSIONS: &str = "quiz-sessions";
pub(super) const PROGRESS: &str = "quiz-progress";
pub(super) const WRONG_ANSWERS: &str = "quiz-wrong-answers";

pub(super) fn user_key(id: &str) -> SdkItem {
    item([("userId", text(id))])
}

pub(super) fn user(id: &str, at: &str) -> SdkItem {
    item([
        ("userId", text(id)),
        ("email", text(format!("{id}@example.com"))),
        ("username", text("Émile \"Œ\" 試験")),
        ("createdAt", text(at)),
        ("updatedAt", text(at)),
        ("preferences", map([("language", text("DE")), ("theme", text("dark"))])),
    ])
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
    fn category(&self) -> String {
        format!("Cloud#{}#{}", self.provider, self.certificate)
    }

    pub(super) fn key(&self) -> SdkItem {
        item([("questionId", text(&self.id)), ("category", text(self.category()))])
    }

    pub(super) fn item(&self, at: &str) -> SdkItem {
        let Self { id, provider, certificate, language, difficulty } = self;
        let attributes = [
            ("question", text("Which of these?")),
            ("answers", texts(["this", "that"])),
            ("correctAnswers", AttributeValue::L(vec![number(0)])),
            ("type", text("SINGLE_CHOICE")),
            ("provider", text(*provider)),
            ("certificate", text(*certificate)),
            ("language", text(*language)),
            ("difficulty", number(*difficulty)),
            ("createdAt", text(at)),
            ("language#difficulty", text(format!("{language}#{difficulty}"))),
            ("provider#certificate", text(format!("{provider}#{certificate}"))),
            ("language#questionId", text(format!("{language}#{id}"))),
        ];
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
        item([("sessionId", text(&self.id)), ("userId", text(&self.user))])
    }

    pub(super) fn item(&self) -> SdkItem {
        let attributes = [
            ("config", map([("size", number(10))])),
            ("sources", texts(["aws"])),
            ("totalQuestions", number(10)),
            ("currentQuestion", number(0)),
            ("answeredQuestions", texts(&self.answered)),
            ("wrongAnswers", texts(&self.wrong)),
            ("startedAt", text(&self.started_at)),
            ("status", text("ACTIVE")),
            ("status#startedAt", text(format!("ACTIVE#{}", self.started_at))),
        ];
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
        item([("userId", text(&self.user)), ("questionId", text(&self.question))])
    }

    /// The attributes that an answer changes.
    pub(super) fn changed(&self, at: &str) -> [(&'static str, AttributeValue); 7] {
        [
            ("attempts", number(self.attempts)),
            ("correctAttempts", number(self.correct)),
            ("incorrectAttempts", number(self.attempts - self.correct)),
            ("lastAttemptAt", text(at)),
            ("masteryLevel", number(self.mastery)),
            ("isInWrongPool", AttributeValue::Bool(self.is_wrong)),
            ("isInWrongPool#firstSeenAt", text(format!("{}#{}", self.is_wrong, self.first_seen_at))),
        ]
    }

    pub(super) fn item(&self, at: &str) -> SdkItem {
        let attributes = [
            ("sessionId", text(&self.session)),
            ("firstSeenAt", text(&self.first_seen_at)),
            ("wrongAnswerCount", flag(self.is_wrong)),
        ];
        with(with(self.key(), self.changed(at)), attributes)
    }
}

pub(super) fn wrong_key(user: &str, at: &str) -> SdkItem {
    item([("userId", text(user)), ("timestamp", text(at))])
}

pub(super) fn wrong_answer(progress: &LearningProgress, at: &str) -> SdkItem {
    let attributes = [
        ("questionId", text(&progress.question)),
        ("sessionId", text(&progress.session)),
        ("remainingTries", number(2)),
        ("lastAttemptAt", text(at)),
        ("shuffledAnswers", texts(["that", "this"])),
        ("attempts", AttributeValue::L(vec![map([("answer", text("that"))])])),
        ("remainingTries#timestamp", text(format!("2#{at}"))),
    ];
    with(wrong_key(&progress.user, at), attributes)
}
