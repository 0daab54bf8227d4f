//! The writer of projects: questions are added and deleted; projects are archived, overwritten with stale counts, deleted, created
//! again.

use fastrand::Rng;
use serde_json::json;

use super::items::{ExamProject, TABLE, question, question_key, user};
use super::world::ExamWorld;
use crate::script::ScriptLane;
use crate::workloads::tools::{LaneWriter, earliest, instant, moment, new_id};

/// Edits the projects of all admins.
#[derive(Debug)]
pub(super) struct ProjectEditor<'w> {
    world: &'w ExamWorld,
    random: Rng,
    projects: Vec<ExamProject>,
}

impl<'w> ProjectEditor<'w> {
    pub(super) fn new(world: &'w ExamWorld, random: Rng) -> Self {
        let projects = world.projects.iter().map(|(project, _)| project.clone()).collect();
        Self { world, random, projects }
    }
}

impl LaneWriter for ProjectEditor<'_> {
    /// Admins, projects, then questions.
    fn open(&mut self, lane: &mut ScriptLane) {
        let created_at = instant(earliest(self.world.now));
        for id in &self.world.admins {
            lane.put(TABLE, user(id, "ADMIN", &created_at));
        }
        for (project, stored_count) in &self.world.projects {
            lane.put(TABLE, project.item(*stored_count));
        }
        for project in &self.projects {
            for (order, id) in (1..).zip(&project.questions) {
                lane.put(TABLE, question(&project.id, id, order, &created_at));
            }
        }
    }

    fn write_round(&mut self, _: u64, round: usize, lane: &mut ScriptLane) {
        for project in &mut self.projects {
            change_questions(project, self.world, &mut self.random, round, lane);
            change_project(project, &mut self.random, lane);
        }
    }
}

/// Adds some questions and deletes some.
fn change_questions(
    project: &mut ExamProject,
    world: &ExamWorld,
    random: &mut Rng,
    round: usize,
    lane: &mut ScriptLane,
) {
    for _ in 0..random.usize(0..=3) {
        let id = new_id(random);
        let created_at = instant(moment(random, world.now, round));
        lane.put(TABLE, question(&project.id, &id, 99, &created_at));
        project.questions.push(id);
    }
    for _ in 0..random.usize(0..=2).min(project.questions.len()) {
        let id = project.questions.swap_remove(random.usize(..project.questions.len()));
        lane.delete(TABLE, question_key(&project.id, &id));
    }
}

fn change_project(project: &mut ExamProject, random: &mut Rng, lane: &mut ScriptLane) {
    match random.u8(..100) {
        // Archived, or active again.
        0..30 => {
            project.is_archived = !project.is_archived;
            if project.exists {
                let archived = json!({ "archived": project.is_archived, "GSI3PK": project.status() });
                lane.set(TABLE, project.key(), archived);
            }
        }
        // Saved by a client that read it long ago, with a stale count. If it was deleted, it exists again.
        30..55 => {
            lane.put(TABLE, project.item(random.i64(0..=50)));
            project.exists = true;
        }
        // Deleted, and perhaps created again at once, without a count yet.
        55..75 => {
            lane.delete(TABLE, project.key());
            project.exists = random.bool();
            if project.exists {
                lane.put(TABLE, project.item(0));
            }
        }
        _ => {}
    }
}
