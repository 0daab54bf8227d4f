//! The simulation: a seeded run of an application, consumers that can be interrupted at every call, and every fault
//! that the design names. At the end, everything derived must equal the recount of an oracle that shares no code with
//! the product.
//!
//! ```text
//! cargo test --release --test simulation                             700 seeds, as in every test run
//! cargo test --release --test simulation -- --seeds 100000           a long run
//! cargo test --release --test simulation -- --seed 1234 --trace      one seed with its trace
//! cargo test --release --test simulation -- --http --seeds 20        with DynamoDB over HTTP
//! cargo test --release --test simulation -- --guards                 1,000 seeds without each guard
//! ```
//!
//! [`guards`] describes the options that concern guards.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::wildcard_enum_match_arm,
    reason = "this is a test; it has its own `main` only to accept seeds as arguments"
)]

mod application;
mod arguments;
mod changes;
mod check;
mod clock;
mod coverage;
mod delivery;
mod events;
mod guards;
mod http_tables;
mod interruptions;
mod left_rollups;
mod model;
mod numbers;
mod options;
mod oracle;
mod overwriting;
mod relay_services;
mod run;
mod schedule;
mod score_bins;
mod second_reader;
mod single_changes;
mod source_rollups;
mod stale_keys;
mod state;
mod state_keys;
mod store;
mod stream;
mod trace;
mod turns;
mod watcher;

use std::panic::UnwindSafe;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use afterwrite_tests::size::size;
use libtest_mimic::{Arguments, Failed, Trial};

use self::arguments::{SeedRange, SimulationCommand};
use self::coverage::FaultCoverage;
use self::run::SimulationRun;
use self::store::Store;

/// Seeds of every test run: as many as it takes until every fault has occurred in every way.
const SEEDS: u64 = 700;
/// Seeds of `tests/run --full`.
const SEEDS_IN_FULL: u64 = 20_000;
/// Seeds of every test run over HTTP.
const SEEDS_OVER_HTTP: u64 = 5;
/// Seeds of `tests/run --full` over HTTP.
const SEEDS_OVER_HTTP_IN_FULL: u64 = 20;
/// Failing seeds whose problems are printed.
const PRINTED_SEEDS: usize = 3;

fn main() -> ExitCode {
    let (command, range) = arguments::parse();
    let SeedRange { first, seeds, is_traced } = range;
    match command {
        SimulationCommand::Tests(arguments) => {
            libtest_mimic::run(&Arguments::from_iter(arguments), tests()).exit_code()
        }
        SimulationCommand::Seeds => run_and_report(range, || run_seeds(first, seeds, is_traced)),
        SimulationCommand::OverHttp => run_and_report(range, || compare_over_http(first, seeds)),
        SimulationCommand::Guard(name) => exit_code(guards::run_one(&name, range)),
        SimulationCommand::Guards => exit_code(guards::print_table()),
        SimulationCommand::GuardSeeds => exit_code(guards::print_seeds()),
    }
}

fn tests() -> Vec<Trial> {
    vec![
        Trial::test("every_seed_ends_without_problems", || {
            run_seeds(0, size(SEEDS, SEEDS_IN_FULL), false).map_err(Failed::from)
        }),
        Trial::test("a_seed_runs_the_same_over_http_and_in_memory", || {
            compare_over_http(0, size(SEEDS_OVER_HTTP, SEEDS_OVER_HTTP_IN_FULL)).map_err(Failed::from)
        }),
        Trial::test("a_seed_runs_the_same_twice", || compare_repetitions().map_err(Failed::from)),
        Trial::test("every_guard_is_found_by_its_seeds", || {
            guards::check_known_seeds().map_err(Failed::from)
        }),
        Trial::test("the_documentation_lists_every_guard", || {
            guards::check_documentation().map_err(Failed::from)
        }),
    ]
}

fn exit_code(result: Result<(), String>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            println!("{problem}");
            ExitCode::FAILURE
        }
    }
}

fn run_and_report(range: SeedRange, run: impl FnOnce() -> Result<(), String>) -> ExitCode {
    let start = Instant::now();
    let result = run();
    if result.is_ok() {
        let seconds = start.elapsed().as_secs_f64();
        println!("{} seeds from {}: no problems, {seconds:.1} s", range.seeds, range.first);
    }
    exit_code(result)
}

/// Runs one seed without a trace; returns the hash of its steps, or its problems.
fn trace_hash<S: Store + 'static>(
    seed: u64,
    store: impl FnOnce() -> S + UnwindSafe,
) -> Result<u64, Vec<String>> {
    run_seed(seed, false, store).map(|(hash, _)| hash)
}

/// Runs one seed; returns the hash of its steps and its fault coverage, or its problems.
fn run_seed<S: Store + 'static>(
    seed: u64,
    is_traced: bool,
    store: impl FnOnce() -> S + UnwindSafe,
) -> Result<(u64, FaultCoverage), Vec<String>> {
    let attempt = std::panic::catch_unwind(|| {
        let mut run = SimulationRun::new(seed, is_traced, store());
        let hash = run.run();
        (hash, run.coverage, run.problems)
    });
    match attempt {
        Ok((hash, coverage, problems)) if problems.is_empty() => Ok((hash, coverage)),
        Ok((_, _, problems)) => Err(problems),
        Err(_) => Err(vec!["it panicked".to_owned()]),
    }
}

/// Runs seeds on all processors. The error has the problems and the command that repeats the first failing seed.
fn run_seeds(first: u64, seeds: u64, is_traced: bool) -> Result<(), String> {
    let (next, failed, coverage) =
        (AtomicU64::new(first), Mutex::new(Vec::new()), Mutex::new(FaultCoverage::default()));
    let has_stopped = AtomicBool::new(false);
    let threads = if is_traced { 1 } else { std::thread::available_parallelism().map_or(1, usize::from) };
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while !has_stopped.load(Ordering::Relaxed) {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= first + seeds {
                        break;
                    }
                    match run_seed(seed, is_traced, store::in_memory) {
                        Ok((_, of_seed)) => {
                            coverage.lock().unwrap_or_else(PoisonError::into_inner).merge(&of_seed);
                        }
                        Err(problems) => {
                            failed.lock().unwrap_or_else(PoisonError::into_inner).push((seed, problems));
                        }
                    }
                }
            });
        }
    });
    let mut failed = failed.into_inner().unwrap_or_else(PoisonError::into_inner);
    failed.sort();
    if failed.is_empty() {
        let coverage = coverage.into_inner().unwrap_or_else(PoisonError::into_inner);
        println!("faults and events in {seeds} seeds:\n{coverage}");
        let missing = coverage.missing();
        return if seeds < SEEDS || missing.is_empty() {
            Ok(())
        } else {
            Err(format!("{seeds} seeds never had: {}", missing.join(", ")))
        };
    }
    Err(report_failures(&failed, seeds))
}

/// The problems of the first failing seeds, and the command that repeats the first.
fn report_failures(failed: &[(u64, Vec<String>)], seeds: u64) -> String {
    let mut report = format!("{} of {seeds} seeds failed:", failed.len());
    for (seed, problems) in failed.iter().take(PRINTED_SEEDS) {
        report.push_str(&format!("\nseed {seed}:"));
        for problem in problems.iter().take(8) {
            report.push_str(&format!("\n    {problem}"));
        }
    }
    let seeds: Vec<String> = failed.iter().take(40).map(|(seed, _)| seed.to_string()).collect();
    report.push_str(&format!("\nfailing seeds: {}", seeds.join(" ")));
    if let Some((seed, _)) = failed.first() {
        report.push_str(&format!(
            "\nto repeat the first: cargo test --release --test simulation -- --seed {seed} --trace"
        ));
    }
    report
}

/// Runs each seed with DynamoDB over HTTP and in memory; both must end without problems and with the same tables.
fn compare_over_http(first: u64, seeds: u64) -> Result<(), String> {
    for seed in first..first + seeds {
        let (in_memory, over_http) =
            (trace_hash(seed, store::in_memory), trace_hash(seed, http_tables::start));
        if over_http.is_err() || in_memory != over_http {
            return Err(format!("seed {seed}: in memory {in_memory:?}, over HTTP {over_http:?}"));
        }
    }
    Ok(())
}

/// Runs seeds twice: each must have the same steps and the same tables, and no two seeds the same.
fn compare_repetitions() -> Result<(), String> {
    let mut hashes = Vec::new();
    for seed in 0..10 {
        let (once, twice) = (trace_hash(seed, store::in_memory), trace_hash(seed, store::in_memory));
        if once.is_err() || once != twice {
            return Err(format!("seed {seed}: {once:?} and {twice:?}"));
        }
        hashes.push(once);
    }
    hashes.dedup();
    if hashes.len() == 10 { Ok(()) } else { Err("two seeds have the same steps".to_owned()) }
}
