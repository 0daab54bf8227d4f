//! One writer's users: they run solutions, request hints, use up their allowance; runs are judged again, published, hidden, deleted.

use fastrand::Rng;
use jiff::Timestamp;
use serde_json::json;

use super::items::{PLATFORMS, SolutionRun, TABLE, USAGE_LIFE, usage, usage_key, user, user_key};
use crate::script::{PAST, ScriptLane};
use crate::workloads::tools::{LaneWriter, chance, day, days_before, moment, one_of, short_id};

/// Logs this old count into days whose counters have expired.
const LONG_AGO_DAYS: i64 = 95;

/// Writes some of the users, one after the other.
#[derive(Debug)]
pub(super) struct SolutionWriter {
    random: Rng,
    users: Vec<String>,
    problems: Vec<String>,
    now: Timestamp,
}

impl SolutionWriter {
    pub(super) fn new(random: Rng, lane: usize, users: u64, problems: Vec<String>, now: Timestamp) -> Self {
        let users = (0..users).map(|number| format!("{lane}{number:03}")).collect();
        Self { random, users, problems, now }
    }

    fn plan(&mut self) -> Option<&'static str> {
        match self.random.u8(..10) {
            0 => None,
            1..4 => Some("Pro"),
            _ => Some("Free"),
        }
    }

    fn solution(&mut self, user: &str, round: usize) -> SolutionRun {
        let random = &mut self.random;
        let problem = one_of(random, &self.problems);
        let is_other = chance(random, 4);
        SolutionRun {
            id: short_id(random),
            user: (!chance(random, 6)).then(|| format!("USER#{user}")),
            problem: if is_other { "CONTEST#1".to_owned() } else { format!("PROB#{problem}") },
            platform: one_of(random, &PLATFORMS),
            passed: random.i64(0..=20),
            failed: if random.bool() { 0 } else { random.i64(1..=9) },
            is_public: chance(random, 40),
            at: moment(random, self.now, round).as_second(),
        }
    }

    /// Each run is a use of the allowance; so is a hint. Logs are deleted and expire.
    fn log_usage(&mut self, user: &str, round: usize, lane: &mut ScriptLane) {
        let action = if chance(&mut self.random, 25) { "hint" } else { "execution" };
        let is_late = chance(&mut self.random, 3);
        // Half of the logs are of today, so that the rate limit matters.
        let at = match (is_late, self.random.bool()) {
            (true, _) => days_before(self.now, LONG_AGO_DAYS),
            (false, true) => self.now,
            (false, false) => moment(&mut self.random, self.now, round),
        };
        let (date, at) = (day(at), at.as_second() + self.random.i64(-600..=0));
        lane.put(TABLE, usage(user, &date, action, at));
        let key = usage_key(user, &date, action, at);
        match self.random.u8(..100) {
            0..12 => lane.set(TABLE, key, json!({ "ttl": PAST })),
            12..18 => lane.delete(TABLE, key),
            18..24 => lane.set(TABLE, key, json!({ "ttl": at + USAGE_LIFE + 60 })),
            _ => {}
        }
    }

    fn change_later(&mut self, mut run: SolutionRun, lane: &mut ScriptLane) {
        let key = run.key();
        match self.random.u8(..100) {
            // Judged again.
            0..12 => {
                (run.passed, run.failed) = (self.random.i64(0..=20), self.random.i64(0..=2));
                lane.set(TABLE, key, json!({ "pc": run.passed, "fc": run.failed }));
            }
            // Published or hidden.
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
            // Moved to another problem or user: duplicates and accounts are merged.
            32..38 => {
                let problem = one_of(&mut self.random, &self.problems);
                lane.set(TABLE, key, json!({ "pid": format!("PROB#{problem}") }));
            }
            38..42 => {
                let other = one_of(&mut self.random, &self.users);
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
            46..50 => lane.set(TABLE, key, json!({ "ttl": PAST })),
            _ => {}
        }
    }

    fn change_user(&mut self, user: &str, lane: &mut ScriptLane) {
        match self.random.u8(..100) {
            0..4 => lane.set(TABLE, user_key(user), json!({ "sp": self.plan() })),
            4..6 => lane.set(TABLE, user_key(user), json!({ "ia": i64::from(self.random.bool()) })),
            6..8 => lane.delete(TABLE, user_key(user)),
            _ => {}
        }
    }
}

impl LaneWriter for SolutionWriter {
    fn open(&mut self, lane: &mut ScriptLane) {
        for id in self.users.clone() {
            let (plan, is_active) = (self.plan(), self.random.u8(..10) > 0);
            let at = moment(&mut self.random, self.now, 0).as_second();
            lane.put(TABLE, user(&id, plan, is_active, at));
        }
    }

    fn write_round(&mut self, runs: u64, round: usize, lane: &mut ScriptLane) {
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
