//! Names of the model that differ only in signs which a logical id cannot have: they would be one resource.

use std::collections::BTreeMap;

use afterwrite_model::table::Model;
use afterwrite_model::{Error, ErrorKind, Result};

use super::lake;
use super::logical_ids::logical;

/// Refuses a model in which two names of one kind are one logical id. The state table as a source is `State`; the target of event rules without
/// `to` has no name.
///
/// # Errors
/// [`ErrorKind::Configuration`] with both names.
pub(super) fn require_distinct(model: &Model) -> Result<()> {
    let tables = model.tables.iter().map(|table| table.name.to_string());
    let targets = model.event_targets().into_iter().map(|to| to.as_deref().unwrap_or_default().to_owned());
    let hint_of_table = "Rename one of them in the model; its deployed name is part of the stream's ARN";
    let hint = "Rename one of them in the model";
    require_distinct_names("tables", tables.collect(), hint_of_table)?;
    require_distinct_names("datasets", lake::table_names(model), hint)?;
    require_distinct_names(
        "saved queries",
        lake::saved_queries(model).map(|(name, _)| name).collect(),
        hint,
    )?;
    require_distinct_names("targets of events", targets.collect(), hint)
}

fn require_distinct_names(kind: &'static str, names: Vec<String>, hint: &'static str) -> Result<()> {
    let mut known = BTreeMap::new();
    for name in &names {
        if let Some(other) = known.insert(logical(name), name) {
            let message = format!(
                "two {kind} have the same name in CloudFormation, which allows only letters and digits"
            );
            let error = Error::new(ErrorKind::Configuration, message);
            return Err(error.with("names", format!("`{other}`, `{name}`")).hint(hint));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_are_one_logical_id_are_refused() {
        let problem = |parts: &str| {
            let model = format!(
                "name = \"m\"\ngeneration = 1\ntables.t.key = [\"pk\"]\nentities.e.key = {{ pk = \"E#{{id}}\" }}\n{parts}"
            );
            let model = Model::parse(&model, "m.toml").unwrap_or_else(|problems| panic!("{problems}"));
            require_distinct(&model).map_or_else(|error| error.to_string(), |()| String::new())
        };
        let event = |name: &str, to: &str| format!("[[events]]\nname = \"{name}\"\nof = \"e\"\n{to}\n");
        let dataset = |name: &str| {
            format!(
                "[datasets.{name}]\nof = \"e\"\npartition = \"at:day\"\ncolumns = {{ id = \"string\" }}\n"
            )
        };
        let at = "entities.e.attributes = { at = \"S\" }\n";
        for (parts, expected) in [
            (event("a", "to = \"x_y\"") + &event("b", "to = \"x__y\""), "two targets of events"),
            (event("a", "") + &event("b", "to = \"_\""), "two targets of events"),
            (event("a", "to = \"x\"") + &event("b", "to = \"y\""), ""),
            (at.to_owned() + &dataset("a_b") + &dataset("a__b"), "two datasets"),
            (at.to_owned() + &dataset("a") + &dataset("b"), ""),
        ] {
            let problem = problem(&parts);
            assert_eq!(problem.is_empty(), expected.is_empty(), "{parts}: {problem}");
            assert!(problem.contains(expected), "{parts}: {problem}");
        }
    }
}
