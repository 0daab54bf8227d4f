use http_body_util::BodyExt as _;
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;

use super::*;

/// A proxy and its upstream, which records requests and always returns the same response.
struct ProxySetup {
    _upstream: LoopbackServer,
    reached: Arc<Mutex<Vec<Bytes>>>,
    proxy: FaultProxy,
}

impl ProxySetup {
    async fn new(rates: FaultRates, seed: u64) -> Self {
        let reached = Arc::new(Mutex::new(Vec::new()));
        let keeping = Arc::clone(&reached);
        let upstream = LoopbackServer::serve(move |request: Request<Bytes>| {
            keeping.lock().unwrap().push(request.body().clone());
            async { Ok(json_response(StatusCode::OK, &json!({ "from": "upstream" }))) }
        });
        let upstream = upstream.await.unwrap();
        let proxy = FaultProxy::start(&format!("http://{}", upstream.address()), rates, seed).await.unwrap();
        Self { _upstream: upstream, reached, proxy }
    }

    /// Sends a request; `None` if the connection was closed without a response.
    async fn send(&self, operation: &str, body: Value) -> Option<(StatusCode, Value)> {
        let client = Client::builder(TokioExecutor::new()).build_http::<Full<Bytes>>();
        let request = Request::post(self.proxy.endpoint())
            .header("x-amz-target", format!("DynamoDB_20120810.{operation}"))
            .body(Full::from(body.to_string()))
            .unwrap();
        let (head, body) = client.request(request).await.ok()?.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        Some((head.status, serde_json::from_slice(&body).unwrap()))
    }

    fn reached(&self) -> usize {
        self.reached.lock().unwrap().len()
    }
}

fn transaction(actions: usize) -> Value {
    json!({ "TransactItems": vec![json!({ "Put": {} }); actions] })
}

fn kind(body: &Value) -> &str {
    body["__type"].as_str().unwrap().rsplit('#').next().unwrap()
}

#[tokio::test]
async fn without_faults_requests_and_responses_pass_unchanged() {
    let setting = ProxySetup::new(FaultRates::NONE, 1).await;
    let (status, body) = setting.send("PutItem", json!({ "Item": {} })).await.unwrap();
    assert_eq!((status, body), (StatusCode::OK, json!({ "from": "upstream" })));
    assert_eq!(*setting.reached.lock().unwrap(), [Bytes::from(r#"{"Item":{}}"#)]);
    assert_eq!(setting.proxy.injected(), InjectedFaults::default());
}

#[tokio::test]
async fn a_conflict_has_a_reason_for_each_action_and_no_effect() {
    let setting = ProxySetup::new(FaultRates { conflict: 1000, ..FaultRates::NONE }, 1).await;
    for actions in 1..=20 {
        let (status, body) = setting.send("TransactWriteItems", transaction(actions)).await.unwrap();
        assert_eq!((status, kind(&body)), (StatusCode::BAD_REQUEST, "TransactionCanceledException"));
        let reasons = body["CancellationReasons"].as_array().unwrap();
        assert_eq!(reasons.len(), actions);
        assert!(reasons.iter().any(|reason| reason["Code"] == "TransactionConflict"));
    }
    let (status, body) = setting.send("UpdateItem", json!({})).await.unwrap();
    assert_eq!((status, kind(&body)), (StatusCode::BAD_REQUEST, "TransactionConflictException"));
    assert_eq!(setting.reached(), 0);
    assert_eq!(setting.proxy.injected(), InjectedFaults { conflicts: 21, ..InjectedFaults::default() });
}

#[tokio::test]
async fn reads_get_no_conflicts_and_table_management_gets_no_faults() {
    let all = FaultRates { conflict: 1000, ..FaultRates::NONE };
    let setting = ProxySetup::new(all, 1).await;
    assert_eq!(setting.send("GetItem", json!({})).await.unwrap().0, StatusCode::OK);
    setting.proxy.set_rates(FaultRates { unavailable: 1000, throttle: 1000, lost_answer: 1000, ..all });
    assert_eq!(setting.send("CreateTable", json!({})).await.unwrap().0, StatusCode::OK);
    assert_eq!(setting.send("GetItem", json!({})).await.unwrap().0, StatusCode::INTERNAL_SERVER_ERROR);
}

#[tokio::test]
async fn a_request_with_a_lost_response_took_effect() {
    let setting = ProxySetup::new(FaultRates { lost_answer: 1000, ..FaultRates::NONE }, 1).await;
    assert_eq!(setting.send("TransactWriteItems", transaction(2)).await, None);
    assert_eq!(setting.reached(), 1);
    assert_eq!(setting.proxy.injected(), InjectedFaults { lost_answers: 1, ..InjectedFaults::default() });
}

#[tokio::test]
async fn a_lagging_index_is_empty_and_a_table_never_lags() {
    let setting = ProxySetup::new(FaultRates { index_lag: 1000, ..FaultRates::NONE }, 1).await;
    let (_, body) = setting.send("Query", json!({ "IndexName": "GSI" })).await.unwrap();
    assert_eq!(body["Count"], 0);
    let (_, body) = setting.send("Query", json!({})).await.unwrap();
    assert_eq!(body["from"], "upstream");
}

#[tokio::test]
async fn throttling_takes_every_form_of_dynamodb() {
    let setting = ProxySetup::new(FaultRates { throttle: 1000, ..FaultRates::NONE }, 1).await;
    let (mut kinds, mut codes, mut unprocessed) = (Vec::new(), Vec::new(), 0);
    for _ in 0..40 {
        let (_, body) = setting.send("TransactWriteItems", transaction(1)).await.unwrap();
        kinds.push(kind(&body).to_owned());
        codes.extend(body["CancellationReasons"][0]["Code"].as_str().map(str::to_owned));
        let (status, body) =
            setting.send("BatchGetItem", json!({ "RequestItems": { "t": [] } })).await.unwrap();
        if status == StatusCode::OK {
            assert_eq!(body, json!({ "Responses": {}, "UnprocessedKeys": { "t": [] } }));
            unprocessed += 1;
        }
    }
    for list in [&mut kinds, &mut codes] {
        list.sort();
        list.dedup();
    }
    assert_eq!(
        kinds,
        ["ProvisionedThroughputExceededException", "ThrottlingException", "TransactionCanceledException"]
    );
    assert_eq!(codes, ["ProvisionedThroughputExceeded", "ThrottlingError"]);
    assert!(unprocessed > 0);
    assert_eq!(setting.reached(), 0);
}

#[tokio::test]
async fn the_same_requests_in_the_same_order_get_the_same_faults() {
    let rates =
        FaultRates { conflict: 200, throttle: 200, unavailable: 100, lost_answer: 200, ..FaultRates::NONE };
    let mut runs = Vec::new();
    for seed in [7, 7, 8] {
        let setting = ProxySetup::new(rates, seed).await;
        let mut seen = Vec::new();
        for number in 0..60 {
            seen.push(setting.send("TransactWriteItems", transaction(1 + number % 5)).await);
        }
        runs.push((seen, setting.proxy.injected()));
    }
    assert_eq!(runs[0], runs[1]);
    assert_ne!(runs[0], runs[2]);
}
