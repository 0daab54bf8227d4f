//! Provisioned capacity of the state table, next to on-demand capacity: its cost, and the rate from which it is cheaper.

use serde::Serialize;

use super::figures as f;
use super::prices::PriceList;

/// The bounds and the target of `state_table_capacity` in `infra/variables.tf`.
const LEAST_UNITS: f64 = 5.0;
const INDEX_UNITS: f64 = 5.0;
const TARGET_USE: f64 = 0.70;
const HOUR_SECONDS: f64 = 3600.0;
const MILLION: f64 = 1e6;
/// The greatest factor of the rate at which provisioned capacity is searched to be cheaper.
const GREATEST_FACTOR: f64 = 1e9;

/// The units of a month.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct MonthUnits {
    pub(super) writes: f64,
    pub(super) reads: f64,
}

/// The capacity of the state table, priced in both ways.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct CapacityComparison {
    /// Dollars of writes and reads on demand.
    pub on_demand_dollars: f64,
    /// Dollars of the same with provisioned capacity and auto scaling.
    pub provisioned_dollars: f64,
    /// The write units a second, on average, from which provisioned capacity is cheaper.
    pub cheaper_from_write_units_a_second: f64,
}

impl CapacityComparison {
    /// Compares both for these units in a month.
    pub(super) fn of(units: MonthUnits, prices: &PriceList) -> Self {
        let factor = cheaper_from(units, prices);
        Self {
            on_demand_dollars: on_demand(units, 1.0, prices),
            provisioned_dollars: provisioned(units, 1.0, prices),
            cheaper_from_write_units_a_second: factor * units.writes / f::MONTH_SECONDS,
        }
    }

    /// The comparison in words; `None` if nothing is written.
    pub(super) fn assumption(self) -> Option<String> {
        let Self { on_demand_dollars, provisioned_dollars, cheaper_from_write_units_a_second } = self;
        (cheaper_from_write_units_a_second > 0.0).then(|| format!(
            "On demand, these writes and reads cost ${on_demand_dollars:.2}. With provisioned capacity and auto scaling (state_table_capacity, with its defaults) they cost ${provisioned_dollars:.2}, if the rate is steady: it is cheaper from {cheaper_from_write_units_a_second:.1} write units a second on."
        ))
    }
}

fn on_demand(units: MonthUnits, factor: f64, prices: &PriceList) -> f64 {
    let dollars = units.writes * prices.million_write_units + units.reads * prices.million_read_units;
    factor * dollars / MILLION
}

/// The capacity is at least the least, and otherwise what keeps its use at the target.
fn provisioned(units: MonthUnits, factor: f64, prices: &PriceList) -> f64 {
    let hours = f::MONTH_SECONDS / HOUR_SECONDS;
    let capacity = |month: f64| {
        let needed = factor * month / f::MONTH_SECONDS / TARGET_USE;
        needed.max(LEAST_UNITS) + INDEX_UNITS
    };
    hours
        * (capacity(units.writes) * prices.write_capacity_hour
            + capacity(units.reads) * prices.read_capacity_hour)
}

/// The factor of the rate from which provisioned capacity is cheaper: on-demand cost grows faster from there on.
fn cheaper_from(units: MonthUnits, prices: &PriceList) -> f64 {
    let is_cheaper = |factor: f64| provisioned(units, factor, prices) <= on_demand(units, factor, prices);
    let (mut dearer, mut cheaper) = (0.0, 1.0);
    while !is_cheaper(cheaper) {
        if cheaper > GREATEST_FACTOR {
            return 0.0;
        }
        dearer = cheaper;
        cheaper *= 2.0;
    }
    for _ in 0..60 {
        let between = f64::midpoint(dearer, cheaper);
        if is_cheaper(between) {
            cheaper = between;
        } else {
            dearer = between;
        }
    }
    cheaper
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(writes_a_second: f64) -> CapacityComparison {
        let units = MonthUnits {
            writes: writes_a_second * f::MONTH_SECONDS,
            reads: 2.0 * writes_a_second * f::MONTH_SECONDS,
        };
        CapacityComparison::of(units, &PriceList::built_in().unwrap())
    }

    #[test]
    fn a_million_provisioned_write_units_cost_about_twenty_six_cents() {
        let many = MonthUnits { writes: 1000.0 * f::MONTH_SECONDS, reads: 0.0 };
        let prices = PriceList::built_in().unwrap();
        let dollars = provisioned(many, 1.0, &prices) / (many.writes / MILLION);
        assert!((0.25..0.27).contains(&dollars), "{dollars}");
    }

    #[test]
    fn provisioned_capacity_is_cheaper_from_the_rate_that_is_named() {
        let from = of(1.0).cheaper_from_write_units_a_second;
        assert!((1.0..10.0).contains(&from), "{from}");
        // The rate of the trial makes no difference.
        assert!((of(100.0).cheaper_from_write_units_a_second - from).abs() < 0.01);
        let (below, above) = (of(from * 0.9), of(from * 1.1));
        assert!(below.provisioned_dollars > below.on_demand_dollars, "{below:?}");
        assert!(above.provisioned_dollars < above.on_demand_dollars, "{above:?}");
        let nothing =
            CapacityComparison::of(MonthUnits { writes: 0.0, reads: 0.0 }, &PriceList::built_in().unwrap());
        assert_eq!(nothing.on_demand_dollars, 0.0);
    }
}
