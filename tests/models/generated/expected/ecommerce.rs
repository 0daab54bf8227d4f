//! ecommerce: orders and order items are rows.

use afterwrite_demo::item::{SdkItem as Item, text_of};

use super::{ExpectedRow, key, present};

pub(super) fn cache_keys(_: &str, item: &Item) -> Vec<String> {
    let (kind, id) = text_of(item, "PK").split_once('#').expect("a key");
    match (kind, text_of(item, "SK").strip_prefix("#ORDER#")) {
        ("CUSTOMER", None) => present([key(["customer", id])]),
        ("CUSTOMER", Some(order)) => present([key(["customer", id, "orders"]), key(["order", order])]),
        ("ORDER", _) => present([key(["order", id])]),
        _ => Vec::new(),
    }
}

pub(super) fn row<'i>(_: &str, item: &'i Item) -> Option<ExpectedRow<'i>> {
    let sort = text_of(item, "SK");
    let (kind, id) = text_of(item, "PK").split_once('#')?;
    let columns = match (kind, sort.strip_prefix("#ORDER#")) {
        ("CUSTOMER", Some(_)) if text_of(item, "status") == "CART" => return None,
        ("CUSTOMER", Some(order)) => ExpectedRow::of("orders", item, "created_at")
            .text("order_id", Some(order))
            .text("username", Some(id))
            .instant("created_at", "created_at")
            .scalar("status", "status")
            .scalar("number_of_items", "number_of_items")
            .decimal("amount", "amount", 4),
        // The exporter has no state table here: the order's customer is not known.
        ("ORDER", _) => ExpectedRow::of("order_items", item, "ordered_at")
            .text("order_id", Some(id))
            .text("item_id", sort.split_once("#ITEM#").map(|(_, item)| item))
            .scalar("description", "description")
            .scalar("quantity", "quantity")
            .decimal("price", "price", 4)
            .instant("ordered_at", "ordered_at"),
        _ => return None,
    };
    Some(columns)
}
