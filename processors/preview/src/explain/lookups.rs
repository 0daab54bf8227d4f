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
    fn guesses(&self) -> Vec<LookupValues>;
}

/// The most combinations of values that are guessed: of four outputs.
const MAX_GUESSES: usize = 256;

/// The values that an output could have: its name, a time zone, a number, a time.
fn guessed(name: &str) -> [AttributeValue<'static>; 4] {
    [
        placeholder(name),
        AttributeValue::text("UTC"),
        AttributeValue::N(Decimal::ZERO),
        AttributeValue::text("2026-02-06T14:30:00Z"),
    ]
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

    fn guesses(&self) -> Vec<LookupValues> {
        let unknown: BTreeSet<&Arc<str>> =
            self.names.iter().flatten().filter(|name| self.is_placeholder(name)).collect();
        let mut guesses = vec![self.clone()];
        for name in unknown {
            let with_name = guesses
                .iter()
                .flat_map(|guess| guessed(name).into_iter().map(move |value| guess.with(name, &value)));
            guesses = with_name.take(MAX_GUESSES).collect();
        }
        guesses
    }
}
