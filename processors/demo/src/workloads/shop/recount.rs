//! What must be derived of the shop's items, found out by hand.

use super::super::tools::hour_of;
use crate::exact::Exact;
use crate::item::{Item, Placed, Value, number_of, text_of};
use crate::recount::{Countable, Counted, Keep, Key, Outcome, within};

const DAY: i64 = 86_400;

pub(super) fn recount(outcome: &Outcome) -> Counted {
    let mut counted = Counted::default();
    for Countable { item, expired, .. } in outcome.countable().filter(|countable| is_counted(countable.item))
    {
        match kind(item) {
            Kind::Order { customer } => {
                let total = number_of(item, "total").unwrap_or_default();
                let measures = [("orderCount", Exact::ONE), ("totalSpent", total)];
                counted.add(&orders(customer), &measures, expired);
            }
            Kind::Line { order } => {
                let quantity = number_of(item, "quantity").unwrap_or_default();
                let price = number_of(item, "price").unwrap_or_default();
                let measures = [("itemCount", quantity), ("subtotal", quantity.times(price))];
                counted.add(&lines(order), &measures, expired);
            }
            Kind::Review { product } => {
                let rating = number_of(item, "rating").unwrap_or_default();
                let measures = [("reviewCount", Exact::ONE), ("ratingSum", rating)];
                counted.add(&reviews(product), &measures, expired);
            }
            Kind::Reading { sensor, hour } => {
                let temperature = number_of(item, "temperature").unwrap_or_default();
                let measures = [("readingCount", Exact::ONE), ("temperatureSum", temperature)];
                counted.add(&sensor_hour(sensor, hour), &measures, expired);
            }
            Kind::Other => {}
        }
    }
    outcome
        .images
        .iter()
        .filter(|placed| is_counted(&placed.item))
        .for_each(|placed| see(placed, &mut counted));
    counted.drop_expired(outcome.now);
    counted.average("ratingAvg", "ratingSum", "reviewCount");
    counted.average("avgTemperature", "temperatureSum", "readingCount");
    outcome.items.iter().for_each(|placed| show(&placed.item, &mut counted));
    counted
}

/// What an order, a line, a review or a reading is of.
enum Kind<'i> {
    Order { customer: &'i str },
    Line { order: &'i str },
    Review { product: &'i str },
    Reading { sensor: &'i str, hour: &'i str },
    Other,
}

fn kind(item: &Item) -> Kind<'_> {
    let (partition, sort) = (text_of(item, "PK"), text_of(item, "SK"));
    match (partition.split_once('#'), sort.split_once('#')) {
        (Some(("USER", customer)), Some(("ORDER", _))) => Kind::Order { customer },
        (Some(("ORDER", order)), Some(("ITEM", _))) => Kind::Line { order },
        (Some(("PRODUCT", product)), Some(("REVIEW", _))) => Kind::Review { product },
        (Some(("SENSOR", rest)), Some(("TIMESTAMP", _))) => match rest.split_once("#HOUR#") {
            Some((sensor, hour)) => Kind::Reading { sensor, hour },
            None => Kind::Other,
        },
        _ => Kind::Other,
    }
}

/// What was deleted softly counts nowhere, and a cancelled order not either.
fn is_counted(item: &Item) -> bool {
    match (text_of(item, "status"), kind(item)) {
        ("DELETED", _) | ("CANCELLED", Kind::Order { .. }) => false,
        (
            _,
            Kind::Order { .. } | Kind::Line { .. } | Kind::Review { .. } | Kind::Reading { .. } | Kind::Other,
        ) => true,
    }
}

/// What does not retract: the last order, and how cold and warm it has been.
fn see(Placed { item, .. }: &Placed, counted: &mut Counted) {
    match kind(item) {
        Kind::Order { customer } => {
            let day = text_of(item, "orderDate").get(..10).unwrap_or_default();
            counted.see(&orders(customer), "lastOrderDate", Value::Text(day.to_owned()), Keep::Largest);
        }
        Kind::Reading { sensor, hour } => {
            let key = sensor_hour(sensor, hour);
            let temperature = Value::Number(number_of(item, "temperature").unwrap_or_default());
            counted.see(&key, "minTemperature", temperature.clone(), Keep::Smallest);
            counted.see(&key, "maxTemperature", temperature, Keep::Largest);
            if let Some(begun) = hour_of(hour) {
                counted.expiries.insert(key, begun + 30 * DAY);
            }
        }
        Kind::Line { .. } | Kind::Review { .. } | Kind::Other => {}
    }
}

fn show(item: &Item, counted: &mut Counted) {
    let (partition, sort) = (text_of(item, "PK"), text_of(item, "SK"));
    let place = format!("{partition} {sort}");
    let mut sums = |key: &Key, names: [&str; 2]| {
        for name in names {
            counted.show(&place, item, name, counted.sum(key, name));
        }
    };
    if sort != "METADATA" {
        return;
    }
    if let Some(customer) = within(partition, "USER#", "") {
        let key = orders(customer);
        sums(&key, ["orderCount", "totalSpent"]);
        counted.show(&place, item, "lastOrderDate", counted.computed(&key, "lastOrderDate"));
    } else if let Some(order) = within(partition, "ORDER#", "") {
        sums(&lines(order), ["itemCount", "subtotal"]);
    } else if let Some(product) = within(partition, "PRODUCT#", "") {
        let key = reviews(product);
        sums(&key, ["reviewCount", "ratingSum"]);
        counted.show(&place, item, "ratingAvg", counted.computed(&key, "ratingAvg"));
    }
}

fn orders(customer: &str) -> Key {
    Key::new(format!("USER#{customer}"), "ROLLUP#ORDERS")
}

fn lines(order: &str) -> Key {
    Key::new(format!("ORDER#{order}"), "ROLLUP#ITEMS")
}

fn reviews(product: &str) -> Key {
    Key::new(format!("PRODUCT#{product}"), "ROLLUP#REVIEWS")
}

fn sensor_hour(sensor: &str, hour: &str) -> Key {
    Key::new(format!("SENSOR#{sensor}#AGG#HOURLY"), format!("HOUR#{hour}"))
}
