//! The quiz's items, as its design document has them: five tables, one kind of item in each.

use aws_sdk_dynamodb::types::AttributeValue;

use crate::item::{Item, item, map, text, texts, whole};

pub(super) const USERS: &str = "quiz-users";
pub(super) const QUESTIONS: &str = "quiz-questions";
pub(super) const SESSIONS: &str = "quiz-sessions";
pub(super) const PROGRESS: &str = "quiz-progress";
pub(super) const WRONG_ANSWERS: &str = "quiz-wrong-answers";

pub(super) fn user_key(id: &str) -> Item {
    item([("userId", text(id))])
}

pub(super) fn user(id: &str, at: &str) -> Item {
    item([
        ("userId", text(id)),
        ("email", text(format!("{id}@example.com"))),
        ("username", text("Émile \"Œ\" 試験")),
        ("createdAt", text(at)),
        ("updatedAt", text(at)),
        ("preferences", map([("language", text("DE")), ("theme", text("dark"))])),
    ])
}

/// What a question is about.
#[derive(Clone, Debug)]
pub(super) struct Question {
    pub(super) id: String,
    pub(super) provider: &'static str,
    pub(super) certificate: &'static str,
    pub(super) language: &'static str,
    pub(super) difficulty: i64,
}

impl Question {
    fn category(&self) -> String {
        format!("Cloud#{}#{}", self.provider, self.certificate)
    }

    pub(super) fn key(&self) -> Item {
        item([("questionId", text(&self.id)), ("category", text(self.category()))])
    }

    pub(super) fn item(&self, at: &str) -> Item {
        let Self { id, provider, certificate, language, difficulty } = self;
        let mut question = self.key();
        question.extend(item([
            ("question", text("Which of these?")),
            ("answers", texts(["this", "that"])),
            ("correctAnswers", AttributeValue::L(vec![whole(0)])),
            ("type", text("SINGLE_CHOICE")),
            ("provider", text(*provider)),
            ("certificate", text(*certificate)),
            ("language", text(*language)),
            ("difficulty", whole(*difficulty)),
            ("createdAt", text(at)),
            ("language#difficulty", text(format!("{language}#{difficulty}"))),
            ("provider#certificate", text(format!("{provider}#{certificate}"))),
            ("language#questionId", text(format!("{language}#{id}"))),
        ]));
        question
    }
}

/// A run through some questions.
#[derive(Clone, Debug)]
pub(super) struct Session {
    pub(super) id: String,
    pub(super) user: String,
    pub(super) started_at: String,
    pub(super) answered: Vec<String>,
    pub(super) wrong: Vec<String>,
}

impl Session {
    pub(super) fn key(&self) -> Item {
        item([("sessionId", text(&self.id)), ("userId", text(&self.user))])
    }

    pub(super) fn item(&self) -> Item {
        let mut session = self.key();
        session.extend(item([
            ("config", map([("size", whole(10))])),
            ("sources", texts(["aws"])),
            ("totalQuestions", whole(10)),
            ("currentQuestion", whole(0)),
            ("answeredQuestions", texts(&self.answered)),
            ("wrongAnswers", texts(&self.wrong)),
            ("startedAt", text(&self.started_at)),
            ("status", text("ACTIVE")),
            ("status#startedAt", text(format!("ACTIVE#{}", self.started_at))),
        ]));
        session
    }
}

/// How far a learner has come with one question.
#[derive(Clone, Debug)]
pub(super) struct Progress {
    pub(super) user: String,
    pub(super) question: String,
    pub(super) session: String,
    pub(super) first_seen_at: String,
    pub(super) attempts: i64,
    pub(super) correct: i64,
    pub(super) mastery: i64,
    pub(super) is_wrong: bool,
}

impl Progress {
    pub(super) fn key(&self) -> Item {
        item([("userId", text(&self.user)), ("questionId", text(&self.question))])
    }

    /// What an answer changes.
    pub(super) fn changing(&self, at: &str) -> [(&'static str, AttributeValue); 7] {
        [
            ("attempts", whole(self.attempts)),
            ("correctAttempts", whole(self.correct)),
            ("incorrectAttempts", whole(self.attempts - self.correct)),
            ("lastAttemptAt", text(at)),
            ("masteryLevel", whole(self.mastery)),
            ("isInWrongPool", AttributeValue::Bool(self.is_wrong)),
            ("isInWrongPool#firstSeenAt", text(format!("{}#{}", self.is_wrong, self.first_seen_at))),
        ]
    }

    pub(super) fn item(&self, at: &str) -> Item {
        let mut progress = self.key();
        progress.extend(item(self.changing(at)));
        progress.extend(item([
            ("sessionId", text(&self.session)),
            ("firstSeenAt", text(&self.first_seen_at)),
            ("wrongAnswerCount", whole(i64::from(self.is_wrong))),
        ]));
        progress
    }
}

pub(super) fn wrong_key(user: &str, at: &str) -> Item {
    item([("userId", text(user)), ("timestamp", text(at))])
}

pub(super) fn wrong_answer(progress: &Progress, at: &str) -> Item {
    let mut wrong = wrong_key(&progress.user, at);
    wrong.extend(item([
        ("questionId", text(&progress.question)),
        ("sessionId", text(&progress.session)),
        ("remainingTries", whole(2)),
        ("lastAttemptAt", text(at)),
        ("shuffledAnswers", texts(["that", "this"])),
        ("attempts", AttributeValue::L(vec![map([("answer", text("that"))])])),
        ("remainingTries#timestamp", text(format!("2#{at}"))),
    ]));
    wrong
}
