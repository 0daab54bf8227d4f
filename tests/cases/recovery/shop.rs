//! Orders of a shop: their model, their table, their items.

use std::collections::HashMap;

use afterwrite_local::dynamodb::{KeyDefinition, TableDefinition};
use aws_sdk_dynamodb::types::AttributeValue;
use serde_json::Value;

pub(super) const MODEL: &str = r##"
name = "recovery"
generation = 1

[tables.Orders]
key = ["pk", "sk"]

[entities.order]
key = { pk = "SHOP#{shop_id}", sk = "ORDER#{order_id}" }
attributes = { total = "N", placed_at = "S" }

[rollups.shop]
key = { PK = "SHOP#{shop_id}", SK = "ROLLUP#ORDERS" }

[[aggregates]]
name = "orders"
of = "order"
into = "shop"
[aggregates.measures]
orders = "count"
revenue = { sum = "total" }

[datasets.orders]
of = "order"
partition = "placed_at:day"
columns = { order_id = "string", total = "int64", placed_at = "timestamp" }
"##;

/// A second table, whose visits stay counted when TTL deletes them.
const VISITS: &str = r##"
[tables.Visits]
key = ["pk", "sk"]

[entities.visit]
table = "Visits"
key = { pk = "SHOP#{shop_id}", sk = "VISIT#{visit_id}" }

[rollups.visits]
key = { PK = "SHOP#{shop_id}", SK = "ROLLUP#VISITS" }

[[aggregates]]
name = "visits"
of = "visit"
into = "visits"
measures.visits = "count"
"##;

pub(crate) type StoredItem = HashMap<String, AttributeValue>;

/// The change of an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OrderChange {
    /// It is written with this total.
    Put(i64),
    /// The application deletes it.
    Delete,
    /// TTL deletes it.
    Expire,
}

/// Orders, and the total of their prices.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct OrderTotals {
    pub(crate) orders: i64,
    pub(crate) revenue: i64,
}

pub(super) fn lines(records: &[Value]) -> String {
    records.iter().map(|record| format!("{record}\n")).collect()
}

pub(super) fn source_table(name: &str, has_ttl: bool) -> TableDefinition {
    TableDefinition {
        name: name.to_owned(),
        key: KeyDefinition::new("pk", "sk"),
        indexes: Vec::new(),
        stream: true,
        ttl_attribute: has_ttl.then(|| "expires_at".to_owned()),
    }
}

pub(super) fn order_item(order: &str, total: i64) -> StoredItem {
    let text = |value: &str| AttributeValue::S(value.to_owned());
    StoredItem::from([
        ("pk".to_owned(), text("SHOP#s1")),
        ("sk".to_owned(), text(&format!("ORDER#{order}"))),
        ("total".to_owned(), AttributeValue::N(total.to_string())),
        ("placed_at".to_owned(), text("2026-02-06T10:00:00Z")),
    ])
}

pub(super) fn visit_item(visit: &str) -> StoredItem {
    let key = [("pk", "SHOP#s1".to_owned()), ("sk", format!("VISIT#{visit}"))];
    key.map(|(name, value)| (name.to_owned(), AttributeValue::S(value))).into()
}

/// The model with the table of visits.
pub(super) fn with_visits(model: String) -> String {
    model.replace("[entities.order]\n", "[entities.order]\ntable = \"Orders\"\n") + VISITS
}
