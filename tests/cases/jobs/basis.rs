//! A1: a job continues only on the model, tables, state table and arguments that it was planned for.

use aws_sdk_dynamodb::types::AttributeValue;

use super::deployment::{ORDERS, Shop};

/// One segment after the other, each with a pause: so a job can be paused in its midst.
const BACKFILL: [&str; 7] =
    ["backfill", "--yes", "--without-recovery", "--rate=5", "--workers=1", "--segments=8", "--json"];

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the release binaries: run tests/run"]
async fn a1_resume_refuses_another_model() {
    let shop = Shop::with_orders(100).await;
    shop.create_table("Returns").await;
    let id = shop.paused_in(shop.folder.path(), &BACKFILL);
    let second = shop.path("second.toml");
    let refused = shop.text(2, &["jobs", "resume", &id, "--model", second.to_str().unwrap()]);
    for words in
        ["planned for another model", "generation 1", "generation 2", "afterwrite backfill", "jobs stop"]
    {
        assert!(refused.contains(words), "no {words} in {refused}");
    }
    assert!(shop.counted().await < 100);
    let done = shop.json(0, &["jobs", "resume", &id, "--json"]);
    assert_eq!((done["status"].as_str(), shop.counted().await), (Some("done"), 100));
    shop.server.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the release binaries: run tests/run"]
async fn a1_resume_refuses_a_part_of_the_model_that_counts_nothing() {
    let shop = Shop::with_orders(100).await;
    let id = shop.paused_in(shop.folder.path(), &BACKFILL);
    let model = std::fs::read_to_string(shop.path("model.toml")).unwrap();
    let caches = format!("{model}[[caches]]\nof = \"order\"\nkeys = [\"order:{{order}}\"]\n");
    std::fs::write(shop.path("caches.toml"), caches).unwrap();
    std::fs::write(shop.path("comment.toml"), format!("# A comment.\n{model}")).unwrap();
    let named = |name: &str| shop.path(name).to_str().unwrap().to_owned();
    shop.text(2, &["jobs", "resume", &id, "--model", &named("caches.toml")]);
    shop.text(0, &["jobs", "resume", &id, "--model", &named("comment.toml")]);
    assert_eq!(shop.counted().await, 100);
    shop.server.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the release binaries: run tests/run"]
async fn a1_resume_refuses_another_table_of_the_same_name() {
    let shop = Shop::with_orders(100).await;
    let id = shop.paused_in(shop.folder.path(), &BACKFILL);
    shop.create_table("Renamed").await;
    let refused = shop.text(2, &["jobs", "resume", &id, "--tables", "Orders=Renamed"]);
    assert!(refused.contains("planned for another table") && refused.contains("Renamed"), "{refused}");
    shop.server.client().delete_table().table_name(ORDERS).send().await.unwrap();
    shop.create_table(ORDERS).await;
    let refused = shop.text(2, &["jobs", "resume", &id]);
    assert!(refused.contains("planned for another table") && refused.contains("Orders, id"), "{refused}");
    shop.server.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the release binaries: run tests/run"]
async fn a1_resume_refuses_other_settings_of_the_targets() {
    let shop = Shop::with_orders(0).await;
    std::fs::write(shop.path("records.jsonl"), Shop::records(0..3_000)).unwrap();
    let replay = ["replay", "records.jsonl", "--yes", "--without-recovery", "--rate", "200"];
    let id = shop.paused_in(shop.folder.path(), &replay);
    let refused = shop.text_with(("AFTERWRITE_ON_POISON", "fail"), 2, &["jobs", "resume", &id]);
    assert!(refused.contains("other settings") && refused.contains("AFTERWRITE_ON_POISON=fail"), "{refused}");
    // The targets of this replay do not use the stream of the archive.
    shop.text_with(("AFTERWRITE_FIREHOSE_STREAM", "other"), 0, &["jobs", "resume", &id]);
    assert_eq!(shop.counted().await, 3_000);
    shop.server.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the release binaries: run tests/run"]
async fn a1_resume_refuses_changed_arguments_and_jobs_of_the_first_form() {
    let shop = Shop::with_orders(100).await;
    let id = shop.paused_in(shop.folder.path(), &BACKFILL);
    let changed = r#"{"segments":8,"all":true}"#;
    let change = shop.update_job(&id).update_expression("SET arguments = :changed");
    let change = change.expression_attribute_values(":changed", AttributeValue::S(changed.to_owned()));
    change.send().await.unwrap();
    let refused = shop.text(2, &["jobs", "resume", &id]);
    assert!(refused.contains("planned for other arguments"), "{refused}");

    // As an earlier version stores jobs.
    let first = r#"[{"name":"items Orders 0/1","phase":1,"is_done":false,"items":3,"bytes":9}]"#;
    let change = shop.update_job(&id).update_expression("SET progress = :units REMOVE version, basis, #work");
    let change = change.expression_attribute_names("#work", "work");
    let change = change.expression_attribute_values(":units", AttributeValue::S(first.to_owned()));
    change.send().await.unwrap();
    let shown = shop.json(0, &["jobs", "list", "--json"]);
    assert_eq!((&shown[0]["status"], &shown[0]["progress"]["items"]), (&"paused".into(), &3.into()));
    let refused = shop.text(2, &["jobs", "resume", &id]);
    assert!(
        refused.contains("created by an earlier version") && refused.contains("Plan it again"),
        "{refused}"
    );
    shop.text(0, &["jobs", "stop", &id]);
    shop.server.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the release binaries: run tests/run"]
async fn a1_a_failed_verification_is_resumed_on_its_model_only() {
    let shop = Shop::with_orders(100).await;
    shop.text(0, &["backfill", "--yes", "--without-recovery"]);
    let verify = ["verify", "--rate", "30", "--tolerance", "1", "--report", "drift.jsonl"];
    let id = shop.paused_in(shop.folder.path(), &verify);
    let second = shop.path("second.toml");
    shop.create_table("Returns").await;
    let refused = shop.text(2, &["jobs", "resume", &id, "--model", second.to_str().unwrap()]);
    assert!(refused.contains("afterwrite verify"), "{refused}");
    let elsewhere = tempfile::tempdir().unwrap();
    let resumed = shop.run_in(elsewhere.path(), &["jobs", "resume", &id]);
    assert_eq!(resumed.status.code(), Some(0), "{}", String::from_utf8_lossy(&resumed.stderr));
    assert!(shop.path("drift.jsonl").is_file(), "the report is where the job was started");
    shop.server.stop().await.unwrap();
}
