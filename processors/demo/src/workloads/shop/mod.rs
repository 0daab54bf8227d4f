//! A shop's month: customers order and review, products come and go, sensors watch the warehouse.

mod customer;
mod items;
mod recount;
mod warehouse;

use fastrand::Rng;

use self::customer::{Clerk, Customer};
use self::items::{Product, TABLE};
use self::warehouse::Warehouse;
use super::tools::{play, share, time};
use super::{LANES, Question, Workload};
use crate::chart::Chart;
use crate::exact::Exact;
use crate::item::{Value, text_of};
use crate::recount::{Counted, Outcome};
use crate::rollups::{Measures, Rollups, number};
use crate::script::Script;
use afterwrite_local::dynamodb::{KeyDefinition, TableDefinition};

const SHOWN: usize = 10;

/// The shop.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shop;

impl Workload for Shop {
    fn model(&self) -> &'static str {
        "shop"
    }

    fn about(&self) -> &'static str {
        "A month of a shop"
    }

    fn unit(&self) -> &'static str {
        "orders"
    }

    /// An order is some nine items.
    fn usual_size(&self) -> u64 {
        1000
    }

    fn tables(&self) -> Vec<TableDefinition> {
        let index = ("GSI1", KeyDefinition::new("GSI1PK", "GSI1SK"));
        vec![super::tools::table(TABLE, KeyDefinition::new("PK", "SK"), &[index], true)]
    }

    fn script(&self, seed: u64, size: u64, now: i64) -> Script {
        let (mut random, now) = (Rng::with_seed(seed), time(now));
        let products = Product::some(&mut random, 12);
        let clerks = (0..LANES).map(|number| {
            let customers = share(size.div_ceil(12).max(4), LANES, number);
            let customers = (0..customers).map(|_| Customer::new(&mut random)).collect();
            Clerk::new(random.fork(), customers, products.clone(), now)
        });
        let clerks: Vec<Clerk> = clerks.collect();
        play(size, clerks, Some(&mut Warehouse::new(random.fork(), products, now)))
    }

    fn recount(&self, outcome: &Outcome) -> Counted {
        recount::recount(outcome)
    }

    fn charts(&self, outcome: &Outcome, rollups: &Rollups) -> Vec<Chart> {
        vec![customers(rollups), products(outcome, rollups), hours(rollups)]
    }

    fn questions(&self) -> &'static [Question] {
        &[
            Question::Sql(
                "Orders and revenue by status",
                "SELECT status, count(*) AS orders, sum(total) AS total FROM orders GROUP BY status ORDER BY orders DESC",
            ),
            Question::Sql(
                "Products by their reviews",
                "SELECT product_id, count(*) AS reviews, avg(rating) AS average FROM reviews \
                 WHERE coalesce(status, '') <> 'DELETED' GROUP BY product_id ORDER BY average DESC LIMIT 5",
            ),
        ]
    }
}

fn said(measures: &Measures, name: &str) -> String {
    measures.get(name).map_or_else(String::new, Value::to_string)
}

fn customers(rollups: &Rollups) -> Chart {
    let columns = ["customer", "orders", "last order", "spent"];
    let mut chart = Chart::new("The customers that spent most", &columns);
    for (customer, measures) in rollups.each("USER#", "ROLLUP#ORDERS") {
        let cells = ["orderCount", "lastOrderDate", "totalSpent"].map(|name| said(measures, name));
        let cells = std::iter::once(customer.to_owned()).chain(cells).collect();
        chart.bar(cells, number(measures, "totalSpent"));
    }
    chart.top(SHOWN)
}

fn products(outcome: &Outcome, rollups: &Rollups) -> Chart {
    let mut chart = Chart::new("The best products", &["product", "category", "reviews", "average"]);
    let items = outcome.items.iter().map(|placed| &placed.item);
    for item in items.filter(|item| text_of(item, "SK") == "METADATA") {
        let Some(product) = text_of(item, "PK").strip_prefix("PRODUCT#") else { continue };
        let key = crate::recount::Key::new(format!("PRODUCT#{product}"), "ROLLUP#REVIEWS");
        let Some(measures) = rollups.get(&key) else { continue };
        let (name, category) = (text_of(item, "name"), text_of(item, "category"));
        let mut cells = vec![name.to_owned(), category.to_owned()];
        cells.extend(["reviewCount", "ratingAvg"].map(|name| said(measures, name)));
        chart.bar(cells, number(measures, "ratingAvg"));
    }
    chart.top(SHOWN)
}

/// The last hours of the sensor with the most readings.
fn hours(rollups: &Rollups) -> Chart {
    let sensors = (1..=warehouse::SENSORS).map(|sensor| format!("SENSOR#S{sensor}#AGG#HOURLY"));
    let readings = |partition: &String| -> Exact {
        rollups.query(partition, "HOUR#").map(|(_, measures)| number(measures, "readingCount")).sum()
    };
    let busiest = sensors.max_by_key(readings).unwrap_or_default();
    let columns = ["hour", "readings", "coldest", "average", "warmest"];
    let mut chart = Chart::new(format!("The last hours of {busiest} (one query)"), &columns);
    let hours: Vec<_> = rollups.query(&busiest, "HOUR#").collect();
    for (hour, measures) in hours.iter().rev().take(SHOWN).rev() {
        let names = ["readingCount", "minTemperature", "avgTemperature", "maxTemperature"];
        let mut cells = vec![(*hour).to_owned()];
        cells.extend(names.map(|name| said(measures, name)));
        chart.bar(cells, number(measures, "readingCount"));
    }
    chart
}
