//! A machine whose clock is not DynamoDB's: every command ends before it writes anything.

use std::fs;
use std::sync::{Arc, Mutex};

use afterwrite_model::clock::{Clock as _, SystemClock};
use afterwrite_model::record::Timestamp;
use afterwrite_tests::loopback::{LoopbackServer, json_response};
use afterwrite_tests::programs::embedded_afterwrite;
use aws_sdk_dynamodb::primitives::{DateTime, DateTimeFormat};
use bytes::Bytes;
use hyper::header::{DATE, HeaderValue};
use hyper::{Request, StatusCode};
use serde_json::json;

use super::world::STATE;

/// The `Date` header of a time.
fn header(time: Timestamp) -> HeaderValue {
    let date = DateTime::from_secs(time.epoch_seconds()).fmt(DateTimeFormat::HttpDate).unwrap();
    HeaderValue::from_str(&date).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the release binaries: run tests/run"]
async fn a_command_on_a_machine_with_another_clock_ends_before_it_writes() {
    let actions: Arc<Mutex<Vec<String>>> = Arc::default();
    let seen = Arc::clone(&actions);
    let server = LoopbackServer::serve(move |request: Request<Bytes>| {
        let action = request.headers().get("x-amz-target").map(|target| target.to_str().unwrap().to_owned());
        seen.lock().unwrap().extend(action);
        async {
            let mut response = json_response(StatusCode::OK, &json!({}));
            let two_hours_ago = Timestamp::from_epoch_ms(SystemClock.now().epoch_ms() - 121 * 60_000);
            response.headers_mut().insert(DATE, header(two_hours_ago));
            Ok(response)
        }
    });
    let server = server.await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("findings.jsonl"), "").unwrap();
    for arguments in [
        &["backfill", "--yes"][..],
        &["verify"],
        &["repair", "findings.jsonl", "--yes"],
        &["redrive", "--yes"],
        &["redrive", "--yes", "--without-recovery"],
        &["jobs", "list"],
        &["run", "--name", "blue"],
    ] {
        let mut command = embedded_afterwrite(&server.endpoint(), STATE);
        command.current_dir(folder.path()).args(arguments).env("AFTERWRITE_MODEL", "shop");
        let output = tokio::task::block_in_place(|| command.output().unwrap());
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}\n{text}");
        assert!(text.contains("the clock of this machine is 2 hours ahead of DynamoDB's"), "{text}");
        assert!(text.contains("Set the clock of this machine"), "{text}");
    }
    let is_write =
        |action: &String| ["Put", "Update", "Delete", "Write"].iter().any(|verb| action.contains(verb));
    let actions = actions.lock().unwrap().clone();
    assert!(!actions.is_empty() && !actions.iter().any(is_write), "{actions:?}");
}
