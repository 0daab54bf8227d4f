//! The functions as they are deployed: their release binaries, under a Runtime API, before embedded servers.

#![expect(clippy::unwrap_used, reason = "a test that meets the unexpected must fail at once")]

mod compactor;
mod exporter;
mod relay;

use std::time::Duration;

use afterwrite_tests::deployment::{Deployment, SECRET, SOURCE, STATE, event};
use afterwrite_tests::programs::program;
use afterwrite_tests::runtime_api::{Function, InvocationResult, RuntimeApi};
use serde_json::{Value, json};

/// How long an invocation may take, and how long a process may take to end; far more than either does.
const TIME: Duration = Duration::from_secs(60);

/// What the function answered, as JSON.
fn response(result: InvocationResult, function: &Function) -> Value {
    let InvocationResult::Response(answer) = &result else {
        panic!("no response but {result:?}; it wrote:\n{}", function.output());
    };
    serde_json::from_slice(answer).unwrap()
}

/// The error with which the function failed the invocation.
fn error(result: InvocationResult, function: &Function) -> String {
    let InvocationResult::Error(error) = result else {
        panic!("no error but {result:?}; it wrote:\n{}", function.output());
    };
    error.message
}

/// Everything that a function says when it cannot start: it reports it, or ends and has written it.
async fn refusal_to_start_of(function: &str, environment: &[(&str, &str)]) -> String {
    let api = RuntimeApi::start().await.unwrap();
    let mut function = Function::start(&program(function), &api, environment).unwrap();
    let status = function.exited(TIME).await.unwrap().expect("it ends by itself");
    assert!(!status.success());
    let reported = api.start_error().map(|error| error.message).unwrap_or_default();
    format!("{reported}\n{}", function.output())
}

#[tokio::test]
#[ignore = "needs the release binaries: run tests/run"]
async fn records_become_rollups_and_mirrors_and_count_once() {
    let deployment = Deployment::new().await;
    let (api, function) = deployment.function(&program("aggregator"), &[]).await;
    deployment.put_project("p1").await;
    for question in ["q1", "q2", "q3"] {
        deployment.put_question("p1", question).await;
    }
    let records = deployment.records().await;
    assert_eq!(records.len(), 4);
    for _ in 0..2 {
        let answer = response(api.invoke(event(&records), TIME).await, &function);
        assert_eq!(answer, json!({ "batchItemFailures": [] }), "{}", function.output());
        let total = deployment.item(STATE, "ADMIN#a1", "ROLLUP#TOTAL").await;
        assert_eq!((&*total["projects_active"], &*total["questions"]), ("1", "3"));
        assert_eq!(deployment.item(STATE, "ADMIN#a1", "ROLLUP#PROJECT#p1#TOTAL").await["questions"], "3");
        assert_eq!(deployment.item(SOURCE, "ADMIN#a1", "PROJECT#p1").await["question_count"], "3");
    }
    // What the application's own item shows came back through the stream's table: nobody counts that. Nor what is of no entity.
    deployment.put_stranger().await;
    let all = deployment.records().await;
    let answer = response(api.invoke(event(&all[4..]), TIME).await, &function);
    assert_eq!(answer, json!({ "batchItemFailures": [] }), "{}", function.output());
    let output = function.stop();
    let metrics: Vec<Value> = output
        .lines()
        .filter(|line| line.contains("CloudWatchMetrics"))
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let [first, second, third] = metrics.as_slice() else { panic!("three batches, a line each: {output}") };
    let names = |line: &Value| {
        let listed = line["_aws"]["CloudWatchMetrics"][0]["Metrics"].as_array().unwrap().clone();
        listed.iter().map(|metric| metric["Name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    for name in [
        "Records",
        "Unmatched",
        "Duplicates",
        "Folded",
        "Transactions",
        "Conflicts",
        "Retries",
        "Failed",
        "LedgerWrites",
        "WriteUnits",
        "RecordAge",
    ] {
        assert!(names(first).iter().any(|listed| listed == name), "{name} is no metric of {first}");
        assert!(first[name].is_u64(), "{name} has no value in {first}");
    }
    let counts = |line: &Value, names: [&str; 5]| names.map(|name| line[name].as_u64().unwrap());
    let counted = ["Records", "Unmatched", "Duplicates", "Failed", "LedgerWrites"];
    assert_eq!(counts(first, counted), [4, 0, 0, 0, 4]);
    assert_eq!(counts(second, counted), [4, 0, 4, 0, 0]);
    assert_eq!(third["Unmatched"], 1, "{third}");
    assert!(!output.contains(SECRET), "item contents in the log:\n{output}");
}

#[tokio::test]
#[ignore = "needs the release binaries: run tests/run"]
async fn an_event_that_cannot_be_used_fails_its_invocation_and_no_other() {
    let deployment = Deployment::new().await;
    let (api, function) = deployment.function(&program("aggregator"), &[]).await;
    deployment.put_project("p1").await;
    let mut records = deployment.records().await;
    let good = event(&records);
    let keys_only = {
        let change = &mut records[0]["dynamodb"];
        change.as_object_mut().unwrap().remove("NewImage");
        change["StreamViewType"] = json!("KEYS_ONLY");
        event(&records)
    };
    let keys_only_of_strangers = {
        let mut record = serde_json::from_str::<Value>(&keys_only).unwrap()["Records"][0].clone();
        record["dynamodb"]["Keys"]["SK"] = json!({ "S": "STRANGER" });
        event(&[record])
    };
    let without_old_image = {
        let mut expiry = records[0].clone();
        expiry["eventName"] = json!("REMOVE");
        expiry["userIdentity"] = json!({ "type": "Service", "principalId": "dynamodb.amazonaws.com" });
        expiry["dynamodb"]["StreamViewType"] = json!("NEW_IMAGE");
        event(&[expiry])
    };
    let unknown_table = good.replace(&format!("table/{SOURCE}/"), "table/SomebodyElsesTable/");
    let bad: [(&str, &[&str]); 8] = [
        ("", &[]),
        ("{\"Records\": [", &[]),
        ("{}", &["Records", "DynamoDB stream"]),
        ("{\"Records\": 5}", &["Records", "DynamoDB stream"]),
        (&unknown_table, &["SomebodyElsesTable", "AFTERWRITE_TABLES"]),
        (&keys_only, &["KEYS_ONLY", "NEW_AND_OLD_IMAGES"]),
        (&keys_only_of_strangers, &["KEYS_ONLY", "NEW_AND_OLD_IMAGES"]),
        (&without_old_image, &["NEW_IMAGE", "NEW_AND_OLD_IMAGES"]),
    ];
    for (bad, words) in bad {
        let message = error(api.invoke(bad.to_owned(), TIME).await, &function);
        assert!(!message.is_empty());
        for word in words {
            assert!(message.contains(word), "`{word}` is missing in: {message}");
        }
    }
    // The process that failed them all handles the next.
    let answer = response(api.invoke(good, TIME).await, &function);
    assert_eq!(answer, json!({ "batchItemFailures": [] }));
    assert_eq!(deployment.item(STATE, "ADMIN#a1", "ROLLUP#TOTAL").await["projects_active"], "1");
}

#[tokio::test]
#[ignore = "needs the release binaries: run tests/run"]
async fn a_malformed_record_fails_alone() {
    /// Breaks a good record.
    type Break = fn(&mut Value);
    let breaks: [(&str, Break); 9] = [
        ("an unknown event name", |record| record["eventName"] = json!("UPSERT")),
        ("no keys", |record| drop(record["dynamodb"].as_object_mut().unwrap().remove("Keys"))),
        ("a key of a wrong type", |record| record["dynamodb"]["Keys"]["PK"] = json!({ "BOOL": true })),
        ("a key that is a number", |record| record["dynamodb"]["Keys"]["PK"] = json!({ "N": "1" })),
        ("a time that is no text", |record| {
            record["dynamodb"]["NewImage"]["started_at"] = json!({ "BOOL": true });
        }),
        ("no new image, though the stream has them", |record| {
            drop(record["dynamodb"].as_object_mut().unwrap().remove("NewImage"));
        }),
        ("a number that is none", |record| record["dynamodb"]["NewImage"]["score"] = json!({ "N": "many" })),
        ("a number of 39 digits", |record| {
            record["dynamodb"]["NewImage"]["score"] = json!({ "N": "1".repeat(39) });
        }),
        ("a measure of text", |record| record["dynamodb"]["NewImage"]["score"] = json!({ "S": SECRET })),
    ];
    for (what, breaks) in breaks {
        let deployment = Deployment::new().await;
        let (api, function) = deployment.function(&program("aggregator"), &[]).await;
        deployment.put_project("p1").await;
        for attempt in ["t1", "t2", "t3"] {
            deployment.put_attempt("p1", attempt).await;
        }
        let mut records = deployment.records().await;
        let sequence_number = records[2]["dynamodb"]["SequenceNumber"].clone();
        breaks(&mut records[2]);
        let answer = response(api.invoke(event(&records), TIME).await, &function);
        let output = function.stop();
        let expected = json!({ "batchItemFailures": [{ "itemIdentifier": sequence_number }] });
        assert_eq!(answer, expected, "{what}: {output}");
        let total = deployment.item(STATE, "ADMIN#a1", "ROLLUP#TOTAL").await;
        assert_eq!((&*total["attempts"], &*total["projects_active"]), ("2", "1"), "{what}: {output}");
        assert!(!output.contains(SECRET), "{what}: item contents in the log:\n{output}");
    }
}

#[tokio::test]
#[ignore = "needs the release binaries: run tests/run"]
async fn a_state_table_that_cannot_be_used_is_named_with_its_variable() {
    let deployment = Deployment::new().await;
    deployment.create_table("WrongKeys", ["pk", "sk"]).await;
    deployment.put_project("p1").await;
    let records = event(&deployment.records().await);
    for table in ["NoSuchTable", "WrongKeys"] {
        let (api, function) =
            deployment.function(&program("aggregator"), &[("AFTERWRITE_STATE_TABLE", table)]).await;
        let message = error(api.invoke(records.clone(), TIME).await, &function);
        for word in [table, "AFTERWRITE_STATE_TABLE"] {
            assert!(message.contains(word), "`{word}` is missing in: {message}");
        }
    }
}

#[tokio::test]
#[ignore = "needs the release binaries: run tests/run"]
async fn a_source_table_may_live_under_another_name() {
    let deployment = Deployment::new().await;
    let renamed = format!("{SOURCE}=prod-exams");
    let (api, function) =
        deployment.function(&program("aggregator"), &[("AFTERWRITE_TABLES", &renamed)]).await;
    deployment.put_project("p1").await;
    let records =
        event(&deployment.records().await).replace(&format!("table/{SOURCE}/"), "table/prod-exams/");
    let answer = response(api.invoke(records, TIME).await, &function);
    assert_eq!(answer, json!({ "batchItemFailures": [] }));
    assert_eq!(deployment.item(STATE, "ADMIN#a1", "ROLLUP#TOTAL").await["projects_active"], "1");
}

#[tokio::test]
#[ignore = "needs the release binaries: run tests/run"]
async fn what_is_unset_and_needed_is_named_at_the_start() {
    // Without this the SDK would look for a region at the address of a machine's metadata service.
    let offline = ("AWS_EC2_METADATA_DISABLED", "true");
    let region = ("AWS_REGION", "eu-west-1");
    let state = ("AFTERWRITE_STATE_TABLE", "state");
    for (environment, words) in [
        (&[offline, region][..], ["AFTERWRITE_STATE_TABLE", "PK"]),
        (&[offline, state], ["AWS_REGION", "region"]),
        (&[offline, region, state, ("AFTERWRITE_MODEL", "no-such-model")], ["no-such-model", "exambuddy"]),
        (&[offline, region, state, ("AFTERWRITE_TABLES", "Nothing=prod")], ["AFTERWRITE_TABLES", "Nothing"]),
        (
            &[offline, region, state, ("AFTERWRITE_PROJECTIONS", "teleport")],
            ["AFTERWRITE_PROJECTIONS", "teleport"],
        ),
    ] {
        let said = refusal_to_start_of("aggregator", environment).await;
        for word in words {
            assert!(said.contains(word), "`{word}` is missing in: {said}");
        }
    }
}
