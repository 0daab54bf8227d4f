//! shop: orders, reviews and readings are rows.

use afterwrite_demo::item::{SdkItem as Item, text_of};

use super::{ExpectedRow, key, present};

pub(super) fn cache_keys(_: &str, item: &Item) -> Vec<String> {
    let (partition, sort) = (text_of(item, "PK"), text_of(item, "SK"));
    let (kind, id) = partition.split_once('#').expect("a key");
    let customer = [text_of(item, "userId"), text_of(item, "user_identifier")];
    let customer = customer.into_iter().find(|name| !name.is_empty()).unwrap_or("");
    match (kind, sort.split('#').collect::<Vec<_>>().as_slice()) {
        ("USER", ["METADATA"]) => present([key(["user", id])]),
        ("USER", ["ORDER", _, order]) => present([key(["user", id, "orders"]), key(["order", order])]),
        ("ORDER", ["METADATA"]) => present([key(["user", customer, "orders"]), key(["order", id])]),
        ("ORDER", _) => present([key(["order", id])]),
        ("PRODUCT", ["METADATA"]) => {
            present([key(["product", id]), key(["category", text_of(item, "category")])])
        }
        ("PRODUCT", _) => present([key(["product", id, "reviews"])]),
        _ => Vec::new(),
    }
}

pub(super) fn row<'i>(_: &str, item: &'i Item) -> Option<ExpectedRow<'i>> {
    let (partition, sort) = (text_of(item, "PK"), text_of(item, "SK"));
    let (what, rest) = sort.split_once('#')?;
    let (of, id) = partition.split_once('#')?;
    let columns = match (of, what) {
        ("USER", "ORDER") => {
            let (date, order) = rest.split_once('#')?;
            ExpectedRow::of("orders", item, "orderDate")
                .text("order_id", Some(order))
                .text("user_id", Some(id))
                .text("listed_on", Some(date))
                .instant("ordered_at", "orderDate")
                .decimal("total", "total", 4)
                .scalar("status", "status")
        }
        ("PRODUCT", "REVIEW") => {
            let names = ["userId", "user_identifier"].map(|name| text_of(item, name));
            ExpectedRow::of("reviews", item, "reviewDate")
                .text("product_id", Some(id))
                .text("review_id", Some(rest))
                .text("user_id", names.into_iter().find(|name| !name.is_empty()))
                .scalar("user_name", "userName")
                .decimal("rating", "rating", 2)
                .scalar("review_text", "reviewText")
                .instant("reviewed_at", "reviewDate")
                .scalar("status", "status")
        }
        ("SENSOR", "TIMESTAMP") => {
            let (sensor, hour) = id.split_once("#HOUR#")?;
            ExpectedRow::of("readings", item, "timestamp")
                .text("sensor_id", Some(sensor))
                .text("hour", Some(hour))
                .text("reading_id", Some(rest))
                .instant("measured_at", "timestamp")
                .double("temperature", "temperature")
                .double("humidity", "humidity")
                .double("pressure", "pressure")
                .scalar("status", "status")
        }
        _ => return None,
    };
    Some(columns)
}
