//! The deployed function `aggregator`.

use std::collections::HashMap;

use afterwrite_tests::deployment::{FunctionDeployment, SECRET, SOURCE, STATE, event};
use afterwrite_tests::programs::program;
use aws_sdk_dynamodb::types::AttributeValue;
use serde_json::{Value, json};

use super::{TIME, assert_all_handled, assert_measured, error, metrics, refusal_to_start_of, response};

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
        assert_all_handled(api.invoke(event(&records), TIME).await, &function);
        let total = deployment.item(STATE, "ADMIN#a1", "ROLLUP#TOTAL").await;
        assert_eq!((&*total["projects_active"], &*total["questions"]), ("1", "3"));
        assert_eq!(deployment.item(STATE, "ADMIN#a1", "ROLLUP#PROJECT#p1#TOTAL").await["questions"], "3");
        assert_eq!(deployment.item(SOURCE, "ADMIN#a1", "PROJECT#p1").await["question_count"], "3");
    }
    // The copy on the application's item has come back through the stream; it is not counted, nor is an item without an entity.
    deployment.put_stranger().await;
    let all = deployment.records().await;
    assert_all_handled(api.invoke(event(&all[4..]), TIME).await, &function);
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
async fn an_unusable_event_fails_only_its_own_invocation() {
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
    let other_region = good.replace("arn:aws:dynamodb:us-east-1:", "arn:aws:dynamodb:eu-central-1:");
    let bad: [(&str, &[&str]); 9] = [
        ("", &[]),
        ("{\"Records\": [", &[]),
        ("{}", &["Records", "DynamoDB stream"]),
        ("{\"Records\": 5}", &["Records", "DynamoDB stream"]),
        (&unknown_table, &["SomebodyElsesTable", "AFTERWRITE_TABLES"]),
        (&keys_only, &["KEYS_ONLY", "NEW_AND_OLD_IMAGES"]),
        (&keys_only_of_strangers, &["KEYS_ONLY", "NEW_AND_OLD_IMAGES"]),
        (&without_old_image, &["NEW_IMAGE", "NEW_AND_OLD_IMAGES"]),
        (&other_region, &["eu-central-1", "us-east-1"]),
    ];
    for (bad, words) in bad {
        let message = error(api.invoke(bad.to_owned(), TIME).await, &function);
        assert!(!message.is_empty());
        for word in words {
            assert!(message.contains(word), "`{word}` is missing in: {message}");
        }
    }
    // The same process handles the next event.
    assert_all_handled(api.invoke(good, TIME).await, &function);
    assert_eq!(deployment.item(STATE, "ADMIN#a1", "ROLLUP#TOTAL").await["projects_active"], "1");
}

#[tokio::test]
#[ignore = "needs the release binaries: run tests/run"]
async fn a_malformed_record_fails_alone() {
    /// Makes a valid record invalid.
    type BreakRecord = fn(&mut Value);
    let breaks: [(&str, BreakRecord); 9] = [
        ("an unknown event name", |record| record["eventName"] = json!("UPSERT")),
        ("no keys", |record| drop(record["dynamodb"].as_object_mut().unwrap().remove("Keys"))),
        ("a key of a wrong type", |record| record["dynamodb"]["Keys"]["PK"] = json!({ "BOOL": true })),
        ("a key that is a number", |record| record["dynamodb"]["Keys"]["PK"] = json!({ "N": "1" })),
        ("a time that is not text", |record| {
            record["dynamodb"]["NewImage"]["started_at"] = json!({ "BOOL": true });
        }),
        ("no new image, although the stream carries them", |record| {
            drop(record["dynamodb"].as_object_mut().unwrap().remove("NewImage"));
        }),
        ("an invalid number", |record| record["dynamodb"]["NewImage"]["score"] = json!({ "N": "many" })),
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

/// By default the record is acknowledged, and its item marked.
#[tokio::test]
#[ignore = "needs the release binaries: run tests/run"]
async fn a_record_that_cannot_be_counted_is_parked() {
    let deployment = FunctionDeployment::new().await;
    let (api, function) = deployment.function(&program("aggregator"), &[]).await;
    deployment.put_project("p1").await;
    deployment.put_attempt("p1", "t1").await;
    let mut records = deployment.records().await;
    let whole = records.clone();
    records[1]["dynamodb"]["NewImage"]["score"] = json!({ "S": SECRET });
    assert_all_handled(api.invoke(event(&records), TIME).await, &function);
    let entry = || deployment.item(STATE, "LEDGER#ExamBuddyTable#CANDIDATE#c1", "ATTEMPT#t1");
    assert!(entry().await["behind"].ends_with(" RecordError"));
    assert_all_handled(api.invoke(event(&whole), TIME).await, &function);
    assert!(!entry().await.contains_key("behind"), "the corrected record heals the item");
    let output = function.stop();
    let parked: Vec<_> = metrics(&output).iter().map(|line| line["Parked"].as_u64()).collect();
    assert_eq!(parked, [Some(1), Some(0)], "{output}");
    assert!(output.contains("its item is marked as parked"), "{output}");
    assert!(!output.contains(SECRET), "item contents in the log:\n{output}");
}

/// Such a record cannot be named in the response, so the record before it is redelivered and it follows; without one, the whole batch is.
#[tokio::test]
#[ignore = "needs the release binaries: run tests/run"]
async fn a_record_without_a_sequence_number_is_redelivered_with_the_one_before() {
    for (place, named) in [(0, None), (1, Some(0)), (2, Some(1))] {
        let what = format!("record {place} without a sequence number");
        assert_fails_alone(&what, place, named, |record| {
            drop(record["dynamodb"].as_object_mut().unwrap().remove("SequenceNumber"));
        })
        .await;
    }
}

/// Of three attempts, the one at `place` is broken. The others are counted, the metrics report one failure, and the response names the record
/// at `named`, or else the whole batch.
async fn assert_fails_alone(what: &str, place: usize, named: Option<usize>, breaks: fn(&mut Value)) {
    let deployment = FunctionDeployment::new().await;
    let policy = [("AFTERWRITE_ON_POISON", "fail")];
    let (api, function) = deployment.function(&program("aggregator"), &policy).await;
    deployment.put_project("p1").await;
    for attempt in ["t1", "t2", "t3"] {
        deployment.put_attempt("p1", attempt).await;
    }
    let records = deployment.records().await;
    let (project, mut attempts) = (&records[..1], records[1..].to_vec());
    let identifier = named.map_or(json!(""), |named| attempts[named]["dynamodb"]["SequenceNumber"].clone());
    breaks(&mut attempts[place]);
    // The project's index entry names the owner of the attempts.
    let returned = response(api.invoke(event(&attempts), TIME).await, &function);
    let expected = json!({ "batchItemFailures": [{ "itemIdentifier": identifier }] });
    assert_eq!(returned, expected, "{what}: {}", function.output());
    assert_all_handled(api.invoke(event(project), TIME).await, &function);
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

/// Where the source table is also the state table, our own items come back as changes. Nothing is derived from them.
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
    assert_all_handled(api.invoke(event(&records), TIME).await, &function);
    // The count that is mirrored onto the project has already come back.
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
        assert!(own.iter().any(is_it), "{partition} {sort} is missing in {own:?}");
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
    assert_all_handled(api.invoke(event(&fed_back), TIME).await, &function);
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
async fn a_source_table_may_have_another_name_where_it_is_deployed() {
    let deployment = FunctionDeployment::new().await;
    let renamed = format!("{SOURCE}=prod-exams");
    let (api, function) =
        deployment.function(&program("aggregator"), &[("AFTERWRITE_TABLES", &renamed)]).await;
    deployment.put_project("p1").await;
    let records =
        event(&deployment.records().await).replace(&format!("table/{SOURCE}/"), "table/prod-exams/");
    assert_all_handled(api.invoke(records, TIME).await, &function);
    assert_eq!(deployment.item(STATE, "ADMIN#a1", "ROLLUP#TOTAL").await["projects_active"], "1");
}

#[tokio::test]
#[ignore = "needs the release binaries: run tests/run"]
async fn a_missing_or_wrong_setting_is_named_at_start_up() {
    // Otherwise the SDK would request the region from a machine's metadata service.
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
        let message = refusal_to_start_of("aggregator", environment).await;
        for word in words {
            assert!(message.contains(word), "`{word}` is missing in: {message}");
        }
    }
}
