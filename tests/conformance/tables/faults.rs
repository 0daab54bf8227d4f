//! The meaning of DynamoDB's errors: which can be retried, which had no effect, and what the user reads.

use afterwrite_ledger::tables::{IndexQuery, Tables, TransactError, WriteError};
use afterwrite_model::effect::{Write, WriteAction, WriteCondition, WriteRefusal};
use afterwrite_model::record::{Item, Timestamp};
use afterwrite_model::{Error, ErrorKind};

use super::outcome::{RefusalReason, WriteOutcome, always, item, keyed, set, text};
use super::scripted_service::{ScriptedResponse, ScriptedService, configuration, tables};
use super::store::{attribute, pair};

fn actions() -> [Write; 3] {
    [WriteAction::Put(Item::new()), WriteAction::Update(vec![set("x", "y")]), WriteAction::Delete]
        .map(|action| always(pair("secret", "secret"), action))
}

/// A response, and its meaning for a single write, a transaction and a read.
struct FaultCase {
    response: ScriptedResponse,
    write: WriteOutcome,
    transaction: ErrorKind,
    read: ErrorKind,
    /// Words in the error of a read.
    words: &'static [&'static str],
}

fn case(
    status: u16,
    code: &str,
    message: &str,
    write: WriteOutcome,
    kind: ErrorKind,
    words: &'static [&'static str],
) -> FaultCase {
    let response = ScriptedResponse::error(status, code, message);
    FaultCase { response, write, transaction: kind, read: kind, words }
}

fn refused(reason: RefusalReason) -> WriteOutcome {
    WriteOutcome::Refused(vec![Some(reason)])
}

fn throttled(code: &str) -> FaultCase {
    let write = refused(RefusalReason::Throttled);
    case(400, code, "secret", write, ErrorKind::Unavailable, &["throttled", "pair"])
}

fn denied(code: &str) -> FaultCase {
    let (message, kind) = ("User: secret is not authorized", ErrorKind::Configuration);
    let words = &["permission denied", "pair", "dynamodb:BatchGetItem", "AWS_REGION"];
    case(400, code, message, WriteOutcome::Failed(kind), kind, words)
}

fn broken(status: u16, code: &str) -> FaultCase {
    let kind = ErrorKind::Unavailable;
    case(status, code, "secret", WriteOutcome::Failed(kind), kind, &["pair"])
}

fn unusable_key(code: &str) -> FaultCase {
    let kind = ErrorKind::Configuration;
    case(400, code, "secret", WriteOutcome::Failed(kind), kind, &["encryption key", "pair"])
}

/// Codes that do not concern an item, and one that DynamoDB does not have yet.
const UNKNOWN_CODES: [&str; 7] = [
    "RequestExpired",
    "RequestTimeTooSkewed",
    "ResourceInUseException",
    "SerializationException",
    "UnknownOperationException",
    "RequestEntityTooLarge",
    "SomethingNewException",
];

fn cases() -> Vec<FaultCase> {
    use ErrorKind::{Configuration, Rejected, Unavailable};
    let mut cases = vec![
        throttled("ProvisionedThroughputExceededException"),
        throttled("ThrottlingException"),
        throttled("RequestLimitExceeded"),
        denied("AccessDeniedException"),
        denied("UnrecognizedClientException"),
        denied("InvalidSignatureException"),
        broken(500, "InternalServerError"),
        broken(503, "ServiceUnavailable"),
        broken(502, "the error of a load balancer"),
        broken(400, "TransactionInProgressException"),
        case(
            400,
            "TransactionConflictException",
            "secret",
            refused(RefusalReason::Conflict),
            Unavailable,
            &["another request"],
        ),
        case(
            400,
            "ResourceNotFoundException",
            "secret",
            WriteOutcome::Failed(Configuration),
            Configuration,
            &["pair", "AFTERWRITE_STATE_TABLE", "AFTERWRITE_TABLES"],
        ),
        case(
            400,
            "ValidationException",
            "The provided key element does not match the schema",
            WriteOutcome::Failed(Configuration),
            Configuration,
            &["pair", "PK (S), SK (S)"],
        ),
        case(
            400,
            "ValidationException",
            "Value secret at secret",
            refused(RefusalReason::Invalid),
            Rejected,
            &["ValidationException"],
        ),
        case(
            400,
            "ItemCollectionSizeLimitExceededException",
            "secret",
            refused(RefusalReason::Invalid),
            Rejected,
            &["ItemCollection"],
        ),
        denied("SubscriptionRequiredException"),
        denied("OptInRequired"),
        unusable_key("KMSAccessDeniedException"),
        unusable_key("KMSInvalidStateException"),
        unusable_key("InaccessibleEncryptionCredentialsException"),
    ];
    // Nothing is known about the item, so the request is repeated and no record is given up.
    cases.extend(UNKNOWN_CODES.map(|code| broken(400, code)));
    for response in [ScriptedResponse::HangUp, ScriptedResponse::ok("no JSON")] {
        let write = WriteOutcome::Failed(Unavailable);
        cases.push(FaultCase {
            response,
            write,
            transaction: Unavailable,
            read: Unavailable,
            words: &["pair"],
        });
    }
    cases
}

#[tokio::test]
async fn every_error_has_its_meaning() {
    for FaultCase { response, write, transaction, read, words } in cases() {
        let service = ScriptedService::start(vec![response.clone()]).await;
        let tables = service.tables();
        for (sent, action) in actions().iter().enumerate() {
            let result = tables.write(action).await;
            assert!(!format!("{result:?}").replace("S(\"secret\")", "").contains("secret"), "{result:?}");
            assert_eq!(WriteOutcome::from(result), write, "{response:?}");
            assert_eq!(service.requests().len(), sent + 1, "{response:?}: a write is sent once");
        }
        let result = tables.transact(&actions()[..1]).await;
        assert!(!format!("{result:?}").contains("secret"), "{result:?}");
        assert_eq!(WriteOutcome::from(result), WriteOutcome::Failed(transaction), "{response:?}");
        assert_eq!(service.requests().len(), 4, "{response:?}: a transaction is sent once");

        let error = tables.read(&[pair("secret", "secret")]).await.unwrap_err();
        let shown = format!("{error} {error:?}");
        assert_eq!(error.kind(), read, "{shown}");
        assert!(!shown.contains("secret") && words.iter().all(|word| shown.contains(word)), "{shown}");
    }
}

#[tokio::test]
async fn every_cancellation_reason_has_its_meaning() {
    let reasons = [
        (r#"{"Code":"None"}"#, None),
        (
            r#"{"Code":"ConditionalCheckFailed","Message":"secret","Item":{"PK":{"S":"1"},"SK":{"S":"1"},"x":{"S":"y"}}}"#,
            Some(RefusalReason::Condition(Some(keyed(item([("x", text("y"))]), &pair("1", "1"))))),
        ),
        (r#"{"Code":"ConditionalCheckFailed"}"#, Some(RefusalReason::Condition(None))),
        (r#"{"Code":"TransactionConflict"}"#, Some(RefusalReason::Conflict)),
        (r#"{"Code":"ProvisionedThroughputExceeded"}"#, Some(RefusalReason::Throttled)),
        (r#"{"Code":"ThrottlingError"}"#, Some(RefusalReason::Throttled)),
        (r#"{"Code":"ValidationError","Message":"secret"}"#, Some(RefusalReason::Invalid)),
        (r#"{"Code":"ItemCollectionSizeLimitExceeded"}"#, Some(RefusalReason::Invalid)),
    ];
    let texts: Vec<&str> = reasons.iter().map(|(text, _)| *text).collect();
    let service = ScriptedService::start(vec![cancelled(&texts.join(","))]).await;
    let writes: Vec<Write> = (0..reasons.len())
        .map(|number| always(pair("p", &number.to_string()), WriteAction::Delete))
        .collect();
    let result = service.tables().transact(&writes).await;
    assert!(!format!("{result:?}").contains("secret"));
    let expected = reasons.into_iter().map(|(_, reason)| reason).collect();
    assert_eq!(WriteOutcome::from(result), WriteOutcome::Refused(expected));
    assert_eq!(service.requests().len(), 1);

    // Reasons that do not align with the actions are not used.
    let result = service.tables().transact(&writes[..2]).await;
    assert_eq!(WriteOutcome::from(result), WriteOutcome::Failed(ErrorKind::Unavailable));

    let wrong_key =
        r#"{"Code":"ValidationError","Message":"The provided key element does not match the schema"}"#;
    let service = ScriptedService::start(vec![cancelled(wrong_key)]).await;
    let Err(TransactError::Failed(error)) = service.tables().transact(&writes[..1]).await else {
        panic!("not failed")
    };
    assert_eq!(error.kind(), ErrorKind::Configuration);
}

#[tokio::test]
async fn a_cancellation_for_an_unknown_reason_rejects_no_item() {
    for (code, kind) in [
        ("SomethingNew", ErrorKind::Unavailable),
        ("InternalServerError", ErrorKind::Unavailable),
        ("ResourceInUseException", ErrorKind::Unavailable),
        ("AccessDenied", ErrorKind::Configuration),
        ("KMSAccessDeniedException", ErrorKind::Configuration),
    ] {
        let reasons = format!(r#"{{"Code":"None"}},{{"Code":"{code}","Message":"secret"}}"#);
        let service = ScriptedService::start(vec![cancelled(&reasons)]).await;
        let result = service.tables().transact(&actions()[..2]).await;
        assert!(!format!("{result:?}").contains("secret"), "{result:?}");
        assert_eq!(WriteOutcome::from(result), WriteOutcome::Failed(kind), "{code}");
    }
}

fn cancelled(reasons: &str) -> ScriptedResponse {
    let body = format!(
        r#"{{"__type":"com.amazonaws.dynamodb.v20120810#TransactionCanceledException","CancellationReasons":[{reasons}]}}"#
    );
    ScriptedResponse::Http { status: 400, body, date: None }
}

#[tokio::test]
async fn a_failed_condition_returns_the_item() {
    let body = r#"{"__type":"com.amazonaws.dynamodb.v20120810#ConditionalCheckFailedException","message":"The conditional request failed","Item":{"x":{"S":"y"}}}"#;
    let service = ScriptedService::start(vec![ScriptedResponse::Http {
        status: 400,
        body: body.to_owned(),
        date: None,
    }])
    .await;
    for write in actions() {
        let write = Write { condition: WriteCondition::ItemAbsent, ..write };
        match service.tables().write(&write).await {
            Err(WriteError::Refused(WriteRefusal::Condition(Some(found)))) => {
                assert_eq!(found, item([("x", text("y"))]))
            }
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn a_response_without_consumed_capacity_counts_zero_units() {
    let service = ScriptedService::start(vec![ScriptedResponse::ok("{}")]).await;
    for write in actions() {
        assert_eq!(WriteOutcome::from(service.tables().write(&write).await), WriteOutcome::Done(0));
    }
    assert_eq!(WriteOutcome::from(service.tables().transact(&actions()[..1]).await), WriteOutcome::Done(0));
}

const NOTHING: &str = r#"{"Responses":{}}"#;
const UNPROCESSED: &str = r#"{"Responses":{},"UnprocessedKeys":{"pair":{"Keys":[{"PK":{"S":"1"},"SK":{"S":"1"}}],"ConsistentRead":true}}}"#;

/// A response without items processes keys too: those of missing items.
#[tokio::test]
async fn unprocessed_keys_are_requested_again() {
    let found = r#"{"Responses":{"pair":[{"PK":{"S":"1"},"SK":{"S":"1"},"x":{"S":"y"}}]}}"#;
    let service =
        ScriptedService::start(vec![ScriptedResponse::ok(UNPROCESSED), ScriptedResponse::ok(found)]).await;
    let keys = [pair("2", "2"), pair("1", "1"), pair("1", "1")];
    let items = service.tables().read(&keys).await.unwrap().items;
    let stored = Some(keyed(item([("x", text("y"))]), &pair("1", "1")));
    assert_eq!(items, [None, stored.clone(), stored]);
    let requests = service.requests();
    assert_eq!(requests.len(), 2);
    assert!(requests[0].contains(r#"{"S":"2"}"#) && !requests[1].contains(r#"{"S":"2"}"#), "{requests:?}");
    assert!(requests.iter().all(|request| request.contains(r#""ConsistentRead":true"#)), "{requests:?}");
}

#[tokio::test]
async fn a_response_that_processes_no_key_counts_as_throttled() {
    let service = ScriptedService::start(vec![ScriptedResponse::ok(UNPROCESSED)]).await;
    let error = service.tables().read(&[pair("1", "1"), pair("2", "2")]).await.unwrap_err();
    assert!(error.is_retryable(), "{error}");
    assert_eq!(service.requests().len(), 2, "the first response processed a key");
}

#[tokio::test]
async fn a_throttled_key_leaves_the_others_read() {
    let throttle = ScriptedResponse::error(400, "ThrottlingException", "slow down");
    for last in [ScriptedResponse::ok(UNPROCESSED), throttle] {
        let service = ScriptedService::start(vec![ScriptedResponse::ok(UNPROCESSED), last]).await;
        let keys = [pair("1", "1"), pair("2", "2"), pair("1", "1")];
        let items = service.tables().read_some(&keys).await.unwrap().items;
        let read: Vec<_> = items.into_iter().map(Result::ok).collect();
        assert_eq!(read, [None, Some(None), None]);
        assert_eq!(service.requests().len(), 2);
    }
}

#[tokio::test]
async fn a_failed_batch_of_keys_leaves_the_others_read() {
    let throttle = || ScriptedResponse::error(400, "ThrottlingException", "slow down");
    let keys: Vec<_> = (0..250).map(|number| pair("p", &number.to_string())).collect();
    let responses = vec![throttle(), ScriptedResponse::ok(NOTHING), throttle()];
    let service = ScriptedService::start(responses).await;
    let items = service.tables().read_some(&keys).await.unwrap().items;
    let read = items.iter().filter(|item| item.is_ok()).count();
    assert!(read == 50 || read == 100, "the size of one batch: {read}");

    let service = ScriptedService::start(vec![throttle()]).await;
    let items = service.tables().read_some(&keys).await.unwrap().items;
    assert!(items.into_iter().all(|item| Error::from(item.unwrap_err()).is_retryable()));
    let denied = ScriptedResponse::error(400, "AccessDeniedException", "no");
    let service = ScriptedService::start(vec![denied, throttle()]).await;
    let error = service.tables().read_some(&keys).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Configuration, "{error}");
}

#[tokio::test]
async fn only_the_tables_of_a_reader_retry() {
    let throttle = ScriptedResponse::error(400, "ThrottlingException", "slow down");
    let responses = vec![throttle, ScriptedResponse::HangUp, ScriptedResponse::ok(NOTHING)];
    let service = ScriptedService::start(responses.clone()).await;
    assert_eq!(service.retrying_tables().read(&[pair("1", "1")]).await.unwrap().items, [None]);
    assert_eq!(service.requests().len(), 3);

    let service = ScriptedService::start(responses).await;
    assert!(service.tables().read(&[pair("1", "1")]).await.unwrap_err().is_retryable());
    assert_eq!(service.requests().len(), 1);
}

#[tokio::test]
async fn the_server_time_is_the_earliest_of_its_responses() {
    let dates =
        ["Sat, 21 Nov 2026 01:00:02 GMT", "Sat, 21 Nov 2026 01:00:01 GMT", "Sat, 21 Nov 2026 01:00:03 GMT"];
    let service =
        ScriptedService::start(dates.map(|date| ScriptedResponse::ok(NOTHING).at(date)).to_vec()).await;
    let keys: Vec<_> = (0..250).map(|number| pair("p", &number.to_string())).collect();
    let snapshot = service.tables().read(&keys).await.unwrap();
    assert_eq!(service.requests().len(), 3);
    assert_eq!(snapshot.server_time, Timestamp::parse("2026-11-21T01:00:01Z").unwrap());
}

/// The local clock is used instead, at a moment before the response.
#[tokio::test]
async fn a_response_without_a_date() {
    let now = || {
        Timestamp::from_epoch_ms(i64::try_from(std::time::UNIX_EPOCH.elapsed().unwrap().as_millis()).unwrap())
    };
    let service = ScriptedService::start(vec![ScriptedResponse::ok(NOTHING)]).await;
    let before = now();
    let time = service.tables().read(&[pair("1", "1")]).await.unwrap().server_time;
    assert!(before <= time && time <= now());
}

#[tokio::test]
async fn a_client_without_region_or_credentials_is_a_configuration_error() {
    use aws_sdk_dynamodb::config::{Credentials, Region};
    let credentials = Credentials::new("test", "test", None, None, "test");
    let region = Region::from_static("us-east-1");
    let query = IndexQuery {
        table: "pair".into(),
        index: "GSI2".into(),
        key: vec![attribute("GSI2PK", text("secret"))],
        page_items: 1,
        start_after: None,
    };
    for (configuration, word) in [
        (configuration().credentials_provider(credentials), "AWS_REGION"),
        (configuration().region(region), "AWS_ACCESS_KEY_ID"),
    ] {
        let tables = tables(configuration);
        let read = tables.read(&[pair("secret", "1")]).await.unwrap_err();
        let queried = tables.query_index(&query).await.unwrap_err();
        let Err(WriteError::Failed(written)) = tables.write(&actions()[0]).await else { panic!("written") };
        for error in [read, queried, written] {
            assert_eq!(error.kind(), ErrorKind::Configuration, "{error}");
            assert!(error.to_string().contains(word), "{error}");
        }
    }
}

#[tokio::test]
async fn an_unreachable_server_is_retryable() {
    use aws_sdk_dynamodb::config::{Credentials, Region};
    let tables = tables(
        configuration()
            .credentials_provider(Credentials::new("test", "test", None, None, "test"))
            .region(Region::from_static("us-east-1"))
            .endpoint_url("http://127.0.0.1:1"),
    );
    let error = tables.read(&[pair("1", "1")]).await.unwrap_err();
    assert!(error.is_retryable(), "{error}");
    let Err(WriteError::Failed(error)) = tables.write(&actions()[0]).await else { panic!("written") };
    assert!(error.is_retryable(), "{error}");
}
