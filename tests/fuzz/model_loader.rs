//! The loader accepts or rejects any text without a panic. Rejected text has problems, each with a place in it and a message of one line.

#![no_main]

use afterwrite_model::table::{Model, ModelProblem};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(source) = std::str::from_utf8(bytes) else { return };
    match Model::parse(source, "model.toml") {
        Ok(model) => assert_indexes(&model),
        Err(errors) => {
            assert!(!errors.problems.is_empty(), "rejected without a problem");
            errors.problems.iter().for_each(|problem| assert_place(source, problem));
            assert_eq!(errors.to_string().lines().count(), errors.problems.len());
        }
    }
});

/// A problem has a place in the file, or directly after its end.
fn assert_place(source: &str, problem: &ModelProblem) {
    let lines: Vec<&str> = source.split('\n').collect();
    let line = problem.span.line.checked_sub(1).and_then(|line| lines.get(line));
    let line = line.unwrap_or_else(|| panic!("no line for {problem:?}"));
    assert!((1..=line.chars().count() + 1).contains(&problem.span.column), "no column for {problem:?}");
    assert!(!problem.message.trim().is_empty());
}

/// Every index in a model's parts is one of its lists.
fn assert_indexes(model: &Model) {
    assert!(model.generation > 0);
    for entity in &model.entities {
        assert!(entity.table < model.tables.len());
        assert!(entity.aggregates.iter().all(|aggregate| *aggregate < model.aggregates.len()));
        assert!(entity.mirrors.iter().all(|mirror| *mirror < model.mirrors.len()));
        assert!(entity.caches.iter().all(|cache| *cache < model.caches.len()));
        assert!(entity.events.iter().all(|rule| *rule < model.events.len()));
        assert!(entity.datasets.iter().all(|dataset| *dataset < model.datasets.len()));
    }
    assert!(model.lookups.iter().all(|lookup| lookup.of < model.entities.len()));
    for aggregate in &model.aggregates {
        assert!(aggregate.of < model.entities.len());
        assert!(!aggregate.into.is_empty());
        assert!(aggregate.into.iter().all(|destination| destination.rollup < model.rollups.len()));
        assert!(aggregate.lookups.iter().all(|key| key.lookup < model.lookups.len()));
    }
    for rollup in &model.rollups {
        assert!(rollup.overlaps.iter().all(|other| *other < model.rollups.len()));
    }
    for mirror in &model.mirrors {
        assert!(mirror.onto < model.entities.len() && mirror.from < model.rollups.len());
        assert!(!mirror.attributes.is_empty());
    }
    for items in model.events.iter().filter_map(|rule| rule.items()) {
        assert!(items.of < model.entities.len());
    }
    for dataset in &model.datasets {
        assert!(dataset.key.iter().chain(&*dataset.sort).all(|column| *column < dataset.columns.len()));
    }
}
