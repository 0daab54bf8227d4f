//! Aggregates that count elements, skip misfits and estimate percentiles.

use afterwrite_model::table::Model;
use serde_json::{Value, json};

use crate::models::workload::TableWorkload;

const TABLE: &str = "shop";

const MODEL: &str = r##"
name = "measures"
generation = 1
tables.shop.key = ["PK", "SK"]

[entities.order]
key = { PK = "CUSTOMER#{customer}", SK = "ORDER#{order_id}" }
attributes = { lines = "any", labels = "L", category = "S", placed = "S", paid = "S", waits = "N" }
derive.articles = { size = "lines" }
derive.waited = { duration = ["placed", "paid"] }
derive.late = { minus = ["waits", 10] }

[entities.customer]
key = { PK = "CUSTOMER#{customer}", SK = "PROFILE" }

[rollups.article]
key = { PK = "ARTICLE#{line.sku}", SK = "ROLLUP" }

[rollups.label]
key = { PK = "LABEL#{label}", SK = "ROLLUP" }
shards = 3

[rollups.category]
key = { PK = "CATEGORY#{category}", SK = "ROLLUP" }

[rollups.customer]
key = { PK = "CUSTOMER#{customer}", SK = "ROLLUP" }

[[aggregates]]
name = "articles"
of = "order"
for_each = { line = "lines" }
at_most = 5
into = ["article", "category"]
optional = ["category"]
on_misfit = "skip"
[aggregates.measures]
pieces = { sum = "line.quantity" }
most = { max = "line.quantity" }

[[aggregates]]
name = "labels"
of = "order"
for_each = { label = "labels" }
at_most = 10
into = "label"
measures.labelled = "count"

[[aggregates]]
name = "orders"
of = "order"
into = "customer"
[aggregates.measures]
orders = "count"
paid = { count = true, when.paid = [{ exists = true }] }
pay_rate = { avg = "paid", over = "orders" }
points = { sum = ["late", 3] }
wait = { percentiles = "waited", relative_error = 0.5, from = 1, to = 100 }
median = { percentile = 50, of = "wait" }

[[mirrors]]
onto = "customer"
from = "customer"
attributes = { median_wait = "median", orders = "orders" }
"##;

fn workload() -> TableWorkload {
    TableWorkload::of_model(Model::parse(MODEL, "measures.toml").unwrap_or_else(|errors| panic!("{errors}")))
}

fn key(order: &str) -> Value {
    json!({ "PK": "CUSTOMER#c", "SK": format!("ORDER#{order}") })
}

fn order(order: &str, attributes: Value) -> Value {
    let mut item = attributes;
    item["PK"] = json!("CUSTOMER#c");
    item["SK"] = json!(format!("ORDER#{order}"));
    item
}

fn line(sku: &str, quantity: u32) -> Value {
    json!({ "sku": sku, "quantity": quantity })
}

/// An order that was paid after so many seconds.
fn waiting(id: &str, seconds: u32) -> Value {
    let paid = format!("2026-02-06T10:{:02}:{:02}Z", seconds / 60, seconds % 60);
    order(id, json!({ "placed": "2026-02-06T10:00:00Z", "paid": paid }))
}

#[tokio::test]
async fn elements_move_add_up_and_leave_with_their_item() {
    let mut workload = workload();
    workload
        .put(
            TABLE,
            order(
                "a",
                json!({ "lines": [line("pen", 2), line("ink", 1), line("pen", 3)], "category": "office" }),
            ),
        )
        .put(
            TABLE,
            order(
                "b",
                json!({ "lines": [line("pen", 1)], "category": "home", "labels": ["new", "sale", "new"] }),
            ),
        )
        // A line less, and another category; the labels change.
        .put(
            TABLE,
            order(
                "a",
                json!({ "lines": [line("ink", 4), line("pen", 3)], "category": "home", "labels": ["sale"] }),
            ),
        )
        .put(TABLE, order("d", json!({ "lines": [line("pen", 9)], "category": "home", "labels": ["sale"] })))
        .remove(TABLE, key("d"))
        // Without a category it counts for its articles only.
        .put(TABLE, order("e", json!({ "lines": [line("cup", 1)] })));
    let rollups = [
        ("ARTICLE#pen", "ROLLUP", json!({ "pieces": 4, "most": 9 })),
        ("ARTICLE#ink", "ROLLUP", json!({ "pieces": 4, "most": 4 })),
        ("ARTICLE#cup", "ROLLUP", json!({ "pieces": 1, "most": 1 })),
        ("CATEGORY#office", "ROLLUP", json!({ "most": 3 })),
        ("CATEGORY#home", "ROLLUP", json!({ "pieces": 8, "most": 9 })),
        ("LABEL#new", "ROLLUP", json!({ "labelled": 2 })),
        ("LABEL#sale", "ROLLUP", json!({ "labelled": 2 })),
        ("CUSTOMER#c", "ROLLUP", json!({ "orders": 3 })),
    ];
    workload.assert_derived(&rollups, &[]).await;
}

#[tokio::test]
async fn expired_elements_stay_counted() {
    let mut workload = workload();
    workload
        .put(TABLE, order("a", json!({ "lines": [line("pen", 2), line("pen", 3)], "labels": ["new"] })))
        .expire(TABLE, key("a"))
        .put(TABLE, order("a", json!({ "lines": [line("pen", 1)], "labels": ["new"] })));
    let rollups = [
        ("ARTICLE#pen", "ROLLUP", json!({ "pieces": 6, "most": 3 })),
        ("LABEL#new", "ROLLUP", json!({ "labelled": 2 })),
        ("CUSTOMER#c", "ROLLUP", json!({ "orders": 2 })),
    ];
    workload.assert_derived(&rollups, &[]).await;
}

#[tokio::test]
async fn a_misfit_is_skipped_by_its_aggregate_alone_and_counts_once_it_is_corrected() {
    let mut workload = workload();
    let six = Value::Array((0..6).map(|_| line("pen", 1)).collect());
    workload
        .put(
            TABLE,
            order(
                "a",
                json!({ "lines": [line("pen", 2), { "sku": "ink", "quantity": "many" }], "labels": ["new"] }),
            ),
        )
        .put(TABLE, order("b", json!({ "lines": "pen" })))
        .put(TABLE, order("c", json!({ "lines": six })))
        .put(TABLE, order("d", json!({ "lines": [line("pen", 7)] })))
        .put(TABLE, order("d", json!({ "lines": [{ "quantity": 7 }] })))
        .put(TABLE, order("e", json!({ "lines": [{ "sku": ["cup"], "quantity": 1 }] })))
        .put(TABLE, order("e", json!({ "lines": [line("cup", 1)] })));
    let rollups = [
        // The largest value was seen before the order became a misfit.
        ("ARTICLE#pen", "ROLLUP", json!({ "most": 7 })),
        ("ARTICLE#cup", "ROLLUP", json!({ "pieces": 1, "most": 1 })),
        ("LABEL#new", "ROLLUP", json!({ "labelled": 1 })),
        ("CUSTOMER#c", "ROLLUP", json!({ "orders": 5 })),
    ];
    workload.assert_derived(&rollups, &[]).await;
}

#[tokio::test]
async fn percentiles_rates_and_differences_follow_their_items_and_are_mirrored() {
    let mut workload = workload();
    let profile = json!({ "PK": "CUSTOMER#c", "SK": "PROFILE" });
    workload
        .put(TABLE, profile.clone())
        .put(TABLE, waiting("a", 2))
        .put(TABLE, waiting("b", 20))
        .put(TABLE, waiting("c", 500))
        .put(TABLE, waiting("d", 90))
        .put(TABLE, order("e", json!({ "waits": 12.5 })))
        .put(TABLE, order("f", json!({ "waits": 8 })))
        // It leaves its bin for another, and one leaves altogether.
        .put(TABLE, waiting("b", 25))
        .remove(TABLE, key("d"));
    // Bins of a ratio of almost 3: up to 1, 2.99992, 8.99952, 26.9978, 80.9912, 100, and from 100 on.
    let measures = json!({
        "orders": 5, "paid": 3, "pay_rate": 0.6, "points": 1.5,
        "wait_001": 1, "wait_003": 1, "wait_006": 1, "median": 13.4992,
    });
    let shown = [
        (TABLE, profile.clone(), "median_wait", Some(json!(13.4992))),
        (TABLE, profile, "orders", Some(json!(5))),
    ];
    workload.assert_derived(&[("CUSTOMER#c", "ROLLUP", measures)], &shown).await;
}
