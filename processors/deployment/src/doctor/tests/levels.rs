//! A model whose rollups are sources: the state table has a stream, and its readers have filters.

use super::*;

const STATE_SOURCE: usize = 1;

fn levels() -> Model {
    Model::parse(include_str!("../../../../../infra/tests/levels.toml"), "levels.toml").unwrap()
}

/// A mapping with the model's own patterns.
fn filtered(function: &str, projections: &[ProjectionKind]) -> MappingFacts {
    let projections = projections.iter().copied().collect();
    let patterns = StreamFilter::new(&levels(), STATE_SOURCE, &projections, MAX_PATTERNS).patterns;
    MappingFacts { filters: Looked::Found(patterns), ..mapping(function) }
}

fn healthy_levels() -> DeploymentFacts {
    let mut facts = healthy();
    state(&mut facts).stream_view = Some("NEW_AND_OLD_IMAGES".to_owned());
    facts.tables.push(facts.state_table.clone());
    facts.mappings.push(Looked::Found(vec![
        filtered("exams-aggregator", &[ProjectionKind::Aggregate]),
        filtered("exams-relay", &[ProjectionKind::Invalidate, ProjectionKind::Archive]),
    ]));
    facts
}

fn state_mappings(facts: &mut DeploymentFacts) -> &mut Vec<MappingFacts> {
    part(facts.mappings.get_mut(STATE_SOURCE))
}

/// The faults that are found, and what breaks the deployment so.
type FaultCase = (&'static [&'static str], fn(&mut DeploymentFacts));

#[test]
fn each_fault_of_the_state_tables_stream_is_found() {
    assert_eq!(faults_of(&levels(), &healthy_levels()), Vec::<String>::new());
    let cases: &[FaultCase] = &[
        (&["stream view type of exams-state"], |facts| state(facts).stream_view = None),
        (&["stream view type of exams-state"], |facts| {
            state(facts).stream_view = Some("NEW_IMAGE".to_owned());
        }),
        (&["readers of exams-state", "projections of exams-state"], |facts| state_mappings(facts).clear()),
        (&["projections of exams-state"], |facts| drop(state_mappings(facts).remove(0))),
        (&["projections of exams-state"], |facts| drop(state_mappings(facts).pop())),
        (&["filters of the state table of exams-aggregator"], |facts| {
            state_mappings(facts)[0].filters = Looked::Found(Vec::new());
        }),
        (&["filters of the state table of exams-relay"], |facts| {
            state_mappings(facts)[1].filters = Looked::Found(vec!["{}".to_owned()]);
        }),
    ];
    for (expected, break_part) in cases {
        let mut facts = healthy_levels();
        break_part(&mut facts);
        assert_eq!(faults_of(&levels(), &facts), *expected);
    }
}

#[test]
fn a_missing_filter_is_advised_against_with_its_reason() {
    let mut facts = healthy_levels();
    state_mappings(&mut facts)[0].filters = Looked::Found(Vec::new());
    let findings = judge(&levels(), &facts);
    let found = findings.iter().find(|finding| finding.verdict == HealthVerdict::Change).unwrap();
    let advice = found.advice.as_deref().unwrap();
    assert!(advice.contains("@state") && advice.contains("invokes it again"), "{advice}");
}
