//! `afterwrite model show`: what is derived from what.

use std::fmt;

use afterwrite::Result;
use afterwrite::table::Model;
use clap::Args;
use comfy_table::Table;

use super::ModelArgument;
use super::description::Description;
use crate::print::{json, new_table, print};

/// The arguments of `afterwrite model show`.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  afterwrite model show\n  afterwrite model show shop\n  afterwrite model show my-model.toml --json | jq '.aggregates | keys'"
)]
pub struct ShowArguments {
    #[command(flatten)]
    model: ModelArgument,
    /// Print the model as one JSON object.
    #[arg(long)]
    json: bool,
}

impl ShowArguments {
    /// Prints the model.
    ///
    /// # Errors
    /// A model that does not load.
    pub fn run(&self) -> Result<bool> {
        let description = Description::of(&Model::load(&self.model.name())?);
        print(&if self.json { json(&description)? } else { Shown(&description).to_string() })?;
        Ok(true)
    }
}

/// A description as tables.
struct Shown<'d>(&'d Description);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Description { name, generation, archive, .. } = self.0;
        writeln!(f, "{name}, generation {generation}; the archive gets {archive} changes")?;
        let parts = [
            ("What items are", self.entities()),
            ("What is looked up", self.lookups()),
            ("What holds the numbers", self.rollups()),
            ("What is counted", self.aggregates()),
            ("What items show", self.mirrors()),
            ("What becomes stale", self.caches()),
            ("What analysts ask", self.datasets()),
        ];
        for (title, table) in parts.iter().filter(|(_, table)| !table.is_empty()) {
            write!(f, "\n{title}\n\n{table}\n")?;
        }
        Ok(())
    }
}

impl Shown<'_> {
    fn entities(&self) -> Table {
        let mut table = new_table(&["entity", "table", "key", "when TTL takes it", "secret"]);
        for (name, entity) in &self.0.entities {
            let on_expiry = match entity.on_expiry {
                "keep" => "stays counted",
                _ => "is subtracted",
            };
            table.add_row([name, &entity.table, &entity.key, on_expiry, &entity.secret.join(", ")]);
        }
        table
    }

    fn lookups(&self) -> Table {
        let mut table = new_table(&["lookup", "gives", "of the", "found by", "in index"]);
        for (name, lookup) in &self.0.lookups {
            table.add_row([name, &lookup.gives.join(", "), &lookup.of, &lookup.key, &lookup.index]);
        }
        table
    }

    fn rollups(&self) -> Table {
        let mut table = new_table(&["rollup", "PK / SK", "shards", "expires"]);
        for (name, rollup) in &self.0.rollups {
            let shards = if rollup.shards > 1 { rollup.shards.to_string() } else { String::new() };
            table.add_row([name, &rollup.key, &shards, rollup.expires.as_deref().unwrap_or_default()]);
        }
        table
    }

    fn aggregates(&self) -> Table {
        let mut table = new_table(&["of", "measure", "is", "into"]);
        for aggregate in self.0.aggregates.values() {
            let into = aggregate.into.keys().cloned().collect::<Vec<_>>().join(", ");
            let when = aggregate.when.as_ref().map_or_else(String::new, |when| format!("only {when}"));
            table.add_row([&aggregate.of, "", &when, &into]);
            for (measure, how) in &aggregate.measures {
                table.add_row(["", measure, how, ""]);
            }
        }
        table
    }

    fn mirrors(&self) -> Table {
        let mut table = new_table(&["attribute", "shows", "of rollup"]);
        for (attribute, mirror) in &self.0.mirrors {
            table.add_row([attribute, &mirror.measure, &mirror.rollup]);
        }
        table
    }

    fn caches(&self) -> Table {
        let mut table = new_table(&["of", "key or path", "remedy", "when"]);
        for rule in &self.0.caches {
            let depends_on = match rule.depends_on.as_slice() {
                [] => String::new(),
                attributes => format!("{} changes", attributes.join(", ")),
            };
            let conditions: Vec<&str> = [rule.when.as_deref(), Some(&*depends_on)]
                .into_iter()
                .flatten()
                .filter(|part| !part.is_empty())
                .collect();
            let when = conditions.join(" and ");
            for key in &rule.keys {
                table.add_row([&rule.of, key, &rule.remedy, &when]);
            }
            for path in &rule.paths {
                table.add_row([&rule.of, path, "CloudFront", &when]);
            }
        }
        table
    }

    fn datasets(&self) -> Table {
        let mut table = new_table(&["dataset", "of", "partition", "columns"]);
        for (name, dataset) in &self.0.datasets {
            let columns = dataset.columns.keys().cloned().collect::<Vec<_>>().join(", ");
            table.add_row([name, &dataset.of, &dataset.partition, &columns]);
        }
        table
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_of_every_built_in_model_is_shown() {
        for name in Model::built_in_names() {
            let model = Model::load(name).unwrap();
            let shown = Shown(&Description::of(&model)).to_string();
            let names = model.entities.iter().map(|entity| &entity.name);
            let names = names.chain(model.rollups.iter().map(|rollup| &rollup.name));
            let names = names.chain(model.lookups.iter().map(|lookup| &lookup.name));
            let names = names.chain(model.datasets.iter().map(|dataset| &dataset.name));
            let measures = model.aggregates.iter().flat_map(|aggregate| &aggregate.measures);
            for name in names.chain(measures.map(|measure| &measure.name)) {
                assert!(shown.contains(&**name), "{name} is not in\n{shown}");
            }
        }
    }

    #[test]
    fn what_a_model_lacks_is_left_out() {
        let model =
            "name = \"t\"\ngeneration = 1\ntables.t.key = [\"pk\"]\n[entities.e]\nkey = { pk = \"E#{e}\" }\n";
        let model = Model::parse(model, "t.toml").unwrap();
        let shown = Shown(&Description::of(&model)).to_string();
        assert!(shown.contains("What items are") && !shown.contains("What is counted"), "{shown}");
    }
}
