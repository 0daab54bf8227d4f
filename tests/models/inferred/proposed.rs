//! The proposals of inferred models: times, groups, mirrors and states.

use afterwrite_model::table::Model;
use serde_json::{Value, json};

use super::generated::{expect_lines, infer, model_of, sample_of, templates};

/// A ULID of a second.
fn ulid(second: usize) -> String {
    const DIGITS: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";
    let milliseconds = (1_770_000_000 + second) * 1000;
    let digit = |place: usize| char::from(DIGITS[(milliseconds >> (5 * place)) & 31]);
    let time: String = (0..10).rev().map(digit).collect();
    format!("{time}{second:016}")
}

/// Users who follow each other, their photos, and likes with ids of their own.
fn photos() -> Vec<Value> {
    let mut items = Vec::new();
    for user in 0..30 {
        let name = format!("user{user}x");
        items.push(json!({ "PK": format!("USER#{name}"), "SK": format!("USER#{name}"), "username": name, "age": user }));
        let photo = ulid(user * 90_000);
        items.push(json!({ "PK": format!("UP#{name}"), "SK": format!("PHOTO#{photo}"), "username": name,
            "photoId": photo, "url": "x" }));
        for other in 1..4 {
            let (fan, like) = (format!("user{}x", (user + other) % 30), ulid(user * 90_000 + other * 1000));
            items.push(
                json!({ "PK": format!("PL#{photo}"), "SK": format!("LIKE#{fan}"), "likingUsername": fan,
                "photoId": photo, "likeId": like }),
            );
            items.push(json!({ "PK": format!("FOLLOW#{name}"), "SK": format!("FOLLOW#{fan}"),
                "followedUsername": name, "followingUsername": fan }));
        }
    }
    items
}

#[test]
fn the_day_of_an_item_is_that_of_its_own_id_not_of_the_item_that_it_belongs_to() {
    let toml = model_of(&photos());
    expect_lines(
        &toml,
        &[
            "#key = { PK = \"PL#{photoId}\", SK = \"ROLLUP#LIKE#DAY#{likeId:day}\" }",
            "#key = { PK = \"ALL#LIKE\", SK = \"ROLLUP#DAY#{likeId:day}\" }",
            "#key = { PK = \"UP#{username}\", SK = \"ROLLUP#PHOTO#DAY#{photoId:day}\" }",
        ],
    );
    assert!(!toml.contains("LIKE#DAY#{photoId"), "{toml}");
}

#[test]
fn each_variable_groups_items_and_their_counts_are_shown_where_the_values_agree() {
    let toml = model_of(&photos());
    expect_lines(
        &toml,
        &[
            "#key = { PK = \"FOLLOW#{followedUsername}\", SK = \"ROLLUP#FOLLOW\" }",
            "#key = { PK = \"FOLLOWINGUSERNAME#{followingUsername}\", SK = \"ROLLUP#FOLLOW\" }",
            "#bind = { username = \"followedUsername\" }",
            "#bind = { username = \"followingUsername\" }",
            "#attributes = { follow_count = \"follow_count\" }",
            "#attributes = { follow_by_followingUsername_count = \"follow_count\" }",
        ],
    );
}

#[test]
fn an_attribute_with_the_values_of_another_key_groups_items_and_a_unique_one_does_not() {
    let restaurants = (0..12).map(
        |index| json!({ "PK": format!("REST#r{index}x"), "SK": "META", "cuisine": "x", "stars": index }),
    );
    let orders = (0..90).map(|index| {
        json!({ "PK": format!("CUST#c{}", index % 30), "SK": format!("ORD#{index}"), "restaurantId": format!("r{}x", index % 12),
            "ticket": format!("t{index}x"), "total": index })
    });
    let tickets =
        (0..90).map(|index| json!({ "PK": format!("TICKET#t{index}x"), "SK": "INFO", "seat": index }));
    let toml = model_of(&restaurants.chain(orders).chain(tickets).collect::<Vec<_>>());
    expect_lines(
        &toml,
        &[
            "#key = { PK = \"RESTAURANTID#{restaurantId}\", SK = \"ROLLUP#ORD\" }",
            "#onto = \"rest\"",
            "#bind = { rest = \"restaurantId\" }",
        ],
    );
    assert!(!toml.contains("ord_by_ticket"), "{toml}");
}

#[test]
fn a_time_that_begins_a_sort_key_is_a_variable() {
    for suffix in [|index: usize| index.to_string(), ulid as fn(usize) -> String] {
        let items: Vec<Value> = (0..100)
            .map(|index| {
                let at = format!("2026-01-{:02}T00:00:00Z", index % 28 + 1);
                json!({ "PK": format!("DEVICE#{}", index % 20), "SK": format!("{at}#{}", suffix(index)), "temp": index % 40 })
            })
            .collect();
        let found = templates(&sample_of(&["PK", "SK"], &items));
        assert!(found.len() == 1 && found[0].starts_with("DEVICE#{device} / {at}#{"), "{found:?}");
        assert!(model_of(&items).contains("ROLLUP#DAY#{at:day}"), "{}", model_of(&items));
    }
}

#[test]
fn a_key_of_one_variable_loads_with_a_separator() {
    for values in ["{}", "{}@example.com"] {
        let items: Vec<Value> = (0..60)
            .map(|index| {
                let sort = if index % 6 == 0 { "PROFILE".to_owned() } else { format!("ORDER#{index}") };
                json!({ "PK": values.replace("{}", &format!("7f{}", index / 6)), "SK": sort })
            })
            .collect();
        let inferred = infer(&sample_of(&["PK", "SK"], &items));
        assert_eq!(inferred.undescribed, 0, "{}", inferred.toml);
        expect_lines(&inferred.toml, &["separator = \"#\""]);
    }
}

#[test]
fn constant_attributes_are_not_counted_and_kinds_of_equal_items_are_one_entity() {
    let items: Vec<Value> = (0..90)
        .map(|index| {
            json!({ "PK": format!("READING#{index}"), "SK": "READING", "kind": (["a", "b"][index % 2]),
                "status": "OK", "entity_type": "reading", "value": index })
        })
        .collect();
    let inferred = infer(&sample_of(&["PK", "SK"], &items));
    assert_eq!(inferred.entities, 1, "{}", inferred.toml);
    expect_lines(&inferred.toml, &["#kind_a = { count = true, when.kind = [\"a\"] }"]);
    assert!(
        !inferred.toml.contains("status_ok") && !inferred.toml.contains("entity_type_"),
        "{}",
        inferred.toml
    );
}

#[test]
fn a_type_of_fewer_than_three_items_is_not_named() {
    let account = |index: usize, kind: &str| {
        let key = format!("ACCOUNT#a{index}");
        json!({ "PK": key, "SK": key, "entity_type": kind, (format!("{kind}_name")): format!("a{index}") })
    };
    for (organizations, entities) in [(2, 1), (3, 2)] {
        let mut items: Vec<Value> = (0..400).map(|index| account(index, "user")).collect();
        items.extend((400..400 + organizations).map(|index| account(index, "organization")));
        let toml = model_of(&items);
        assert_eq!(toml.contains("organization"), entities == 2, "{toml}");
        assert_eq!(Model::parse(&toml, "model.toml").expect("it loads").entities.len(), entities);
    }
}

#[test]
fn attributes_of_any_name_are_declared() {
    let items: Vec<Value> = (0..30)
        .map(|index| {
            let mixed = if index % 2 == 0 { json!(index) } else { json!("x") };
            json!({ "PK": format!("USER#{index}"), "SK": "USER", "first.name": "Jane", "a b": 1, "mixed": mixed })
        })
        .collect();
    let toml = model_of(&items);
    expect_lines(
        &toml,
        &["\"a b\" = \"N\"", "\"'first.name'\" = \"S\"", "mixed = \"any\"  # values of several types"],
    );
    assert!(!toml.contains("Jane"), "{toml}");
}

#[test]
fn items_of_which_the_sort_key_is_a_variable_are_counted_by_partition() {
    let items: Vec<Value> = (0..200)
        .map(|index| json!({ "PK": format!("ROOM#r{}", index % 20), "SK": format!("m{index}"), "amount": index }))
        .collect();
    expect_lines(&model_of(&items), &["#key = { PK = \"ROLLUP#ROOM#{room}\", SK = \"ROLLUP#ROOM\" }"]);
}

#[test]
fn items_with_one_composite_key_are_counted_by_its_prefix_and_not_by_their_number() {
    let mut items = Vec::new();
    for index in 0..200 {
        let (owner, repo, number) = (format!("o{}", index % 5), format!("r{}", index % 10), index / 10 + 1);
        let key = format!("PR#{owner}#{repo}#{number:09}");
        items.push(json!({ "PK": key, "SK": key, "RepoOwner": owner, "RepoName": repo, "title": "x" }));
        items.push(json!({ "PK": format!("REPO#{owner}#{repo}"), "SK": format!("ISSUE#{number:09}"),
            "RepoOwner": owner, "RepoName": repo, "text": "x" }));
    }
    let toml = model_of(&items);
    expect_lines(
        &toml,
        &[
            "#key = { PK = \"PR#{RepoOwner}#{RepoName}\", SK = \"ROLLUP#PR\" }",
            "#key = { PK = \"REPO#{RepoOwner}#{RepoName}\", SK = \"ROLLUP#ISSUE\" }",
        ],
    );
    assert!(!toml.contains("pr_by_pr") && !toml.contains("issue_by_issue"), "{toml}");
}

#[test]
fn what_mirrors_write_is_not_measured() {
    let items: Vec<Value> = (0..60)
        .map(|index| {
            json!({ "PK": format!("PHOTO#{index}"), "SK": "PHOTO", "size": index % 9, "likes": index % 7, "likes_rev": index * 3 + 100,
                "likes_of": format!("PHOTO#{index}") })
        })
        .collect();
    let toml = model_of(&items);
    expect_lines(&toml, &["#size_sum = { sum = \"size\" }"]);
    assert!(!toml.contains("likes_sum") && !toml.contains("likes_rev_sum"), "{toml}");
}

/// Prices are numbers in texts. The comment's lines, put into the model, load and add them up; codes are labels.
#[test]
fn numbers_in_texts_have_a_comment_with_the_lines_that_read_them() {
    let orders = (0..40).map(|order| {
        json!({ "PK": format!("CUSTOMER#c{}x", order % 7), "SK": format!("ORDER#{order}"), "price": format!("{order}.50"),
            "size": format!("{order}"), "zip": format!("80{order}.5"), "note": format!("{order}.5 kg") })
    });
    let toml = model_of(&orders.collect::<Vec<_>>());
    let commented: Vec<&str> = toml.lines().filter(|line| line.contains("numbers in texts")).collect();
    let [price] = commented.as_slice() else { panic!("{toml}") };
    let lines: Vec<&str> = price.split('`').skip(1).step_by(2).collect();
    assert_eq!(lines, ["derive.price_number = { number = \"price\" }", "{ sum = \"price_number\" }"]);
    let attributes = "[entities.order.attributes]\n";
    let with = toml.replacen(attributes, &format!("{}\n{attributes}", lines[0]), 1);
    let aggregate = format!(
        "[rollups.all]\nkey = {{ PK = \"ALL\", SK = \"R\" }}\n[[aggregates]]\nname = \"all\"\nof = \"order\"\ninto = \"all\"\nmeasures.prices = {}\n",
        lines[1]
    );
    let report = Model::check(&format!("{with}\n{aggregate}"), "orders.toml");
    assert!(report.problems.is_empty(), "{:?}", report.problems);
}
