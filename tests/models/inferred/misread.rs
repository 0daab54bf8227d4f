//! Values that look like names of kinds, times or ids of the item.

use afterwrite_model::heartbeat::HEARTBEAT_KEY;
use serde_json::{Value, json};

use super::generated::{expect_lines, infer, model_of, sample_of, templates};

fn rows(count: usize, row: impl Fn(usize) -> Value) -> Vec<Value> {
    (0..count).map(row).collect()
}

/// A ULID of 2026.
fn ulid(number: usize) -> String {
    format!("01KGRPB8K0ABCDEFGHJKMNP{number:03}")
}

#[test]
fn a_usual_word_among_other_values_is_a_value() {
    let branches = ["main", "dev", "wip", "MAIN"];
    for count in [12, 200] {
        let items = rows(
            count,
            |index| json!({ "PK": format!("REPO#r{}", index / 4), "SK": format!("BRANCH#{}", branches[index % 4]), "author": "u" }),
        );
        assert_eq!(
            templates(&sample_of(&["PK", "SK"], &items)),
            ["REPO#{repo} / BRANCH#{branch}"],
            "{count} items"
        );
    }
}

#[test]
fn a_usual_word_whose_items_are_of_another_kind_is_constant() {
    let items = rows(200, |index| match index % 2 {
        0 => json!({ "PK": format!("ORG#o{}", index / 4), "SK": "ORG#metadata", "name": "x", "plan": "y" }),
        _ => json!({ "PK": format!("ORG#o{}", index / 4), "SK": format!("ORG#u{index}"), "role": "x" }),
    });
    let found = templates(&sample_of(&["PK", "SK"], &items));
    assert!(found.iter().any(|key| key.ends_with("/ ORG#metadata")), "{found:?}");
}

#[test]
fn few_items_without_the_attribute_that_names_the_types_are_left_out() {
    let table = |untyped: usize| {
        let mut items = rows(400, |index| match index % 2 {
            0 => json!({ "PK": format!("ORG#o{index}"), "SK": "INFO", "type": "Team", "seats": 5 }),
            _ => json!({ "PK": format!("ORG#o{index}"), "SK": "INFO", "type": "Person", "email": "e" }),
        });
        for item in items.iter_mut().take(untyped) {
            item.as_object_mut().expect("an object").remove("type");
        }
        items
    };
    for untyped in [0, 1, 4] {
        let inferred = infer(&sample_of(&["PK", "SK"], &table(untyped)));
        expect_lines(&inferred.toml, &["when.type = [\"Person\"]", "when.type = [\"Team\"]"]);
        assert_eq!((inferred.entities, inferred.undescribed), (2, untyped), "{:?}", inferred.left_out);
        assert!(untyped == 0 || inferred.left_out[0].contains("\"type\""), "{:?}", inferred.left_out);
    }
    let inferred = infer(&sample_of(&["PK", "SK"], &table(40)));
    assert_eq!(inferred.entities, 1, "a type that many lack is a value: {}", inferred.toml);
}

#[test]
fn an_id_of_another_item_gives_no_day() {
    for name in ["owner", "userId", "parent_id"] {
        let items = rows(200, |index| {
            let mut item = json!({ "PK": format!("DOC#d{index}"), "SK": "DOC" });
            item[name] = json!(ulid(index % 50));
            item
        });
        let toml = model_of(&items);
        assert!(!toml.contains(":day}"), "{toml}");
    }
    let own = rows(200, |index| json!({ "PK": format!("DOC#d{index}"), "SK": "DOC", "docId": ulid(index) }));
    expect_lines(&model_of(&own), &["#key = { PK = \"ALL#DOC\", SK = \"ROLLUP#DAY#{docId:day}\" }"]);
}

#[test]
fn an_id_with_another_epoch_gives_no_day() {
    let items = rows(200, |index| {
        let id = 1_800_000_000_000_000_000_usize + index * 100_000_000_000_000;
        json!({ "PK": format!("CHANNEL#x{}", index % 9), "SK": format!("TWEET#{id}"), "created_at": "2025-03-02T10:00:00Z" })
    });
    let toml = model_of(&items);
    assert!(!toml.contains("nanoseconds"), "{toml}");
    expect_lines(&toml, &["#key = { PK = \"ALL#TWEET\", SK = \"ROLLUP#DAY#{created_at:day}\" }"]);
}

#[test]
fn a_number_whose_name_is_not_one_of_a_time_gives_no_day() {
    for (name, is_time) in [("accountNumber", false), ("phone", false), ("placed", true), ("ts", true)] {
        let items = rows(200, |index| {
            let mut item = json!({ "PK": format!("ORDER#o{index}"), "SK": "ORDER" });
            item[name] = json!(1_700_000_000 + index * 13);
            item
        });
        assert_eq!(model_of(&items).contains(":day}"), is_time, "{name}");
    }
}

#[test]
fn a_mirror_overwrites_no_attribute_of_few_items() {
    let mut items = rows(
        400,
        |index| json!({ "PK": format!("CUSTOMER#c{}", index % 40), "SK": format!("ORDER#o{index}"), "total": 1 }),
    );
    items.extend(rows(40, |index| {
        let mut item = json!({ "PK": format!("CUSTOMER#c{index}"), "SK": "CUSTOMER", "name": "x" });
        if index == 7 {
            item["order_count"] = json!(5);
        }
        item
    }));
    assert!(!model_of(&items).contains("order_count = \"order_count\""));
    items[407].as_object_mut().expect("an item").remove("order_count");
    assert!(model_of(&items).contains("order_count = \"order_count\""));
}

#[test]
fn numbers_of_times_and_states_are_not_summed() {
    let items = rows(
        200,
        |index| json!({ "PK": format!("ORDER#o{index}"), "SK": "ORDER", "createdAt": index * 7, "status": index % 5, "total": index % 9 }),
    );
    let toml = model_of(&items);
    expect_lines(&toml, &["#total_sum = { sum = \"total\" }"]);
    assert!(!toml.contains("createdAt_sum") && !toml.contains("status_sum"), "{toml}");
}

#[test]
fn the_heartbeat_is_not_an_item_of_the_application() {
    let mut items = rows(
        200,
        |index| json!({ "PK": format!("CUSTOMER#c{}", index % 40), "SK": format!("ORDER#o{index}"), "total": 1 }),
    );
    let without = infer(&sample_of(&["PK", "SK"], &items)).toml;
    items.insert(
        7,
        json!({ "PK": HEARTBEAT_KEY, "SK": HEARTBEAT_KEY, "heartbeat_at": "2026-02-06T10:00:00Z" }),
    );
    assert_eq!(infer(&sample_of(&["PK", "SK"], &items).without_heartbeat()).toml, without);
}
