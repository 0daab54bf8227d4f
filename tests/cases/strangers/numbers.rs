//! F4. Numbers that applications store as text.

use std::collections::BTreeMap;
use std::sync::Arc;

use afterwrite_memory::MemoryObjects;
use afterwrite_model::table::Model;
use afterwrite_tests::change_record::stream_record;
use afterwrite_tests::datasets::{TextRow, export, gzip, rows_of};
use serde_json::json;

const MODEL: &str = r##"
name = "shop"
generation = 1
tables.orders.key = ["PK"]
[entities.order]
key = { PK = "ORDER#{id}" }
attributes = { at = "S", price = "any" }
derive.exact = { number = "price" }
[rollups.all]
key = { PK = "ALL", SK = "ROLLUP" }
[[aggregates]]
name = "orders"
of = "order"
into = "all"
measures = { revenue = { sum = "exact" }, dearest = { max = "exact" } }
[datasets.orders]
of = "order"
partition = "at:day"
[datasets.orders.columns]
exact = "decimal(38,18)"
rounded = { type = "double", from = "exact" }
"##;

/// The row of an order with this price, in DynamoDB's JSON.
async fn row(price: &serde_json::Value) -> TextRow {
    let model = Arc::new(Model::parse(MODEL, "shop.toml").unwrap());
    let image = json!({ "PK": { "S": "ORDER#1" }, "at": { "S": "2026-02-06" }, "price": price });
    let stream = "arn:aws:dynamodb:eu-central-1:1:table/orders/stream/2026-01-01T00:00:00.000";
    let change = ("100000000000000000001", 1_770_000_000);
    let record = stream_record(stream, &["PK"], change, (None, Some(&image)));
    let bucket = Arc::new(MemoryObjects::default());
    let objects = BTreeMap::from([("archive/a.gz".to_owned(), gzip(&format!("{record}\n")))]);
    export(&model, &bucket, &objects).await;
    let file = bucket.objects().into_iter().find(|(key, _)| key.ends_with(".parquet")).unwrap().1;
    rows_of(file).remove(0)
}

#[tokio::test]
async fn f4_a_text_becomes_an_exact_number_of_a_column() {
    for (price, exact, rounded) in [
        (json!({ "S": "23.40" }), "23.400000000000000000", "23.4"),
        (json!({ "S": "63.13999999999999" }), "63.139999999999990000", "63.13999999999999"),
        (json!({ "N": "23.40" }), "23.400000000000000000", "23.4"),
        (json!({ "S": "-1e2" }), "-100.000000000000000000", "-100.0"),
    ] {
        let row = row(&price).await;
        assert_eq!((&*row["exact"], &*row["rounded"]), (exact, rounded), "{price}");
        assert_eq!(row.get("_rescued"), None, "{price}");
    }
}

#[tokio::test]
async fn f4_a_text_that_is_no_number_is_in_rescued_and_never_in_the_column() {
    for text in ["1,234.50", "1.234,50", "", "n/a", "NaN", "5 EUR"] {
        let row = row(&json!({ "S": text })).await;
        assert_eq!((row.get("exact"), row.get("rounded")), (None, None), "{text}");
        let rescued: serde_json::Value = serde_json::from_str(&row["_rescued"]).unwrap();
        assert_eq!(rescued, json!({ "exact": { "S": text }, "rounded": { "S": text } }));
    }
    let absent = row(&json!({ "NULL": true })).await;
    assert_eq!((absent.get("exact"), absent.get("_rescued")), (None, None));
}

#[test]
fn f4_only_a_text_or_a_number_is_read_as_a_number() {
    let model = MODEL.replace("price = \"any\"", "price = \"BOOL\"");
    let problem = Model::parse(&model, "shop.toml").unwrap_err().to_string();
    assert!(problem.contains("a number is read from a text or a number"), "{problem}");
}
