//! A month's cost by part.

use std::fmt;

use serde::Serialize;

use super::figures as f;
use super::prices::PriceList;
use super::trial::TrialTotals;

const MILLION: f64 = 1e6;
const GIGABYTE: f64 = 1e9;

/// The parts of a deployment that are priced.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CostSettings {
    /// Whether there are archive and datasets.
    pub has_archive: bool,
    /// Whether there is a CloudFront distribution.
    pub has_distribution: bool,
    /// Queries a day.
    pub queries_a_day: f64,
    /// The month for which storage is priced: nothing is deleted before.
    pub month: f64,
}

/// A part's cost in a month.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CostLine {
    /// The part.
    pub part: &'static str,
    /// The unit that is billed.
    pub unit: &'static str,
    /// How much of it.
    pub quantity: f64,
    /// The dollars.
    pub dollars: f64,
}

/// A month's cost.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CostEstimate {
    /// The region of the prices.
    pub region: String,
    /// The date of the prices.
    pub prices_of: String,
    /// Records of the stream in the month.
    pub records: f64,
    /// Write units of a record.
    pub write_units_a_record: f64,
    /// Records of a batch, on average.
    pub records_a_batch: f64,
    /// The parts.
    pub parts: Vec<CostLine>,
    /// The sum.
    pub dollars: f64,
    /// Dollars for a million records, storage included.
    pub dollars_a_million_records: f64,
    /// Everything that was assumed.
    pub assumptions: Vec<String>,
}

/// Prices a month in which everything goes on as in the trial.
#[must_use]
pub fn estimate(trial: &TrialTotals, settings: CostSettings, prices: &PriceList) -> CostEstimate {
    let month = MonthTotals::new(trial, settings);
    let mut parts = month.table_lines(prices);
    parts.extend(month.function_lines(prices));
    if settings.has_archive {
        parts.extend(month.archive_lines(prices));
    }
    if settings.has_distribution {
        parts.extend(month.distribution_lines(prices));
    }
    parts.extend(month.operation_lines(prices));
    let dollars: f64 = parts.iter().map(|line| line.dollars).sum();
    CostEstimate {
        region: prices.region.clone(),
        prices_of: prices.date.clone(),
        records: month.records,
        write_units_a_record: ratio(approximate(trial.write_units), approximate(trial.records)),
        records_a_batch: ratio(approximate(trial.records), approximate(trial.batches)),
        parts,
        dollars,
        dollars_a_million_records: ratio(dollars * MILLION, month.records),
        assumptions: month.assumptions(),
    }
}

/// The trial's measures, as a month has them.
struct MonthTotals {
    trial: TrialTotals,
    settings: CostSettings,
    /// How often the trial's time fits into a month.
    times: f64,
    records: f64,
    batches: f64,
    objects: f64,
}

impl MonthTotals {
    fn new(trial: &TrialTotals, settings: CostSettings) -> Self {
        let times = ratio(f::MONTH_SECONDS, trial.seconds);
        let bytes = approximate(trial.line_bytes) * times;
        Self {
            trial: trial.clone(),
            settings,
            times,
            records: approximate(trial.records) * times,
            batches: approximate(trial.batches) * times,
            objects: (f::MONTH_SECONDS / f::BUFFER_SECONDS).max(bytes / f::BUFFER_BYTES),
        }
    }

    fn monthly(&self, number: u64) -> f64 {
        approximate(number) * self.times
    }

    fn table_lines(&self, prices: &PriceList) -> Vec<CostLine> {
        let stored = self.monthly(self.trial.state_bytes) * self.settings.month / GIGABYTE;
        let writes = self.monthly(self.trial.write_units);
        let reads = self.monthly(self.trial.read_units);
        vec![
            line("DynamoDB writes", "write units", writes, prices.million_write_units / MILLION),
            line("DynamoDB reads", "read units", reads, prices.million_read_units / MILLION),
            line("state table: storage", "GB", stored, prices.table_gigabyte_month),
            line("state table: recovery", "GB", stored, prices.recovery_gigabyte_month),
            line("DynamoDB stream, read by Lambda", "reads", self.batches * 2.0, 0.0),
        ]
    }

    fn function_lines(&self, prices: &PriceList) -> Vec<CostLine> {
        let counting = self.batches * f::BATCH_SECONDS + self.records * f::RECORD_SECONDS;
        let mut requests = self.batches;
        let mut seconds = counting * f::STREAM_FUNCTION_MEMORY;
        if self.settings.has_archive {
            let relaying = self.batches * f::RELAY_BATCH_SECONDS + self.records * f::RELAY_RECORD_SECONDS;
            let rows = self.monthly(self.trial.rows);
            let exporting = self.objects * f::EXPORT_OBJECT_SECONDS + rows * f::EXPORT_ROW_SECONDS;
            let runs = f::MONTH_SECONDS / 3600.0;
            let compacting = runs * f::COMPACT_RUN_SECONDS + rows * f::COMPACT_ROW_SECONDS;
            requests += self.batches + self.objects + runs;
            seconds += relaying * f::STREAM_FUNCTION_MEMORY
                + exporting * f::EXPORTER_MEMORY
                + compacting * f::COMPACTOR_MEMORY;
        }
        vec![
            line("Lambda requests", "requests", requests, prices.million_function_requests / MILLION),
            line("Lambda duration", "GB-s", seconds, prices.million_function_gigabyte_seconds / MILLION),
        ]
    }

    fn archive_lines(&self, prices: &PriceList) -> Vec<CostLine> {
        let billed = self.monthly(self.trial.firehose_steps) * 5.0 * 1024.0 / GIGABYTE;
        let writes = self.objects * (1.0 + f::OBJECT_WRITES);
        let months = self.settings.month;
        let archived = self.monthly(self.trial.line_bytes) * f::GZIP_RATIO * months / GIGABYTE;
        let rows = self.monthly(self.trial.rows) * f::LOG_ROW_BYTES;
        let current = self.monthly(self.trial.new_rows) * f::CURRENT_ROW_BYTES;
        let datasets = (rows + current) * months / GIGABYTE;
        let scanned = (current * months * f::QUERIED_SHARE).max(f::LEAST_QUERY_BYTES);
        let queried = scanned * self.settings.queries_a_day * f::MONTH_SECONDS / 86_400.0;
        let polls = f::QUEUE_POLLS_A_SECOND * f::MONTH_SECONDS;
        let messages = polls + self.objects * f::QUEUE_REQUESTS_A_MESSAGE;
        let put = prices.million_bucket_writes / MILLION;
        let get = prices.million_bucket_reads / MILLION;
        vec![
            line("Firehose", "GB", billed, prices.firehose_gigabyte),
            line("S3 PUT and LIST", "requests", writes, put),
            line("S3 GET", "requests", self.objects * f::OBJECT_READS, get),
            line("S3: archive", "GB", archived, prices.bucket_gigabyte_month),
            line("S3: datasets", "GB", datasets, prices.bucket_gigabyte_month),
            line("SQS: exporter", "requests", messages, prices.million_queue_requests / MILLION),
            line("Athena", "TB", queried / 1e12, prices.query_terabyte),
        ]
    }

    fn distribution_lines(&self, prices: &PriceList) -> Vec<CostLine> {
        let paths = self.monthly(self.trial.paths);
        let billed = (paths - prices.free_invalidation_paths).max(0.0);
        let messages =
            self.batches * f::QUEUE_REQUESTS_A_MESSAGE + f::QUEUE_POLLS_A_SECOND * f::MONTH_SECONDS;
        vec![
            line("CloudFront invalidations", "paths", billed, prices.invalidation_path),
            line("SQS: paths", "requests", messages, prices.million_queue_requests / MILLION),
        ]
    }

    fn operation_lines(&self, prices: &PriceList) -> Vec<CostLine> {
        let schedules = f::SCHEDULES_A_SECOND * f::MONTH_SECONDS;
        let readers = if self.settings.has_archive { 2.0 } else { 1.0 };
        let logged = self.batches * readers * f::LOG_BYTES_A_BATCH / GIGABYTE;
        vec![
            line("schedules", "invocations", schedules, prices.million_schedules / MILLION),
            line("CloudWatch metrics", "metrics", f::METRICS, prices.metric_month),
            line("CloudWatch alarms", "alarms", f::ALARMS, prices.alarm_month),
            line("CloudWatch dashboard", "dashboards", 1.0, prices.dashboard_month),
            line("CloudWatch logs", "GB", logged, prices.log_gigabyte),
        ]
    }

    fn assumptions(&self) -> Vec<String> {
        let TrialTotals { seconds, records, batches, line_bytes, .. } = &self.trial;
        let (records, batches) = (approximate(*records), approximate(*batches));
        let mut all = vec![
            format!("A month has 730 hours; rates hold day and night, in the rhythm of the sample. The trial is {seconds:.0} s of it, {records:.0} records."),
            format!("A record is {:.0} bytes, a batch {:.1} records.", ratio(approximate(*line_bytes), records), ratio(records, batches)),
            "Tables are on demand. Indexes of source tables are those that are named or that the sample's tables have, and copy all attributes.".to_owned(),
            format!("Storage is that of month {:.0}: nothing is deleted before.", self.settings.month),
            "Units of your application's own writes and reads are not included. Free tiers are not subtracted, except 1,000 invalidation paths.".to_owned(),
            "Lambda reads DynamoDB streams free of charge. Functions run on arm64, with the module's memory and the durations of docs/PERFORMANCE.md.".to_owned(),
            format!("The functions emit {:.0} custom metrics, and the module has {:.0} alarms.", f::METRICS, f::ALARMS),
        ];
        if self.settings.has_archive {
            all.push(format!(
                "Firehose writes an object at least every 15 minutes, {:.0} a month; exporter and compactor send {:.0} PUT and LIST and {:.0} GET requests for each.",
                self.objects, f::OBJECT_WRITES, f::OBJECT_READS
            ));
            all.push(format!(
                "A line shrinks to {:.0} % in gzip; a row takes {:.0} bytes in the log and {:.0} in the current rows.",
                f::GZIP_RATIO * 100.0, f::LOG_ROW_BYTES, f::CURRENT_ROW_BYTES
            ));
            all.push(format!(
                "{:.0} queries a day read a tenth of the current rows, at least 10 MB each.",
                self.settings.queries_a_day
            ));
        }
        if self.settings.has_distribution {
            all.push("Equal paths are invalidated once in 20 s.".to_owned());
        }
        all
    }
}

fn line(part: &'static str, unit: &'static str, quantity: f64, price: f64) -> CostLine {
    CostLine { part, unit, quantity, dollars: quantity * price }
}

/// A count as a floating-point number.
#[expect(clippy::cast_precision_loss, reason = "prices are shown with a few digits")]
fn approximate(number: u64) -> f64 {
    number as f64
}

fn ratio(number: f64, of: f64) -> f64 {
    if of > 0.0 { number / of } else { 0.0 }
}

impl fmt::Display for CostLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {:.2} {}, ${:.2}", self.part, self.quantity, self.unit, self.dollars)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SETTINGS: CostSettings =
        CostSettings { has_archive: true, has_distribution: true, queries_a_day: 10.0, month: 1.0 };

    /// A trial of ten seconds with 200 records in 10 batches.
    fn trial() -> TrialTotals {
        TrialTotals {
            seconds: 10.0,
            records: 200,
            batches: 10,
            write_units: 400,
            read_units: 250,
            state_bytes: 40_000,
            line_bytes: 300_000,
            firehose_steps: 70,
            paths: 5,
            rows: 200,
            new_rows: 100,
        }
    }

    fn dollars(estimate: &CostEstimate, part: &str) -> f64 {
        estimate.parts.iter().find(|line| line.part == part).unwrap().dollars
    }

    #[test]
    fn a_month_costs_what_the_trials_units_cost_that_often() {
        let prices = PriceList::built_in().unwrap();
        let estimate = estimate(&trial(), SETTINGS, &prices);
        let times = 262_800.0;
        let near = |part, expected: f64| {
            let found = dollars(&estimate, part);
            assert!((found - expected).abs() < expected * 1e-9, "{part}: {found}, expected {expected}");
        };
        near("DynamoDB writes", 400.0 * times * 0.625e-6);
        near("DynamoDB reads", 250.0 * times * 0.125e-6);
        near("state table: storage", 40_000.0 * times / 1e9 * 0.25);
        near("Firehose", 70.0 * times * 5120.0 / 1e9 * 0.029);
        near("CloudFront invalidations", (5.0 * times - 1000.0) * 0.005);
        assert!(
            (estimate.dollars - estimate.parts.iter().map(|line| line.dollars).sum::<f64>()).abs() < 1e-9
        );
        assert!((estimate.write_units_a_record - 2.0).abs() < 1e-9);
    }

    #[test]
    fn what_is_not_deployed_costs_nothing() {
        let prices = PriceList::built_in().unwrap();
        let settings = CostSettings { has_archive: false, has_distribution: false, ..SETTINGS };
        let estimate = estimate(&trial(), settings, &prices);
        let parts: Vec<_> = estimate.parts.iter().map(|line| line.part).collect();
        assert!(
            !parts.iter().any(|part| part.contains("Firehose") || part.contains("CloudFront")),
            "{parts:?}"
        );
    }

    #[test]
    fn storage_grows_with_the_months() {
        let prices = PriceList::built_in().unwrap();
        let of_month =
            |month| dollars(&estimate(&trial(), CostSettings { month, ..SETTINGS }, &prices), "S3: archive");
        assert!((of_month(12.0) - 12.0 * of_month(1.0)).abs() < 1e-9);
    }
}
