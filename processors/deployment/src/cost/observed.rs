//! Metrics, alarms and the dashboard: their lines, and the rate below which they cost more than everything else.

use afterwrite_operations::jobs::approximate;

use super::deployed::{DeployedModule, Observability};
use super::line::{CostLine, line};
use super::month::ratio;
use super::prices::PriceList;

/// The lines of a deployment's metrics, alarms and dashboard.
pub(super) fn lines(module: &DeployedModule, prices: &PriceList) -> Vec<CostLine> {
    let dashboards = match module.observability {
        Observability::Full => 1.0,
        Observability::Minimal => 0.0,
    };
    vec![
        line("CloudWatch metrics", "metrics", approximate(module.metrics()), prices.metric_month),
        line("CloudWatch alarms", "alarms", approximate(module.alarms()), prices.alarm_month),
        line("CloudWatch dashboard", "dashboards", dashboards, prices.dashboard_month),
    ]
}

pub(super) fn dollars(module: &DeployedModule, prices: &PriceList) -> f64 {
    lines(module, prices).iter().map(|line| line.dollars).sum()
}

/// Both levels in words. `rest` is the cost of everything else at this rate of records a second.
pub(super) fn assumption(module: &DeployedModule, prices: &PriceList, rest: f64, rate: f64) -> String {
    let of = |observability| dollars(&module.clone().observed(observability), prices);
    let (full, minimal) = (of(Observability::Full), of(Observability::Minimal));
    let below = rate * ratio(full, rest);
    format!(
        "Metrics, alarms and dashboard cost ${full:.2} with observability = \"full\", and ${minimal:.2} with \"minimal\", which has an alarm for every way of losing data. Below about {below:.1} records a second, \"full\" costs more than everything else: \"minimal\" is meant for these."
    )
}
