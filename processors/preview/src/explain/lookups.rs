//! The outputs of lookups for an explanation.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use afterwrite_model::projection::{KnownLookups, LookupKey, LookupOutputs};
use afterwrite_model::record::AttributeValue;
use afterwrite_model::table::Model;

/// The outputs of lookups for an explanation.
pub trait ExplainedLookups: KnownLookups {
    /// Whether the value of an output is only its name, because the output is not known.
    fn is_placeholder(&self, output: &str) -> bool;
}

/// The outputs of lookups, by lookup: values of the command line, or the output's name in angle brackets.
#[derive(Debug)]
pub struct LookupValues {
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
            AttributeValue::text(given.get(&**name).cloned().unwrap_or_else(|| format!("<{name}>")))
        };
        let outputs = model.lookups.iter().map(|lookup| lookup.outputs.iter().map(output).collect());
        Self { outputs: outputs.collect(), given: given.keys().cloned().collect() }
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
}
