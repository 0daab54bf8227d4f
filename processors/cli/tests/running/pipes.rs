//! Commands that print until their reader closes the pipe.

use std::io::Write as _;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use afterwrite_local::dynamodb::{EmbeddedDynamoDb, KeyDefinition, TableDefinition};
use afterwrite_local::sdk::CREDENTIAL;

pub(crate) const LINE: &str = r#"{"eventID":"1","eventName":"REMOVE","eventSourceARN":"arn:aws:dynamodb:us-east-1:1:table/ExamBuddyTable/stream/2026-02-06T10:00:00.000","dynamodb":{"ApproximateCreationDateTime":1770372000,"Keys":{"PK":{"S":"A"},"SK":{"S":"B"}},"OldImage":{"PK":{"S":"A"},"SK":{"S":"B"}},"SequenceNumber":"1","StreamViewType":"NEW_AND_OLD_IMAGES"}}"#;

/// A command whose reader is gone.
fn unread(command: &mut Command) -> Child {
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    child
}

/// Repeats an action until the command ends, with this exit code.
fn ends(mut child: Child, code: i32, mut action: impl FnMut(&mut Child)) {
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            assert_eq!(status.code(), Some(code));
            return;
        }
        if Instant::now() > deadline {
            child.kill().unwrap();
            panic!("the command goes on without a reader");
        }
        action(&mut child);
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn tail_ends_when_its_reader_is_gone() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_afterwrite"));
    // Standard input stays open.
    let child = unread(command.args(["tail", "--file", "-", "--model", "exambuddy"]));
    ends(child, 0, |child| {
        // The command may have ended.
        let _ = child.stdin.as_mut().unwrap().write_all(format!("{LINE}\n").as_bytes());
    });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn repeated_heartbeats_end_when_their_reader_is_gone() {
    let server = EmbeddedDynamoDb::start().await.unwrap();
    let table = TableDefinition {
        name: "ExamBuddyTable".to_owned(),
        key: KeyDefinition::new("PK", "SK"),
        indexes: [].into(),
        stream: true,
        ttl_attribute: None,
    };
    server.create_table(&table).await.unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_afterwrite"));
    command.args(["heartbeat", "--repeat", "--model", "exambuddy"]).envs([
        ("AWS_ENDPOINT_URL", server.endpoint().as_str()),
        ("AWS_REGION", "us-east-1"),
        ("AWS_ACCESS_KEY_ID", CREDENTIAL),
        ("AWS_SECRET_ACCESS_KEY", CREDENTIAL),
        ("AWS_EC2_METADATA_DISABLED", "true"),
    ]);
    let child = unread(&mut command);
    tokio::task::block_in_place(|| ends(child, 0, |_| {}));
}
