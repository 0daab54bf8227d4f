//! The writer that edits: questions come and go; projects are archived, overwritten with stale counts, deleted, re-created.

use afterwrite::Result;
use aws_sdk_dynamodb::types::AttributeValue;
use fastrand::Rng;

use super::generator::{Course, World, instant, moment, new_id};
use super::platform::{question, question_key, text};

/// Edits the projects of all admins.
#[derive(Debug)]
pub(super) struct Editor {
    random: Rng,
    drafts: Vec<Draft>,
    added: Vec<(String, String)>,
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
        Self { random, drafts: courses.iter().map(draft).collect(), added: Vec::new() }
    }

    /// The questions that were added since the beginning, each with its project.
    pub(super) fn added(&self) -> &[(String, String)] {
        &self.added
    }

    /// One round of edits.
    pub(super) async fn edit(&mut self, world: &World, round: usize) -> Result<()> {
        for draft in &mut self.drafts {
            let random = &mut self.random;
            let added = draft.change_questions(world, random, round).await?;
            self.added.extend(added);
            draft.change_project(world, random).await?;
        }
        Ok(())
    }
}

impl Draft {
    /// Adds some questions and deletes some. Returns the new ones, each with its project.
    async fn change_questions(
        &mut self,
        world: &World,
        random: &mut Rng,
        round: usize,
    ) -> Result<Vec<(String, String)>> {
        let project = &self.course.project;
        let mut added = Vec::new();
        for _ in 0..random.usize(0..=3) {
            let id = new_id(random);
            let created_at = instant(moment(random, world.now, round));
            world.application.put(question(&project.id, &id, 99, &created_at)).await?;
            added.push((id.clone(), project.id.clone()));
            self.course.questions.push(id);
        }
        for _ in 0..random.usize(0..=2).min(self.course.questions.len()) {
            let id = self.course.questions.swap_remove(random.usize(..self.course.questions.len()));
            world.application.delete(&question_key(&project.id, &id)).await?;
        }
        Ok(added)
    }

    async fn change_project(&mut self, world: &World, random: &mut Rng) -> Result<()> {
        let (application, project) = (&world.application, &self.course.project);
        match random.u8(..100) {
            // Archived, or taken up again.
            0..30 => {
                self.is_archived = !self.is_archived;
                if self.is_there {
                    let status = format!("ADMIN#{}#STATUS#{}", project.admin_id, self.is_archived);
                    let archived = AttributeValue::Bool(self.is_archived);
                    application
                        .set(&project.key(), vec![("archived", archived), ("GSI3PK", text(status))])
                        .await?;
                }
            }
            // Saved whole by a client that read it long ago: the count that it shows is stale. If it was deleted, it is
            // there again.
            30..55 => {
                application.put(project.item(self.is_archived, random.i64(0..=50))).await?;
                self.is_there = true;
            }
            // Deleted, and perhaps re-created at once with no count yet.
            55..75 => {
                application.delete(&project.key()).await?;
                self.is_there = random.bool();
                if self.is_there {
                    application.put(project.item(self.is_archived, 0)).await?;
                }
            }
            _ => {}
        }
        Ok(())
    }
}
