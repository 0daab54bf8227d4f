//! A month of a metered service: tenants call its APIs, and buy quotas.

mod bins;
mod gateway;
mod recount;

use fastrand::Rng;
use jiff::Timestamp;

use self::gateway::{APIS, GatewayWriter, TABLE};
use super::tools::{CHART_ROWS, LANES, play, share, short_id, single_table};
use crate::chart::{Chart, cells};
use crate::rollups::{RollupSet, number};
use crate::script::Script;
use crate::workload::{Workload, WorkloadQuestion};

pub(super) const WORKLOAD: Workload = Workload {
    model: "metering",
    about: "A month of a metered service",
    unit: "calls of APIs",
    usual_size: 2000,
    questions: &[WorkloadQuestion::Saved("calls_by_tenant")],
    tables: || single_table(TABLE, &[]),
    script,
    recount: recount::recount,
    archived_rollup: |_, _| false,
    charts: |_, rollups| vec![months(rollups), latencies(rollups)],
};

fn script(mut random: Rng, size: u64, now: Timestamp) -> Script {
    let writers = (0..LANES).map(|lane| {
        let tenants = share(size.div_ceil(100).max(8), LANES, lane);
        let tenants = (0..tenants).map(|_| format!("tenant-{}", short_id(&mut random))).collect();
        GatewayWriter { random: random.fork(), tenants, now }
    });
    play(size, writers.collect(), None)
}

/// The tenants' bills.
fn months(rollups: &RollupSet) -> Chart {
    let columns = ["tenant and month", "calls", "errors", "error rate", "units"];
    let mut chart = Chart::new("The largest bills", &columns);
    for (key, measures) in &rollups.0 {
        let Some(month) = key.1.strip_prefix("ROLLUP#MONTH#") else { continue };
        let subject = format!("{} {month}", key.0.trim_start_matches("TENANT#"));
        let names = ["calls", "errors", "error_rate", "units"];
        chart.add_bar(cells(&subject, measures, &names, "0"), number(measures, "units"));
    }
    chart.top(CHART_ROWS)
}

/// The slowest days of all tenants and APIs.
fn latencies(rollups: &RollupSet) -> Chart {
    let columns = ["tenant, API and day", "calls", "p50", "p95", "p99"];
    let mut chart = Chart::new(format!("The slowest days of {} APIs, in ms", APIS.len()), &columns);
    for (key, measures) in &rollups.0 {
        let Some(day) = key.1.strip_prefix("DAY#") else { continue };
        let subject = format!("{} {day}", key.0.trim_start_matches("TENANT#"));
        chart
            .add_bar(cells(&subject, measures, &["calls", "p50", "p95", "p99"], ""), number(measures, "p95"));
    }
    chart.top(CHART_ROWS)
}
