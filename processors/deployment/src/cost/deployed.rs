//! The functions, custom metrics and alarms that the Terraform module deploys for a model, with its defaults.

use std::collections::BTreeSet;

use afterwrite_lambda::ESSENTIAL_STAGES;
use afterwrite_ledger::CommitTotals;
use afterwrite_model::table::Model;
use afterwrite_services::config::ProjectionKind;

/// A part of a deployment that not every deployment has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DeploymentPart {
    /// The model has rollups: the ledger, the heartbeat, the verifier.
    Rollups,
    /// The model has datasets, which are made of the archive.
    Datasets,
    /// Delivery stream, bucket.
    Archive,
    /// A Redis whose keys are removed; its address is a secret.
    Cache,
    /// A CloudFront distribution whose paths are invalidated, through a queue.
    Distribution,
}

/// Which functions read the streams.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StreamReaders {
    /// `aggregator` counts, `relay` hosts the caches and the archive.
    #[default]
    Separate,
    /// `aggregator` hosts everything (`single_reader`).
    Single,
}

/// The metrics and alarms of a deployment (`observability`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Observability {
    /// All metrics, all alarms, and a dashboard.
    #[default]
    Full,
    /// The metrics and alarms that report every way of losing data.
    Minimal,
}

/// A function of the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum DeployedFunction {
    Aggregator,
    Relay,
    Invalidator,
    Exporter,
    Compactor,
    Verifier,
}

/// A deployment's shape.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeployedModule {
    /// The source tables.
    pub tables: u64,
    /// The parts that it has.
    pub parts: BTreeSet<DeploymentPart>,
    /// The projections that use rollups as sources: a function that hosts one of them reads the state table's stream.
    pub rollup_uses: BTreeSet<ProjectionKind>,
    /// The readers of the streams.
    pub readers: StreamReaders,
    /// The metrics and alarms.
    pub observability: Observability,
}

/// A group of alarms: its name in `infra/alarms.tf`, the alarms of a member, and its members.
type AlarmGroup = (&'static str, u64, u64);

impl DeployedModule {
    /// A deployment of a model, with these parts in addition to the parts that the model decides.
    #[must_use]
    pub fn new(
        model: &Model,
        parts: impl IntoIterator<Item = DeploymentPart>,
        readers: StreamReaders,
    ) -> Self {
        let of_model = [
            (!model.rollups.is_empty()).then_some(DeploymentPart::Rollups),
            (!model.datasets.is_empty()).then_some(DeploymentPart::Datasets),
        ];
        Self {
            tables: number(model.application_tables().count()),
            rollup_uses: ProjectionKind::ALL.into_iter().filter(|kind| kind.reads_rollups(model)).collect(),
            parts: parts.into_iter().chain(of_model.into_iter().flatten()).collect(),
            readers,
            observability: Observability::Full,
        }
    }

    /// The same deployment with other metrics and alarms.
    #[must_use]
    pub fn observed(self, observability: Observability) -> Self {
        Self { observability, ..self }
    }

    pub(super) fn has(&self, part: DeploymentPart) -> bool {
        self.parts.contains(&part)
    }

    /// Whether keys or paths become stale anywhere.
    fn has_caches(&self) -> bool {
        self.has(DeploymentPart::Cache) || self.has(DeploymentPart::Distribution)
    }

    pub(super) fn has_datasets(&self) -> bool {
        self.has(DeploymentPart::Archive) && self.has(DeploymentPart::Datasets)
    }

    /// Whether a function hosts the caches or the archive.
    pub(super) fn has_relaying(&self) -> bool {
        self.has(DeploymentPart::Archive) || self.has_caches()
    }

    /// As `local.enabled` in `infra/main.tf`.
    pub(super) fn functions(&self) -> BTreeSet<DeployedFunction> {
        let is_single = self.readers == StreamReaders::Single;
        let has_rollups = self.has(DeploymentPart::Rollups);
        let enabled = [
            (DeployedFunction::Aggregator, has_rollups || is_single && self.has_relaying()),
            (DeployedFunction::Relay, !is_single && self.has_relaying()),
            (DeployedFunction::Invalidator, self.has(DeploymentPart::Distribution)),
            (DeployedFunction::Exporter, self.has_datasets()),
            (DeployedFunction::Compactor, self.has_datasets()),
            (DeployedFunction::Verifier, has_rollups),
        ];
        enabled.into_iter().filter(|(_, is_enabled)| *is_enabled).map(|(function, _)| function).collect()
    }

    /// The functions that read the streams.
    pub(super) fn stream_readers(&self) -> u64 {
        let reads = |function: &&DeployedFunction| {
            matches!(function, DeployedFunction::Aggregator | DeployedFunction::Relay)
        };
        number(self.functions().iter().filter(reads).count())
    }

    /// Whether a function reads the state table's stream.
    pub(super) fn reads_rollups(&self, function: DeployedFunction) -> bool {
        self.rollup_uses.iter().any(|kind| {
            let (is_deployed, host) = match kind {
                ProjectionKind::Aggregate => {
                    (self.has(DeploymentPart::Rollups), DeployedFunction::Aggregator)
                }
                ProjectionKind::Invalidate => (self.has_caches(), self.relaying()),
                ProjectionKind::Archive => (self.has(DeploymentPart::Archive), self.relaying()),
            };
            is_deployed && host == function
        })
    }

    /// The function that hosts the caches and the archive.
    fn relaying(&self) -> DeployedFunction {
        match self.readers {
            StreamReaders::Separate => DeployedFunction::Relay,
            StreamReaders::Single => DeployedFunction::Aggregator,
        }
    }

    /// The functions that read the state table's stream.
    pub(super) fn state_readers(&self) -> u64 {
        number(self.functions().into_iter().filter(|function| self.reads_rollups(*function)).count())
    }

    /// The tables whose streams are read, each with a heartbeat.
    pub(super) fn streams(&self) -> u64 {
        self.tables + u64::from(!self.rollup_uses.is_empty())
    }

    /// The custom metrics of the functions: each name with its dimensions once.
    #[must_use]
    pub fn metrics(&self) -> u64 {
        match self.observability {
            Observability::Full => self.all_metrics(),
            Observability::Minimal => self.essential_metrics(),
        }
    }

    /// As `ESSENTIAL_METRICS` and `ESSENTIAL_STAGES` of the functions.
    fn essential_metrics(&self) -> u64 {
        let has_rollups = self.has(DeploymentPart::Rollups);
        let own = if has_rollups { COUNTED_ESSENTIALS + VERIFIED_ESSENTIALS } else { 0 };
        let exported = if self.has_datasets() { EXPORTED_ESSENTIALS } else { 0 };
        own + exported + self.freshness_stages().min(number(ESSENTIAL_STAGES.len()))
    }

    fn all_metrics(&self) -> u64 {
        let functions = self.functions();
        let has = |function| functions.contains(&function);
        let counting = if self.has(DeploymentPart::Rollups) {
            AGGREGATED_METRICS + number(CommitTotals::default().named().len())
        } else {
            0
        };
        let mut relaying = 0;
        if self.has_relaying() {
            relaying += RELAYED_METRICS;
        }
        if self.has_caches() {
            relaying += INVALIDATED_METRICS;
        }
        if self.has(DeploymentPart::Archive) {
            relaying += ARCHIVED_METRICS;
        }
        let others = [
            (DeployedFunction::Invalidator, INVALIDATOR_METRICS),
            (DeployedFunction::Exporter, EXPORTER_METRICS),
            (DeployedFunction::Compactor, COMPACTOR_METRICS),
            (DeployedFunction::Verifier, VERIFIER_METRICS),
        ];
        let others: u64 = others.into_iter().filter(|(function, _)| has(*function)).map(|(_, own)| own).sum();
        // Each function adds its `Duration`.
        counting + relaying + others + number(functions.len()) + self.freshness_stages()
    }

    /// The stages that report the age of the newest heartbeat.
    fn freshness_stages(&self) -> u64 {
        let stages = [true, self.has(DeploymentPart::Archive), self.has_datasets(), self.has_datasets()];
        if self.has(DeploymentPart::Rollups) {
            number(stages.into_iter().filter(|reports| *reports).count())
        } else {
            0
        }
    }

    /// The alarms of the module.
    #[must_use]
    pub fn alarms(&self) -> u64 {
        match self.observability {
            Observability::Full => {
                self.alarm_groups().into_iter().map(|(_, alarms, members)| alarms * members).sum()
            }
            Observability::Minimal => self.essential_alarms(),
        }
    }

    /// As `local.essential_kinds` and `local.essential_names` in `infra/alarms.tf`.
    fn essential_alarms(&self) -> u64 {
        let of_kind = |name: &str| {
            let groups = self.alarm_groups().into_iter().filter(|(group, _, _)| *group == name);
            groups.map(|(_, alarms, members)| alarms * members).sum::<u64>()
        };
        let whole =
            ["reader_alarms", "mapping_alarms", "verifying_alarms", "archiving_alarms", "dead_letter_alarms"];
        let whole: u64 = whole.into_iter().map(of_kind).sum();
        // The verifier's share of `errors`.
        let errors = u64::from(self.functions().contains(&DeployedFunction::Verifier));
        whole + errors + self.essential_metrics().saturating_sub(of_kind("verifying_alarms"))
    }

    /// As `local.declared_alarms` in `infra/alarms.tf`.
    fn alarm_groups(&self) -> [AlarmGroup; 13] {
        let functions = self.functions();
        let one_if = |is: bool| u64::from(is);
        let enabled = |function| one_if(functions.contains(&function));
        let all_but = |function| number(functions.len()) - enabled(function);
        let has_schedules = self.has_datasets() || self.has(DeploymentPart::Rollups);
        let queues = enabled(DeployedFunction::Invalidator)
            + enabled(DeployedFunction::Exporter)
            + one_if(has_schedules);
        [
            ("reader_alarms", 2, self.stream_readers()),
            ("mapping_alarms", 2, self.stream_readers() * self.tables + self.state_readers()),
            ("function_alarms", 1, number(functions.len())),
            ("duration_alarms", 1, all_but(DeployedFunction::Verifier)),
            ("throttle_alarms", 1, all_but(DeployedFunction::Invalidator)),
            ("counting_alarms", 7, one_if(self.has(DeploymentPart::Rollups))),
            ("relaying_alarms", 1, one_if(self.has_relaying())),
            ("invalidating_alarms", 2, enabled(DeployedFunction::Invalidator)),
            ("exporting_alarms", 2, enabled(DeployedFunction::Exporter)),
            ("verifying_alarms", 1, enabled(DeployedFunction::Verifier)),
            ("archiving_alarms", 1, one_if(self.has(DeploymentPart::Archive))),
            ("freshness_alarms", 1, self.freshness_stages()),
            ("dead_letter_alarms", 1, queues),
        ]
    }
}

/// The metrics of a function's line, without the counters of the ledger, `Duration` and the heartbeat's age. A test counts them in the
/// sources.
const AGGREGATED_METRICS: u64 = 4;
const RELAYED_METRICS: u64 = 3;
const INVALIDATED_METRICS: u64 = 8;
const ARCHIVED_METRICS: u64 = 7;
const INVALIDATOR_METRICS: u64 = 6;
const EXPORTER_METRICS: u64 = 11;
const COMPACTOR_METRICS: u64 = 15;
const VERIFIER_METRICS: u64 = 3;

/// The essential metrics of the aggregator, the exporter and the verifier. Each has an alarm.
const COUNTED_ESSENTIALS: u64 = 2;
const EXPORTED_ESSENTIALS: u64 = 1;
const VERIFIED_ESSENTIALS: u64 = 1;

fn number(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FUNCTIONS: &str = include_str!("../../../functions/src/metrics.rs");
    const EXPORTER: &str = include_str!("../../../datasets/src/export/function.rs");
    const COMPACTOR: &str = include_str!("../../../datasets/src/compact/function.rs");
    const VERIFIER: &str = include_str!("../../../operations/src/verifier/function.rs");
    const ALARMS: &str = include_str!("../../../../infra/alarms.tf");

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
        let function = |name: &str| part_of(FUNCTIONS, &format!("pub fn {name}("), "\n}");
        let relayed = function("relayed");
        let block = |name: &str| metrics_in(part_of(relayed, &format!("if let Some({name}) ="), "\n    }"));
        let own = |source: &str| metrics_in(part_of(source, "fn metrics(", "\n}"));
        assert_eq!(metrics_in(function("aggregated")), AGGREGATED_METRICS);
        assert_eq!(block("invalidated"), INVALIDATED_METRICS);
        assert_eq!(block("archived"), ARCHIVED_METRICS);
        assert_eq!(metrics_in(relayed), RELAYED_METRICS + INVALIDATED_METRICS + ARCHIVED_METRICS);
        assert_eq!(metrics_in(function("invalidated")), INVALIDATOR_METRICS);
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
        assert_eq!(counts, [(40, 66), (38, 80)]);
    }

    #[test]
    fn minimal_observability_has_an_alarm_for_each_way_of_losing_data() {
        let [new_table, single] = examples().map(|module| module.observed(Observability::Minimal));
        assert_eq!((new_table.alarms(), new_table.metrics()), (18, 6));
        assert_eq!((single.alarms(), single.metrics()), (15, 6));
        let essentials = COUNTED_ESSENTIALS + EXPORTED_ESSENTIALS + VERIFIED_ESSENTIALS;
        assert_eq!(essentials, number(afterwrite_lambda::ESSENTIAL_METRICS.len()));
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
}
