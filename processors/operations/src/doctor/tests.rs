use std::collections::BTreeMap;
use std::time::Duration;

use super::*;
use crate::stream_filters::{MAX_PATTERNS, StreamFilter};

use afterwrite::config::ProjectionKind;

const STATE: &str = "exams-state";
const QUEUE: &str = "arn:aws:sqs:eu-west-1:123456789012:exams-export";

fn model() -> Model {
    Model::load("exambuddy").unwrap()
}

/// The built-in model, deployed as the Terraform module does.
fn healthy() -> DeploymentFacts {
    let text = |name: &str| (name.to_owned(), "S".to_owned());
    let index = |name: &str, keys: &[&str]| IndexFacts {
        name: name.to_owned(),
        keys: keys.iter().map(|key| (*key).to_owned()).collect(),
        copies: None,
    };
    let source = TableFacts {
        key: vec![text("PK"), text("SK")],
        stream_view: Some("NEW_AND_OLD_IMAGES".to_owned()),
        indexes: vec![index("GSI1", &["GSI1PK", "GSI1SK"])],
        is_recoverable: Some(false),
        ..TableFacts::default()
    };
    let state = TableFacts {
        key: vec![text("PK"), text("SK")],
        indexes: vec![index("parked", &["behind"])],
        ttl: Some(Looked::Found("expires_at".to_owned())),
        is_recoverable: Some(true),
        ..TableFacts::default()
    };
    let aggregator = function("aggregate", &[("AFTERWRITE_STATE_TABLE", STATE)]);
    let relay = function("invalidate,archive", &[]);
    DeploymentFacts {
        tables: vec![("exams".to_owned(), Looked::Found(source))],
        state_table: (STATE.to_owned(), Looked::Found(state)),
        mappings: vec![Looked::Found(vec![mapping("exams-aggregator"), mapping("exams-relay")])],
        functions: BTreeMap::from([
            ("exams-aggregator".to_owned(), Looked::Found(aggregator)),
            ("exams-relay".to_owned(), Looked::Found(relay)),
        ]),
        bucket: Looked::Found(BucketFacts {
            name: "exams-bucket".to_owned(),
            notifications: Some(vec![(QUEUE.to_owned(), "archive/".to_owned())]),
            is_archived_to: Some(true),
        }),
        queue: Looked::Found(QueueFacts {
            arn: QUEUE.to_owned(),
            visibility: 1800,
            has_dead_letters: true,
            dead_letters: Some(0),
            waiting: 3,
            consumer: Some(Looked::Found(("exams-exporter".to_owned(), 300))),
        }),
        dry_calls: vec![DryCall {
            permission: "dynamodb:GetItem",
            subject: STATE.to_owned(),
            is_allowed: true,
        }],
        freshness: FreshnessFacts {
            heartbeats: vec![("exams".to_owned(), LookedAge::Known(Duration::from_secs(40)))],
            datasets: vec![("attempts".to_owned(), LookedAge::Known(Duration::from_secs(4000)))],
        },
        drift: Some(0),
    }
}

fn function(projections: &str, more: &[(&str, &str)]) -> FunctionFacts {
    let projections = ("AFTERWRITE_PROJECTIONS".to_owned(), projections.to_owned());
    let more = more.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    FunctionFacts { environment: more.chain([projections]).collect(), timeout: 60 }
}

fn mapping(function: &str) -> MappingFacts {
    MappingFacts {
        id: "1".to_owned(),
        function: function.to_owned(),
        state: "Enabled".to_owned(),
        problem: None,
        starting_position: "TRIM_HORIZON".to_owned(),
        reports_item_failures: true,
        bisects: true,
        retries: Some(20),
        record_age: Some(21_600),
        on_failure: Some("arn:aws:s3:::failures".to_owned()),
        filters: Vec::new(),
    }
}

/// The checks that find a fault.
fn faults(facts: &DeploymentFacts) -> Vec<String> {
    let findings = judge(&model(), facts).into_iter();
    let faults = findings.filter(|finding| finding.verdict == HealthVerdict::Change);
    let mut faults: Vec<String> =
        faults.map(|finding| format!("{} of {}", finding.check, finding.subject)).collect();
    // Several lookups use one index.
    faults.dedup();
    faults
}

/// The part that was found.
fn part<T>(looked: Option<&mut Looked<T>>) -> &mut T {
    let Some(Looked::Found(part)) = looked else { panic!("the part is there") };
    part
}

fn source(facts: &mut DeploymentFacts) -> &mut TableFacts {
    part(facts.tables.first_mut().map(|(_, table)| table))
}

fn state(facts: &mut DeploymentFacts) -> &mut TableFacts {
    part(Some(&mut facts.state_table.1))
}

fn mappings(facts: &mut DeploymentFacts) -> &mut Vec<MappingFacts> {
    part(facts.mappings.first_mut())
}

fn bucket(facts: &mut DeploymentFacts) -> &mut BucketFacts {
    part(Some(&mut facts.bucket))
}

fn queue(facts: &mut DeploymentFacts) -> &mut QueueFacts {
    part(Some(&mut facts.queue))
}

fn aggregator(facts: &mut DeploymentFacts) -> &mut MappingFacts {
    mappings(facts).first_mut().unwrap()
}

/// One fault, made in a healthy deployment.
type BrokenPart = (&'static str, fn(&mut DeploymentFacts));

#[test]
fn a_deployment_of_the_module_is_healthy() {
    assert_eq!(faults(&healthy()), Vec::<String>::new());
    let unchecked = judge(&model(), &healthy());
    assert!(unchecked.iter().all(|finding| finding.verdict == HealthVerdict::Healthy));
}

#[test]
fn each_check_finds_its_fault_and_no_other() {
    let cases: &[BrokenPart] = &[
        ("source table of exams", |facts| facts.tables[0].1 = Looked::Missing),
        ("key of exams", |facts| source(facts).key[1].1 = "N".to_owned()),
        ("stream view type of exams", |facts| source(facts).stream_view = Some("KEYS_ONLY".to_owned())),
        ("stream view type of exams", |facts| source(facts).stream_view = None),
        ("lookup index of exams/GSI1", |facts| source(facts).indexes.clear()),
        ("lookup index of exams/GSI1", |facts| source(facts).indexes[0].copies = Some(Vec::new())),
        ("lookup index of exams/GSI1", |facts| source(facts).indexes[0].keys[0] = "X".to_owned()),
        ("state table of exams-state", |facts| facts.state_table.1 = Looked::Missing),
        ("key of exams-state", |facts| state(facts).key.truncate(1)),
        ("no stream of exams-state", |facts| state(facts).stream_view = Some("NEW_IMAGE".to_owned())),
        ("time to live of exams-state", |facts| state(facts).ttl = None),
        ("time to live of exams-state", |facts| state(facts).ttl = Some(Looked::Found("ttl".to_owned()))),
        ("recovery of exams-state", |facts| state(facts).is_recoverable = Some(false)),
        ("parked index of exams-state", |facts| state(facts).indexes.clear()),
        ("readers of exams", |facts| {
            let third = MappingFacts { function: "search".to_owned(), ..mapping("search") };
            mappings(facts).push(third);
        }),
        ("readers of exams", |facts| source(facts).replicas = 1),
        ("projections of exams", |facts| {
            facts.functions.insert("exams-relay".to_owned(), Looked::Found(function("aggregate", &[])));
        }),
        ("mapping enabled of exams-aggregator", |facts| aggregator(facts).state = "Disabled".to_owned()),
        ("mapping enabled of exams-aggregator", |facts| {
            aggregator(facts).problem = Some("PROBLEM: Function call failed".to_owned());
        }),
        ("starting position of exams-aggregator", |facts| {
            aggregator(facts).starting_position = "LATEST".to_owned();
        }),
        ("partial responses of exams-aggregator", |facts| aggregator(facts).reports_item_failures = false),
        ("bisect of exams-aggregator", |facts| aggregator(facts).bisects = false),
        ("bounded retries of exams-aggregator", |facts| aggregator(facts).retries = None),
        ("bounded age of exams-aggregator", |facts| aggregator(facts).record_age = None),
        ("bounded age of exams-aggregator", |facts| aggregator(facts).record_age = Some(604_800)),
        ("on-failure destination of exams-aggregator", |facts| aggregator(facts).on_failure = None),
        ("on-failure destination of exams-aggregator", |facts| {
            aggregator(facts).on_failure = Some(QUEUE.to_owned());
        }),
        ("filters of exams-aggregator", |facts| {
            aggregator(facts).filters = vec![r#"{"eventName":["INSERT"]}"#.to_owned()];
        }),
        ("function of search", |facts| {
            facts.functions.insert("search".to_owned(), Looked::Missing);
        }),
        ("state table of function of exams-aggregator", |facts| {
            let wrong = function("aggregate", &[("AFTERWRITE_STATE_TABLE", "other")]);
            facts.functions.insert("exams-aggregator".to_owned(), Looked::Found(wrong));
        }),
        ("bucket of bucket", |facts| facts.bucket = Looked::Missing),
        ("archive of exams-bucket", |facts| bucket(facts).is_archived_to = Some(false)),
        ("notification of exams-bucket", |facts| bucket(facts).notifications = Some(Vec::new())),
        ("notification of exams-bucket", |facts| {
            bucket(facts).notifications = Some(vec![(QUEUE.to_owned(), String::new())]);
        }),
        ("queue of queue of the exporter", |facts| facts.queue = Looked::Missing),
        ("queue consumer of exams-export", |facts| queue(facts).consumer = None),
        ("queue visibility of exams-export", |facts| queue(facts).visibility = 30),
        ("dead-letter queue of exams-export", |facts| queue(facts).has_dead_letters = false),
        ("dead letters of exams-export", |facts| queue(facts).dead_letters = Some(2)),
        ("heartbeat of exams", |facts| facts.freshness.heartbeats[0].1 = LookedAge::Never),
        ("heartbeat of exams", |facts| {
            facts.freshness.heartbeats[0].1 = LookedAge::Known(Duration::from_secs(900))
        }),
        ("dataset freshness of attempts", |facts| {
            facts.freshness.datasets[0].1 = LookedAge::Known(Duration::from_secs(100_000));
        }),
        ("drift of report", |facts| facts.drift = Some(7)),
    ];
    for (expected, break_part) in cases {
        let mut facts = healthy();
        break_part(&mut facts);
        assert_eq!(faults(&facts), [*expected]);
    }
}

#[test]
fn the_models_own_filters_are_healthy() {
    let mut facts = healthy();
    let projections = [ProjectionKind::Aggregate].into_iter().collect();
    aggregator(&mut facts).filters = StreamFilter::new(&model(), 0, &projections, MAX_PATTERNS).patterns;
    assert_eq!(faults(&facts), Vec::<String>::new());
}

#[test]
fn a_part_that_may_not_be_looked_at_is_not_a_fault() {
    let denied = "lambda:ListEventSourceMappings";
    let facts = DeploymentFacts {
        tables: vec![("exams".to_owned(), Looked::NotAllowed("dynamodb:DescribeTable"))],
        state_table: (STATE.to_owned(), Looked::NotAllowed("dynamodb:DescribeTable")),
        mappings: vec![Looked::NotAllowed(denied)],
        functions: BTreeMap::new(),
        bucket: Looked::NotAllowed("s3:ListBucket"),
        queue: Looked::NotNamed("AFTERWRITE_BUCKET"),
        dry_calls: vec![DryCall {
            permission: "dynamodb:GetItem",
            subject: STATE.to_owned(),
            is_allowed: false,
        }],
        freshness: FreshnessFacts {
            heartbeats: vec![("exams".to_owned(), LookedAge::NotRead("access is denied".to_owned()))],
            datasets: vec![("attempts".to_owned(), LookedAge::NotRead("access is denied".to_owned()))],
        },
        drift: None,
    };
    let findings = judge(&model(), &facts);
    let checks: Vec<&str> = findings.iter().map(|finding| finding.check).collect();
    assert!(checks.contains(&"heartbeat") && checks.contains(&"dataset freshness"), "{checks:?}");
    assert!(findings.len() >= 8, "{findings:?}");
    assert!(findings.iter().all(|finding| finding.verdict == HealthVerdict::NotChecked), "{findings:?}");
    assert!(findings.iter().all(|finding| finding.advice.is_some()));
}
