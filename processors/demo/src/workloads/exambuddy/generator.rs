//! A month of an exam platform, as its application writes it: several writers at once, and it counts nothing.
//!
//! The month has five rounds. In each, candidates sit exams while an editor changes projects and questions. Then the time
//! to live of some attempts has passed and DynamoDB takes them; in the next round some live again under the same key.

use fastrand::Rng;
use jiff::Timestamp;

use super::candidate::Candidate;
use super::editor::Editor;
use super::items::{Project, TABLE, question, user};
use crate::script::{Lane, Script};
use crate::workloads::LANES;
use crate::workloads::tools::{ROUNDS, earliest, instant, lanes, new_id, share};

const ADMINS: usize = 3;
const TITLES: [&str; 6] = [
    "Solutions Architect",
    "Français B1",
    "Organic Chemistry",
    "試験 日本語 N3",
    "Constitutional Law",
    "Kubernetes",
];

/// A project and its questions, in the order in which they were added.
#[derive(Clone, Debug)]
pub(super) struct Course {
    pub(super) project: Project,
    pub(super) questions: Vec<String>,
    /// What the application believed its count of questions to be at first.
    pub(super) believed: i64,
}

/// What all writers know.
#[derive(Debug)]
pub(super) struct World {
    pub(super) courses: Vec<Course>,
    pub(super) candidates: Vec<String>,
    pub(super) now: Timestamp,
}

/// The platform from its first user to the end of the month.
#[derive(Debug)]
pub(super) struct Month {
    world: World,
    attempts: u64,
    random: Rng,
    admins: Vec<String>,
}

impl Month {
    /// Plans a month: who there is, and which projects with which questions. The same seed plans the same.
    pub(super) fn plan(seed: u64, attempts: u64, now: Timestamp) -> Self {
        let mut random = Rng::with_seed(seed);
        let admins: Vec<String> = (0..ADMINS).map(|_| new_id(&mut random)).collect();
        let created_at = instant(earliest(now));
        let mut courses = Vec::new();
        for admin_id in &admins {
            for _ in 0..random.usize(2..=5) {
                let title = TITLES.get(random.usize(..TITLES.len())).copied().unwrap_or_default().to_owned();
                let id = new_id(&mut random);
                let created_at = created_at.clone();
                let project = Project { id, admin_id: admin_id.clone(), title, created_at };
                let questions: Vec<String> = (0..random.usize(4..=16)).map(|_| new_id(&mut random)).collect();
                let believed = believed_count(&mut random, questions.len());
                courses.push(Course { project, questions, believed });
            }
        }
        let candidates = (0..attempts.div_ceil(8).max(4)).map(|_| new_id(&mut random)).collect();
        Self { world: World { courses, candidates, now }, attempts, random, admins }
    }

    /// The month as its steps.
    pub(super) fn script(mut self) -> Script {
        let mut rounds = self.open();
        let mut editor = Editor::new(&self.world.courses, self.random.fork());
        let mut candidates: Vec<Candidate> = (0..LANES).map(|_| Candidate::new(self.random.fork())).collect();
        for round in 0..ROUNDS {
            let mut lanes = lanes(LANES);
            let of_round = share(self.attempts, ROUNDS, round);
            for (number, (candidate, lane)) in candidates.iter_mut().zip(&mut lanes).enumerate() {
                candidate.sit(&self.world, share(of_round, LANES, number), round, lane);
            }
            let mut edits = Lane::default();
            editor.edit(&self.world, round, &mut edits);
            lanes.push(edits);
            rounds.push(lanes);
        }
        Script { rounds }
    }

    /// The platform before its first exam: users and projects, then questions.
    fn open(&self) -> Vec<Vec<Lane>> {
        let world = &self.world;
        let created_at = instant(earliest(world.now));
        let admins = self.admins.iter().map(|id| user(id, "ADMIN", &created_at));
        let candidates = world.candidates.iter().map(|id| user(id, "CANDIDATE", &created_at));
        let projects = world.courses.iter().map(|course| course.project.item(false, course.believed));
        let questions = world.courses.iter().flat_map(|course| {
            let numbered = (1..).zip(&course.questions);
            numbered.map(|(order, id)| question(&course.project.id, id, order, &created_at))
        });
        [admins.chain(candidates).chain(projects).collect::<Vec<_>>(), questions.collect()]
            .into_iter()
            .map(|items| {
                let mut lanes = lanes(LANES);
                for (number, item) in items.into_iter().enumerate() {
                    if let Some(lane) = lanes.get_mut(number % LANES) {
                        lane.put(TABLE, item);
                    }
                }
                lanes
            })
            .collect()
    }
}

/// A count that an application might have stored: right, stale, or never kept.
fn believed_count(random: &mut Rng, questions: usize) -> i64 {
    let questions = i64::try_from(questions).unwrap_or(0);
    match random.u8(..4) {
        0 => 0,
        1 => 50,
        2 => questions - random.i64(1..=3),
        _ => questions,
    }
}
