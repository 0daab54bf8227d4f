//! `afterwrite model explain`: what an item is, and everything that would follow from it.

mod consequences;
mod item;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use afterwrite::table::Model;
use afterwrite::{Error, ErrorKind, Result};
use clap::Args;
use comfy_table::Table;
use serde::Serialize;

use self::consequences::{Asked, Consequences, Given, consequences};
use self::item::WrittenItem;
use super::{ModelArgument, fitted_table};
use crate::print::{json, print};

/// The arguments of `afterwrite model explain`.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  afterwrite model explain my-model.toml --item item.json\n  afterwrite model explain --item item.json --given admin_id=a-1 --json\n  aws dynamodb get-item --table-name ExamBuddyTable --key file://key.json | afterwrite model explain --item -\n\nExit codes: 0 explained, 1 the item is of no entity or its record would fail."
)]
pub struct ExplainArguments {
    #[command(flatten)]
    model: ModelArgument,
    /// A file that holds the item as one JSON object, plainly or as `aws dynamodb get-item` prints it; - is standard input.
    #[arg(long, value_name = "FILE")]
    item: String,
    /// The item's table, as the model names it; without it, every table that has such a key.
    #[arg(long, value_name = "NAME")]
    table: Option<String>,
    /// What a lookup gives (its name, =, its value); else the name stands in its place. May be said several times.
    #[arg(long, value_name = "NAME=VALUE", value_parser = output)]
    given: Vec<(String, String)>,
    /// Print what follows as one JSON object.
    #[arg(long)]
    json: bool,
}

fn output(written: &str) -> std::result::Result<(String, String), String> {
    let (name, value) = written.split_once('=').ok_or("write NAME=VALUE")?;
    Ok((name.to_owned(), value.to_owned()))
}

/// What the item is in each table in which it is something.
#[derive(Debug, Serialize)]
struct Explanation {
    items: Vec<Consequences>,
    /// The entities that were compared with it, and their keys: if it is none of them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    none_of: Vec<(String, String)>,
}

impl ExplainArguments {
    /// Prints what follows; says whether the item is of an entity and its record would be processed.
    ///
    /// # Errors
    /// A model that does not load, a table or lookup that it does not have, an item that cannot be read or is none.
    pub fn run(&self) -> Result<bool> {
        let model = Arc::new(Model::load(&self.model.name())?);
        let item = WrittenItem::read(&self.item)?;
        let explanation = self.explain(&model, &item)?;
        print(&if self.json { json(&explanation)? } else { explanation.to_string() })?;
        let is_sound = |item: &Consequences| item.problems.is_empty();
        Ok(!explanation.items.is_empty() && explanation.items.iter().all(is_sound))
    }

    fn explain(&self, model: &Arc<Model>, item: &WrittenItem) -> Result<Explanation> {
        let given: BTreeMap<String, String> = self.given.iter().cloned().collect();
        for name in given.keys() {
            let known = || model.lookups.iter().flat_map(|lookup| &lookup.outputs);
            if !known().any(|output| **output == **name) {
                return Err(unknown("what no lookup gives", name, known().map(|output| &**output)));
            }
        }
        let names = || model.tables.iter().map(|table| &*table.name);
        if let Some(name) = &self.table
            && !names().any(|known| known == name)
        {
            return Err(unknown("a table that the model does not have", name, names()));
        }
        let (given, mut items) = (Given::of(model, &given), Vec::new());
        for (index, table) in model.tables.iter().enumerate() {
            if self.table.as_ref().is_none_or(|name| **name == *table.name) {
                items.extend(consequences(model, index, item, &given)?);
            }
        }
        let none_of = if items.is_empty() { keys(model) } else { Vec::new() };
        Ok(Explanation { items, none_of })
    }
}

fn unknown<'n>(what: &str, name: &str, known: impl Iterator<Item = &'n str>) -> Error {
    let known: Vec<&str> = known.collect();
    let remedy = if known.is_empty() {
        "The model has none".to_owned()
    } else {
        format!("Known are {}", known.join(", "))
    };
    Error::new(ErrorKind::Configuration, format!("the command names {what}")).with("name", name).hint(remedy)
}

fn keys(model: &Model) -> Vec<(String, String)> {
    let entities = model.describe().entities;
    entities
        .iter()
        .map(|(name, entity)| (name.clone(), format!("{}: {}", entity.table, entity.key)))
        .collect()
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, item) in self.items.iter().enumerate() {
            write!(f, "{}{item}", if index == 0 { "" } else { "\n" })?;
        }
        if self.items.is_empty() {
            let mut table = fitted_table(&["entity", "table and key"]);
            for (name, key) in &self.none_of {
                table.add_row([name, key]);
            }
            writeln!(f, "The item is of no entity: its key is like none of these.\n\n{table}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Consequences {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key: Vec<String> = self.key.iter().map(|(name, value)| format!("{name} = {value}")).collect();
        writeln!(f, "{} of {}: {}", self.entity, self.table, key.join(", "))?;
        for problem in &self.problems {
            writeln!(f, "\nIts record would fail: {problem}")?;
        }
        let parts = [
            ("Is counted", self.counted_table()),
            ("Looks up, once and for ever", asked(&self.asks)),
            ("Tells those who look it up", asked(&self.answers)),
            ("Shows", self.shown_table()),
            ("Makes stale, when it changes", self.stale_table()),
        ];
        for (title, table) in parts.iter().filter(|(_, table)| !table.is_empty()) {
            write!(f, "\n{title}\n\n{table}\n")?;
        }
        for row in &self.rows {
            let mut table = fitted_table(&[]);
            for (column, value) in row.columns.iter() {
                table.add_row([column.as_str(), value.as_deref().unwrap_or("NULL")]);
            }
            write!(f, "\nIs a row of dataset {}, dt = {}\n\n{table}\n", row.dataset, row.dt)?;
        }
        if !self.secret.is_empty() {
            writeln!(f, "\nNever leaves the table: {}", self.secret.join(", "))?;
        }
        Ok(())
    }
}

impl Consequences {
    fn counted_table(&self) -> Table {
        let mut table = fitted_table(&["PK", "SK", "measure", ""]);
        for counted in &self.counted {
            for (index, (measure, number)) in counted.measures.iter().enumerate() {
                let (partition, sort) =
                    if index == 0 { (&*counted.partition, &*counted.sort) } else { ("", "") };
                table.add_row([partition, sort, measure, number]);
            }
            if let Some(expires_at) = counted.expires_at {
                table.add_row(["", "", "expires_at", &expires_at.to_string()]);
            }
        }
        table
    }

    fn shown_table(&self) -> Table {
        let mut table = fitted_table(&["attribute", "is", "of the rollup's PK", "SK"]);
        for shown in &self.shows {
            table.add_row([&shown.attribute, &shown.measure, &shown.partition, &shown.sort]);
        }
        table
    }

    fn stale_table(&self) -> Table {
        let mut table = fitted_table(&["key or path", "remedy"]);
        for stale in &self.stale_keys {
            table.add_row([&stale.key, &stale.remedy]);
        }
        for path in &self.stale_paths {
            table.add_row([path, "CloudFront"]);
        }
        table
    }
}

fn asked(asked: &[Asked]) -> Table {
    let mut table = fitted_table(&["lookup", "by", "gives"]);
    for Asked { lookup, by, gives } in asked {
        let gives: Vec<String> = gives.iter().map(|(name, value)| format!("{name} = {value}")).collect();
        table.add_row([lookup, by, &gives.join(", ")]);
    }
    table
}

#[cfg(test)]
mod tests;
