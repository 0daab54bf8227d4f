//! The values to derive from the shop's items, computed without the model.

use crate::exact::ExactNumber;
use crate::item::{ItemValue, SdkItem, TableItem, number_of, text_of};
use crate::recount::{ExtremeRule, Recount, RollupSums, WorkloadOutcome, after};
use crate::rollups::RollupKey;
use crate::workloads::tools::start_of_hour;

const DAY_SECONDS: i64 = 86_400;

pub(super) fn recount(outcome: &WorkloadOutcome) -> Recount {
    let mut recount = Recount::of(outcome, |sums, TableItem { item, .. }| {
        if is_counted(item) {
            count(item, sums);
        }
    });
    let images = outcome.images.iter().map(|image| &image.item);
    images.filter(|item| is_counted(item)).for_each(|item| see(item, &mut recount));
    recount.drop_expired(outcome.now);
    recount.average("ratingAvg", "ratingSum", "reviewCount");
    recount.average("avgTemperature", "temperatureSum", "readingCount");
    outcome.items.iter().for_each(|stored| mirror(&stored.item, &mut recount));
    recount
}

/// The kind of a counted item, and its subject.
enum ShopItem<'i> {
    Order { customer: &'i str },
    Line { order: &'i str },
    Review { product: &'i str },
    Reading { sensor: &'i str, hour: &'i str },
    Other,
}

fn kind(item: &SdkItem) -> ShopItem<'_> {
    let (partition, sort) = (text_of(item, "PK"), text_of(item, "SK"));
    match (partition.split_once('#'), sort.split_once('#')) {
        (Some(("USER", customer)), Some(("ORDER", _))) => ShopItem::Order { customer },
        (Some(("ORDER", order)), Some(("ITEM", _))) => ShopItem::Line { order },
        (Some(("PRODUCT", product)), Some(("REVIEW", _))) => ShopItem::Review { product },
        (Some(("SENSOR", rest)), Some(("TIMESTAMP", _))) => match rest.split_once("#HOUR#") {
            Some((sensor, hour)) => ShopItem::Reading { sensor, hour },
            None => ShopItem::Other,
        },
        _ => ShopItem::Other,
    }
}

/// Items that are marked as deleted count nowhere; nor do cancelled orders.
fn is_counted(item: &SdkItem) -> bool {
    match text_of(item, "status") {
        "DELETED" => false,
        "CANCELLED" => !matches!(kind(item), ShopItem::Order { .. }),
        _ => true,
    }
}

fn count(item: &SdkItem, sums: &mut RollupSums<'_>) {
    let sum = |name: &str| number_of(item, name).unwrap_or_default();
    let one = ExactNumber::one();
    match kind(item) {
        ShopItem::Order { customer } => {
            sums.add(orders(customer), &[("orderCount", one), ("totalSpent", sum("total"))]);
        }
        ShopItem::Line { order } => {
            let subtotal = sum("quantity").times(&sum("price"));
            sums.add(lines(order), &[("itemCount", sum("quantity")), ("subtotal", subtotal)]);
        }
        ShopItem::Review { product } => {
            sums.add(reviews(product), &[("reviewCount", one), ("ratingSum", sum("rating"))]);
        }
        ShopItem::Reading { sensor, hour } => {
            let measures = [("readingCount", one), ("temperatureSum", sum("temperature"))];
            sums.add(sensor_hour(sensor, hour), &measures);
        }
        ShopItem::Other => {}
    }
}

/// Sees what never goes back: the last order, and the coldest and warmest temperatures.
fn see(item: &SdkItem, recount: &mut Recount) {
    match kind(item) {
        ShopItem::Order { customer } => {
            let day = ItemValue::Text(text_of(item, "orderDate").get(..10).unwrap_or_default().to_owned());
            recount.see(&orders(customer), "lastOrderDate", day, ExtremeRule::Largest);
        }
        ShopItem::Reading { sensor, hour } => {
            let key = sensor_hour(sensor, hour);
            let temperature = ItemValue::Number(number_of(item, "temperature").unwrap_or_default());
            recount.see(&key, "minTemperature", temperature.clone(), ExtremeRule::Smallest);
            recount.see(&key, "maxTemperature", temperature, ExtremeRule::Largest);
            if let Some(begun) = start_of_hour(hour) {
                recount.expire_at(key, begun + 30 * DAY_SECONDS);
            }
        }
        ShopItem::Line { .. } | ShopItem::Review { .. } | ShopItem::Other => {}
    }
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

fn sensor_hour(sensor: &str, hour: &str) -> RollupKey {
    RollupKey::new(format!("SENSOR#{sensor}#AGG#HOURLY"), format!("HOUR#{hour}"))
}
