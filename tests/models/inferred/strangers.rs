//! Tables whose words and separators no list has: the sample itself shows what names a kind of items.

use afterwrite_inference::{InferenceHints, InferredModel};
use afterwrite_model::table::Model;
use serde_json::{Value, json};

use super::generated::{expect_lines, infer, model_of, sample_of, templates, with_proposals};

/// A first table: customers with orders, restaurants with dishes.
fn food(customers: usize) -> Vec<Value> {
    let mut items = Vec::new();
    for index in 0..customers {
        let (customer, restaurant) = (format!("CUST#c{index}"), format!("REST#r{index}"));
        items.push(
            json!({ "PK": customer, "SK": "PROFILE", "name": "n", "email": format!("{index}@example.com") }),
        );
        items.push(json!({ "PK": restaurant, "SK": "META", "name": "n", "cuisine": "thai" }));
        for number in 0..2 {
            items.push(
                json!({ "PK": restaurant, "SK": format!("DISH#d{number}"), "dish": "x", "price": number }),
            );
            items.push(json!({ "PK": customer, "SK": format!("ORD#{index}{number}"), "restaurantId": format!("r{index}"),
                "total": index * 7 + number, "placedAt": "2026-02-06T10:00:00Z" }));
        }
    }
    items
}

#[test]
fn the_kinds_of_a_first_table_are_found_in_three_and_in_many_partitions() {
    for customers in [3, 40] {
        assert_eq!(
            templates(&sample_of(&["PK", "SK"], &food(customers))),
            [
                "CUST#{cust} / ORD#{ord}",
                "CUST#{cust} / PROFILE",
                "REST#{rest} / DISH#{dish_id}",
                "REST#{rest} / META"
            ],
            "{customers} customers"
        );
    }
    expect_lines(
        &model_of(&food(40)),
        &["#key = { PK = \"CUST#{cust}\", SK = \"ROLLUP#ORD\" }", "#total_sum = { sum = \"total\" }"],
    );
}

#[test]
fn a_type_attribute_whose_value_begins_the_keys_names_kinds() {
    let item = |index: usize| {
        let kind = ["quorn", "snibb"][index % 2];
        json!({ "pk": format!("{kind}#{index}x"), "sk": kind, "_model_name": kind, "weight": index })
    };
    let items: Vec<Value> = (0..60).map(item).collect();
    let sample = sample_of(&["pk", "sk"], &items);
    assert_eq!(templates(&sample), ["quorn#{quorn} / quorn", "snibb#{snibb} / snibb"]);
    let mut renamed = items;
    for item in &mut renamed {
        let kind = item.as_object_mut().and_then(|item| item.remove("_model_name")).expect("a type");
        item["zz"] = kind;
    }
    let sample = sample_of(&["pk", "sk"], &renamed);
    let hints = InferenceHints { type_attribute: Some("zz".to_owned()), ..InferenceHints::default() };
    assert_eq!(infer(&sample).entities, 1, "an attribute of another name may name tenants");
    assert_eq!(InferredModel::with(&sample, &hints).entities, 2);
}

#[test]
fn keys_of_electrodb_have_the_names_of_their_attributes() {
    let items: Vec<Value> = (0..60)
        .flat_map(|index| {
            let partition = format!("$taskapp#employee_e{}", index % 20);
            let employee = format!("e{}", index % 20);
            [
                json!({ "pk": partition, "sk": format!("$tasks_1#task_t{index}"), "__edb_e__": "tasks",
                    "employee": employee, "task": format!("t{index}"), "points": index % 8 }),
                json!({ "pk": partition, "sk": "$employees_1", "__edb_e__": "employees", "employee": employee }),
            ]
        })
        .collect();
    assert_eq!(
        templates(&sample_of(&["pk", "sk"], &items)),
        [
            "$taskapp#employee_{employee} / $employees_1",
            "$taskapp#employee_{employee} / $tasks_1#task_{task}"
        ]
    );
}

/// A word in lower case before `-` is a constant, unless it is part of an id that an attribute has, too.
#[test]
fn words_in_lower_case_are_constants_before_characters_of_texts() {
    let courses = |name: &str| {
        let item = |index: usize| {
            let course = format!("course-{}", 1000 + index / 4);
            match index % 4 {
                0 => json!({ "PK": course, "SK": "details", (name): course, "credits": index % 7 }),
                _ => {
                    json!({ "PK": course, "SK": format!("student-{index}"), (name): course, "grade": index % 5 })
                }
            }
        };
        let items: Vec<Value> = (0..80).map(item).collect();
        templates(&sample_of(&["PK", "SK"], &items))
    };
    assert_eq!(courses("gsi1pk"), ["course-{course} / details", "course-{course} / student-{student}"]);
    assert_eq!(courses("course_id"), ["{course_id} / details", "{course_id} / student-{student}"]);
    let rows: Vec<Value> = (0..40)
        .map(|index| json!({ "userId": format!("user-{}", index % 9), "at": index, "x": 1 }))
        .collect();
    assert_eq!(templates(&sample_of(&["userId"], &rows)), ["{userId}"]);
}

#[test]
fn a_stated_separator_is_used() {
    let items: Vec<Value> = (0..60)
        .map(|index| json!({ "PK": format!("ITEM.{}", index % 9), "SK": format!("x~{index}.7") }))
        .collect();
    let sample = sample_of(&["PK", "SK"], &items);
    let hints = InferenceHints { separator: Some('~'), ..InferenceHints::default() };
    let inferred = InferredModel::with(&sample, &hints);
    Model::parse(&with_proposals(&inferred.toml), "model.toml").expect("it loads");
    assert!(inferred.toml.contains("x~{"), "{}", inferred.toml);
}

#[test]
fn words_that_may_name_kinds_are_doubts() {
    let symbols = ["AAPL", "MSFT", "NVDA"];
    let items: Vec<Value> = (0..90)
        .map(|index| json!({ "PK": format!("DAY#{}", index % 30), "SK": symbols[index % 3], "price": index }))
        .collect();
    let toml = model_of(&items);
    assert!(symbols.iter().all(|symbol| !toml.contains(symbol)), "{toml}");
    assert!(toml.contains("has 3 values, all words, taken for names of people, tenants or states"), "{toml}");
}

#[test]
fn hostile_samples_give_models_that_load() {
    let texts = [
        "\"]\n[entities.x]",
        "{a}{b}",
        "# \u{1b}[31m",
        "AKIAIOSFODNN7EXAMPLE",
        "$",
        "$_1",
        "a\u{202e}b#",
        "'''",
    ];
    for first in texts {
        let row = |index: usize| json!({ "PK": format!("{first}#{}", index % 5), "SK": format!("{}#{first}{index}", texts[index % 8]), (first): first });
        let items: Vec<Value> = (0..40).map(row).collect();
        let toml = infer(&sample_of(&["PK", "SK"], &items)).toml;
        assert!(!toml.contains(['\u{1b}', '\u{202e}']), "{toml}");
    }
}
