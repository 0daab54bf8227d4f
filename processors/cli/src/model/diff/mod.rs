//! `afterwrite model diff`: what becomes of what is there when a new model replaces an old one.

mod counting;
mod reading;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use afterwrite::table::{AggregateDescription, Model, ModelDescription, NamedList};
use afterwrite::{Error, ErrorKind, Result};
use clap::Args;
use serde::Serialize;

use crate::print::{align_right, json, new_table, print};

/// The arguments of `afterwrite model diff`.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  afterwrite model diff deployed.toml my-model.toml\n  afterwrite model diff deployed.toml my-model.toml --items attempt=250000\n  afterwrite model diff exambuddy my-model.toml --json | jq .reconcile\n\nExit codes: 0 the new model can replace the old one, 1 something of it needs a decision first."
)]
pub struct DiffArguments {
    /// The model that is deployed: a built-in model's name or the path of a TOML file.
    old: String,
    /// The model that is to replace it.
    new: String,
    /// How many items of an entity there are, for what reconciling them costs. May be said several times.
    #[arg(long, value_name = "ENTITY=COUNT", value_parser = count)]
    items: Vec<(String, u64)>,
    /// Print the differences as one JSON object.
    #[arg(long)]
    json: bool,
}

fn count(written: &str) -> std::result::Result<(String, u64), String> {
    let (entity, count) = written.split_once('=').ok_or("write ENTITY=COUNT")?;
    let count = count.parse().map_err(|_| format!("`{count}` is not a whole number"))?;
    Ok((entity.to_owned(), count))
}

/// What a new model changes.
#[derive(Debug, Default, Serialize)]
pub struct Differences {
    /// What differs, and what follows from it.
    pub changes: Vec<Change>,
    /// The entities whose items must be reconciled for what is derived of them to be right.
    pub reconcile: Vec<Reconciling>,
    /// What is there, belongs to the old model alone, and stays as it is.
    pub orphaned: Vec<String>,
    /// What would go wrong, and what to do first.
    pub problems: Vec<String>,
    /// By entity: what reconciling one of its items may write.
    #[serde(skip)]
    touched: BTreeMap<String, Touched>,
}

/// What reconciling an item may write besides its ledger entry.
#[derive(Debug, Default)]
struct Touched {
    /// Rollups, by their keys as the entity's values make them.
    rollups: BTreeSet<String>,
    /// Rollup and measure, by name.
    measures: BTreeSet<(String, String)>,
}

impl Touched {
    fn add(&mut self, aggregate: &AggregateDescription) {
        self.rollups.extend(aggregate.into.values().cloned());
        self.measures.extend(aggregate.counts().map(|(rollup, measure)| (rollup.clone(), measure.clone())));
    }

    /// In a transaction the entry and every rollup take two units a KB; a copy on an application's item is written outside, at one.
    fn write_units(&self, entity: &str, model: &ModelDescription) -> u64 {
        // Of max and min nobody knows that they have seen a value, so they see it again.
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
pub struct Change {
    /// The part of the model: `aggregate attempts`.
    pub part: String,
    /// What differs: `added`, `removed`, or what of it is another.
    pub change: String,
    /// What follows.
    pub consequence: String,
}

/// What reconciling the items of an entity takes.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct Reconciling {
    /// The entity.
    pub entity: String,
    /// The most that an item may cost, in write units: its ledger entry, every rollup that it joins, leaves or counts otherwise in, and the
    /// copies of what these show, each within 1 KB and in no index. Rollups that items of a batch share are written once for all of them.
    pub write_units_an_item: u64,
    /// How many items there are, if that was said.
    pub items: Option<u64>,
    /// The most that all of them may cost.
    pub write_units: Option<u64>,
}

impl Differences {
    /// What replacing `old` by `new` changes.
    #[must_use]
    pub fn between(old: &Model, new: &Model) -> Self {
        let (old, new) = (old.describe(), new.describe());
        let mut differences = Self::default();
        counting::compare(&old, &new, &mut differences);
        reading::compare(&old, &new, &mut differences);
        let touched = std::mem::take(&mut differences.touched).into_iter();
        differences.reconcile = touched
            .map(|(entity, touched)| Reconciling {
                write_units_an_item: touched.write_units(&entity, &new),
                entity,
                items: None,
                write_units: None,
            })
            .collect();
        let differs = !differences.changes.is_empty();
        if differs && new.generation <= old.generation {
            let generation = old.generation;
            differences.problems.push(format!(
                "The generation must grow with every change: say generation = {} in the new model, so that a function with the old one never undoes it.",
                generation + 1
            ));
        }
        differences
    }

    fn add(&mut self, part: String, change: impl Into<String>, consequence: impl Into<String>) {
        self.changes.push(Change { part, change: change.into(), consequence: consequence.into() });
    }

    /// Items of an entity are to be reconciled, because this of them is counted otherwise.
    fn reconcile(&mut self, entity: &str, aggregate: &AggregateDescription) {
        self.touched.entry(entity.to_owned()).or_default().add(aggregate);
    }

    /// The same, and what it counts into may be other items than before, though their keys are written alike.
    fn moved(&mut self, entity: &str, aggregate: &AggregateDescription) {
        self.reconcile(entity, aggregate);
        let left = aggregate.into.values().map(|key| format!("{key}, as it was"));
        self.touched.entry(entity.to_owned()).or_default().rollups.extend(left);
    }

    fn count(&mut self, items: &[(String, u64)]) -> Result<()> {
        for (entity, count) in items {
            let Some(known) = self.reconcile.iter_mut().find(|known| known.entity == *entity) else {
                let known: Vec<&str> = self.reconcile.iter().map(|known| &*known.entity).collect();
                return Err(Error::new(
                    ErrorKind::Configuration,
                    "the command counts items of an entity that need not be reconciled",
                )
                .with("entity", entity)
                .hint(if known.is_empty() {
                    "Leave --items out: nothing must be reconciled".to_owned()
                } else {
                    format!("To be reconciled are {}", known.join(", "))
                }));
            };
            known.items = Some(*count);
            known.write_units = Some(count.saturating_mul(known.write_units_an_item));
        }
        Ok(())
    }
}

impl DiffArguments {
    /// Prints what changes; says whether the new model can take the old one's place as it is.
    ///
    /// # Errors
    /// A model that does not load; an entity in `--items` that need not be reconciled.
    pub fn run(&self) -> Result<bool> {
        let mut differences = Differences::between(&Model::load(&self.old)?, &Model::load(&self.new)?);
        differences.count(&self.items)?;
        print(&if self.json { json(&differences)? } else { differences.to_string() })?;
        Ok(differences.problems.is_empty())
    }
}

impl fmt::Display for Differences {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.changes.is_empty() {
            return writeln!(f, "Nothing that is derived differs.");
        }
        for Change { part, change, consequence } in &self.changes {
            writeln!(f, "{part}: {change}\n    {consequence}")?;
        }
        if !self.reconcile.is_empty() {
            let mut table = new_table(&["reconcile all items of", "items", "write units an item", "in all"]);
            for known in &self.reconcile {
                let told = |number: Option<u64>| number.map_or_else(String::new, |number| number.to_string());
                let an_item = format!("≤ {}", known.write_units_an_item);
                let in_all = known.write_units.map_or_else(String::new, |number| format!("≤ {number}"));
                table.add_row([&known.entity, &told(known.items), &an_item, &in_all]);
            }
            align_right(&mut table, 1..4);
            writeln!(f, "\n{table}")?;
        }
        for (title, lines) in [("Stays behind", &self.orphaned), ("Decide first", &self.problems)] {
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

/// How a part of a name stands in two models.
enum Compared<'d, T> {
    Added(&'d T),
    Removed(&'d T),
    Changed(&'d T, &'d T),
}

/// The parts that are not the same in both, by name.
fn compared<'d, T: PartialEq>(
    old: &'d NamedList<T>,
    new: &'d NamedList<T>,
) -> Vec<(&'d str, Compared<'d, T>)> {
    let added = new.names().filter(|name| old.get(name).is_none());
    let compared = old.names().chain(added).filter_map(|name| {
        let how = match (old.get(name), new.get(name)) {
            (Some(old), Some(new)) if old == new => return None,
            (Some(old), Some(new)) => Compared::Changed(old, new),
            (Some(old), None) => Compared::Removed(old),
            (None, Some(new)) => Compared::Added(new),
            (None, None) => return None,
        };
        Some((name.as_str(), how))
    });
    compared.collect()
}

/// What differs between two texts.
fn from_to(what: &str, old: &str, new: &str) -> String {
    format!("{what} was {old}, is {new}")
}

#[cfg(test)]
mod tests;
