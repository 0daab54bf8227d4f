//! `afterwrite doctor`: parts that cannot be read, what an incident leaves behind, new deployments.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use afterwrite_deployment::doctor::{
    ArchiveFacts, BucketFacts, DeploymentFacts, DriftFacts, FailureFacts, FreshnessFacts, HealthFinding,
    HealthVerdict, Looked, LookedAge, ParkedFacts, TableFacts, judge,
};
use afterwrite_model::table::Model;
use afterwrite_tests::deployment::{FunctionDeployment, STATE};
use serde_json::Value;

use super::{afterwrite, text};

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the release binaries: run tests/run"]
async fn h4_parts_that_an_emulator_lacks_are_not_checked() {
    let deployment = FunctionDeployment::new().await;
    let settings = HashMap::from([
        ("AWS_ENDPOINT_URL", deployment.endpoint()),
        ("AFTERWRITE_STATE_TABLE", STATE.to_owned()),
        ("AFTERWRITE_BUCKET", "exams".to_owned()),
    ]);
    let run = |settings: &HashMap<&str, String>| {
        tokio::task::block_in_place(|| afterwrite(&["doctor", "--json"], settings))
    };
    let output = run(&settings);
    assert_ne!(output.status.code(), Some(3), "{}", text(&output.stderr));
    let findings: Vec<Value> = serde_json::from_slice(&output.stdout).expect("findings");
    let verdict = |check: &str| {
        let finding = findings.iter().find(|finding| finding["check"] == check);
        finding.map(|finding| finding["verdict"].as_str().unwrap_or_default().to_owned())
    };
    assert_eq!(verdict("readers").as_deref(), Some("not_checked"), "{findings:?}");
    assert_eq!(verdict("bucket").as_deref(), Some("not_checked"), "{findings:?}");
    assert_eq!(verdict("key").as_deref(), Some("healthy"), "{findings:?}");
    // Without any table, there is nothing to judge.
    let nothing = HashMap::from([
        ("AWS_ENDPOINT_URL", "http://127.0.0.1:1".to_owned()),
        ("AFTERWRITE_STATE_TABLE", STATE.to_owned()),
    ]);
    assert_eq!(run(&nothing).status.code(), Some(3));
}

/// A deployment with nothing but a state table, and what is given.
fn facts(unchanged_for: u64) -> DeploymentFacts {
    DeploymentFacts {
        tables: Vec::new(),
        state_table: ("state".to_owned(), Looked::Found(TableFacts::default())),
        mappings: Vec::new(),
        functions: BTreeMap::new(),
        bucket: Looked::NotNamed("AFTERWRITE_BUCKET"),
        queue: Looked::NotNamed("AFTERWRITE_BUCKET"),
        path_queues: BTreeMap::new(),
        event_targets: BTreeMap::new(),
        own_event_settings: BTreeMap::new(),
        dry_calls: Vec::new(),
        freshness: FreshnessFacts::default(),
        drift: DriftFacts::Bucket(Looked::Missing),
        failures: BTreeMap::new(),
        parked: Looked::Found(ParkedFacts::default()),
        unchanged_for: Some(Duration::from_secs(unchanged_for)),
    }
}

fn finding(facts: &DeploymentFacts, check: &str) -> HealthFinding {
    let findings = judge(&Model::load("exambuddy").expect("a built-in model"), facts);
    findings
        .into_iter()
        .find(|finding| finding.check == check)
        .unwrap_or_else(|| panic!("no finding {check}"))
}

#[test]
fn h6_failed_records_and_parked_items_are_found_with_the_command_that_mends() {
    let mut facts = facts(1_000_000);
    let objects = BTreeMap::from([("0c1b".to_owned(), 2)]);
    let failures = FailureFacts { objects, has_more: false, oldest: Duration::from_secs(90_000) };
    facts.failures.insert("exams-failures".to_owned(), Looked::Found(failures));
    facts.parked = Looked::Found(ParkedFacts { items: 3, has_more: false });
    for (check, found, command) in [
        (
            "failed records",
            "2 objects",
            "redrive s3://exams-failures/aws/lambda/0c1b/ --only aggregate,invalidate,archive --dry-run",
        ),
        ("parked items", "3 items", "afterwrite redrive --dry-run"),
    ] {
        let finding = finding(&facts, check);
        assert_eq!(finding.verdict, HealthVerdict::Change, "{finding:?}");
        assert!(finding.found.starts_with(found), "{finding:?}");
        assert!(finding.advice.as_deref().is_some_and(|advice| advice.contains(command)), "{finding:?}");
    }
}

#[test]
fn h7_a_deployment_that_is_ten_minutes_old_lacks_nothing_yet() {
    let with_nothing = |unchanged_for| {
        let mut facts = facts(unchanged_for);
        facts.bucket = Looked::Found(BucketFacts {
            name: "exams".to_owned(),
            notifications: None,
            archive: Some(ArchiveFacts::default()),
        });
        facts.freshness = FreshnessFacts {
            heartbeats: vec![("exams".to_owned(), LookedAge::Never)],
            datasets: vec![("attempts".to_owned(), LookedAge::Never)],
        };
        facts
    };
    let checks = ["heartbeat", "archive", "dataset freshness", "drift"];
    for check in checks {
        let finding = finding(&with_nothing(600), check);
        assert_eq!(finding.verdict, HealthVerdict::NotYet, "{finding:?}");
        let advice = finding.advice.unwrap_or_default();
        let has_time = [" min", " h"].iter().any(|unit| advice.contains(unit));
        assert!(advice.contains("expected within") && has_time, "{advice}");
    }
    for check in &checks[..3] {
        assert_eq!(finding(&with_nothing(200_000), check).verdict, HealthVerdict::Change, "{check}");
    }
}
