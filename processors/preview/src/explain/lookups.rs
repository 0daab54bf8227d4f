//! The outputs of lookups for an explanation.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use afterwrite_model::projection::{KnownLookups, LookupKey, LookupOutputs};
use afterwrite_model::record::{AttributeValue, Decimal};
use afterwrite_model::table::Model;

/// The outputs of lookups for an explanation.
pub trait ExplainedLookups: KnownLookups {
    /// Whether the value of an output is only its name, because the output is not known.
    fn is_placeholder(&self, output: &str) -> bool;

    /// Values that the outputs could have, if some of them are not known: an error that some of these values do not cause is not an error of the item.
    fn guesses(&self) -> Vec<GuessedOutputs>;
}

/// The most combinations of values that are guessed: of three outputs.
const MAX_GUESSES: usize = 512;

/// The values that an output could have besides its name: two time zones, numbers and times. A contribution that is the same with both values of a
/// kind does not depend on the output: all zones of the world are between these two, for example.
fn guessed() -> [AttributeValue<'static>; 6] {
    [
        AttributeValue::text("Etc/GMT+12"),
        AttributeValue::text("Pacific/Kiritimati"),
        AttributeValue::N(Decimal::ZERO),
        AttributeValue::N(Decimal::from(1)),
        AttributeValue::text("2001-02-03T04:05:06Z"),
        AttributeValue::text("2026-02-06T14:30:00Z"),
    ]
}

/// Values that the outputs of lookups could have.
#[derive(Debug)]
pub struct GuessedOutputs {
    /// The outputs.
    pub(super) values: LookupValues,
    /// The number of outputs with another value than their names.
    pub(super) replaced: usize,
}

fn placeholder(name: &str) -> AttributeValue<'static> {
    AttributeValue::text(format!("<{name}>"))
}

/// The outputs of lookups, by lookup: values of the command line, or the output's name in angle brackets.
#[derive(Clone, Debug)]
pub struct LookupValues {
    /// The names of the outputs of each lookup.
    names: Vec<Vec<Arc<str>>>,
    /// Of each lookup.
    outputs: Vec<Vec<AttributeValue<'static>>>,
    /// The names of outputs that the command line has.
    given: BTreeSet<String>,
}

impl LookupValues {
    /// The values for a model's lookups.
    #[must_use]
    pub fn of(model: &Model, given: &BTreeMap<String, String>) -> Self {
        let output = |name: &Arc<str>| {
            given.get(&**name).map_or_else(|| placeholder(name), |value| AttributeValue::text(value.clone()))
        };
        let outputs = model.lookups.iter().map(|lookup| lookup.outputs.iter().map(output).collect());
        let names = model.lookups.iter().map(|lookup| lookup.outputs.clone());
        Self { names: names.collect(), outputs: outputs.collect(), given: given.keys().cloned().collect() }
    }

    /// The same values, with another one for an output.
    fn with(&self, output: &str, value: &AttributeValue<'static>) -> Self {
        let mut values = self.clone();
        for (names, outputs) in values.names.iter().zip(&mut values.outputs) {
            let of_name = names.iter().zip(outputs).filter(|(name, _)| ***name == *output);
            of_name.for_each(|(_, known)| *known = value.clone());
        }
        values
    }
}

impl KnownLookups for LookupValues {
    fn outputs(&self, key: &LookupKey<'_>) -> Option<&LookupOutputs> {
        self.outputs.get(key.lookup).map(Vec::as_slice)
    }
}

impl ExplainedLookups for LookupValues {
    fn is_placeholder(&self, output: &str) -> bool {
        !self.given.contains(output)
    }

    fn guesses(&self) -> Vec<GuessedOutputs> {
        let unknown: BTreeSet<&Arc<str>> =
            self.names.iter().flatten().filter(|name| self.is_placeholder(name)).collect();
        let mut guesses = vec![GuessedOutputs { values: self.clone(), replaced: 0 }];
        for name in unknown {
            let replaced = guesses.iter().flat_map(|guess| {
                guessed().into_iter().map(move |value| GuessedOutputs {
                    values: guess.values.with(name, &value),
                    replaced: guess.replaced + 1,
                })
            });
            let replaced: Vec<GuessedOutputs> = replaced.collect();
            guesses.extend(replaced);
            guesses.truncate(MAX_GUESSES);
        }
        guesses
    }
}
