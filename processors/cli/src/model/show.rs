//! `afterwrite model show`: the parts of a model, as tables.

use std::fmt;

use afterwrite_deployment::stream_filters::DeploymentDescription;
use afterwrite_model::Result;
use afterwrite_model::table::{Model, ModelDescription, OnMisfit};
use clap::Args;

use super::ModelArgument;
use crate::print::{json, new_table, print};
use crate::result_table::ResultTable;

/// The arguments of `afterwrite model show`.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  afterwrite model show\n  afterwrite model show shop\n  afterwrite model show my-model.toml --json | jq '.aggregates | keys'\n\nExit codes: 0 success, 2 the model has errors or cannot be read."
)]
pub struct ShowArguments {
    #[command(flatten)]
    model: ModelArgument,
    /// Print the model as one JSON object, with the filters of its streams: the description that the Terraform module reads.
    #[arg(long)]
    json: bool,
}

impl ShowArguments {
    /// Prints the model.
    ///
    /// # Errors
    /// A model that does not load.
    pub fn run(&self) -> Result<bool> {
        let model = Model::load(&self.model.name())?;
        let text = if self.json {
            json(&DeploymentDescription::of(&model))?
        } else {
            ModelTables(&model.describe()).to_string()
        };
        print(&text)?;
        Ok(true)
    }
}

/// A description as tables.
struct ModelTables<'d>(&'d ModelDescription);

impl fmt::Display for ModelTables<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ModelDescription { name, generation, archive, rollup_keys, .. } = self.0;
        let keys = if rollup_keys.is_plain() { "" } else { "; keys of rollups: escaped" };
        writeln!(f, "{name}, generation {generation}; archived changes: {}{keys}", archive.name())?;
        let parts = [
            ("Entities", self.entities()),
            ("Times", self.times()),
            ("Lookups", self.lookups()),
            ("Rollups", self.rollups()),
            ("Ranks", self.ranks()),
            ("Measures", self.aggregates()),
            ("Mirrors", self.mirrors()),
            ("Cache rules", self.caches()),
            ("Events", self.events()),
            ("Datasets", self.datasets()),
        ];
        for (title, table) in parts.iter().filter(|(_, table)| !table.is_empty()) {
            write!(f, "\n{title}\n\n{table}\n")?;
        }
        Ok(())
    }
}

impl ModelTables<'_> {
    fn entities(&self) -> ResultTable {
        let mut table = new_table(&["entity", "table", "key", "deleted by TTL", "secret"]);
        for (name, entity) in self.0.entities.iter() {
            let by = entity.ttl.as_ref().map(|ttl| format!(", by {ttl}")).unwrap_or_default();
            let (on_expiry, secret) =
                (format!("{}{by}", entity.on_expiry.description()), entity.secret.join(", "));
            let condition = entity.when.as_ref().map(|when| format!(" where {when}")).unwrap_or_default();
            let unless = match entity.yields_to.as_slice() {
                [] => String::new(),
                preferred => format!(", unless {}", preferred.join(" or ")),
            };
            let key = format!("{}{condition}{unless}", entity.key);
            table.add_row([name, &entity.table, &key, &on_expiry, &secret]);
        }
        table
    }

    fn times(&self) -> ResultTable {
        let mut table = new_table(&["entity", "time", "read as"]);
        for (name, entity) in self.0.entities.iter() {
            for (time, reading) in entity.times.iter() {
                table.add_row([name, time, reading]);
            }
        }
        table
    }

    fn lookups(&self) -> ResultTable {
        let mut table = new_table(&["lookup", "gives", "of the", "found by", "in index"]);
        for (name, lookup) in self.0.lookups.iter() {
            let index = lookup.index.as_deref().unwrap_or("(primary key)");
            table.add_row([name, &lookup.gives.join(", "), &lookup.of, &lookup.key, index]);
        }
        table
    }

    fn rollups(&self) -> ResultTable {
        let mut table = new_table(&["rollup", "PK / SK", "shards", "expires"]);
        for (name, rollup) in self.0.rollups.iter() {
            let shards = if rollup.shards > 1 { rollup.shards.to_string() } else { String::new() };
            table.add_row([name, &rollup.key, &shards, rollup.expires.as_deref().unwrap_or_default()]);
        }
        table
    }

    fn ranks(&self) -> ResultTable {
        let mut table = new_table(&["rollup", "ranked by", "within", "shards", "index of the state table"]);
        for (name, rollup) in self.0.rollups.iter() {
            for (measure, rank) in rollup.rank.iter() {
                let shards = if rank.shards > 1 { rank.shards.to_string() } else { String::new() };
                table.add_row([name, measure, &rank.within, &shards, &format!("rank_{measure}")]);
            }
        }
        table
    }

    fn aggregates(&self) -> ResultTable {
        let mut table = new_table(&["of", "measure", "is", "into"]);
        for aggregate in self.0.aggregates.values() {
            let into = joined(aggregate.into.names());
            let when = aggregate.when.as_ref().map_or_else(String::new, |when| format!("only {when}"));
            table.add_row([&aggregate.of, "", &when, &into]);
            if let Some(elements) = &aggregate.for_each {
                table.add_row(["", "", &format!("for each {elements}"), ""]);
            }
            if !aggregate.optional.is_empty() {
                let optional = format!("where present: {}", aggregate.optional.join(", "));
                table.add_row(["", "", &optional, ""]);
            }
            let misfits = match aggregate.on_misfit {
                OnMisfit::Park => None,
                OnMisfit::Skip => Some("misfits are skipped"),
                OnMisfit::Fail => Some("misfits fail"),
            };
            if let Some(misfits) = misfits {
                table.add_row(["", "", misfits, ""]);
            }
            for (name, measure) in aggregate.measures.iter() {
                table.add_row(["", name, &measure.text, ""]);
            }
        }
        table
    }

    fn mirrors(&self) -> ResultTable {
        let mut table = new_table(&["attribute", "shows", "of rollup"]);
        for (attribute, mirror) in self.0.mirrors.iter() {
            table.add_row([attribute, &mirror.measure, &mirror.source()]);
        }
        table
    }

    fn caches(&self) -> ResultTable {
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

    fn events(&self) -> ResultTable {
        let mut table = new_table(&["event", "of", "on", "when", "states", "to"]);
        for (name, rule) in self.0.events.iter() {
            let (on, states) = match rule.on {
                Some(on) => (on.name(), rule.detail.join(", ")),
                None => ("every change", "the change record".to_owned()),
            };
            let when = rule.when.as_deref().unwrap_or_default();
            table.add_row([name, &rule.of, on, when, &states, rule.to.as_deref().unwrap_or_default()]);
        }
        table
    }

    fn datasets(&self) -> ResultTable {
        let mut table = new_table(&["dataset", "of", "partition", "columns"]);
        for (name, dataset) in self.0.datasets.iter() {
            let columns = joined(dataset.columns.names());
            let of = match &dataset.when {
                None => dataset.of.clone(),
                Some(when) => format!("{} where {when}", dataset.of),
            };
            table.add_row([name, &of, &dataset.partition, &columns]);
        }
        table
    }
}

fn joined<'n>(names: impl Iterator<Item = &'n String>) -> String {
    names.map(String::as_str).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_of_every_built_in_model_is_shown() {
        for name in Model::built_in_names() {
            let model = Model::load(name).unwrap();
            let shown = ModelTables(&model.describe()).to_string();
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
    fn empty_sections_are_left_out() {
        let model =
            "name = \"t\"\ngeneration = 1\ntables.t.key = [\"pk\"]\n[entities.e]\nkey = { pk = \"E#{e}\" }\n";
        let model = Model::parse(model, "t.toml").unwrap();
        let shown = ModelTables(&model.describe()).to_string();
        assert!(shown.contains("Entities") && !shown.contains("Measures"), "{shown}");
    }
}
