//! Requests that never get a response: an invocation answers before its deadline nevertheless.

use std::sync::Arc;
use std::time::Duration;

use afterwrite_functions::StreamAggregator;
use afterwrite_ledger::Ledger;
use afterwrite_ledger::tables::{Tables as _, TransactError, WriteError};
use afterwrite_model::ErrorKind;
use afterwrite_model::clock::{Clock as _, SystemClock, within};
use afterwrite_model::effect::WriteAction;
use afterwrite_model::table::Model;
use afterwrite_services::dynamodb::MAX_CONCURRENT_REQUESTS;
use afterwrite_tests::deployment::event;
use afterwrite_tests::recording::StreamRecording;
use tokio::time::{sleep, timeout};

use super::outcome::{always, set};
use super::scripted_service::{ScriptedResponse, ScriptedService};
use super::store::pair;

/// The time limit of an invocation, as a function of 3 seconds has.
const INVOCATION: Duration = Duration::from_secs(3);
/// The time after which an answer is too late: the limit, and what a busy machine takes.
const ANSWER_LIMIT: Duration = Duration::from_secs(5);
/// The time after which a request without a response is too late.
const TOO_LATE: Duration = Duration::from_secs(12);

async fn hanging_service() -> ScriptedService {
    ScriptedService::start(vec![ScriptedResponse::Hang]).await
}

#[tokio::test]
async fn an_aggregator_answers_before_requests_do() {
    let service = hanging_service().await;
    let model = Arc::new(Model::load(Model::DEFAULT_NAME).unwrap());
    let names = model.tables.iter().map(|table| Arc::clone(&table.name)).collect();
    let ledger = Ledger::new(model, names, Arc::from("state"), service.tables(), SystemClock);
    let aggregator = StreamAggregator::new(ledger);
    let records = StreamRecording::load("exam-42").records_ending(SystemClock.now().epoch_seconds());
    let event = event(&records[..100]);

    let deadline = SystemClock.now().plus(INVOCATION);
    let handling = aggregator.handle(event.as_bytes(), deadline);
    let handled = timeout(ANSWER_LIMIT, handling).await.expect("an answer before any response").unwrap();
    assert_eq!(handled.response.batch_item_failures.len(), 1, "the batch is redelivered");
}

#[tokio::test]
async fn a_request_without_a_response_fails_after_its_own_time_limit() {
    let service = hanging_service().await;
    let tables = service.tables();
    let write = always(pair("1", "1"), WriteAction::Update(vec![set("x", "y")]));
    let requests = async {
        let transaction = [write.clone()];
        let keys = [pair("1", "1")];
        tokio::join!(tables.read(&keys), tables.write(&write), tables.transact(&transaction))
    };
    let (read, written, transacted) = timeout(TOO_LATE, requests).await.expect("time limits");
    let errors = [
        read.map(drop).unwrap_err(),
        match written {
            Err(WriteError::Failed(error)) => error,
            other => panic!("{other:?}"),
        },
        match transacted {
            Err(TransactError::Failed(error)) => error,
            other => panic!("{other:?}"),
        },
    ];
    for error in errors {
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    }
    assert_eq!(service.requests().len(), 3, "each is sent once");
}

/// 10,000 keys are 100 requests.
#[tokio::test]
async fn requests_beyond_the_limit_wait_and_a_dropped_request_makes_room() {
    let service = hanging_service().await;
    let tables = service.tables();
    let keys: Vec<_> = (0..10_000).map(|number| pair("p", &number.to_string())).collect();
    let read = within(&SystemClock, SystemClock.now().plus(Duration::from_millis(500)), tables.read(&keys));
    assert!(read.await.is_none());
    let sent = service.requests().len();
    assert!((1..=MAX_CONCURRENT_REQUESTS).contains(&sent), "{sent} requests at once");

    let again = tokio::spawn(async move { tables.read(&keys[..100]).await.map(drop) });
    timeout(TOO_LATE, async {
        while service.requests().len() == sent {
            sleep(Duration::from_millis(5)).await;
        }
    })
    .await
    .expect("a request after the others were dropped");
    again.abort();
}
