//! The examples of `docs/MODEL.md` are one model that loads, and they show every key and value that a model can have. (The test
//! `models` checks the results that the page shows for its items.)
//!
//! The loader lists the known keys and values: the test breaks the page's model in one place after the other, and reads the lists in
//! the loader's messages. A key that is new in the loader therefore fails the test until the page has an example of it.

use std::collections::{BTreeMap, BTreeSet};

use afterwrite::table::Model;
use afterwrite_tests::page;
use serde_json::{Value, json};

const PAGE: &str = include_str!("../../docs/MODEL.md");

/// A key and a value that no model has.
const NONSENSE: &str = "zzzzzz";

/// A key that the loader accepts with a warning, and the page does not show.
const RETIRED_KEY: &str = "days";

/// The words before the loader's lists of known keys.
const BEFORE_KEYS: [&str; 4] = ["keys are ", "exactly one of ", "one key, one of ", "values, or one of "];

/// The words before the loader's lists of known values.
const BEFORE_VALUES: [&str; 4] = ["types are `", "a column is `", "attribute is `", "must be `"];

#[test]
fn the_examples_of_the_models_page_are_one_model_that_loads() {
    let model = Model::parse(&page::model(PAGE), "docs/MODEL.md").unwrap_or_else(|errors| panic!("{errors}"));
    assert_eq!(&*model.name, "exams");
    assert_eq!((model.tables.len(), model.entities.len(), model.aggregates.len()), (2, 3, 4));
}

#[test]
fn every_key_of_a_model_has_an_example() {
    // For each of the loader's lists of keys: the keys that examples have in the places where the loader gives this list.
    let mut shown: BTreeMap<Vec<String>, BTreeSet<String>> = BTreeMap::new();
    each_place(&model(), &mut |place, value| {
        let Value::Object(keys) = value else { return };
        let mut with_one_more = keys.clone();
        with_one_more.insert(NONSENSE.to_owned(), json!(1));
        for broken in [Value::Object(with_one_more), json!({ NONSENSE: 1 }), json!({})] {
            for message in messages(place, broken) {
                if let Some(known) = listed(&message, &BEFORE_KEYS, '`') {
                    shown.entry(known).or_default().extend(keys.keys().cloned());
                }
            }
        }
    });
    // The file, its ten sections, and the tables within them: derived values, expiry, measures (in general, and of six kinds),
    // matchers, exclusions, a tombstone, a column.
    let kinds = shown.len();
    assert!(kinds >= 23, "the loader lists the keys of only {kinds} kinds of places: {:?}", shown.keys());
    for (known, shown) in shown {
        let is_missing = |key: &&String| !shown.contains(*key) && **key != RETIRED_KEY;
        let missing: Vec<&String> = known.iter().filter(is_missing).collect();
        assert!(missing.is_empty(), "the page has no example of {missing:?}, of the keys {known:?}");
    }
}

#[test]
fn every_value_of_a_setting_is_named() {
    let mut lists = BTreeSet::new();
    each_place(&model(), &mut |place, value| {
        if value.is_string() {
            let lists_of = |message: &String| -> Option<Vec<String>> {
                let message = message
                    .split("; ")
                    .find(|part| BEFORE_VALUES.iter().any(|words| part.contains(words)))?;
                listed(message, &BEFORE_VALUES, '`').filter(|values| !values.is_empty())
            };
            lists.extend(messages(place, json!(NONSENSE)).iter().filter_map(lists_of));
        }
    });
    // The types of attributes and of columns, archive scopes, the treatment of expired items, cache remedies, row histories.
    assert!(lists.len() >= 6, "{lists:?}");
    for value in lists.into_iter().flatten() {
        let is_named = PAGE.contains(&format!("`{value}`")) || PAGE.contains(&format!("\"{value}\""));
        assert!(is_named, "the page does not name {value}");
    }
}

/// The model of the page's examples.
fn model() -> Value {
    toml::from_str(&page::model(PAGE)).unwrap_or_else(|error| panic!("{error}"))
}

/// Calls `visit` with a value and every value within it, each with its JSON pointer.
fn each_place(value: &Value, visit: &mut impl FnMut(&str, &Value)) {
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

/// The loader's messages about the page's model with another value in one place.
fn messages(place: &str, value: Value) -> Vec<String> {
    let mut model = model();
    *model.pointer_mut(place).expect("a place of the model") = value;
    let sections = model.as_object().expect("a model").iter();
    let source: String = sections.map(|(key, value)| format!("{key} = {}\n", inline(value))).collect();
    match Model::parse(&source, "model.toml") {
        Ok(_) => Vec::new(),
        Err(errors) => errors.problems.into_iter().map(|problem| problem.message).collect(),
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
fn listed(message: &str, before: &[&str], quote: char) -> Option<Vec<String>> {
    let begin = before.iter().find_map(|before| message.find(before))?;
    let words = message.get(begin..)?.split(quote).skip(1).step_by(2);
    Some(words.map(str::to_owned).collect())
}
