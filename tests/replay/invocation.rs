//! `afterwrite invoke`: the items that one event changes, and everything else that follows from its records.

use std::sync::Arc;

use afterwrite_model::clock::{Clock as _, SystemClock};
use afterwrite_model::table::Model;
use afterwrite_preview::invocation::{InvocationReport, StreamFunctions, invoke_stream_functions};
use afterwrite_preview::tables::{OverlayTables, SourceItems};
use afterwrite_tests::change_record::{stream_of, stream_record};
use serde_json::{Value, json};

fn record(number: u64, key: [&str; 2], mut image: Value) -> Value {
    image["PK"] = json!({ "S": key[0] });
    image["SK"] = json!({ "S": key[1] });
    let number = number.to_string();
    let change = (&*number, SystemClock.now().epoch_seconds());
    stream_record(&stream_of("ExamBuddyTable"), &["PK", "SK"], change, (None, Some(&image)))
}

async fn invoke(records: &[Value], functions: StreamFunctions) -> InvocationReport {
    let model = Arc::new(Model::load(Model::DEFAULT_NAME).unwrap());
    let names: Vec<Arc<str>> = model.tables.iter().map(|table| Arc::clone(&table.name)).collect();
    let state: Arc<str> = Arc::from("state");
    let mut items =
        SourceItems::new(Arc::clone(&model), names.clone(), Arc::clone(&state), SystemClock.now());
    for record in records {
        items.add_images(&record.to_string()).unwrap();
    }
    let event = json!({ "Records": records }).to_string();
    let tables = OverlayTables::new(items);
    invoke_stream_functions(&model, &names, state, tables, functions, event.as_bytes()).await.unwrap()
}

fn project_and_question() -> Vec<Value> {
    let project = json!({
        "GSI1PK": { "S": "PROJECT#p" }, "GSI1SK": { "S": "PROJECT#p" }, "archived": { "BOOL": false },
    });
    vec![
        record(1, ["ADMIN#a", "PROJECT#p"], project),
        record(2, ["PROJECT#p", "QUESTION#q"], json!({ "question_text": { "S": "why?" } })),
    ]
}

#[tokio::test]
async fn the_changed_items_are_shown_before_and_after() {
    let report = invoke(&project_and_question(), StreamFunctions::Both).await;
    assert!(report.is_counted());
    let mut changed: Vec<String> = report
        .items
        .iter()
        .map(|item| {
            let (partition, sort) = item.key_texts();
            let state = if item.before.is_some() { "changed" } else { "new" };
            format!("{state} {} {partition} {}", item.entity_type(), sort.unwrap_or_default())
        })
        .collect();
    changed.sort();
    let expected = [
        "changed  ADMIN#a PROJECT#p",
        "new LEDGER LEDGER#ExamBuddyTable#ADMIN#a PROJECT#p",
        "new LEDGER LEDGER#ExamBuddyTable#PROJECT#p QUESTION#q",
        "new LOOKUP LOOKUP#project_owner#p -",
        "new LOOKUP LOOKUP#question_project#q -",
        "new ROLLUP ADMIN#a ROLLUP#PROJECT#p#TOTAL",
        "new ROLLUP ADMIN#a ROLLUP#TOTAL",
    ];
    assert_eq!(changed, expected);
    let mirrored = report.items.iter().find(|item| item.before.is_some()).unwrap().attributes();
    assert_eq!((&*mirrored[0].attribute, mirrored[0].after.as_deref()), ("question_count", Some("1")));
}

#[tokio::test]
async fn keys_paths_rows_and_lines_follow_from_each_record() {
    let report = invoke(&project_and_question(), StreamFunctions::Both).await;
    let question = &report.records[1];
    assert_eq!(question.entity.as_deref(), Some("question"));
    assert_eq!(question.keys, ["project:p:questions", "question:q"]);
    assert_eq!(question.paths, ["/api/projects/p", "/api/projects/p/*"]);
    let rows: Vec<_> = question.rows.iter().map(|row| (&*row.dataset, &*row.operation)).collect();
    assert_eq!(rows, [("questions", "INSERT")]);
    let rollups: Vec<String> = question.rollups.iter().map(ToString::to_string).collect();
    assert_eq!(
        rollups,
        ["ADMIN#a ROLLUP#PROJECT#p#TOTAL (questions +1)", "ADMIN#a ROLLUP#TOTAL (questions +1)"]
    );
    assert_eq!(report.lines.len(), 2);
    assert!(report.lines[1].contains("why?") && question.change.is_none());
}

#[tokio::test]
async fn a_record_that_cannot_be_counted_is_reported() {
    let attempt = json!({ "project_id": { "N": "5" }, "started_at": { "S": "2026-02-06T10:00:00Z" } });
    let report =
        invoke(&[record(1, ["CANDIDATE#c", "ATTEMPT#t"], attempt)], StreamFunctions::Aggregator).await;
    assert!(!report.is_counted());
    assert_eq!((report.failed.len(), report.parked.len(), report.lines.len()), (0, 1, 0));
    assert!(report.records[0].problem.is_some());
}
