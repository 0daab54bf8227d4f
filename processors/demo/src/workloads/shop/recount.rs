//! The values to derive from the shop's items, computed without the model.

use crate::exact::ExactNumber;
use crate::item::{ItemValue, SdkItem, TableItem, number_of, text_of};
use crate::recount::{ExtremeRule, Recount, WorkloadOutcome, after};
use crate::rollups::RollupKey;
use crate::workloads::tools::start_of_hour;

const DAY_SECONDS: i64 = 86_400;

pub(super) fn recount(outcome: &WorkloadOutcome) -> Recount {
    let mut recount = Recount::of(outcome, |sums, TableItem { item, .. }| {
        if let Some(ShopContribution { key, sums: measures, .. }) = contribution(item) {
            sums.add(key, &measures);
        }
    });
    for seen in outcome.images.iter().filter_map(|image| contribution(&image.item)) {
        for (name, value, rule) in seen.extremes {
            recount.see(&seen.key, name, value, rule);
        }
        if let Some(at) = seen.expires_at {
            recount.expire_at(seen.key, at);
        }
    }
    recount.drop_expired(outcome.now);
    recount.average("ratingAvg", "ratingSum", "reviewCount");
    recount.average("avgTemperature", "temperatureSum", "readingCount");
    outcome.items.iter().for_each(|stored| mirror(&stored.item, &mut recount));
    recount
}

/// The contribution of an item to its rollup.
struct ShopContribution {
    key: RollupKey,
    sums: [(&'static str, ExactNumber); 2],
    /// Values that never go back: the last order, and the coldest and warmest temperatures.
    extremes: Vec<(&'static str, ItemValue, ExtremeRule)>,
    expires_at: Option<i64>,
}

/// Reads an item's contribution. Items that are marked as deleted count nowhere; nor do cancelled orders.
fn contribution(item: &SdkItem) -> Option<ShopContribution> {
    let (partition, sort) = (text_of(item, "PK").split_once('#')?, text_of(item, "SK").split_once('#')?);
    let status = text_of(item, "status");
    let sum = |name: &str| number_of(item, name).unwrap_or_default();
    let (one, mut extremes, mut expires_at) = (ExactNumber::one(), Vec::new(), None);
    let (key, sums) = match (partition, sort) {
        (("USER", customer), ("ORDER", _)) if status != "CANCELLED" => {
            let day = ItemValue::Text(text_of(item, "orderDate").get(..10).unwrap_or_default().to_owned());
            extremes.push(("lastOrderDate", day, ExtremeRule::Largest));
            (orders(customer), [("orderCount", one), ("totalSpent", sum("total"))])
        }
        (("ORDER", order), ("ITEM", _)) => {
            let subtotal = sum("quantity").times(&sum("price"));
            (lines(order), [("itemCount", sum("quantity")), ("subtotal", subtotal)])
        }
        (("PRODUCT", product), ("REVIEW", _)) => {
            (reviews(product), [("reviewCount", one), ("ratingSum", sum("rating"))])
        }
        (("SENSOR", rest), ("TIMESTAMP", _)) => {
            let (sensor, hour) = rest.split_once("#HOUR#")?;
            let temperature = ItemValue::Number(sum("temperature"));
            extremes.push(("minTemperature", temperature.clone(), ExtremeRule::Smallest));
            extremes.push(("maxTemperature", temperature, ExtremeRule::Largest));
            expires_at = start_of_hour(hour).map(|begun| begun + 30 * DAY_SECONDS);
            let key = RollupKey::new(format!("SENSOR#{sensor}#AGG#HOURLY"), format!("HOUR#{hour}"));
            (key, [("readingCount", one), ("temperatureSum", sum("temperature"))])
        }
        _ => return None,
    };
    (status != "DELETED").then_some(ShopContribution { key, sums, extremes, expires_at })
}

/// The rollup's measures that an own item of a customer, an order or a product shows: sums, and one computed value.
fn mirror(item: &SdkItem, recount: &mut Recount) {
    let (partition, sort) = (text_of(item, "PK"), text_of(item, "SK"));
    if sort != "METADATA" {
        return;
    }
    let (key, sums, computed) = if let Some(customer) = after(partition, "USER#") {
        (orders(customer), ["orderCount", "totalSpent"], Some("lastOrderDate"))
    } else if let Some(order) = after(partition, "ORDER#") {
        (lines(order), ["itemCount", "subtotal"], None)
    } else if let Some(product) = after(partition, "PRODUCT#") {
        (reviews(product), ["reviewCount", "ratingSum"], Some("ratingAvg"))
    } else {
        return;
    };
    let place = format!("{partition} {sort}");
    for name in sums {
        recount.mirror(&place, item, name, recount.sum(&key, name));
    }
    if let Some(name) = computed {
        recount.mirror(&place, item, name, recount.computed(&key, name));
    }
}

fn orders(customer: &str) -> RollupKey {
    RollupKey::new(format!("USER#{customer}"), "ROLLUP#ORDERS")
}

fn lines(order: &str) -> RollupKey {
    RollupKey::new(format!("ORDER#{order}"), "ROLLUP#ITEMS")
}

fn reviews(product: &str) -> RollupKey {
    RollupKey::new(format!("PRODUCT#{product}"), "ROLLUP#REVIEWS")
}
