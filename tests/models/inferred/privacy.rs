//! Values of items do not become part of inferred models.

use serde_json::{Value, json};

use super::generated::{infer, model_of, sample_of, templates};

/// First names, of which some are in capital letters.
const NAMES: [&str; 6] = ["olivia", "victor", "heidi", "JANE", "JOHN", "MUELLER"];

/// Fails if a text is in the model of these items, in any case of its letters.
fn expect_none_of(texts: &[&str], keys: &[&str], items: &[Value]) {
    let toml = infer(&sample_of(keys, items)).toml;
    for text in texts {
        let found = toml.lines().find(|line| line.to_lowercase().contains(&text.to_lowercase()));
        assert_eq!(found, None, "{text} in\n{toml}");
    }
}

#[test]
fn people_in_partition_keys_are_values_whatever_separates_their_names() {
    for separator in ["_", ".", "-", ":", "/", "|", "#", " "] {
        let person = |index: usize| format!("{}{separator}rossi{}", NAMES[index % 6], index / 6);
        let rows = |index: usize| {
            let order = json!({ "PK": person(index), "SK": format!("ORDER#{index}"), "total": index });
            [json!({ "PK": person(index), "SK": "PROFILE", "age": 30 }), order]
        };
        let items: Vec<Value> = (0..120).flat_map(rows).collect();
        expect_none_of(&NAMES, &["PK", "SK"], &items);
    }
}

#[test]
fn addresses_are_values() {
    let items: Vec<Value> = (0..300)
        .map(|index| {
            let name = NAMES[index % 6];
            json!({ "PK": format!("{name}.smith@bigclient.com"), "SK": format!("{name}.doe@x.org#MSG#{index}") })
        })
        .collect();
    expect_none_of(&NAMES, &["PK", "SK"], &items);
    let items: Vec<Value> = (0..300)
        .map(|index| json!({ "PK": format!("ORG#{}", index % 5), "SK": format!("jane.doe@x.org#MSG#{index}") }))
        .collect();
    expect_none_of(&["jane", "doe"], &["PK", "SK"], &items);
    assert_eq!(templates(&sample_of(&["PK", "SK"], &items)), ["ORG#{org} / {id}#MSG#{msg}"]);
}

#[test]
fn people_in_sort_keys_are_values() {
    let keys: [fn(&str, usize) -> String; 4] = [
        |name, _| name.to_owned(),
        |name, index| format!("{name}#{index}"),
        |name, index| format!("REPORT#{name}#{index}"),
        |name, _| format!("OWNER_{name}"),
    ];
    for key in keys {
        let item = |index: usize| json!({ "PK": format!("DOC#{index}"), "SK": key(NAMES[index % 6], index), "x": 1 });
        let items: Vec<Value> = (0..300).map(item).collect();
        expect_none_of(&NAMES, &["PK", "SK"], &items);
    }
}

#[test]
fn few_partitions_are_values() {
    for [first, second] in [["JANE", "JOHN"], ["janedoe", "johnroe"], ["ACMEBANK#2026", "MUELLER#2026"]] {
        let rows = |index: usize| {
            let other = json!({ "pk": second, "sk": format!("INV#{index}"), "status": "sent" });
            [json!({ "pk": first, "sk": format!("INV#{index}"), "status": "sent", "vat": 8 }), other]
        };
        let items: Vec<Value> = (0..200).flat_map(rows).collect();
        let names = [first, second].map(|name| name.split('#').next().unwrap_or_default());
        expect_none_of(&names, &["pk", "sk"], &items);
    }
}

#[test]
fn tenants_before_the_kind_of_items_are_values_and_the_kind_is_constant() {
    let tenants = ["acme", "globex", "initech", "umbrella", "hooli"];
    let items: Vec<Value> = (0..400)
        .map(|index| json!({ "pk": format!("{}#ORDER#{index}", tenants[index % 5]), "sk": "TOTAL", "total": index }))
        .collect();
    expect_none_of(&tenants, &["pk", "sk"], &items);
    assert_eq!(templates(&sample_of(&["pk", "sk"], &items)), ["{id}#ORDER#{total} / TOTAL"]);
}

#[test]
fn words_whose_items_are_of_different_kinds_are_constant() {
    let items: Vec<Value> = (0..60)
        .flat_map(|index| {
            let partition = format!("XA#{}", index / 6);
            [
                json!({ "PK": partition, "SK": format!("XB#{index}"), "weight": index }),
                json!({ "PK": partition, "SK": format!("XC#{index}"), "colour": "red" }),
            ]
        })
        .collect();
    assert_eq!(templates(&sample_of(&["PK", "SK"], &items)), ["XA#{xa} / XB#{weight}", "XA#{xa} / XC#{xc}"]);
}

#[test]
fn a_value_of_a_status_attribute_that_is_more_than_a_state_is_a_value() {
    let items: Vec<Value> = (0..600)
        .map(|index| {
            let person = ["jane", "john"][index % 2];
            json!({ "PK": format!("TASK#{index}"), "SK": "TASK", "status": (["OPEN", "free"][index % 2]),
                "phase": format!("waiting-for-{person}"), "role": person, "plan": "pw:hunter2",
                "category": (["HIV-positive", "flu"][index % 2]), "note": "free for OPEN minds" })
        })
        .collect();
    expect_none_of(&["jane", "john", "HIV", "flu", "hunter2"], &["PK", "SK"], &items);
    let toml = model_of(&items);
    assert!(toml.contains("status_open = { count = true, when.status = [\"OPEN\"] }"), "{toml}");
}
