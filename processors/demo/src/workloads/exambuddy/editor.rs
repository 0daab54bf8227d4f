//! The writer that edits: questions come and go; projects are archived, overwritten with stale counts, deleted, re-created.

use aws_sdk_dynamodb::types::AttributeValue;
use fastrand::Rng;

use super::generator::{Course, World};
use super::items::{TABLE, question, question_key};
use crate::item::text;
use crate::script::Lane;
use crate::workloads::tools::{instant, moment, new_id};

/// Edits the projects of all admins.
#[derive(Debug)]
pub(super) struct Editor {
    random: Rng,
    drafts: Vec<Draft>,
}

/// A project as its editor knows it.
#[derive(Debug)]
struct Draft {
    course: Course,
    is_archived: bool,
    is_there: bool,
}

impl Editor {
    pub(super) fn new(courses: &[Course], random: Rng) -> Self {
        let draft = |course: &Course| Draft { course: course.clone(), is_archived: false, is_there: true };
        Self { random, drafts: courses.iter().map(draft).collect() }
    }

    /// One round of edits.
    pub(super) fn edit(&mut self, world: &World, round: usize, lane: &mut Lane) {
        for draft in &mut self.drafts {
            draft.change_questions(world, &mut self.random, round, lane);
            draft.change_project(&mut self.random, lane);
        }
    }
}

impl Draft {
    /// Adds some questions and deletes some.
    fn change_questions(&mut self, world: &World, random: &mut Rng, round: usize, lane: &mut Lane) {
        let project = &self.course.project;
        for _ in 0..random.usize(0..=3) {
            let id = new_id(random);
            let created_at = instant(moment(random, world.now, round));
            lane.put(TABLE, question(&project.id, &id, 99, &created_at));
            self.course.questions.push(id);
        }
        for _ in 0..random.usize(0..=2).min(self.course.questions.len()) {
            let id = self.course.questions.swap_remove(random.usize(..self.course.questions.len()));
            lane.delete(TABLE, question_key(&project.id, &id).item());
        }
    }

    fn change_project(&mut self, random: &mut Rng, lane: &mut Lane) {
        let project = &self.course.project;
        let key = project.key().item();
        match random.u8(..100) {
            // Archived, or taken up again.
            0..30 => {
                self.is_archived = !self.is_archived;
                if self.is_there {
                    let status = format!("ADMIN#{}#STATUS#{}", project.admin_id, self.is_archived);
                    let archived = AttributeValue::Bool(self.is_archived);
                    lane.set(TABLE, key, [("archived", archived), ("GSI3PK", text(status))]);
                }
            }
            // Saved whole by a client that read it long ago: the count that it shows is stale. If it was deleted, it is
            // there again.
            30..55 => {
                lane.put(TABLE, project.item(self.is_archived, random.i64(0..=50)));
                self.is_there = true;
            }
            // Deleted, and perhaps re-created at once with no count yet.
            55..75 => {
                lane.delete(TABLE, key);
                self.is_there = random.bool();
                if self.is_there {
                    lane.put(TABLE, project.item(self.is_archived, 0));
                }
            }
            _ => {}
        }
    }
}
