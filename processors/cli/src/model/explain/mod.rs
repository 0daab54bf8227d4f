//! `afterwrite model explain`: the entity of an item, and everything that follows from it.

mod item;
mod text;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use afterwrite_model::Result;
use afterwrite_model::entity::SourceKey;
use afterwrite_model::harmless::harmless;
use afterwrite_model::projection::{ItemContributions, RollupTargets};
use afterwrite_model::table::Model;
use afterwrite_preview::explain::{Consequences, LookupValues, consequences};
use clap::Args;
use serde::Serialize;

use self::item::ItemFile;
use self::text::ItemText;
use super::ModelArgument;
use crate::arguments::{pair, unknown};
use crate::print::{json, new_table, print};

/// The arguments of `afterwrite model explain`.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  afterwrite model explain my-model.toml --item item.json\n  afterwrite model explain --item item.json --given admin_id=a-1 --json\n  aws dynamodb get-item --table-name ExamBuddyTable --key file://key.json |\n    afterwrite model explain --item -\n\nExit codes: 0 explained, 1 the item matches no entity or cannot be counted, 2 wrong usage or an unreadable item or model."
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
    /// The nearest of these keys in each table, with the part that does not fit.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    nearest: Vec<String>,
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
                let nothing = (&ItemContributions::NOTHING, &mut RollupTargets::of(model));
                items.extend(consequences(model, index, item.json(), &given, nothing)?);
            }
        }
        if !items.is_empty() {
            return Ok(Explanation { items, none_of: Vec::new(), nearest: Vec::new() });
        }
        let tables = model.tables.iter().enumerate();
        let tables = tables.filter(|(_, table)| self.table.as_ref().is_none_or(|name| **name == *table.name));
        let nearest = tables.filter_map(|(index, _)| {
            let nearest = model.nearest_key(&SourceKey::of_item(model, index, item.values())?)?;
            Some(format!("`{}` of {}: {}", nearest.attribute, nearest.entity, nearest.reason))
        });
        Ok(Explanation { items, none_of: keys(model), nearest: nearest.collect() })
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
            write!(f, "{}{}", if index == 0 { "" } else { "\n" }, ItemText(item))?;
        }
        if self.items.is_empty() {
            let mut table = new_table(&["entity", "table and key"]);
            for (name, key) in &self.none_of {
                table.add_row([name, key]);
            }
            writeln!(f, "The item matches no entity. The keys of the entities:\n\n{table}")?;
            for nearest in &self.nearest {
                writeln!(f, "\nThe nearest key does not fit in {}", harmless(nearest))?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
