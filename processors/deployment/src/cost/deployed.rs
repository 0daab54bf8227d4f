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
    /// The model has events: they are published to a bus, a queue or a topic.
    Events,
    /// Sources of the model expire: contributions to them that come too late are dropped.
    ExpiringSources,
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
            (!model.events.is_empty()).then_some(DeploymentPart::Events),
            model.has_expiring_sources().then_some(DeploymentPart::ExpiringSources),
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

    /// Whether a function hosts the caches, the archive or the events.
    pub(super) fn has_relaying(&self) -> bool {
        self.has(DeploymentPart::Archive) || self.has_caches() || self.has(DeploymentPart::Events)
    }

    /// Whether there is the queue of stale paths, and of events whose target is busy.
    fn has_drain(&self) -> bool {
        self.has(DeploymentPart::Distribution) || self.has(DeploymentPart::Events)
    }

    /// As `local.enabled` in `infra/main.tf`.
    pub(super) fn functions(&self) -> BTreeSet<DeployedFunction> {
        let is_single = self.readers == StreamReaders::Single;
        let has_rollups = self.has(DeploymentPart::Rollups);
        let enabled = [
            (DeployedFunction::Aggregator, has_rollups || is_single && self.has_relaying()),
            (DeployedFunction::Relay, !is_single && self.has_relaying()),
            (DeployedFunction::Invalidator, self.has_drain()),
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
                ProjectionKind::Notify => (self.has(DeploymentPart::Events), self.relaying()),
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
        let dropped = if self.has(DeploymentPart::ExpiringSources) { DROPPED_ESSENTIALS } else { 0 };
        let exported = if self.has_datasets() { EXPORTED_ESSENTIALS } else { 0 };
        own + dropped + exported + self.freshness_stages().min(number(ESSENTIAL_STAGES.len()))
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
        if self.has(DeploymentPart::Events) {
            // Of the function that relays, and of the function that drains the queue.
            relaying += QUEUED_METRICS + 2 * EVENT_METRICS;
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
    fn alarm_groups(&self) -> [AlarmGroup; 15] {
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
            ("dropping_alarms", 1, one_if(self.has(DeploymentPart::ExpiringSources))),
            ("relaying_alarms", 1, one_if(self.has_relaying())),
            ("notifying_alarms", 1, one_if(self.has(DeploymentPart::Events))),
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
const QUEUED_METRICS: u64 = 1;
const EVENT_METRICS: u64 = 5;
const INVALIDATOR_METRICS: u64 = 6;
const EXPORTER_METRICS: u64 = 11;
const COMPACTOR_METRICS: u64 = 15;
const VERIFIER_METRICS: u64 = 3;

/// The essential metrics of the aggregator, the exporter and the verifier. Each has an alarm.
const COUNTED_ESSENTIALS: u64 = 2;
const DROPPED_ESSENTIALS: u64 = 1;
const EXPORTED_ESSENTIALS: u64 = 1;
const VERIFIED_ESSENTIALS: u64 = 1;

fn number(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
