//! Reports of `dev` while it runs: changes, parked items, newer generations; and commands on its tables.

use std::time::Duration;

use afterwrite_tests::development::{Development, SHOP, model_file, number, text};

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the release binaries: run tests/run"]
async fn i4_each_change_is_one_line_and_metrics_are_hidden() {
    let (_folder, model) = model_file(SHOP);
    let development = Development::start(&["--model", model.to_str().unwrap()]);
    for order in 0..5 {
        development.put_order(&order.to_string(), number("1")).await;
    }
    development.put_order("parked", text("QQQ")).await;
    development.reports("WARN").await;
    development.put_order("0", number("2")).await;
    let printed = development.prints("MODIFY").await;
    // The last line may not be whole.
    let (printed, _) = printed.rsplit_once('\n').unwrap();
    let lines: Vec<serde_json::Value> =
        printed.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(lines.len() >= 5, "{printed}");
    for line in &lines {
        assert_eq!(line["table"], "Corner", "{line}");
        assert!(line.get("_aws").is_none() && line.get("change").is_none(), "{line}");
    }
    development.stop();

    let metrics = Development::start(&["--model", model.to_str().unwrap(), "--metrics"]);
    metrics.put_order("1", number("1")).await;
    metrics.reports("_aws").await;
    metrics.stop();
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the release binaries: run tests/run"]
async fn i5_parked_items_are_listed_until_they_are_counted() {
    let (folder, model) = model_file(SHOP);
    let data = folder.path().join("data");
    let arguments = ["--model", model.to_str().unwrap(), "--data", data.to_str().unwrap()];
    let first = Development::start(&arguments);
    first.put_order("1", text("QQQ")).await;
    let reported = first.reports("Corner CUSTOMER#c1 ORDER#1 is parked").await;
    assert!(reported.contains("price") && !reported.contains("QQQ"), "{reported}");
    first.stop();
    // It is listed after a restart, too.
    let second = Development::start(&arguments);
    second.reports("Corner CUSTOMER#c1 ORDER#1 is parked").await;
    // The folder is used by one process.
    let third = second.run(&[&["dev", "--port", "0"][..], &arguments].concat());
    let refused = String::from_utf8_lossy(&third.stderr).into_owned();
    assert_eq!(third.status.code(), Some(2), "{refused}");
    assert!(refused.contains("another process uses the folder of --data"), "{refused}");
    second.put_order("1", number("10")).await;
    second.reports("Corner CUSTOMER#c1 ORDER#1 is counted again").await;
    second.spent("10").await;
    second.stop();
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the release binaries: run tests/run"]
async fn i7_data_of_a_newer_generation_is_a_warning() {
    let (folder, model) = model_file(&SHOP.replace("generation = 1", "generation = 5"));
    let data = folder.path().join("data");
    let arguments = ["--model", model.to_str().unwrap(), "--data", data.to_str().unwrap()];
    let newer = Development::start(&arguments);
    newer.put_order("1", number("10")).await;
    newer.spent("10").await;
    newer.stop();

    std::fs::write(&model, SHOP.replace("generation = 1", "generation = 3")).unwrap();
    let older = Development::start(&arguments);
    let warned = older.reports("warning").await;
    assert!(warned.contains("generation 5") && warned.contains("generation 3"), "{warned}");
    older.stop();

    std::fs::write(&model, SHOP.replace("generation = 1", "generation = 6")).unwrap();
    let newest = Development::start(&arguments);
    newest.put_order("1", number("11")).await;
    newest.spent("11").await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert!(!newest.errors().contains("warning"), "{}", newest.errors());
    newest.stop();
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the release binaries: run tests/run"]
async fn i8_commands_on_local_tables_need_no_recovery() {
    let (_folder, model) = model_file(SHOP);
    let development = Development::start(&["--model", model.to_str().unwrap()]);
    development.put_order("1", number("10")).await;
    development.spent("10").await;
    development.succeed(&["backfill", "--all", "--yes"]);
    development.succeed(&["redrive", "--parked", "--yes"]);
    development.stop();
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the release binaries: run tests/run"]
async fn a_function_that_ends_at_once_is_reported() {
    let (_folder, model) = model_file(SHOP);
    let arguments = ["--model", model.to_str().unwrap(), "--function", "aggregator=/bin/false"];
    let development = Development::start(&arguments);
    development.put_order("1", number("10")).await;
    development.reports("afterwrite: aggregator: the invocation failed and is retried").await;
}
