//! D1, D3, D4: which items count, decided once.

use std::collections::BTreeMap;
use std::sync::Arc;

use afterwrite_model::record::{Operation, RecordDecoder, Timestamp};
use afterwrite_model::table::Model;
use afterwrite_preview::invocation::{StreamFunctions, invoke_stream_functions};
use afterwrite_preview::tables::{OverlayTables, SourceItems};
use serde_json::{Value, json};

use super::world::{CountingWorld, NOW, Rollups, TABLE, item, model, problems};

/// Orders count for their customer, and by the customer's name. `{treatment}` is what happens to an order whose customer has no name.
fn orders(treatment: &str) -> Arc<Model> {
    model(&format!(
        r##"
        [entities.customer]
        key = {{ PK = "CUSTOMER#{{customer}}", SK = "PROFILE" }}
        attributes = {{ name = "S" }}
        [entities.order]
        key = {{ PK = "ORDERS#{{customer}}", SK = "ORDER#{{order}}" }}
        attributes = {{ price = "N" }}
        [lookups.buyer]
        of = "customer"
        key = {{ PK = "CUSTOMER#{{customer}}", SK = "PROFILE" }}
        gives = ["name"]
        [rollups.customer]
        key = {{ PK = "OF#{{customer}}", SK = "ROLLUP" }}
        [rollups.name]
        key = {{ PK = "NAME#{{name}}", SK = "ROLLUP" }}
        [[aggregates]]
        name = "orders"
        of = "order"
        into = "customer"
        measures = {{ orders = "count", spent = {{ sum = "price" }} }}
        [[aggregates]]
        name = "named"
        of = "order"
        lookup = "buyer"
        into = ["customer", "name"]
        {treatment}
        measures.named = "count"
        "##
    ))
}

/// Two orders of a customer with a name, one of a customer without, and one of a customer that does not exist.
fn items() -> Vec<Value> {
    let price = |price: &str| json!({ "price": { "N": price } });
    vec![
        item("CUSTOMER#a", "PROFILE", json!({ "name": { "S": "Ada" } })),
        item("CUSTOMER#b", "PROFILE", json!({})),
        item("ORDERS#a", "ORDER#1", price("1")),
        item("ORDERS#a", "ORDER#2", price("2")),
        item("ORDERS#b", "ORDER#3", price("3")),
        item("ORDERS#c", "ORDER#4", price("4")),
    ]
}

fn expected(of_unnamed: &[(&str, &str)]) -> Rollups {
    let measures = |measures: &[(&str, &str)]| -> BTreeMap<String, String> {
        measures.iter().map(|(name, number)| ((*name).to_owned(), (*number).to_owned())).collect()
    };
    let unnamed = |price| measures(&[of_unnamed, &[("orders", "1"), ("spent", price)]].concat());
    BTreeMap::from([
        ("OF#a / ROLLUP".to_owned(), measures(&[("named", "2"), ("orders", "2"), ("spent", "3")])),
        ("NAME#Ada / ROLLUP".to_owned(), measures(&[("named", "2")])),
        ("OF#b / ROLLUP".to_owned(), unnamed("3")),
        ("OF#c / ROLLUP".to_owned(), unnamed("4")),
    ])
}

#[tokio::test]
async fn d1_every_way_skips_the_same_misfits() {
    for (treatment, of_unnamed) in
        [("on_misfit = \"skip\"", &[][..]), ("optional = [\"name\"]", &[("named", "1")][..])]
    {
        let (model, items, expected) = (orders(treatment), items(), expected(of_unnamed));
        let mut live = CountingWorld::with(&model, &[]);
        let records: Vec<Value> = items.iter().map(|item| live.insert(item)).collect();
        let handled = live.deliver(&records).await;
        assert!(handled.failures.is_empty() && handled.parked.is_empty(), "{handled:?}");
        assert_eq!(live.rollups(), expected, "functions, {treatment}");
        assert_eq!(live.verify().await.findings, [], "{treatment}");

        let backfilled = CountingWorld::with(&model, &items);
        let job = backfilled.backfill(false).await;
        assert_eq!(job.totals.get("failed"), None, "{treatment}: {job:?}");
        assert_eq!(backfilled.rollups(), expected, "backfill, {treatment}");
        assert_eq!(backfilled.verify().await.findings, [], "{treatment}");

        let (bulk, totals) = CountingWorld::with(&model, &items).bulk(&items).await;
        assert_eq!(totals.get("failed"), None, "{treatment}: {totals:?}");
        assert_eq!(bulk, expected, "bulk, {treatment}");

        let repaired = CountingWorld::with(&model, &items);
        let findings = repaired.verify().await.findings;
        assert!(findings.iter().all(|finding| finding.is_drift()), "{findings:?}");
        repaired.repair(&findings).await;
        assert_eq!(repaired.rollups(), expected, "repair, {treatment}");
    }
}

/// Customers and their orders, counted without a lookup.
const COUNTED: &str = r##"
    [entities.customer]
    key = { PK = "CUSTOMER#{customer}", SK = "PROFILE" }
    attributes = { name = "S" }
    [entities.order]
    key = { PK = "ORDERS#{customer}", SK = "ORDER#{order}" }
    attributes = { price = "N" }
    [rollups.all]
    key = { PK = "ALL", SK = "ROLLUP" }
    [[aggregates]]
    name = "customers"
    of = "customer"
    into = "all"
    measures.customers = "count"
    [[aggregates]]
    name = "orders"
    of = "order"
    into = "all"
    measures.orders = "count"
"##;

/// Orders by the name of their customer.
const NAMED: &str = r##"
    [lookups.buyer]
    of = "customer"
    key = { PK = "CUSTOMER#{customer}", SK = "PROFILE" }
    gives = ["name"]
    [rollups.name]
    key = { PK = "NAME#{name}", SK = "ROLLUP" }
    [[aggregates]]
    name = "named"
    of = "order"
    lookup = "buyer"
    into = "name"
    measures.named = "count"
"##;

#[tokio::test]
async fn d1_a_lookup_that_nothing_has_remembered_finds_its_item() {
    for treatment in ["", "on_misfit = \"skip\"", "optional = [\"name\"]"] {
        for way in ["backfill", "repair"] {
            let mut world = CountingWorld::new(&model(COUNTED));
            let records: Vec<Value> = items().iter().map(|item| world.insert(item)).collect();
            world.deliver(&records).await;
            // Every item has an entry, which lacks what the next model counts.
            world.model = model(&format!("{COUNTED}{NAMED}{treatment}"));
            let mut findings = world.verify().await.findings;
            findings.retain(|finding| finding.is_drift());
            assert_eq!(
                findings.len(),
                2,
                "the orders of the customer with a name, {treatment}: {findings:?}"
            );
            match way {
                "backfill" => drop(world.backfill(false).await),
                _ => drop(world.repair(&findings).await),
            }
            let named = BTreeMap::from([("named".to_owned(), "2".to_owned())]);
            assert_eq!(world.rollups().get("NAME#Ada / ROLLUP"), Some(&named), "{way}, {treatment}");
        }
    }
}

/// Orders by the customer that an index finds.
const FOUND_BY_INDEX: &str = r##"
    [entities.customer]
    key = { PK = "CUSTOMER#{customer}", SK = "PROFILE" }
    attributes = { email = "S" }
    [entities.order]
    key = { PK = "ORDER#{order}", SK = "-" }
    attributes = { email = "S", status = "S" }
    [lookups.buyer]
    of = "customer"
    index = "by-email"
    key = { email = "{email}" }
    gives = ["customer"]
    [rollups.customer]
    key = { PK = "OF#{customer}", SK = "ROLLUP" }
    [[aggregates]]
    name = "orders"
    of = "order"
    lookup = "buyer"
    when.status = ["PLACED"]
    into = "customer"
    measures.orders = "count"
"##;

#[tokio::test]
async fn d1_an_unknown_lookup_of_an_item_with_an_entry_names_the_command_that_counts_it() {
    let order = |status: &str| {
        item("ORDER#1", "-", json!({ "email": { "S": "a@example.com" }, "status": { "S": status } }))
    };
    let mut world = CountingWorld::new(&model(FOUND_BY_INDEX));
    let insert = world.insert(&order("DRAFT"));
    world.deliver(&[insert]).await;
    // The record of this change is lost. A backfill skips items that have an entry of the model, unless it counts all.
    world.put(&order("PLACED"));
    let findings = world.verify().await.findings;
    let [finding] = &findings[..] else { panic!("{findings:?}") };
    assert!(!finding.is_drift());
    assert!(finding.cause.as_ref().is_some_and(|cause| cause.contains("`afterwrite backfill --all`")));
}

#[tokio::test]
async fn d1_what_must_be_parked_is_reported_by_every_way() {
    let (model, items) = (orders(""), items());
    let backfilled = CountingWorld::with(&model, &items);
    let job = backfilled.backfill(false).await;
    assert_eq!((job.totals["failed"], job.totals["failed_RecordError"]), (2, 2), "{job:?}");
    let (_, totals) = CountingWorld::with(&model, &items).bulk(&items).await;
    assert_eq!(totals["failed"], 2, "{totals:?}");
}

#[tokio::test]
async fn d1_invoke_shows_the_rollups_that_it_writes() {
    let model = orders("on_misfit = \"skip\"");
    let mut world = CountingWorld::new(&model);
    let records: Vec<Value> = items().iter().map(|item| world.insert(item)).collect();
    let (names, state): (_, Arc<str>) = (world.names(), Arc::from("state"));
    let now = Timestamp::from_epoch_seconds(NOW);
    let mut source = SourceItems::new(Arc::clone(&model), names.clone(), Arc::clone(&state), now);
    records.iter().for_each(|record| source.add_images(&record.to_string()).unwrap());
    let event = json!({ "Records": records }).to_string();
    let (tables, functions) = (OverlayTables::new(source), StreamFunctions::Both);
    let report = invoke_stream_functions(&model, &names, state, tables, functions, event.as_bytes());
    let report = report.await.unwrap();
    assert!(report.is_counted());
    let mut shown: Vec<String> = report
        .records
        .iter()
        .flat_map(|record| &record.rollups)
        .map(|rollup| format!("{} {:?}", rollup.partition, rollup.measures.keys().collect::<Vec<_>>()))
        .collect();
    shown.sort();
    let expected = [
        r#"NAME#Ada ["named"]"#,
        r#"NAME#Ada ["named"]"#,
        r#"OF#a ["named", "orders", "spent"]"#,
        r#"OF#a ["named", "orders", "spent"]"#,
        r#"OF#b ["orders", "spent"]"#,
        r#"OF#c ["orders", "spent"]"#,
    ];
    assert_eq!(shown, expected);
}

/// A model with the derived value `amount`, the first of two attributes of these types, and a measure of it.
fn first_of(types: [&str; 2], measure: &str) -> String {
    let [one, other] = types;
    format!(
        r##"
        [entities.order]
        key = {{ PK = "ORDER#{{order}}", SK = "-" }}
        attributes = {{ price = "{one}", legacy_price = "{other}" }}
        derive.amount = {{ first = ["price", "legacy_price"] }}
        [rollups.all]
        key = {{ PK = "ALL", SK = "ROLLUP" }}
        [[aggregates]]
        name = "orders"
        of = "order"
        into = "all"
        measures.m = {measure}
        "##
    )
}

#[test]
fn d3_the_first_of_values_has_the_types_of_all() {
    let numeric = [
        "{ sum = \"amount\" }",
        "{ max = \"amount\" }",
        "{ min = \"amount\" }",
        "{ histogram = \"amount\", width = 10, bins = 10 }",
        "{ percentiles = \"amount\", relative_error = 0.1, from = 1, to = 100 }",
    ];
    for measure in numeric {
        for types in [["N", "S"], ["S", "N"], ["N", "L"], ["N", "BOOL"]] {
            let found = problems(&first_of(types, measure));
            assert!(
                found.contains("AW041") && found.contains("`amount` is a number or "),
                "{types:?}: {found}"
            );
        }
        for types in [["N", "N"], ["N", "any"]] {
            assert_eq!(problems(&first_of(types, measure)), "", "{types:?} {measure}");
        }
    }
    let in_a_key = first_of(["N", "S"], "\"count\"").replace("ALL", "ALL#{amount}");
    assert_eq!(problems(&in_a_key), "", "a number and a text can both be in a key");
    let compared = first_of(["N", "S"], "{ count = true, when.amount = [\"a\", { numeric = [\">\", 1] }] }");
    assert_eq!(problems(&compared), "");
    let never = first_of(["N", "S"], "{ count = true, when.amount = [true] }");
    assert!(problems(&never).contains("AW051"));
}

fn counted() -> Arc<Model> {
    model(
        r##"
        [entities.order]
        key = { PK = "ORDER#{order}", SK = "-" }
        attributes = { price = "N", placed_at = "S" }
        [rollups.all]
        key = { PK = "ALL", SK = "ROLLUP" }
        [[aggregates]]
        name = "orders"
        of = "order"
        into = "all"
        measures = { orders = "count", total = { sum = "price" } }
        [datasets.orders]
        of = "order"
        partition = "placed_at:day"
        columns = { price = "int64", placed_at = "timestamp" }
        "##,
    )
}

#[tokio::test]
async fn d4_a_removal_with_an_image_is_a_removal() {
    let order = item("ORDER#1", "-", json!({ "price": { "N": "5" }, "placed_at": { "S": "2026-02-06" } }));
    for stray in [json!({}), order.clone(), json!(null)] {
        let mut world = CountingWorld::new(&counted());
        let insert = world.insert(&order);
        let mut remove = world.record(Some(&order), None);
        remove["dynamodb"]["NewImage"] = stray.clone();
        let handled = world.deliver(&[insert.clone(), remove.clone()]).await;
        assert!(handled.failures.is_empty() && handled.parked.is_empty(), "{handled:?}");
        assert_eq!(world.rollups(), Rollups::new(), "{stray}");

        let world = CountingWorld::new(&counted());
        world.deliver(&[insert]).await;
        world.deliver(&[remove.clone()]).await;
        assert_eq!(world.rollups(), Rollups::new(), "{stray}");

        let mut source = SourceItems::new(
            counted(),
            vec![Arc::from(TABLE)],
            Arc::from("state"),
            Timestamp::from_epoch_seconds(NOW),
        );
        source.add_images(&remove.to_string()).unwrap();
        assert_eq!(source.current().count(), 0, "{stray}");
    }
}

#[tokio::test]
async fn d4_an_expiry_with_an_empty_image_is_not_settled() {
    let order = item("ORDER#1", "-", json!({ "price": { "N": "5" } }));
    for image in [None, Some(json!({})), Some(json!(null))] {
        let mut world = CountingWorld::new(&counted());
        let insert = world.insert(&order);
        let mut expiry = world.record(Some(&order), None);
        expiry["userIdentity"] = json!({ "type": "Service", "principalId": "dynamodb.amazonaws.com" });
        let mut lacking = expiry.clone();
        match &image {
            Some(image) => lacking["dynamodb"]["OldImage"] = image.clone(),
            None => drop(lacking["dynamodb"].as_object_mut().unwrap().remove("OldImage")),
        }
        world.deliver(&[insert]).await;
        let handled = world.deliver(&[lacking]).await;
        assert_eq!((handled.failures.len(), handled.parked.len()), (0, 1), "{image:?}");
        // The record as the stream has it settles the order.
        let handled = world.deliver(&[expiry]).await;
        assert!(handled.failures.is_empty() && handled.parked.is_empty(), "{handled:?}");
        let settled = ["orders", "settled_orders"].map(|name| (name.to_owned(), "1".to_owned()));
        let priced = ["total", "settled_total"].map(|name| (name.to_owned(), "5".to_owned()));
        let settled: BTreeMap<String, String> = settled.into_iter().chain(priced).collect();
        assert_eq!(world.rollups().get("ALL / ROLLUP"), Some(&settled), "{image:?}");
    }
}

#[test]
fn d4_event_name_decides_which_images_a_record_has() {
    let mut world = CountingWorld::new(&counted());
    let order = item("ORDER#1", "-", json!({ "price": { "N": "5" } }));
    for (name, has_old, has_new) in [("INSERT", false, true), ("MODIFY", true, true), ("REMOVE", true, false)]
    {
        let mut record = world.record(Some(&order), Some(&order));
        record["eventName"] = json!(name);
        let json = record.to_string();
        for attributes in [&world.model.attributes, &world.model.row_attributes] {
            let record = RecordDecoder::new(attributes).record(json.as_bytes()).expect("a record");
            assert_eq!((record.old.is_present(), record.new.is_some()), (has_old, has_new), "{name}");
            assert_eq!(record.has_stray_image, record.operation != Operation::Modify);
        }
    }
}
