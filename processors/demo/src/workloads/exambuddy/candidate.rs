//! One writer's candidates: they start attempts, answer, finish; some are regraded, deleted, expire, start anew.

use aws_sdk_dynamodb::types::AttributeValue;
use fastrand::Rng;
use jiff::{SignedDuration, Timestamp};

use super::generator::{Course, World};
use super::items::{Key, TABLE, answer, attempt, attempt_key};
use crate::item::{Item, text, text_of, whole as number};
use crate::script::{Lane, PAST};
use crate::workloads::tools::{in_a_hundred, instant, moment, new_id};

/// Writes attempts, one after the other.
#[derive(Debug)]
pub(super) struct Candidate {
    random: Rng,
    /// Attempts that expired, to be started anew under the same key.
    to_live_again: Vec<Attempt>,
}

/// An attempt as its candidate knows it.
#[derive(Clone, Debug)]
struct Attempt {
    candidate_id: String,
    id: String,
    project_id: String,
    started_at: Timestamp,
    answers: Vec<Item>,
}

impl Attempt {
    fn key(&self) -> Key {
        attempt_key(&self.candidate_id, &self.id)
    }

    fn item(&self) -> Item {
        attempt(&self.candidate_id, &self.id, &self.project_id, &instant(self.started_at))
    }
}

impl Candidate {
    pub(super) fn new(random: Rng) -> Self {
        Self { random, to_live_again: Vec::new() }
    }

    /// Sits so many exams in this round of the month.
    pub(super) fn sit(&mut self, world: &World, exams: u64, round: usize, lane: &mut Lane) {
        for mut attempt in std::mem::take(&mut self.to_live_again) {
            attempt.started_at = moment(&mut self.random, world.now, round);
            lane.put(TABLE, attempt.item());
            self.finish(lane, &attempt, 10);
        }
        for _ in 0..exams {
            self.sit_one(world, round, lane);
        }
    }

    fn sit_one(&mut self, world: &World, round: usize, lane: &mut Lane) {
        let (Some(course), Some(candidate)) =
            (self.random.choice(&world.courses), self.random.choice(&world.candidates))
        else {
            return;
        };
        let mut attempt = Attempt {
            candidate_id: candidate.clone(),
            id: new_id(&mut self.random),
            project_id: course.project.id.clone(),
            started_at: moment(&mut self.random, world.now, round),
            answers: Vec::new(),
        };
        attempt.answers = self.answers(&attempt, course);
        self.start(lane, &attempt);
        if !in_a_hundred(&mut self.random, 6) {
            self.finish(lane, &attempt, course.questions.len());
        }
        self.change_later(lane, attempt);
    }

    /// Answers to some of the questions, keyed by the question or by the answer, as both are seen.
    fn answers(&mut self, attempt: &Attempt, course: &Course) -> Vec<Item> {
        let count = self.random.usize(0..=4).min(course.questions.len());
        let chosen = self.random.choose_multiple(&course.questions, count);
        let (mut answers, mut answered_at) = (Vec::new(), attempt.started_at);
        for question_id in chosen {
            answered_at += SignedDuration::from_mins(1);
            let id = new_id(&mut self.random);
            let key = if self.random.bool() { &id } else { question_id };
            let is_correct = self.random.bool();
            answers.push(answer(&attempt.id, &id, question_id, key, is_correct, &instant(answered_at)));
        }
        answers
    }

    /// Starts an attempt: with its answers in one transaction, or each as it is given.
    fn start(&mut self, lane: &mut Lane, attempt: &Attempt) {
        if in_a_hundred(&mut self.random, 25) {
            let together = std::iter::once(attempt.item()).chain(attempt.answers.iter().cloned());
            return lane.put_together(TABLE, together.collect());
        }
        lane.put(TABLE, attempt.item());
        for answer in &attempt.answers {
            lane.put(TABLE, answer.clone());
        }
    }

    /// Completes an attempt; a few lack a score, or are of an exam without questions.
    fn finish(&mut self, lane: &mut Lane, attempt: &Attempt, questions: usize) {
        let seconds = self.random.i64(60..5400);
        let completed_at = attempt.started_at + SignedDuration::from_secs(seconds);
        let is_empty = in_a_hundred(&mut self.random, 2);
        let questions = if is_empty { 0 } else { i64::try_from(questions).unwrap_or(0) };
        let result = [
            ("status", text("COMPLETED")),
            ("completed_at", text(instant(completed_at))),
            ("total_questions", number(questions)),
            ("time_taken_seconds", number(seconds)),
        ];
        let key = attempt.key().item();
        if in_a_hundred(&mut self.random, 2) {
            return lane.set(TABLE, key, result);
        }
        let [status, completed_at, total, time] = result;
        let score = ("score", number(self.random.i64(0..=questions)));
        lane.set(TABLE, key, [status, completed_at, total, time, score]);
    }

    /// What becomes of some attempts afterwards.
    fn change_later(&mut self, lane: &mut Lane, mut attempt: Attempt) {
        let key = attempt.key().item();
        match self.random.u8(..100) {
            // Regraded, sometimes twice.
            0..12 => {
                for _ in 0..self.random.u8(1..=2) {
                    let score = number(self.random.i64(0..=4));
                    lane.set(TABLE, key.clone(), [("score", score), ("total_questions", number(5))]);
                }
            }
            // Moved to another day.
            12..15 => {
                attempt.started_at -= SignedDuration::from_hours(24);
                lane.set(TABLE, key, [("started_at", text(instant(attempt.started_at)))]);
            }
            // Written again as it is.
            15..17 => lane.set(TABLE, key, [("project_id", text(&attempt.project_id))]),
            // An answer is marked anew.
            17..24 => {
                if let Some(key) = attempt.answers.first().map(key_of) {
                    let mark = AttributeValue::Bool(self.random.bool());
                    lane.set(TABLE, key, [("is_correct", mark)]);
                }
            }
            // Deleted, and perhaps started anew.
            24..30 => {
                for key in attempt.answers.iter().map(key_of) {
                    lane.delete(TABLE, key);
                }
                lane.delete(TABLE, key);
                if self.random.bool() {
                    lane.put(TABLE, attempt.item());
                }
            }
            // Expires.
            30..38 => {
                for key in attempt.answers.iter().map(key_of) {
                    lane.set(TABLE, key, [("ttl", number(PAST))]);
                }
                lane.set(TABLE, key, [("ttl", number(PAST))]);
                if self.random.bool() {
                    self.to_live_again.push(attempt);
                }
            }
            _ => {}
        }
    }
}

fn key_of(item: &Item) -> Item {
    Key(text_of(item, "PK").to_owned(), text_of(item, "SK").to_owned()).item()
}
