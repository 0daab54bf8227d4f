//! The values that an item gives a variable of rollups' keys: of the rollups that it counts into, and of the rollups that it shows.

use super::{ImageScope, LookupKey};
use crate::Result;
use crate::table::{LookupUse, Model, Rollup, RollupDestination, Term, ValueFormat, filled_with, key_values};

/// The value of a variable of a rollup's key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyValue {
    /// The item has this value.
    Text(String),
    /// A lookup has the value, or the zone in which it is written.
    Output {
        /// The lookup.
        key: LookupKey<'static>,
        /// The position of the output.
        output: usize,
        /// How the output is written into the key.
        format: ValueFormat,
    },
}

impl<'s, 'a: 's> ImageScope<'s, 'a> {
    /// The values of the variable with this name, format included (`bought_at:day`), in the keys of all rollups that the item may count into
    /// or shows. Conditions are not judged, and values that cannot be part of a key are left out.
    #[must_use]
    pub fn rollup_key_values(&self, variable: &str) -> Vec<KeyValue> {
        let mut values = Vec::new();
        let aggregates = self.entity.aggregates.iter().filter_map(|index| self.model.aggregates.get(*index));
        for aggregate in aggregates {
            let elements = aggregate.for_each.as_ref().and_then(|for_each| self.elements(for_each).ok());
            let elements = elements.as_ref().map(|elements| elements.iter().collect::<Vec<_>>());
            let into = aggregate.into.iter();
            for term in into.flat_map(|destination| values_of(self.model, destination, variable)) {
                match elements.as_deref().filter(|_| term.0.is_of_element()) {
                    None => values.extend(self.key_value(term, &aggregate.lookups)),
                    Some(elements) => values.extend(elements.iter().filter_map(|element| {
                        ImageScope { element: Some(*element), ..*self }.key_value(term, &aggregate.lookups)
                    })),
                }
            }
        }
        let mirrors = self.entity.mirrors.iter().filter_map(|index| self.model.mirrors.get(*index));
        values.extend(mirrors.filter_map(|mirror| {
            let position =
                self.model.rollups.get(mirror.from)?.variables.iter().position(|name| **name == *variable)?;
            let (term, format) = mirror.rollup_variables.get(position)?;
            self.key_value((term, format), mirror.lookup.as_slice())
        }));
        values
    }

    /// Whether the values that the item writes into this key of a rollup are the values that are read from it.
    pub(super) fn reads_back(
        &self,
        rollup: &Rollup,
        destination: &RollupDestination,
        (partition, sort): (&str, &str),
    ) -> Result<bool> {
        let read = rollup.values(partition, sort).unwrap_or_default();
        let mut written = String::new();
        for (variable, term, format) in key_values(rollup, destination) {
            written.clear();
            self.render_value(term, format, &mut written)?;
            if read.get(variable).is_none_or(|value| **value != *written) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn key_value(&self, (term, format): (&Term, &ValueFormat), lookups: &[LookupUse]) -> Option<KeyValue> {
        let zone = format.zone_term().and_then(Term::lookup_output);
        if let Some((lookup, output)) = term.lookup_output().or(zone) {
            let key = self.lookup_key(lookups.get(lookup)?).ok()?.into_owned();
            return Some(KeyValue::Output { key, output, format: format.clone() });
        }
        let mut text = String::new();
        self.render_value(term, format, &mut text).ok()?;
        Some(KeyValue::Text(text))
    }
}

/// The values that an aggregate writes into the places of a variable in the key of one of its rollups.
fn values_of<'m>(
    model: &'m Model,
    destination: &'m RollupDestination,
    variable: &str,
) -> impl Iterator<Item = (&'m Term, &'m ValueFormat)> {
    let rollup = model.rollups.get(destination.rollup);
    let index = rollup.and_then(|rollup| rollup.variables.iter().position(|name| **name == *variable));
    rollup.zip(index).into_iter().flat_map(|(rollup, index)| filled_with(rollup, destination, index))
}
