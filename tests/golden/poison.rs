//! An item that cannot be counted does not prevent other items of its batch from being counted, even if they share
//! rollups.

#![expect(clippy::indexing_slicing, reason = "what is indexed is a JSON object, which takes any name")]

use afterwrite_functions::StreamAggregator;
use afterwrite_ledger::tables::{
    ConsumedUnits, IndexPage, IndexQuery, ReadSnapshot, Tables, TransactError, WriteError,
};
use afterwrite_memory::MemoryTables;
use afterwrite_model::effect::{ItemKey, Write};
use afterwrite_model::record::{AttributeValue, Decimal, Item, Timestamp};
use afterwrite_model::{Error, ErrorKind};
use afterwrite_tests::clock::StillClock;
use afterwrite_tests::deployment::event;
use afterwrite_tests::replay::STATE;
use serde_json::{Value, json};

use super::platform::{aggregator, counted, created, record, tables};

const ADMIN: (&str, &str) = ("ADMIN#a1", "ROLLUP#TOTAL");
const FIRST_PROJECT: (&str, &str) = ("ADMIN#a1", "ROLLUP#PROJECT#p1#TOTAL");
const SECOND_PROJECT: (&str, &str) = ("ADMIN#a1", "ROLLUP#PROJECT#p2#TOTAL");
/// The sequence number of a batch's third record.
const THIRD: &str = "000000000000000000003";

/// Tables that reject a transaction as an invalid request, without cancellation reasons, if it writes the ledger entry
/// of a source item with this sort key.
struct WholeRejection {
    tables: MemoryTables,
    sort: &'static str,
}

impl Tables for WholeRejection {
    async fn read(&self, keys: &[ItemKey]) -> Result<ReadSnapshot, Error> {
        self.tables.read(keys).await
    }

    async fn write(&self, write: &Write) -> Result<ConsumedUnits, WriteError> {
        self.tables.write(write).await
    }

    async fn transact(&self, writes: &[Write]) -> Result<ConsumedUnits, TransactError> {
        let is_poison = |write: &Write| {
            write.key.sort.as_ref().is_some_and(|sort| sort.value.as_text() == Some(self.sort))
        };
        if writes.iter().any(is_poison) {
            let error = Error::new(ErrorKind::Rejected, "DynamoDB refused the request as invalid");
            return Err(TransactError::Failed(error));
        }
        self.tables.transact(writes).await
    }

    async fn query_index(&self, query: &IndexQuery) -> Result<IndexPage, Error> {
        self.tables.query_index(query).await
    }
}

/// A stored rollup with one measure.
fn rollup((partition, sort): (&str, &str), measure: &'static str, value: AttributeValue<'static>) -> Item {
    let texts = [("PK", partition), ("SK", sort), ("EntityType", "ROLLUP")];
    let texts = texts.map(|(name, text)| (name.into(), AttributeValue::text(text)));
    texts.into_iter().chain([(measure.into(), value)]).collect()
}

/// Delivers an event; returns the parked records. No record may fail.
async fn deliver<T: Tables>(
    aggregator: &StreamAggregator<T, StillClock>,
    event: &str,
) -> Vec<(String, ErrorKind)> {
    let handled = aggregator.handle(event.as_bytes(), Timestamp::from_epoch_ms(i64::MAX)).await;
    let handled = handled.expect("an event");
    assert!(handled.failures.is_empty(), "{:?}", handled.failures);
    assert!(handled.response.batch_item_failures.is_empty());
    let parked = handled.parked.iter().map(|parked| {
        let sequence_number = parked.sequence_number.clone().expect("a sequence number");
        (sequence_number, parked.error.kind())
    });
    parked.collect()
}

/// Two projects of one admin; the first has one question, the third record, and the second has two.
fn questions() -> String {
    created([
        ("ADMIN#a1", "PROJECT#p1"),
        ("ADMIN#a1", "PROJECT#p2"),
        ("PROJECT#p1", "QUESTION#q1"),
        ("PROJECT#p2", "QUESTION#q2"),
        ("PROJECT#p2", "QUESTION#q3"),
    ])
}

/// The creation of a project.
fn project(number: u32, project: &str) -> Value {
    record(number, ("ADMIN#a1", &format!("PROJECT#{project}")), None, Some(&json!({})))
}

/// A completed attempt at a project's exam, optionally with its duration.
fn attempt(number: u32, project: &str, seconds: Option<&str>) -> Value {
    let mut image = json!({
        "project_id": { "S": project },
        "started_at": { "S": "2026-02-06T14:30:00Z" },
        "status": { "S": "COMPLETED" },
        "score": { "N": "42" },
        "total_questions": { "N": "50" },
    });
    if let Some(seconds) = seconds {
        image["time_taken_seconds"] = json!({ "N": seconds });
    }
    record(number, ("CANDIDATE#c1", &format!("ATTEMPT#t{number}")), None, Some(&image))
}

/// The cancellation reason identifies the write, and one item adds to that rollup.
#[tokio::test]
async fn a_rollup_with_text_fails_only_the_item_that_adds_to_it() {
    let tables = tables();
    tables.put(STATE, rollup(FIRST_PROJECT, "questions", "many".into())).expect("a rollup");
    let aggregator = aggregator(tables);
    let tables = aggregator.ledger().tables();
    for _ in 0..2 {
        assert_eq!(deliver(&aggregator, &questions()).await, [(THIRD.to_owned(), ErrorKind::Rejected)]);
        let state = tables.scan(STATE);
        assert_eq!(counted(&state, ADMIN, "questions"), Some(2));
        assert_eq!(counted(&state, SECOND_PROJECT, "questions"), Some(2));
        assert_eq!(counted(&state, FIRST_PROJECT, "rev"), None, "the rollup was not written");
    }
    // After the rollup is repaired, the redelivered record is counted.
    tables.put(STATE, rollup(FIRST_PROJECT, "questions", Decimal::ZERO.into())).expect("a rollup");
    assert_eq!(deliver(&aggregator, &questions()).await, []);
    let state = tables.scan(STATE);
    assert_eq!(counted(&state, ADMIN, "questions"), Some(3));
    assert_eq!(counted(&state, SECOND_PROJECT, "questions"), Some(2));
    assert_eq!(counted(&state, FIRST_PROJECT, "questions"), Some(1));
}

/// The cancellation reason identifies the write, but several items add to that rollup: each is retried in its own
/// transaction.
#[tokio::test]
async fn only_the_invalid_item_of_those_that_share_a_rejected_rollup_fails() {
    const FULL: &str = "9E+125";
    let (tables, full) = (tables(), AttributeValue::N(FULL.parse().expect("a number")));
    tables.put(STATE, rollup(FIRST_PROJECT, "time_taken_sum", full)).expect("a rollup");
    let aggregator = aggregator(tables);
    let healthy = |number| attempt(number, "p1", None);
    let event = event(&[project(1, "p1"), healthy(2), attempt(3, "p1", Some(FULL)), healthy(4), healthy(5)]);
    for _ in 0..2 {
        assert_eq!(deliver(&aggregator, &event).await, [(THIRD.to_owned(), ErrorKind::Rejected)]);
        let state = aggregator.ledger().tables().scan(STATE);
        for rollup in [ADMIN, FIRST_PROJECT, ("ADMIN#a1", "ROLLUP#DAY#2026-02-06")] {
            assert_eq!(counted(&state, rollup, "attempts"), Some(3), "{rollup:?}");
            assert_eq!(counted(&state, rollup, "score_sum"), Some(126), "{rollup:?}");
        }
    }
}

/// Without cancellation reasons, each item is retried in its own transaction.
#[tokio::test]
async fn only_the_invalid_item_of_a_rejected_transaction_fails() {
    let aggregator = aggregator(WholeRejection { tables: tables(), sort: "QUESTION#q1" });
    for _ in 0..2 {
        assert_eq!(deliver(&aggregator, &questions()).await, [(THIRD.to_owned(), ErrorKind::Rejected)]);
        let state = aggregator.ledger().tables().tables.scan(STATE);
        assert_eq!(counted(&state, ADMIN, "questions"), Some(2));
        assert_eq!(counted(&state, SECOND_PROJECT, "questions"), Some(2));
        assert_eq!(counted(&state, FIRST_PROJECT, "questions"), None);
    }
}

/// A rollup key that exceeds DynamoDB's limit is detected before a request is sent. The project's total fits, its days
/// do not.
#[tokio::test]
async fn a_rollup_key_that_is_too_long_fails_only_the_item_that_adds_to_it() {
    let long = "p".repeat(1_000);
    let projects = [project(1, &long), project(2, "p2")];
    let attempts = [attempt(3, &long, None), attempt(4, "p2", None), attempt(5, "p2", None)];
    let aggregator = aggregator(tables());
    let event = event(&[&projects[..], &attempts].concat());
    for _ in 0..2 {
        assert_eq!(deliver(&aggregator, &event).await, [(THIRD.to_owned(), ErrorKind::Record)]);
        let state = aggregator.ledger().tables().scan(STATE);
        assert_eq!(counted(&state, ADMIN, "attempts"), Some(2));
        assert_eq!(counted(&state, SECOND_PROJECT, "attempts"), Some(2));
    }
}
