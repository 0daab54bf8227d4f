//! Who there is on the exam platform, and which projects with which questions.

use fastrand::Rng;
use jiff::Timestamp;

use super::items::ExamProject;
use crate::workloads::tools::{earliest, instant, new_id, one_of};

const ADMINS: usize = 3;
const TITLES: [&str; 6] = [
    "Solutions Architect",
    "Français B1",
    "Organic Chemistry",
    "試験 日本語 N3",
    "Constitutional Law",
    "Kubernetes",
];

/// The state that all writers share.
#[derive(Debug)]
pub(super) struct ExamWorld {
    pub(super) admins: Vec<String>,
    /// Each project with the count of questions that the application has stored at first.
    pub(super) projects: Vec<(ExamProject, i64)>,
    pub(super) candidates: Vec<String>,
    pub(super) now: Timestamp,
}

impl ExamWorld {
    pub(super) fn new(random: &mut Rng, attempts: u64, now: Timestamp) -> Self {
        let admins: Vec<String> = (0..ADMINS).map(|_| new_id(random)).collect();
        let mut projects = Vec::new();
        for admin_id in &admins {
            for _ in 0..random.usize(2..=5) {
                let project = ExamProject {
                    title: one_of(random, &TITLES).to_owned(),
                    id: new_id(random),
                    admin_id: admin_id.clone(),
                    created_at: instant(earliest(now)),
                    questions: (0..random.usize(4..=16)).map(|_| new_id(random)).collect(),
                    is_archived: false,
                    exists: true,
                };
                let stored_count = stored_count(random, project.questions.len());
                projects.push((project, stored_count));
            }
        }
        let candidates = (0..attempts.div_ceil(8).max(4)).map(|_| new_id(random)).collect();
        Self { admins, projects, candidates, now }
    }
}

/// A count that an application might have stored: right, stale, or never maintained.
fn stored_count(random: &mut Rng, questions: usize) -> i64 {
    let questions = i64::try_from(questions).unwrap_or(0);
    match random.u8(..4) {
        0 => 0,
        1 => 50,
        2 => questions - random.i64(1..=3),
        _ => questions,
    }
}
