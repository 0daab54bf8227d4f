//! Open questions of a sample: words that may be values, kinds with few items, and attributes of few items.

use afterwrite_model::table::Model;
use serde_json::{Value, json};

use super::generated::{expect_lines, infer, sample_of, templates};

/// Every third item of these has an additional attribute.
fn items_with_extra(count: usize, item: impl Fn(usize) -> Value) -> Vec<Value> {
    let mut items: Vec<Value> = (0..count).map(item).collect();
    items.iter_mut().step_by(3).for_each(|item| item["costCenter"] = json!("x"));
    items
}

#[test]
fn a_tenant_whose_items_have_an_additional_attribute_is_a_value() {
    let tenants = ["acme", "globex", "initech"];
    for keys in [["PK", "SK"], ["pk", "sk"]] {
        let items = items_with_extra(300, |index| {
            let partition = format!("{}#user#{}", tenants[index % 3], index % 40);
            json!({ keys[0]: partition, keys[1]: format!("order#{index}"), "text": "hi" })
        });
        let sample = sample_of(&keys, &items);
        assert_eq!(templates(&sample), ["{id}#user#{user} / order#{order}"]);
        let inferred = infer(&sample);
        assert!(tenants.iter().all(|tenant| !inferred.toml.contains(tenant)), "{}", inferred.toml);
        assert_eq!(inferred.undescribed, 0, "{}", inferred.toml);
    }
}

#[test]
fn a_person_whose_items_have_an_additional_attribute_or_a_type_is_a_value() {
    let people = ["alice", "bob", "carol"];
    let message = |index: usize| {
        let person = people[index % 3];
        json!({ "PK": format!("ROOM#{}", index % 20), "SK": format!("{person}#{index}"), "text": "hi" })
    };
    let items = items_with_extra(300, message);
    assert_eq!(templates(&sample_of(&["PK", "SK"], &items)), ["ROOM#{room} / {id}#{id_2}"]);
    let typed: Vec<Value> = (0..300)
        .map(|index| {
            let mut item = message(index % 2 + index / 2 * 3);
            item["kind"] = json!((["JaneDoe", "BobRoe"][index % 2]));
            item
        })
        .collect();
    let found = templates(&sample_of(&["PK", "SK"], &typed));
    assert!(found.iter().all(|key| key == "ROOM#{room} / {id}#{id_2}"), "{found:?}");
}

#[test]
fn kinds_whose_names_are_usual_or_whose_attributes_differ_are_constant() {
    let items: Vec<Value> = (0..120)
        .flat_map(|index| {
            let partition = format!("CUSTOMER#{}", index / 6);
            [
                json!({ "PK": partition, "SK": format!("ORDER#{index}"), "total": index, "at": "x" }),
                json!({ "PK": partition, "SK": format!("INVOICE#{index}"), "total": index, "at": "x", "due": "y" }),
                json!({ "PK": partition, "SK": format!("ZQA#{index}"), "weight": index, "at": "x" }),
                json!({ "PK": partition, "SK": format!("ZQB#{index}"), "colour": index, "at": "x" }),
            ]
        })
        .collect();
    let found = templates(&sample_of(&["PK", "SK"], &items));
    assert_eq!(found.len(), 4, "{found:?}");
    assert!(found.iter().any(|key| key.contains("INVOICE#{")), "{found:?}");
    assert!(found.iter().any(|key| key.contains("ZQA#{")), "{found:?}");
}

#[test]
fn a_tenant_that_is_alone_in_its_place_is_a_value() {
    let items: Vec<Value> = (0..200)
        .map(|index| json!({ "PK": format!("acme#USER#{}", index % 50), "SK": format!("ORDER#{index}"), "total": index % 9 }))
        .collect();
    let sample = sample_of(&["PK", "SK"], &items);
    assert_eq!(templates(&sample), ["{id}#USER#{user} / ORDER#{order}"]);
    assert!(!infer(&sample).toml.contains("acme"));
}

#[test]
fn keys_that_begin_with_a_tenant_are_described() {
    let items: Vec<Value> = (0..200)
        .map(|index| json!({ "PK": format!("t{}#ORDER#{}", index % 7, index % 40), "SK": format!("LINE#{index}"), "pieces": 1 }))
        .collect();
    let inferred = infer(&sample_of(&["PK", "SK"], &items));
    assert_eq!(inferred.undescribed, 0, "{}", inferred.toml);
    assert!(inferred.toml.contains("separator = \"#\""), "{}", inferred.toml);
    let rollup = "#key = { PK = \"ROLLUP#{id}#ORDER#{order}\", SK = \"ROLLUP#LINE\" }";
    expect_lines(&inferred.toml, &[rollup]);
}

#[test]
fn a_kind_with_few_items_is_left_out_for_that_reason() {
    let mut items: Vec<Value> = (0..200)
        .map(|index| json!({ "PK": format!("USER#u{}", index % 40), "SK": format!("ORDER#{index}"), "total": 1 }))
        .collect();
    for index in 0..2 {
        items.push(json!({ "PK": format!("UP#u{index}"), "SK": format!("PHOTO#{index}"), "url": "x" }));
        items.push(
            json!({ "PK": format!("USER#u{index}"), "SK": format!("WAIVER#2025-{index}"), "amount": 5 }),
        );
    }
    let inferred = infer(&sample_of(&["PK", "SK"], &items));
    let of = "of 204 sampled items have such a key, too few to tell names of kinds from values; take a larger --sample, or declare the entity yourself";
    let mut left_out = inferred.left_out.clone();
    left_out.sort();
    assert_eq!(
        left_out,
        [
            format!("2 items are left out: only 2 {of}"),
            format!("2 items with `USER` in the key are left out: only 2 {of}"),
        ]
    );
    assert_eq!((inferred.entities, inferred.undescribed), (1, 4), "{}", inferred.toml);
}

#[test]
fn words_of_every_script_are_constant() {
    let items: Vec<Value> = (0..100)
        .map(
            |index| json!({ "PK": format!("КЛИЕНТ#Иван{index}"), "SK": format!("订单#{index}"), "größe": 1 }),
        )
        .collect();
    let sample = sample_of(&["PK", "SK"], &items);
    assert_eq!(templates(&sample), ["КЛИЕНТ#{id} / 订单#{id_2}"]);
    assert_eq!(infer(&sample).undescribed, 0);
}

#[test]
fn attributes_of_few_items_and_names_that_look_like_values_are_counted_and_not_listed() {
    let items: Vec<Value> = (0..300)
        .map(|index| {
            let mut item = json!({ "PK": format!("GRP#{index}"), "SK": "INFO", "size": index % 9, "jane@example.com": 1 });
            item[format!("john{index}@example.com")] = json!(true);
            item[format!("visit {}", index % 20)] = json!(true);
            if index == 3 {
                item["janes_test"] = json!("x");
            }
            item
        })
        .collect();
    let inferred = infer(&sample_of(&["PK", "SK"], &items));
    let toml = &inferred.toml;
    expect_lines(
        toml,
        &[
            "# attributes left out: 322 (their names look like values, or fewer than 1 in 100 of these items, 3 items or 2 partitions have them)",
            "size = \"N\"",
        ],
    );
    assert!(!toml.contains("jane") && !toml.contains("john") && !toml.contains("visit"), "{toml}");
    Model::parse(toml, "model.toml").expect("it loads");
}
