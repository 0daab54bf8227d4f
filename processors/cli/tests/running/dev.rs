//! `afterwrite dev`, as a developer uses it: writes with the AWS SDK, and reads what follows.

use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::Duration;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::{BehaviorVersion, Credentials, Region};
use aws_sdk_dynamodb::types::AttributeValue;
use serde_json::Value;
use tempfile::TempDir;

use crate::background::{BackgroundCommand, eventually};

const SOURCE: &str = "ExamBuddyTable";
const STATE: &str = "AfterwriteState";

/// A running `afterwrite dev`.
struct Development {
    command: BackgroundCommand,
    endpoints: Value,
    client: Client,
}

impl Development {
    fn start(arguments: &[&str]) -> Self {
        let arguments = [&["dev", "--json", "--port", "0"], arguments].concat();
        let mut command = BackgroundCommand::start(&arguments, &[]);
        let endpoints: Value = serde_json::from_str(&command.line()).unwrap();
        let credential = endpoints["access_key_id"].as_str().unwrap();
        let config = aws_sdk_dynamodb::Config::builder()
            .behavior_version(BehaviorVersion::latest())
            .http_client(afterwrite_services::http_client())
            .region(Region::new(endpoints["region"].as_str().unwrap().to_owned()))
            .credentials_provider(Credentials::new(credential, credential, None, None, "test"))
            .endpoint_url(endpoints["endpoints"]["dynamodb"].as_str().unwrap());
        let client = Client::from_conf(config.build());
        Self { command, endpoints, client }
    }

    async fn put_project(&self) {
        let put = self.client.put_item().table_name(SOURCE);
        let put = put.item("PK", text("ADMIN#a1")).item("SK", text("PROJECT#p1"));
        let put = put.item("GSI1PK", text("PROJECT#p1")).item("GSI1SK", text("PROJECT#p1"));
        put.item("title", text("Exams")).send().await.unwrap();
    }

    async fn put_attempt(&self, attempt: &str) {
        let put = self.client.put_item().table_name(SOURCE);
        let put = put.item("PK", text("CANDIDATE#c1")).item("SK", text(&format!("ATTEMPT#{attempt}")));
        let put = put.item("project_id", text("p1")).item("started_at", text("2026-02-06T14:30:00Z"));
        let put = put.item("status", text("COMPLETED"));
        let number = |number: &str| AttributeValue::N(number.to_owned());
        put.item("score", number("42")).item("total_questions", number("50")).send().await.unwrap();
    }

    /// The attempts in the admin's total.
    async fn attempts(&self) -> Option<String> {
        let get = self.client.get_item().table_name(STATE).consistent_read(true);
        let got = get.key("PK", text("ADMIN#a1")).key("SK", text("ROLLUP#TOTAL")).send().await.unwrap();
        got.item?.get("attempts")?.as_n().ok().cloned()
    }

    /// Waits until this many attempts are counted.
    async fn counted(&self, attempts: &str) {
        let is_counted = || async { self.attempts().await.filter(|counted| counted == attempts) };
        eventually(&format!("{attempts} attempts were not counted"), is_counted).await;
    }

    /// Stops it as Ctrl-C does.
    fn stop(mut self) {
        self.command.signal("INT");
        let (code, _, errors) = self.command.ended();
        assert_eq!(code, Some(0), "{errors}");
    }
}

fn text(value: &str) -> AttributeValue {
    AttributeValue::S(value.to_owned())
}

/// Whether a folder contains a file whose name ends like this.
fn has_file(folder: &Path, end: &str) -> bool {
    let Ok(entries) = std::fs::read_dir(folder) else { return false };
    entries.flatten().any(|entry| entry.file_name().to_string_lossy().ends_with(end))
}

#[tokio::test]
async fn state_stays_with_data() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().to_str().unwrap();
    let first = Development::start(&["--data", data]);
    assert_eq!(first.endpoints["model"], "exambuddy");
    first.put_project().await;
    for attempts in ["1", "2", "3", "4"] {
        first.put_attempt(attempts).await;
        first.counted(attempts).await;
    }
    let log = folder.path().join("s3/afterwrite-dev/datasets/attempts_log");
    eventually("the attempts were not exported", || async {
        has_file(&log.join("_delta_log"), "0.json").then_some(())
    })
    .await;
    first.stop();

    let second = Development::start(&["--data", data]);
    assert_eq!(second.attempts().await.as_deref(), Some("4"));
    second.put_attempt("5").await;
    second.counted("5").await;
    // Killed without a chance to clean up.
    second.command.signal("KILL");
    drop(second);

    let third = Development::start(&["--data", data]);
    third.put_attempt("6").await;
    third.counted("6").await;
    third.stop();
}

#[tokio::test]
async fn counts_are_exact_under_injected_faults() {
    let faults = "duplicate=0.3,crash=0.2,conflict=0.2,delay=5ms,seed=11";
    let development = Development::start(&["--inject", faults]);
    development.put_project().await;
    for attempt in 0..60 {
        development.put_attempt(&attempt.to_string()).await;
    }
    development.counted("60").await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(development.attempts().await.as_deref(), Some("60"));
    development.stop();
}

/// A consumer in Python that writes the keys of each batch to a file.
fn consumer(folder: &TempDir) -> String {
    let (program, seen) = (folder.path().join("bootstrap"), folder.path().join("seen"));
    let script = format!(
        r#"#!/usr/bin/env python3
import json, os, urllib.request
API = "http://" + os.environ["AWS_LAMBDA_RUNTIME_API"] + "/2018-06-01/runtime/invocation/"
while True:
    with urllib.request.urlopen(API + "next") as response:
        request, event = response.headers["lambda-runtime-aws-request-id"], json.load(response)
    with open("{}", "a") as seen:
        for record in event["Records"]:
            print(record["eventName"], record["dynamodb"]["Keys"]["SK"]["S"], os.environ["AFTERWRITE_BUCKET"], file=seen)
    urllib.request.urlopen(urllib.request.Request(API + request + "/response", data=b"null", method="POST"))
"#,
        seen.display()
    );
    std::fs::File::create(&program).unwrap().write_all(script.as_bytes()).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    program.to_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_program_of_any_language_is_one_more_consumer_with_a_filter_of_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let function = format!("search={}", consumer(&folder));
    let settings = folder.path().join("mapping.json");
    let pattern = r#"{\"dynamodb\": {\"Keys\": {\"SK\": {\"S\": [{\"prefix\": \"ATTEMPT#\"}]}}}}"#;
    let json = format!(r#"{{"FilterCriteria": {{"Filters": [{{"Pattern": "{pattern}"}}]}}}}"#);
    std::fs::write(&settings, json).unwrap();
    let mapping = format!("search={}", settings.display());
    let development = Development::start(&["--function", &function, "--mapping", &mapping]);
    development.put_project().await;
    development.put_attempt("1").await;
    let seen = folder.path().join("seen");
    let lines = eventually("the program got no event", || async {
        std::fs::read_to_string(&seen).ok().filter(|lines| lines.ends_with('\n'))
    })
    .await;
    assert_eq!(lines, "INSERT ATTEMPT#1 afterwrite-dev\n");
    development.counted("1").await;
    development.stop();
}

#[test]
fn wrong_usage_is_refused_before_anything_starts() {
    for (arguments, message) in [
        (&["dev", "--model", "cinema"][..], "cinema"),
        (&["dev", "--port", "0", "--function", "x=./not-there"], "the function x cannot be started"),
        (&["dev", "--port", "0", "--mapping", "relais=m.json"], "Did you mean relay?"),
        (&["dev", "--port", "0", "--function", "relay=a", "--function", "relay=b"], "twice"),
    ] {
        let mut refused = BackgroundCommand::start(arguments, &[]);
        let (code, output, errors) = refused.ended();
        assert_eq!((code, output.as_str()), (Some(2), ""), "{arguments:?}: {errors}");
        assert!(errors.contains(message), "{errors}");
    }
}
