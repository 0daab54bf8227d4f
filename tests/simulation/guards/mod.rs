//! Proof that the simulation sees: each guard of the ledger is switched off, and seeds must find that.
//!
//! ```text
//! consumer ──calls──▶ faults ──▶ the bypass of one guard ──▶ tables ◀── application, TTL, checks
//! ```
//!
//! The product has no switches. A guard is switched off by its [`GuardBypass`](bypass::GuardBypass), between the product
//! and the tables: a condition is dropped from a write, an attribute is hidden from a read. A guard that no seed finds
//! is either unnecessary, or the simulation lacks the events in which it is needed.
//!
//! ```text
//! simulation --guards                      the table of all guards with 1,000 seeds each
//! simulation --guard-seeds                 the contents of guards/seeds.txt; after every change of the simulation
//! simulation --guard NAME --seed 7 --trace one seed without this guard
//! ```

mod bypass;
mod store;
mod table;

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use self::store::UnguardedStore;
use self::table::{GUARDS, LedgerGuard};
use super::arguments::SeedRange;
use super::store::in_memory;
use super::{SEEDS, run_seed};

/// The known seeds: a line `<guard>: <seed> <seed> …` for each guard, or `<guard>: unseen` if no seed finds it yet.
const KNOWN_SEEDS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/guards/seeds.txt");
const DOCUMENTATION: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/GUARDS.md");
/// In place of known seeds: the simulation lacks the events in which the guard is needed.
const UNSEEN: &str = "unseen";
/// The seeds that are tried for a guard without known seeds.
const UNSEEN_SEEDS: u64 = 20;
/// The seeds that are tried for a guard that the first 1,000 do not find.
const RARE_SEEDS: u64 = 5 * SEEDS;
/// The number of known seeds of a guard: as many as there are, up to this.
const SEEDS_OF_GUARD: usize = 3;

/// The seeds that find a guard, with the first problem of each.
#[derive(Debug, Default)]
struct GuardFinding {
    problems: BTreeMap<u64, String>,
}

/// Prints a line for each guard: its name, the first seed that finds it, how many of 1,000 do, and a problem.
pub(crate) fn print_table() -> Result<(), String> {
    let mut missed = Vec::new();
    for guard in GUARDS {
        let finding = find(guard, usize::MAX);
        match finding.problems.first_key_value() {
            Some((seed, problem)) => {
                let count = finding.problems.len();
                println!("{:<34} first {seed:>3}, {count:>4} of {SEEDS}: {problem}", guard.name);
            }
            None => {
                println!("{:<34} not found in {RARE_SEEDS} seeds", guard.name);
                missed.push(guard.name);
            }
        }
    }
    if missed.is_empty() { Ok(()) } else { Err(format!("no seed finds: {}", missed.join(", "))) }
}

/// Prints the known seeds of all guards, as `seeds.txt` has them.
pub(crate) fn print_seeds() -> Result<(), String> {
    for guard in GUARDS {
        let found = find(guard, SEEDS_OF_GUARD);
        let seeds = found.problems.keys().take(SEEDS_OF_GUARD).map(u64::to_string);
        let seeds = seeds.collect::<Vec<_>>().join(" ");
        println!("{}: {}", guard.name, if seeds.is_empty() { UNSEEN } else { &seeds });
    }
    Ok(())
}

/// Runs seeds without the guard of this name, and prints what they find.
pub(crate) fn run_one(name: &str, range: SeedRange) -> Result<(), String> {
    let SeedRange { first, seeds, is_traced } = range;
    let guard = GUARDS.iter().find(|guard| guard.name == name);
    let names = || GUARDS.iter().map(|guard| guard.name).collect::<Vec<_>>().join(", ");
    let guard = guard.ok_or_else(|| format!("no guard is named `{name}`. Guards: {}", names()))?;
    for seed in first..first + seeds {
        for problem in problems_of(guard, seed, is_traced) {
            println!("seed {seed}: {problem}");
        }
    }
    Ok(())
}

/// Every guard's known seeds find it, and the first seeds do not find a guard that is listed as unseen.
pub(crate) fn check_known_seeds() -> Result<(), String> {
    let text = std::fs::read_to_string(KNOWN_SEEDS).map_err(|error| format!("{KNOWN_SEEDS}: {error}"))?;
    let known: Vec<_> = text.lines().map(|line| line.split_once(": ").unwrap_or((line, ""))).collect();
    let listed: Vec<&str> = known.iter().map(|(name, _)| *name).collect();
    let guards: Vec<&str> = GUARDS.iter().map(|guard| guard.name).collect();
    if listed != guards {
        return Err(format!("seeds.txt lists {listed:?}, not {guards:?}"));
    }
    let faults = GUARDS.iter().zip(known).filter_map(|(guard, (_, seeds))| check_seeds(guard, seeds).err());
    let faults: Vec<String> = faults.collect();
    if faults.is_empty() {
        return Ok(());
    }
    let advice =
        "If the simulation has changed, replace guards/seeds.txt by what `simulation --guard-seeds` prints";
    Err(format!("{}\n{advice}", faults.join("\n")))
}

/// The known seeds of a guard, as listed, find it.
fn check_seeds(guard: &'static LedgerGuard, listed: &str) -> Result<(), String> {
    let name = guard.name;
    let finds = |seed: &u64| !problems_of(guard, *seed, false).is_empty();
    if listed == UNSEEN {
        return match (0..UNSEEN_SEEDS).find(finds) {
            Some(seed) => Err(format!("{name} is listed as {UNSEEN}, but seed {seed} finds it")),
            None => Ok(()),
        };
    }
    let seeds: Option<Vec<u64>> = listed.split(' ').map(|seed| seed.parse().ok()).collect();
    let seeds = seeds.filter(|seeds| (1..=4).contains(&seeds.len()));
    let seeds = seeds.ok_or_else(|| format!("{name} must have 1 to 4 known seeds, not `{listed}`"))?;
    match seeds.iter().find(|seed| !finds(seed)) {
        Some(seed) => Err(format!("{name} is not found by seed {seed}")),
        None => Ok(()),
    }
}

/// The page has a row for every guard, in the same order.
pub(crate) fn check_documentation() -> Result<(), String> {
    let page = std::fs::read_to_string(DOCUMENTATION).map_err(|error| format!("{DOCUMENTATION}: {error}"))?;
    let rows: Vec<&str> = page.lines().filter(|line| line.starts_with("| `")).collect();
    let wanted: Vec<String> = GUARDS.iter().map(LedgerGuard::documentation_row).collect();
    if let Some(guard) = GUARDS.iter().find(|guard| !guard.is_in_place()) {
        return Err(format!("{}: there is no {}", guard.name, guard.place));
    }
    if rows == wanted {
        return Ok(());
    }
    Err(format!("docs/GUARDS.md must have the rows:\n{}", wanted.join("\n")))
}

/// The problems that a seed reports without the guard.
fn problems_of(guard: &'static LedgerGuard, seed: u64, is_traced: bool) -> Vec<String> {
    let store = || UnguardedStore::new(in_memory(), &guard.bypass);
    run_seed(seed, is_traced, store).err().unwrap_or_default()
}

/// Runs 1,000 seeds on all processors, or more until one of them finds the guard, up to 5,000.
fn find(guard: &'static LedgerGuard, wanted: usize) -> GuardFinding {
    let finding = find_among(guard, 0..SEEDS, wanted);
    if finding.problems.is_empty() { find_among(guard, SEEDS..RARE_SEEDS, wanted) } else { finding }
}

/// Runs seeds on all processors, until `wanted` of them find the guard: they report a problem without it, and none with it.
fn find_among(guard: &'static LedgerGuard, seeds: Range<u64>, wanted: usize) -> GuardFinding {
    let (next, finding) = (AtomicU64::new(seeds.start), Mutex::new(GuardFinding::default()));
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let lock = || finding.lock().unwrap_or_else(PoisonError::into_inner);
    let search = || {
        while lock().problems.len() < wanted {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= seeds.end {
                break;
            }
            let problem = problems_of(guard, seed, false).into_iter().next();
            if let Some(problem) = problem.filter(|_| run_seed(seed, false, in_memory).is_ok()) {
                lock().problems.insert(seed, problem);
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(search);
        }
    });
    finding.into_inner().unwrap_or_else(PoisonError::into_inner)
}
