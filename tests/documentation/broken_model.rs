//! The model of `docs/MODEL.md`, wrong in one place, and what the loader reports about it.

use std::collections::BTreeSet;

use afterwrite_model::table::{Model, ModelProblem};
use serde_json::{Value, json};

/// A key and a value that no model has.
pub(crate) const NONSENSE: &str = "zzzzzz";

/// The words before the loader's lists of known keys.
pub(crate) const BEFORE_KEYS: [&str; 4] =
    ["keys are ", "exactly one of ", "one key, one of ", "values, or one of "];

/// Calls `visit` with a value and every value within it, each with its JSON pointer.
pub(crate) fn each_place(value: &Value, visit: &mut impl FnMut(&str, &Value)) {
    let mut open = vec![(String::new(), value)];
    while let Some((place, value)) = open.pop() {
        visit(&place, value);
        match value {
            Value::Object(members) => open.extend(members.iter().map(|(key, value)| {
                let key = key.replace('~', "~0").replace('/', "~1");
                (format!("{place}/{key}"), value)
            })),
            Value::Array(all) => {
                open.extend(all.iter().enumerate().map(|(index, value)| (format!("{place}/{index}"), value)));
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
}

/// The model with another value in one place.
pub(crate) fn replaced(model: &Value, place: &str, value: Value) -> Value {
    let mut model = model.clone();
    *model.pointer_mut(place).expect("a place of the model") = value;
    model
}

/// The loader's problems of a model.
pub(crate) fn problems(model: &Value) -> Vec<ModelProblem> {
    let Value::Object(sections) = model else { return Model::check("= 1", "model.toml").problems };
    let source: String =
        sections.iter().map(|(key, value)| format!("{} = {}\n", json!(key), inline(value))).collect();
    match Model::parse(&source, "model.toml") {
        Ok(_) => Vec::new(),
        Err(errors) => errors.problems,
    }
}

/// A value as inline TOML, which differs from JSON only in tables.
fn inline(value: &Value) -> String {
    match value {
        Value::Object(members) => {
            let member = |(key, value): (&String, &Value)| format!("{} = {}", json!(key), inline(value));
            format!("{{ {} }}", members.iter().map(member).collect::<Vec<_>>().join(", "))
        }
        Value::Array(all) => format!("[{}]", all.iter().map(inline).collect::<Vec<_>>().join(", ")),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.to_string(),
    }
}

/// The quoted words of a message after the words that introduce a list.
pub(crate) fn listed(message: &str, before: &[&str], quote: char) -> Option<Vec<String>> {
    let begin = before.iter().find_map(|before| message.find(before))?;
    let words = message.get(begin..)?.split(quote).skip(1).step_by(2);
    Some(words.map(str::to_owned).collect())
}

/// Every list of keys in the loader's messages about the model with unknown keys.
pub(crate) fn lists_of_keys(model: &Value) -> BTreeSet<Vec<String>> {
    let mut lists = BTreeSet::new();
    each_place(model, &mut |place, value| {
        let Value::Object(keys) = value else { return };
        let mut with_one_more = keys.clone();
        with_one_more.insert(NONSENSE.to_owned(), json!(1));
        for broken in [Value::Object(with_one_more), json!({ NONSENSE: 1 })] {
            let problems = problems(&replaced(model, place, broken));
            lists.extend(problems.iter().filter_map(|problem| listed(&problem.message, &BEFORE_KEYS, '`')));
        }
    });
    lists
}

/// The model with one change each: another value, a missing key, a misspelt key or an unknown key in one place. Each with a
/// description of the change.
pub(crate) fn variants(model: &Value) -> Vec<(String, Value)> {
    let mut variants = Vec::new();
    each_place(model, &mut |place, value| {
        if place.is_empty() {
            return;
        }
        for other in
            [json!(1), json!(true), json!(NONSENSE), json!([]), json!({}), json!([1]), json!({ NONSENSE: 1 })]
        {
            variants.push((format!("{place} = {other}"), replaced(model, place, other)));
        }
        if let Value::Object(keys) = value {
            variants.extend(without_a_key(model, place, keys));
        }
    });
    variants
}

/// The model without each of an object's keys, with each misspelt, and with an unknown one.
fn without_a_key(model: &Value, place: &str, keys: &serde_json::Map<String, Value>) -> Vec<(String, Value)> {
    let mut variants = Vec::new();
    for (key, value) in keys {
        let mut fewer = keys.clone();
        fewer.remove(key);
        variants
            .push((format!("{place} without {key}"), replaced(model, place, Value::Object(fewer.clone()))));
        fewer.insert(format!("{key}q"), value.clone());
        variants.push((format!("{place} with {key}q"), replaced(model, place, Value::Object(fewer))));
    }
    let mut more = keys.clone();
    more.insert(NONSENSE.to_owned(), json!(1));
    variants.push((format!("{place} with {NONSENSE}"), replaced(model, place, Value::Object(more))));
    variants
}
