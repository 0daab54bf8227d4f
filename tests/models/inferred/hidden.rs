//! No variable of a key hides an attribute that has another value.

use afterwrite_model::table::Model;
use serde_json::{Value, json};

use super::generated::{model_of, sample_of, templates};

fn rows(count: usize, row: impl Fn(usize) -> Value) -> Vec<Value> {
    (0..count).map(row).collect()
}

/// Fails if an entity lacks one of these attributes.
fn expect_attributes(items: &[Value], names: &[&str]) {
    let toml = model_of(items);
    let model = Model::parse(&toml, "model.toml").expect("it loads");
    for name in names {
        let declared = toml.lines().filter(|line| line.starts_with(&format!("{name} = \""))).count();
        assert_eq!(declared, model.entities.len(), "{name} in\n{toml}");
    }
}

#[test]
fn a_day_in_a_key_does_not_hide_the_time_of_the_item() {
    let items = rows(300, |index| {
        let day = format!("2025-03-{:02}", index % 28 + 1);
        json!({ "PK": format!("TENANT#t{}#{day}", index % 9), "SK": format!("REQ#{index}"), "at": format!("{day}T05:02:03Z"), "ms": 1 })
    });
    let found = templates(&sample_of(&["PK", "SK"], &items));
    assert_eq!(found, ["TENANT#{tenant}#{date} / REQ#{req}"]);
    expect_attributes(&items, &["at"]);
}

#[test]
fn a_variable_named_by_the_words_of_its_key_does_not_hide_an_attribute() {
    let comments = rows(
        300,
        |index| json!({ "PK": format!("POST#p{}", index % 50), "SK": format!("COMMENT#c{index}"), "comment": format!("text {index}"), "post": index % 7 }),
    );
    let found = templates(&sample_of(&["PK", "SK"], &comments));
    assert_eq!(found, ["POST#{post_id} / COMMENT#{comment_id}"]);
    expect_attributes(&comments, &["comment", "post"]);
    let ids = rows(
        300,
        |index| json!({ "PK": format!("USER#u{}", index % 50), "SK": format!("x{index}"), "id": format!("ext-{}", index % 13) }),
    );
    expect_attributes(&ids, &["id"]);
    let maps =
        rows(60, |index| json!({ "PK": format!("USER#u{index}"), "SK": "INFO", "user": { "name": "Jane" } }));
    expect_attributes(&maps, &["user"]);
}

#[test]
fn a_variable_does_not_take_the_name_that_the_word_before_it_has_in_other_items() {
    let mut items = Vec::new();
    for index in 0..40 {
        let (user, account) = (format!("u{index}x"), format!("org{}", index % 5));
        let key = format!("ACCOUNT#{user}");
        items.push(json!({ "PK": key, "SK": key, "UserName": user, "age": 30 }));
        items.push(json!({ "PK": format!("ACCOUNT#{account}"), "SK": format!("MEMBERSHIP#{user}"), "UserName": user, "Role": "Owner" }));
    }
    assert_eq!(
        templates(&sample_of(&["PK", "SK"], &items)),
        ["ACCOUNT#{UserName} / ACCOUNT#{UserName}", "ACCOUNT#{account} / MEMBERSHIP#{UserName}"]
    );
}
