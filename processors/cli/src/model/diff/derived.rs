//! The differences of derived values, which lookups may remember.

use afterwrite_model::table::{EntityDescription, ModelDescription};

use super::{Differences, PartChange, changed_parts, from_to};

/// Adds the differences of the derived values of an entity, a part of the models; returns whether one is computed in another way.
pub(super) fn compare(
    (entity, part): (&str, &str),
    [old, new]: [&EntityDescription; 2],
    models: [&ModelDescription; 2],
    differences: &mut Differences,
) -> bool {
    let mut is_redefined = false;
    for (value, change) in changed_parts(&old.derived, &new.derived) {
        let change = match change {
            PartChange::Added(how) => format!("derived value {value} added: {how}"),
            PartChange::Removed(_) => format!("derived value {value} removed"),
            PartChange::Changed(before, now) => {
                is_redefined = true;
                from_to(&format!("derived value {value}"), before, now)
            }
        };
        let consequence = "Measures and keys that use it change once an item changes or is reconciled.";
        differences.add(part.to_owned(), change, consequence);
        differences.problems.extend(remembering(entity, value, models).map(|lookup| {
            format!(
                "lookup {lookup}: remembered results have {value} as it was, and reconciled items count by them. Give {value} another name; or deploy, run `afterwrite backfill --reattribute`, and start the functions again."
            )
        }));
    }
    is_redefined
}

/// The lookups of both models that give this value of an entity.
fn remembering<'d>(
    entity: &'d str,
    value: &'d str,
    models: [&'d ModelDescription; 2],
) -> impl Iterator<Item = &'d String> {
    let gives = move |model: &ModelDescription, lookup: &str| {
        let known = model.lookups.get(lookup).filter(|known| known.of == entity);
        known.is_some_and(|known| known.gives.iter().any(|output| output == value))
    };
    let [_, new] = models;
    new.lookups.names().filter(move |lookup| models.iter().all(|model| gives(model, lookup)))
}
