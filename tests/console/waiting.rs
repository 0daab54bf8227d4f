//! Records that are not counted: the pages, `tail` and `doctor` name them while they are open, and no longer.

use std::time::{Duration, Instant};

use afterwrite_tests::development::{Development, SHOP, model_file, number, text};
use serde_json::Value;

use super::flow::fact;
use super::http::ConsoleClient;

/// Visits of a clinic that is found by its code, through an index.
pub(super) const CLINIC: &str = r##"
name = "clinic"
generation = 1
[tables.Clinic]
key = ["PK", "SK"]
[entities.clinic]
key = { PK = "CLINIC#{clinic_id}", SK = "CLINIC" }
attributes = { code = "S" }
[entities.visit]
key = { PK = "VISIT#{visit_id}", SK = "VISIT" }
attributes = { code = "S", price = "N" }
[lookups.place]
of = "clinic"
index = "ByCode"
key = { code = "{code}" }
gives = ["clinic_id"]
[rollups.clinic]
key = { PK = "CLINIC#{clinic_id}", SK = "TOTAL" }
[[aggregates]]
name = "visits"
of = "visit"
lookup = "place"
into = "clinic"
[aggregates.measures]
visits = "count"
spent = { sum = "price" }
"##;

/// How long the functions may take on a busy machine.
const WITHIN: Duration = Duration::from_secs(180);

/// The stages of the flow, once they meet a condition.
async fn stages(console: &ConsoleClient, holds: impl Fn(&Value) -> bool) -> Value {
    let deadline = Instant::now() + WITHIN;
    loop {
        let stages = console.json("/");
        if holds(&stages) {
            return stages;
        }
        assert!(Instant::now() < deadline, "{stages}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// The verdict of a stage.
fn verdict(stages: &Value, stage: &str) -> String {
    let row = stages["stages"].as_array().unwrap().iter().find(|row| row["stage"] == stage).unwrap();
    row["verdict"]["text"].as_str().unwrap().to_owned()
}

pub(super) async fn put_visit(development: &Development, visit: &str) {
    let put = development.client.put_item().table_name("Clinic");
    let put = put.item("PK", text(&format!("VISIT#{visit}"))).item("SK", text("VISIT"));
    put.item("code", text("north")).item("price", number("7")).send().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the release binaries: run tests/run"]
async fn a_record_that_waits_for_its_lookup_is_named_until_it_is_counted() {
    let (_folder, model) = model_file(CLINIC);
    let development = Development::start(&["--model", model.to_str().unwrap()]);
    let console = ConsoleClient::of(&development);
    assert!(console.get("/health").body.contains("No item is parked, and no record is retried."));
    put_visit(&development, "v1").await;
    let waiting = stages(&console, |stages| verdict(stages, "aggregator") == "a batch is retried").await;
    let named = fact(&waiting, "aggregator", "waits for");
    assert!(named.starts_with("VISIT#v1 VISIT: lookup `place` found no item"), "{named}");
    assert_ne!(fact(&waiting, "aggregator", "failed invocations"), "0", "{waiting}");
    assert_eq!(fact(&waiting, "aggregator", "records that are retried"), "1", "{waiting}");
    let card = console.get("/flow/picture").body;
    assert!(card.contains(r#"href="/item?table=Clinic&amp;pk=VISIT%23v1&amp;sk=VISIT""#), "{card}");
    let health = console.json("/health");
    assert_eq!(health["retried"][0]["item"], "VISIT#v1 VISIT", "{health}");
    let page = console.get("/health").body;
    assert!(page.contains("No item is parked; 1 record is retried."), "{page}");
    assert!(!page.contains("every record could be counted"), "{page}");

    let tail = development.run(&["tail", "--from-start", "--limit", "1"]);
    let line = String::from_utf8_lossy(&tail.stdout).into_owned();
    assert!(line.contains("→ waits: lookup `place` found no item") && !line.contains("rollups"), "{line}");
    assert_eq!(tail.status.code(), Some(0), "{line}");

    let put = development.client.put_item().table_name("Clinic").item("PK", text("CLINIC#c1"));
    put.item("SK", text("CLINIC")).item("code", text("north")).send().await.unwrap();
    let counted = stages(&console, |stages| verdict(stages, "aggregator") == "up to date").await;
    assert_eq!(fact(&counted, "aggregator", "records that are retried"), "0", "{counted}");
    assert!(console.get("/health").body.contains("No item is parked, and no record is retried."));
    // It is counted, so tail has the outputs, which are remembered.
    let tail = development.run(&["tail", "--from-start", "--limit", "1"]);
    let line = String::from_utf8_lossy(&tail.stdout).into_owned();
    assert!(line.contains("→ rollups: CLINIC#c1 TOTAL (spent +7 visits +1)"), "{line}");
    development.stop();
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the release binaries: run tests/run"]
async fn parked_items_are_counted_as_long_as_they_are_parked() {
    let (_folder, model) = model_file(SHOP);
    let development = Development::start(&["--model", model.to_str().unwrap()]);
    let console = ConsoleClient::of(&development);
    development.put_order("1", text("seven")).await;
    let parked =
        |wanted: &'static str| move |stages: &Value| verdict(stages, "rollups and mirrors") == wanted;
    stages(&console, parked("1 item is parked")).await;
    let card = console.get("/flow/picture").body;
    assert!(card.contains(r#"<a href="/health">rollups and mirrors</a>"#), "{card}");
    assert!(verdict(&console.json("/"), "cache keys").starts_with("no Redis here"));
    let reason = console.json("/health")["parked"][0]["reason"].to_string();
    assert!(reason.contains("(RecordError): ") && reason.contains("price"), "{reason}");
    assert!(!reason.contains("seven"), "{reason}");
    assert!(console.get("/play").body.contains("read, not counted"));
    development.put_order("1", number("7")).await;
    stages(&console, parked("no item is parked")).await;
    // The change that mends the item has no problem: the item before it had.
    let changes = console.json("/play")["changes"].clone();
    assert_eq!(changes[0]["problem"], Value::Null, "{changes}");
    let before = |change: usize, name: &str| changes[change][name].as_str().unwrap_or_default().to_owned();
    assert_eq!(before(0, "problem before"), before(1, "problem").split(". ").next().unwrap(), "{changes}");
    let card = console.get("/flow/picture").body;
    assert!(card.contains(r#"<a href="/rollups">rollups and mirrors</a>"#), "{card}");
    development.stop();
}
