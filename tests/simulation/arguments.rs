//! The command line of the simulation.

use super::{SEEDS, SEEDS_OVER_HTTP};

/// The options that take seeds; see the head of `main.rs`.
#[derive(Debug, Default)]
pub(crate) struct SimulationArguments {
    command: Option<SimulationCommand>,
    first: u64,
    seeds: Option<u64>,
    is_traced: bool,
    /// The arguments of the test harness.
    rest: Vec<String>,
}

/// The command to run.
#[derive(Debug)]
pub(crate) enum SimulationCommand {
    /// The tests, by the arguments of the test harness.
    Tests(Vec<String>),
    Seeds,
    OverHttp,
    /// Seeds without the guard of this name.
    Guard(String),
    /// The table of all guards.
    Guards,
    /// The known seeds of all guards.
    GuardSeeds,
}

/// The seeds to run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SeedRange {
    pub(crate) first: u64,
    pub(crate) seeds: u64,
    pub(crate) is_traced: bool,
}

/// The command of the process and its seeds.
pub(crate) fn parse() -> (SimulationCommand, SeedRange) {
    let mut parsed = SimulationArguments::default();
    let mut arguments = std::env::args();
    while let Some(argument) = arguments.next() {
        parsed.add(argument, &mut arguments);
    }
    let has_seeds = parsed.seeds.is_some() || parsed.is_traced;
    let command = match parsed.command {
        Some(command) => command,
        None if has_seeds => SimulationCommand::Seeds,
        None => SimulationCommand::Tests(parsed.rest),
    };
    let default = if matches!(command, SimulationCommand::OverHttp) { SEEDS_OVER_HTTP } else { SEEDS };
    let SimulationArguments { first, is_traced, .. } = parsed;
    (command, SeedRange { first, seeds: parsed.seeds.unwrap_or(default), is_traced })
}

impl SimulationArguments {
    fn add(&mut self, argument: String, following: &mut impl Iterator<Item = String>) {
        match argument.as_str() {
            "--seeds" => self.seeds = Some(number(&argument, following.next())),
            "--seed" => {
                self.first = number(&argument, following.next());
                self.seeds.get_or_insert(1);
            }
            "--trace" => self.is_traced = true,
            "--http" => self.command = Some(SimulationCommand::OverHttp),
            "--guard" => self.command = Some(SimulationCommand::Guard(following.next().unwrap_or_default())),
            "--guards" => self.command = Some(SimulationCommand::Guards),
            "--guard-seeds" => self.command = Some(SimulationCommand::GuardSeeds),
            _ => self.rest.push(argument),
        }
    }
}

fn number(option: &str, value: Option<String>) -> u64 {
    let value = value.unwrap_or_default();
    value.parse().unwrap_or_else(|_| panic!("{option} takes a whole number, not `{value}`"))
}
