//! Measured figures, from docs/PERFORMANCE.md, and the settings of the Terraform module that decide cost.

/// A month of 730 hours, in seconds.
pub(super) const MONTH_SECONDS: f64 = 730.0 * 3600.0;

/// "Catching up": a batch of 100 records takes 87 ms, one of 1,000 takes 171 ms.
pub(super) const BATCH_SECONDS: f64 = 0.078;
pub(super) const RECORD_SECONDS: f64 = 0.000_093;
/// "Relay": 1 ms from the start of a batch to its last key, and one request to Firehose.
pub(super) const RELAY_BATCH_SECONDS: f64 = 0.030;
pub(super) const RELAY_RECORD_SECONDS: f64 = 0.000_015;
/// "Datasets": 8.9 s for 2,200,000 rows; an object takes some requests of 15 to 30 ms.
pub(super) const EXPORT_ROW_SECONDS: f64 = 8.9 / 2_200_000.0;
pub(super) const EXPORT_OBJECT_SECONDS: f64 = 1.5;
/// 9.4 s for 2,000,000 rows; a row is packed about three times in its life. A run without work takes some requests a dataset.
pub(super) const COMPACT_ROW_SECONDS: f64 = 3.0 * 9.4 / 2_000_000.0;
pub(super) const COMPACT_RUN_SECONDS: f64 = 2.0;
/// Gigabytes of memory, as the module configures the functions.
pub(super) const STREAM_FUNCTION_MEMORY: f64 = 0.25;
pub(super) const EXPORTER_MEMORY: f64 = 0.5;
pub(super) const COMPACTOR_MEMORY: f64 = 1.0;

/// Firehose collects this long, or these bytes.
pub(super) const BUFFER_SECONDS: f64 = 900.0;
pub(super) const BUFFER_BYTES: f64 = 128.0 * 1024.0 * 1024.0;
/// "Requests and commits", 1,000 changes an object: requests of exporter and compactor together for each object, PUT with LIST.
pub(super) const OBJECT_READS: f64 = 0.151 * 1000.0;
pub(super) const OBJECT_WRITES: f64 = (0.157 + 0.010) * 1000.0;
/// "Datasets": 3,049 MB of lines are 368 MB in gzip; the files of the log take 56 bytes a row, those of current rows 53.
pub(super) const GZIP_RATIO: f64 = 368.0 / 3049.0;
pub(super) const LOG_ROW_BYTES: f64 = 124_000_000.0 / 2_200_000.0;
pub(super) const CURRENT_ROW_BYTES: f64 = 106_000_000.0 / 2_000_000.0;
/// "Queries": the saved queries read about a tenth of the current rows; Athena bills at least 10 MB.
pub(super) const QUERIED_SHARE: f64 = 0.1;
pub(super) const LEAST_QUERY_BYTES: f64 = 10_000_000.0;

/// Lambda polls a queue with five pollers, each for up to 20 s.
pub(super) const QUEUE_POLLS_A_SECOND: f64 = 5.0 / 20.0;
/// Receiving and deleting come with sending a message.
pub(super) const QUEUE_REQUESTS_A_MESSAGE: f64 = 3.0;
/// Compactor every hour, heartbeat every minute.
pub(super) const SCHEDULES_A_SECOND: f64 = 1.0 / 3600.0 + 1.0 / 60.0;
/// Of the module: custom metrics of the functions, and alarms.
pub(super) const METRICS: f64 = 70.0;
pub(super) const ALARMS: f64 = 24.0;
/// A line of metrics for each batch of each function.
pub(super) const LOG_BYTES_A_BATCH: f64 = 1_500.0;
