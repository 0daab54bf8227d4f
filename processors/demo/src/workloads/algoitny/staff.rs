//! The writer behind the judge: problems are drafted, completed, moved, marked as deleted or deleted; jobs generate test cases.

use std::collections::BTreeMap;

use fastrand::Rng;
use jiff::Timestamp;
use serde_json::json;

use super::items::{
    PLATFORMS, TABLE, job, job_key, plan, problem, problem_key, task_result, testcase, testcase_key,
};
use crate::script::{PAST, ScriptLane};
use crate::workloads::tools::{LaneWriter, chance, one_of, short_id};

/// Writes problems, test cases, plans and jobs.
#[derive(Debug)]
pub(super) struct ProblemEditor {
    random: Rng,
    problems: Vec<String>,
    /// The number of test cases that each problem has ever had.
    testcases: BTreeMap<String, u64>,
    now: i64,
}

impl ProblemEditor {
    pub(super) fn new(random: Rng, problems: Vec<String>, now: Timestamp) -> Self {
        Self { random, problems, testcases: BTreeMap::new(), now: now.as_second() }
    }

    fn write_problem(&mut self, id: &str, lane: &mut ScriptLane) {
        let random = &mut self.random;
        let platform = one_of(random, &PLATFORMS);
        let runs = random.bool().then(|| random.i64(0..=150));
        lane.put(TABLE, problem(id, platform, !chance(random, 30), runs, self.now));
    }

    fn add_testcases(&mut self, id: &str, lane: &mut ScriptLane) {
        let numbers = self.testcases.entry(id.to_owned()).or_default();
        for _ in 0..self.random.u8(1..=4) {
            *numbers += 1;
            lane.put(TABLE, testcase(id, *numbers, self.now));
        }
    }

    fn change_problem(&mut self, id: &str, lane: &mut ScriptLane) {
        let key = problem_key(id);
        match self.random.u8(..100) {
            0..15 => lane.set(TABLE, key, json!({ "ic": i64::from(self.random.bool()) })),
            // Marked as deleted, or not any more.
            15..25 => lane.set(TABLE, key, json!({ "id": i64::from(self.random.bool()) })),
            25..35 => lane.set(TABLE, key, json!({ "pf": one_of(&mut self.random, &PLATFORMS) })),
            // Saved as a whole, with a count of its own or without.
            35..50 => self.write_problem(id, lane),
            50..56 => {
                lane.delete(TABLE, key);
                if self.random.bool() {
                    self.write_problem(id, lane);
                }
            }
            56..70 => self.add_testcases(id, lane),
            70..80 => {
                let last = self.testcases.get(id).copied().unwrap_or(1);
                lane.delete(TABLE, testcase_key(id, self.random.u64(1..=last.max(1))));
            }
            _ => {}
        }
    }

    fn run_job(&mut self, lane: &mut ScriptLane) {
        let id = short_id(&mut self.random);
        lane.put(TABLE, job(&id, self.now));
        let end = one_of(&mut self.random, &["RUNNING", "COMPLETED", "COMPLETED", "FAILED"]);
        for status in ["RUNNING", end] {
            lane.set(TABLE, job_key(&id), json!({ "st": status }));
        }
        if chance(&mut self.random, 30) {
            lane.put(TABLE, task_result(&id, self.now, PAST));
        }
        match self.random.u8(..100) {
            0..15 => lane.delete(TABLE, job_key(&id)),
            15..30 => lane.set(TABLE, job_key(&id), json!({ "ttl": PAST })),
            _ => {}
        }
    }
}

impl LaneWriter for ProblemEditor {
    /// Plans, and the first problems: some have a wrong count of runs, some have no map for it.
    fn open(&mut self, lane: &mut ScriptLane) {
        for name in ["Free", "Pro"] {
            lane.put(TABLE, plan(name, self.now));
        }
        for id in self.problems.clone() {
            self.write_problem(&id, lane);
            self.add_testcases(&id, lane);
        }
    }

    /// Every problem may change, and some jobs run.
    fn write_round(&mut self, _: u64, _: usize, lane: &mut ScriptLane) {
        for id in self.problems.clone() {
            self.change_problem(&id, lane);
        }
        for _ in 0..6 {
            self.run_job(lane);
        }
    }
}
