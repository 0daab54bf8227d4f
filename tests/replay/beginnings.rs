//! `tail --since` and `record --stream --from`: the release binary begins a stream at a time, on the embedded servers as `afterwrite dev` has them.

use std::process::Output;
use std::time::Duration;

use afterwrite_local::dynamodb::{EmbeddedDynamoDb, KeyDefinition, TableDefinition};
use afterwrite_local::stream_api::StreamServer;
use afterwrite_model::clock::{Clock as _, SystemClock};
use afterwrite_model::record::Timestamp;
use afterwrite_tests::programs::embedded_afterwrite;
use aws_sdk_dynamodb::types::AttributeValue;

const SOURCE: &str = "ExamBuddyTable";

async fn server() -> EmbeddedDynamoDb {
    let server = EmbeddedDynamoDb::start().await.unwrap();
    let source = TableDefinition {
        name: SOURCE.to_owned(),
        key: KeyDefinition::new("PK", "SK"),
        stream: true,
        ..TableDefinition::default()
    };
    server.create_table(&source).await.unwrap();
    server.create_table(&TableDefinition::state("live")).await.unwrap();
    server
}

async fn put(server: &EmbeddedDynamoDb, candidate: &str) {
    let text = |value: String| AttributeValue::S(value);
    let put =
        server.client().put_item().table_name(SOURCE).item("PK", text(format!("CANDIDATE#{candidate}")));
    put.item("SK", text("PROFILE".to_owned())).send().await.unwrap();
}

fn run(endpoint: &str, arguments: &[&str]) -> Output {
    let mut command = embedded_afterwrite(endpoint, "live");
    tokio::task::block_in_place(|| command.args(arguments).output().unwrap())
}

/// The candidates in the lines that a command prints, in order.
fn candidates(endpoint: &str, arguments: &[&str]) -> Vec<String> {
    let output = run(endpoint, arguments);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{arguments:?}: {text}{}", String::from_utf8_lossy(&output.stderr));
    let name = |line: &str| {
        let after = line.split("CANDIDATE#").nth(1).unwrap_or_default();
        after.chars().take_while(char::is_ascii_lowercase).collect()
    };
    text.lines().map(name).collect()
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the release binaries: run tests/run"]
async fn a_command_begins_with_the_first_change_of_a_time() {
    let server = server().await;
    let front = StreamServer::start(&server, 0).await.unwrap();
    let endpoint = front.endpoint();

    put(&server, "ann").await;
    // Records state their time to the second.
    tokio::time::sleep(Duration::from_millis(2100)).await;
    let time = Timestamp::from_epoch_seconds(SystemClock.now().epoch_seconds());
    put(&server, "bob").await;
    put(&server, "cid").await;

    let (since, before) = (time.to_string(), time.minus(Duration::from_secs(600)).to_string());
    for begin in
        [["tail", "--json", "--since"].as_slice(), &["tail", "--since"], &["record", "--stream", "--from"]]
    {
        let from =
            |time: &str, limit: &str| candidates(&endpoint, &[begin, &[time, "--limit", limit]].concat());
        assert_eq!(from(&since, "2"), ["bob", "cid"], "{begin:?}");
        assert_eq!(from(&before, "3"), ["ann", "bob", "cid"], "{begin:?}");
    }
    assert_eq!(candidates(&endpoint, &["tail", "--since", "10m", "--limit", "3"]), ["ann", "bob", "cid"]);

    // Records that are older, or that are not there yet, must not be left out unnoticed.
    for (age, reason) in [("25h", "24 hours"), ("2999-01-01T00:00:00Z", "future")] {
        let output = run(&endpoint, &["tail", "--since", age, "--limit", "1"]);
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(2) && message.contains(reason), "{age}: {message}");
    }
    let old = time.minus(Duration::from_secs(25 * 3600)).to_string();
    let output = run(&endpoint, &["record", "--stream", "--from", &old, "--limit", "1"]);
    assert_eq!(output.status.code(), Some(2), "{}", String::from_utf8_lossy(&output.stderr));
    server.stop().await.unwrap();
}
