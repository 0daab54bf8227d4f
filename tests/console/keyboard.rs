//! The console by the keyboard alone, in Chromium: Tab, Enter and letters, as an admin, an operator and a developer use it.

use afterwrite_tests::development::{Development, SHOP, model_file, text};
use serde_json::{Map, Value, json};

use super::browser::walk;
use super::shares::counted_week;
use super::waiting::{CLINIC, put_visit};

fn assert_shows(texts: &Map<String, Value>, name: &str, wanted: &[&str]) {
    let shown = texts[name].as_str().unwrap();
    assert!(wanted.iter().all(|wanted| shown.contains(wanted)), "{name}: {shown}");
}

/// An admin: the pass rate of a project's last week.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the release binaries and Chromium: run tests/run"]
async fn an_admin_finds_a_pass_rate_by_the_keyboard() {
    let (development, _) = counted_week().await;
    let texts = walk(
        development.announced["console"].as_str().unwrap(),
        &json!([
            { "open": "/" },
            { "tab": "nav a[href='/rollups']" },
            { "press": "Enter" },
            { "wait": "h1::-p-text(Rollups)" },
            { "tab": "td a[href$='project%5Fday'], td a[href$='project_day']" },
            { "press": "Enter" },
            { "wait": "h1::-p-text(Rollup project_day)" },
            { "tab": "input[name='v.admin_id']" },
            { "keys": "a1" },
            { "tab": "input[name='v.project_id']" },
            { "keys": "p1" },
            { "tab": "input[name=from]" },
            { "keys": "2026-02-02" },
            { "tab": "input[name=to]" },
            { "keys": "2026-02-08" },
            { "tab": "select[name=share]" },
            { "keys": "passed" },
            { "tab": "select[name=share_of]" },
            { "keys": "completed" },
            { "tab": "main form button" },
            { "press": "Enter" },
            { "wait": "h2::-p-text(Share of passed in completed)" },
            { "read": "main", "as": "week" },
        ]),
    );
    assert_shows(&texts, "week", &["75.00", "66.67"]);
    development.stop();
}

/// An operator: a number is late because a visit waits for its clinic. The operator finds the visit, and writes the clinic.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the release binaries and Chromium: run tests/run"]
async fn an_operator_mends_a_late_number_by_the_keyboard() {
    let (_folder, model) = model_file(CLINIC);
    let development = Development::start(&["--model", model.to_str().unwrap()]);
    put_visit(&development, "v1").await;
    let texts = walk(
        development.announced["console"].as_str().unwrap(),
        &json!([
            { "open": "/" },
            { "wait": ".verdict::-p-text(a batch is retried)", "within": 60_000 },
            { "tab": "main a[href^='/item?']" },
            { "press": "Enter" },
            { "wait": "h2::-p-text(Ledger entry)" },
            { "read": "main", "as": "visit" },
            { "tab": "nav a[href='/play']" },
            { "press": "Enter" },
            { "wait": "h1::-p-text(Play)" },
            { "tab": "textarea[name=item]" },
            { "press": "Control+A" },
            { "keys": r#"{ "PK": "CLINIC#c1", "SK": "CLINIC", "code": "north" }"# },
            { "tab": "button[value=put]" },
            { "press": "Enter" },
            { "wait": "#written .verdict.good" },
            { "tab": "nav a[href='/']" },
            { "press": "Enter" },
            { "wait": "h1::-p-text(Flow)" },
            { "wait": "main:not(:has(.verdict.bad, .verdict.warning))", "within": 120_000 },
            { "read": "main", "as": "flow" },
        ]),
    );
    assert_shows(&texts, "visit", &["place", "found no item"]);
    assert_shows(&texts, "flow", &["up to date"]);
    development.stop();
}

/// A developer: why did this order not count?
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the release binaries and Chromium: run tests/run"]
async fn a_developer_finds_an_uncounted_write_by_the_keyboard() {
    let (_folder, model) = model_file(SHOP);
    let development = Development::start(&["--model", model.to_str().unwrap()]);
    development.put_order("1", text("seven")).await;
    let texts = walk(
        development.announced["console"].as_str().unwrap(),
        &json!([
            { "open": "/" },
            { "tab": "nav a[href='/item']" },
            { "press": "Enter" },
            { "wait": "h1::-p-text(Item)" },
            { "tab": "input[name=pk]" },
            { "keys": "CUSTOMER#c1" },
            { "tab": "input[name=sk]" },
            { "keys": "ORDER#1" },
            { "press": "Enter" },
            { "wait": "main::-p-text(It cannot be counted)" },
            { "read": "main", "as": "order" },
        ]),
    );
    assert_shows(&texts, "order", &["attribute `price` must be of type N and is of type S"]);
    development.stop();
}
