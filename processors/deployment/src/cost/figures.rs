//! Measured figures, from docs/PERFORMANCE.md, and the settings of the Terraform module that decide cost.

/// A month of 730 hours, in seconds.
pub(super) const MONTH_SECONDS: f64 = 730.0 * 3600.0;
pub(super) const DAY_SECONDS: f64 = 24.0 * 3600.0;
/// The write units that a partition of a table or an index takes in a second: DynamoDB's limit.
pub(super) const PARTITION_WRITE_UNITS: f64 = 1000.0;
/// The write units of a change of a member of a distinct count, which is in a transaction and has less than 1 KB.
pub(super) const MEMBER_WRITE_UNITS: f64 = 2.0;
/// New members an hour above which a distinct count is named.
pub(super) const MEMBERS_AN_HOUR: f64 = 1e7;
/// The bytes of a sort key: DynamoDB's limit.
pub(super) const SORT_KEY_BYTES: usize = 1024;

/// "Catching up": what batches of 100 and of 1,000 records take; batches between and beyond are on the line through both.
const SMALL_BATCH_SECONDS: f64 = 0.056;
const LARGE_BATCH_SECONDS: f64 = 0.187;
pub(super) const RECORD_SECONDS: f64 = (LARGE_BATCH_SECONDS - SMALL_BATCH_SECONDS) / 900.0;
pub(super) const BATCH_SECONDS: f64 = SMALL_BATCH_SECONDS - 100.0 * RECORD_SECONDS;
/// "Relay": 10.7 µs a record; 1 ms from the start of a batch to its last key, and one request to Firehose.
pub(super) const RELAY_BATCH_SECONDS: f64 = 0.030;
pub(super) const RELAY_RECORD_SECONDS: f64 = 10.7e-6;
/// "Relay": 6.85 µs a record more with 0.291 events a record. Their requests run beside the request to Firehose.
pub(super) const EVENT_SECONDS: f64 = 6.85e-6 / 0.291;
/// Requests to CloudFront and to the queue.
pub(super) const INVALIDATE_SECONDS: f64 = 0.3;
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
pub(super) const VERIFIER_MEMORY: f64 = 1.0;

/// Firehose collects this long, or these bytes.
pub(super) const BUFFER_SECONDS: f64 = 900.0;
pub(super) const BUFFER_BYTES: f64 = 128.0 * 1024.0 * 1024.0;
/// "Requests and commits", 1,000 changes an object: requests of exporter and compactor together for each object, PUT with LIST.
pub(super) const OBJECT_READS: f64 = (22_801.0 + 128_013.0) / 1000.0;
pub(super) const OBJECT_WRITES: f64 = (73_616.0 + 3_257.0 + 83_062.0 + 6_515.0) / 1000.0;
/// "Datasets": 3,049 MB of lines are 368 MB in gzip; a row takes 56 bytes in files of the log, and 53 in files of current rows.
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
/// The window of the queue of paths.
pub(super) const PATH_WINDOW_SECONDS: f64 = 20.0;
/// The schedules of the module: a heartbeat every minute, the compactor every hour, the verifier every day.
pub(super) const HEARTBEATS: f64 = MONTH_SECONDS / 60.0;
pub(super) const COMPACTIONS: f64 = MONTH_SECONDS / 3600.0;
pub(super) const VERIFICATIONS: f64 = MONTH_SECONDS / DAY_SECONDS;
/// The share that the verifier judges.
pub(super) const VERIFY_SAMPLE: f64 = 0.01;
/// A run of 15 minutes reads for about 530 s. It takes at most as many items as a whole core reads without counting them ("Bulk backfill":
/// 170,000 a second), times its share of a core: Lambda gives one core for 1,769 MB.
pub(super) const VERIFY_SECONDS: f64 = 530.0;
pub(super) const VERIFY_ITEMS_A_SECOND: f64 = 170_000.0 * 1_024.0 / 1_769.0;
/// Suspects, if there are any, wait for the tolerance of 300 s.
pub(super) const VERIFY_RUN_SECONDS: f64 = 300.0;
/// A line of metrics for each batch of each function.
pub(super) const LOG_BYTES_A_BATCH: f64 = 1_500.0;

/// X-Ray's default rule: one invocation a second of each function, and 5 % of the remaining invocations.
pub(super) const TRACED_A_SECOND: f64 = 1.0;
pub(super) const TRACED_SHARE: f64 = 0.05;

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = include_str!("../../../../docs/PERFORMANCE.md");

    /// The milliseconds of the column "a batch takes" for batches of this size.
    fn batch_ms(size: &str) -> f64 {
        let rows = PAGE.split("## Catching up").nth(1).unwrap().lines();
        let mut cells = rows.filter_map(|row| {
            let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
            (cells.first() == Some(&size)).then_some(cells)
        });
        let cells = cells.next().unwrap_or_else(|| panic!("no row of batches of {size}"));
        let cell = cells.iter().find_map(|cell| cell.split_once(" ms")).expect("a duration");
        cell.0.parse().unwrap()
    }

    #[test]
    fn batches_take_the_time_that_the_page_has() {
        for (size, records) in [("100", 100.0), ("1,000", 1000.0)] {
            let ms = (BATCH_SECONDS + records * RECORD_SECONDS) * 1000.0;
            assert!((ms - batch_ms(size)).abs() < 0.5, "{size} records: {ms} ms");
        }
    }

    #[test]
    fn the_page_has_the_other_figures() {
        let figures = [
            "**10.7**",
            "| relay with 0.291 events a record | 21.15 |",
            "| relay without events | 14.30 |",
            "| 2,200,000 | **8.9 s**",
            "| 2,000,000 | **9.4 s**",
            "every line is read, few are counted | 170,000 |",
            "3,049 MB",
            "368 MB in all",
            "**342 MB/s** | **158 MB** | 124 MB |",
            "| **106.0** |",
            "| 1,000 | exporter | 22,801 | 73,616 | 3,257 |",
            "| 1,000 | compactor | 128,013 | 83,062 | 6,515 |",
        ];
        for figure in figures {
            assert!(PAGE.contains(figure), "docs/PERFORMANCE.md has another figure than {figure}");
        }
    }
}
