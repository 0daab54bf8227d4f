//! The demo's workloads with every fault that a consumer can meet, on tables in memory. At the end, rollups and mirrored attributes equal
//! the workload's own recount.
//!
//! ```text
//! script ──step by step──▶ tables in memory ──changes──▶ shards ──batches of any size──▶ two consumers ──calls──▶ faults ─▶ tables
//!                                ▲                                                             │
//!                                └─────────────── rollups, mirrored attributes ◀───────────────┘
//! ```
//!
//! The same records then go through the relay and the exporter, whose cache keys and rows are compared with expectations written by
//! hand. Secrets of a workload must appear in no output. The typed readers read the same rollups from an embedded DynamoDB.

mod application;
mod clients;
mod consumers;
mod expected;
mod relay_and_exporter;
mod secrets;
mod stream;

use std::collections::BTreeMap;

use afterwrite_demo::recount::WorkloadOutcome;
use afterwrite_demo::rollups::RollupSet;
use afterwrite_demo::verdict::{RecountVerdict, compare};
use afterwrite_demo::workload::Workload;
use afterwrite_demo::workloads;

use self::consumers::WorkloadRun;

/// Seeds of each model in every test run.
const SEEDS: u64 = 50;
/// The size of the script of one seed.
const SIZE: u64 = 48;

fn workload(model: &str) -> &'static Workload {
    workloads::of(model).unwrap_or_else(|error| panic!("{error}"))
}

/// The derived values compared with the recount.
fn verdict_of(workload: &Workload, outcome: &WorkloadOutcome, rollups: &RollupSet) -> RecountVerdict {
    compare(&workload.recount(outcome), rollups)
}

/// Runs a model's workload with many seeds. Each ends with the recount's values, and together they meet every fault.
fn assert_every_seed_matches_the_recount(model: &str) {
    let workload = workload(model);
    let mut fault_counts = BTreeMap::<&str, u64>::new();
    let (mut rollups, mut mirrored) = (0, 0);
    for seed in 0..SEEDS {
        let mut run = WorkloadRun::new(workload, seed, SIZE);
        run.run_to_end();
        for (fault, times) in run.fault_counts() {
            *fault_counts.entry(fault).or_default() += times;
        }
        let verdict = verdict_of(workload, &run.outcome(), &run.rollups());
        assert_eq!(verdict.differences, [], "{model}, seed {seed}");
        (rollups, mirrored) = (rollups + verdict.rollups, mirrored + verdict.mirrored);
    }
    let never: Vec<_> = fault_counts.iter().filter(|(_, times)| **times == 0).collect();
    assert!(never.is_empty(), "faults that no seed met: {never:?}");
    assert!(rollups > 1000, "{rollups}");
    // glad mirrors nothing.
    assert_eq!(mirrored > 100, model != "glad", "{mirrored}");
}

#[test]
fn algoitny_matches_its_recount_with_every_fault() {
    assert_every_seed_matches_the_recount("algoitny");
}

#[test]
fn quiz_matches_its_recount_with_every_fault() {
    assert_every_seed_matches_the_recount("quiz");
}

#[test]
fn shop_matches_its_recount_with_every_fault() {
    assert_every_seed_matches_the_recount("shop");
}

#[test]
fn glad_matches_its_recount_with_every_fault() {
    assert_every_seed_matches_the_recount("glad");
}

#[test]
fn ecommerce_matches_its_recount_with_every_fault() {
    assert_every_seed_matches_the_recount("ecommerce");
}

#[test]
fn github_matches_its_recount_with_every_fault() {
    assert_every_seed_matches_the_recount("github");
}

#[test]
fn metering_matches_its_recount_with_every_fault() {
    assert_every_seed_matches_the_recount("metering");
}

#[test]
fn social_matches_its_recount_with_every_fault() {
    assert_every_seed_matches_the_recount("social");
}

#[test]
fn leaderboard_matches_its_recount_with_every_fault() {
    assert_every_seed_matches_the_recount("leaderboard");
}

#[test]
fn marketplace_matches_its_recount_with_every_fault() {
    assert_every_seed_matches_the_recount("marketplace");
}

#[test]
fn a_seed_gives_the_same_state_twice() {
    for workload in workloads::ALL.into_iter().filter(|workload| workload.model != "exambuddy") {
        let state = |seed| {
            let mut run = WorkloadRun::new(workload, seed, SIZE);
            run.run_to_end();
            run.state()
        };
        assert_eq!(state(7), state(7), "{}", workload.model);
    }
}
