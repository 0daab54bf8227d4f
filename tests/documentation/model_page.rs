//! The examples of `docs/MODEL.md` are one model that loads, and they show every key and value that a model can have. (The test
//! `models` checks the results that the page shows for its items.)
//!
//! The loader lists the known keys and values: the test breaks the page's model in one place after the other, and reads the lists in
//! the loader's messages. A key that is new in the loader therefore fails the test until the page has an example of it.

use std::collections::{BTreeMap, BTreeSet};

use afterwrite_model::table::Model;
use afterwrite_tests::page;
use serde_json::{Value, json};

use super::broken_model::{self, BEFORE_KEYS, NONSENSE, each_place, listed};

const PAGE: &str = include_str!("../../docs/MODEL.md");

/// A key that the loader accepts with a warning, and the page does not show.
const RETIRED_KEY: &str = "days";

/// The words before the loader's lists of known values.
const BEFORE_VALUES: [&str; 4] = ["types are `", "a column is `", "attribute is `", "must be `"];

#[test]
fn the_examples_of_the_models_page_are_one_model_that_loads() {
    let model = Model::parse(&page::model(PAGE), "docs/MODEL.md").unwrap_or_else(|errors| panic!("{errors}"));
    assert_eq!(&*model.name, "exams");
    assert_eq!((model.tables.len(), model.entities.len(), model.aggregates.len()), (3, 10, 14));
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

/// The loader's messages about the page's model with another value in one place.
fn messages(place: &str, value: Value) -> Vec<String> {
    let problems = broken_model::problems(&broken_model::replaced(&model(), place, value));
    problems.into_iter().map(|problem| problem.message).collect()
}
