//! The demo's workloads under every fault that a consumer can meet, without servers: in the end rollups and mirrored attributes are
//! what each workload's own recount says.
//!
//! ```text
//! script ──step by step──▶ tables in memory ──changes──▶ shards ──batches, cut anywhere──▶ two consumers ──calls──▶ faults ─▶ tables
//!                                ▲                                                              │
//!                                └──────────────── rollups, mirrored attributes ◀───────────────┘
//! ```
//!
//! Then all records go to the stream's second reader and to the exporter, whose rows are compared column by column; and nothing that a workload keeps secret is anywhere.

mod application;
mod cached;
mod consumers;
mod passed_on;
mod rows;
mod secrets;
mod stream;
mod values;

use std::collections::BTreeMap;

use afterwrite_demo::recount::WorkloadOutcome;
use afterwrite_demo::rollups::RollupSet;
use afterwrite_demo::verdict::{RecountVerdict, compare};
use afterwrite_demo::workload::Workload;
use afterwrite_demo::workloads;

use self::consumers::Run;

/// Seeds of every test run, of each model.
const SEEDS: u64 = 50;
/// How much each of them plays.
const SIZE: u64 = 48;

fn workload(model: &str) -> &'static Workload {
    workloads::of(model).unwrap_or_else(|error| panic!("{error}"))
}

/// What is derived, against what must be.
fn judge(workload: &Workload, outcome: &WorkloadOutcome, rollups: &RollupSet) -> RecountVerdict {
    compare(&workload.recount(outcome), rollups)
}

/// Plays a model's workload with many seeds; each ends right, and together they meet every fault.
fn every_seed_ends_right(model: &str) {
    let workload = workload(model);
    let mut met = BTreeMap::<&str, u64>::new();
    let (mut rollups, mut mirrored) = (0, 0);
    for seed in 0..SEEDS {
        let mut run = Run::new(workload, seed, SIZE);
        run.go();
        for (evil, times) in run.met() {
            *met.entry(evil).or_default() += times;
        }
        let verdict = judge(workload, &run.outcome(), &run.rollups());
        assert_eq!(verdict.differences, [], "{model}, seed {seed}");
        (rollups, mirrored) = (rollups + verdict.rollups, mirrored + verdict.mirrored);
    }
    let never: Vec<_> = met.iter().filter(|(_, times)| **times == 0).collect();
    assert!(never.is_empty(), "these never happened: {never:?}");
    assert!(rollups > 1000, "{rollups}");
    // Nothing of what glad derives is shown on its own items.
    assert_eq!(mirrored > 100, model != "glad", "{mirrored}");
}

#[test]
fn algoitny_ends_right_whatever_happens() {
    every_seed_ends_right("algoitny");
}

#[test]
fn quiz_ends_right_whatever_happens() {
    every_seed_ends_right("quiz");
}

#[test]
fn shop_ends_right_whatever_happens() {
    every_seed_ends_right("shop");
}

#[test]
fn glad_ends_right_whatever_happens() {
    every_seed_ends_right("glad");
}

#[test]
fn a_seed_repeats_itself() {
    for workload in workloads::ALL.into_iter().filter(|workload| workload.model != "exambuddy") {
        let state = |seed| {
            let mut run = Run::new(workload, seed, SIZE);
            run.go();
            run.state()
        };
        assert_eq!(state(7), state(7), "{}", workload.model);
    }
}
