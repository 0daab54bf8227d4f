//! The differences of tables, and of the types of attributes: they decide which items an entity has, and which values fit.

use afterwrite_model::table::{EntityDescription, ModelDescription, STATE_TABLE};

use super::{Differences, PartChange, changed_parts, from_to};

pub(super) fn compare(old: &ModelDescription, new: &ModelDescription, differences: &mut Differences) {
    for (name, change) in changed_parts(&old.tables, &new.tables) {
        let part = format!("table {name}");
        match change {
            PartChange::Added(_) if name == STATE_TABLE => {}
            PartChange::Added(_) => differences.add(part, "added", "The functions read its stream once the deployment has its mapping; `afterwrite backfill` counts the items that it has already."),
            // Reported as a problem.
            PartChange::Removed(_) => {}
            PartChange::Changed(before, now) => {
                let keys = [before, now].map(|key| key.join(", "));
                differences.setting(&part, "its key", keys, "The key of a table in DynamoDB never changes: one of the two models does not fit the table.");
                recount_table(name, [old, new], differences);
            }
        }
    }
    for (name, change) in changed_parts(&old.separators, &new.separators) {
        let (before, now) = match change {
            PartChange::Added(now) => ("absent", now.as_str()),
            PartChange::Removed(before) => (before.as_str(), "absent"),
            PartChange::Changed(before, now) => (before.as_str(), now.as_str()),
        };
        let consequence =
            "Items whose values contain the separator match other entities than before, or no entity.";
        differences.setting(&format!("table {name}"), "its separator", [before, now], consequence);
        recount_table(name, [old, new], differences);
    }
    for (name, change) in changed_parts(&old.indexes, &new.indexes) {
        let (change, consequence) = match change {
            PartChange::Added(key) => {
                (format!("added: {key}"), "The table must have it before the functions use the new model.")
            }
            PartChange::Removed(_) => ("removed".to_owned(), "No lookup reads it any more."),
            PartChange::Changed(before, now) => (
                from_to("its key", before, now),
                "The table must have an index with this key before the functions use the new model.",
            ),
        };
        differences.add(format!("index {name}"), change, consequence);
    }
}

/// Reports attributes of an entity whose declared type has changed.
pub(super) fn attribute_types(
    name: &str,
    [old, new]: [&EntityDescription; 2],
    models: [&ModelDescription; 2],
    differences: &mut Differences,
) {
    for (attribute, change) in changed_parts(&old.attributes, &new.attributes) {
        if let PartChange::Changed(before, now) = change {
            let consequence = "Values that fitted may be misfits from now on, and misfits may fit: items count by the new type once they change or are reconciled.";
            let what = format!("the type of {attribute}");
            differences.setting(&format!("entity {name}"), &what, [before, now], consequence);
            differences.recount(name, models);
        }
    }
}

/// Everything that is counted of a table's items may change.
fn recount_table(table: &str, models: [&ModelDescription; 2], differences: &mut Differences) {
    for entity in models[1].entities.names() {
        if models[1].entities.get(entity).is_some_and(|known| known.table == table) {
            differences.recount(entity, models);
        }
    }
}
