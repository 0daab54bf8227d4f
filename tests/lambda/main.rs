//! The functions as they are deployed: their release binaries, under a Runtime API, before embedded servers.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test that meets the unexpected must fail at once"
)]

mod compactor;
mod exporter;
mod failures;
mod relay;

use std::collections::HashMap;
use std::time::Duration;

use afterwrite_tests::deployment::{FunctionDeployment, SECRET, SOURCE, STATE, event};
use afterwrite_tests::programs::program;
use afterwrite_tests::runtime_api::{Function, FunctionError, InvocationResult, RuntimeApi};
use aws_sdk_dynamodb::types::AttributeValue;
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

/// The message with which the function failed the invocation.
fn error(result: InvocationResult, function: &Function) -> String {
    failure(result, function).message
}

/// The error with which the function failed the invocation.
fn failure(result: InvocationResult, function: &Function) -> FunctionError {
    let InvocationResult::Error(error) = result else {
        panic!("no error but {result:?}; it wrote:\n{}", function.output());
    };
    error
}

/// The metrics that a function has written: a line for each batch.
fn metrics(output: &str) -> Vec<Value> {
    let lines = output.lines().filter(|line| line.contains("CloudWatchMetrics"));
    lines.map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The line gives a metric of this name and unit to CloudWatch, and its value.
fn assert_measured(line: &Value, name: &str, unit: &str) {
    let listed = line["_aws"]["CloudWatchMetrics"][0]["Metrics"].as_array().unwrap();
    assert!(listed.contains(&json!({ "Name": name, "Unit": unit })), "{name} is no metric of {line}");
    assert!(line[name].is_u64(), "{name} has no value in {line}");
}

/// The message of a function that cannot start. The function reports it to the Runtime API, prints it, and ends.
async fn refusal_to_start_of(function: &str, environment: &[(&str, &str)]) -> String {
    failure_to_start(function, environment).await.message
}

/// The error of a function that cannot start.
async fn failure_to_start(name: &str, environment: &[(&str, &str)]) -> FunctionError {
    let api = RuntimeApi::start().await.unwrap();
    let mut function = Function::start(&program(name), &api, environment).unwrap();
    let status = function.exited(TIME).await.unwrap().expect("it ends by itself");
    assert!(!status.success());
    let error = api.start_error().expect("it is reported to the Runtime API");
    let printed = format!("{name}: {}\n", error.message);
    assert!(
        function.output().ends_with(&printed),
        "`{printed}` is not what was printed: {}",
        function.output()
    );
    error
}

#[tokio::test]
#[ignore = "needs the release binaries: run tests/run"]
async fn records_become_rollups_and_mirrors_and_count_once() {
    let deployment = FunctionDeployment::new().await;
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
    let metrics = metrics(&output);
    let [first, second, third] = metrics.as_slice() else { panic!("three batches, a line each: {output}") };
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
    ] {
        assert_measured(first, name, "Count");
    }
    assert_measured(first, "RecordAge", "Milliseconds");
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
    let deployment = FunctionDeployment::new().await;
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
        for place in [0, 1] {
            let what = format!("{what}, record {place}");
            assert_fails_alone(&what, place, Some(place), breaks).await;
        }
    }
}

/// Nothing names such a record: so the one before it comes again, and it with that; without one before it, the whole batch.
#[tokio::test]
#[ignore = "needs the release binaries: run tests/run"]
async fn a_record_without_a_sequence_number_comes_again_with_the_one_before() {
    for (place, named) in [(0, None), (1, Some(0)), (2, Some(1))] {
        let what = format!("record {place} without a sequence number");
        assert_fails_alone(&what, place, named, |record| {
            drop(record["dynamodb"].as_object_mut().unwrap().remove("SequenceNumber"));
        })
        .await;
    }
}

/// Of three attempts, the one at `place` is broken. The others are counted, the metrics tell of one failure, and the answer
/// names the record at `named`, or else the whole batch.
async fn assert_fails_alone(what: &str, place: usize, named: Option<usize>, breaks: fn(&mut Value)) {
    let deployment = FunctionDeployment::new().await;
    let (api, function) = deployment.function(&program("aggregator"), &[]).await;
    deployment.put_project("p1").await;
    for attempt in ["t1", "t2", "t3"] {
        deployment.put_attempt("p1", attempt).await;
    }
    let records = deployment.records().await;
    let (project, mut attempts) = (&records[..1], records[1..].to_vec());
    let identifier = named.map_or(json!(""), |named| attempts[named]["dynamodb"]["SequenceNumber"].clone());
    breaks(&mut attempts[place]);
    // The project's index entry tells whose the attempts are.
    let answer = response(api.invoke(event(&attempts), TIME).await, &function);
    let expected = json!({ "batchItemFailures": [{ "itemIdentifier": identifier }] });
    assert_eq!(answer, expected, "{what}: {}", function.output());
    let answer = response(api.invoke(event(project), TIME).await, &function);
    assert_eq!(answer, json!({ "batchItemFailures": [] }), "{what}: {}", function.output());
    let output = function.stop();
    let failed: Vec<[u64; 2]> = metrics(&output)
        .iter()
        .map(|line| ["Records", "Failed"].map(|name| line[name].as_u64().unwrap()))
        .collect();
    assert_eq!(failed, [[3, 1], [1, 0]], "{what}: {output}");
    let total = deployment.item(STATE, "ADMIN#a1", "ROLLUP#TOTAL").await;
    assert_eq!((&*total["attempts"], &*total["projects_active"]), ("2", "1"), "{what}: {output}");
    assert!(!output.contains(SECRET), "{what}: item contents in the log:\n{output}");
}

/// As where one table is both: our own items come back as changes of the source table, and nothing follows from them.
#[tokio::test]
#[ignore = "needs the release binaries: run tests/run"]
async fn our_own_items_fed_back_are_unmatched_and_change_nothing() {
    let deployment = FunctionDeployment::new().await;
    let (api, function) = deployment.function(&program("aggregator"), &[]).await;
    deployment.put_project("p1").await;
    deployment.put_question("p1", "q1").await;
    deployment.put_attempt("p1", "t1").await;
    let put = deployment.client().put_item().table_name(SOURCE);
    let text = |text: &str| AttributeValue::S(text.to_owned());
    let put = put.item("PK", text("ATTEMPT#t1")).item("SK", text("ANSWER#q1"));
    put.item("question_id", text("q1")).item("is_correct", AttributeValue::Bool(true)).send().await.unwrap();
    let records = deployment.records().await;
    let answer = response(api.invoke(event(&records), TIME).await, &function);
    assert_eq!(answer, json!({ "batchItemFailures": [] }), "{}", function.output());
    // The count that is mirrored onto the project has come back already.
    let seen = deployment.records().await.len();
    let own = deployment.scan(STATE).await;
    for [partition, sort] in [
        ["ADMIN#a1", "ROLLUP#TOTAL"],
        ["PROJECT#p1", "ROLLUP#QUESTION#q1"],
        ["LEDGER#", "ATTEMPT#t1"],
        ["LOOKUP#", "-"],
    ] {
        let is_it = |item: &HashMap<String, AttributeValue>| {
            item["PK"].as_s().unwrap().starts_with(partition) && item["SK"].as_s().unwrap() == sort
        };
        assert!(own.iter().any(is_it), "there is no {partition} {sort} among {own:?}");
    }
    for item in &own {
        let put = deployment.client().put_item().table_name(SOURCE);
        put.set_item(Some(item.clone())).send().await.unwrap();
    }
    for item in &own {
        let delete = deployment.client().delete_item().table_name(SOURCE);
        delete.key("PK", item["PK"].clone()).key("SK", item["SK"].clone()).send().await.unwrap();
    }
    let before = (deployment.scan(STATE).await, deployment.scan(SOURCE).await);
    let fed_back = deployment.records().await.split_off(seen);
    assert_eq!(fed_back.len(), 2 * own.len(), "each was put and deleted");
    let answer = response(api.invoke(event(&fed_back), TIME).await, &function);
    assert_eq!(answer, json!({ "batchItemFailures": [] }), "{}", function.output());
    assert_eq!((deployment.scan(STATE).await, deployment.scan(SOURCE).await), before);
    let metrics = metrics(&function.stop());
    let last = metrics.last().unwrap();
    assert_eq!((&last["Records"], &last["Unmatched"]), (&json!(fed_back.len()), &json!(fed_back.len())));
    for nothing in ["Failed", "Transactions", "LedgerWrites", "WriteUnits"] {
        assert_eq!(last[nothing], 0, "{nothing} in {last}");
    }
}

#[tokio::test]
#[ignore = "needs the release binaries: run tests/run"]
async fn a_state_table_that_cannot_be_used_is_named_with_its_variable() {
    let deployment = FunctionDeployment::new().await;
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
    let deployment = FunctionDeployment::new().await;
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
    let model = ("AFTERWRITE_MODEL", "exambuddy");
    let state = ("AFTERWRITE_STATE_TABLE", "state");
    for (environment, words) in [
        (&[offline, region, state][..], ["AFTERWRITE_MODEL", "exambuddy"]),
        (&[offline, region, model], ["AFTERWRITE_STATE_TABLE", "PK"]),
        (&[offline, model, state], ["AWS_REGION", "region"]),
        (&[offline, region, state, ("AFTERWRITE_MODEL", "no-such-model")], ["no-such-model", "exambuddy"]),
        (
            &[offline, region, model, state, ("AFTERWRITE_TABLES", "Nothing=prod")],
            ["AFTERWRITE_TABLES", "Nothing"],
        ),
        (
            &[offline, region, model, state, ("AFTERWRITE_PROJECTIONS", "teleport")],
            ["AFTERWRITE_PROJECTIONS", "teleport"],
        ),
    ] {
        let said = refusal_to_start_of("aggregator", environment).await;
        for word in words {
            assert!(said.contains(word), "`{word}` is missing in: {said}");
        }
    }
}
