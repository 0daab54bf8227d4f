//! The differences that change readers' data: mirrors, caches, events, the archive, datasets and saved queries.

use std::collections::BTreeSet;

use afterwrite_model::table::{
    CacheDescription, DatasetDescription, EventTrigger, KEY_COLUMN, ModelDescription,
};

use super::{Differences, PartChange, changed_parts, from_to};

pub(super) fn compare(old: &ModelDescription, new: &ModelDescription, differences: &mut Differences) {
    if [old, new].iter().all(|model| model.events.names().next().is_some()) {
        let names = [old, new].map(|model| &*model.name);
        let consequence = "The source of events is `afterwrite.NAME`: rules and targets that name the old source hear nothing from now on.";
        differences.setting("model", "its name", names, consequence);
    }
    mirrors(old, new, differences);
    caches(old, new, differences);
    events(old, new, differences);
    let scopes = [old, new].map(|model| model.archive.name());
    let consequence = "Applies from now on; nothing is removed from the archive.";
    differences.setting("archive", "scope", scopes, consequence);
    for (name, change) in changed_parts(&old.datasets, &new.datasets) {
        match change {
            PartChange::Added(_) => differences.add(
                format!("dataset {name}"),
                "added",
                "Rows are written for changes from now on; for earlier changes, export the archive again. Run the new SQL of `afterwrite model ddl`.",
            ),
            PartChange::Removed(_) => {
                differences.add(format!("dataset {name}"), "removed", "No more rows are written, and compaction skips it. Drop its table and view when nobody queries them.");
                differences.orphaned.push(format!("the files under datasets/{name}/"));
            }
            PartChange::Changed(before, now) => {
                dataset(name, before, now, differences);
                required_columns(name, [before, now], differences);
            }
        }
    }
    for (name, change) in changed_parts(&old.queries, &new.queries) {
        let change = match change {
            PartChange::Added(_) => "added",
            PartChange::Removed(_) => "removed",
            PartChange::Changed(..) => "changed",
        };
        differences.add(format!("query {name}"), change, "Run the new SQL of `afterwrite model ddl`.");
    }
}

fn mirrors(old: &ModelDescription, new: &ModelDescription, differences: &mut Differences) {
    for (attribute, change) in changed_parts(&old.mirrors, &new.mirrors) {
        let (change, consequence) = match change {
            PartChange::Added(mirror) => (
                format!("added: {} of {}", mirror.measure, mirror.source()),
                "Items show it once the rollup or they themselves change, or are reconciled.",
            ),
            PartChange::Removed(_) => {
                differences.orphaned.push(format!(
                    "attribute {attribute} of items, with its `_rev` and `_of`: they keep their last value"
                ));
                ("removed".to_owned(), "Items keep the last value.")
            }
            PartChange::Changed(before, now) => (
                from_to(
                    "it",
                    &format!("{} of {}", before.measure, before.source()),
                    &format!("{} of {}", now.measure, now.source()),
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
            "removed or changed",
            "Values that are cached under its keys live until the application's own expiry.",
        );
    }
    for rule in now.difference(&before) {
        differences.add(of(rule), "added or changed", "Changes from now on make its keys stale.");
    }
}

fn events(old: &ModelDescription, new: &ModelDescription, differences: &mut Differences) {
    for (name, change) in changed_parts(&old.events, &new.events) {
        let part = format!("event {name}");
        let (before, now) = match change {
            PartChange::Added(_) => {
                differences.add(
                    part,
                    "added",
                    "Events begin with the changes after the deployment; nothing is sent for items that meet the condition already.",
                );
                continue;
            }
            PartChange::Removed(_) => {
                differences.add(part, "removed", "No more events are sent. Their consumers hear nothing.");
                continue;
            }
            PartChange::Changed(before, now) => (before, now),
        };
        let consequence = "Applies to changes from now on; nothing is sent, or sent again, for earlier ones.";
        differences.setting(&part, "its items", [&*before.of, &*now.of], consequence);
        let conditions = [before, now].map(|rule| rule.when.as_deref().unwrap_or("all items"));
        differences.setting(&part, "its condition", conditions, consequence);
        let triggers = [before, now].map(|rule| rule.on.map_or("records", EventTrigger::name));
        differences.setting(&part, "on", triggers, consequence);
        let targets = [before, now].map(|rule| rule.to.as_deref().unwrap_or("the default target"));
        let moved = "Events of changes from now on go to the new target.";
        differences.setting(&part, "its target", targets, moved);
        let details = [before, now].map(|rule| match rule.detail.as_slice() {
            [] => "nothing".to_owned(),
            names => names.join(", "),
        });
        differences.setting(&part, "detail", details, "Consumers find the new values from now on.");
    }
}

fn key_columns(dataset: &DatasetDescription) -> BTreeSet<&str> {
    dataset.columns.names().map(|name| &**name).filter(|name| name.starts_with(KEY_COLUMN)).collect()
}

fn dataset(name: &str, old: &DatasetDescription, new: &DatasetDescription, differences: &mut Differences) {
    let part = format!("dataset {name}");
    let rows = [old, new].map(|dataset| format!("{} by {}", dataset.of, dataset.partition));
    if differences.setting(&part, "its rows", rows, "Old rows stay in their partitions.") {
        differences.problems.push(format!("dataset {name}: rows of one item would be in two partitions, and the table would show it twice. Give the dataset another name and export the archive again."));
    }
    let conditions = [old, new].map(|dataset| dataset.when.as_deref().unwrap_or("all items"));
    differences.setting(&part, "its items", conditions, "Applies to changes from now on. Run `afterwrite verify` on the datasets: it finds rows of items that no longer belong, and `afterwrite repair` ends them; for items that belong from now on, fill the dataset by `afterwrite backfill`.");
    if key_columns(old) != key_columns(new) {
        differences.problems.push(format!("dataset {name}: the variables of the item's key have other names, so old and new rows of one item cannot be compared, and the exporter refuses to add to the table. Keep the names, or give the dataset another name and export the archive again."));
    }
    for (column, change) in changed_parts(&old.columns, &new.columns) {
        let (change, consequence) = match change {
            PartChange::Added(column_type) => (
                format!("column {column} added: {column_type}"),
                "It is null in existing files; run the new SQL of `afterwrite model ddl`.",
            ),
            PartChange::Removed(_) => (
                format!("column {column} removed"),
                "It stays in existing files, and views no longer have it; run the new SQL of `afterwrite model ddl`.",
            ),
            PartChange::Changed(before, now) => {
                differences.problems.push(format!("dataset {name}: column {column} is {before} in existing files, and readers cannot read it as {now}. Add a column of another name instead."));
                (
                    from_to(&format!("column {column}"), before, now),
                    "Files of both types cannot be read together.",
                )
            }
        };
        differences.add(part.clone(), change, consequence);
    }
    for (column, change) in changed_parts(&old.sources, &new.sources) {
        if old.columns.get(column).is_some() && new.columns.get(column).is_some() {
            let own = column.to_owned();
            let (before, now) = match change {
                PartChange::Added(now) => (&own, now),
                PartChange::Removed(before) => (before, &own),
                PartChange::Changed(before, now) => (before, now),
            };
            differences.setting(
                &part,
                &format!("column {column}"),
                [before, now],
                "Applies to rows from now on.",
            );
        }
    }
    if (&old.sort, old.history) != (&new.sort, new.history) {
        differences.add(part, "sort or history changed", "Compaction applies it from now on.");
    }
}

fn required_columns(name: &str, models: [&DatasetDescription; 2], differences: &mut Differences) {
    let required = models.map(|dataset| format!("[{}]", dataset.required.join(", ")));
    differences.setting(&format!("dataset {name}"), "required", required, "Applies to rows from now on.");
}
