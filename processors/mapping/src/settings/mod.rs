//! The settings of an event source mapping, and what AWS does not let anyone set: its pace.

mod request;

use std::time::Duration;

use afterwrite_model::record::Timestamp;

use crate::filter::FilterCriteria;

/// The settings of an event source mapping, as AWS's `CreateEventSourceMapping` takes them.
///
/// ```
/// use afterwrite_mapping::MappingSettings;
///
/// let settings = MappingSettings::from_json(
///     r#"{"BatchSize": 1000, "FunctionResponseTypes": ["ReportBatchItemFailures"]}"#,
/// );
/// assert_eq!(settings.unwrap().batch_size, 1000);
/// let refused = MappingSettings::from_json(r#"{"TumblingWindowInSeconds": 30}"#).unwrap_err();
/// assert!(refused.to_string().starts_with("TumblingWindowInSeconds is not emulated"));
/// ```
#[derive(Clone, Debug)]
pub struct MappingSettings {
    /// `FunctionName`, which on-failure objects name; empty if it is not set.
    pub function_name: String,
    /// `BatchSize`: the most records of a batch, 1–10,000.
    pub batch_size: usize,
    /// `MaximumBatchingWindowInSeconds`: how long a batch that is not full waits for more records, 0–300 s.
    pub batch_window: Duration,
    /// `ParallelizationFactor`: how many batches of a shard are delivered at once, 1–10.
    pub parallelization_factor: usize,
    /// `StartingPosition` of a mapping without checkpoints.
    pub starting_position: StartingPosition,
    /// `MaximumRetryAttempts`: how often a batch is retried before it is discarded; `None` (−1) without limit.
    pub max_retries: Option<u32>,
    /// `MaximumRecordAgeInSeconds`: the age at which records are discarded; `None` (−1) without limit.
    pub max_record_age: Option<Duration>,
    /// `BisectBatchOnFunctionError`: whether a failed batch is split before it is retried.
    pub bisects: bool,
    /// `FunctionResponseTypes`: whether the function's response names failed records (`ReportBatchItemFailures`).
    pub reports_item_failures: bool,
    /// `FilterCriteria`: which records are delivered.
    pub filters: FilterCriteria,
    /// `DestinationConfig`: the S3 bucket for discarded batches.
    pub on_failure_bucket: Option<String>,
}

/// Where a mapping without checkpoints begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StartingPosition {
    /// With the oldest record that is kept.
    #[default]
    TrimHorizon,
    /// With the next record that is written. Records that are written while the mapping starts may be missed, as on AWS.
    Latest,
    /// With the first record of this time or later. Lambda does not offer this for DynamoDB streams.
    At(Timestamp),
}

impl Default for MappingSettings {
    /// The defaults of AWS, from the oldest record.
    fn default() -> Self {
        Self {
            function_name: String::new(),
            batch_size: 100,
            batch_window: Duration::ZERO,
            parallelization_factor: 1,
            starting_position: StartingPosition::default(),
            max_retries: None,
            max_record_age: None,
            bisects: false,
            reports_item_failures: false,
            filters: FilterCriteria::default(),
            on_failure_bucket: None,
        }
    }
}

/// How fast a mapping polls and retries. On AWS these values are fixed.
#[derive(Clone, Copy, Debug)]
pub struct MappingPace {
    /// The pause after a read that found the end of a shard.
    pub poll_interval: Duration,
    /// How often new shards are looked for.
    pub describe_interval: Duration,
    /// How often a checkpoint is saved while records are delivered.
    pub checkpoint_interval: Duration,
    /// How often a checkpoint is saved while every record that is read is filtered out. Checkpoints are in the state table: saved more often,
    /// the checkpoints in its own stream would be followed by new ones.
    pub idle_checkpoint_interval: Duration,
    /// The pause before the first retry of a batch; it doubles with each retry.
    pub first_backoff: Duration,
    /// The longest pause between two retries.
    pub max_backoff: Duration,
    /// The function's timeout.
    pub invocation_timeout: Duration,
}

impl Default for MappingPace {
    /// Lambda's pace: four reads a second.
    fn default() -> Self {
        Self {
            poll_interval: Duration::from_millis(250),
            describe_interval: Duration::from_secs(10),
            checkpoint_interval: Duration::from_secs(1),
            idle_checkpoint_interval: Duration::from_secs(60),
            first_backoff: Duration::from_millis(100),
            max_backoff: Duration::from_secs(60),
            invocation_timeout: Duration::from_secs(60),
        }
    }
}

impl MappingPace {
    /// For a stream inside this process, which costs nothing to read.
    #[must_use]
    pub fn local() -> Self {
        Self {
            poll_interval: Duration::from_millis(20),
            describe_interval: Duration::from_secs(1),
            first_backoff: Duration::from_millis(50),
            max_backoff: Duration::from_secs(5),
            ..Self::default()
        }
    }

    /// The pause before retry number `retry`; the first is 1.
    pub(crate) fn pause_before(&self, retry: u32) -> Duration {
        let factor = 2_u32.saturating_pow(retry.saturating_sub(1));
        self.first_backoff.saturating_mul(factor).min(self.max_backoff)
    }
}
