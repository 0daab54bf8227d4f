//! One writer's learners: they answer, fail, repeat, pause, finish; guests move their progress to their accounts.

use std::collections::BTreeMap;

use fastrand::Rng;
use jiff::{SignedDuration, Timestamp};
use serde_json::json;

use super::items::{
    LearningProgress, PROGRESS, QuizSession, SESSIONS, USERS, WRONG_ANSWERS, user, user_key, wrong_answer,
    wrong_key,
};
use crate::item::with;
use crate::script::{PAST, ScriptLane};
use crate::workloads::tools::{LaneWriter, chance, instant, moment, new_id, one_of, short_id};

/// Writes some of the learners, one after the other.
#[derive(Debug)]
pub(super) struct LearnerWriter {
    random: Rng,
    users: Vec<String>,
    questions: Vec<String>,
    now: Timestamp,
    progress: BTreeMap<(String, String), LearningProgress>,
    /// Each learner's current session.
    sessions: BTreeMap<String, QuizSession>,
    /// The questions to repeat: when they were missed, and the remaining tries.
    wrong: BTreeMap<(String, String), (String, i64)>,
    /// Expired sessions that are restored under the same key.
    to_restore: Vec<QuizSession>,
}

impl LearnerWriter {
    pub(super) fn new(random: &mut Rng, users: u64, questions: Vec<String>, now: Timestamp) -> Self {
        let users = (0..users).map(|_| format!("u-{}", short_id(random))).collect();
        Self {
            random: random.fork(),
            users,
            questions,
            now,
            progress: BTreeMap::new(),
            sessions: BTreeMap::new(),
            wrong: BTreeMap::new(),
            to_restore: Vec::new(),
        }
    }

    fn write_user(&mut self, id: &str, lane: &mut ScriptLane) {
        let mut user = user(id, &instant(moment(&mut self.random, self.now, 0)));
        if self.random.bool() {
            let (streak, attempts) = (self.random.i64(0..=9), self.random.i64(0..=99));
            user = with(user, json!({ "stats": { "streak": streak, "attempts": attempts } }));
        }
        lane.put(USERS, user);
    }

    /// The learner's current session, or a new one.
    fn session(&mut self, user: &str, at: Timestamp, lane: &mut ScriptLane) -> String {
        if let Some(session) = self.sessions.get(user) {
            return session.id.clone();
        }
        let session = QuizSession {
            id: new_id(&mut self.random),
            user: user.to_owned(),
            started_at: instant(at),
            answered: Vec::new(),
            wrong: Vec::new(),
        };
        lane.put(SESSIONS, session.item());
        let id = session.id.clone();
        self.sessions.insert(user.to_owned(), session);
        id
    }

    fn answer(&mut self, (user, question): (&str, &str), session: String, at: &str, lane: &mut ScriptLane) {
        let is_correct = chance(&mut self.random, 60);
        let place = (user.to_owned(), question.to_owned());
        let is_first = !self.progress.contains_key(&place);
        let progress = self.progress.entry(place.clone()).or_insert_with(|| LearningProgress {
            user: user.to_owned(),
            question: question.to_owned(),
            session,
            first_seen_at: at.to_owned(),
            attempts: 0,
            correct: 0,
            mastery: 0,
            is_wrong: false,
        });
        progress.attempts += 1;
        progress.correct += i64::from(is_correct);
        progress.mastery = if is_correct { (progress.mastery + 1).min(2) } else { 0 };
        progress.is_wrong = !is_correct;
        if is_first {
            lane.put(PROGRESS, progress.item(at));
        } else {
            lane.set(PROGRESS, progress.key(), progress.changed(at));
        }
        if !is_correct {
            lane.put(WRONG_ANSWERS, wrong_answer(progress, at));
            self.wrong.insert(place, (at.to_owned(), 2));
        } else if let Some((missed_at, tries)) = self.wrong.remove(&place) {
            self.repeat(place, missed_at, tries - 1, lane);
        }
        if let Some(session) = self.sessions.get_mut(user) {
            session.answered.push(question.to_owned());
            if !is_correct {
                session.wrong.push(question.to_owned());
            }
        }
    }

    /// A missed question was answered correctly. Without remaining tries its item goes: at once, by time to live, or later.
    fn repeat(&mut self, place: (String, String), missed_at: String, tries: i64, lane: &mut ScriptLane) {
        let key = wrong_key(&place.0, &missed_at);
        lane.set(WRONG_ANSWERS, key.clone(), json!({ "remainingTries": tries }));
        if tries > 0 {
            // Time to live may delete it although it is still open: then it no longer counts.
            if chance(&mut self.random, 20) {
                lane.set(WRONG_ANSWERS, key, json!({ "ttl": PAST }));
            } else {
                self.wrong.insert(place, (missed_at, tries));
            }
            return;
        }
        match self.random.u8(..3) {
            0 => lane.delete(WRONG_ANSWERS, key),
            1 => lane.set(WRONG_ANSWERS, key, json!({ "ttl": PAST })),
            _ => {
                let later = self.now + SignedDuration::from_hours(24 * 90);
                lane.set(WRONG_ANSWERS, key, json!({ "ttl": later.as_second() }));
            }
        }
    }

    fn change_session(&mut self, user: &str, at: Timestamp, lane: &mut ScriptLane) {
        let Some(session) = self.sessions.get(user).cloned() else { return };
        let key = session.key();
        match self.random.u8(..100) {
            // Completed, and deleted by time to live at once or in a month: it stays counted.
            0..12 => {
                self.sessions.remove(user);
                let ends = at + SignedDuration::from_hours(24 * 30);
                let is_over = self.random.bool() || ends <= self.now;
                let ttl = if is_over { PAST } else { ends.as_second() + 3600 };
                let completed = json!({
                    "status": "COMPLETED", "completedAt": instant(at), "ttl": ttl,
                    "answeredQuestions": session.answered, "wrongAnswers": session.wrong,
                });
                lane.set(SESSIONS, key, completed);
                if is_over && self.random.bool() {
                    self.to_restore.push(session);
                }
            }
            12..18 => lane.set(SESSIONS, key, json!({ "status": "PAUSED" })),
            18..30 => lane.set(SESSIONS, key, json!({ "status": "ACTIVE" })),
            30..34 => {
                self.sessions.remove(user);
                lane.delete(SESSIONS, key);
            }
            _ => {
                lane.set(SESSIONS, key, json!({ "currentQuestion": session.answered.len() }));
            }
        }
    }

    /// A guest's progress moves to an account; or a learner starts again.
    fn change_progress(&mut self, place: (String, String), at: &str, lane: &mut ScriptLane) {
        match self.random.u8(..100) {
            0..5 => {
                let Some(mut progress) = self.progress.remove(&place) else { return };
                lane.delete(PROGRESS, progress.key());
                progress.user = one_of(&mut self.random, &self.users);
                lane.put(PROGRESS, progress.item(at));
                self.progress.insert((progress.user.clone(), progress.question.clone()), progress);
            }
            5..9 => {
                if let Some(progress) = self.progress.remove(&place) {
                    lane.delete(PROGRESS, progress.key());
                }
            }
            _ => {}
        }
    }

    /// The learner's own item is saved with stale statistics or none, deleted, created again.
    fn change_user(&mut self, user: &str, lane: &mut ScriptLane) {
        match self.random.u8(..100) {
            0..4 => self.write_user(user, lane),
            4..6 => {
                lane.delete(USERS, user_key(user));
                if self.random.bool() {
                    self.write_user(user, lane);
                }
            }
            _ => {}
        }
    }
}

impl LaneWriter for LearnerWriter {
    /// Most learners have an item of their own, with or without a map for statistics; guests have none.
    fn open(&mut self, lane: &mut ScriptLane) {
        for id in self.users.clone() {
            if !chance(&mut self.random, 15) {
                self.write_user(&id, lane);
            }
        }
    }

    fn write_round(&mut self, answers: u64, round: usize, lane: &mut ScriptLane) {
        for session in std::mem::take(&mut self.to_restore) {
            lane.put(SESSIONS, session.item());
        }
        for _ in 0..answers {
            let user = self.random.choice(&self.users).cloned();
            let question = self.random.choice(&self.questions).cloned();
            let (Some(user), Some(question)) = (user, question) else { return };
            let at = moment(&mut self.random, self.now, round);
            let session = self.session(&user, at, lane);
            self.answer((&user, &question), session, &instant(at), lane);
            self.change_session(&user, at, lane);
            self.change_progress((user.clone(), question), &instant(at), lane);
            self.change_user(&user, lane);
        }
    }
}
