//! Commands that wait for DynamoDB, and a state table that does not exist.

use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Child, Command, Stdio};

use afterwrite_local::dynamodb::EmbeddedDynamoDb;
use afterwrite_local::sdk::CREDENTIAL;

/// A command whose standard error is a pipe.
fn command(arguments: &[&str], endpoint: &str) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_afterwrite"));
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).envs([
        ("AFTERWRITE_MODEL", "exambuddy"),
        ("AFTERWRITE_STATE_TABLE", "nothing"),
        ("AWS_ENDPOINT_URL", endpoint),
        ("AWS_REGION", "us-east-1"),
        ("AWS_ACCESS_KEY_ID", CREDENTIAL),
        ("AWS_SECRET_ACCESS_KEY", CREDENTIAL),
        ("AWS_EC2_METADATA_DISABLED", "true"),
    ]);
    command.spawn().unwrap()
}

/// They would be silent for two minutes.
#[test]
fn a_command_says_that_it_waits_for_dynamodb_and_until_when() {
    let folder = tempfile::tempdir().unwrap();
    let (findings, changes) = (folder.path().join("findings.jsonl"), folder.path().join("changes.jsonl"));
    std::fs::write(&findings, "").unwrap();
    std::fs::write(&changes, format!("{}\n", crate::pipes::LINE)).unwrap();
    let (findings, changes) = (findings.display().to_string(), changes.display().to_string());
    let commands: [&[&str]; 5] = [
        &["verify"],
        &["backfill", "--yes"],
        &["repair", &findings, "--yes"],
        &["replay", &changes, "--yes"],
        &["redrive", "--yes"],
    ];
    let mut started: Vec<(String, Child)> = commands
        .iter()
        .map(|arguments| (arguments.join(" "), command(arguments, "http://127.0.0.1:1")))
        .collect();
    for (name, child) in &mut started {
        let mut line = String::new();
        BufReader::new(child.stderr.take().unwrap()).read_line(&mut line).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(line.starts_with("afterwrite: repeats a request until "), "{name}: {line}");
        assert!(line.contains("DynamoDB could not be reached") && !line.contains("Allow"), "{name}: {line}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redrive_names_a_state_table_that_does_not_exist() {
    let server = EmbeddedDynamoDb::start().await.unwrap();
    let mut child = command(&["redrive", "--yes"], &server.endpoint());
    let told = tokio::task::block_in_place(|| {
        let mut told = String::new();
        child.stderr.take().unwrap().read_to_string(&mut told).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(2), "{told}");
        told
    });
    assert!(told.contains("the table does not exist") && told.contains("AFTERWRITE_STATE_TABLE"), "{told}");
    assert!(!told.contains("Allow"), "{told}");
}
