//! The deployed functions, as Lambda invokes them: the stream's consumers under an event source mapping, and the exporter behind a queue.
//! A program that was killed is started again with the next invocation, and what it was handling is delivered again.

use std::time::Duration;

use afterwrite_mapping::runtime::{FunctionPool, FunctionProgram};
use afterwrite_mapping::{
    EventHandler as _, EventSourceMapping, MappingControl, MappingOptions, MappingPace, MappingProgress,
    MappingSettings, MemoryCheckpoints,
};
use afterwrite_model::clock::SystemClock;
use afterwrite_tests::programs::program;
use serde_json::{Value, json};
use tokio::sync::Notify;

use super::platform::{BUCKET, Platform, SOURCE};

const TIMEOUT: Duration = Duration::from_secs(30);

fn function(platform: &Platform, name: &str) -> FunctionPool {
    let mut variables = platform.variables();
    if name == "relay" {
        variables.push(("AFTERWRITE_PROJECTIONS".to_owned(), "archive,notify".to_owned()));
    }
    FunctionPool::new(FunctionProgram { name: name.to_owned(), path: program(name), variables })
}

/// Delivers the stream to a function until `control` drains it.
pub(crate) async fn deliver(platform: &Platform, name: &str, control: &MappingControl) {
    let stream = platform.dynamodb.stream(SOURCE).await.unwrap();
    let function = function(platform, name);
    let settings = MappingSettings {
        function_name: name.to_owned(),
        batch_size: 200,
        bisects: true,
        reports_item_failures: true,
        ..MappingSettings::default()
    };
    let (progress, checkpoints) = (MappingProgress::default(), MemoryCheckpoints::default());
    let options =
        MappingOptions { pace: MappingPace::local(), ..MappingOptions::new(&progress, &checkpoints) };
    let mapping = EventSourceMapping::new(&stream, &function, &SystemClock, &settings, options);
    mapping.run(control).await.unwrap();
    assert!(progress.skipped().is_empty(), "{name}: records were discarded");
}

/// Exports each object of the archive as it appears, until `is_complete`.
pub(crate) async fn export(platform: &Platform, is_complete: &Notify) {
    let exporter = function(platform, "exporter");
    let mut created = platform.created.lock().await;
    loop {
        tokio::select! {
            biased;
            Some(object) = created.recv() => export_object(&exporter, &object.key).await,
            () = is_complete.notified() => break,
        }
    }
    while let Ok(object) = created.try_recv() {
        export_object(&exporter, &object.key).await;
    }
}

/// Repeats the message until the object is exported.
async fn export_object(exporter: &FunctionPool, key: &str) {
    if key.starts_with("archive/") {
        while !is_exported(exporter.handle(event(key), TIMEOUT).await.ok()) {}
    }
}

/// A queue's message about an object.
fn event(key: &str) -> Vec<u8> {
    let notification = json!({ "Records": [{
        "eventSource": "aws:s3",
        "eventName": "ObjectCreated:Put",
        "s3": { "bucket": { "name": BUCKET }, "object": { "key": key } },
    }] });
    let message = json!({
        "messageId": "message",
        "receiptHandle": "message",
        "body": notification.to_string(),
        "attributes": {},
        "messageAttributes": {},
        "eventSource": "aws:sqs",
        "eventSourceARN": "arn:aws:sqs:us-east-1:000000000000:archive-objects",
        "awsRegion": "us-east-1",
    });
    json!({ "Records": [message] }).to_string().into_bytes()
}

fn is_exported(response: Option<Vec<u8>>) -> bool {
    let response: Value =
        response.and_then(|response| serde_json::from_slice(&response).ok()).unwrap_or_default();
    response["batchItemFailures"].as_array().is_some_and(Vec::is_empty)
}
