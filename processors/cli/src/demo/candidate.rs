//! One writer's candidates: they start attempts, answer, finish; some are regraded, deleted, expire, start anew.

use std::sync::atomic::Ordering;

use afterwrite::Result;
use aws_sdk_dynamodb::types::AttributeValue;
use fastrand::Rng;
use jiff::{SignedDuration, Timestamp};

use super::generator::{Course, World, instant, moment, new_id};
use super::platform::{Application, Item, Key, answer, attempt, attempt_key, number, text};

/// A time to live that has passed: DynamoDB takes the item when it sweeps.
const PAST: i64 = 1_700_000_000;

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
    pub(super) async fn sit(&mut self, world: &World, exams: u64, round: usize) -> Result<()> {
        for mut attempt in std::mem::take(&mut self.to_live_again) {
            attempt.started_at = moment(&mut self.random, world.now, round);
            world.application.put(attempt.item()).await?;
            self.finish(&world.application, &attempt, 10).await?;
        }
        for _ in 0..exams {
            self.sit_one(world, round).await?;
            world.attempts_done.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }

    async fn sit_one(&mut self, world: &World, round: usize) -> Result<()> {
        let (Some(course), Some(candidate)) =
            (self.random.choice(&world.courses), self.random.choice(&world.candidates))
        else {
            return Ok(());
        };
        let application = &world.application;
        let mut attempt = Attempt {
            candidate_id: candidate.clone(),
            id: new_id(&mut self.random),
            project_id: course.project.id.clone(),
            started_at: moment(&mut self.random, world.now, round),
            answers: Vec::new(),
        };
        attempt.answers = self.answers(&attempt, course);
        self.start(application, &attempt).await?;
        if !self.in_a_hundred(6) {
            self.finish(application, &attempt, course.questions.len()).await?;
        }
        self.change_later(application, attempt).await
    }

    /// Answers to some of the questions, keyed by the question or by the answer, as both are seen.
    fn answers(&mut self, attempt: &Attempt, course: &Course) -> Vec<Item> {
        let count = self.random.usize(0..=4).min(course.questions.len());
        let chosen = self.random.choose_multiple(&course.questions, count);
        let mut answers = Vec::new();
        for question_id in chosen {
            let id = new_id(&mut self.random);
            let key = if self.random.bool() { &id } else { question_id };
            answers.push(answer(&attempt.id, &id, question_id, key, self.random.bool()));
        }
        answers
    }

    /// Starts an attempt: with its answers in one transaction, or each as it is given.
    async fn start(&mut self, application: &Application, attempt: &Attempt) -> Result<()> {
        if self.in_a_hundred(25) {
            let together = std::iter::once(attempt.item()).chain(attempt.answers.iter().cloned());
            return application.put_together(together.collect()).await;
        }
        application.put(attempt.item()).await?;
        for answer in &attempt.answers {
            application.put(answer.clone()).await?;
        }
        Ok(())
    }

    /// Completes an attempt; a few lack a score, or are of an exam without questions.
    async fn finish(&mut self, application: &Application, attempt: &Attempt, questions: usize) -> Result<()> {
        let seconds = self.random.i64(60..5400);
        let completed_at = attempt.started_at + SignedDuration::from_secs(seconds);
        let questions = if self.in_a_hundred(2) { 0 } else { i64::try_from(questions).unwrap_or(0) };
        let mut result = vec![
            ("status", text("COMPLETED")),
            ("completed_at", text(instant(completed_at))),
            ("total_questions", number(questions)),
            ("time_taken_seconds", number(seconds)),
        ];
        if !self.in_a_hundred(2) {
            result.push(("score", number(self.random.i64(0..=questions))));
        }
        application.set(&attempt.key(), result).await
    }

    /// What becomes of some attempts afterwards.
    async fn change_later(&mut self, application: &Application, mut attempt: Attempt) -> Result<()> {
        let key = attempt.key();
        match self.random.u8(..100) {
            // Regraded, sometimes twice.
            0..12 => {
                for _ in 0..self.random.u8(1..=2) {
                    let score = number(self.random.i64(0..=4));
                    application.set(&key, vec![("score", score), ("total_questions", number(5))]).await?;
                }
            }
            // Moved to another day.
            12..15 => {
                attempt.started_at -= SignedDuration::from_hours(24);
                application.set(&key, vec![("started_at", text(instant(attempt.started_at)))]).await?;
            }
            // Written again as it is.
            15..17 => application.set(&key, vec![("project_id", text(&attempt.project_id))]).await?,
            // An answer is marked anew.
            17..24 => {
                if let Some(key) = attempt.answers.first().and_then(key_of) {
                    let mark = AttributeValue::Bool(self.random.bool());
                    application.set(&key, vec![("is_correct", mark)]).await?;
                }
            }
            // Deleted, and perhaps started anew.
            24..30 => {
                for key in attempt.answers.iter().filter_map(key_of) {
                    application.delete(&key).await?;
                }
                application.delete(&key).await?;
                if self.random.bool() {
                    application.put(attempt.item()).await?;
                }
            }
            // Expires.
            30..38 => {
                for key in attempt.answers.iter().filter_map(key_of) {
                    application.set(&key, vec![("ttl", number(PAST))]).await?;
                }
                application.set(&key, vec![("ttl", number(PAST))]).await?;
                if self.random.bool() {
                    self.to_live_again.push(attempt);
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn in_a_hundred(&mut self, times: u8) -> bool {
        self.random.u8(..100) < times
    }
}

fn key_of(item: &Item) -> Option<Key> {
    match (item.get("PK"), item.get("SK")) {
        (Some(AttributeValue::S(partition)), Some(AttributeValue::S(sort))) => {
            Some(Key(partition.clone(), sort.clone()))
        }
        _ => None,
    }
}
