//! The writer of questions: they are added, made easier or harder, translated, moved to another certificate, withdrawn.

use fastrand::Rng;
use jiff::Timestamp;
use serde_json::json;

use super::items::{QUESTIONS, QuizQuestion};
use crate::script::ScriptLane;
use crate::workloads::tools::{LaneWriter, earliest, instant, one_of};

const CERTIFICATES: [(&str, &str); 4] = [("AWS", "SAA"), ("AWS", "DVA"), ("CNCF", "CKA"), ("SAP", "試験")];
const LANGUAGES: [&str; 3] = ["EN", "DE", "FR"];

/// Writes the questions.
#[derive(Debug)]
pub(super) struct QuestionAuthor {
    random: Rng,
    questions: Vec<QuizQuestion>,
    created_at: String,
}

impl QuestionAuthor {
    pub(super) fn new(mut random: Rng, ids: Vec<String>, now: Timestamp) -> Self {
        let question = |id: String| {
            let (provider, certificate) = one_of(&mut random, &CERTIFICATES);
            let (language, difficulty) = (one_of(&mut random, &LANGUAGES), random.i64(1..=5));
            QuizQuestion { id, provider, certificate, language, difficulty }
        };
        let questions = ids.into_iter().map(question).collect();
        Self { random, questions, created_at: instant(earliest(now)) }
    }
}

impl LaneWriter for QuestionAuthor {
    /// All questions in their first state.
    fn open(&mut self, lane: &mut ScriptLane) {
        for question in &self.questions {
            lane.put(QUESTIONS, question.item(&self.created_at));
        }
    }

    /// Every question may change.
    fn write_round(&mut self, _: u64, _: usize, lane: &mut ScriptLane) {
        let random = &mut self.random;
        for question in &mut self.questions {
            let key = question.key();
            match random.u8(..100) {
                0..15 => {
                    question.difficulty = random.i64(1..=5);
                    lane.set(QUESTIONS, key, json!({ "difficulty": question.difficulty }));
                }
                15..22 => {
                    question.language = one_of(random, &LANGUAGES);
                    lane.set(QUESTIONS, key, json!({ "language": question.language }));
                }
                // The certificate is in the key: the question is written there and deleted here.
                22..30 => {
                    (question.provider, question.certificate) = one_of(random, &CERTIFICATES);
                    lane.delete(QUESTIONS, key);
                    lane.put(QUESTIONS, question.item(&self.created_at));
                }
                // Of no certificate.
                30..34 => {
                    let mut bare = question.item(&self.created_at);
                    bare.remove("certificate");
                    lane.put(QUESTIONS, bare);
                }
                34..40 => {
                    lane.delete(QUESTIONS, key);
                    if random.bool() {
                        lane.put(QUESTIONS, question.item(&self.created_at));
                    }
                }
                _ => {}
            }
        }
    }
}
