//! What a new model changes of what is counted: entities, lookups, rollups, aggregates.
//!
//! What follows is the ledger's doing. An entry holds what its item contributed, aggregate by aggregate. When the item is reconciled
//! (or changes), the shares of aggregates that the model still has are replaced by what it contributes now; shares of aggregates that
//! it no longer has are carried along, and go when the item is deleted.

use std::collections::{BTreeMap, BTreeSet};

use afterwrite::table::{AggregateDescription, EntityDescription, ModelDescription, RollupDescription};

use super::{Compared, Differences, compared, from_to};

pub(super) fn compare(old: &ModelDescription, new: &ModelDescription, differences: &mut Differences) {
    entities(old, new, differences);
    lookups(old, new, differences);
    rollups(old, new, differences);
    aggregates(old, new, differences);
    counted_twice(old, new, differences);
}

fn entities(old: &ModelDescription, new: &ModelDescription, differences: &mut Differences) {
    for (name, change) in compared(&old.entities, &new.entities) {
        let part = format!("entity {name}");
        match change {
            Compared::Added(_) => differences.add(
                part,
                "added",
                "Items with such keys were unmatched, and are matched from now on.",
            ),
            Compared::Removed(entity) => {
                differences.add(
                    part,
                    "removed",
                    "Its items are unmatched from now on: their changes change nothing any more.",
                );
                differences.orphaned.push(format!(
                    "what items {} ({name}) have contributed: it stays counted, whatever becomes of them",
                    entity.key
                ));
            }
            Compared::Changed(before, now) => entity(name, before, now, [old, new], differences),
        }
    }
}

fn entity(
    name: &str,
    old: &EntityDescription,
    new: &EntityDescription,
    models: [&ModelDescription; 2],
    differences: &mut Differences,
) {
    let part = || format!("entity {name}");
    if (&old.table, &old.key) != (&new.table, &new.key) {
        differences.add(
            part(),
            from_to("its key", &format!("{}: {}", old.table, old.key), &format!("{}: {}", new.table, new.key)),
            "Items that match the old key alone are unmatched from now on; those that match the new one alone begin to count.",
        );
        differences
            .orphaned
            .push(format!("what items {} that are not {} have contributed ({name})", old.key, new.key));
        recount(name, models, differences);
    }
    if old.on_expiry != new.on_expiry {
        differences.add(
            part(),
            from_to("on_expiry", old.on_expiry.name(), new.on_expiry.name()),
            "Holds for items that TTL takes from now on; what it took before stays as it was decided then.",
        );
    }
    for (value, change) in compared(&old.derived, &new.derived) {
        let change = match change {
            Compared::Added(how) => format!("derived value {value} added: {how}"),
            Compared::Removed(_) => format!("derived value {value} removed"),
            Compared::Changed(before, now) => {
                recount(name, models, differences);
                from_to(&format!("derived value {value}"), before, now)
            }
        };
        differences.add(
            part(),
            change,
            "What is computed of it is another once an item changes or is reconciled.",
        );
    }
    if old.secret != new.secret {
        differences.add(
            part(),
            from_to(
                "secret",
                &format!("[{}]", old.secret.join(", ")),
                &format!("[{}]", new.secret.join(", ")),
            ),
            "Holds for what is archived from now on; what the archive has already stays in it.",
        );
    }
}

/// Everything that is counted of an entity may be another.
fn recount(entity: &str, models: [&ModelDescription; 2], differences: &mut Differences) {
    for aggregate in models.into_iter().flat_map(|model| model.aggregates.values()) {
        if aggregate.of == entity {
            differences.moved(entity, aggregate);
        }
    }
}

fn lookups(old: &ModelDescription, new: &ModelDescription, differences: &mut Differences) {
    for (name, change) in compared(&old.lookups, &new.lookups) {
        let (change, consequence) = match change {
            Compared::Added(_) => {
                ("added".to_owned(), "Is asked when the first item needs it, and remembered from then on.")
            }
            Compared::Removed(_) => {
                differences.orphaned.push(format!(
                    "what lookup {name} has remembered: items LOOKUP#{name}#… of the state table"
                ));
                ("removed".to_owned(), "Is asked no more.")
            }
            Compared::Changed(..) => (
                "changed".to_owned(),
                "What it has remembered never changes; only what was never asked before is asked in the new way. If old answers are wrong now, give the lookup another name.",
            ),
        };
        differences.add(format!("lookup {name}"), change, consequence);
    }
}

fn rollups(old: &ModelDescription, new: &ModelDescription, differences: &mut Differences) {
    for (name, change) in compared(&old.rollups, &new.rollups) {
        let part = format!("rollup {name}");
        match change {
            Compared::Added(rollup) => differences.add(
                part,
                "added",
                format!("Items {} are made as soon as something counts into them.", rollup.key),
            ),
            Compared::Removed(rollup) => {
                differences.add(
                    part,
                    "removed",
                    "What aggregates that are still there counted into it is subtracted by reconciling.",
                );
                differences.orphaned.push(format!("the items {} of rollup {name}", rollup.key));
            }
            Compared::Changed(before, now) => rollup(name, before, now, differences),
        }
    }
}

fn rollup(name: &str, old: &RollupDescription, new: &RollupDescription, differences: &mut Differences) {
    let part = || format!("rollup {name}");
    if old.key != new.key {
        differences.add(
            part(),
            from_to("its key", &old.key, &new.key),
            "Reconciling moves what is counted; what TTL has settled, and max and min, stay where they are.",
        );
        differences.orphaned.push(format!("the items {} of rollup {name}", old.key));
    }
    if old.expires != new.expires {
        let never = || "never".to_owned();
        let [before, now] = [&old.expires, &new.expires].map(|after| after.clone().unwrap_or_else(never));
        differences.add(
            part(),
            from_to("expires", &before, &now),
            "Holds for items that are counted into from now on; what nobody touches keeps the time it has.",
        );
    }
    if old.shards != new.shards {
        differences.add(
            part(),
            from_to("shards", &old.shards.to_string(), &new.shards.to_string()),
            "Items stay on the shard that they were counted on; new ones are spread anew.",
        );
        if new.shards < old.shards {
            differences.problems.push(format!("rollup {name}: shards only grow, for readers add up as many as the model says. Leave it at {} or more.", old.shards));
        }
    }
}

fn aggregates(old: &ModelDescription, new: &ModelDescription, differences: &mut Differences) {
    for (name, change) in compared(&old.aggregates, &new.aggregates) {
        let part = format!("aggregate {name}");
        match change {
            Compared::Added(aggregate) => {
                let of = &aggregate.of;
                differences.add(part, "added", format!("Items of {of} are counted when they change, and all of them once they are reconciled; of max and min, what they hold then."));
                differences.reconcile(of, aggregate);
            }
            Compared::Removed(aggregate) => {
                differences.add(part, "removed", "What it has counted is carried along: nothing is added to it, and items subtract theirs when they are deleted.");
                for (rollup, measure) in aggregate.counts() {
                    differences
                        .orphaned
                        .push(format!("{measure} of rollup {rollup}, as far as aggregate {name} counted it"));
                }
            }
            Compared::Changed(before, now) => {
                differences.add(
                    part,
                    told(before, now).join("; "),
                    "Items are counted anew when they change, and all of them once they are reconciled.",
                );
                for aggregate in [before, now] {
                    differences.reconcile(&aggregate.of, aggregate);
                }
                left_measures(before, now, differences);
            }
        }
    }
    spread(old, new, differences);
}

/// Aggregates that are what they were, while a rollup of theirs is spread now: items leave the one item for a shard.
fn spread(old: &ModelDescription, new: &ModelDescription, differences: &mut Differences) {
    let shards = |model: &ModelDescription, rollup: &String| {
        model.rollups.get(rollup).map_or(1, |rollup| rollup.shards)
    };
    for (name, aggregate) in new.aggregates.iter() {
        let is_spread = |rollup: &String| shards(old, rollup) == 1 && shards(new, rollup) > 1;
        if old.aggregates.get(name) == Some(aggregate) && aggregate.into.names().any(is_spread) {
            differences.moved(&aggregate.of, aggregate);
        }
    }
}

/// What is another in an aggregate.
fn told(old: &AggregateDescription, new: &AggregateDescription) -> Vec<String> {
    let mut told = Vec::new();
    if old.of != new.of {
        told.push(from_to("of", &old.of, &new.of));
    }
    let always = || "always".to_owned();
    if old.when != new.when {
        let [before, now] = [&old.when, &new.when].map(|when| when.clone().unwrap_or_else(always));
        told.push(from_to("when", &before, &now));
    }
    told.extend(
        compared(&old.into, &new.into)
            .into_iter()
            .map(|(name, change)| changed_text(&format!("into {name}"), change, String::as_str)),
    );
    told.extend(
        compared(&old.measures, &new.measures)
            .into_iter()
            .map(|(name, change)| changed_text(&format!("measure {name}"), change, |measure| &measure.text)),
    );
    told
}

/// How a part of a name changed, by its text.
fn changed_text<'d, T>(what: &str, change: Compared<'d, T>, text: impl Fn(&'d T) -> &'d str) -> String {
    match change {
        Compared::Added(new) => format!("{what} added: {}", text(new)),
        Compared::Removed(_) => format!("{what} removed"),
        Compared::Changed(old, new) => from_to(what, text(old), text(new)),
    }
}

/// Measures that an aggregate counts no more: sums go down to nought, extremes stay.
fn left_measures(old: &AggregateDescription, new: &AggregateDescription, differences: &mut Differences) {
    let left = old.measures.iter().filter(|(name, _)| new.measures.get(name).is_none());
    for (name, measure) in left {
        let rollups = new.into.names().cloned().collect::<Vec<_>>().join(", ");
        let rest = if measure.function.is_extreme() {
            "it keeps its value"
        } else {
            "reconciling brings it to 0, besides what TTL has settled"
        };
        differences.orphaned.push(format!("attribute {name} of {rollups}: {rest}"));
    }
}

/// An aggregate that is gone leaves its shares behind: one that counts the same under another name would count them once more.
fn counted_twice(old: &ModelDescription, new: &ModelDescription, differences: &mut Differences) {
    let gone: BTreeMap<_, _> =
        old.aggregates.iter().filter(|(name, _)| new.aggregates.get(name).is_none()).collect();
    for (name, aggregate) in new.aggregates.iter() {
        let known: BTreeSet<_> =
            old.aggregates.get(name).into_iter().flat_map(AggregateDescription::counts).collect();
        for (other, left) in &gone {
            let left: BTreeSet<_> = left.counts().collect();
            let twice: Vec<String> = aggregate
                .counts()
                .filter(|place| left.contains(place) && !known.contains(place))
                .map(|(rollup, measure)| format!("{measure} of {rollup}"))
                .collect();
            if !twice.is_empty() {
                differences.problems.push(format!(
                    "aggregate {name} counts what the removed aggregate {other} has counted, so that it is there twice: {}. Keep the name {other}, or give the measures other names.",
                    twice.join(", ")
                ));
            }
        }
    }
}
