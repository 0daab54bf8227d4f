//! A month of a shop: customers order and review, products change, sensors watch the warehouse.

mod items;
mod orders;
mod recount;
mod warehouse;

use fastrand::Rng;
use jiff::Timestamp;

use self::items::{ShopProduct, TABLE};
use self::orders::{OrderClerk, ShopCustomer};
use self::warehouse::WarehouseWriter;
use super::tools::{CHART_ROWS, LANES, play, share, single_table};
use crate::chart::{Chart, cells};
use crate::exact::ExactNumber;
use crate::item::text_of;
use crate::recount::WorkloadOutcome;
use crate::rollups::{RollupKey, RollupSet, number};
use crate::script::Script;
use crate::workload::{Workload, WorkloadQuestion};

pub(super) const WORKLOAD: Workload = Workload {
    model: "shop",
    about: "A month of a shop",
    unit: "orders",
    // An order is about nine items.
    usual_size: 1000,
    questions: &[
        WorkloadQuestion::Sql(
            "Orders and revenue by status",
            "SELECT status, count(*) AS orders, sum(total) AS total FROM orders GROUP BY status ORDER BY orders DESC",
        ),
        WorkloadQuestion::Sql(
            "Products by their reviews",
            "SELECT product_id, count(*) AS reviews, avg(rating) AS average FROM reviews \
             WHERE coalesce(status, '') <> 'DELETED' GROUP BY product_id ORDER BY average DESC LIMIT 5",
        ),
    ],
    tables: || single_table(TABLE, &["GSI1"]),
    script,
    recount: recount::recount,
    archived_rollup: |_, _| false,
    charts: |outcome, rollups| vec![customers(rollups), products(outcome, rollups), hours(rollups)],
};

fn script(mut random: Rng, size: u64, now: Timestamp) -> Script {
    let products = ShopProduct::some(&mut random, 12);
    let clerks = (0..LANES).map(|lane| {
        let customers = share(size.div_ceil(12).max(4), LANES, lane);
        let customers = (0..customers).map(|_| ShopCustomer::new(&mut random)).collect();
        let (random, products) = (random.fork(), products.clone());
        OrderClerk { random, customers, products, now, placing_again: Vec::new() }
    });
    let clerks = clerks.collect();
    play(size, clerks, Some(&mut WarehouseWriter::new(random.fork(), products, now)))
}

fn customers(rollups: &RollupSet) -> Chart {
    let columns = ["customer", "orders", "last order", "spent"];
    let mut chart = Chart::new("The customers that spent most", &columns);
    for (customer, measures) in rollups.each("USER#", "ROLLUP#ORDERS") {
        let cells = cells(customer, measures, &["orderCount", "lastOrderDate", "totalSpent"], "");
        chart.add_bar(cells, number(measures, "totalSpent"));
    }
    chart.top(CHART_ROWS)
}

fn products(outcome: &WorkloadOutcome, rollups: &RollupSet) -> Chart {
    let mut chart = Chart::new("The best products", &["product", "category", "reviews", "average"]);
    let items = outcome.items.iter().map(|stored| &stored.item);
    for item in items.filter(|item| text_of(item, "SK") == "METADATA") {
        let key = RollupKey::new(text_of(item, "PK"), "ROLLUP#REVIEWS");
        let Some(measures) = rollups.0.get(&key) else { continue };
        let mut cells = cells(text_of(item, "name"), measures, &["reviewCount", "ratingAvg"], "");
        cells.insert(1, text_of(item, "category").to_owned());
        chart.add_bar(cells, number(measures, "ratingAvg"));
    }
    chart.top(CHART_ROWS)
}

/// The last hours of the sensor with the most readings.
fn hours(rollups: &RollupSet) -> Chart {
    let sensors = (1..=warehouse::SENSORS).map(|sensor| format!("SENSOR#S{sensor}#AGG#HOURLY"));
    let readings = |partition: &String| {
        let hours = rollups.query(partition, "HOUR#").map(|(_, hour)| number(hour, "readingCount"));
        hours.fold(ExactNumber::ZERO, |sum, count| sum.plus(&count))
    };
    let busiest = sensors.max_by_key(readings).unwrap_or_default();
    let columns = ["hour", "readings", "coldest", "average", "warmest"];
    let mut chart = Chart::new(format!("The last hours of {busiest} (one query)"), &columns);
    for (hour, measures) in rollups.query(&busiest, "HOUR#").rev().take(CHART_ROWS) {
        let names = ["readingCount", "minTemperature", "avgTemperature", "maxTemperature"];
        chart.add_bar(cells(hour, measures, &names, ""), number(measures, "readingCount"));
    }
    chart.rows.reverse();
    chart
}
