//! The values that an item gives a variable of rollups' keys: of the rollups that it counts into, and of the rollups that it shows.

use super::{ImageScope, LookupKey};
use crate::table::{
    BoundPiece, BoundTemplate, LookupUse, Rollup, Template, TemplatePiece, Term, ValueFormat,
};

/// The value of a variable of a rollup's key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyValue {
    /// The item has this value.
    Text(String),
    /// A lookup has the value.
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
        let rollup = |index: usize| self.model.rollups.get(index);
        let aggregates = self.entity.aggregates.iter().filter_map(|index| self.model.aggregates.get(*index));
        for aggregate in aggregates {
            let elements = aggregate.for_each.as_ref().and_then(|for_each| self.elements(for_each).ok());
            let elements = elements.as_ref().map(|elements| elements.iter().collect::<Vec<_>>());
            for destination in &aggregate.into {
                let Some(rollup) = rollup(destination.rollup) else { continue };
                let keys = [(&rollup.partition, &destination.partition), (&rollup.sort, &destination.sort)];
                for (term, format) in keys.into_iter().flat_map(|key| bound_to(rollup, key, variable)) {
                    let scopes = elements.as_deref().filter(|_| term.is_of_element());
                    match scopes {
                        None => values.extend(self.key_value((term, format), &aggregate.lookups)),
                        Some(elements) => values.extend(elements.iter().filter_map(|element| {
                            let scope = ImageScope { element: Some(*element), ..*self };
                            scope.key_value((term, format), &aggregate.lookups)
                        })),
                    }
                }
            }
        }
        let mirrors = self.entity.mirrors.iter().filter_map(|index| self.model.mirrors.get(*index));
        values.extend(mirrors.filter_map(|mirror| {
            let position = rollup(mirror.from)?.variables.iter().position(|name| **name == *variable)?;
            let (term, format) = mirror.rollup_variables.get(position)?;
            self.key_value((term, *format), mirror.lookup.as_slice())
        }));
        values
    }

    fn key_value(&self, (term, format): (&Term, ValueFormat), lookups: &[LookupUse]) -> Option<KeyValue> {
        if let Some((lookup, output)) = term.lookup_output() {
            let key = self.lookup_key(lookups.get(lookup)?).ok()?.into_owned();
            return Some(KeyValue::Output { key, output, format });
        }
        let mut text = String::new();
        self.render_value(term, format, &mut text).ok()?;
        Some(KeyValue::Text(text))
    }
}

/// The values that an entity gives a variable of one part of a rollup's key.
fn bound_to<'b>(
    rollup: &'b Rollup,
    (template, bound): (&'b Template, &'b BoundTemplate),
    variable: &'b str,
) -> impl Iterator<Item = (&'b Term, ValueFormat)> {
    template.pieces.iter().zip(&bound.pieces).filter_map(move |pieces| match pieces {
        (TemplatePiece::Variable(index, _), BoundPiece::Value(term, format)) => {
            let name = rollup.variables.get(*index)?;
            (**name == *variable).then_some((term, *format))
        }
        _ => None,
    })
}
