//! A month of an online shop in the layout of "The DynamoDB Book": customers, orders, order items.

mod customers;
mod items;
mod recount;

use fastrand::Rng;
use jiff::Timestamp;

use self::customers::CustomerWriter;
use self::items::TABLE;
use super::tools::{CHART_ROWS, LANES, play, share, short_id, single_table};
use crate::chart::{Chart, cells};
use crate::rollups::{RollupSet, number};
use crate::script::Script;
use crate::workload::{Workload, WorkloadQuestion};

pub(super) const WORKLOAD: Workload = Workload {
    model: "ecommerce",
    about: "A month of orders",
    unit: "orders that are placed",
    // An order is about four items.
    usual_size: 1000,
    questions: &[WorkloadQuestion::Saved("best_sellers"), WorkloadQuestion::Saved("orders_by_status")],
    tables: || single_table(TABLE, &["GSI1"]),
    script,
    recount: recount::recount,
    archived_rollup: |_, _| false,
    charts: |_, rollups| vec![customers(rollups), sales(rollups)],
};

fn script(mut random: Rng, size: u64, now: Timestamp) -> Script {
    let writers = (0..LANES).map(|lane| {
        let customers = share(size.div_ceil(8).max(8), LANES, lane);
        let customers = (0..customers).map(|_| format!("customer-{}", short_id(&mut random))).collect();
        CustomerWriter { random: random.fork(), customers, now }
    });
    play(size, writers.collect(), None)
}

fn customers(rollups: &RollupSet) -> Chart {
    let columns = ["customer", "orders", "last order", "average", "spent"];
    let mut chart = Chart::new("The customers that spent most", &columns);
    for (customer, measures) in rollups.each("CUSTOMER#", "ROLLUP#ORDERS") {
        let names = ["order_count", "last_order_day", "average_order", "total_spent"];
        chart.add_bar(cells(customer, measures, &names, ""), number(measures, "total_spent"));
    }
    chart.top(CHART_ROWS)
}

fn sales(rollups: &RollupSet) -> Chart {
    let mut chart = Chart::new("The items with the highest revenue", &["item", "lines", "units", "revenue"]);
    for (item, measures) in rollups.each("ITEM#", "ROLLUP#SALES") {
        let names = ["order_lines", "units", "revenue"];
        chart.add_bar(cells(item, measures, &names, "0"), number(measures, "revenue"));
    }
    chart.top(CHART_ROWS)
}
