//! Nothing that fewer than 3 items have, or items of one partition only, is in an inferred model, wherever in the items it is.

use afterwrite_inference::{InferenceHints, InferredModel};
use serde_json::{Map, Value, json};

use super::generated::{infer, sample_of, templates};

/// How many items have the same personal value.
#[derive(Clone, Copy, Debug)]
enum Owners {
    /// Each item has its own.
    One,
    /// Two items of different partitions have the same.
    Two,
    /// All items of a partition have the same.
    Partition,
    /// One item of the sample has one; others have words of the design in its place.
    OddItem,
    /// Two items of the sample have the same one.
    OddPair,
}

const OWNERS: [Owners; 5] = [Owners::One, Owners::Two, Owners::Partition, Owners::OddItem, Owners::OddPair];

/// The number of items of a partition.
const PARTITION: usize = 4;

impl Owners {
    /// The number of the person whose value an item has.
    fn person(self, row: usize, rows: usize) -> Option<usize> {
        match self {
            Self::One => Some(row),
            Self::Two => Some(row % rows.div_ceil(2)),
            Self::Partition => Some(row / PARTITION),
            Self::OddItem => (row == 1).then_some(0),
            Self::OddPair => [0, rows - 1].contains(&row).then_some(0),
        }
    }
}

/// Letters that occur in no word of a design, different for each number.
fn letters(number: usize) -> String {
    let letter = |place: u32| char::from(b"bcdfghjklm"[number / 10_usize.pow(place) % 10]);
    format!("zq{}{}{}x", letter(2), letter(1), letter(0))
}

/// A text of a person, and the part of it that no model may have.
fn personal(style: usize, person: usize) -> (String, String) {
    let word = letters(person);
    let text = match style % 9 {
        0 => word.clone(),
        1 => word.to_uppercase(),
        2 => format!("Z{}", &word[1..]),
        3 => format!("{word}@example.org"),
        4 => return (format!("+4917{person:07}"), format!("4917{person:07}")),
        5 => return (format!("917{person:06}"), format!("917{person:06}")),
        6 => format!("{word}-{person}"),
        7 => format!("Pw{word}"),
        _ => format!("{word}_{word}"),
    };
    (text, word)
}

/// The places in which an item can have a personal text.
const PLACES: [&str; 18] = [
    "PK",
    "PK head",
    "PK middle",
    "PK tail",
    "SK",
    "SK head",
    "SK middle",
    "SK tail",
    "both heads",
    "type",
    "kind",
    "_model_name",
    "zz",
    "attribute",
    "attribute and head",
    "map",
    "status",
    "role and sort key",
];

/// An item of a design with orders and profiles, with a text in a place.
fn row(place: &str, index: usize, text: Option<&str>, separator: &str) -> Value {
    let (partition, is_order) = (index / PARTITION, !index.is_multiple_of(PARTITION));
    let (user, number) = (format!("u{partition}"), index.to_string());
    let mut item = Map::new();
    item.insert("PK".to_owned(), json!(["USER", &user].join(separator)));
    let sort = if is_order { ["ORDER", &number].join(separator) } else { "PROFILE".to_owned() };
    item.insert("SK".to_owned(), json!(sort));
    item.insert("type".to_owned(), json!(if is_order { "Order" } else { "User" }));
    item.insert(if is_order { "total" } else { "age" }.to_owned(), json!(index));
    let written = text.map(|text| written(place, index, text, separator)).unwrap_or_default();
    for (name, value) in written {
        if value.is_null() {
            item.remove(&name);
        } else {
            item.insert(name, value);
        }
    }
    Value::Object(item)
}

/// The attributes of an item with a text in a place; null for an attribute that the item then lacks.
fn written(place: &str, index: usize, text: &str, separator: &str) -> Vec<(String, Value)> {
    let join = |parts: [&str; 3]| parts.join(separator);
    let (user, number) = (format!("u{}", index / PARTITION), index.to_string());
    let own = format!("own{}", index % 2);
    let written: Vec<(&str, Value)> = match place {
        "PK" => vec![("PK", json!(text))],
        "PK head" => vec![("PK", json!(join([text, "USER", &user])))],
        "PK middle" => vec![("PK", json!(join(["USER", text, &user])))],
        "PK tail" => vec![("PK", json!(join(["USER", &user, text])))],
        "SK" => vec![("SK", json!(text)), (&own, json!(1)), ("type", Value::Null)],
        "SK head" => {
            vec![("SK", json!(join([text, &number, "x"]))), (&own, json!(1)), ("total", Value::Null)]
        }
        "SK middle" => vec![("SK", json!(join(["ORDER", text, &number])))],
        "SK tail" => vec![("SK", json!(join(["ORDER", &number, text]))), (&own, json!(text))],
        "both heads" => {
            vec![("PK", json!([text, &user].join(separator))), ("SK", json!([text, &user].join(separator)))]
        }
        "attribute" => vec![(text, json!(index)), (&own, json!(text))],
        "attribute and head" => vec![(text, json!(index)), ("SK", json!([text, &number].join(separator)))],
        "map" => vec![("friends", json!({ text: { text: 1 } }))],
        "role and sort key" => vec![("role", json!(text)), ("SK", json!(text))],
        attribute => vec![(attribute, json!(text)), (&own, json!(1))],
    };
    written.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// Fails if a personal text is in the model of these items, or in a sentence about items that are left out.
fn expect_none(items: &[Value], hints: &InferenceHints, hidden: &[String], about: &str) {
    let inferred = InferredModel::with(&sample_of(&["PK", "SK"], items), hints);
    let written = format!("{}\n{}", inferred.toml, inferred.left_out.join("\n")).to_lowercase();
    for text in hidden {
        assert!(!written.contains(text.as_str()), "{about}: {text} in\n{written}");
    }
}

#[test]
fn no_text_of_few_items_or_of_one_partition_is_in_a_model() {
    let mut style = 0;
    for rows in 3..=30 {
        for (place, owners) in PLACES.iter().flat_map(|place| OWNERS.map(|owners| (*place, owners))) {
            style += 1;
            let separator = ["#", ":", "_", "|", ".", "/", "-"][style % 7];
            let persons: Vec<Option<usize>> = (0..rows).map(|row| owners.person(row, rows)).collect();
            let person = |index: usize| persons[index].map(|person| personal(style, person));
            let item = |index| row(place, index, person(index).map(|(text, _)| text).as_deref(), separator);
            let items: Vec<Value> = (0..rows).map(item).collect();
            let hidden: Vec<String> = (0..rows).filter_map(person).map(|(_, hidden)| hidden).collect();
            let about = format!("{rows} items, {place}, {owners:?}, {style}, {separator}");
            let named = InferenceHints {
                separator: separator.chars().next(),
                type_attribute: Some(place.to_owned()),
            };
            for hints in [InferenceHints::default(), named] {
                expect_none(&items, &hints, &hidden, &about);
            }
        }
    }
}

#[test]
fn a_sample_of_one_partition_gives_no_word_of_its_keys() {
    for rows in 1..=30 {
        let item = |index: usize| json!({ "PK": "JANE#ROE", "SK": format!("VISIT#{index}"), "kind": "Hiv", "janesDoctor": "x", "status": (["ILL", "WELL"][index % 2]) });
        let items: Vec<Value> = (0..rows).map(item).collect();
        let hidden = ["jane", "roe", "visit", "hiv", "doctor", "\"ill"].map(str::to_owned);
        expect_none(&items, &InferenceHints::default(), &hidden, &format!("{rows} items"));
        infer(&sample_of(&["PK", "SK"], &items));
    }
}

#[test]
fn a_word_of_three_items_needs_a_sign_of_its_kind_and_a_lone_word_needs_five() {
    let note = |index: usize| json!({ "PK": format!("DOC#{index}"), "SK": "JANE", "text": "x" });
    for (items, words) in [(2, "{id} / {id_2}"), (4, "{id}#{id_2} / {id_3}"), (5, "DOC#{doc} / JANE")] {
        let items: Vec<Value> = (0..items).map(note).collect();
        let found = templates(&sample_of(&["PK", "SK"], &items));
        assert!(found.len() == 1, "{found:?}");
        assert_eq!(found[0].contains("JANE"), words.contains("JANE"), "{found:?}");
    }
    let kinds = |index: usize| {
        let partition = format!("USER#{}", index / 2);
        match index % 2 {
            0 => json!({ "PK": partition, "SK": "PROFILE", "age": 30, "city": "x" }),
            _ => json!({ "PK": partition, "SK": format!("ORDER#{index}"), "total": 1, "orderedAt": "x" }),
        }
    };
    let items: Vec<Value> = (0..6).map(kinds).collect();
    assert_eq!(
        templates(&sample_of(&["PK", "SK"], &items)),
        ["USER#{user} / ORDER#{order}", "USER#{user} / PROFILE"]
    );
}
