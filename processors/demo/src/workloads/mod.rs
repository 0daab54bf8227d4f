//! The workloads of the demo, one for each built-in model. Nothing outside this folder knows a model's name, its tables, or
//! anything that it derives.

mod algoitny;
mod ecommerce;
mod exambuddy;
mod github;
mod glad;
mod leaderboard;
mod marketplace;
mod metering;
mod quiz;
mod shop;
mod social;
mod tools;

use afterwrite_model::{Error, ErrorKind, Result};

use crate::workload::Workload;

/// All workloads; the first is the default.
pub static ALL: [&Workload; 11] = [
    &exambuddy::WORKLOAD,
    &algoitny::WORKLOAD,
    &quiz::WORKLOAD,
    &shop::WORKLOAD,
    &glad::WORKLOAD,
    &ecommerce::WORKLOAD,
    &github::WORKLOAD,
    &metering::WORKLOAD,
    &social::WORKLOAD,
    &leaderboard::WORKLOAD,
    &marketplace::WORKLOAD,
];

/// The workload of a model.
///
/// # Errors
/// [`ErrorKind::Configuration`] if there is none.
pub fn of(model: &str) -> Result<&'static Workload> {
    ALL.into_iter().find(|workload| workload.model == model).ok_or_else(|| {
        let known: Vec<&str> = ALL.iter().map(|workload| workload.model).collect();
        Error::new(ErrorKind::Configuration, "the demo has no workload for this model")
            .with("model", model)
            .hint(format!("Choose one of {}", known.join(", ")))
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use afterwrite_local::dynamodb::TableDefinition;
    use afterwrite_model::table::Model;

    use super::*;
    use crate::item::{SdkItem, integer_of};
    use crate::script::{PAST, ScriptStep};

    /// Saturday, 7 February 2026, 12:34:56 UTC.
    const NOW: i64 = 1_770_467_696;

    #[test]
    fn a_seed_repeats_itself_and_another_differs() {
        for workload in ALL {
            let script = |seed| workload.script(seed, 40, NOW);
            assert_eq!(script(1), script(1), "{}", workload.model);
            assert_ne!(script(1), script(2), "{}", workload.model);
        }
    }

    #[test]
    fn a_workload_writes_its_models_tables_in_every_way() {
        for workload in ALL {
            let model = Model::load(workload.model).unwrap();
            let mut known: Vec<&str> = model.application_tables().map(|(_, table)| &*table.name).collect();
            let tables = workload.tables();
            let mut made: Vec<&str> = tables.iter().map(|table| table.name.as_str()).collect();
            known.sort_unstable();
            made.sort_unstable();
            assert_eq!(made, known);
            let script = workload.script(1, 200, NOW);
            let steps: Vec<&ScriptStep> =
                script.rounds.iter().flatten().flat_map(|lane| &lane.steps).collect();
            let has = |is_it: fn(&ScriptStep) -> bool| steps.iter().any(|step| is_it(step));
            assert!(has(|step| matches!(step, ScriptStep::Put { .. })), "{}", workload.model);
            assert!(has(|step| matches!(step, ScriptStep::Set { .. })), "{}", workload.model);
            assert!(has(|step| matches!(step, ScriptStep::Delete { .. })), "{}", workload.model);
            let expires = |step: &ScriptStep| {
                matches!(step, ScriptStep::Set { attributes, .. }
                    if integer_of(attributes, "ttl") == Some(PAST))
            };
            assert!(steps.iter().any(|step| expires(step)), "{}", workload.model);
        }
    }

    #[test]
    fn no_two_lanes_of_a_round_write_one_item() {
        for workload in ALL {
            let tables = workload.tables();
            for round in workload.script(3, 200, NOW).rounds {
                let mut owners = BTreeMap::new();
                for (number, lane) in round.iter().enumerate() {
                    for place in lane.steps.iter().flat_map(|step| places(step, &tables)) {
                        let owner = *owners.entry(place.clone()).or_insert(number);
                        assert_eq!(owner, number, "{}: {place}", workload.model);
                    }
                }
            }
        }
    }

    fn places(step: &ScriptStep, tables: &[TableDefinition]) -> Vec<String> {
        let (table, items) = match step {
            ScriptStep::Put { table, items } => (table, items.iter().collect()),
            ScriptStep::Set { table, key, .. } | ScriptStep::Delete { table, key } => (table, vec![key]),
        };
        let definition = tables.iter().find(|known| known.name == *table).unwrap();
        let key = |item: &SdkItem| {
            let key: Vec<_> = definition.key.attributes().map(|name| &item[name]).collect();
            format!("{table} {key:?}")
        };
        items.into_iter().map(key).collect()
    }

    #[test]
    fn an_unknown_model_is_refused_with_the_known_ones() {
        let error = of("cinema").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Configuration);
        assert!(
            error
                .to_string()
                .contains("quiz, shop, glad, ecommerce, github, metering, social, leaderboard, marketplace"),
            "{error}"
        );
    }
}
