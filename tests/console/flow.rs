//! The page *Flow* inside `dev`.

use std::time::{Duration, Instant};

use afterwrite_tests::development::{Development, SHOP, model_file, number};
use serde_json::Value;

use super::http::ConsoleClient;

/// The value of a fact of a stage.
pub(super) fn fact(stages: &Value, stage: &str, fact: &str) -> String {
    let rows = stages["stages"].as_array().unwrap();
    let row = rows.iter().find(|row| row["stage"] == stage && row["fact"] == fact);
    row.unwrap_or_else(|| panic!("no {stage} {fact}: {stages}"))["value"].as_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the release binaries: run tests/run"]
async fn each_stage_of_dev_has_its_numbers() {
    let (_folder, model) = model_file(SHOP);
    let development = Development::start(&["--model", model.to_str().unwrap()]);
    let console = ConsoleClient::of(&development);
    let first = console.json("/");
    assert_eq!(fact(&first, "aggregator", "records"), "0");
    assert_eq!(fact(&first, "aggregator", "units a record"), "–");
    for order in 0..5 {
        development.put_order(&order.to_string(), number("1")).await;
    }
    development.spent("5").await;
    let deadline = Instant::now() + Duration::from_secs(20);
    let stages = loop {
        let stages = console.json("/");
        let are_relayed = fact(&stages, "relay", "records") == "5";
        if are_relayed
            && fact(&stages, "aggregator", "in flight") == "0"
            && fact(&stages, "archive", "objects") != "0"
        {
            break stages;
        }
        assert!(Instant::now() < deadline, "{stages}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    };
    assert_eq!(fact(&stages, "aggregator", "records"), "5");
    assert_eq!(fact(&stages, "application", "counted changes"), "5");
    assert_eq!(fact(&stages, "archive", "lines"), "5");
    assert_ne!(fact(&stages, "aggregator", "write units"), "0");
    let aggregator = stages["stages"].as_array().unwrap().iter().find(|row| row["stage"] == "aggregator");
    assert_eq!(aggregator.unwrap()["verdict"]["verdict"], "good", "{stages}");

    let picture = console.get("/flow/picture");
    assert_eq!(picture.status, 200);
    assert!(picture.body.contains(r#"<a href="/rollups">rollups and mirrors</a>"#), "{}", picture.body);
    assert!(!picture.body.contains("<html") && !picture.body.contains("style="), "{}", picture.body);
    assert!(console.get("/").body.contains(r#"hx-get="/flow/picture""#));
    development.stop();
}

/// The facts of a stage, and what to do, once it has such advice.
async fn advised(console: &ConsoleClient, stage: &str) -> Value {
    let deadline = Instant::now() + Duration::from_secs(180);
    loop {
        let stages = console.json("/");
        let rows = stages["stages"].as_array().unwrap();
        if let Some(found) = rows.iter().find(|row| row["stage"] == stage && row["fact"] == "what to do") {
            return found.clone();
        }
        assert!(Instant::now() < deadline, "{stages}");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

/// A failed batch is named by the pages and by `doctor`.
fn a_failed_batch_is_named(development: &Development, console: &ConsoleClient) {
    let rollup = console.json("/rollups/at?pk=CUSTOMER%23c1&sk=TOTAL").to_string();
    assert!(rollup.contains("1 failed batch of aggregator"), "{rollup}");
    let card = console.get("/flow/picture").body;
    assert!(card.contains(r#"<a href="/health/failures">aggregator</a>"#), "{card}");
    let failures = console.json("/health/failures");
    let batch = &failures["failures"][0];
    assert!(batch["item"].to_string().contains("c1"), "{failures}");
    assert!(batch["reason"].as_str().is_some_and(|reason| !reason.is_empty()), "{failures}");
    let shown = console.get("/health/failures").body;
    assert!(shown.contains("they are not delivered again by themselves"), "{shown}");
    let found = development.run(&["doctor", "--json"]);
    let findings: Value = serde_json::from_slice(&found.stdout).unwrap();
    let failed = findings.as_array().unwrap().iter().find(|finding| finding["check"] == "failed records");
    let failed = failed.unwrap_or_else(|| panic!("{findings}"));
    assert!(failed["found"].as_str().unwrap().starts_with("1 object, "), "{failed}");
    assert_eq!((&failed["verdict"], found.status.code()), (&"change".into(), Some(1)), "{failed}");
}

/// The batch was processed again: nothing is open any more.
fn no_failed_batch_is_named(console: &ConsoleClient) {
    let mended = console.json("/");
    let rows = mended["stages"].as_array().unwrap();
    let aggregator = rows.iter().find(|row| row["stage"] == "aggregator").unwrap();
    assert_eq!(aggregator["verdict"]["verdict"], "good", "{mended}");
    let rollup = console.json("/rollups/at?pk=CUSTOMER%23c1&sk=TOTAL").to_string();
    assert!(!rollup.contains("failed batch"), "{rollup}");
    assert!(console.get("/health/failures").body.contains("No failed batch is left"));
}

/// Records that were discarded are named with the command that counts them, and the command does it.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the release binaries: run tests/run"]
async fn discarded_records_are_named_with_the_command_that_counts_them() {
    let (folder, model) = model_file(SHOP);
    // A batch that could not be counted within an invocation is discarded.
    let mapping = folder.path().join("mapping.json");
    let settings =
        r#"{"BatchSize":100,"MaximumRetryAttempts":0,"FunctionResponseTypes":["ReportBatchItemFailures"]}"#;
    std::fs::write(&mapping, settings).unwrap();
    let mapping = format!("aggregator={}", mapping.display());
    let development = Development::start(&["--model", model.to_str().unwrap(), "--mapping", &mapping]);
    let console = ConsoleClient::of(&development);
    let token = console.token("/play");
    let set_faults = |fault: &str| {
        assert_eq!(console.post("/play/faults", &format!("token={token}&{fault}")).status, 303);
    };
    set_faults("conflict=100");
    development.put_order("1", number("7")).await;
    let advised = advised(&console, "aggregator").await;
    assert_eq!(advised["verdict"]["verdict"], "bad", "{advised}");
    a_failed_batch_is_named(&development, &console);
    development.reports("aggregator: discarded record ").await;
    let item = console.get("/item?table=Corner&pk=CUSTOMER%23c1&sk=ORDER%231").body;
    assert!(item.contains("A change of this item was given up after its retries"), "{item}");
    set_faults("off=1");
    let advice = advised["value"].as_str().unwrap();
    let command = advice.split('`').nth(1).unwrap().replace("--dry-run", "--yes");
    let words: Vec<&str> = command.split(' ').collect();
    assert_eq!(words[..2], ["afterwrite", "redrive"], "{advice}");
    let done = development.run(&words[1..]);
    assert!(done.status.success(), "{command}: {}", String::from_utf8_lossy(&done.stderr));
    development.spent("7").await;
    no_failed_batch_is_named(&console);
    development.stop();
}
