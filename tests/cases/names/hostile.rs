//! Cases E4 and E6: text and JSON that strangers choose.

use std::process::{Command, Output};
use std::sync::Arc;

use afterwrite_input::item_json::ItemJson;
use afterwrite_model::harmless::harmless;
use afterwrite_model::table::Model;
use afterwrite_model::{Error, ErrorKind};
use afterwrite_preview::trace::{RecordTracer, TraceLookups};
use afterwrite_services::dynamodb::DynamoDb;
use afterwrite_tests::programs::{program, remove_settings};
use serde_json::{Value, json};

use super::record;

/// A key that moves the cursor, rings, begins a line that looks like metrics, and turns the direction of text.
const HOSTILE: &str =
    "a\u{1b}[2J\u{7}\r\n{\"_aws\":{}}\t\u{7f}\u{85}\u{9b}31m\u{202e}\u{2066}\u{2028}\u{feff}b";

const MODEL: &str = "name = \"h\"\ngeneration = 1\ntables.app.key = [\"PK\"]\n[entities.e]\nkey = { PK = \"E#{e}\" }\nattributes = { n = \"N\" }\n[rollups.r]\nkey = { PK = \"R#{e}\", SK = \"R\" }\n[[aggregates]]\nname = \"a\"\nof = \"e\"\ninto = \"r\"\nmeasures.count = \"count\"\nmeasures.sum = { sum = \"n\" }\n[[caches]]\nof = \"e\"\nkeys = [\"e:{e}\"]\n";

/// Whether a terminal or a reader of logs takes a character for something else than text.
fn is_harmful(character: char) -> bool {
    character.is_control()
        || ('\u{2028}'..='\u{202e}').contains(&character)
        || "\u{2066}\u{feff}".contains(character)
}

fn assert_harmless(text: &str) {
    let found = text.chars().find(|character| *character != '\n' && is_harmful(*character));
    assert_eq!(found, None, "{text:?}");
}

#[tokio::test]
async fn e4_a_trace_is_one_line_of_harmless_text() {
    let model = Arc::new(Model::parse(MODEL, "h.toml").unwrap_or_else(|errors| panic!("{errors}")));
    let lookups = TraceLookups::<DynamoDb>::new(&model, None);
    let tracer = RecordTracer::new(model, vec![Arc::from("app")], lookups).showing_items(true);
    let key = json!({ "PK": { "S": format!("E#{HOSTILE}") } });
    let trace = tracer.trace(&record(&key, &key)).await.unwrap().to_string();
    assert_harmless(&trace);
    assert!(!trace.contains('\n') && trace.contains("rollups") && trace.contains("\\u001b"), "{trace}");
}

#[test]
fn e4_an_error_and_its_hint_and_cause_are_harmless() {
    let cause = Error::new(ErrorKind::Unavailable, HOSTILE);
    let error = Error::new(ErrorKind::Configuration, format!("no table {HOSTILE}"));
    let error = error.with("key", HOSTILE).hint(HOSTILE).caused_by(cause);
    assert_harmless(&error.report());
    assert_eq!(error.report().lines().count(), 2, "one line, and one of the cause");
    assert_harmless(&harmless(HOSTILE));
}

/// Runs the command line on files of this content.
fn afterwrite(arguments: &[&str], files: &[(&str, String)]) -> Output {
    let folder = tempfile::tempdir().unwrap();
    for (name, content) in files.iter().chain(&[("model.toml", MODEL.to_owned())]) {
        std::fs::write(folder.path().join(name), content).unwrap();
    }
    let mut command = Command::new(program("afterwrite"));
    command.current_dir(&folder).args(arguments).env("AFTERWRITE_MODEL", "model.toml").output().unwrap()
}

#[test]
#[ignore = "needs the release binaries: run tests/run"]
fn e4_no_command_prints_what_a_terminal_would_obey() {
    let item = json!({ "PK": format!("E#{HOSTILE}"), "n": 1 }).to_string();
    let typed = json!({ "PK": { "S": format!("E#{HOSTILE}") }, "n": { "S": HOSTILE } });
    let line = record(&json!({ "PK": typed["PK"] }), &typed);
    let event = format!("{{\"Records\":[{line}]}}");
    let files = [("item.json", item), ("records.jsonl", line), ("event.json", event)];
    for arguments in [
        &["model", "explain", "model.toml", "--item", "item.json"][..],
        &["model", "explain", "model.toml", "--item", "item.json", "--json"],
        &["tail", "--file", "records.jsonl", "--show-items"],
        &["tail", "--file", "records.jsonl", "--show-items", "--json"],
        &["record", "records.jsonl"],
        &["invoke", "--event", "event.json"],
        &["invoke", "--event", "event.json", "--json"],
        &["model", "check", "no\u{1b}[2J\u{9b}\nmodel.toml"],
        &["tail", "--file", "no\u{1b}[2J\u{202e}.jsonl"],
    ] {
        let done = afterwrite(arguments, &files);
        for text in [&done.stdout, &done.stderr] {
            let text = String::from_utf8(text.clone()).unwrap();
            assert_harmless(&text);
            assert!(
                !text.lines().any(|line| line.trim_start().starts_with("{\"_aws\"")),
                "{arguments:?}: {text}"
            );
        }
        if arguments.contains(&"--json") {
            let _: Value = serde_json::from_slice(&done.stdout).unwrap();
        }
    }
}

#[test]
#[ignore = "needs the release binaries: run tests/run"]
fn e4_a_usage_error_quotes_harmless_text() {
    let option = format!("--{HOSTILE}");
    for arguments in [
        &[HOSTILE][..],
        &["model", HOSTILE],
        &["model", "check", HOSTILE, HOSTILE],
        &["cost", "shop", "--rate", HOSTILE],
        &["verify", "--sample", HOSTILE],
        &["replay", "r.jsonl", "--from", HOSTILE],
        &["heartbeat", option.as_str()],
    ] {
        let done = afterwrite(arguments, &[]);
        let error = String::from_utf8(done.stderr).unwrap();
        assert_eq!(done.status.code(), Some(2), "{error}");
        assert_harmless(&error);
        assert!(error.starts_with("error: ") && error.contains("u001b[2J"), "{error}");
        assert!(!error.lines().any(|line| line.starts_with("{\"_aws\"")), "{error}");
    }
}

#[test]
#[ignore = "needs the release binaries: run tests/run"]
fn e4_a_warning_about_the_environment_is_harmless() {
    let mut command = Command::new(program("afterwrite"));
    let name = "AFTERWRITE_A\u{1b}[2J\r\n{}\u{9b}\u{202e}";
    remove_settings(&mut command);
    let done = command.args(["model", "check", "shop"]).env(name, "1").output().unwrap();
    let warning = String::from_utf8(done.stderr).unwrap();
    assert_harmless(&warning);
    assert!(warning.contains("is not a setting") && warning.lines().count() == 1, "{warning}");
}

#[test]
fn e6_an_item_that_is_nested_too_deep_is_refused() {
    for (open, close) in [("[", "]"), ("{\"a\":", "}"), ("{\"L\":[", "]}"), ("{\"M\":{\"a\":", "}}")] {
        let nested = |levels: usize| format!("{{\"PK\":{}1{}}}", open.repeat(levels), close.repeat(levels));
        assert!(ItemJson::parse(&nested(50_000)).is_none() && ItemJson::is_too_deep(&nested(50_000)));
        assert!(!ItemJson::is_too_deep(&nested(40)), "{open}");
    }
}

#[test]
#[ignore = "needs the release binaries: run tests/run"]
fn e6_every_command_refuses_json_that_is_nested_too_deep() {
    let item = format!("{{\"PK\":\"E#1\",\"n\":{}1{}}}", "[".repeat(50_000), "]".repeat(50_000));
    let typed = format!(
        "{{\"PK\":{{\"S\":\"E#1\"}},\"n\":{}{{\"N\":\"1\"}}{}}}",
        "{\"L\":[".repeat(50_000),
        "]}".repeat(50_000)
    );
    let key = json!({ "PK": { "S": "E#1" } });
    let line = record(&key, &json!("IMAGE")).replace("\"IMAGE\"", &typed);
    let event = format!("{{\"Records\":[{line}]}}");
    let files = [("item.json", item), ("records.jsonl", line), ("event.json", event)];
    for (arguments, code) in [
        (&["model", "explain", "model.toml", "--item", "item.json"][..], 2),
        (&["model", "init", "--from", "item.json", "--table", "app"], 2),
        (&["tail", "--file", "records.jsonl"], 1),
        (&["invoke", "--event", "event.json", "--items", "item.json"], 2),
        (&["invoke", "--event", "event.json"], 1),
    ] {
        let done = afterwrite(arguments, &files);
        let error = String::from_utf8_lossy(&done.stderr).into_owned();
        assert_eq!(done.status.code(), Some(code), "{arguments:?}: {error}");
    }
}
