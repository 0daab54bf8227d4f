//! The writer of projects: questions are added and deleted; projects are archived, overwritten with stale counts, deleted, created
//! again.

use aws_sdk_dynamodb::types::AttributeValue;
use fastrand::Rng;

use super::items::{TABLE, question, question_key, user};
use super::world::{ExamWorld, ProjectQuestions};
use crate::item::text;
use crate::script::ScriptLane;
use crate::workloads::tools::{LaneWriter, earliest, instant, moment, new_id};

/// Edits the projects of all admins.
#[derive(Debug)]
pub(super) struct ProjectEditor<'w> {
    world: &'w ExamWorld,
    random: Rng,
    drafts: Vec<ProjectDraft>,
}

/// A project as its editor knows it.
#[derive(Debug)]
struct ProjectDraft {
    questions: ProjectQuestions,
    is_archived: bool,
    exists: bool,
}

impl<'w> ProjectEditor<'w> {
    pub(super) fn new(world: &'w ExamWorld, random: Rng) -> Self {
        let draft = |questions: &ProjectQuestions| ProjectDraft {
            questions: questions.clone(),
            is_archived: false,
            exists: true,
        };
        Self { world, random, drafts: world.projects.iter().map(draft).collect() }
    }
}

impl LaneWriter for ProjectEditor<'_> {
    /// Admins, projects, then questions.
    fn open(&mut self, lane: &mut ScriptLane) {
        let created_at = instant(earliest(self.world.now));
        for id in &self.world.admins {
            lane.put(TABLE, user(id, "ADMIN", &created_at));
        }
        for ProjectQuestions { project, stored_count, .. } in &self.world.projects {
            lane.put(TABLE, project.item(false, *stored_count));
        }
        for ProjectQuestions { project, questions, .. } in &self.world.projects {
            for (order, id) in (1..).zip(questions) {
                lane.put(TABLE, question(&project.id, id, order, &created_at));
            }
        }
    }

    fn write_round(&mut self, _: u64, round: usize, lane: &mut ScriptLane) {
        for draft in &mut self.drafts {
            draft.change_questions(self.world, &mut self.random, round, lane);
            draft.change_project(&mut self.random, lane);
        }
    }
}

impl ProjectDraft {
    /// Adds some questions and deletes some.
    fn change_questions(&mut self, world: &ExamWorld, random: &mut Rng, round: usize, lane: &mut ScriptLane) {
        let ProjectQuestions { project, questions, .. } = &mut self.questions;
        for _ in 0..random.usize(0..=3) {
            let id = new_id(random);
            let created_at = instant(moment(random, world.now, round));
            lane.put(TABLE, question(&project.id, &id, 99, &created_at));
            questions.push(id);
        }
        for _ in 0..random.usize(0..=2).min(questions.len()) {
            let id = questions.swap_remove(random.usize(..questions.len()));
            lane.delete(TABLE, question_key(&project.id, &id));
        }
    }

    fn change_project(&mut self, random: &mut Rng, lane: &mut ScriptLane) {
        let project = &self.questions.project;
        match random.u8(..100) {
            // Archived, or active again.
            0..30 => {
                self.is_archived = !self.is_archived;
                if self.exists {
                    let status = format!("ADMIN#{}#STATUS#{}", project.admin_id, self.is_archived);
                    let archived = AttributeValue::Bool(self.is_archived);
                    lane.set(TABLE, project.key(), [("archived", archived), ("GSI3PK", text(status))]);
                }
            }
            // Saved by a client that read it long ago, with a stale count. If it was deleted, it exists again.
            30..55 => {
                lane.put(TABLE, project.item(self.is_archived, random.i64(0..=50)));
                self.exists = true;
            }
            // Deleted, and perhaps created again at once, without a count yet.
            55..75 => {
                lane.delete(TABLE, project.key());
                self.exists = random.bool();
                if self.exists {
                    lane.put(TABLE, project.item(self.is_archived, 0));
                }
            }
            _ => {}
        }
    }
}
