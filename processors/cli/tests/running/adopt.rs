//! `docs/ADOPT.md`, step by step: a table that is years old, with a counter that the application keeps itself, on a server over HTTP.

use std::collections::HashMap;

use afterwrite_local::dynamodb::{EmbeddedDynamoDb, KeyDefinition, TableDefinition};
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::AttributeValue;
use serde_json::Value;
use tempfile::TempDir;

use crate::background::{BackgroundCommand, eventually};

const PAGE: &str = include_str!("../../../../docs/ADOPT.md");
const SOURCE: &str = "ExamBuddyTable";
const STATE: &str = "State";
const YEARS: std::ops::Range<u32> = 2016..2026;
const ATTEMPTS_A_YEAR: u32 = 12;

/// A table that was written for years, and whose stream is read from now on.
struct OldTable {
    server: EmbeddedDynamoDb,
    client: Client,
    /// Where the commands write their reports.
    folder: TempDir,
}

impl OldTable {
    async fn start() -> Self {
        let server = EmbeddedDynamoDb::start().await.unwrap();
        let client = server.client();
        server.create_table(&TableDefinition::state(STATE)).await.unwrap();
        let source = TableDefinition {
            name: SOURCE.to_owned(),
            key: KeyDefinition::new("PK", "SK"),
            indexes: vec![("GSI1".to_owned(), KeyDefinition::new("GSI1PK", "GSI1SK"))],
            stream: true,
            ttl_attribute: Some("ttl".to_owned()),
        };
        server.create_table(&source).await.unwrap();
        let table = Self { server, client, folder: TempDir::new().unwrap() };
        for admin in ["42", "43"] {
            for year in YEARS {
                for number in 0..ATTEMPTS_A_YEAR {
                    let (attempt, month) = (format!("{admin}-{year}-{number}"), number + 1);
                    table.put_attempt(admin, &attempt, &format!("{year}-{month:02}-06T14:30:00Z")).await;
                }
            }
            table.put_project(admin, YEARS.len() * ATTEMPTS_A_YEAR as usize).await;
        }
        table
    }

    /// An admin's project, with the number of its attempts as the application counts them.
    async fn put_project(&self, admin: &str, attempts: usize) {
        let project = format!("PROJECT#p{admin}");
        let put = self.client.put_item().table_name(SOURCE);
        let put = put.item("PK", text(&format!("ADMIN#{admin}"))).item("SK", text(&project));
        let put = put.item("GSI1PK", text(&project)).item("GSI1SK", text(&project));
        let put = put.item("attempt_total", AttributeValue::N(attempts.to_string()));
        put.item("archived", AttributeValue::Bool(false)).send().await.unwrap();
    }

    async fn put_attempt(&self, admin: &str, attempt: &str, started_at: &str) {
        let put = self.client.put_item().table_name(SOURCE);
        let put = put.item("PK", text("CANDIDATE#c1")).item("SK", text(&format!("ATTEMPT#{attempt}")));
        let put = put.item("project_id", text(&format!("p{admin}"))).item("started_at", text(started_at));
        put.item("status", text("STARTED")).send().await.unwrap();
    }

    /// The attempts that a rollup of an admin has.
    async fn attempts(&self, admin: &str) -> Option<String> {
        let get = self.client.get_item().table_name(STATE).consistent_read(true);
        let get = get.key("PK", text(&format!("ADMIN#{admin}"))).key("SK", text("ROLLUP#TOTAL"));
        get.send().await.unwrap().item?.get("attempts")?.as_n().ok().cloned()
    }

    async fn set_attempts(&self, admin: &str, attempts: &str) {
        let update = self.client.update_item().table_name(STATE).key("PK", text(&format!("ADMIN#{admin}")));
        let update = update.key("SK", text("ROLLUP#TOTAL")).update_expression("SET attempts = :wrong");
        let wrong = AttributeValue::N(attempts.to_owned());
        update.expression_attribute_values(":wrong", wrong).send().await.unwrap();
    }

    /// Whether the consumer has stored where it begins.
    async fn is_read(&self) -> Option<()> {
        let query = self.client.query().table_name(STATE).key_condition_expression("PK = :name");
        let name = text(&format!("AFTERWRITE#CHECKPOINT#adopt#{SOURCE}"));
        let items = query.expression_attribute_values(":name", name).send().await.unwrap().items;
        let is_latest = |item: &HashMap<_, _>| item.get("position") == Some(&text("LATEST"));
        items.unwrap_or_default().iter().any(is_latest).then_some(())
    }

    fn start_command(&self, arguments: &[&str]) -> BackgroundCommand {
        let endpoint = self.server.endpoint();
        let variables = [
            ("AFTERWRITE_MODEL", "exambuddy"),
            ("AFTERWRITE_STATE_TABLE", STATE),
            ("AWS_ENDPOINT_URL", endpoint.as_str()),
            ("AWS_REGION", "us-east-1"),
            ("AWS_ACCESS_KEY_ID", "test"),
            ("AWS_SECRET_ACCESS_KEY", "test"),
            ("AWS_EC2_METADATA_DISABLED", "true"),
        ];
        BackgroundCommand::start_in(self.folder.path(), arguments, &variables)
    }

    /// Runs a command of the page with more arguments; returns its output, if its exit code is this one.
    fn run(&self, documented: &str, more: &[&str], expected: i32) -> String {
        assert!(PAGE.contains(&format!("\n{documented}\n")), "`{documented}` is not in docs/ADOPT.md");
        // The table is so small that all of it is the sample.
        let documented_arguments = documented
            .split_whitespace()
            .skip(1)
            .map(|argument| if argument == "0.05" { "1" } else { argument });
        let arguments: Vec<&str> = documented_arguments.chain(more.iter().copied()).collect();
        let (code, output, errors) = self.start_command(&arguments).ended();
        assert_eq!(code, Some(expected), "{documented}: {output}{errors}");
        output
    }
}

fn text(value: &str) -> AttributeValue {
    AttributeValue::S(value.to_owned())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_table_that_is_years_old_is_adopted_as_the_page_describes() {
    const UNPROTECTED: &str = "--without-recovery";
    // Nothing is in flight for longer.
    const QUIET: [&str; 2] = ["--tolerance", "1"];
    let table = OldTable::start().await;

    // 1. From now on, changes are counted.
    let consumer = table.start_command(&["run", "--name", "adopt", "--start", "latest"]);
    eventually("the consumer did not start", || table.is_read()).await;
    let plan: Value = serde_json::from_str(&{
        let (code, output, errors) = table.start_command(&["backfill", "--json", UNPROTECTED]).ended();
        assert_eq!(code, Some(2), "{errors}");
        output
    })
    .unwrap();
    assert_eq!(plan["changes"], 242, "{plan}");

    // 2. One tenant, while the application goes on writing.
    table.put_attempt("42", "new", "2026-02-06T14:30:00Z").await;
    eventually("the new attempt was not counted", || table.attempts("42")).await;
    table.run("afterwrite backfill --only admin_id=42 --yes", &[UNPROTECTED], 0);
    assert_eq!(table.attempts("42").await.as_deref(), Some("121"));
    assert_eq!(table.attempts("43").await, None, "the pilot is one tenant");

    // 3. The application's counter lacks the new attempt until the application counts it.
    std::thread::sleep(std::time::Duration::from_secs(2));
    table.run("afterwrite verify --only admin_id=42 --report drift.jsonl", &QUIET, 0);
    let three_way = "afterwrite verify --only admin_id=42 --three-way attempt_total=project.attempts";
    table.run(three_way, &QUIET, 1);
    table.put_project("42", 121).await;
    std::thread::sleep(std::time::Duration::from_secs(2));
    table.run(three_way, &QUIET, 0);

    // 4. Everybody.
    table.run("afterwrite backfill --rate 500 --segments 32 --yes", &[UNPROTECTED], 0);
    assert_eq!(table.attempts("42").await.as_deref(), Some("121"), "what was counted is not counted again");
    assert_eq!(table.attempts("43").await.as_deref(), Some("120"));

    // 5. Drift is found, named and repaired.
    table.set_attempts("43", "119").await;
    std::thread::sleep(std::time::Duration::from_secs(2));
    let found = table.run("afterwrite verify --sample 0.05 --report drift.jsonl --json", &QUIET, 1);
    assert!(found.contains("ROLLUP#TOTAL"), "{found}");
    table.run("afterwrite verify --recheck drift.jsonl", &QUIET, 1);
    table.run("afterwrite repair drift.jsonl --dry-run", &QUIET, 0);
    assert_eq!(table.attempts("43").await.as_deref(), Some("119"), "a dry run writes nothing");
    table.run("afterwrite repair drift.jsonl --yes", &[QUIET[0], QUIET[1], UNPROTECTED], 0);
    assert_eq!(table.attempts("43").await.as_deref(), Some("120"));
    table.run("afterwrite verify --recheck drift.jsonl", &QUIET, 0);
    drop(consumer);
}
