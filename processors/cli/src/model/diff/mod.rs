//! `afterwrite model diff`: what happens to existing items when a new model replaces an old one.

mod counting;
mod derived;
mod measures;
mod ranks;
mod reading;
mod tables;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Display};

use afterwrite_model::Result;
use afterwrite_model::table::{AggregateDescription, Model, ModelDescription, NamedList, STATE_TABLE};
use clap::Args;
use serde::Serialize;

use crate::arguments::{pair, unknown, whole_number};
use crate::print::{align_right, json, new_table, print};

/// The arguments of `afterwrite model diff`.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  afterwrite model diff deployed.toml my-model.toml\n  afterwrite model diff deployed.toml my-model.toml --items attempt=250000\n  afterwrite model diff exambuddy my-model.toml --json | jq .reconcile\n\nExit codes: 0 the new model can replace the old one, 1 it needs a decision first, 2 wrong usage or configuration."
)]
pub struct DiffArguments {
    /// The model that is deployed: a built-in model's name or the path of a TOML file.
    old: String,
    /// The model that replaces it.
    new: String,
    /// The number of items of an entity, for the cost of reconciling them. Can be repeated; entities whose items stay as they are cost nothing.
    #[arg(long, value_name = "ENTITY=COUNT", value_parser = count)]
    items: Vec<(String, u64)>,
    /// Print the differences as one JSON object.
    #[arg(long)]
    json: bool,
}

fn count(written: &str) -> std::result::Result<(String, u64), String> {
    let (entity, count) = pair(written)?;
    Ok((entity, whole_number(&count)?))
}

/// The differences of a new model from an old one.
#[derive(Debug, Default, Serialize)]
pub struct Differences {
    /// The differences and their consequences.
    pub changes: Vec<ModelChange>,
    /// The entities whose items must be reconciled before everything derived from them is right.
    pub reconcile: Vec<ReconcileCost>,
    /// Existing data that only the old model refers to; it stays unchanged.
    pub orphaned: Vec<String>,
    /// Failures to expect, each with the decision that prevents it.
    pub problems: Vec<String>,
    /// By entity: the writes that reconciling one of its items may need.
    #[serde(skip)]
    writes: BTreeMap<String, ReconcileWrites>,
}

/// The writes that reconciling an item may need, next to its ledger entry.
#[derive(Debug, Default)]
struct ReconcileWrites {
    /// Rollups, by their keys as the entity's values make them.
    rollups: BTreeSet<String>,
    /// Rollup and measure, by name.
    measures: BTreeSet<(String, String)>,
}

impl ReconcileWrites {
    fn add(&mut self, aggregate: &AggregateDescription) {
        self.rollups.extend(aggregate.into.values().cloned());
        self.measures.extend(aggregate.counts().map(|(rollup, measure)| (rollup.clone(), measure.clone())));
    }

    /// In a transaction the entry and every rollup take two units a KB; a copy on an application's item is written outside, at one.
    fn write_units(&self, entity: &str, model: &ModelDescription) -> u64 {
        // Whether a max or min has seen a value is not stored; it sees the value again.
        let extremes = model.aggregates.values().filter(|known| known.of == entity && known.has_extremes());
        let rollups: BTreeSet<&String> =
            self.rollups.iter().chain(extremes.flat_map(|aggregate| aggregate.into.values())).collect();
        let mirrored = model
            .mirrors
            .values()
            .filter(|mirror| self.measures.contains(&(mirror.rollup.clone(), mirror.measure.clone())));
        let copies = mirrored.count();
        u64::try_from(2 + 2 * rollups.len() + copies).unwrap_or(u64::MAX)
    }
}

/// One difference.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct ModelChange {
    /// The part of the model: `aggregate attempts`.
    pub part: String,
    /// The difference: `added`, `removed`, or the old and the new value.
    pub change: String,
    /// The consequence.
    pub consequence: String,
}

/// The cost of reconciling the items of an entity.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct ReconcileCost {
    /// The entity.
    pub entity: String,
    /// The most that an item may cost, in write units: its ledger entry, every rollup whose contributions change, and the
    /// copies that mirrors show of these, each within 1 KB and in no index. Rollups that items of a batch share are written once for all of them.
    pub write_units_an_item: u64,
    /// How many items there are, if the command line has it.
    pub items: Option<u64>,
    /// The most that all of them may cost.
    pub write_units: Option<u64>,
}

/// The step before a table may leave the model.
fn lost_table(name: &str) -> String {
    let (table, rest) = if name == STATE_TABLE {
        ("The state table is no source any more".to_owned(), "one rollup as a source")
    } else {
        (format!("table {name} leaves the model"), "the table without its entities")
    };
    format!(
        "{table}: its ledger entries no longer show their items, and no command could subtract what they count. First deploy a generation that keeps {rest}, and run `afterwrite backfill --drop`."
    )
}

impl Differences {
    /// The differences of `new` from `old`.
    #[must_use]
    pub fn between(old: &Model, new: &Model) -> Self {
        let (old, new) = (old.describe(), new.describe());
        let mut differences = Self::default();
        tables::compare(&old, &new, &mut differences);
        counting::compare(&old, &new, &mut differences);
        reading::compare(&old, &new, &mut differences);
        let writes = std::mem::take(&mut differences.writes).into_iter();
        differences.reconcile = writes
            .map(|(entity, writes)| ReconcileCost {
                write_units_an_item: writes.write_units(&entity, &new),
                entity,
                items: None,
                write_units: None,
            })
            .collect();
        let lost = old.tables.names().filter(|name| new.tables.get(name).is_none());
        differences.problems.extend(lost.map(|name| lost_table(name)));
        let is_lower = new.generation < old.generation;
        if is_lower || (new.generation == old.generation && !differences.changes.is_empty()) {
            let generation = old.generation;
            differences.problems.push(format!(
                "The generation must grow with every change, and never fall: set generation = {} in the new model, so that a function with the old model never reverts it.",
                generation + 1
            ));
        }
        differences
    }

    fn add(&mut self, part: String, change: impl Into<String>, consequence: impl Into<String>) {
        self.changes.push(ModelChange { part, change: change.into(), consequence: consequence.into() });
    }

    /// Adds a setting of a part if its values differ; returns whether they do.
    fn setting<T: Display + PartialEq>(
        &mut self,
        part: &str,
        what: &str,
        values: [T; 2],
        consequence: &str,
    ) -> bool {
        let [old, new] = values;
        let differs = old != new;
        if differs {
            self.add(part.to_owned(), from_to(what, &old, &new), consequence);
        }
        differs
    }

    /// Notes that items of an entity must be reconciled, because this aggregate counts them differently.
    fn reconcile(&mut self, entity: &str, aggregate: &AggregateDescription) {
        self.writes.entry(entity.to_owned()).or_default().add(aggregate);
    }

    /// The same for rollups that may be other items than before, although their key templates are equal.
    fn moved(&mut self, entity: &str, aggregate: &AggregateDescription) {
        self.reconcile(entity, aggregate);
        let left = aggregate.into.values().map(|key| format!("{key}, as it was"));
        self.writes.entry(entity.to_owned()).or_default().rollups.extend(left);
    }

    /// Notes that everything that is counted of an entity may change.
    fn recount(&mut self, entity: &str, models: [&ModelDescription; 2]) {
        for aggregate in models.into_iter().flat_map(|model| model.aggregates.values()) {
            if aggregate.of == entity {
                self.moved(entity, aggregate);
            }
        }
    }

    /// Prices the items of entities that must be reconciled. The numbers of other entities change nothing.
    fn count(&mut self, items: &[(String, u64)]) {
        for known in &mut self.reconcile {
            // The last one counts, as for an option.
            let given = items.iter().rev().find(|(entity, _)| *entity == known.entity);
            known.items = given.map(|(_, count)| *count);
            known.write_units = known.items.map(|count| count.saturating_mul(known.write_units_an_item));
        }
    }
}

impl DiffArguments {
    /// Prints the differences; returns whether the new model can replace the old one without a decision.
    ///
    /// # Errors
    /// A model that does not load; an entity in `--items` that neither model has.
    pub fn run(&self) -> Result<bool> {
        let (old, new) = (Model::load(&self.old)?, Model::load(&self.new)?);
        let known = || [&old, &new].into_iter().flat_map(|model| &model.entities).map(|entity| &*entity.name);
        if let Some((entity, _)) = self.items.iter().find(|(entity, _)| !known().any(|name| name == entity)) {
            let names = known().collect::<BTreeSet<_>>();
            return Err(unknown("an entity that neither model has", entity, names));
        }
        let mut differences = Differences::between(&old, &new);
        differences.count(&self.items);
        print(&if self.json { json(&differences)? } else { differences.to_string() })?;
        Ok(differences.problems.is_empty())
    }
}

impl fmt::Display for Differences {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.changes.is_empty() {
            return writeln!(f, "The models are equal.");
        }
        for ModelChange { part, change, consequence } in &self.changes {
            writeln!(f, "{part}: {change}\n    {consequence}")?;
        }
        if !self.reconcile.is_empty() {
            let mut table = new_table(&["reconcile all items of", "items", "write units an item", "total"]);
            for known in &self.reconcile {
                let items = known.items.map_or_else(String::new, |number| number.to_string());
                let an_item = format!("≤ {}", known.write_units_an_item);
                let in_all = known.write_units.map_or_else(String::new, |number| format!("≤ {number}"));
                table.add_row([&known.entity, &items, &an_item, &in_all]);
            }
            align_right(&mut table, 1..4);
            writeln!(
                f,
                "\n{table}\n\nOnce every function has the new model, `afterwrite backfill` reconciles them."
            )?;
        }
        for (title, lines) in [("Left in place", &self.orphaned), ("Decide before deploying", &self.problems)]
        {
            if !lines.is_empty() {
                writeln!(f, "\n{title}")?;
            }
            for line in lines {
                writeln!(f, "  - {line}")?;
            }
        }
        Ok(())
    }
}

/// A part of one name in two models.
enum PartChange<'d, T> {
    Added(&'d T),
    Removed(&'d T),
    Changed(&'d T, &'d T),
}

/// The parts that differ, by name, in the order of the new model; removed parts last.
fn changed_parts<'d, T: PartialEq>(
    old: &'d NamedList<T>,
    new: &'d NamedList<T>,
) -> Vec<(&'d str, PartChange<'d, T>)> {
    let removed = old.names().filter(|name| new.get(name).is_none());
    let changed = new.names().chain(removed).filter_map(|name| {
        let change = match (old.get(name), new.get(name)) {
            (Some(old), Some(new)) if old == new => return None,
            (Some(old), Some(new)) => PartChange::Changed(old, new),
            (Some(old), None) => PartChange::Removed(old),
            (None, Some(new)) => PartChange::Added(new),
            (None, None) => return None,
        };
        Some((name.as_str(), change))
    });
    changed.collect()
}

/// The old and the new value of a setting.
fn from_to(what: &str, old: &(impl Display + ?Sized), new: &(impl Display + ?Sized)) -> String {
    format!("{what} was {old}, is {new}")
}

#[cfg(test)]
mod tests;
