//! The values to derive from the marketplace's table, computed without the model.

use std::collections::BTreeMap;

use jiff::Timestamp;
use jiff::tz::TimeZone;

use crate::exact::ExactNumber;
use crate::item::{SdkItem, TableItem, number_of, text_of};
use crate::recount::{Recount, RollupSums, WorkloadOutcome, after, member};
use crate::rollups::{RollupKey, number};

/// The city and the time zone of each restaurant.
type RestaurantPlaces = BTreeMap<String, (String, String)>;

const OPEN: [&str; 3] = ["PLACED", "COOKING", "ON_ITS_WAY"];

pub(super) fn recount(outcome: &WorkloadOutcome) -> Recount {
    let restaurants = outcome.images.iter().filter_map(|image| place(&image.item));
    let places: RestaurantPlaces = restaurants.collect();
    let mut recount = Recount::of(outcome, |sums, TableItem { item, .. }| {
        let sort = text_of(item, "SK");
        if sort.starts_with("ORDER#") && text_of(item, "status") != "CANCELLED" {
            count_order(sums, item, &places);
        }
        // A cart that has expired is not counted any more.
        if let (Some(restaurant), false) = (after(sort, "CART#"), sums.expired) {
            let key = RollupKey::new(format!("RESTAURANT#{restaurant}"), "ROLLUP#CARTS");
            sums.add(key, &[("carts", ExactNumber::one()), ("amount", amount(item))]);
        }
    });
    recount.average("average_order", "revenue", "orders");
    for (key, measures) in &mut recount.rollups {
        // Days have no average.
        if key.1 != "ROLLUP#TOTAL" {
            measures.remove("average_order");
        }
    }
    recount.count_members("customers");
    count_levels(&mut recount);
    outcome.items.iter().for_each(|stored| mirror(&stored.item, &mut recount));
    recount
}

/// A restaurant with its city and its time zone.
fn place(item: &SdkItem) -> Option<(String, (String, String))> {
    let restaurant = after(text_of(item, "PK"), "RESTAURANT#")?;
    let text = |name| text_of(item, name).to_owned();
    Some((restaurant.to_owned(), (text("city"), text("time_zone"))))
}

/// The total of an order or a cart: a number, or a text that is one.
fn amount(item: &SdkItem) -> ExactNumber {
    number_of(item, "total").or_else(|| ExactNumber::parse(text_of(item, "total"))).unwrap_or_default()
}

/// The date of a time on the clocks of a time zone.
fn local_day(time: &str, time_zone: &str) -> String {
    let zoned = || Some(time.parse::<Timestamp>().ok()?.to_zoned(TimeZone::get(time_zone).ok()?));
    zoned().map_or_else(String::new, |zoned| zoned.strftime("%Y-%m-%d").to_string())
}

fn count_order(sums: &mut RollupSums<'_>, item: &SdkItem, places: &RestaurantPlaces) {
    let customer = after(text_of(item, "PK"), "CUSTOMER#").unwrap_or_default();
    let (restaurant, promo) = (text_of(item, "restaurant"), text_of(item, "promo"));
    let (one, total) = (ExactNumber::one, amount(item));
    let sold = [("orders", one()), ("revenue", total.clone())];
    let mut add = |key: RollupKey, measures: &[(&str, ExactNumber)], counts_customers: bool| {
        if counts_customers {
            sums.add(member(&key, "customers", customer), &[("count", one())]);
        }
        sums.add(key, measures);
    };
    let open = OPEN.contains(&text_of(item, "status"));
    let of_restaurant = [&sold[..], &[("open", open.into())]].concat();
    add(RollupKey::new(format!("RESTAURANT#{restaurant}"), "ROLLUP#TOTAL"), &of_restaurant, true);
    if let Some((city, time_zone)) = places.get(restaurant) {
        let day = local_day(text_of(item, "placed_at"), time_zone);
        add(RollupKey::new(format!("CITY#{city}"), format!("DAY#{day}")), &sold, true);
        add(RollupKey::new(format!("CITY#{city}#{day}"), format!("RESTAURANT#{restaurant}")), &sold, false);
    }
    add(orders_of(customer), &[("orders", one()), ("spent", total)], false);
    if !promo.is_empty() {
        add(uses_of(promo), &[("uses", one())], true);
    }
}

fn orders_of(customer: &str) -> RollupKey {
    RollupKey::new(format!("CUSTOMER#{customer}"), "ROLLUP#ORDERS")
}

fn uses_of(promo: &str) -> RollupKey {
    RollupKey::new(format!("PROMO#{promo}"), "ROLLUP#USES")
}

/// Local days make months, and customers with orders are customers.
fn count_levels(recount: &mut Recount) {
    recount.above(|sums, below| {
        for (key, measures) in below {
            let orders = number(measures, "orders");
            if orders == ExactNumber::ZERO {
                continue;
            }
            if let (true, Some(day)) = (key.0.starts_with("CITY#"), after(&key.1, "DAY#")) {
                let month = RollupKey::new(&key.0, format!("MONTH#{}", day.get(..7).unwrap_or_default()));
                let revenue = number(measures, "revenue");
                sums.add(month, &[("days", ExactNumber::one()), ("orders", orders), ("revenue", revenue)]);
            } else if key.1 == "ROLLUP#ORDERS" {
                let regular = orders >= 5.into();
                let measures = [
                    ("customers", ExactNumber::one()),
                    ("regulars", regular.into()),
                    ("spent", number(measures, "spent")),
                ];
                sums.add(RollupKey::new("CUSTOMERS", "ROLLUP"), &measures);
            }
        }
    });
}

fn mirror(item: &SdkItem, recount: &mut Recount) {
    let (partition, sort) = (text_of(item, "PK"), text_of(item, "SK"));
    let place = format!("{partition} {sort}");
    let (key, shown) = match (partition.split_once('#'), sort) {
        (Some(("RESTAURANT", _)), "RESTAURANT") => {
            let shown = [("open_orders", "open"), ("customer_count", "customers")];
            (RollupKey::new(partition, "ROLLUP#TOTAL"), shown.to_vec())
        }
        (Some(("CUSTOMER", customer)), "CUSTOMER") => {
            (orders_of(customer), vec![("order_count", "orders"), ("spent", "spent")])
        }
        (Some(("PROMO", promo)), "PROMO") => (uses_of(promo), vec![("uses", "uses")]),
        _ => return,
    };
    for (path, measure) in shown {
        recount.mirror(&place, item, path, recount.sum(&key, measure));
    }
}
