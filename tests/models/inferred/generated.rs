//! Generated tables and the models that are inferred from them.

use std::time::Duration;

use afterwrite_inference::{InferredModel, KeyAttribute, TableSample, infer_key};
use afterwrite_input::item_json::ItemJson;
use afterwrite_model::record::Item;
use afterwrite_model::table::{KeyType, Model};
use afterwrite_tests::processor_time::processor_time;
use serde_json::{Value, json};

pub(super) fn item(value: &Value) -> Item {
    ItemJson::parse(&value.to_string()).and_then(|item| item.to_item().ok()).expect("a value")
}

fn keys(names: &[&str]) -> Vec<KeyAttribute> {
    names.iter().map(|name| KeyAttribute { name: (*name).to_owned(), key_type: KeyType::Text }).collect()
}

pub(super) fn sample_of(names: &[&str], items: &[Value]) -> TableSample {
    let items = items.iter().map(item).collect();
    TableSample {
        table: "AppTable".to_owned(),
        key: keys(names),
        has_guessed_key: false,
        indexes: Vec::new(),
        items,
    }
}

/// A model file with all proposals in effect, edited as its heading says.
pub(super) fn with_proposals(toml: &str) -> String {
    let uncommented = toml.lines().map(|line| match line.strip_prefix('#') {
        Some(proposed) if !proposed.starts_with(' ') => proposed,
        Some(_) | None => line,
    });
    uncommented.map(|line| format!("{line}\n")).collect()
}

/// The inferred model, which loads, also with its proposals.
pub(super) fn infer(sample: &TableSample) -> InferredModel {
    let inferred = InferredModel::of(sample);
    for (name, toml) in [("plain", inferred.toml.clone()), ("with proposals", with_proposals(&inferred.toml))]
    {
        let report = Model::check(&toml, name);
        assert!(report.model.is_some(), "{:?}\n{toml}", report.problems);
    }
    inferred
}

/// The inferred model file of these items.
pub(super) fn model_of(items: &[Value]) -> String {
    infer(&sample_of(&["PK", "SK"], items)).toml
}

/// Fails if a model file lacks one of these lines.
pub(super) fn expect_lines(toml: &str, lines: &[&str]) {
    for line in lines {
        assert!(toml.lines().any(|found| found == *line), "no line {line} in\n{toml}");
    }
}

/// The key templates of the inferred entities, sorted.
pub(super) fn templates(sample: &TableSample) -> Vec<String> {
    let inferred = infer(sample);
    let model = Model::parse(&inferred.toml, "model.toml").expect("a value");
    let described =
        model.entities.iter().enumerate().map(|(index, entity)| entity.describe(&model, index).key);
    let mut templates: Vec<String> = described.collect();
    templates.sort();
    templates
}

/// Customers with orders, each with a status, an amount and a time.
fn customers(count: usize) -> Vec<Value> {
    let mut items = Vec::new();
    for index in 0..count {
        let customer = format!("c{index}x");
        items.push(json!({
            "PK": format!("CUSTOMER#{customer}"), "SK": "PROFILE", "Type": "Customer", "username": customer,
            "email": format!("{customer}@example.com"), "note": "a secret word",
        }));
        for order in 0..4 {
            items.push(json!({
                "PK": format!("CUSTOMER#{customer}"), "SK": format!("ORDER#{index:04}-{order}"), "Type": "Order",
                "status": (["OPEN", "SHIPPED"][order % 2]), "total": 10 * order + index,
                "createdAt": format!("2026-02-0{}T10:00:00Z", order + 1), "order_id": format!("{index:04}-{order}"),
            }));
        }
    }
    items
}

#[test]
fn kinds_variables_and_types_are_inferred() {
    let sample = sample_of(&["PK", "SK"], &customers(20));
    assert_eq!(
        templates(&sample),
        ["CUSTOMER#{username} / ORDER#{order_id}", "CUSTOMER#{username} / PROFILE"]
    );
    expect_lines(
        &infer(&sample).toml,
        &[
            "[entities.order]",
            "[entities.customer]",
            "createdAt = \"S\"  # ISO 8601",
            "total = \"N\"",
            "#key = { PK = \"CUSTOMER#{username}\", SK = \"ROLLUP#ORDER\" }",
            "#key = { PK = \"CUSTOMER#{username}\", SK = \"ROLLUP#ORDER#DAY#{createdAt:day}\" }",
            "#order_count = \"count\"",
            "#status_shipped = { count = true, when.status = [\"SHIPPED\"] }",
            "#total_sum = { sum = \"total\" }",
            "#onto = \"customer\"",
        ],
    );
}

#[test]
fn no_value_of_an_item_is_in_the_model() {
    let items = customers(30);
    let toml = model_of(&items);
    let allowed = ["PROFILE", "Customer", "Order", "OPEN", "SHIPPED"];
    for value in
        items.iter().flat_map(|item| item.as_object().expect("a value").values()).filter_map(Value::as_str)
    {
        assert!(allowed.contains(&value) || !toml.contains(value), "{value} in\n{toml}");
    }
}

#[test]
fn names_of_people_in_keys_are_values() {
    let names = ["alice", "bob", "carol", "dave", "erin"];
    let items: Vec<Value> = (0..200)
        .map(|index| json!({ "PK": names[index % 5], "SK": format!("{}#{index}", names[index % 3]), "x": index }))
        .collect();
    let toml = model_of(&items);
    assert!(names.iter().all(|name| !toml.contains(name)), "{toml}");
}

#[test]
fn keys_with_other_separators_and_without_any_are_described() {
    let items: Vec<Value> = (0..30)
        .map(|index| json!({ "pk": format!("user:{index}"), "sk": format!("at:2026-02-06T10:{:02}:00Z", index) }))
        .collect();
    assert_eq!(templates(&sample_of(&["pk", "sk"], &items)), ["user:{user} / at:{at}"]);
    let items: Vec<Value> = (0..30).map(|index| json!({ "userId": format!("{index}f{index:x}") })).collect();
    assert_eq!(templates(&sample_of(&["userId"], &items)), ["{userId}"]);
}

#[test]
fn a_variable_takes_the_name_of_the_attribute_with_its_value_everywhere() {
    let mut items = Vec::new();
    for index in 0..10 {
        let repo = format!("r{index}");
        items.push(json!({ "PK": format!("REPO#o{index}#{repo}"), "SK": format!("REPO#o{index}#{repo}"),
            "repo_owner": format!("o{index}"), "repo_name": repo }));
        items.push(json!({ "PK": format!("REPO#o{index}#{repo}"), "SK": format!("STAR#fan{index}") }));
    }
    let found = templates(&sample_of(&["PK", "SK"], &items));
    assert!(
        found.contains(&"REPO#{repo_owner}#{repo_name} / REPO#{repo_owner}#{repo_name}".to_owned()),
        "{found:?}"
    );
}

#[test]
fn a_status_in_a_key_is_a_variable() {
    let items: Vec<Value> = (0..40)
        .map(|index| {
            let status = ["ACTIVE", "CLOSED"][index % 2];
            json!({ "PK": format!("TENANT#{index}"), "SK": format!("STATUS#{status}#{index}"), "status": status })
        })
        .collect();
    let found = templates(&sample_of(&["PK", "SK"], &items));
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].contains("STATUS#{status}#{"), "{found:?}");
}

#[test]
fn junk_is_described_as_far_as_it_can_be() {
    for count in [0, 1, 2] {
        infer(&sample_of(&["PK", "SK"], &customers(count)));
        infer(&sample_of(&["PK", "SK"], &customers(1)[..count]));
    }
    let odd = [
        json!({ "PK": "", "SK": "#" }),
        json!({ "PK": "##", "SK": "#a##b#" }),
        json!({ "PK": "{x}", "SK": "\"quoted\"\n" }),
        json!({ "PK": "é#ß", "SK": "🦀#1" }),
        json!({ "PK": "A#1", "SK": "A#2", "we.ird": 1, "a b": "c", "": 2, "T#y": { "x": [1, null] } }),
    ];
    infer(&sample_of(&["PK", "SK"], &odd));
    let typed = |value: &str| json!({ "k": { "B": value }, "n": { "N": "17" }, "s": { "S": "x" } });
    let mut sample = sample_of(&["k", "n"], &[typed("AAEC"), typed("/wAB")]);
    for (key, key_type) in sample.key.iter_mut().zip([KeyType::Binary, KeyType::Number]) {
        key.key_type = key_type;
    }
    assert!(infer(&sample).toml.contains("types = { k = \"B\", n = \"N\" }"));
}

#[test]
fn random_tables_give_models_that_load() {
    let words = ["USER", "ORDER", "ITEM", "user", "META", "a", "1", "2026-02-06", "x-9", "", "Open"];
    let mut state = 7_u64;
    let mut next = |below: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(state >> 33).expect("a value") % below
    };
    for _ in 0..150 {
        let count = next(60);
        let key = |next: &mut dyn FnMut(usize) -> usize| {
            let segments: Vec<String> = (0..=next(4))
                .map(|_| format!("{}{}", words[next(words.len())], ["", "", "7", "q3"][next(4)]))
                .collect();
            segments.join(["#", ":", "#"][next(3)])
        };
        let items: Vec<Value> = (0..count)
            .map(|_| json!({ "PK": key(&mut next), "SK": key(&mut next), "type": words[next(4)], "n": next(9) }))
            .collect();
        infer(&sample_of(&["PK", "SK"], &items));
    }
}

#[test]
fn ten_thousand_items_take_seconds_at_most() {
    let sample = sample_of(&["PK", "SK"], &customers(2000));
    assert_eq!(sample.items.len(), 10_000);
    let (took, model) = processor_time(|| InferredModel::of(&sample));
    assert_eq!(model.entities, 2);
    assert!(took < Duration::from_secs(20), "{took:?}");
}

#[test]
fn the_key_of_items_from_a_file_is_inferred() {
    let names = |items: &[Value]| {
        let items: Vec<Item> = items.iter().map(item).collect();
        infer_key(&items).map(|key| key.into_iter().map(|key| key.name).collect::<Vec<_>>())
    };
    assert_eq!(names(&customers(3)).expect("a value"), ["PK", "SK"]);
    let of_rows =
        |row: &dyn Fn(usize) -> Value| names(&(0..9).map(row).collect::<Vec<_>>()).expect("a value");
    assert_eq!(
        of_rows(&|index| json!({ "userId": format!("u{}", index % 3), "at": index, "kind": "x" })),
        ["userId", "at"]
    );
    assert_eq!(
        of_rows(&|index| json!({ "device": index % 3, "at": index, "temp": index % 5 })),
        ["device", "at"]
    );
    let orders = |index: usize| json!({ "userId": index % 3, "orderId": index / 3, "createdAt": index, "total": index * 7 });
    assert_eq!(of_rows(&orders), ["userId", "orderId"]);
    let people =
        |index: usize| json!({ "name": format!("n{index}"), "email": format!("{index}@example.com") });
    assert_eq!(of_rows(&people), ["email"]);
    assert!(names(&[json!({ "a": true }), json!({ "b": 1 })]).is_err());
    let mut with_a_log_line = customers(20);
    with_a_log_line.insert(30, json!({ "message": "a line of a log" }));
    let report = names(&with_a_log_line).expect_err("no key").report();
    assert!(report.contains("item: 31") && report.contains("no `PK`"), "{report}");
    assert!(!report.contains("log"), "{report}");
    assert!(names(&[]).is_err());
}

#[test]
fn kinds_of_one_key_are_distinguished_by_the_attribute_that_names_their_type() {
    let items: Vec<Value> = (0..24)
        .map(|index| {
            let key = format!("ACCOUNT#a{index}");
            let kind = ["User", "Organization"][index % 2];
            json!({ "PK": key, "SK": key, "Type": kind, "account": format!("a{index}"), "plan": "PRO" })
        })
        .collect();
    let sample = sample_of(&["PK", "SK"], &items);
    assert_eq!(templates(&sample), ["ACCOUNT#{account} / ACCOUNT#{account}"; 2]);
    expect_lines(
        &infer(&sample).toml,
        &["[entities.user]", "[entities.organization]", "when.Type = [\"User\"]"],
    );
}

#[test]
fn hierarchical_keys_and_their_times_are_described() {
    let mut items = Vec::new();
    for index in 0..12 {
        let (partition, order) =
            (format!("SHOP#{}", index % 3), format!("01KGRPB8K0ABCDEFGHJKMNPQ{:02}", index));
        items.push(json!({ "PK": partition, "SK": format!("ORDER#{order}"), "total": index }));
        items.push(json!({ "PK": partition, "SK": format!("ORDER#{order}#ITEM#{index}x"), "pieces": index }));
    }
    let sample = sample_of(&["PK", "SK"], &items);
    assert_eq!(
        templates(&sample),
        ["SHOP#{shop} / ORDER#{order}", "SHOP#{shop} / ORDER#{order}#ITEM#{item}"]
    );
    let inferred = infer(&sample);
    assert_eq!(inferred.undescribed, 0, "{}", inferred.toml);
    assert!(inferred.toml.contains("times = { order = \"ulid\" }"), "{}", inferred.toml);
    assert!(inferred.toml.contains("ROLLUP#ORDER#DAY#{order:day}"), "{}", inferred.toml);
}
