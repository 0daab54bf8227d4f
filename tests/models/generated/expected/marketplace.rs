//! marketplace: orders are rows, whose amount is a number in the item or a text.

use afterwrite_demo::item::{SdkItem as Item, text_of};

use super::{ExpectedRow, key, present};

pub(super) fn cache_keys(_: &str, item: &Item) -> Vec<String> {
    let (kind, id) = text_of(item, "PK").split_once('#').expect("a key");
    match (kind, text_of(item, "SK").split_once('#')) {
        ("RESTAURANT", None) => present([key(["restaurant", id])]),
        ("CUSTOMER", Some(("ORDER", _))) => present([key(["customer", id, "orders"])]),
        ("CUSTOMER", Some(("CART", restaurant))) => present([key(["customer", id, "cart", restaurant])]),
        _ => Vec::new(),
    }
}

pub(super) fn row<'i>(_: &str, item: &'i Item) -> Option<ExpectedRow<'i>> {
    let id = text_of(item, "SK").strip_prefix("ORDER#")?;
    let columns = ExpectedRow::of("orders", item, "placed_at")
        .text("order_id", Some(id))
        .text("customer", text_of(item, "PK").strip_prefix("CUSTOMER#"))
        .scalar("restaurant", "restaurant")
        .scalar("status", "status")
        .scalar("promo", "promo")
        .instant("placed_at", "placed_at")
        .decimal("amount", "total", 2);
    Some(columns)
}
