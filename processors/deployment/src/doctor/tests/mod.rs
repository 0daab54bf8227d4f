mod events;
mod incidents;
mod indexes;
mod levels;

use std::collections::BTreeMap;
use std::time::Duration;

use afterwrite_services::config::ProjectionKind;

use super::*;
use crate::stream_filters::{MAX_PATTERNS, StreamFilter};

const STATE: &str = "exams-state";
const FAILURES: &str = "exams-failures";
const QUEUE: &str = "arn:aws:sqs:eu-west-1:123456789012:exams-export";
const PATH_QUEUE: &str = "https://sqs.eu-west-1.amazonaws.com/123456789012/exams-cdn";

fn model() -> Model {
    Model::load("exambuddy").unwrap()
}

/// An index with all attributes, whose keys are texts.
fn index(name: &str, keys: &[&str]) -> IndexFacts {
    IndexFacts {
        name: name.to_owned(),
        keys: keys.iter().map(|key| (*key).to_owned()).collect(),
        in_partition: 1,
        types: keys.iter().map(|_| "S".to_owned()).collect(),
        copies: None,
    }
}

/// The built-in model, deployed as the Terraform module does.
fn healthy() -> DeploymentFacts {
    let text = |name: &str| (name.to_owned(), "S".to_owned());
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
            archive: Some(ArchiveFacts {
                newest: Some("archive/dt=2026-02-06/hh=10/".to_owned()),
                foreign: Vec::new(),
            }),
        }),
        queue: Looked::Found(queue_facts(QUEUE, 1800, ("exams-exporter", 300))),
        event_targets: BTreeMap::new(),
        own_event_settings: BTreeMap::new(),
        path_queues: BTreeMap::from([(
            PATH_QUEUE.to_owned(),
            Looked::Found(queue_facts(
                "arn:aws:sqs:eu-west-1:123456789012:exams-cdn",
                90,
                ("exams-invalidator", 60),
            )),
        )]),
        dry_calls: vec![dry_call(true)],
        freshness: FreshnessFacts {
            heartbeats: vec![("exams".to_owned(), LookedAge::Known(Duration::from_secs(40)))],
            datasets: vec![("attempts".to_owned(), LookedAge::Known(Duration::from_secs(4000)))],
        },
        drift: DriftFacts::Bucket(Looked::Found(DriftReport {
            age: Duration::from_secs(40_000),
            counts: DriftCounts {
                sample: 0.01,
                checked_targets: 1_000,
                undecided_targets: 2,
                ..DriftCounts::default()
            },
        })),
        failures: BTreeMap::from([(FAILURES.to_owned(), Looked::Found(FailureFacts::default()))]),
        parked: Looked::Found(ParkedFacts::default()),
        unchanged_for: Some(Duration::from_secs(90 * 24 * 60 * 60)),
    }
}

fn queue_facts(arn: &str, visibility: u64, (function, timeout): (&str, u64)) -> QueueFacts {
    QueueFacts {
        arn: arn.to_owned(),
        visibility,
        dead_letters: Some(Looked::Found(0)),
        waiting: 3,
        consumer: Some(Looked::Found(QueueConsumer {
            function: function.to_owned(),
            timeout,
            state: "Enabled".to_owned(),
            reports_item_failures: true,
        })),
    }
}

fn function(projections: &str, more: &[(&str, &str)]) -> FunctionFacts {
    let projections = ("AFTERWRITE_PROJECTIONS".to_owned(), projections.to_owned());
    let more = more.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    FunctionFacts { environment: more.chain([projections]).collect(), timeout: 60, log_group: None }
}

fn mapping(function: &str) -> MappingFacts {
    MappingFacts {
        id: "1".to_owned(),
        function: function.to_owned(),
        state: "Enabled".to_owned(),
        modified: None,
        problem: None,
        starting_position: "TRIM_HORIZON".to_owned(),
        reports_item_failures: true,
        bisects: true,
        retries: Some(20),
        record_age: Some(21_600),
        on_failure: Some("arn:aws:s3:::failures".to_owned()),
        filters: Looked::Found(Vec::new()),
    }
}

/// The checks that find a fault.
fn faults(facts: &DeploymentFacts) -> Vec<String> {
    faults_of(&model(), facts)
}

fn dry_call(is_allowed: bool) -> DryCall {
    DryCall { permission: "dynamodb:GetItem", subject: STATE.to_owned(), is_allowed }
}

fn faults_of(model: &Model, facts: &DeploymentFacts) -> Vec<String> {
    let findings = judge(model, facts).into_iter();
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

fn path_queue(facts: &mut DeploymentFacts) -> &mut QueueFacts {
    part(facts.path_queues.get_mut(PATH_QUEUE))
}

fn consumer(queue: &mut QueueFacts) -> &mut QueueConsumer {
    part(queue.consumer.as_mut())
}

fn archive(facts: &mut DeploymentFacts) -> &mut ArchiveFacts {
    bucket(facts).archive.as_mut().unwrap()
}

fn report(facts: &mut DeploymentFacts) -> &mut DriftReport {
    let DriftFacts::Bucket(report) = &mut facts.drift else { panic!("the report is in the bucket") };
    part(Some(report))
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
        ("projections of exams", |facts| drop(mappings(facts).pop())),
        ("projections of exams", |facts| drop(mappings(facts).remove(0))),
        ("projections of exams", |facts| {
            facts.functions.insert("exams-relay".to_owned(), Looked::Found(function("invalidate", &[])));
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
            aggregator(facts).filters = Looked::Found(vec![r#"{"eventName":["INSERT"]}"#.to_owned()]);
        }),
        ("function of search", |facts| {
            facts.functions.insert("search".to_owned(), Looked::Missing);
        }),
        ("state table of function of exams-aggregator", |facts| {
            let wrong = function("aggregate", &[("AFTERWRITE_STATE_TABLE", "other")]);
            facts.functions.insert("exams-aggregator".to_owned(), Looked::Found(wrong));
        }),
        ("bucket of bucket", |facts| facts.bucket = Looked::Missing),
        ("archive of exams-bucket", |facts| archive(facts).newest = None),
        ("archive prefix of exams-bucket", |facts| {
            archive(facts).foreign.push("archive/2026/".to_owned());
        }),
        ("archive prefix of exams-bucket", |facts| {
            *archive(facts) = ArchiveFacts { newest: None, foreign: vec!["archive/2026/".to_owned()] };
        }),
        ("notification of exams-bucket", |facts| bucket(facts).notifications = Some(Vec::new())),
        ("notification of exams-bucket", |facts| {
            bucket(facts).notifications = Some(vec![(QUEUE.to_owned(), String::new())]);
        }),
        ("queue of queue of the exporter", |facts| facts.queue = Looked::Missing),
        ("queue consumer of exams-export", |facts| queue(facts).consumer = None),
        ("queue visibility of exams-export", |facts| queue(facts).visibility = 30),
        ("queue consumer of exams-export", |facts| consumer(queue(facts)).state = "Disabled".to_owned()),
        ("queue consumer of exams-export", |facts| consumer(queue(facts)).reports_item_failures = false),
        ("dead-letter queue of exams-export", |facts| queue(facts).dead_letters = None),
        ("dead letters of exams-export", |facts| queue(facts).dead_letters = Some(Looked::Missing)),
        ("dead letters of exams-export", |facts| queue(facts).dead_letters = Some(Looked::Found(2))),
        ("queue of exams-cdn", |facts| {
            facts.path_queues.insert(PATH_QUEUE.to_owned(), Looked::Missing);
        }),
        ("queue consumer of exams-cdn", |facts| path_queue(facts).consumer = None),
        ("queue visibility of exams-cdn", |facts| path_queue(facts).visibility = 60),
        ("dead-letter queue of exams-cdn", |facts| path_queue(facts).dead_letters = None),
        ("heartbeat of exams", |facts| facts.freshness.heartbeats[0].1 = LookedAge::Never),
        ("heartbeat of exams", |facts| {
            facts.freshness.heartbeats[0].1 = LookedAge::Known(Duration::from_secs(900))
        }),
        ("dataset freshness of attempts", |facts| {
            facts.freshness.datasets[0].1 = LookedAge::Known(Duration::from_secs(100_000));
        }),
        ("drift of report", |facts| facts.drift = DriftFacts::File(7)),
        ("drift of verifier", |facts| report(facts).counts.drifted_targets = 3),
        ("verification of verifier", |facts| report(facts).age = Duration::from_secs(9 * 86_400)),
    ];
    for (expected, break_part) in cases {
        let mut facts = healthy();
        break_part(&mut facts);
        assert_eq!(faults(&facts), [*expected]);
    }
}

#[test]
fn a_function_that_is_read_by_its_alias_has_the_projections_of_its_name() {
    let mut facts = healthy();
    for (mapping, function) in
        mappings(&mut facts).iter_mut().zip(["exams-aggregator:live", "exams-relay:live"])
    {
        mapping.function = function.to_owned();
    }
    let own = [("AFTERWRITE_STATE_TABLE".to_owned(), STATE.to_owned())];
    let without_projections = FunctionFacts { environment: own.into(), timeout: 60, log_group: None };
    facts.functions = ["exams-aggregator:live", "exams-relay:live"]
        .map(|name| (name.to_owned(), Looked::Found(without_projections.clone())))
        .into();
    assert_eq!(faults(&facts), Vec::<String>::new());
}

#[test]
fn datasets_need_an_archive_only_with_a_bucket() {
    let mut facts = healthy();
    facts.bucket = Looked::NotNamed("AFTERWRITE_BUCKET");
    facts.functions.insert("exams-relay".to_owned(), Looked::Found(function("archive", &[])));
    assert_eq!(faults(&facts), Vec::<String>::new());
    mappings(&mut facts).pop();
    assert_eq!(faults(&facts), Vec::<String>::new());
}

#[test]
fn the_models_own_filters_are_healthy() {
    let mut facts = healthy();
    let projections = [ProjectionKind::Aggregate].into_iter().collect();
    let patterns = StreamFilter::new(&model(), 0, &projections, MAX_PATTERNS).patterns;
    aggregator(&mut facts).filters = Looked::Found(patterns);
    assert_eq!(faults(&facts), Vec::<String>::new());
}

#[test]
fn a_deployment_that_was_not_verified_yet_is_not_a_fault() {
    let facts = DeploymentFacts { drift: DriftFacts::Bucket(Looked::Missing), ..healthy() };
    let drift = judge(&model(), &facts).into_iter().find(|finding| finding.check == "drift").unwrap();
    assert_eq!(drift.verdict, HealthVerdict::NotChecked);
    assert!(drift.advice.is_some_and(|advice| advice.contains("--report")));
}

#[test]
fn encrypted_filters_that_may_not_be_read_are_not_checked() {
    let mut facts = healthy();
    aggregator(&mut facts).filters = Looked::NotAllowed("kms:Decrypt");
    let findings = judge(&model(), &facts).into_iter();
    let unchecked: Vec<_> = findings.filter(|finding| finding.verdict == HealthVerdict::NotChecked).collect();
    assert_eq!(unchecked.len(), 1, "{unchecked:?}");
    assert_eq!((unchecked[0].check, &*unchecked[0].subject), ("filters", "exams-aggregator"));
    assert!(unchecked[0].advice.as_ref().is_some_and(|why| why.contains("kms:Decrypt")), "{unchecked:?}");
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
        event_targets: BTreeMap::new(),
        own_event_settings: BTreeMap::new(),
        path_queues: BTreeMap::from([(PATH_QUEUE.to_owned(), Looked::NotAllowed("sqs:GetQueueAttributes"))]),
        dry_calls: vec![dry_call(false)],
        freshness: FreshnessFacts {
            heartbeats: vec![("exams".to_owned(), LookedAge::NotRead("access is denied".to_owned()))],
            datasets: vec![("attempts".to_owned(), LookedAge::NotRead("access is denied".to_owned()))],
        },
        drift: DriftFacts::Bucket(Looked::NotAllowed("s3:GetObject")),
        failures: BTreeMap::from([(FAILURES.to_owned(), Looked::NotAllowed("s3:ListBucket"))]),
        parked: Looked::NotAllowed("dynamodb:Query"),
        unchanged_for: None,
    };
    let findings = judge(&model(), &facts);
    let checks: Vec<&str> = findings.iter().map(|finding| finding.check).collect();
    assert!(checks.contains(&"heartbeat") && checks.contains(&"dataset freshness"), "{checks:?}");
    assert!(findings.len() >= 8, "{findings:?}");
    assert!(findings.iter().all(|finding| finding.verdict == HealthVerdict::NotChecked), "{findings:?}");
    assert!(findings.iter().all(|finding| finding.advice.is_some()));
}
