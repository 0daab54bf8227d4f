//! A month's cost by part.

use afterwrite_operations::jobs::approximate;
use serde::Serialize;

use super::capacity::{CapacityComparison, MonthUnits};
use super::deployed::{DeploymentPart, StreamReaders};
use super::events;
use super::figures as f;
use super::line::{CostLine, line};
use super::month::{CostSettings, MonthTotals, ratio};
use super::paced::UNMATCHED;
use super::prices::PriceList;
use super::trial::TrialTotals;
use super::{drain, levels, members, observed, ranks};

const MILLION: f64 = 1e6;
const GIGABYTE: f64 = 1e9;

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
    /// The state table's capacity on demand and provisioned.
    pub capacity: CapacityComparison,
    /// Everything that was assumed.
    pub assumptions: Vec<String>,
}

/// Prices a month in which everything goes on as in the trial.
#[must_use]
pub fn estimate(trial: &TrialTotals, settings: &CostSettings, prices: &PriceList) -> CostEstimate {
    let month = MonthTotals::new(trial, settings);
    let module = &settings.module;
    let mut parts = table_lines(&month, prices);
    parts.extend(function_lines(&month, prices));
    if module.has(DeploymentPart::Archive) {
        parts.extend(archive_lines(&month, prices));
    }
    if module.has(DeploymentPart::Distribution) {
        parts.push(distribution_line(&month, prices));
    }
    parts.extend(drain::line_of(&month, prices));
    parts.extend(events::lines(&month, prices));
    parts.extend(operation_lines(&month, prices));
    let dollars: f64 = parts.iter().map(|line| line.dollars).sum();
    let observed = observed::dollars(module, prices);
    let rate = month.records / f::MONTH_SECONDS;
    let units =
        MonthUnits { writes: month.monthly(trial.write_units), reads: month.monthly(trial.read_units) };
    let capacity = CapacityComparison::of(units, prices);
    CostEstimate {
        region: prices.region.clone(),
        prices_of: prices.date.clone(),
        records: month.records,
        write_units_a_record: ratio(approximate(trial.write_units), approximate(trial.records)),
        records_a_batch: ratio(approximate(trial.records), approximate(trial.batches)),
        parts,
        dollars,
        dollars_a_million_records: ratio(dollars * MILLION, month.records),
        assumptions: assumptions(&month, prices)
            .into_iter()
            .chain(levels::assumption(&month))
            .chain(events::assumption(&month))
            .chain(left_out(trial))
            .chain(capacity.assumption())
            .chain([observed::assumption(module, prices, dollars - observed, rate)])
            .collect(),
        capacity,
    }
}

fn table_lines(month: &MonthTotals<'_>, prices: &PriceList) -> Vec<CostLine> {
    let stored = month.stored(month.trial.state_bytes) / GIGABYTE;
    let reads = month.monthly(month.trial.read_units);
    let mut lines = levels::write_lines(month, prices.million_write_units / MILLION);
    lines.extend([
        line("DynamoDB reads", "read units", reads, prices.million_read_units / MILLION),
        line("state table: storage", "GB", stored, prices.table_gigabyte_month),
        line("state table: recovery", "GB", stored, prices.recovery_gigabyte_month),
        line("DynamoDB stream, read by Lambda", "reads", month.batches * 2.0, 0.0),
    ]);
    lines.extend(levels::stream_line(month));
    lines.extend(ranks::storage_line(month, prices.table_gigabyte_month));
    if month.settings.module.has(DeploymentPart::Rollups) {
        let heartbeats = f::HEARTBEATS * approximate(month.settings.module.streams());
        let verified = month.verified_units();
        lines.push(line("heartbeat", "write units", heartbeats, prices.million_write_units / MILLION));
        lines.push(line("verifier", "read units", verified, prices.million_read_units / MILLION));
    }
    lines
}

fn function_lines(month: &MonthTotals<'_>, prices: &PriceList) -> Vec<CostLine> {
    let uses = month.function_uses();
    let requests = uses.iter().map(|each| each.invocations).sum();
    let seconds = uses.iter().map(|each| each.gigabyte_seconds).sum();
    let traces: f64 = uses.iter().map(|each| traces(each.invocations)).sum();
    let billed = (traces - prices.free_traces).max(0.0);
    vec![
        line("Lambda requests", "requests", requests, prices.million_function_requests / MILLION),
        line("Lambda duration", "GB-s", seconds, prices.million_function_gigabyte_seconds / MILLION),
        line("X-Ray", "traces", billed, prices.million_traces / MILLION),
    ]
}

/// The traces of a function with this many invocations a month.
fn traces(invocations: f64) -> f64 {
    let first = invocations.min(f::TRACED_A_SECOND * f::MONTH_SECONDS);
    first + (invocations - first) * f::TRACED_SHARE
}

fn archive_lines(month: &MonthTotals<'_>, prices: &PriceList) -> Vec<CostLine> {
    let billed = month.monthly(month.trial.firehose_steps) * 5.0 * 1024.0 / GIGABYTE;
    let archived = month.stored(month.trial.line_bytes) * f::GZIP_RATIO / GIGABYTE;
    let put = prices.million_bucket_writes / MILLION;
    let mut lines = vec![
        line("Firehose", "GB", billed, prices.firehose_gigabyte),
        line("S3: archive", "GB", archived, prices.bucket_gigabyte_month),
    ];
    if !month.settings.module.has_datasets() {
        lines.push(line("S3 PUT and LIST", "requests", month.objects, put));
        return lines;
    }
    let current = month.stored(month.trial.new_rows) * f::CURRENT_ROW_BYTES;
    let datasets = (month.stored(month.trial.rows) * f::LOG_ROW_BYTES + current) / GIGABYTE;
    let scanned = (current * f::QUERIED_SHARE).max(f::LEAST_QUERY_BYTES);
    let queried = scanned * month.settings.queries_a_day * f::MONTH_SECONDS / f::DAY_SECONDS;
    let messages = drain::requests(month.objects);
    let writes = month.objects * (1.0 + f::OBJECT_WRITES);
    let get = prices.million_bucket_reads / MILLION;
    lines.extend([
        line("S3 PUT and LIST", "requests", writes, put),
        line("S3 GET", "requests", month.objects * f::OBJECT_READS, get),
        line("S3: datasets", "GB", datasets, prices.bucket_gigabyte_month),
        line("SQS: exporter", "requests", messages, prices.million_queue_requests / MILLION),
        line("Athena", "TB", queried / 1e12, prices.query_terabyte),
    ]);
    lines
}

fn distribution_line(month: &MonthTotals<'_>, prices: &PriceList) -> CostLine {
    let paths = month.monthly(month.trial.paths);
    let billed = (paths - prices.free_invalidation_paths).max(0.0);
    line("CloudFront invalidations", "paths", billed, prices.invalidation_path)
}

fn operation_lines(month: &MonthTotals<'_>, prices: &PriceList) -> Vec<CostLine> {
    let module = &month.settings.module;
    let (readers, of_state) = (approximate(module.stream_readers()), approximate(module.state_readers()));
    let batches = month.batches * readers + month.level_batches * of_state;
    let logged = batches * f::LOG_BYTES_A_BATCH / GIGABYTE;
    let mut lines = vec![
        line("schedules", "invocations", month.scheduled(), prices.million_schedules / MILLION),
        line("CloudWatch logs", "GB", logged, prices.log_gigabyte),
    ];
    lines.extend(observed::lines(module, prices));
    if module.has(DeploymentPart::Cache) {
        lines.push(line("Secrets Manager", "secrets", 1.0, prices.secret_month));
    }
    lines
}

fn assumptions(month: &MonthTotals<'_>, prices: &PriceList) -> Vec<String> {
    let TrialTotals { seconds, records, batches, line_bytes, .. } = month.trial;
    let (records, batches) = (approximate(*records), approximate(*batches));
    let module = &month.settings.module;
    let mut all = vec![
        format!("A month has 730 hours; rates hold day and night, in the rhythm of the sample. The trial is {seconds:.0} s of it, {records:.0} records."),
        format!("A record is {:.0} bytes, a batch {:.1} records.", ratio(approximate(*line_bytes), records), ratio(records, batches)),
        "Tables are on demand. Indexes of source tables are those that are named or that the sample's tables have, and copy all attributes.".to_owned(),
        format!("Storage is that of month {:.0}: nothing is deleted before.", month.settings.month),
        format!("Units of your application's own writes and reads are not included. Free tiers are not subtracted, except {:.0} invalidation paths and {:.0} traces.", prices.free_invalidation_paths, prices.free_traces),
        "Lambda reads DynamoDB streams free of charge. Functions run on arm64, with the module's memory and the durations of docs/PERFORMANCE.md, which were measured on a whole core.".to_owned(),
        match module.readers {
            StreamReaders::Separate => "aggregator and relay each get every batch.".to_owned(),
            StreamReaders::Single => "One function gets every batch and hosts everything.".to_owned(),
        },
        format!("Tracing is active: X-Ray's default rule records, of each function, one invocation a second and {:.0} % of the others.", f::TRACED_SHARE * 100.0),
        format!("The functions emit {} custom metrics, and the module has {} alarms.", module.metrics(), module.alarms()),
    ];
    if module.has(DeploymentPart::Rollups) {
        all.push(format!(
            "The verifier runs every day and judges {:.0} %. Its tables hold what the sample inserts; a run reads them once or twice, at most {:.0} million items.",
            f::VERIFY_SAMPLE * 100.0, f::VERIFY_SECONDS * f::VERIFY_ITEMS_A_SECOND / MILLION
        ));
    }
    if module.has(DeploymentPart::Archive) {
        all.push(format!(
            "Firehose writes an object at least every 15 minutes, {:.0} a month; a line shrinks to {:.0} % in gzip.",
            month.objects, f::GZIP_RATIO * 100.0
        ));
    }
    if module.has_datasets() {
        all.push(format!(
            "Exporter and compactor send {:.0} PUT and LIST and {:.0} GET requests for each object; a row takes {:.0} bytes in the log and {:.0} in the current rows.",
            f::OBJECT_WRITES, f::OBJECT_READS, f::LOG_ROW_BYTES, f::CURRENT_ROW_BYTES
        ));
        all.push(format!(
            "{:.0} queries a day read a tenth of the current rows, at least 10 MB each.",
            month.settings.queries_a_day
        ));
    }
    if module.has(DeploymentPart::Distribution) {
        all.push(format!("Equal paths are invalidated once in {:.0} s.", f::PATH_WINDOW_SECONDS));
    }
    all
}

/// The changes that the trial does not have.
fn left_out(trial: &TrialTotals) -> Vec<String> {
    let TrialTotals { unmatched, rare, busiest_rank, seconds, .. } = trial;
    let unmatched = (*unmatched > 0).then(|| format!("{unmatched} records of the sample match no entity and are not priced. Their streams and archive cost money as well: --rate {UNMATCHED}=NUMBER/s prices them."));
    let rare = (!rare.is_empty()).then(|| {
        format!(
            "Less than half a change comes in the time of the trial, and none is priced, of: {}.",
            rare.join(", ")
        )
    });
    let hot = busiest_rank.as_ref().and_then(|rank| ranks::hot(rank, *seconds));
    let counts = trial.levels.iter().flat_map(|level| &level.members);
    unmatched.into_iter().chain(rare).chain(hot).chain(members::problems(counts, *seconds)).collect()
}

#[cfg(test)]
mod tests {
    use afterwrite_model::table::Model;

    use super::super::deployed::DeployedModule;
    use super::*;

    const EVERYTHING: [DeploymentPart; 3] =
        [DeploymentPart::Archive, DeploymentPart::Cache, DeploymentPart::Distribution];
    /// How often the trial's ten seconds fit into a month.
    const TIMES: f64 = 262_800.0;

    fn settings(parts: &[DeploymentPart]) -> CostSettings {
        let model = Model::load("exambuddy").unwrap();
        let module = DeployedModule::new(&model, parts.iter().copied(), StreamReaders::Separate);
        CostSettings { module, queries_a_day: 10.0, month: 1.0 }
    }

    /// A trial of ten seconds with 200 records in 10 batches.
    fn trial() -> TrialTotals {
        TrialTotals {
            seconds: 10.0,
            records: 200,
            batches: 10,
            write_units: 400,
            read_units: 250,
            state_bytes: 40_000,
            rank_bytes: 0,
            busiest_rank: None,
            state_items: 120,
            source_bytes: 100_000,
            source_items: 100,
            line_bytes: 300_000,
            firehose_steps: 70,
            paths: 5,
            rows: 200,
            new_rows: 100,
            unmatched: 0,
            rare: Vec::new(),
            ..TrialTotals::default()
        }
    }

    fn estimated(settings: &CostSettings) -> CostEstimate {
        estimate(&trial(), settings, &PriceList::built_in().unwrap())
    }

    fn dollars(estimate: &CostEstimate, part: &str) -> Option<f64> {
        estimate.parts.iter().find(|line| line.part == part).map(|line| line.dollars)
    }

    fn assert_near(estimate: &CostEstimate, part: &str, expected: f64) {
        let found = dollars(estimate, part).unwrap_or_else(|| panic!("no part {part}"));
        assert!((found - expected).abs() <= expected * 1e-9, "{part}: {found}, expected {expected}");
    }

    #[test]
    fn a_month_costs_what_the_trials_units_cost_that_often() {
        let estimate = estimated(&settings(&EVERYTHING));
        assert_near(&estimate, "DynamoDB writes", 400.0 * TIMES * 0.625e-6);
        assert_near(&estimate, "DynamoDB reads", 250.0 * TIMES * 0.125e-6);
        assert_near(&estimate, "state table: storage", 40_000.0 * TIMES / 1e9 * 0.25);
        assert_near(&estimate, "Firehose", 70.0 * TIMES * 5120.0 / 1e9 * 0.029);
        assert_near(&estimate, "CloudFront invalidations", (5.0 * TIMES - 1000.0) * 0.005);
        assert_near(&estimate, "heartbeat", 43_800.0 * 0.625e-6);
        assert_near(&estimate, "Secrets Manager", 0.40);
        // Streams are read by two functions; one more function drains the queue, three run on schedules.
        assert_near(&estimate, "CloudWatch alarms", 0.10 * 45.0);
        assert!(
            (estimate.dollars - estimate.parts.iter().map(|line| line.dollars).sum::<f64>()).abs() < 1e-9
        );
        assert!((estimate.write_units_a_record - 2.0).abs() < 1e-9);
    }

    #[test]
    fn a_group_of_a_rank_beyond_the_limit_of_a_partition_is_named() {
        let named = |write_units| {
            let rank = crate::cost::BusyRank { index: "rank_points".into(), write_units };
            let trial = TrialTotals { busiest_rank: Some(rank), rank_bytes: 10_000, ..trial() };
            let estimate = estimate(&trial, &settings(&EVERYTHING), &PriceList::built_in().unwrap());
            assert_near(&estimate, "indexes of ranks: storage", 10_000.0 * TIMES / 1e9 * 0.25);
            estimate.assumptions.iter().any(|assumption| assumption.contains("rank_points"))
        };
        assert!(!named(10_000) && named(10_001));
    }

    #[test]
    fn x_ray_records_one_invocation_a_second_of_a_function_and_a_twentieth_of_the_others() {
        assert!((traces(1000.0) - 1000.0).abs() < 1e-9);
        let rate = |a_second: f64| traces(a_second * f::MONTH_SECONDS) / f::MONTH_SECONDS;
        assert!((rate(1.0) - 1.0).abs() < 1e-9);
        assert!((rate(21.0) - 2.0).abs() < 1e-9);
        // Aggregator and relay run once a second here, the schedules and the exporter at times.
        let found = dollars(&estimated(&settings(&[DeploymentPart::Archive])), "X-Ray").unwrap();
        let of_batches = (2.0 * f::MONTH_SECONDS - 100_000.0) * 5e-6;
        assert!((of_batches..of_batches * 1.02).contains(&found), "{found}, of batches {of_batches}");
    }

    #[test]
    fn the_verifier_reads_the_state_table_at_twice_and_the_source_tables_at_once_their_size_every_day() {
        let of_month = |month| {
            let settings = CostSettings { month, ..settings(&[DeploymentPart::Archive]) };
            dollars(&estimated(&settings), "verifier").unwrap()
        };
        let stored = 0.1 * TIMES;
        let pages = (2.0 * 40_000.0 + 100_000.0) * stored / 4096.0;
        let judged = (3.0 * 100.0 + 2.0 * 120.0) * stored * 0.01;
        let (found, expected) = (of_month(0.1), 730.0 / 24.0 * (pages + judged) * 0.125e-6);
        assert!((found / expected - 1.0).abs() < 1e-3, "{found}, expected {expected}");
        // A run ends in time, however large the tables are.
        assert!((of_month(1000.0) / of_month(2000.0) - 1.0).abs() < 1e-3);
    }

    #[test]
    fn a_single_reader_is_invoked_once_for_each_batch() {
        let parts = [DeploymentPart::Archive];
        let model = Model::load("exambuddy").unwrap();
        let single = DeployedModule::new(&model, parts, StreamReaders::Single);
        let requests = |settings: &CostSettings| dollars(&estimated(settings), "Lambda requests").unwrap();
        let separate = settings(&parts);
        let difference = requests(&separate) - requests(&CostSettings { module: single, ..separate.clone() });
        assert!((difference - 10.0 * TIMES * 0.2e-6).abs() < 1e-9, "{difference}");
    }

    #[test]
    fn what_is_not_deployed_costs_nothing() {
        let estimate = estimated(&settings(&[]));
        let parts: Vec<_> = estimate.parts.iter().map(|line| &*line.part).collect();
        let others = ["Firehose", "CloudFront", "Secrets", "Athena", "S3"];
        assert!(!parts.iter().any(|part| others.iter().any(|other| part.contains(other))), "{parts:?}");
    }

    #[test]
    fn storage_grows_with_the_months() {
        let of_month = |month| {
            let settings = CostSettings { month, ..settings(&EVERYTHING) };
            dollars(&estimated(&settings), "S3: archive").unwrap()
        };
        assert!((of_month(12.0) - 12.0 * of_month(1.0)).abs() < 1e-9);
    }
}
