//! A month of an exam platform, written through the AWS SDK as its application would, by several writers at once.
//!
//! The month has five rounds. In each, candidates sit exams while an editor changes projects and questions. Then the time
//! to live of some attempts has passed and DynamoDB takes them; in the next round some live again under the same key.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use afterwrite::{Error, ErrorKind, Result};
use aws_sdk_dynamodb::Client;
use fastrand::Rng;
use futures::{StreamExt as _, TryStreamExt as _};
use jiff::{SignedDuration, Timestamp};

use super::candidate::Candidate;
use super::editor::Editor;
use super::platform::{Application, Project, question, scan, user};
use super::recount::{History, number};
use crate::local::dynamodb::EmbeddedDynamoDb;

/// The days that the month reaches back, today among them.
pub(super) const DAYS: i64 = 31;
const ROUNDS: usize = 5;
const WRITERS: usize = 8;
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
    pub(super) application: Application,
    pub(super) courses: Vec<Course>,
    pub(super) candidates: Vec<String>,
    pub(super) now: Timestamp,
    /// How many attempts have been gone through.
    pub(super) attempts_done: Arc<AtomicU64>,
}

/// The platform from its first user to the end of the month.
#[derive(Debug)]
pub(super) struct Month {
    pub(super) world: World,
    attempts: u64,
    random: Rng,
    admins: Vec<String>,
}

impl Month {
    /// Plans a month: who there is, and which projects with which questions. The same seed plans the same.
    pub(super) fn plan(client: Client, seed: u64, attempts: u64, now: Timestamp) -> Self {
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
        let (application, attempts_done) = (Application::new(client), Arc::default());
        Self {
            world: World { application, courses, candidates, now, attempts_done },
            attempts,
            random,
            admins,
        }
    }

    /// The ids of the admins.
    pub(super) fn admins(&self) -> &[String] {
        &self.admins
    }

    /// Writes the month, and tells what its items alone will not.
    pub(super) async fn write(&mut self, server: &EmbeddedDynamoDb) -> Result<History> {
        let mut history = History::default();
        self.open(&mut history).await?;
        let mut editor = Editor::new(&self.world.courses, self.random.fork());
        let mut candidates: Vec<Candidate> =
            (0..WRITERS).map(|_| Candidate::new(self.random.fork())).collect();
        for round in 0..ROUNDS {
            let shares = shares(self.attempts, round);
            let sittings = candidates.iter_mut().zip(shares).map(|(candidate, share)| {
                let world = &self.world;
                async move { candidate.sit(world, share, round).await }
            });
            let (sat, edited) =
                futures::join!(futures::future::try_join_all(sittings), editor.edit(&self.world, round));
            sat?;
            edited?;
            self.expire(server, &mut history).await?;
        }
        history.projects.extend(editor.added().iter().cloned());
        Ok(history)
    }

    /// The platform before its first exam: users, projects, questions.
    async fn open(&self, history: &mut History) -> Result<()> {
        let world = &self.world;
        let created_at = instant(earliest(world.now));
        let admins = self.admins.iter().map(|id| user(id, "ADMIN", &created_at));
        let candidates = world.candidates.iter().map(|id| user(id, "CANDIDATE", &created_at));
        let projects = world.courses.iter().map(|course| course.project.item(false, course.believed));
        let first: Vec<_> = admins.chain(candidates).chain(projects).collect();
        self.put_all(first).await?;
        let mut questions = Vec::new();
        for course in &world.courses {
            let project = &course.project;
            history.owners.insert(project.id.clone(), project.admin_id.clone());
            for (order, id) in (1..).zip(&course.questions) {
                history.projects.insert(id.clone(), project.id.clone());
                questions.push(question(&project.id, id, order, &created_at));
            }
        }
        self.put_all(questions).await
    }

    async fn put_all(&self, items: Vec<super::platform::Item>) -> Result<()> {
        let puts = items.into_iter().map(|item| self.world.application.put(item));
        futures::stream::iter(puts).buffer_unordered(WRITERS).try_collect::<()>().await
    }

    /// Has DynamoDB take what has expired, and keeps it as it was. No writer is at work meanwhile.
    async fn expire(&self, server: &EmbeddedDynamoDb, history: &mut History) -> Result<()> {
        let now = Timestamp::now().as_second();
        let items = scan(&server.client(), super::platform::TABLE).await?;
        let due: Vec<_> =
            items.into_iter().filter(|item| number(item, "ttl").is_some_and(|ttl| ttl < now)).collect();
        let swept = server.sweep_expired().await?;
        if swept != due.len() {
            return Err(Error::new(
                ErrorKind::State,
                "the embedded DynamoDB expired other items than were due",
            )
            .with("due", due.len().to_string())
            .with("expired", swept.to_string()));
        }
        history.expired.extend(due);
        Ok(())
    }
}

/// The attempts of one round, shared among the writers.
fn shares(attempts: u64, round: usize) -> Vec<u64> {
    let split = |total: u64, parts: usize, part: usize| {
        let (parts, part) = (u64::try_from(parts).unwrap_or(1), u64::try_from(part).unwrap_or(0));
        total / parts + u64::from(part < total % parts)
    };
    let of_round = split(attempts, ROUNDS, round);
    (0..WRITERS).map(|writer| split(of_round, WRITERS, writer)).collect()
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

/// The first moment of the month that ends now.
pub(super) fn earliest(now: Timestamp) -> Timestamp {
    let day = now.as_second().div_euclid(86_400) - (DAYS - 1);
    Timestamp::from_second(day * 86_400).unwrap_or(now)
}

/// A moment in the given round of the month, not after now.
pub(super) fn moment(random: &mut Rng, now: Timestamp, round: usize) -> Timestamp {
    let span = now.duration_since(earliest(now)).as_secs();
    let rounds = i64::try_from(ROUNDS).unwrap_or(1);
    let round = i64::try_from(round).unwrap_or(0).min(rounds - 1);
    let offset = span * round / rounds + random.i64(0..(span / rounds).max(1));
    earliest(now).checked_add(SignedDuration::from_secs(offset)).unwrap_or(now)
}

/// As the application writes times.
pub(super) fn instant(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// An id of a UUID's form.
pub(super) fn new_id(random: &mut Rng) -> String {
    let (high, low) = (random.u64(..), random.u64(..));
    let hex = format!("{high:016x}{low:016x}");
    let part = |range: std::ops::Range<usize>| hex.get(range).unwrap_or_default();
    format!("{}-{}-4{}-8{}-{}", part(0..8), part(8..12), part(13..16), part(17..20), part(20..32))
}
