//! A month of a food-delivery marketplace: customers fill carts and order, restaurants in several time zones cook.

mod customers;
mod operator;
mod recount;

use fastrand::Rng;
use jiff::Timestamp;

use self::customers::DinerWriter;
use self::operator::MarketOperator;
use super::tools::{CHART_ROWS, LANES, play, share, short_id, single_table};
use crate::chart::{Chart, cells};
use crate::rollups::{RollupSet, number};
use crate::script::Script;
use crate::workload::{Workload, WorkloadQuestion};

/// The table's name, as the model knows it.
const TABLE: &str = "MarketplaceTable";
/// Restaurants with their cities and time zones.
const RESTAURANTS: [(&str, &str, &str); 7] = [
    ("azulejo", "lisbon", "Europe/Lisbon"),
    ("sardinha", "lisbon", "Europe/Lisbon"),
    ("deep-dish", "chicago", "America/Chicago"),
    ("noodle-loop", "chicago", "America/Chicago"),
    ("thali-house", "kolkata", "Asia/Kolkata"),
    ("kati-roll", "kolkata", "Asia/Kolkata"),
    ("harbour-pie", "auckland", "Pacific/Auckland"),
];
const PROMOS: [&str; 3] = ["FREESHIP", "HELLO10", "SPRING"];

pub(super) const WORKLOAD: Workload = Workload {
    model: "marketplace",
    about: "A month of a food-delivery marketplace",
    unit: "orders that are placed",
    usual_size: 1000,
    questions: &[WorkloadQuestion::Saved("orders_by_status")],
    tables: || single_table(TABLE, &[]),
    script,
    recount: recount::recount,
    archived_rollup: |partition, sort| partition.starts_with("PROMO#") && sort == "ROLLUP#USES",
    charts: |_, rollups| vec![restaurants(rollups), months(rollups)],
};

fn script(mut random: Rng, size: u64, now: Timestamp) -> Script {
    let writers = (0..LANES).map(|lane| {
        let customers = share(size.div_ceil(5).max(16), LANES, lane);
        let customers = (0..customers).map(|_| format!("customer-{}", short_id(&mut random))).collect();
        DinerWriter { random: random.fork(), customers, now }
    });
    let writers = writers.collect();
    play(size, writers, Some(&mut MarketOperator { random: random.fork() }))
}

fn restaurants(rollups: &RollupSet) -> Chart {
    let columns = ["restaurant", "open", "orders", "customers", "average order", "revenue"];
    let mut chart = Chart::new("The restaurants with the highest revenue", &columns);
    for (restaurant, measures) in rollups.each("RESTAURANT#", "ROLLUP#TOTAL") {
        let names = ["open", "orders", "customers", "average_order", "revenue"];
        chart.add_bar(cells(restaurant, measures, &names, "0"), number(measures, "revenue"));
    }
    chart.top(CHART_ROWS)
}

/// The local months of the cities, made of their local days.
fn months(rollups: &RollupSet) -> Chart {
    let mut chart = Chart::new("The months of the cities", &["city and month", "days", "orders", "revenue"]);
    for (key, measures) in &rollups.0 {
        let Some(month) = key.1.strip_prefix("MONTH#") else { continue };
        let subject = format!("{} {month}", key.0.trim_start_matches("CITY#"));
        chart.add_bar(
            cells(&subject, measures, &["days", "orders", "revenue"], "0"),
            number(measures, "revenue"),
        );
    }
    chart.top(CHART_ROWS)
}
