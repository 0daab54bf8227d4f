//! The JSON Schema of model files (draft 2020-12), with which editors complete, describe and check keys.
//!
//! ```text
//! the loader's lists    KEYS of each part, NamedValue::NAMES, MeasureFunction::settings, sections
//!    │ sections, parts, measures, conditions: the description and the form of each key's value
//!    ▼
//! forms                 objects that allow these keys and no others
//! ```
//!
//! Every key that the loader knows is in the schema. A key that has no description yet allows every value, and a test names it.
//! The schema checks names, types and words; only the loader knows whether the parts fit together.

mod conditions;
mod forms;
mod measures;
mod parts;
mod sections;

use serde_json::{Value, json};

use self::forms::closed_object;
use super::Model;
use super::load::sections::SECTIONS;

/// The dialect of the schema.
const DIALECT: &str = "https://json-schema.org/draft/2020-12/schema";

impl Model {
    /// The JSON Schema (draft 2020-12) of model files. TOML is validated as the JSON value with the same content.
    #[must_use]
    pub fn json_schema() -> Value {
        let keys = SECTIONS.map(|(name, _)| name);
        let mut schema =
            closed_object("A table model of Afterwrite; docs/MODEL.md is its reference.", &keys, |key| {
                sections::section(key)
            });
        if let Some(schema) = schema.as_object_mut() {
            schema.insert("$schema".to_owned(), json!(DIALECT));
            schema.insert("title".to_owned(), json!("Afterwrite table model"));
            schema.insert("$defs".to_owned(), json!({ "condition": conditions::condition() }));
        }
        schema
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The objects of the schema that list their keys, each with its JSON pointer.
    fn each_object(
        value: &Value,
        place: &str,
        visit: &mut impl FnMut(&str, &serde_json::Map<String, Value>),
    ) {
        match value {
            Value::Object(members) => {
                if let Some(properties) = members.get("properties").and_then(Value::as_object) {
                    visit(place, properties);
                }
                members.iter().for_each(|(key, value)| each_object(value, &format!("{place}/{key}"), visit));
            }
            Value::Array(all) => {
                all.iter().for_each(|value| each_object(value, place, visit));
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }

    #[test]
    fn the_file_of_the_documentation_is_the_schema() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/model.schema.json");
        let file = std::fs::read_to_string(path).unwrap();
        let current = serde_json::to_string_pretty(&Model::json_schema()).unwrap();
        let remedy = "run `cargo run --bin afterwrite -- model schema --out docs/model.schema.json`";
        assert!(file == format!("{current}\n"), "docs/model.schema.json is not up to date: {remedy}");
    }

    #[test]
    fn every_key_has_a_description_that_ends_as_a_sentence() {
        let mut missing = Vec::new();
        let mut count = 0;
        each_object(&Model::json_schema(), "", &mut |place, properties| {
            for (key, property) in properties {
                count += 1;
                let about = property.get("description").and_then(Value::as_str);
                if !about.is_some_and(|about| about.ends_with('.')) {
                    missing.push(format!("{place}/{key}"));
                }
            }
        });
        assert!(count > 60, "{count} keys");
        assert!(missing.is_empty(), "describe these keys in common/model/src/table/schema/: {missing:#?}");
    }
}
