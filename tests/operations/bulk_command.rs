//! `afterwrite backfill --bulk` as an operator runs it: the release binary, exports in the embedded S3, and `ImportTable` into the embedded
//! DynamoDB.

use std::io::Write as _;

use afterwrite_memory::MEMORY_STREAM_LABEL;
use afterwrite_model::clock::{Clock as _, SystemClock};
use afterwrite_services::ObjectStore as _;
use afterwrite_services::s3::S3Bucket;
use afterwrite_tests::archive::BUCKET;
use serde_json::Value;

use super::bulk::{backfill, refreshing};
use super::command_line::Deployment;
use super::exports::full_export;
use super::world::{OperationWorld, STATE, item_of};

const NEW: &str = "new-state";

/// Exports every table of a world into the bucket; returns the arguments of a bulk backfill of them.
async fn export(world: &OperationWorld, deployment: &Deployment, mapping_since: &str) -> Vec<String> {
    let bucket = S3Bucket::new(&deployment.s3.client(), BUCKET.into());
    let mut arguments = Vec::new();
    for name in world.table_names() {
        let prefix = format!("AWSDynamoDB/{name}");
        for (key, object) in full_export(&world.rows(&name), &name, SystemClock.now(), &prefix, 5) {
            bucket.put(&key, object).await.unwrap();
        }
        arguments.push(format!("--export=s3://{BUCKET}/{prefix}"));
    }
    let rest = [
        "--bulk",
        "--mapping-since",
        mapping_since,
        "--into",
        NEW,
        "--partitions",
        "3",
        "--without-recovery",
        "--json",
    ];
    arguments.extend(rest.map(str::to_owned));
    arguments
}

fn command<'a>(arguments: &'a [String], more: &[&'a str]) -> Vec<&'a str> {
    std::iter::once("backfill")
        .chain(arguments.iter().map(String::as_str))
        .chain(more.iter().copied())
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the release binaries: run tests/run"]
async fn a_new_state_table_is_imported_and_equals_the_one_that_transactions_have_filled() {
    // The model has five tables.
    for model in ["quiz", "exambuddy"] {
        let world = OperationWorld::new(model, 4, 40, 1000);
        let deployment = Deployment::of(&world).await;
        let arguments = export(&world, &deployment, "2026-02-01").await;
        let with_model = ["--model", model];

        let plan = deployment.json(2, &command(&arguments, &with_model));
        assert!(plan["import_bytes"].as_u64() > Some(1_000) && plan["items"].as_u64() > Some(30), "{plan}");
        assert!(deployment.rows(STATE).await.is_empty(), "a plan writes nothing");

        let report = deployment.json(0, &command(&arguments, &["--yes", "--model", model]));
        let totals = &report["totals"];
        assert_eq!(totals["import_items"], totals["imported_items"], "{report}");
        let rows = deployment.rows(NEW).await.len();
        assert_eq!(totals["imported_items"].as_u64(), u64::try_from(rows).ok());
        assert!(report["next_steps"][0].as_str().unwrap().contains("afterwrite replay"), "{report}");

        let by_transactions = ["backfill", "--yes", "--without-recovery", "--without-datasets", "--json"];
        deployment.json(0, &[&by_transactions[..], &with_model].concat());
        deployment.json(0, &["replay", "/dev/null", "--into", NEW, "--yes", "--json", "--model", model]);
        deployment.json(0, &["state", "diff", STATE, NEW, "--json", "--model", model]);
        // The import creates its table.
        deployment.json(2, &command(&arguments, &["--yes", "--model", model, "--run-folder", "bulk/again"]));
        deployment.s3.stop().await.unwrap();
        deployment.dynamodb.stop().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the release binaries: run tests/run"]
async fn the_archive_since_the_export_is_replayed_into_the_imported_table() {
    let world = OperationWorld::new("glad", 8, 60, 600);
    let deployment = Deployment::of(&world).await;
    let exported_at = SystemClock.now();
    let shift = exported_at.since(afterwrite_model::clock::Clock::now(world.clock)).as_secs();
    let arguments = export(&world, &deployment, "2026-02-01").await;
    deployment.json(0, &command(&arguments, &["--yes", "--model", "glad"]));

    world.finish();
    let mut archive = tempfile::Builder::new().suffix(".jsonl").tempfile().unwrap();
    let archived = world.take_archived();
    assert!(archived.len() > 20, "{}", archived.len());
    for line in archived {
        writeln!(archive, "{}", since_export(&line, shift)).unwrap();
    }
    let archive = archive.path().to_str().unwrap();
    let late = ["replay", archive, "--into", NEW, "--yes", "--model", "glad"];
    deployment.json(2, &[&late[..], &["--from", &exported_at.to_string()]].concat());
    deployment.json(0, &late);

    world.create_state_table("imported");
    for row in deployment.rows(NEW).await {
        world.tables.put("imported", item_of(&row)).unwrap();
    }
    backfill(&world, "imported", refreshing()).await;
    assert_eq!(world.differences_in("imported"), []);
    deployment.s3.stop().await.unwrap();
    deployment.dynamodb.stop().await.unwrap();
}

/// A record of the world as the deployment's stream has it: of the time after the export, in the deployment's region, of a stream that is
/// newer than the table.
fn since_export(line: &str, shift: u64) -> String {
    let line = line.replace(MEMORY_STREAM_LABEL, "9999-01-01T00:00:00.000").replace("eu-west-1", "us-east-1");
    let mut record: Value = serde_json::from_str(&line).unwrap();
    let created = record.pointer_mut("/dynamodb/ApproximateCreationDateTime").unwrap();
    *created = Value::from(created.as_u64().unwrap() + shift);
    record.to_string()
}
