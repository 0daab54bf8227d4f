//! A month in which everything goes on as in a trial.

use afterwrite_operations::jobs::approximate;
use afterwrite_operations::verify::{DatasetCoverage, VerifyArguments, plan_verify};

use super::deployed::{DeployedFunction, DeployedModule, DeploymentPart};
use super::figures as f;
use super::trial::TrialTotals;

/// The deployment and the usage that are priced.
#[derive(Clone, Debug, PartialEq)]
pub struct CostSettings {
    /// The deployment.
    pub module: DeployedModule,
    /// Queries a day.
    pub queries_a_day: f64,
    /// The month for which storage is priced: nothing is deleted before.
    pub month: f64,
}

/// The trial's measures, as a month has them.
pub(super) struct MonthTotals<'t> {
    pub(super) trial: &'t TrialTotals,
    pub(super) settings: &'t CostSettings,
    /// How often the trial's time fits into a month.
    times: f64,
    pub(super) records: f64,
    /// The batches of the streams; each reader gets each.
    pub(super) batches: f64,
    /// The changes of rollups that are sources, and their batches.
    level_records: f64,
    pub(super) level_batches: f64,
    /// The objects of the archive.
    pub(super) objects: f64,
}

/// The usage of a function in a month.
pub(super) struct FunctionUse {
    pub(super) invocations: f64,
    pub(super) gigabyte_seconds: f64,
}

impl<'t> MonthTotals<'t> {
    pub(super) fn new(trial: &'t TrialTotals, settings: &'t CostSettings) -> Self {
        let times = ratio(f::MONTH_SECONDS, trial.seconds);
        let bytes = approximate(trial.line_bytes) * times;
        Self {
            trial,
            settings,
            times,
            records: approximate(trial.records) * times,
            batches: approximate(trial.batches) * times,
            level_records: approximate(trial.levels.iter().map(|level| level.records).sum()) * times,
            level_batches: approximate(trial.level_batches) * times,
            objects: (f::MONTH_SECONDS / f::BUFFER_SECONDS).max(bytes / f::BUFFER_BYTES),
        }
    }

    /// The number in a month of something that the trial counted.
    pub(super) fn monthly(&self, number: u64) -> f64 {
        self.monthly_units(approximate(number))
    }

    /// The same for a part of a number.
    pub(super) fn monthly_units(&self, number: f64) -> f64 {
        number * self.times
    }

    /// The sum of all months up to the priced month.
    pub(super) fn stored(&self, number: u64) -> f64 {
        self.monthly(number) * self.settings.month
    }

    /// The invocations by schedules.
    pub(super) fn scheduled(&self) -> f64 {
        let module = &self.settings.module;
        let rollups =
            if module.has(DeploymentPart::Rollups) { f::HEARTBEATS + f::VERIFICATIONS } else { 0.0 };
        rollups + if module.has_datasets() { f::COMPACTIONS } else { 0.0 }
    }

    /// The usage of each function.
    pub(super) fn function_uses(&self) -> Vec<FunctionUse> {
        self.settings.module.functions().into_iter().map(|function| self.function_use(function)).collect()
    }

    fn function_use(&self, function: DeployedFunction) -> FunctionUse {
        let module = &self.settings.module;
        let rows = self.monthly(self.trial.rows);
        let (mut batches, mut records) = (self.batches, self.records);
        if module.reads_rollups(function) {
            batches += self.level_batches;
            records += self.level_records;
        }
        let relaying = self.relaying_seconds(batches, records);
        let (invocations, seconds, memory) = match function {
            DeployedFunction::Aggregator => {
                let has_rollups = module.has(DeploymentPart::Rollups);
                let counting = batches * f::BATCH_SECONDS + records * f::RECORD_SECONDS;
                let hosts_all =
                    module.has_relaying() && !module.functions().contains(&DeployedFunction::Relay);
                let seconds =
                    if has_rollups { counting } else { 0.0 } + if hosts_all { relaying } else { 0.0 };
                let heartbeats = if has_rollups { f::HEARTBEATS } else { 0.0 };
                (batches + heartbeats, seconds, f::STREAM_FUNCTION_MEMORY)
            }
            DeployedFunction::Relay => (batches, relaying, f::STREAM_FUNCTION_MEMORY),
            DeployedFunction::Invalidator => {
                let invocations = self.drained_messages().min(f::MONTH_SECONDS / f::PATH_WINDOW_SECONDS);
                (invocations, invocations * f::INVALIDATE_SECONDS, f::STREAM_FUNCTION_MEMORY)
            }
            DeployedFunction::Exporter => {
                let seconds = self.objects * f::EXPORT_OBJECT_SECONDS + rows * f::EXPORT_ROW_SECONDS;
                (self.objects, seconds, f::EXPORTER_MEMORY)
            }
            DeployedFunction::Compactor => {
                let seconds = f::COMPACTIONS * f::COMPACT_RUN_SECONDS + rows * f::COMPACT_ROW_SECONDS;
                (f::COMPACTIONS, seconds, f::COMPACTOR_MEMORY)
            }
            DeployedFunction::Verifier => {
                let reading = self.verification().seconds;
                let seconds = f::VERIFICATIONS * (reading + f::VERIFY_RUN_SECONDS);
                (f::VERIFICATIONS, seconds, f::VERIFIER_MEMORY)
            }
        };
        FunctionUse { invocations, gigabyte_seconds: seconds * memory }
    }

    /// The time of relaying these batches of these records, and the events of the month.
    fn relaying_seconds(&self, batches: f64, records: f64) -> f64 {
        let events = self.monthly(self.trial.events.values().map(|usage| usage.events).sum());
        batches * f::RELAY_BATCH_SECONDS + records * f::RELAY_RECORD_SECONDS + events * f::EVENT_SECONDS
    }

    /// The messages of the queue that the function `invalidator` drains: one for the paths of a batch. No target of events is busy in a trial.
    pub(super) fn drained_messages(&self) -> f64 {
        if self.settings.module.has(DeploymentPart::Distribution) { self.batches } else { 0.0 }
    }

    /// The read units of all runs of the verifier.
    pub(super) fn verified_units(&self) -> f64 {
        f::VERIFICATIONS * self.verification().read_units
    }

    /// A run of the verifier, on the tables of the month: its plan, as far as it has the time.
    fn verification(&self) -> VerificationRun {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "positive; a number beyond a u64 becomes the largest one"
        )]
        let stored = |number: u64| self.stored(number).round() as u64;
        let has_datasets = self.settings.module.has_datasets();
        let arguments = VerifyArguments {
            sample: f::VERIFY_SAMPLE,
            datasets: if has_datasets { DatasetCoverage::Compared } else { DatasetCoverage::NoDatasets },
            ..VerifyArguments::default()
        };
        let state = (stored(self.trial.state_items), stored(self.trial.state_bytes));
        let sources = (stored(self.trial.source_items), stored(self.trial.source_bytes));
        let plan = plan_verify(state, sources, &arguments);
        let seconds = approximate(plan.paced) / f::VERIFY_ITEMS_A_SECOND;
        let share = ratio(f::VERIFY_SECONDS, seconds).min(1.0);
        VerificationRun {
            read_units: approximate(plan.read_units) * if seconds > 0.0 { share } else { 1.0 },
            seconds: seconds.min(f::VERIFY_SECONDS),
        }
    }
}

struct VerificationRun {
    read_units: f64,
    seconds: f64,
}

pub(super) fn ratio(number: f64, of: f64) -> f64 {
    if of > 0.0 { number / of } else { 0.0 }
}
