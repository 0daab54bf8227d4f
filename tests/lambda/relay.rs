//! The function `relay` as it is deployed, and functions that host other sets than their own.

use afterwrite_tests::archive::{Archive, BUCKET, STREAM, by_event_id};
use afterwrite_tests::deployment::{Deployment, STATE, event};
use afterwrite_tests::programs::program;
use afterwrite_tests::redis_server::free_port;
use serde_json::{Value, json};

use super::{TIME, refusal_to_start_of, response};

/// Starts `function` with a project and two questions written, delivers them, and gives its answer and how many changes
/// are archived.
async fn deliver(
    deployment: &Deployment,
    function: &str,
    settings: &[(&str, &str)],
) -> (Value, usize, Vec<Value>) {
    let archive = Box::pin(Archive::start()).await;
    let (firehose, s3) = (archive.firehose.endpoint(), archive.s3.endpoint());
    let mut environment = vec![
        ("AFTERWRITE_FIREHOSE_STREAM", STREAM),
        ("AFTERWRITE_BUCKET", BUCKET),
        ("AWS_ENDPOINT_URL_FIREHOSE", &*firehose),
        ("AWS_ENDPOINT_URL_S3", &*s3),
    ];
    environment.extend(settings);
    let (api, running) = deployment.function(&program(function), &environment).await;
    deployment.put_project("p1").await;
    for question in ["q1", "q2"] {
        deployment.put_question("p1", question).await;
    }
    let records = deployment.records().await;
    let answer = response(api.invoke(event(&records), TIME).await, &running);
    let objects = archive.read_back().await;
    let (archived, _) = by_event_id(objects.values());
    assert!(archived.values().all(|line| records.contains(line)), "a line is a record");
    (answer, archived.len(), records)
}

#[tokio::test]
#[ignore = "needs the release binaries: run tests/run"]
async fn relay_archives_every_change_and_needs_no_cache() {
    let deployment = Deployment::new().await;
    let (answer, archived, _) = deliver(&deployment, "relay", &[]).await;
    assert_eq!((answer, archived), (json!({ "batchItemFailures": [] }), 3));
    assert!(deployment.item(STATE, "ADMIN#a1", "ROLLUP#TOTAL").await.is_empty(), "counting is not its own");
}

#[tokio::test]
#[ignore = "needs the release binaries: run tests/run"]
async fn any_function_hosts_any_set() {
    let all = [("AFTERWRITE_PROJECTIONS", "aggregate,invalidate,archive")];
    for function in ["aggregator", "relay"] {
        let deployment = Deployment::new().await;
        let (answer, archived, _) = deliver(&deployment, function, &all).await;
        assert_eq!((answer, archived), (json!({ "batchItemFailures": [] }), 3), "{function}");
        let total = deployment.item(STATE, "ADMIN#a1", "ROLLUP#TOTAL").await;
        assert_eq!((&*total["projects_active"], &*total["questions"]), ("1", "2"), "{function}");
    }
}

#[tokio::test]
#[ignore = "needs the release binaries: run tests/run"]
async fn a_dead_cache_keeps_nothing_out_of_the_archive_nor_uncounted() {
    let deployment = Deployment::new().await;
    let cache = format!("redis://127.0.0.1:{}", free_port());
    let settings =
        [("AFTERWRITE_PROJECTIONS", "aggregate,invalidate,archive"), ("AFTERWRITE_CACHE_URL", &*cache)];
    let (answer, archived, records) = deliver(&deployment, "relay", &settings).await;
    let first = &records[0]["dynamodb"]["SequenceNumber"];
    assert_eq!(answer, json!({ "batchItemFailures": [{ "itemIdentifier": first }] }));
    assert_eq!(archived, 3);
    assert_eq!(deployment.item(STATE, "ADMIN#a1", "ROLLUP#TOTAL").await["questions"], "2");
}

#[tokio::test]
#[ignore = "needs the release binaries: run tests/run"]
async fn what_the_archive_needs_is_named_at_the_start() {
    let region = ("AWS_REGION", "eu-west-1");
    let offline = ("AWS_EC2_METADATA_DISABLED", "true");
    let said = refusal_to_start_of("relay", &[region, offline]).await;
    assert!(said.contains("AFTERWRITE_FIREHOSE_STREAM"), "{said}");
    let said = refusal_to_start_of("relay", &[region, offline, ("AFTERWRITE_FIREHOSE_STREAM", "s")]).await;
    assert!(said.contains("AFTERWRITE_BUCKET"), "{said}");
}
