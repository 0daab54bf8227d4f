use super::*;

const AGGREGATOR: &str = include_str!("../../../../functions/src/aggregator.rs");
const RELAY: &str = include_str!("../../../../functions/src/relay.rs");
const INVALIDATOR: &str = include_str!("../../../../functions/src/invalidator.rs");
const NOTIFYING: &str = include_str!("../../../../functions/src/notifying.rs");
const EXPORTER: &str = include_str!("../../../../datasets/src/export/function.rs");
const COMPACTOR: &str = include_str!("../../../../datasets/src/compact/function.rs");
const VERIFIER: &str = include_str!("../../../../operations/src/verifier/function.rs");
const ALARMS: &str = include_str!("../../../../../infra/alarms.tf");

fn deployed(parts: &[DeploymentPart], readers: StreamReaders) -> DeployedModule {
    DeployedModule::new(&Model::load("exambuddy").unwrap(), parts.iter().copied(), readers)
}

/// As `infra/examples/new-table` and `infra/examples/existing-table`.
fn examples() -> [DeployedModule; 2] {
    let everything = [DeploymentPart::Archive, DeploymentPart::Cache, DeploymentPart::Distribution];
    [
        deployed(&[DeploymentPart::Archive], StreamReaders::Separate),
        deployed(&everything, StreamReaders::Single),
    ]
}

/// The part of a source from a marker to the next line that closes the marker's bracket.
fn part_of<'s>(source: &'s str, from: &str, until: &str) -> &'s str {
    let (_, rest) = source.split_once(from).unwrap_or_else(|| panic!("no {from}"));
    rest.split_once(until).unwrap_or_else(|| panic!("{from} does not end")).0
}

fn metrics_in(source: &str) -> u64 {
    let calls = [".count(\"", ".milliseconds(\""];
    number(calls.iter().map(|call| source.matches(call).count()).sum())
}

#[test]
fn the_metrics_of_each_function_are_those_in_its_source() {
    let method = |source: &'static str| part_of(source, "pub fn metrics(", "\n    }");
    let relayed = method(RELAY);
    let block = |name: &str| metrics_in(part_of(relayed, &format!("if let Some({name}) ="), "\n        }"));
    let own = |source: &str| metrics_in(part_of(source, "fn metrics(", "\n}"));
    assert_eq!(metrics_in(method(AGGREGATOR)), AGGREGATED_METRICS);
    assert_eq!(block("invalidated"), INVALIDATED_METRICS);
    assert_eq!(block("archived"), ARCHIVED_METRICS);
    assert_eq!(block("notified"), QUEUED_METRICS);
    let blocks = INVALIDATED_METRICS + ARCHIVED_METRICS + QUEUED_METRICS;
    assert_eq!(metrics_in(relayed), RELAYED_METRICS + blocks);
    assert_eq!(metrics_in(part_of(NOTIFYING, "fn add_events(", "\n}")), EVENT_METRICS);
    assert_eq!(metrics_in(method(INVALIDATOR)), INVALIDATOR_METRICS);
    assert_eq!(own(EXPORTER), EXPORTER_METRICS);
    assert_eq!(own(COMPACTOR), COMPACTOR_METRICS);
    assert_eq!(own(VERIFIER), VERIFIER_METRICS);
}

#[test]
fn the_groups_of_alarms_are_those_of_the_module() {
    let groups = ALARMS.split("_alarms = ").collect::<Vec<_>>();
    let mut found: Vec<(String, u64)> = Vec::new();
    for pair in groups.windows(2) {
        let name = pair[0].rsplit(char::is_whitespace).next().unwrap();
        let kinds = pair[1].lines().filter(|line| line.trim_start().starts_with("kind ")).count();
        found.push((format!("{name}_alarms"), number(kinds)));
    }
    found.retain(|(name, _)| name != "declared_alarms");
    found.sort();
    let groups = examples()[0].alarm_groups();
    let mut expected: Vec<(String, u64)> =
        groups.iter().map(|(name, alarms, _)| ((*name).to_owned(), *alarms)).collect();
    expected.sort();
    assert_eq!(found, expected, "infra/alarms.tf has other groups: correct `alarm_groups`");
}

/// `tests/infrastructure` compares both numbers with an applied state and with what its functions emitted.
#[test]
fn the_examples_have_as_many_alarms_and_metrics_as_they_create() {
    let counts = examples().map(|module| (module.alarms(), module.metrics()));
    assert_eq!(counts, [(40, 67), (38, 81)]);
}

#[test]
fn minimal_observability_has_an_alarm_for_each_way_of_losing_data() {
    let [new_table, single] = examples().map(|module| module.observed(Observability::Minimal));
    assert_eq!((new_table.alarms(), new_table.metrics()), (18, 6));
    assert_eq!((single.alarms(), single.metrics()), (15, 6));
    let essentials = COUNTED_ESSENTIALS + EXPORTED_ESSENTIALS + VERIFIED_ESSENTIALS;
    assert_eq!(essentials, number(afterwrite_lambda::ESSENTIAL_METRICS.len()));
}

/// The model of the module's tests whose rollups are sources, with sources that expire.
#[test]
fn h12_sources_that_expire_have_an_alarm_and_a_metric_of_what_is_dropped() {
    let levels = include_str!("../../../../../infra/tests/levels.toml");
    let day = "SK = \"DAY#{placed_at:day}\" }\n";
    let expiring =
        levels.replacen(day, &format!("{day}expires = {{ after = \"400 days\", of = \"placed_at\" }}\n"), 1);
    let [without, with] = [levels, &*expiring].map(|text| {
        let model = Model::parse(text, "levels.toml").unwrap();
        DeployedModule::new(&model, [DeploymentPart::Archive], StreamReaders::Separate)
    });
    assert_eq!((with.alarms(), with.metrics()), (without.alarms() + 1, without.metrics()));
    let [without, with] = [without, with].map(|module| module.observed(Observability::Minimal));
    assert_eq!((with.alarms(), with.metrics()), (without.alarms() + 1, without.metrics() + 1));
    let name = afterwrite_lambda::ESSENTIAL_METRIC_OF_EXPIRING_SOURCES;
    assert!(ALARMS.contains(&format!("metric_name = \"{name}\"")));
}

#[test]
fn a_model_without_rollups_and_datasets_has_a_relay_alone() {
    let module = DeployedModule {
        tables: 1,
        parts: BTreeSet::from([DeploymentPart::Cache]),
        rollup_uses: BTreeSet::new(),
        readers: StreamReaders::Separate,
        observability: Observability::Full,
    };
    assert_eq!(module.functions(), BTreeSet::from([DeployedFunction::Relay]));
    assert_eq!(module.metrics(), RELAYED_METRICS + INVALIDATED_METRICS + 1);
}
