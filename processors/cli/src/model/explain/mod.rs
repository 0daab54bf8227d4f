//! `afterwrite model explain`: the entity of an item, and everything that follows from it.

mod consequences;
mod events;
mod item;
mod left_out;
mod summary;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use afterwrite_ledger::state::{EXPIRES_AT, PARTITION_KEY, SORT_KEY};
use afterwrite_model::Result;
use afterwrite_model::harmless::harmless;
use afterwrite_model::table::Model;
use clap::Args;
use serde::Serialize;

use self::consequences::{Consequences, DatasetRow, LeftOut, LookupResult, LookupValues, consequences};
use self::events::ItemEvent;
use self::item::ItemFile;
pub(crate) use self::summary::ItemSummary;
use super::ModelArgument;
use crate::arguments::{pair, unknown};
use crate::print::{json, new_table, print};
use crate::result_table::ResultTable;

/// The arguments of `afterwrite model explain`.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  afterwrite model explain my-model.toml --item item.json\n  afterwrite model explain --item item.json --given admin_id=a-1 --json\n  aws dynamodb get-item --table-name ExamBuddyTable --key file://key.json |\n    afterwrite model explain --item -\n\nExit codes: 0 explained, 1 the item matches no entity or cannot be counted."
)]
pub struct ExplainArguments {
    #[command(flatten)]
    model: ModelArgument,
    /// A file with the item as one JSON object, plain or as `aws dynamodb get-item` prints it; - is standard input.
    #[arg(long, value_name = "FILE")]
    item: String,
    /// The item's table in the model; default: every table that has such a key.
    #[arg(long, value_name = "NAME")]
    table: Option<String>,
    /// The output of a lookup; default: the output's name in angle brackets. Can be repeated.
    #[arg(long, value_name = "NAME=VALUE", value_parser = pair)]
    given: Vec<(String, String)>,
    /// Print the result as one JSON object.
    #[arg(long)]
    json: bool,
}

/// The item in each table in which it matches an entity.
#[derive(Debug, Serialize)]
struct Explanation {
    items: Vec<Consequences>,
    /// The entities and their keys, if the item matches no entity.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    none_of: Vec<(String, String)>,
}

impl ExplainArguments {
    /// Prints the consequences of the item; returns whether the item matches an entity and its record would be processed.
    ///
    /// # Errors
    /// A model that does not load, a table or lookup that it does not have, an item that cannot be read.
    pub fn run(&self) -> Result<bool> {
        let model = Arc::new(Model::load(&self.model.name())?);
        let item = ItemFile::read(&self.item)?;
        let explanation = self.explain(&model, &item)?;
        print(&if self.json { json(&explanation)? } else { explanation.to_string() })?;
        let is_sound = |item: &Consequences| item.problems.is_empty();
        Ok(!explanation.items.is_empty() && explanation.items.iter().all(is_sound))
    }

    fn explain(&self, model: &Arc<Model>, item: &ItemFile) -> Result<Explanation> {
        let given: BTreeMap<String, String> = self.given.iter().cloned().collect();
        for name in given.keys() {
            let known = || model.lookups.iter().flat_map(|lookup| &lookup.outputs);
            if !known().any(|output| **output == **name) {
                let known = known().map(|output| &**output);
                return Err(unknown("a value that is not the output of a lookup", name, known));
            }
        }
        let names = || model.tables.iter().map(|table| &*table.name);
        if let Some(name) = &self.table
            && !names().any(|known| known == name)
        {
            return Err(unknown("a table that the model does not have", name, names()));
        }
        let (given, mut items) = (LookupValues::of(model, &given), Vec::new());
        for (index, table) in model.tables.iter().enumerate() {
            if self.table.as_ref().is_none_or(|name| **name == *table.name) {
                items.extend(consequences(model, index, item, &given)?);
            }
        }
        let none_of = if items.is_empty() { keys(model) } else { Vec::new() };
        Ok(Explanation { items, none_of })
    }
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
            let mut table = new_table(&["entity", "table and key"]);
            for (name, key) in &self.none_of {
                table.add_row([name, key]);
            }
            writeln!(f, "The item matches no entity. The keys of the entities:\n\n{table}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Consequences {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key: Vec<String> = self.key.iter().map(|(name, value)| format!("{name} = {value}")).collect();
        writeln!(f, "{} of {}: {}", self.entity, self.table, harmless(&key.join(", ")))?;
        for problem in &self.problems {
            writeln!(f, "\nIt cannot be counted: {}", harmless(problem))?;
        }
        if self.skipped > 0 {
            let aggregates = if self.skipped == 1 { "aggregate leaves" } else { "aggregates leave" };
            writeln!(
                f,
                "\n{} {aggregates} it out, because it does not fit (on_misfit = \"skip\")",
                self.skipped
            )?;
        }
        let parts = [
            ("Contributions", self.counted_table()),
            ("Left out by a condition", self.left_out_table()),
            ("Lookups", lookup_table(&self.asks)),
            ("Outputs for items that look it up", lookup_table(&self.answers)),
            ("Mirrored attributes", self.shown_table()),
            ("Stale cache keys and paths when it changes", self.stale_table()),
            ("Events when it is created", self.event_table()),
        ];
        for (title, table) in parts.iter().filter(|(_, table)| !table.is_empty()) {
            write!(f, "\n{title}\n\n{table}\n")?;
        }
        for note in &self.notes {
            writeln!(f, "\nNote: {note}")?;
        }
        self.rows.iter().try_for_each(|row| write!(f, "{row}"))?;
        if !self.secret.is_empty() {
            writeln!(f, "\nNever leaves the table: {}", self.secret.join(", "))?;
        }
        Ok(())
    }
}

impl fmt::Display for DatasetRow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { dataset, dt, has_no_day, day_of, columns, rescued } = self;
        let mut table = new_table(&[]);
        for (column, value) in columns.iter() {
            let mark = match rescued.get(column).map(String::as_str) {
                None => String::new(),
                Some("null") => "required, and missing".to_owned(),
                Some(value) => format!("does not fit: {value} goes to _rescued"),
            };
            table.add_row([column.as_str(), value.as_deref().unwrap_or("NULL"), &mark]);
        }
        write!(f, "\nRow of dataset {dataset}, dt = {dt}\n\n{table}\n")?;
        if *has_no_day {
            writeln!(f, "{day_of} has no day: the row is in the partition of rows without a day")?;
        }
        Ok(())
    }
}

impl Consequences {
    fn counted_table(&self) -> ResultTable {
        let mut table = new_table(&[PARTITION_KEY, SORT_KEY, "measure", ""]);
        for counted in &self.counted {
            for (index, (measure, number)) in counted.measures.iter().enumerate() {
                let (partition, sort) =
                    if index == 0 { (&*counted.partition, &*counted.sort) } else { ("", "") };
                table.add_row([partition, sort, measure, number]);
            }
            if let Some(expires_at) = counted.expires_at {
                table.add_row(["", "", EXPIRES_AT, &expires_at.to_string()]);
            }
        }
        table
    }

    fn left_out_table(&self) -> ResultTable {
        let mut table = new_table(&["part", "needs", "the item"]);
        for LeftOut { part, needs, found } in &self.left_out {
            table.add_row([part, needs, found]);
        }
        table
    }

    fn shown_table(&self) -> ResultTable {
        let mut table = new_table(&["attribute", "measure", "rollup PK", "rollup SK"]);
        for shown in &self.shows {
            table.add_row([&shown.attribute, &shown.measure, &shown.partition, &shown.sort]);
        }
        table
    }

    fn event_table(&self) -> ResultTable {
        let mut table = new_table(&["event", "to", "states"]);
        for ItemEvent { name, to, detail } in &self.events {
            let states = detail.as_ref().map_or("the change record", |detail| detail.get());
            table.add_row([name, to.as_deref().unwrap_or("(default target)"), states]);
        }
        table
    }

    fn stale_table(&self) -> ResultTable {
        let mut table = new_table(&["key or path", "remedy"]);
        for stale in &self.stale_keys {
            table.add_row([&stale.key, &stale.remedy]);
        }
        for path in &self.stale_paths {
            table.add_row([path, "CloudFront"]);
        }
        table
    }
}

fn lookup_table(results: &[LookupResult]) -> ResultTable {
    let mut table = new_table(&["lookup", "key", "outputs"]);
    for LookupResult { lookup, by, gives } in results {
        let outputs: Vec<String> = gives.iter().map(|(name, value)| format!("{name} = {value}")).collect();
        table.add_row([lookup, by, &outputs.join(", ")]);
    }
    table
}

#[cfg(test)]
mod tests;
