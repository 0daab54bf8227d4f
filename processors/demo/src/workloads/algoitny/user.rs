//! One writer's users: they run solutions, ask for hints, use up their allowance; runs are judged anew, shown, hidden, deleted.

use aws_sdk_dynamodb::types::AttributeValue;
use fastrand::Rng;
use jiff::Timestamp;

use super::items::{PLATFORMS, Run, TABLE, USAGE_LIFE, usage, usage_key, user, user_key};
use crate::item::{text, whole};
use crate::script::{Lane, PAST};
use crate::workloads::tools::{Actor, day, days_before, in_a_hundred, moment, one_of, short_id};

/// Logs this old count into days that are long over.
const LONG_AGO_DAYS: i64 = 95;

/// Some of the users, written one after the other.
#[derive(Debug)]
pub(super) struct Coders {
    random: Rng,
    users: Vec<String>,
    problems: Vec<String>,
    now: Timestamp,
}

impl Coders {
    pub(super) fn new(random: Rng, lane: usize, users: u64, problems: Vec<String>, now: Timestamp) -> Self {
        let users = (0..users).map(|number| format!("{lane}{number:03}")).collect();
        Self { random, users, problems, now }
    }

    fn plan(&mut self) -> AttributeValue {
        match self.random.u8(..10) {
            0 => AttributeValue::Null(true),
            1..4 => text("Pro"),
            _ => text("Free"),
        }
    }

    fn solution(&mut self, user: &str, round: usize) -> Run {
        let random = &mut self.random;
        let problem = random.choice(&self.problems).cloned().unwrap_or_default();
        let is_other = in_a_hundred(random, 4);
        Run {
            id: short_id(random),
            user: (!in_a_hundred(random, 6)).then(|| format!("USER#{user}")),
            problem: if is_other { "CONTEST#1".to_owned() } else { format!("PROB#{problem}") },
            platform: one_of(random, &PLATFORMS),
            passed: random.i64(0..=20),
            failed: if random.bool() { 0 } else { random.i64(1..=9) },
            is_public: in_a_hundred(random, 40),
            at: moment(random, self.now, round).as_second(),
        }
    }

    /// Each run is one use of the allowance; hints are others. Logs are deleted, and expire.
    fn log_usage(&mut self, user: &str, round: usize, lane: &mut Lane) {
        let action = if in_a_hundred(&mut self.random, 25) { "hint" } else { "execution" };
        let is_late = in_a_hundred(&mut self.random, 3);
        // Half of it is of today, so that there is something to limit.
        let at = match (is_late, self.random.bool()) {
            (true, _) => days_before(self.now, LONG_AGO_DAYS),
            (false, true) => self.now,
            (false, false) => moment(&mut self.random, self.now, round),
        };
        let (date, at) = (day(at), at.as_second() + self.random.i64(-600..=0));
        let log = usage(user, &date, action, at);
        lane.put(TABLE, log);
        let key = usage_key(user, &date, action, at);
        match self.random.u8(..100) {
            0..12 => lane.set(TABLE, key, [("ttl", whole(PAST))]),
            12..18 => lane.delete(TABLE, key),
            18..24 => lane.set(TABLE, key, [("ttl", whole(at + USAGE_LIFE + 60))]),
            _ => {}
        }
    }

    fn change_later(&mut self, mut run: Run, lane: &mut Lane) {
        let key = run.key();
        match self.random.u8(..100) {
            // Judged once more.
            0..12 => {
                (run.passed, run.failed) = (self.random.i64(0..=20), self.random.i64(0..=2));
                lane.set(TABLE, key, [("pc", whole(run.passed)), ("fc", whole(run.failed))]);
            }
            // Shown, or hidden.
            12..24 => {
                run.is_public = !run.is_public;
                lane.put(TABLE, run.item());
            }
            24..32 => {
                lane.delete(TABLE, key);
                if self.random.bool() {
                    run.at += 60;
                    lane.put(TABLE, run.item());
                }
            }
            // Of another problem, or of another user: accounts and duplicates are merged.
            32..38 => {
                let problem = self.random.choice(&self.problems).cloned().unwrap_or_default();
                lane.set(TABLE, key, [("pid", text(format!("PROB#{problem}")))]);
            }
            38..42 => {
                let other = self.random.choice(&self.users).cloned().unwrap_or_default();
                run.user = Some(format!("USER#{other}"));
                lane.put(TABLE, run.item());
            }
            // Still queued: no counts yet.
            42..46 => {
                let mut queued = run.item();
                for name in ["pc", "fc", "tc"] {
                    queued.remove(name);
                }
                lane.put(TABLE, queued);
            }
            46..50 => lane.set(TABLE, key, [("ttl", whole(PAST))]),
            _ => {}
        }
    }

    fn change_user(&mut self, user: &str, lane: &mut Lane) {
        match self.random.u8(..100) {
            0..4 => {
                let plan = self.plan();
                lane.set(TABLE, user_key(user), [("sp", plan)]);
            }
            4..6 => {
                let is_active = whole(i64::from(self.random.bool()));
                lane.set(TABLE, user_key(user), [("ia", is_active)]);
            }
            6..8 => lane.delete(TABLE, user_key(user)),
            _ => {}
        }
    }
}

impl Actor for Coders {
    fn open(&mut self, lane: &mut Lane) {
        for id in self.users.clone() {
            let (plan, is_active) = (self.plan(), self.random.u8(..10) > 0);
            let at = moment(&mut self.random, self.now, 0).as_second();
            lane.put(TABLE, user(&id, plan, is_active, at));
        }
    }

    /// Runs so many solutions in this round of the month.
    fn act(&mut self, runs: u64, round: usize, lane: &mut Lane) {
        for _ in 0..runs {
            let Some(user) = self.random.choice(&self.users).cloned() else { return };
            self.log_usage(&user, round, lane);
            let run = self.solution(&user, round);
            lane.put(TABLE, run.item());
            self.change_later(run, lane);
            self.change_user(&user, lane);
        }
    }
}
