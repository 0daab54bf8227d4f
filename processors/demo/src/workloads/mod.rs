//! What the demo plays: for each built-in model, what an application of that design writes, and what must be derived of it.
//!
//! A workload is pure: its script follows from a seed, and its recount from how the script ended. Nothing outside this folder
//! knows a model's name, its tables, or anything that it derives.

mod algoitny;
mod exambuddy;
mod glad;
mod quiz;
mod shop;
mod tools;

use std::fmt;

use super::chart::Chart;
use super::recount::{Counted, Outcome};
use super::rollups::Rollups;
use super::script::Script;
use afterwrite::{Error, ErrorKind, Result};
use afterwrite_local::dynamodb::TableDefinition;

/// How many lanes a script has at most: so many writers are at work at once.
const LANES: usize = 8;

/// An application of one design, played in small.
pub trait Workload: fmt::Debug + Send + Sync {
    /// The built-in model's name.
    fn model(&self) -> &'static str;

    /// What is played, in a few words: "A month of an exam platform".
    fn about(&self) -> &'static str;

    /// What the size counts: "attempts at exams".
    fn unit(&self) -> &'static str;

    /// How much is played unless it is said: some seconds' worth.
    fn usual_size(&self) -> u64 {
        2000
    }

    /// The source tables as the design has them.
    fn tables(&self) -> Vec<TableDefinition>;

    /// What the application does: inserts, edits, moves, deletes, expiries, items that live again. The same seed, size and
    /// time, in epoch seconds, give the same script.
    fn script(&self, seed: u64, size: u64, now: i64) -> Script;

    /// What must have been derived: found out from the items, by hand.
    fn recount(&self, outcome: &Outcome) -> Counted;

    /// The most telling of what is derived.
    fn charts(&self, outcome: &Outcome, rollups: &Rollups) -> Vec<Chart>;

    /// What is asked of the datasets in the end.
    fn questions(&self) -> &'static [Question];
}

/// A question to the datasets.
#[derive(Clone, Copy, Debug)]
pub enum Question {
    /// A saved query of the model.
    Saved(&'static str),
    /// What is asked, and the SQL.
    Sql(&'static str, &'static str),
}

/// All of them; the first is played unless another is asked for.
pub const ALL: [&dyn Workload; 5] =
    [&exambuddy::ExamBuddy, &algoitny::Algoitny, &quiz::Quiz, &shop::Shop, &glad::Glad];

/// The workload of this model.
///
/// # Errors
/// [`ErrorKind::Configuration`] if there is none.
pub fn of(model: &str) -> Result<&'static dyn Workload> {
    ALL.into_iter().find(|workload| workload.model() == model).ok_or_else(|| {
        let known: Vec<&str> = ALL.iter().map(|workload| workload.model()).collect();
        Error::new(ErrorKind::Configuration, "the demo plays no such model")
            .with("model", model)
            .hint(format!("Name one of {}", known.join(", ")))
    })
}

#[cfg(test)]
mod tests {
    use afterwrite::table::Model;

    use super::super::script::Step;
    use super::*;

    /// Saturday, 7 February 2026, 12:34:56 UTC.
    const NOW: i64 = 1_770_467_696;

    #[test]
    fn a_seed_repeats_itself_and_another_differs() {
        for workload in ALL {
            let script = |seed| workload.script(seed, 40, NOW);
            assert_eq!(script(1), script(1), "{}", workload.model());
            assert_ne!(script(1), script(2), "{}", workload.model());
        }
    }

    #[test]
    fn a_workload_writes_the_tables_of_its_model_in_every_way() {
        for workload in ALL {
            let model = Model::load(workload.model()).unwrap();
            let mut known: Vec<&str> = model.tables.iter().map(|table| &*table.name).collect();
            let tables = workload.tables();
            let mut made: Vec<&str> = tables.iter().map(|table| table.name.as_str()).collect();
            known.sort_unstable();
            made.sort_unstable();
            assert_eq!(made, known);
            let script = workload.script(1, 200, NOW);
            let steps: Vec<&Step> = script.rounds.iter().flatten().flat_map(|lane| &lane.steps).collect();
            let has = |is_it: fn(&Step) -> bool| steps.iter().any(|step| is_it(step));
            assert!(has(|step| matches!(step, Step::Put { .. })), "{}", workload.model());
            assert!(has(|step| matches!(step, Step::Set { .. })), "{}", workload.model());
            assert!(has(|step| matches!(step, Step::Delete { .. })), "{}", workload.model());
            let expires = |step: &Step| {
                matches!(step, Step::Set { attributes, .. }
                    if attributes.get("ttl") == Some(&super::super::item::whole(super::super::script::PAST)))
            };
            assert!(steps.iter().any(|step| expires(step)), "{}", workload.model());
        }
    }

    #[test]
    fn no_two_lanes_of_a_round_write_one_item() {
        for workload in ALL {
            let tables = workload.tables();
            for round in workload.script(3, 200, NOW).rounds {
                let mut owners = std::collections::BTreeMap::new();
                for (number, lane) in round.iter().enumerate() {
                    for place in lane.steps.iter().flat_map(|step| places(step, &tables)) {
                        let owner = *owners.entry(place.clone()).or_insert(number);
                        assert_eq!(owner, number, "{}: {place}", workload.model());
                    }
                }
            }
        }
    }

    fn places(step: &Step, tables: &[TableDefinition]) -> Vec<String> {
        let (table, items) = match step {
            Step::Put { table, item } => (table, vec![item]),
            Step::PutTogether { table, items } => (table, items.iter().collect()),
            Step::Set { table, key, .. } | Step::Delete { table, key } => (table, vec![key]),
        };
        let definition = tables.iter().find(|known| known.name == *table).unwrap();
        let key = |item: &super::super::item::Item| {
            let key = super::super::item::key_of(item, definition);
            let sorted: std::collections::BTreeMap<_, _> = key.into_iter().collect();
            assert_eq!(sorted.len(), 1 + usize::from(definition.key.sort.is_some()), "a whole key");
            format!("{table} {sorted:?}")
        };
        items.into_iter().map(key).collect()
    }

    #[test]
    fn an_unknown_model_is_refused_with_those_there_are() {
        let error = of("cinema").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Configuration);
        assert!(error.to_string().contains("exambuddy, algoitny, quiz, shop, glad"), "{error}");
    }
}
