//! The simulation: a seeded world of writes, consumers that are interrupted at every call, and every evil that the design
//! names; in the end everything derived must be what an oracle recounts that shares no code with the engine.
//!
//! ```text
//! cargo test -p afterwrite-tests --test simulation                                       as every test run does it
//! cargo test --release -p afterwrite-tests --test simulation -- --seeds 100000           by hand, for long
//! cargo test -p afterwrite-tests --test simulation -- --seed 1234 --trace                one seed again, in words
//! cargo test -p afterwrite-tests --test simulation -- --http --seeds 20                  against a DynamoDB behind HTTP
//! ```
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::wildcard_enum_match_arm,
    reason = "this is a test; it is built as a program of its own only to take seeds from its command line"
)]

mod check;
mod clock;
mod evils;
mod options;
mod oracle;
mod run;
mod schedule;
mod second_reader;
mod served;
mod state;
mod store;
mod stream;
mod trace;
mod watch;
mod world;

use std::panic::UnwindSafe;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use libtest_mimic::{Arguments, Failed, Trial};

use self::evils::Evils;
use self::run::Run;
use self::store::Store;

/// Seeds of every test run.
const SEEDS: u64 = 1000;
/// Seeds of every test run over HTTP.
const SEEDS_OVER_HTTP: u64 = 20;
/// Failing seeds that are told in full.
const TOLD: usize = 3;

fn main() -> ExitCode {
    let mut seeds = None;
    let (mut first, mut is_shown, mut is_over_http, mut is_by_hand) = (0, false, false, false);
    let mut rest = Vec::new();
    let mut arguments = std::env::args();
    while let Some(argument) = arguments.next() {
        let mut number = || {
            let number = arguments.next().unwrap_or_default();
            number
                .parse::<u64>()
                .unwrap_or_else(|_| panic!("{argument} takes a whole number, not `{number}`"))
        };
        match argument.as_str() {
            "--seeds" => seeds = Some(number()),
            "--seed" => {
                first = number();
                seeds = Some(seeds.unwrap_or(1));
            }
            "--trace" => is_shown = true,
            "--http" => is_over_http = true,
            _ => {
                rest.push(argument);
                continue;
            }
        }
        is_by_hand = true;
    }
    if is_by_hand {
        let seeds = seeds.unwrap_or(if is_over_http { SEEDS_OVER_HTTP } else { SEEDS });
        return by_hand(first, seeds, || {
            if is_over_http { over_http(first, seeds) } else { every(first, seeds, is_shown) }
        });
    }
    let tests = vec![
        Trial::test("every_seed_ends_right", || every(0, SEEDS, false).map(drop).map_err(Failed::from)),
        Trial::test("over_http_a_seed_is_the_same_run", || {
            over_http(0, SEEDS_OVER_HTTP).map_err(Failed::from)
        }),
        Trial::test("a_seed_repeats_itself", || repeats().map_err(Failed::from)),
    ];
    libtest_mimic::run(&Arguments::from_iter(rest), tests).exit_code()
}

fn by_hand(first: u64, seeds: u64, run: impl FnOnce() -> Result<(), String>) -> ExitCode {
    let begun = Instant::now();
    match run() {
        Ok(()) => {
            let seconds = begun.elapsed().as_secs_f64();
            println!("{seeds} seeds from {first} on: all right, in {seconds:.1} s");
            ExitCode::SUCCESS
        }
        Err(problem) => {
            println!("{problem}");
            ExitCode::FAILURE
        }
    }
}

/// Runs one seed in memory; gives its trace's hash, or what is wrong.
fn one(seed: u64, is_shown: bool) -> Result<u64, Vec<String>> {
    one_with(seed, is_shown, store::in_memory)
}

fn one_with<S: Store + 'static>(
    seed: u64,
    is_shown: bool,
    store: impl FnOnce() -> S + UnwindSafe,
) -> Result<u64, Vec<String>> {
    run(seed, is_shown, store).map(|(hash, _)| hash)
}

/// Runs one seed; gives its trace's hash and what it met, or what is wrong.
fn run<S: Store + 'static>(
    seed: u64,
    is_shown: bool,
    store: impl FnOnce() -> S + UnwindSafe,
) -> Result<(u64, Evils), Vec<String>> {
    let attempt = std::panic::catch_unwind(|| {
        let mut run = Run::new(seed, is_shown, store());
        let hash = run.go();
        (hash, run.evils, run.problems)
    });
    match attempt {
        Ok((hash, evils, problems)) if problems.is_empty() => Ok((hash, evils)),
        Ok((_, _, problems)) => Err(problems),
        Err(_) => Err(vec!["it panicked".to_owned()]),
    }
}

/// Runs seeds on all processors; what is wrong comes with how to see it again.
fn every(first: u64, seeds: u64, is_shown: bool) -> Result<(), String> {
    let (next, failed, evils) = (AtomicU64::new(first), Mutex::new(Vec::new()), Mutex::new(Evils::default()));
    let has_stopped = AtomicBool::new(false);
    let threads = if is_shown { 1 } else { std::thread::available_parallelism().map_or(1, usize::from) };
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while !has_stopped.load(Ordering::Relaxed) {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= first + seeds {
                        break;
                    }
                    match run(seed, is_shown, store::in_memory) {
                        Ok((_, met)) => {
                            evils.lock().unwrap_or_else(PoisonError::into_inner).take_in(&met);
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
        let evils = evils.into_inner().unwrap_or_else(PoisonError::into_inner);
        println!("what happened in {seeds} seeds:\n{evils}");
        let missing = evils.missing();
        return if seeds < SEEDS || missing.is_empty() {
            Ok(())
        } else {
            Err(format!("in {seeds} seeds these never happened: {}", missing.join(", ")))
        };
    }
    let mut told = format!("{} of {seeds} seeds went wrong:", failed.len());
    for (seed, problems) in failed.iter().take(TOLD) {
        told.push_str(&format!("\nseed {seed}:"));
        for problem in problems.iter().take(8) {
            told.push_str(&format!("\n    {problem}"));
        }
    }
    let seeds: Vec<String> = failed.iter().take(40).map(|(seed, _)| seed.to_string()).collect();
    told.push_str(&format!("\nfailing seeds: {}", seeds.join(" ")));
    if let Some((seed, _)) = failed.first() {
        told.push_str(&format!(
            "\nto see the first again: cargo test -p afterwrite-tests --test simulation -- --seed {seed} --trace"
        ));
    }
    Err(told)
}

/// With a DynamoDB behind HTTP each seed ends right as well, and with the same tables as in memory.
fn over_http(first: u64, seeds: u64) -> Result<(), String> {
    for seed in first..first + seeds {
        let (in_memory, over_http) = (one(seed, false), one_with(seed, false, served::served));
        if over_http.is_err() || in_memory != over_http {
            return Err(format!("seed {seed}: in memory {in_memory:?}, over HTTP {over_http:?}"));
        }
    }
    Ok(())
}

/// The same seed is the same run, to the last byte of the tables.
fn repeats() -> Result<(), String> {
    let mut hashes = Vec::new();
    for seed in 0..10 {
        let (once, twice) = (one(seed, false), one(seed, false));
        if once.is_err() || once != twice {
            return Err(format!("seed {seed}: {once:?} and {twice:?}"));
        }
        hashes.push(once);
    }
    hashes.dedup();
    if hashes.len() == 10 { Ok(()) } else { Err("seeds do not differ".to_owned()) }
}
