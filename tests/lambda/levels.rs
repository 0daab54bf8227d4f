//! Functions of a model whose rollups are sources: what they report when they start.

use afterwrite_local::dynamodb::TableDefinition;
use afterwrite_tests::deployment::FunctionDeployment;
use afterwrite_tests::programs::program;
use afterwrite_tests::runtime_api::InvocationResult;

use super::{TIME, refusal_to_start_of};

const LEVELS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../infra/tests/levels.toml");
const HEARTBEAT: &str = r#"{"afterwrite":"heartbeat"}"#;

/// The output of an aggregator that has written its heartbeats, on a state table with or without a stream.
async fn output_with(stream: bool) -> (FunctionDeployment, String) {
    let deployment = FunctionDeployment::new().await;
    for table in [
        TableDefinition { stream, ..TableDefinition::state("levels-state") },
        TableDefinition { stream: true, ..TableDefinition::state("Orders") },
    ] {
        deployment.create(&table).await;
    }
    let settings = [("AFTERWRITE_MODEL", LEVELS), ("AFTERWRITE_STATE_TABLE", "levels-state")];
    let (api, function) = deployment.function(&program("aggregator"), &settings).await;
    let result = api.invoke(HEARTBEAT.to_owned(), TIME).await;
    assert!(matches!(result, InvocationResult::Response(_)), "{result:?}; {}", function.output());
    (deployment, function.stop())
}

#[tokio::test]
#[ignore = "needs the release binaries: run tests/run"]
async fn a_state_table_without_a_stream_is_reported_at_start_up_and_nothing_else_is() {
    let (deployment, output) = output_with(false).await;
    for word in ["levels-state", "NEW_AND_OLD_IMAGES", "afterwrite backfill"] {
        assert!(output.contains(word), "`{word}` is missing in: {output}");
    }
    // The heartbeat is written to each table whose stream is read.
    for table in ["Orders", "levels-state"] {
        assert_eq!(deployment.scan(table).await.len(), 1, "{table}");
    }
    let (_, output) = output_with(true).await;
    assert!(!output.contains("NEW_AND_OLD_IMAGES"), "{output}");
}

#[tokio::test]
#[ignore = "needs the release binaries: run tests/run"]
async fn functions_that_use_rollups_as_sources_need_the_name_of_the_state_table() {
    let environment = [
        ("AWS_EC2_METADATA_DISABLED", "true"),
        ("AWS_REGION", "eu-west-1"),
        ("AFTERWRITE_MODEL", LEVELS),
        ("AFTERWRITE_BUCKET", "bucket"),
        ("AFTERWRITE_FIREHOSE_STREAM", "changes"),
    ];
    for function in ["relay", "exporter"] {
        let message = refusal_to_start_of(function, &environment).await;
        assert!(message.contains("AFTERWRITE_STATE_TABLE is not set"), "{function}: {message}");
        assert!(message.contains("rollups of the model are sources"), "{function}: {message}");
    }
}
