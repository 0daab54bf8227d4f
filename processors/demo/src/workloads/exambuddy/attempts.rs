//! One writer's attempts: candidates start them, answer, finish; some are regraded, deleted, expire, start again.

use fastrand::Rng;
use jiff::SignedDuration;
use serde_json::json;

use super::items::{ExamAttempt, ExamProject, TABLE, user};
use super::world::ExamWorld;
use crate::item::{SdkItem, text_of};
use crate::script::{PAST, ScriptLane};
use crate::workloads::tools::{LANES, LaneWriter, chance, earliest, instant, key, moment, new_id};

/// Writes attempts, one after the other.
#[derive(Debug)]
pub(super) struct AttemptWriter<'w> {
    world: &'w ExamWorld,
    random: Rng,
    lane: usize,
    /// Expired attempts that start again under the same key.
    restarting: Vec<ExamAttempt>,
}

impl<'w> AttemptWriter<'w> {
    pub(super) fn new(world: &'w ExamWorld, random: Rng, lane: usize) -> Self {
        Self { world, random, lane, restarting: Vec::new() }
    }

    fn write_attempt(&mut self, round: usize, lane: &mut ScriptLane) {
        let world = self.world;
        let (Some((project, _)), Some(candidate)) =
            (self.random.choice(&world.projects), self.random.choice(&world.candidates))
        else {
            return;
        };
        let mut attempt = ExamAttempt {
            candidate_id: candidate.clone(),
            id: new_id(&mut self.random),
            project_id: project.id.clone(),
            started_at: moment(&mut self.random, world.now, round),
            answers: Vec::new(),
        };
        attempt.answers = self.answers(&attempt, project);
        self.start(lane, &attempt);
        if !chance(&mut self.random, 6) {
            self.finish(lane, &attempt, project.questions.len());
        }
        self.change_later(lane, attempt);
    }

    /// Answers to some of the questions, keyed by the question or by the answer: both occur.
    fn answers(&mut self, attempt: &ExamAttempt, project: &ExamProject) -> Vec<SdkItem> {
        let count = self.random.usize(0..=4).min(project.questions.len());
        let chosen = self.random.choose_multiple(&project.questions, count);
        let (mut answers, mut answered_at) = (Vec::new(), attempt.started_at);
        for question_id in chosen {
            answered_at += SignedDuration::from_mins(1);
            let id = new_id(&mut self.random);
            let key = if self.random.bool() { &id } else { question_id };
            let is_correct = self.random.bool();
            answers.push(attempt.answer(&id, question_id, key, is_correct, answered_at));
        }
        answers
    }

    /// Starts an attempt, with its answers in one transaction or one by one.
    fn start(&mut self, lane: &mut ScriptLane, attempt: &ExamAttempt) {
        let items = std::iter::once(attempt.item()).chain(attempt.answers.iter().cloned());
        if chance(&mut self.random, 25) {
            lane.put_together(TABLE, items.collect());
        } else {
            items.for_each(|item| lane.put(TABLE, item));
        }
    }

    /// Completes an attempt; a few lack a score, or are of an exam without questions.
    fn finish(&mut self, lane: &mut ScriptLane, attempt: &ExamAttempt, questions: usize) {
        let seconds = self.random.i64(60..5400);
        let completed_at = attempt.started_at + SignedDuration::from_secs(seconds);
        let is_empty = chance(&mut self.random, 2);
        let questions = if is_empty { 0 } else { i64::try_from(questions).unwrap_or(0) };
        let mut result = json!({
            "status": "COMPLETED", "completed_at": instant(completed_at),
            "total_questions": questions, "time_taken_seconds": seconds,
        });
        if !chance(&mut self.random, 2)
            && let Some(result) = result.as_object_mut()
        {
            result.insert("score".to_owned(), self.random.i64(0..=questions).into());
        }
        lane.set(TABLE, attempt.key(), result);
    }

    /// Changes some attempts afterwards.
    fn change_later(&mut self, lane: &mut ScriptLane, mut attempt: ExamAttempt) {
        let key = attempt.key();
        match self.random.u8(..100) {
            // Regraded, sometimes twice.
            0..12 => {
                for _ in 0..self.random.u8(1..=2) {
                    let score = self.random.i64(0..=4);
                    lane.set(TABLE, key.clone(), json!({ "score": score, "total_questions": 5 }));
                }
            }
            // Moved to another day.
            12..15 => {
                attempt.started_at -= SignedDuration::from_hours(24);
                lane.set(TABLE, key, json!({ "started_at": instant(attempt.started_at) }));
            }
            // Written again without a change.
            15..17 => lane.set(TABLE, key, json!({ "project_id": attempt.project_id })),
            // An answer is graded again.
            17..24 => {
                if let Some(answer) = attempt.answers.first() {
                    lane.set(TABLE, key_of(answer), json!({ "is_correct": self.random.bool() }));
                }
            }
            // Deleted, and perhaps started again.
            24..30 => {
                attempt.answers.iter().for_each(|answer| lane.delete(TABLE, key_of(answer)));
                lane.delete(TABLE, key);
                if self.random.bool() {
                    lane.put(TABLE, attempt.item());
                }
            }
            // Expires.
            30..38 => {
                for key in attempt.answers.iter().map(key_of).chain([key]) {
                    lane.set(TABLE, key, json!({ "ttl": PAST }));
                }
                if self.random.bool() {
                    self.restarting.push(attempt);
                }
            }
            _ => {}
        }
    }
}

impl LaneWriter for AttemptWriter<'_> {
    /// The users of this lane's share of the candidates.
    fn open(&mut self, lane: &mut ScriptLane) {
        let created_at = instant(earliest(self.world.now));
        for id in self.world.candidates.iter().skip(self.lane).step_by(LANES) {
            lane.put(TABLE, user(id, "CANDIDATE", &created_at));
        }
    }

    fn write_round(&mut self, attempts: u64, round: usize, lane: &mut ScriptLane) {
        for mut attempt in std::mem::take(&mut self.restarting) {
            attempt.started_at = moment(&mut self.random, self.world.now, round);
            lane.put(TABLE, attempt.item());
            self.finish(lane, &attempt, 10);
        }
        for _ in 0..attempts {
            self.write_attempt(round, lane);
        }
    }
}

fn key_of(item: &SdkItem) -> SdkItem {
    key(text_of(item, "PK"), text_of(item, "SK"))
}
