//! The deployed function `invalidator`, and `relay` with its queue.

use std::collections::BTreeSet;
use std::time::Duration;

use afterwrite_local::cloudfront::EmbeddedCloudFront;
use afterwrite_local::sdk::CREDENTIAL;
use afterwrite_local::sqs::EmbeddedSqs;
use afterwrite_tests::cloudfront::{DISTRIBUTION, start_cloudfront};
use afterwrite_tests::deployment::{FunctionDeployment, event};
use afterwrite_tests::programs::program;
use afterwrite_tests::redis_server::RedisServer;
use afterwrite_tests::runtime_api::{FunctionProcess, RuntimeApi};
use afterwrite_tests::sqs::{QUEUE, queue_event, start_queue};
use serde_json::{Value, json};

use super::{TIME, assert_all_handled, assert_measured, metrics, refusal_to_start_of, response};

async fn invalidator(cloudfront: &EmbeddedCloudFront) -> (RuntimeApi, FunctionProcess) {
    let (api, endpoint) = (RuntimeApi::start().await.unwrap(), cloudfront.endpoint());
    let settings = [
        ("AFTERWRITE_MODEL", "exambuddy"),
        ("AFTERWRITE_CLOUDFRONT_DISTRIBUTION", DISTRIBUTION),
        ("AWS_ENDPOINT_URL_CLOUDFRONT", &*endpoint),
        ("AWS_REGION", "us-east-1"),
        ("AWS_ACCESS_KEY_ID", CREDENTIAL),
        ("AWS_SECRET_ACCESS_KEY", CREDENTIAL),
    ];
    let function = FunctionProcess::start(&program("invalidator"), &api, &settings).unwrap();
    (api, function)
}

/// Lets the deployed relay handle the changes of a project and two questions; returns its metrics.
async fn relay_to(queue: &EmbeddedSqs, redis: &RedisServer) -> Value {
    let deployment = FunctionDeployment::new().await;
    let (cache, url, endpoint) = (redis.url(), queue.url(QUEUE), queue.endpoint());
    let settings = [
        ("AFTERWRITE_PROJECTIONS", "invalidate"),
        ("AFTERWRITE_CACHE_URL", &*cache),
        ("AFTERWRITE_CDN_QUEUE", &*url),
        // The queue goes before it.
        ("AFTERWRITE_CLOUDFRONT_DISTRIBUTION", DISTRIBUTION),
        ("AWS_ENDPOINT_URL_SQS", &*endpoint),
    ];
    let (api, function) = deployment.function(&program("relay"), &settings).await;
    deployment.put_project("p1").await;
    for question in ["q1", "q2"] {
        deployment.put_question("p1", question).await;
    }
    let records = deployment.records().await;
    assert_all_handled(api.invoke(event(&records), TIME).await, &function);
    let [line] = metrics(&function.stop()).try_into().unwrap();
    line
}

#[tokio::test]
#[ignore = "needs the release binaries and redis-server: run tests/run"]
async fn paths_go_through_the_queue_into_one_invalidation() {
    let (queue, redis) = (start_queue().await, RedisServer::start().await);
    redis.run::<()>(&["SET", "project:p1", "cached"]).await;
    let relayed = relay_to(&queue, &redis).await;
    for (name, count) in [("PathsQueued", 2), ("QueueRequests", 1), ("PathsInvalidated", 0)] {
        assert_measured(&relayed, name, "Count");
        assert_eq!(relayed[name], count, "{name} of {relayed}");
    }
    assert!(redis.run::<Vec<String>>(&["KEYS", "*"]).await.is_empty());
    let paths = ["/api/projects/p1", "/api/projects/p1/*"];
    let [text] = queue.bodies(QUEUE).try_into().unwrap();
    assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), json!({ "version": 1, "paths": paths }));

    let cloudfront = start_cloudfront().await;
    let (api, function) = invalidator(&cloudfront).await;
    // The same paths in the messages of several shards.
    let messages = vec![text; 5];
    assert_all_handled(api.invoke(queue_event(&messages), TIME).await, &function);
    let [request] = cloudfront.requests().try_into().unwrap();
    assert_eq!(request.paths, paths);
    let [line] = metrics(&function.stop()).try_into().unwrap();
    for (name, count) in [
        ("Messages", 5),
        ("MessagesFailed", 0),
        ("PathsReceived", 10),
        ("PathsInvalidated", 2),
        ("PathsRefused", 0),
        ("InvalidationRequests", 1),
    ] {
        assert_measured(&line, name, "Count");
        assert_eq!(line[name], count, "{name} of {line}");
    }
    assert_measured(&line, "Duration", "Milliseconds");
    assert_eq!((&line["Function"], &line["Model"]), (&json!("invalidator"), &json!("exambuddy")));
}

#[tokio::test]
#[ignore = "needs the release binaries: run tests/run"]
async fn messages_stay_in_the_queue_while_cloudfront_is_busy() {
    let cloudfront = start_cloudfront().await;
    let (api, function) = invalidator(&cloudfront).await;
    let message = |path: &str| json!({ "version": 1, "paths": [path] }).to_string();
    let messages = [message("/a"), "no message of the relay".to_owned(), message("/b")];
    cloudfront.busy_for(usize::MAX);
    let returned = response(api.invoke(queue_event(&messages), Duration::from_secs(7)).await, &function);
    let failures = returned["batchItemFailures"].as_array().unwrap().iter();
    let failed: BTreeSet<&str> =
        failures.map(|failure| failure["itemIdentifier"].as_str().unwrap()).collect();
    assert_eq!(failed, ["m0", "m1", "m2"].into());
    cloudfront.busy_for(0);
    let returned = response(api.invoke(queue_event(&messages), TIME).await, &function);
    assert_eq!(returned, json!({ "batchItemFailures": [{ "itemIdentifier": "m1" }] }));
    let last = cloudfront.requests().pop().unwrap();
    assert_eq!((last.paths, last.is_started), (vec!["/a".to_owned(), "/b".to_owned()], true));
    let output = function.stop();
    assert!(output.contains("a message stays in the queue") && output.contains("m1"), "{output}");
}

#[tokio::test]
#[ignore = "needs the release binaries: run tests/run"]
async fn a_missing_setting_of_the_invalidator_is_named_at_start_up() {
    let settings = [("AFTERWRITE_MODEL", "exambuddy"), ("AWS_REGION", "us-east-1")];
    let message = refusal_to_start_of("invalidator", &settings).await;
    assert!(message.contains("AFTERWRITE_CLOUDFRONT_DISTRIBUTION"), "{message}");
    let relay =
        [&settings[..], &[("AFTERWRITE_PROJECTIONS", "invalidate"), ("AFTERWRITE_CDN_QUEUE", "stale-paths")]];
    let message = refusal_to_start_of("relay", &relay.concat()).await;
    assert!(message.contains("AFTERWRITE_CDN_QUEUE"), "{message}");
}
