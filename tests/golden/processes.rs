//! The recording through two concurrent release processes, each of which gets every shard. A proxy injects conflicts,
//! throttles and errors, and drops responses of requests that took effect.

#![expect(clippy::indexing_slicing, reason = "an index past the end fails the test with its location")]

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use afterwrite_tests::deployment::{FunctionDeployment, SOURCE, STATE, event};
use afterwrite_tests::fault_proxy::FaultProxy;
use afterwrite_tests::faults::FaultRates;
use afterwrite_tests::programs::program;
use afterwrite_tests::recorded_items::{key, measures};
use afterwrite_tests::recording::StreamRecording;
use afterwrite_tests::runtime_api::InvocationResult;
use afterwrite_tests::sdk_items::sdk_item_of_json;
use serde_json::Value;

const RECORDING: &str = "exam-42";
const BATCH: usize = 100;
const TIME_LIMIT: Duration = Duration::from_secs(60);

#[tokio::test]
#[ignore = "needs the release binaries: run tests/run"]
async fn two_concurrent_release_processes_with_faults_produce_the_golden_results() {
    let recording = StreamRecording::load(RECORDING);
    let deployment = FunctionDeployment::new().await;
    for item in recording.last_images().iter().chain(&recording.items) {
        let put = deployment.client().put_item().table_name(SOURCE).set_item(Some(sdk_item_of_json(item)));
        put.send().await.expect("an item of the recording");
    }
    let proxy = FaultProxy::start(&deployment.endpoint(), FaultRates::SOME, 42).await.expect("a proxy");
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("a time after 1970").as_secs();
    let end = i64::try_from(now).expect("a time") - 60;
    let shards: Vec<Vec<Value>> =
        (0..recording.shards.len()).map(|shard| recording.shard_ending(shard, end)).collect();
    let binary = program("aggregator");
    tokio::join!(
        consume(&deployment, &proxy, &binary, &shards, false),
        consume(&deployment, &proxy, &binary, &shards, true),
    );
    assert_golden(&deployment, &recording).await;
    let injected = proxy.injected();
    let kinds = [injected.conflicts, injected.throttles, injected.unavailable, injected.lost_answers];
    assert!(kinds.iter().all(|count| *count > 0), "the proxy injected no fault of some kind: {injected:?}");
}

/// Delivers all shards to one process, one batch of each in turn, redelivering from the first failed record; in reverse
/// order if `reversed`.
async fn consume(
    deployment: &FunctionDeployment,
    proxy: &FaultProxy,
    binary: &Path,
    shards: &[Vec<Value>],
    reversed: bool,
) {
    let endpoint = proxy.endpoint();
    let (api, function) =
        deployment.function(binary, &[("AWS_ENDPOINT_URL_DYNAMODB", endpoint.as_str())]).await;
    let mut read = vec![0; shards.len()];
    let mut order: Vec<usize> = (0..shards.len()).collect();
    if reversed {
        order.reverse();
    }
    while order.iter().any(|shard| read[*shard] < shards[*shard].len()) {
        for shard in &order {
            let batch: Vec<Value> = shards[*shard][read[*shard]..].iter().take(BATCH).cloned().collect();
            if batch.is_empty() {
                continue;
            }
            let response = match api.invoke(event(&batch), TIME_LIMIT).await {
                InvocationResult::Response(response) => response,
                // Like an event source mapping after a failed invocation: the same batch again.
                InvocationResult::Error(_) | InvocationResult::TimedOut => continue,
            };
            let response: Value = serde_json::from_slice(&response).expect("a response");
            let failed = response["batchItemFailures"][0]["itemIdentifier"].as_str();
            let is_failed = |record: &Value| record["dynamodb"]["SequenceNumber"].as_str() == failed;
            let done = failed
                .map_or(batch.len(), |_| batch.iter().position(is_failed).expect("a record of the batch"));
            read[*shard] += done;
        }
    }
    let output = function.output();
    assert!(output.contains("CloudWatchMetrics"), "the process handled no batch: {output}");
}

async fn assert_golden(deployment: &FunctionDeployment, recording: &StreamRecording) {
    let mut rollups = BTreeMap::new();
    for item in deployment.scan(STATE).await {
        if item.get("EntityType").and_then(|kind| kind.as_s().ok()).is_some_and(|kind| kind == "ROLLUP") {
            rollups.insert(key(&item), measures(&item));
        }
    }
    rollups.retain(|_, measures| !measures.is_empty());
    assert_eq!(rollups, recording.rollups);
    let items: BTreeMap<_, _> =
        deployment.scan(SOURCE).await.into_iter().map(|item| (key(&item), item)).collect();
    for (key, expected) in &recording.mirrored {
        for (attribute, value) in expected {
            let shown = items[key].get(attribute).and_then(|shown| shown.as_n().ok());
            assert_eq!(shown, Some(&value.to_string()), "{attribute} of {key:?}");
        }
    }
}
