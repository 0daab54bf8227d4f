//! What a new model changes of what is read: mirrors, caches, the archive, datasets and saved queries.

use std::collections::BTreeSet;

use afterwrite::table::{CacheDescription, DatasetDescription, ModelDescription};

use super::{Compared, Differences, compared, from_to};

pub(super) fn compare(old: &ModelDescription, new: &ModelDescription, differences: &mut Differences) {
    mirrors(old, new, differences);
    caches(old, new, differences);
    if old.archive != new.archive {
        differences.add(
            "archive".to_owned(),
            from_to("scope", old.archive.name(), new.archive.name()),
            "Holds from now on; nothing is removed from the archive.",
        );
    }
    for (name, change) in compared(&old.datasets, &new.datasets) {
        match change {
            Compared::Added(_) => differences.add(
                format!("dataset {name}"),
                "added",
                "Rows of changes from now on; those of earlier changes come when the archive is exported again. Run the new SQL of `afterwrite model ddl`.",
            ),
            Compared::Removed(_) => {
                differences.add(format!("dataset {name}"), "removed", "No more rows are written, and compaction leaves it alone. Drop its table and view when nobody asks them.");
                differences.orphaned.push(format!("the files under datasets/{name}/"));
            }
            Compared::Changed(before, now) => dataset(name, before, now, differences),
        }
    }
    for (name, change) in compared(&old.queries, &new.queries) {
        let change = match change {
            Compared::Added(_) => "added",
            Compared::Removed(_) => "removed",
            Compared::Changed(..) => "changed",
        };
        differences.add(format!("query {name}"), change, "Run the new SQL of `afterwrite model ddl`.");
    }
}

fn mirrors(old: &ModelDescription, new: &ModelDescription, differences: &mut Differences) {
    for (attribute, change) in compared(&old.mirrors, &new.mirrors) {
        let (change, consequence) = match change {
            Compared::Added(mirror) => (
                format!("added: {} of {}", mirror.measure, mirror.rollup),
                "Items show it once the rollup or they themselves change, or are reconciled.",
            ),
            Compared::Removed(_) => {
                differences.orphaned.push(format!(
                    "attribute {attribute} and {attribute}_rev of items: they keep their last value"
                ));
                ("removed".to_owned(), "Items show what they showed last.")
            }
            Compared::Changed(before, now) => (
                from_to(
                    "it",
                    &format!("{} of {}", before.measure, before.rollup),
                    &format!("{} of {}", now.measure, now.rollup),
                ),
                "Items show the new one once the rollup's rev has passed the one that they hold.",
            ),
        };
        differences.add(format!("mirror {attribute}"), change, consequence);
    }
}

fn caches(old: &ModelDescription, new: &ModelDescription, differences: &mut Differences) {
    let [before, now] = [old, new].map(|model| model.caches.iter().collect::<BTreeSet<&CacheDescription>>());
    let of = |rule: &CacheDescription| {
        let names: Vec<&str> = rule.keys.iter().chain(&rule.paths).map(String::as_str).collect();
        format!("cache rule of {}: {}", rule.of, names.join(", "))
    };
    for rule in before.difference(&now) {
        differences.add(
            of(rule),
            "removed, or other than it was",
            "What is cached under its keys now lives as long as the application lets it.",
        );
    }
    for rule in now.difference(&before) {
        differences.add(of(rule), "added, or other than it was", "Changes from now on make its keys stale.");
    }
}

fn dataset(name: &str, old: &DatasetDescription, new: &DatasetDescription, differences: &mut Differences) {
    let part = || format!("dataset {name}");
    if (&old.of, &old.partition) != (&new.of, &new.partition) {
        let [before, now] = [old, new].map(|dataset| format!("{} by {}", dataset.of, dataset.partition));
        differences.add(
            part(),
            from_to("its rows", &before, &now),
            "Old rows stay in the partitions that they lie in.",
        );
        differences.problems.push(format!("dataset {name}: rows of one item would lie in two partitions, and the view show it twice. Give the dataset another name and export the archive again."));
    }
    if old.days != new.days {
        let [before, now] = [old, new].map(|dataset| format!("{} to {}", dataset.days.0, dataset.days.1));
        differences.add(part(), from_to("days", &before, &now), "Rows of days that were not among them lie in the partition of no day; run the new SQL of `afterwrite model ddl`.");
    }
    for (column, change) in compared(&old.columns, &new.columns) {
        let (change, consequence) = match change {
            Compared::Added(column_type) => (
                format!("column {column} added: {column_type}"),
                "Is null in the files that are there; run the new SQL of `afterwrite model ddl`.",
            ),
            Compared::Removed(_) => (
                format!("column {column} removed"),
                "Stays in the files that are there, and is asked no more; run the new SQL of `afterwrite model ddl`.",
            ),
            Compared::Changed(before, now) => {
                differences.problems.push(format!("dataset {name}: column {column} was {before} in the files that are there, and no reader takes it for {now}. Add a column of another name instead."));
                (
                    from_to(&format!("column {column}"), before, now),
                    "Files of both types cannot be read together.",
                )
            }
        };
        differences.add(part(), change, consequence);
    }
    for (column, change) in compared(&old.sources, &new.sources) {
        if old.columns.get(column).is_some() && new.columns.get(column).is_some() {
            let own = column.to_owned();
            let (before, now) = match change {
                Compared::Added(now) => (&own, now),
                Compared::Removed(before) => (before, &own),
                Compared::Changed(before, now) => (before, now),
            };
            differences.add(
                part(),
                from_to(&format!("column {column}"), before, now),
                "Holds for rows from now on.",
            );
        }
    }
    if (&old.sort, old.history) != (&new.sort, new.history) {
        differences.add(part(), "sorted or kept otherwise", "Compaction does so from now on.");
    }
}
