//! Readers of the console, click by click, in Chromium: from a write to its effects and back, again after *deliver again*, and with faults.

use afterwrite_tests::development::{Development, SHOP, model_file, number, text};
use serde_json::{Value, json};

use super::browser::walk;
use super::http::ConsoleClient;

const ITEM: &str = r#"{ "PK": "CUSTOMER#<b>1</b>", "SK": "ORDER#7", "price": 12.50 }"#;

/// The steps of a developer: a write, its rollup, a contributor, the item, the rollup; the record again; the keyboard alone.
fn developer() -> Value {
    json!([
        { "open": "/" },
        { "click": "nav a[href='/play']" },
        { "type": "textarea[name=item]", "text": ITEM },
        { "click": "button[value=put]" },
        { "wait": ".change.marked" },
        { "read": ".change.marked", "as": "change" },
        { "judge": true },
        { "click": ".change.marked .effects a" },
        { "wait": "h1::-p-text(Rollup customer)" },
        { "wait": "main a[href^='/item?']" },
        { "read": "main", "as": "rollup" },
        { "click": "main a[href^='/item?']" },
        { "wait": "h2::-p-text(Shares of rollups)" },
        { "read": "main", "as": "item" },
        { "click": "main a[href^='/rollups/at']" },
        { "wait": "h1::-p-text(Rollup customer)" },
        { "open": "/play" },
        { "click": ".change button" },
        { "wait": "h1::-p-text(Delivered again)" },
        { "read": "main", "as": "again" },
        // The keyboard alone reaches the contents.
        { "open": "/" },
        { "press": "Tab" },
        { "press": "Enter" },
        { "address": "skipped" },
    ])
}

/// A developer writes an item, follows its change to the rollup, from there to its contributors, and back to the item.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the release binaries and Chromium: run tests/run"]
async fn a_write_leads_to_its_rollup_and_back_and_again_changes_nothing() {
    let (_folder, model) = model_file(SHOP);
    let development = Development::start(&["--model", model.to_str().unwrap()]);
    let texts = walk(development.announced["console"].as_str().unwrap(), &developer());
    let has = |name: &str, wanted: &[&str]| {
        let shown = texts[name].as_str().unwrap();
        assert!(wanted.iter().all(|wanted| shown.contains(wanted)), "{name}: {shown}");
    };
    has("change", &["INSERT", "CUSTOMER#<b>1</b>", "orders +1", "spent +12.5", "your change"]);
    has("rollup", &["12.5", "CUSTOMER#<b>1</b>", "ORDER#7"]);
    has("item", &["12.5", "TOTAL"]);
    has("again", &["nothing changed"]);
    assert!(texts["skipped"].as_str().unwrap().ends_with("#contents"), "{texts:?}");
}

/// An operator switches faults on while an application writes: the recount stays green.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the release binaries and Chromium: run tests/run"]
async fn the_recount_is_equal_while_faults_are_on() {
    let (_folder, model) = model_file(SHOP);
    let development = Development::start(&["--model", model.to_str().unwrap()]);
    let url = development.announced["console"].as_str().unwrap();
    let faults = json!([
        { "open": "/play" },
        { "range": "#fault-duplicate", "value": "60" },
        { "wait": "#fault-duplicate[value='60']" },
        { "range": "#fault-crash", "value": "30" },
        { "wait": "#fault-crash[value='30']" },
        { "range": "#fault-conflict", "value": "20" },
        { "wait": "#fault-conflict[value='20']" },
    ]);
    walk(url, &faults);
    for order in 0..60 {
        let put = development.client.put_item().table_name("Corner");
        let put = put.item("PK", text(&format!("CUSTOMER#c{}", order % 3)));
        let put = put.item("SK", text(&format!("ORDER#{order}")));
        put.item("price", number(&format!("{order}.5"))).send().await.unwrap();
    }
    let green = json!([
        { "open": "/play" },
        { "wait": "#fault-duplicate[value='60']" },
        { "wait": "#recount dd::-p-text(60 of 60)", "within": 60_000 },
        { "wait": "#recount .verdict.good::-p-text(equal)", "within": 60_000 },
        { "click": "button[name=off]" },
        { "wait": "#fault-duplicate[value='0']" },
        { "open": "/" },
        { "read": "main", "as": "flow" },
    ]);
    let texts = walk(url, &green);
    let flow = texts["flow"].as_str().unwrap();
    assert!(flow.contains("aggregator") && flow.contains("relay"), "{flow}");
}

/// An admin without a page of instructions: which orders has a customer, and how much were they?
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the release binaries and Chromium: run tests/run"]
async fn a_number_is_found_by_its_name_and_key() {
    let (_folder, model) = model_file(SHOP);
    let development = Development::start(&["--model", model.to_str().unwrap()]);
    for (order, price) in [("1", "20.5"), ("2", "0.01")] {
        development.put_order(order, number(price)).await;
    }
    development.spent("20.51").await;
    let texts = walk(
        development.announced["console"].as_str().unwrap(),
        &json!([
            { "open": "/" },
            { "click": "nav a[href='/rollups']" },
            { "click": "td a::-p-text(customer)" },
            { "type": "input[name='v.customer_id']", "text": "c1" },
            { "click": "main form button" },
            { "wait": "td::-p-text(20.51)" },
            { "read": "main", "as": "rollup" },
            { "type": "input[name='v.customer_id']", "text": "nobody" },
            { "click": "main form button" },
            { "wait": "main::-p-text(No such rollup is stored)" },
        ]),
    );
    assert!(texts["rollup"].as_str().unwrap().contains("20.51"), "{texts:?}");
}

/// A reader scrolls through the changes: older ones are loaded as the reader comes to them, each once.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the release binaries and Chromium: run tests/run"]
async fn older_changes_are_loaded_as_a_reader_scrolls() {
    let (_folder, model) = model_file(SHOP);
    let development = Development::start(&["--model", model.to_str().unwrap()]);
    for order in 0..15 {
        development.put_order(&order.to_string(), number("1")).await;
    }
    development.prints("ORDER#14").await;
    let first = ConsoleClient::of(&development).get("/play").body.matches("id=\"change-").count();
    let texts = walk(
        development.announced["console"].as_str().unwrap(),
        &json!([
            { "open": "/play" },
            { "wait": "#change-15" },
            { "scroll": "#changes > li:last-child" },
            { "wait": "#change-4" },
            { "scroll": "#changes > li:last-child" },
            { "wait": "#change-1" },
            { "count": ".change", "as": "all" },
            { "judge": true },
        ]),
    );
    assert_eq!((first, &texts["all"]), (6, &json!("15")), "{texts:?}");
}
