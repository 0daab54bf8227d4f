//! G1 to G5: models, items, costs.

use afterwrite_model::table::Model;
use afterwrite_tests::change_record::{stream_of, stream_record};
use serde_json::{Value, json};

use super::{folder, json, text};

/// The explanation of an order with these attributes.
fn explained(code: i32, attributes: &Value) -> Value {
    let folder = folder();
    let mut item = json!({ "PK": { "S": "ORDER#1" } });
    item.as_object_mut().unwrap().extend(attributes.as_object().unwrap().clone());
    std::fs::write(folder.path().join("item.json"), item.to_string()).unwrap();
    let explained =
        json(folder.path(), code, &["model", "explain", "shop.toml", "--item", "item.json", "--json"]);
    explained["items"][0].clone()
}

#[test]
#[ignore = "needs the release binaries: run tests/run"]
fn g1_explain_marks_what_the_row_will_not_have() {
    let item = explained(
        0,
        &json!({
            "at": { "S": "some day" }, "price": { "N": "1.005" }, "amount": { "N": "9223372036854775808" },
            "gift": { "S": "true" },
        }),
    );
    let row = &item["rows"][0];
    assert_eq!((&row["dt"], &row["has_no_day"]), (&json!("0001-01-01"), &json!(true)));
    for (column, rescued) in [
        ("at", r#"{"S":"some day"}"#),
        ("price", r#"{"N":"1.005"}"#),
        ("amount", r#"{"N":"9223372036854775808"}"#),
        ("gift", r#"{"S":"true"}"#),
        ("note", "null"),
    ] {
        assert_eq!(row["columns"][column], Value::Null, "{column}");
        assert_eq!(row["rescued"][column], rescued, "{column}");
    }
}

#[test]
#[ignore = "needs the release binaries: run tests/run"]
fn g1_explain_shows_the_values_that_the_row_has() {
    let attributes = json!({
        "at": { "S": "2026-02-06T10:00:00+02:00" }, "price": { "S": "23.40" }, "amount": { "N": "7" },
        "gift": { "BOOL": true }, "note": { "S": "n" },
    });
    let item = explained(0, &attributes);
    let row = &item["rows"][0];
    assert_eq!((&row["dt"], row.get("has_no_day")), (&json!("2026-02-06"), None));
    assert_eq!(row["columns"]["at"], "2026-02-06T08:00:00Z");
    assert_eq!(row["columns"]["at_day"], "2026-02-06");
    assert_eq!(row["columns"]["price"], "23.40");
    assert_eq!(row.get("rescued"), None);
}

#[test]
#[ignore = "needs the release binaries: run tests/run"]
fn f4_a_text_that_is_no_number_is_kept_and_named() {
    for text in ["1,234.50", "", "12 EUR"] {
        let item = explained(1, &json!({ "price": { "S": text }, "note": { "S": "n" } }));
        let problem = item["problems"][0].as_str().unwrap();
        assert!(problem.contains("attribute `price`"), "{problem}");
        assert_eq!(item["rows"][0]["rescued"]["price"], json!({ "S": text }).to_string());
    }
    let item = explained(0, &json!({ "price": { "S": "63.13999999999999" }, "note": { "S": "n" } }));
    assert_eq!(item["counted"][0]["measures"]["revenue"], "+63.13999999999999");
}

#[test]
#[ignore = "needs the release binaries: run tests/run"]
fn g2_explain_names_the_condition_that_leaves_an_item_out() {
    let item = explained(0, &json!({ "status": { "S": "NEW" }, "note": { "S": "n" } }));
    let left_out = item["left_out"].as_array().unwrap();
    let of = |part: &str| left_out.iter().find(|left| left["part"] == part).unwrap();
    assert_eq!(of("aggregate unpaid")["needs"], "paid = [{ anything-but = [true] }]");
    assert_eq!(of("aggregate unpaid")["found"], "the item has no paid");
    assert_eq!(of("aggregate orders: measure done")["needs"], "status = [\"DONE\"]");
    assert_eq!(of("aggregate orders: measure done")["found"], "status is NEW");
    // A measure adds nothing of an item without its value.
    assert_eq!(of("aggregate orders: measure revenue")["needs"], "exact");
    assert_eq!(of("aggregate orders: measure revenue")["found"], "the item has no exact");
    assert_eq!(left_out.len(), 3);
    // A value that does not fit is not missing: the problem names it.
    let misfit = explained(1, &json!({ "paid": { "S": "yes" }, "note": { "S": "n" } }));
    let left_out = misfit["left_out"].to_string();
    assert!(
        left_out.contains("paid does not fit the model") && !left_out.contains("has no paid"),
        "{left_out}"
    );
}

#[test]
fn g2_check_warns_where_another_condition_excludes_what_is_left() {
    for (first, second, is_impossible) in [
        (r#"{ anything-but = { prefix = "D" } }"#, r#"{ prefix = "DONE" }"#, true),
        (r#"{ anything-but = { prefix = "DONE" } }"#, r#"{ prefix = "D" }"#, false),
        (r#"{ anything-but = ["A", "B"] }"#, r#""A", "B""#, true),
        (r#"{ anything-but = ["A", "B"] }"#, r#""A", "C""#, false),
    ] {
        let model = super::MODEL
            .replace("when = { paid = [{ anything-but = true }] }", &format!("when.status = [{first}]"))
            .replace(
                "measures.unpaid = \"count\"",
                &format!("measures.unpaid = {{ count = true, when.status = [{second}] }}"),
            );
        let report = Model::check(&model, "shop.toml");
        let warned = report.problems.iter().any(|problem| problem.code.code() == "AW113");
        assert_eq!(warned, is_impossible, "{first} {second}: {:?}", report.problems);
    }
}

#[test]
#[ignore = "needs the release binaries: run tests/run"]
fn g2_check_warns_where_no_item_can_match() {
    let folder = folder();
    let model = super::MODEL.replace(
        "done = { count = true, when.status = [\"DONE\"] }",
        "done = { count = true, when = { status = [\"DONE\"], \"$or\" = [{ status = [\"A\"] }, { status = [\"B\"] }] } }",
    );
    std::fs::write(folder.path().join("shop.toml"), model).unwrap();
    let report = text(folder.path(), 1, &["model", "check", "shop.toml", "--deny-warnings"]);
    assert!(report.contains("AW113") && report.contains("measure `done`"), "{report}");
}

/// A visit looks up its clinic. Without the clinic, the report names the option that reads it.
#[test]
#[ignore = "needs the release binaries: run tests/run"]
fn g2_invoke_names_the_option_for_items_that_lookups_find() {
    const CLINICS: &str = r##"
name = "clinics"
generation = 1
[tables.Tab]
key = ["PK"]
[entities.clinic]
key = { PK = "CLINIC#{clinic}" }
attributes = { town = "S" }
[entities.visit]
key = { PK = "VISIT#{visit}" }
attributes = { clinic = "S" }
[lookups.town]
of = "clinic"
key = { PK = "CLINIC#{clinic}" }
gives = ["town"]
[rollups.town]
key = { PK = "TOWN#{town}", SK = "TOTAL" }
[[aggregates]]
name = "visits"
of = "visit"
lookup = "town"
into = "town"
measures.visits = "count"
"##;
    let folder = folder();
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    let visit = json!({ "PK": { "S": "VISIT#1" }, "clinic": { "S": "north" } });
    let stream = "arn:aws:dynamodb:us-east-1:1:table/Tab/stream/2026-01-01T00:00:00.000";
    let record =
        stream_record(stream, &["PK"], ("000000000000000000001", 1_770_000_000), (None, Some(&visit)));
    write("clinics.toml", CLINICS);
    write("event.json", &json!({ "Records": [record] }).to_string());
    write("items.jsonl", "{\"PK\":\"CLINIC#north\",\"town\":\"Ulm\"}\n");
    let invoke = ["invoke", "--event", "event.json", "--model", "clinics.toml"];
    let without = text(folder.path(), 1, &invoke);
    assert!(without.contains("found no item") && without.contains("--items"), "{without}");
    let with = text(folder.path(), 0, &[invoke.as_slice(), &["--items", "items.jsonl"]].concat());
    assert!(with.contains("TOWN#Ulm") && !with.contains("pass a file"), "{with}");
}

/// Records of orders and customers, and of items of no entity, in this order.
fn sample(kinds: &[(&str, u32)]) -> String {
    let mut lines = String::new();
    for (kind, number) in kinds {
        for index in 0..*number {
            let key = json!({ "PK": { "S": format!("{kind}#{index}") } });
            let stream = "arn:aws:dynamodb:us-east-1:1:table/Tab/stream/2026-01-01T00:00:00.000";
            let position = format!("{:021}", index + 1);
            let change = (&*position, 1_770_000_000);
            let mut record = stream_record(stream, &["PK"], change, (None, Some(&key)));
            record["eventID"] = json!(format!("{kind}-{index}"));
            lines.push_str(&format!("{record}\n"));
        }
    }
    lines
}

/// The records a month of a sample at these rates.
fn records_a_month(kinds: &[(&str, u32)], rates: &[&str]) -> f64 {
    let folder = folder();
    std::fs::write(folder.path().join("sample.jsonl"), sample(kinds)).unwrap();
    let mut arguments = vec!["cost", "shop.toml", "--sample", "sample.jsonl", "--json"];
    for rate in rates {
        arguments.extend(["--rate", rate]);
    }
    json(folder.path(), 0, &arguments)["records"].as_f64().unwrap()
}

#[test]
#[ignore = "needs the release binaries: run tests/run"]
fn g3_cost_gives_every_entity_its_rate_in_any_order_of_the_sample() {
    const MONTH: f64 = 730.0 * 3600.0;
    let rates = ["customer=3/s", "order=1/s"];
    for kinds in [
        [("CUSTOMER", 300), ("ORDER", 100)],
        [("ORDER", 100), ("CUSTOMER", 300)],
        [("CUSTOMER", 300), ("ORDER", 400)],
    ] {
        let records = records_a_month(&kinds, &rates);
        assert!((records / MONTH - 4.0).abs() < 0.02, "{kinds:?}: {records}");
    }
    let kinds = [("CUSTOMER", 300), ("OTHER", 500), ("ORDER", 100)];
    let records = records_a_month(&kinds, &["customer=3/s", "order=1/s", "unmatched=2/s"]);
    assert!((records / MONTH - 6.0).abs() < 0.02, "{records}");
}

#[test]
#[ignore = "needs the release binaries: run tests/run"]
fn g4_model_diff_takes_items_of_entities_that_stay_as_they_are() {
    let folder = folder();
    let equal = ["model", "diff", "shop.toml", "shop.toml", "--items", "order=590"];
    assert!(text(folder.path(), 0, &equal).contains("The models are equal"));
    let next = super::MODEL.replace("generation = 1", "generation = 2").replace(
        "measures.customers = \"count\"",
        "measures = { customers = \"count\", people = \"count\" }",
    );
    std::fs::write(folder.path().join("next.toml"), next).unwrap();
    let changed = [
        "model",
        "diff",
        "shop.toml",
        "next.toml",
        "--items",
        "order=590",
        "--items",
        "customer=7",
        "--json",
    ];
    let diff = json(folder.path(), 0, &changed);
    assert_eq!(diff["reconcile"][0]["items"], 7);
    let unknown = text(folder.path(), 2, &["model", "diff", "shop.toml", "shop.toml", "--items", "ordr=1"]);
    assert!(unknown.contains("ordr") && unknown.contains("order"), "{unknown}");
}

#[test]
#[ignore = "needs the release binaries: run tests/run"]
fn g4_model_diff_names_what_a_backfill_does_not_write() {
    let folder = folder();
    let orders = |measures: &str| {
        super::MODEL
            .replace("generation = 1", "generation = 2")
            .replace("revenue = { sum = \"exact\" }", &format!("revenue = {{ sum = \"exact\" }}\n{measures}"))
    };
    let differences = |code: i32, before: &str, now: &str| {
        std::fs::write(folder.path().join("before.toml"), before).unwrap();
        std::fs::write(folder.path().join("now.toml"), now).unwrap();
        text(folder.path(), code, &["model", "diff", "before.toml", "now.toml"]).replace("\n", " ")
    };
    let average = orders("mean = { avg = \"revenue\", over = \"orders\" }");
    let added = differences(0, super::MODEL, &average);
    assert!(added.contains("mean") && added.contains("afterwrite repair"), "{added}");
    let most = orders("most = { max = \"exact\" }");
    let other = most.replace("generation = 2", "generation = 3").replace("max = \"exact\"", "max = \"id\"");
    let changed = differences(1, &most, &other);
    assert!(changed.contains("most") && changed.contains("another name"), "{changed}");
}

#[test]
#[ignore = "needs the release binaries: run tests/run"]
fn g5_a_path_in_a_value_keeps_its_slashes() {
    let folder = folder();
    let with = |paths: &str| {
        let model = format!("{}\n[[caches]]\nof = \"order\"\npaths = {paths}\n", super::MODEL);
        std::fs::write(folder.path().join("shop.toml"), model).unwrap();
        let item = json!({ "PK": "ORDER#1", "note": "/blog/2026/a b?c*" });
        std::fs::write(folder.path().join("item.json"), item.to_string()).unwrap();
    };
    let paths = |paths: &str| {
        with(paths);
        let arguments = ["model", "explain", "shop.toml", "--item", "item.json", "--json"];
        let explained = json(folder.path(), 0, &arguments);
        (explained["items"][0]["stale_paths"].clone(), explained["items"][0]["notes"].to_string())
    };
    let (stale, notes) = paths("[\"/{note:path}\", \"/{note:path}/*\", \"/p/{note:path}\"]");
    assert_eq!(
        stale,
        json!(["/blog/2026/a%20b%3Fc%2A", "/blog/2026/a%20b%3Fc%2A/*", "/p/blog/2026/a%20b%3Fc%2A"])
    );
    assert!(!notes.contains("slash"), "{notes}");
    let (stale, notes) = paths("[\"/p/{note}\"]");
    assert_eq!(stale, json!(["/p/%2Fblog%2F2026%2Fa%20b%3Fc%2A"]));
    assert!(notes.contains("{note:path}"), "{notes}");
    with("[\"/{note}\"]");
    let report = text(folder.path(), 1, &["model", "check", "shop.toml", "--deny-warnings"]);
    assert!(report.contains("AW114") && report.contains("{note:path}"), "{report}");
}

#[test]
#[ignore = "needs the release binaries: run tests/run"]
fn g5_a_slash_at_the_end_of_a_path_is_not_doubled() {
    let folder = folder();
    let model = format!(
        "{}\n[[caches]]\nof = \"order\"\npaths = [\"/{{note:path}}\", \"/x/{{note:path}}/*\"]\n",
        super::MODEL
    );
    std::fs::write(folder.path().join("shop.toml"), model).unwrap();
    for (note, expected) in [
        ("blog/2026", json!(["/blog/2026", "/x/blog/2026/*"])),
        ("/blog/2026/", json!(["/blog/2026/", "/x/blog/2026/*"])),
        ("blog//2026", json!(["/blog//2026", "/x/blog//2026/*"])),
        ("/", json!(["/", "/x/*"])),
    ] {
        let item = json!({ "PK": "ORDER#1", "note": note });
        std::fs::write(folder.path().join("item.json"), item.to_string()).unwrap();
        let arguments = ["model", "explain", "shop.toml", "--item", "item.json", "--json"];
        let explained = json(folder.path(), 0, &arguments);
        assert_eq!(explained["items"][0]["stale_paths"], expected, "{note}");
    }
}

/// Orders whose days are those of their shop's city.
const CITIES: &str = r##"
name = "cities"
generation = 1
[tables.Tab]
key = ["PK"]
[entities.shop]
key = { PK = "SHOP#{shop}" }
attributes = { zone = "S" }
[entities.order]
key = { PK = "ORDER#{id}" }
attributes = { at = "S", shop = "S" }
[lookups.city]
of = "shop"
key = { PK = "SHOP#{shop}" }
gives = ["zone"]
[rollups.day]
key = { PK = "DAY#{at:day@zone}", SK = "ROLLUP" }
[[aggregates]]
name = "orders"
of = "order"
lookup = "city"
into = "day"
measures.orders = "count"
"##;

#[test]
#[ignore = "needs the release binaries: run tests/run"]
fn tail_of_a_file_says_that_a_zone_is_not_read_and_does_not_blame_it() {
    let folder = folder();
    std::fs::write(folder.path().join("cities.toml"), CITIES).unwrap();
    let order =
        json!({ "PK": { "S": "ORDER#1" }, "at": { "S": "2026-02-06T10:00:00Z" }, "shop": { "S": "s1" } });
    let record = stream_record(&stream_of("Tab"), &["PK"], ("1", 1_770_372_000), (None, Some(&order)));
    std::fs::write(folder.path().join("records.jsonl"), format!("{record}\n")).unwrap();
    let line =
        json(folder.path(), 0, &["tail", "--file", "records.jsonl", "--model", "cities.toml", "--json"]);
    let unknown = line["unknown"].as_str().unwrap();
    assert!(unknown.contains("the outputs of `city` are not read here"), "{line}");
    assert_eq!((line.get("problem"), &line["rollups"]), (None, &json!([])), "{line}");
}
