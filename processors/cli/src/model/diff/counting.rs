//! The differences that change counts: entities, lookups, rollups, aggregates.
//!
//! The consequences come from the ledger. An entry holds what its item contributed, by aggregate. When the item is reconciled
//! (or changes), contributions to aggregates that the model still has are replaced by the current ones; contributions to aggregates
//! that it no longer has are kept, and are subtracted when the item is deleted.

use std::collections::{BTreeMap, BTreeSet};

use afterwrite_ledger::state::LOOKUP_PREFIX;
use afterwrite_model::table::{
    AggregateDescription, EntityDescription, ModelDescription, NamedList, RollupDescription,
};

use super::measures::{computed_consequence, extreme_problem, removed_measures};
use super::tables::attribute_types;
use super::{Differences, PartChange, changed_parts, derived, from_to, ranks};

pub(super) fn compare(old: &ModelDescription, new: &ModelDescription, differences: &mut Differences) {
    entities(old, new, differences);
    lookups(old, new, differences);
    rollups(old, new, differences);
    rollup_keys(old, new, differences);
    aggregates(old, new, differences);
    check_counted_twice(old, new, differences);
}

fn entities(old: &ModelDescription, new: &ModelDescription, differences: &mut Differences) {
    for (name, change) in changed_parts(&old.entities, &new.entities) {
        let part = format!("entity {name}");
        match change {
            PartChange::Added(_) => differences.add(
                part,
                "added",
                "Items with such keys were unmatched, and are matched from now on.",
            ),
            PartChange::Removed(entity) => {
                removed(part, (name, entity), [old, new], differences);
            }
            PartChange::Changed(before, now) => entity(name, before, now, [old, new], differences),
        }
    }
}

fn removed(
    part: String,
    (name, entity): (&str, &EntityDescription),
    models: [&ModelDescription; 2],
    differences: &mut Differences,
) {
    let has_such_keys =
        |other: &EntityDescription| (&other.table, &other.key) == (&entity.table, &entity.key);
    if models[1].entities.values().any(has_such_keys) {
        let consequence = "From this generation on, its items match another entity, or no entity. Their contributions are subtracted once they change or are reconciled.";
        differences.add(part, "removed", consequence);
        return differences.recount(name, models);
    }
    differences.add(part, "removed", "Its items are unmatched from now on: their changes have no effect.");
    differences.orphaned.push(format!(
        "the contributions of items {} ({name}): they stay counted, even if the items change or are deleted",
        entity.key
    ));
}

fn entity(
    name: &str,
    old: &EntityDescription,
    new: &EntityDescription,
    models: [&ModelDescription; 2],
    differences: &mut Differences,
) {
    let part = format!("entity {name}");
    let keys = [old, new].map(matched_keys);
    let consequence = "Items that match only the old key are unmatched from now on; items that match only the new key begin to count.";
    if differences.setting(&part, "its key", keys, consequence) {
        // Items whose keys match still are reconciled like all others, whatever their condition.
        if (&old.table, &old.key) != (&new.table, &new.key) {
            differences
                .orphaned
                .push(format!("the contributions of items {} that are not {} ({name})", old.key, new.key));
        }
        differences.recount(name, models);
    }
    let effects = [old, new].map(|entity| entity.on_expiry.name());
    let consequence = "Applies to items that TTL deletes from now on; what was settled or subtracted before stays. A day of a table of current rows follows the new rule, for earlier expiries too, as soon as the day has another change.";
    differences.setting(&part, "on_expiry", effects, consequence);
    let attributes = [old, new].map(|entity| entity.ttl.as_deref().unwrap_or("none"));
    let consequence = "Removals of items that had expired by this attribute are TTL deletions from now on; what was settled or subtracted before stays.";
    differences.setting(&part, "ttl", attributes, consequence);
    attribute_types(name, [old, new], models, differences);
    if derived::compare((name, &part), [old, new], models, differences) {
        differences.recount(name, models);
    }
    for (value, change) in changed_parts(&old.times, &new.times) {
        let change = match change {
            PartChange::Added(how) => format!("time {value} added: {how}"),
            PartChange::Removed(_) => format!("time {value} removed"),
            PartChange::Changed(before, now) => from_to(&format!("time {value}"), before, now),
        };
        differences.recount(name, models);
        let consequence = "Rollups whose keys or measures have this time change once an item changes or is reconciled, and new rows of datasets have the new time.";
        differences.add(part.clone(), change, consequence);
    }
    let secrets = [old, new].map(|entity| format!("[{}]", entity.secret.join(", ")));
    let consequence = "Applies to what is archived from now on; the archive keeps what it has.";
    differences.setting(&part, "secret", secrets, consequence);
}

/// Which keys match an entity: its table, its key, and the entities that are preferred.
fn matched_keys(entity: &EntityDescription) -> String {
    let key = format!("{}: {}", entity.table, entity.key);
    let key = match &entity.when {
        None => key,
        Some(when) => format!("{key} where {when}"),
    };
    match entity.yields_to.as_slice() {
        [] => key,
        preferred => format!("{key}, unless {}", preferred.join(" or ")),
    }
}

fn lookups(old: &ModelDescription, new: &ModelDescription, differences: &mut Differences) {
    for (name, change) in changed_parts(&old.lookups, &new.lookups) {
        let (change, consequence) = match change {
            PartChange::Added(_) => {
                ("added".to_owned(), "It is read when the first item needs it, and remembered from then on.")
            }
            PartChange::Removed(_) => {
                differences.orphaned.push(format!(
                    "the remembered results of lookup {name}: items {LOOKUP_PREFIX}{name}#… of the state table"
                ));
                ("removed".to_owned(), "It is no longer read.")
            }
            PartChange::Changed(before, now) => {
                differences.problems.extend(output_problem(name, &before.gives, &now.gives));
                (
                    "changed".to_owned(),
                    "Remembered results never change; only new keys are looked up in the new way. If old results are wrong now, give the lookup another name.",
                )
            }
        };
        differences.add(format!("lookup {name}"), change, consequence);
    }
}

fn rollups(old: &ModelDescription, new: &ModelDescription, differences: &mut Differences) {
    for (name, change) in changed_parts(&old.rollups, &new.rollups) {
        let part = format!("rollup {name}");
        match change {
            PartChange::Added(rollup) => {
                let consequence =
                    format!("Items {} are created when something is counted into them.", rollup.key);
                differences.add(part, "added", consequence);
                ranks::compare(name, &NamedList::default(), &rollup.rank, differences);
            }
            PartChange::Removed(rollup) => {
                differences.add(
                    part,
                    "removed",
                    "Reconciling subtracts the contributions of aggregates that still exist.",
                );
                differences.orphaned.push(format!("the items {} of rollup {name}", rollup.key));
            }
            PartChange::Changed(before, now) => rollup(name, before, now, differences),
        }
    }
}

/// Values with `#` or `%` are written in another way: the contributions move to other items.
fn rollup_keys(old: &ModelDescription, new: &ModelDescription, differences: &mut Differences) {
    let keys = [old, new].map(|model| model.rollup_keys.name());
    let consequence = "Rollups whose keys have a value with # or % are other items: reconciling moves the contributions; what TTL has settled, and max and min, stay in the old items.";
    if differences.setting("rollups", "rollup_keys", keys, consequence) {
        differences
            .orphaned
            .push("the rollups whose keys have a value with # or %, as they were written".to_owned());
        for aggregate in new.aggregates.values() {
            differences.moved(&aggregate.of, aggregate);
        }
    }
}

fn rollup(name: &str, old: &RollupDescription, new: &RollupDescription, differences: &mut Differences) {
    let part = format!("rollup {name}");
    let consequence =
        "Reconciling moves the contributions; what TTL has settled, and max and min, stay in the old items.";
    if differences.setting(&part, "its key", [&old.key, &new.key], consequence) {
        differences.orphaned.push(format!("the items {} of rollup {name}", old.key));
    }
    let expires = [old, new].map(|rollup| rollup.expires.as_deref().unwrap_or("never"));
    let consequence = "Applies to what is counted from now on; an item of the rollup that is not written keeps the time it has.";
    if differences.setting(&part, "expires", expires, consequence) {
        differences.problems.push(format!(
            "rollup {name}: what is counted already keeps the time that it was counted with. When an old time deletes an item of the rollup, later changes of what it counted are missing or negative in it. Instead, declare a new rollup with the new expires under another key, count into both, reconcile all items, let readers read the new one, and then remove {name}."
        ));
    }
    ranks::compare(name, &old.rank, &new.rank, differences);
    let consequence = if (old.shards == 1) == (new.shards == 1) {
        "Items stay on the shard that they were counted on; new items use all shards."
    } else {
        "Contributions move between the one item and the shards when their items change or are reconciled."
    };
    differences.setting(&part, "shards", [old.shards, new.shards], consequence);
    if old.shards != new.shards {
        differences.problems.extend(sharding_problem(name, old.shards, new.shards));
    }
}

/// The outputs that remembered results of a lookup lack.
fn output_problem(lookup: &str, old: &[String], new: &[String]) -> Option<String> {
    let added: Vec<&str> = new.iter().filter(|output| !old.contains(output)).map(String::as_str).collect();
    (!added.is_empty()).then(|| {
        format!(
            "lookup {lookup}: remembered results lack {}, and records that need them fail. Give the lookup another name; or deploy, run `afterwrite backfill --reattribute`, and start the functions again.",
            added.join(", ")
        )
    })
}

/// Why readers of the new model have too little if the number of shards changes, and what to do instead.
fn sharding_problem(rollup: &str, old: u32, new: u32) -> Option<String> {
    let migration = format!(
        "declare a new rollup with shards = {new} under another key, count into both, reconcile all items, let readers read the new one, and then remove {rollup}"
    );
    if new < old {
        Some(format!(
            "rollup {rollup}: shards can only grow, because readers add up as many as the model has. Leave it at {old} or more; otherwise {migration}."
        ))
    } else if old == 1 {
        Some(format!(
            "rollup {rollup}: the shards are other items than the one item that the rollup is now, so readers of the new model have too little until all items are reconciled. Instead, {migration}."
        ))
    } else {
        None
    }
}

fn aggregates(old: &ModelDescription, new: &ModelDescription, differences: &mut Differences) {
    for (name, change) in changed_parts(&old.aggregates, &new.aggregates) {
        let part = format!("aggregate {name}");
        match change {
            PartChange::Added(aggregate) => {
                let of = &aggregate.of;
                differences.add(part, "added", format!("Items of {of} are counted when they change, and all of them once they are reconciled; max and min see the values of that time."));
                differences.problems.extend(extreme_problem(name, aggregate, old));
                differences.reconcile(of, aggregate);
            }
            PartChange::Removed(aggregate) => {
                differences.add(part, "removed", "Its contributions are kept: nothing is added, and items subtract theirs when they are deleted.");
                for (rollup, measure) in aggregate.counts() {
                    differences.orphaned.push(format!(
                        "{measure} of rollup {rollup}, the part that aggregate {name} counted"
                    ));
                }
            }
            PartChange::Changed(before, now) => {
                differences.problems.extend(extreme_problem(name, now, old));
                let consequence = format!(
                    "Items are counted again when they change, and all of them once they are reconciled.{}",
                    computed_consequence(before, now)
                );
                differences.add(part, setting_changes(before, now).join("; "), consequence);
                for aggregate in [before, now] {
                    differences.reconcile(&aggregate.of, aggregate);
                }
                removed_measures(before, now, differences);
            }
        }
    }
    moved_between_shards(old, new, differences);
}

/// Aggregates that did not change, but one of whose rollups is sharded now or no longer: contributions move between the one
/// item and the shards.
fn moved_between_shards(old: &ModelDescription, new: &ModelDescription, differences: &mut Differences) {
    let is_sharded = |model: &ModelDescription, rollup: &String| {
        model.rollups.get(rollup).is_some_and(|rollup| rollup.shards > 1)
    };
    for (name, aggregate) in new.aggregates.iter() {
        let is_moved = |rollup: &String| is_sharded(old, rollup) != is_sharded(new, rollup);
        if old.aggregates.get(name) == Some(aggregate) && aggregate.into.names().any(is_moved) {
            differences.moved(&aggregate.of, aggregate);
        }
    }
}

/// The settings of an aggregate that differ.
fn setting_changes(old: &AggregateDescription, new: &AggregateDescription) -> Vec<String> {
    let mut changes = Vec::new();
    if old.of != new.of {
        changes.push(from_to("of", &old.of, &new.of));
    }
    let always = || "always".to_owned();
    if old.when != new.when {
        let [before, now] = [&old.when, &new.when].map(|when| when.clone().unwrap_or_else(always));
        changes.push(from_to("when", &before, &now));
    }
    if old.for_each != new.for_each {
        let item = || "the item".to_owned();
        let [before, now] = [&old.for_each, &new.for_each].map(|each| each.clone().unwrap_or_else(item));
        changes.push(from_to("for_each", &before, &now));
    }
    if old.on_misfit != new.on_misfit {
        changes.push(from_to("on_misfit", old.on_misfit.name(), new.on_misfit.name()));
    }
    if old.optional != new.optional {
        let [before, now] = [&old.optional, &new.optional].map(|names| match names.as_slice() {
            [] => "nothing".to_owned(),
            names => names.join(", "),
        });
        changes.push(from_to("optional", &before, &now));
    }
    changes.extend(
        changed_parts(&old.into, &new.into)
            .into_iter()
            .map(|(name, change)| changed_text(&format!("into {name}"), change, String::as_str)),
    );
    changes.extend(
        changed_parts(&old.measures, &new.measures)
            .into_iter()
            .map(|(name, change)| changed_text(&format!("measure {name}"), change, |measure| &measure.text)),
    );
    changes
}

/// How a part of a name changed, by its text.
fn changed_text<'d, T>(what: &str, change: PartChange<'d, T>, text: impl Fn(&'d T) -> &'d str) -> String {
    match change {
        PartChange::Added(new) => format!("{what} added: {}", text(new)),
        PartChange::Removed(_) => format!("{what} removed"),
        PartChange::Changed(old, new) => from_to(what, text(old), text(new)),
    }
}

/// A removed aggregate leaves its contributions in place: an aggregate of another name that counts the same would count them twice.
fn check_counted_twice(old: &ModelDescription, new: &ModelDescription, differences: &mut Differences) {
    let removed: BTreeMap<_, _> =
        old.aggregates.iter().filter(|(name, _)| new.aggregates.get(name).is_none()).collect();
    for (name, aggregate) in new.aggregates.iter() {
        let known: BTreeSet<_> =
            old.aggregates.get(name).into_iter().flat_map(AggregateDescription::counts).collect();
        for (other, left) in &removed {
            let left: BTreeSet<_> = left.counts().collect();
            let twice: Vec<String> = aggregate
                .counts()
                .filter(|place| left.contains(place) && !known.contains(place))
                .map(|(rollup, measure)| format!("{measure} of {rollup}"))
                .collect();
            if !twice.is_empty() {
                differences.problems.push(format!(
                    "aggregate {name} counts what the removed aggregate {other} has counted, which is then counted twice: {}. Keep the name {other}, or give the measures other names.",
                    twice.join(", ")
                ));
            }
        }
    }
}
