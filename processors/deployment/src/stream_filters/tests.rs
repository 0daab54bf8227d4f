use afterwrite_model::table::Model;
use afterwrite_services::config::ProjectionKind::{Aggregate, Archive, Invalidate, Notify};

use super::*;

fn model(source: &str) -> Model {
    let source = format!("name = \"m\"\ngeneration = 1\n{source}");
    Model::parse(&source, "m.toml").unwrap_or_else(|errors| panic!("{errors}"))
}

fn filter(model: &Model, projections: &[ProjectionKind]) -> StreamFilter {
    StreamFilter::new(model, 0, &projections.iter().copied().collect(), MAX_PATTERNS)
}

/// A table with entities `e0`, `e1`, … with these keys, each counted.
fn counted(keys: &[(String, String)]) -> Model {
    let mut source = "archive = \"matched\"\n[tables.T]\nkey = [\"PK\", \"SK\"]\n[rollups.r]\nkey = { PK = \"ALL\", SK = \"ROLLUP\" }\n".to_owned();
    for (index, (partition, sort)) in keys.iter().enumerate() {
        source += &format!(
            "[entities.e{index}]\nkey = {{ PK = \"{partition}\", SK = \"{sort}\" }}\n[[aggregates]]\nname = \"a{index}\"\nof = \"e{index}\"\ninto = \"r\"\nmeasures.m{index} = \"count\"\n"
        );
    }
    model(&source)
}

#[test]
fn entities_with_the_same_beginning_of_a_key_share_a_pattern() {
    let keys = [("USER#{a}", "META"), ("USER#{a}", "ORDER#{b}"), ("PLAN#{a}", "META"), ("JOB#{a}", "META")];
    let model = counted(&keys.map(|(partition, sort)| (partition.to_owned(), sort.to_owned())));
    let filter = filter(&model, &[Aggregate]);
    assert_eq!(filter.delivers, FilterBreadth::UsedKeys);
    let user = r#"{"dynamodb":{"Keys":{"PK":{"S":[{"prefix":"USER#"},"AFTERWRITE#HEARTBEAT",{"exists":false}]},"SK":{"S":["META",{"prefix":"ORDER#"},"AFTERWRITE#HEARTBEAT",{"exists":false}]}}}}"#;
    let others =
        r#"{"dynamodb":{"Keys":{"PK":{"S":[{"prefix":"JOB#"},{"prefix":"PLAN#"}]},"SK":{"S":["META"]}}}}"#;
    assert_eq!(filter.patterns, [user, others]);
}

#[test]
fn too_many_patterns_are_combined_and_the_filter_reports_it() {
    let keys: Vec<_> = (0..8).map(|index| (format!("K{index}#{{a}}"), format!("S{index}#{{b}}"))).collect();
    let model = counted(&keys);
    let filter = filter(&model, &[Aggregate]);
    assert_eq!((filter.patterns.len(), filter.delivers), (5, FilterBreadth::CombinedKeys));
    let all = filter.patterns.concat();
    assert!((0..8).all(|index| all.contains(&format!("K{index}#")) && all.contains(&format!("S{index}#"))));
    let with_quota = StreamFilter::new(&model, 0, &BTreeSet::from([Aggregate]), 10);
    assert_eq!((with_quota.patterns.len(), with_quota.delivers), (8, FilterBreadth::UsedKeys));
}

#[test]
fn too_long_patterns_test_the_partition_key_only_and_then_shorter_beginnings() {
    let keys = |length: usize| -> Vec<_> {
        let long = "x".repeat(length);
        (0..60).map(|index| (format!("K{index:02}{long}#{{a}}"), format!("S{index}{long}#{{b}}"))).collect()
    };
    let partition_only = filter(&counted(&keys(200)), &[Aggregate]);
    assert_eq!(partition_only.delivers, FilterBreadth::PartitionKeys);
    assert!(!partition_only.patterns.concat().contains("\"prefix\":\"S"));
    let shortened = filter(&counted(&keys(600)), &[Aggregate]);
    assert_eq!(shortened.delivers, FilterBreadth::ShortenedKeys);
    for filter in [partition_only, shortened] {
        assert!(filter.patterns.len() <= MAX_PATTERNS);
        assert!(filter.patterns.iter().all(|pattern| pattern.len() <= MAX_PATTERN_LENGTH));
        let all = filter.patterns.concat();
        assert!((0..60).all(|index| all.contains(&format!("{{\"prefix\":\"K{index:02}"))), "{all}");
    }
}

#[test]
fn a_function_is_invoked_only_by_what_its_projections_use() {
    let mut source = "archive = \"matched\"\n[tables.T]\nkey = [\"PK\"]\n[rollups.r]\nkey = { PK = \"ALL\", SK = \"ROLLUP\" }\n".to_owned();
    for entity in ["counted", "cached", "told", "idle"] {
        source += &format!("[entities.{entity}]\nkey = {{ PK = \"{entity}#{{a}}\" }}\n");
    }
    source += "[[aggregates]]\nname = \"a\"\nof = \"counted\"\ninto = \"r\"\nmeasures.m = \"count\"\n[[caches]]\nof = \"cached\"\nkeys = [\"c:{a}\"]\n";
    source += "[[events]]\nname = \"seen\"\nof = \"told\"\n";
    let named = |source: &str, projections: &[ProjectionKind]| {
        let all = filter(&model(source), projections).patterns.concat();
        ["counted", "cached", "told", "idle"].map(|entity| all.contains(entity))
    };
    assert_eq!(named(&source, &[Aggregate]), [true, false, false, false]);
    assert_eq!(named(&source, &[Invalidate]), [false, true, false, false]);
    assert_eq!(named(&source, &[Notify]), [false, false, true, false]);
    assert_eq!(named(&source, &[Invalidate, Notify]), [false, true, true, false]);
    assert_eq!(named(&source, &[Aggregate, Invalidate]), [true, true, false, false]);
    assert_eq!(named(&source, &[Archive]), [true, true, true, true]);
    let everything = source.replace("archive = \"matched\"\n", "");
    let all = filter(&model(&everything), &[Invalidate, Archive]);
    assert_eq!((all.patterns.len(), all.delivers), (0, FilterBreadth::ArchivesAll));
    let forwarding = format!("{source}[[events]]\nname = \"changes\"\nof = \"*\"\nrecords = true\n");
    let all = filter(&model(&forwarding), &[Invalidate, Notify]);
    assert_eq!((all.patterns.len(), all.delivers), (0, FilterBreadth::ForwardsAll));
    assert_eq!(
        named(&forwarding, &[Invalidate]),
        [false, true, false, false],
        "no other projection needs them"
    );
}

#[test]
fn without_an_entity_that_is_used_only_the_heartbeat_invokes() {
    let model = model("[tables.T]\nkey = [\"PK\", \"SK\"]\ntypes = { SK = \"N\" }\n");
    let filter = filter(&model, &[Aggregate]);
    assert_eq!(
        filter.patterns,
        [r#"{"dynamodb":{"Keys":{"PK":{"S":["AFTERWRITE#HEARTBEAT",{"exists":false}]}}}}"#]
    );
}

#[test]
fn a_key_that_can_begin_with_any_text_needs_every_record() {
    let filter = filter(&Model::load("quiz").unwrap(), &[Aggregate]);
    assert_eq!((filter.patterns.len(), filter.delivers), (0, FilterBreadth::AnyKey));
}
