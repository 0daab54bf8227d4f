//! The stages of a deployed part, of facts that a test makes.

use std::collections::BTreeMap;
use std::time::Duration;

use afterwrite_deployment::doctor::{FreshnessFacts, FunctionFacts, TableFacts};

use super::super::picture::stage_table;
use super::*;

/// The mapping of a function, whose failed records go to the bucket `failures`.
fn mapping(function: &str) -> MappingFacts {
    MappingFacts {
        id: format!("id-of-{function}"),
        function: function.to_owned(),
        state: "Enabled".to_owned(),
        modified: None,
        problem: None,
        starting_position: "TRIM_HORIZON".to_owned(),
        reports_item_failures: true,
        bisects: true,
        retries: Some(10),
        record_age: Some(3600),
        on_failure: Some("arn:aws:s3:::failures".to_owned()),
        filters: Looked::Found(Vec::new()),
    }
}

/// The settings of a function; `variables` are of our own.
fn function(variables: &[(&str, &str)], log_group: Option<&str>) -> Looked<FunctionFacts> {
    let environment =
        variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    Looked::Found(FunctionFacts { environment, timeout: 60, log_group: log_group.map(str::to_owned) })
}

/// A deployment with two readers of one stream, of which `aggregator` has left three failed batches.
fn facts() -> DeploymentFacts {
    let failures = FailureFacts {
        objects: BTreeMap::from([("id-of-exams-aggregator".to_owned(), 3)]),
        has_more: false,
        oldest: Duration::from_secs(60),
    };
    let table = || Looked::Found(TableFacts::default());
    DeploymentFacts {
        tables: vec![("ExamBuddyTable".to_owned(), table())],
        state_table: ("state".to_owned(), table()),
        mappings: vec![Looked::Found(vec![mapping("exams-aggregator"), mapping("exams-relay")])],
        functions: BTreeMap::from([
            ("exams-aggregator".to_owned(), function(&[("AFTERWRITE_METRICS", "essential")], None)),
            ("exams-relay".to_owned(), function(&[("AFTERWRITE_BUCKET", "b")], Some("own/group"))),
        ]),
        bucket: Looked::NotNamed("--bucket"),
        queue: Looked::NotNamed("--bucket"),
        path_queues: BTreeMap::new(),
        event_targets: BTreeMap::new(),
        own_event_settings: BTreeMap::new(),
        dry_calls: Vec::new(),
        freshness: FreshnessFacts::default(),
        drift: DriftFacts::Bucket(Looked::NotNamed("--bucket")),
        failures: BTreeMap::from([("failures".to_owned(), Looked::Found(failures))]),
        parked: Looked::Found(ParkedFacts::default()),
        unchanged_for: None,
    }
}

/// The value of a fact of a stage, and the stage's verdict.
fn fact(facts: &DeploymentFacts, stage: &str, fact: &str) -> (String, String) {
    let model = Model::load("exambuddy").unwrap_or_else(|error| panic!("{error}"));
    let planned = ["4 planned".to_owned(), "$2.50 planned".to_owned()];
    let stages = stage_table(&DeployedFlow::new(&model, facts, planned).lanes()).json();
    let mut rows = stages.as_array().into_iter().flatten();
    let row = rows.find(|row| row["stage"] == stage && row["fact"] == fact);
    let row = row.unwrap_or_else(|| panic!("no {fact} of {stage}: {stages}"));
    (row["value"].as_str().unwrap_or_default().to_owned(), row["verdict"].to_string())
}

#[test]
fn numbers_that_cloudwatch_alone_has_are_unknown_and_named() {
    let facts = facts();
    let value = |stage: &str, name: &str| fact(&facts, stage, name).0;
    assert_eq!(value("exams-relay", "records a second"), "unknown here: metric RecordsRelayed in CloudWatch");
    let in_log = "unknown here: number RecordAge in the log";
    assert_eq!(value("exams-aggregator", "delay of the newest"), in_log, "it emits few metrics");
    let waiting = value("exams-relay", "what to do");
    assert!(waiting.contains("`aws logs tail own/group ") && waiting.contains("a record was not relayed"));
    assert_eq!(value("state", "a million new items"), "$2.50 planned");
}

#[test]
fn what_functions_name_is_unknown_while_one_of_them_is() {
    let mut facts = facts();
    let targets = |facts: &DeploymentFacts| {
        let model = Model::load("exambuddy").unwrap_or_else(|error| panic!("{error}"));
        let stages = DeployedFlow::new(&model, facts, [String::new(), String::new()]).targets();
        let stage = stages.into_iter().next();
        let stage = stage.unwrap_or_else(|| panic!("no stage"));
        (stage.name, stage.verdict.map(|(verdict, _)| verdict))
    };
    assert_eq!(targets(&facts), ("none".to_owned(), None));
    let relay = facts.functions.insert("exams-relay".to_owned(), Looked::NotAllowed("lambda:GetFunction"));
    assert_eq!(targets(&facts), ("targets".to_owned(), Some(Verdict::Unknown)));
    facts.functions.extend(relay.map(|relay| ("exams-relay".to_owned(), relay)));
    facts.mappings = vec![Looked::NotAllowed("lambda:ListEventSourceMappings")];
    assert_eq!(targets(&facts), ("targets".to_owned(), Some(Verdict::Unknown)));
    facts.drift = DriftFacts::Bucket(Looked::Missing);
    assert_eq!(fact(&facts, "verifier", "newest report").0, "none yet");
}

#[test]
fn failed_batches_are_those_of_their_mapping() {
    let mut facts = facts();
    let (failed, verdict) = fact(&facts, "exams-aggregator", "failed batches");
    assert!(failed == "3" && verdict.contains("bad") && verdict.contains("3 failed batches"), "{verdict}");
    let (advice, _) = fact(&facts, "exams-aggregator", "what to do");
    let command =
        "`afterwrite redrive s3://failures/aws/lambda/id-of-exams-aggregator/ --only aggregate --dry-run`";
    assert!(advice.contains(command), "{advice}");
    assert_eq!(fact(&facts, "exams-relay", "failed batches").0, "0");
    facts.failures.insert("failures".to_owned(), Looked::NotAllowed("s3:ListBucket"));
    let unknown = "unknown: the permission s3:ListBucket is missing";
    assert_eq!(fact(&facts, "exams-aggregator", "failed batches").0, unknown);
}
