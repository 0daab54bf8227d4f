//! The numbers of a function that reads a stream, which CloudWatch alone has: the names by which an operator finds them there.

use afterwrite_functions::{NOT_COUNTED, NOT_RELAYED};
use afterwrite_services::config::{EnvironmentSettings, ProjectionKind};

use super::delivery::{projections, unqualified};
use super::facts::{DeploymentFacts, Looked, MappingFacts};

/// The variable that makes metrics of a few numbers only; all others are in the log.
const METRICS: &str = "AFTERWRITE_METRICS";

/// Where CloudWatch has the numbers of a function that reads a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReaderSigns {
    /// The function's log group.
    pub log_group: String,
    /// Whether the numbers of the log are metrics, too.
    pub are_metrics: bool,
    /// The number of records.
    pub records: &'static str,
    /// The age of a batch's newest change.
    pub record_age: &'static str,
    /// The log's message about a record that is delivered again.
    pub message: &'static str,
}

impl ReaderSigns {
    /// The names for a mapping's function. A function whose settings may not be read has the names of `relay` if its own name ends in `relay`, and
    /// otherwise the names of `aggregator`.
    #[must_use]
    pub fn of(mapping: &MappingFacts, facts: &DeploymentFacts) -> Self {
        let function =
            facts.functions.get(&mapping.function).and_then(Looked::found).cloned().unwrap_or_default();
        let counts = projections(&mapping.function, &function).contains(&ProjectionKind::Aggregate);
        let settings = EnvironmentSettings {
            metrics: function.environment.get(METRICS).cloned(),
            ..EnvironmentSettings::default()
        };
        let are_metrics = !settings.emits_essential_metrics().unwrap_or(false);
        let log_group =
            function.log_group.unwrap_or_else(|| format!("/aws/lambda/{}", unqualified(&mapping.function)));
        let (records, record_age, message) = if counts {
            ("Records", "RecordAge", NOT_COUNTED)
        } else {
            ("RecordsRelayed", "RelayedRecordAge", NOT_RELAYED)
        };
        Self { log_group, are_metrics, records, record_age, message }
    }
}
