//! Exact sums of products, averages and extremes, soft deletes, two schema versions, and hours that expire.

use serde_json::{Value, json};

use crate::models::workload::{TableWorkload, days_after};

const TABLE: &str = "EcommerceApp";

fn item(key: (&str, &str), attributes: Value) -> Value {
    let mut item = attributes;
    item["PK"] = json!(key.0);
    item["SK"] = json!(key.1);
    item
}

fn key(partition: &str, sort: &str) -> Value {
    json!({ "PK": partition, "SK": sort })
}

fn order(user: &str, id: &str, total: f64, at: &str, status: Option<&str>) -> Value {
    let sort = format!("ORDER#{}#{id}", &at[..10]);
    let mut order = item(
        (&format!("USER#{user}"), &sort),
        json!({ "Type": "Order", "orderId": id, "userId": user, "orderDate": at, "total": total }),
    );
    if let Some(status) = status {
        order["status"] = json!(status);
    }
    order
}

fn line(order: &str, product: &str, quantity: u32, price: f64) -> Value {
    item(
        (&format!("ORDER#{order}"), &format!("ITEM#PRODUCT#{product}")),
        json!({ "orderId": order, "productId": product, "quantity": quantity, "price": price }),
    )
}

fn review(product: &str, user: &str, rating: u32) -> Value {
    item(
        (&format!("PRODUCT#{product}"), &format!("REVIEW#2026-02-06#USER#{user}")),
        json!({ "userId": user, "rating": rating, "reviewText": "!", "reviewDate": "2026-02-06T15:20:00Z" }),
    )
}

fn reading(hour: &str, at: &str, temperature: f64) -> Value {
    item(
        (&format!("SENSOR#S1#HOUR#{hour}"), &format!("TIMESTAMP#{at}")),
        json!({ "sensorId": "S1", "temperature": temperature, "timestamp": at }),
    )
}

fn deleted(mut item: Value) -> Value {
    item["status"] = json!("DELETED");
    item
}

#[tokio::test]
async fn orders_count_for_their_customer_unless_cancelled_or_deleted() {
    let mut workload = TableWorkload::of("shop");
    let (thursday, friday) = ("2026-02-05T10:30:00Z", "2026-02-06T10:30:00Z");
    workload
        .put(TABLE, item(("USER#1", "METADATA"), json!({ "Type": "User", "SchemaVersion": "2.0", "userId": "1" })))
        .put(TABLE, item(("USER#2", "METADATA"), json!({ "SchemaVersion": "1.0", "user_identifier": "2" })))
        .put(TABLE, order("1", "a", 99.99, thursday, Some("PENDING")))
        .put(TABLE, order("1", "a", 99.99, thursday, Some("DELIVERED")))
        // An order without a status counts.
        .put(TABLE, order("1", "b", 0.01, thursday, None))
        // Created as cancelled: it does not count, and is not the last order.
        .put(TABLE, order("1", "c", 50.5, friday, Some("CANCELLED")))
        .put(TABLE, order("1", "d", 10.0, thursday, Some("PENDING")))
        .put(TABLE, order("1", "d", 10.0, thursday, Some("CANCELLED")))
        .put(TABLE, order("1", "e", 10.0, thursday, None))
        .put(TABLE, deleted(order("1", "e", 10.0, thursday, None)))
        // Schema version 1.0: the date is a day, and only the key names the customer.
        .put(TABLE, item(("USER#2", "ORDER#2026-02-06#f"), json!({ "orderDate": "2026-02-06", "total": 7, "SchemaVersion": "1.0", "user_identifier": "2" })))
        .put(TABLE, order("3", "g", 5.0, friday, None))
        .remove(TABLE, key("USER#3", "ORDER#2026-02-06#g"));
    for number in 0..10 {
        workload.put(TABLE, order("4", &number.to_string(), 0.1, friday, Some("PENDING")));
    }
    // Only the item's existence is known.
    let unknown = json!({ "orderDate": null, "total": null, "status": "PENDING" });
    workload.put(TABLE, item(("USER#4", "ORDER#2026-02-06#unknown"), unknown));
    let rollups = [
        (
            "USER#1",
            "ROLLUP#ORDERS",
            json!({ "orderCount": 2, "totalSpent": 100, "lastOrderDate": "2026-02-05" }),
        ),
        (
            "USER#2",
            "ROLLUP#ORDERS",
            json!({ "orderCount": 1, "totalSpent": 7, "lastOrderDate": "2026-02-06" }),
        ),
        // `max` keeps the latest value ever seen.
        ("USER#3", "ROLLUP#ORDERS", json!({ "lastOrderDate": "2026-02-06" })),
        (
            "USER#4",
            "ROLLUP#ORDERS",
            json!({ "orderCount": 11, "totalSpent": 1, "lastOrderDate": "2026-02-06" }),
        ),
    ];
    let of = |user: &str| key(user, "METADATA");
    let shown = [
        (TABLE, of("USER#1"), "orderCount", Some(json!(2))),
        (TABLE, of("USER#1"), "totalSpent", Some(json!(100))),
        (TABLE, of("USER#1"), "lastOrderDate", Some(json!("2026-02-05"))),
        (TABLE, of("USER#2"), "orderCount", Some(json!(1))),
        (TABLE, of("USER#2"), "lastOrderDate", Some(json!("2026-02-06"))),
        (TABLE, of("USER#4"), "PK", None),
    ];
    workload.assert_derived(&rollups, &shown).await;
}

#[tokio::test]
async fn the_subtotal_of_an_order_is_exact() {
    let mut workload = TableWorkload::of("shop");
    workload
        .put(TABLE, item(("ORDER#o", "METADATA"), json!({ "userId": "1", "total": 1 })))
        .put(TABLE, line("o", "p1", 2, 29.99))
        .put(TABLE, line("o", "p2", 3, 0.1))
        .put(TABLE, line("o", "p3", 1, 5.0))
        .put(TABLE, line("o", "p3", 2, 5.25))
        .put(TABLE, line("o", "p4", 1, 1.0))
        .put(TABLE, deleted(line("o", "p4", 1, 1.0)))
        .put(TABLE, line("o", "p5", 1, 1.0))
        .remove(TABLE, key("ORDER#o", "ITEM#PRODUCT#p5"))
        // Without a price, or with NULL, only the count changes.
        .put(TABLE, item(("ORDER#o", "ITEM#6"), json!({ "quantity": 3 })))
        .put(TABLE, item(("ORDER#o", "ITEM#7"), json!({ "quantity": 1, "price": null })));
    for number in 0..10 {
        workload.put(TABLE, line("tenths", &number.to_string(), 1, 0.1));
    }
    let rollups = [
        ("ORDER#o", "ROLLUP#ITEMS", json!({ "itemCount": 11, "subtotal": 70.78 })),
        ("ORDER#tenths", "ROLLUP#ITEMS", json!({ "itemCount": 10, "subtotal": 1 })),
    ];
    let shown = [
        (TABLE, key("ORDER#o", "METADATA"), "itemCount", Some(json!(11))),
        (TABLE, key("ORDER#o", "METADATA"), "subtotal", Some(json!(70.78))),
        (TABLE, key("ORDER#o", "METADATA"), "total", Some(json!(1))),
        (TABLE, key("ORDER#tenths", "METADATA"), "PK", None),
    ];
    workload.assert_derived(&rollups, &shown).await;
}

#[tokio::test]
async fn reviews_are_mirrored_on_their_products() {
    let mut workload = TableWorkload::of("shop");
    workload
        .put(TABLE, item(("PRODUCT#p", "METADATA"), json!({ "category": "Electronics" })))
        .put(TABLE, item(("PRODUCT#q", "METADATA"), json!({ "category": "Electronics" })))
        .put(TABLE, review("p", "1", 5))
        .put(TABLE, review("p", "2", 4))
        .put(TABLE, review("p", "3", 1))
        .put(TABLE, review("p", "3", 2))
        .put(TABLE, review("p", "4", 1))
        .put(TABLE, deleted(review("p", "4", 1)))
        .put(TABLE, review("q", "1", 3))
        .remove(TABLE, key("PRODUCT#q", "REVIEW#2026-02-06#USER#1"));
    let rollups = [(
        "PRODUCT#p",
        "ROLLUP#REVIEWS",
        json!({ "reviewCount": 3, "ratingSum": 11, "ratingAvg": 3.666667 }),
    )];
    let of = |product: &str| key(product, "METADATA");
    let shown = [
        (TABLE, of("PRODUCT#p"), "reviewCount", Some(json!(3))),
        (TABLE, of("PRODUCT#p"), "ratingSum", Some(json!(11))),
        (TABLE, of("PRODUCT#p"), "ratingAvg", Some(json!(3.666667))),
        (TABLE, of("PRODUCT#q"), "ratingAvg", None),
    ];
    workload.assert_derived(&rollups, &shown).await;
}

#[tokio::test]
async fn hours_expire_30_days_after_them() {
    let mut workload = TableWorkload::of("shop");
    workload
        .put(TABLE, reading("2026-02-06-10", "2026-02-06T10:30:45.123Z", 72.5))
        .put(TABLE, reading("2026-02-06-10", "2026-02-06T10:31:45.123Z", -70.1))
        .put(TABLE, reading("2026-02-06-10", "2026-02-06T10:32:45.123Z", 74.5))
        // Deleted: it stays in `min` and `max`, and leaves the sums.
        .put(TABLE, reading("2026-02-06-10", "2026-02-06T10:33:45.123Z", 99.9))
        .put(TABLE, deleted(reading("2026-02-06-10", "2026-02-06T10:33:45.123Z", 99.9)))
        // The hour in another format. An expired item stays counted.
        .put(TABLE, reading("2026-02-06T14", "2026-02-06T14:00:00Z", 20.0))
        .expire(TABLE, key("SENSOR#S1#HOUR#2026-02-06T14", "TIMESTAMP#2026-02-06T14:00:00Z"))
        // More than 30 days ago.
        .put(TABLE, reading("2026-01-07-23", "2026-01-07T23:00:00Z", 20.0));
    let rollups = [
        (
            "SENSOR#S1#AGG#HOURLY",
            "HOUR#2026-02-06-10",
            json!({ "readingCount": 3, "temperatureSum": 76.9, "avgTemperature": 25.633333, "minTemperature": -70.1,
                    "maxTemperature": 99.9, "expires_at": days_after(30, "2026-02-06T10:00:00Z") }),
        ),
        (
            "SENSOR#S1#AGG#HOURLY",
            "HOUR#2026-02-06T14",
            json!({ "readingCount": 1, "temperatureSum": 20, "avgTemperature": 20, "minTemperature": 20,
                    "maxTemperature": 20, "expires_at": days_after(30, "2026-02-06T14:00:00Z") }),
        ),
    ];
    workload.assert_derived(&rollups, &[]).await;
}

#[test]
fn each_change_makes_its_keys_stale() {
    let mut workload = TableWorkload::of("shop");
    let mut stale = |item: Value| workload.put(TABLE, item).stale();
    assert_eq!(stale(item(("USER#1", "METADATA"), json!({ "name": "A" }))), ["user:1"]);
    let of_order = ["order:o", "user:1:orders"];
    assert_eq!(stale(order("1", "o", 1.0, "2026-02-06T10:00:00Z", None)), of_order);
    let details = |customer: Value| item(("ORDER#o", "METADATA"), customer);
    assert_eq!(stale(details(json!({ "SchemaVersion": "1.0", "user_identifier": "1" }))), of_order);
    assert_eq!(stale(details(json!({ "userId": "1", "user_identifier": "old" }))), of_order);
    assert_eq!(stale(line("o", "p", 1, 1.0)), ["order:o"]);
    let product = |category: &str| item(("PRODUCT#p", "METADATA"), json!({ "category": category }));
    assert_eq!(stale(product("Toys")), ["category:Toys", "product:p"]);
    assert_eq!(stale(product("Games")), ["category:Games", "category:Toys", "product:p"]);
    assert_eq!(stale(review("p", "1", 5)), ["product:p:reviews"]);
    assert_eq!(stale(reading("2026-02-06-10", "2026-02-06T10:00:00Z", 1.0)), [""; 0]);
}

#[tokio::test]
async fn orders_reviews_and_readings_are_rows_of_their_days() {
    let mut workload = TableWorkload::of("shop");
    workload
        .put(TABLE, order("1", "o", 9.99, "2026-02-06T10:00:00Z", Some("PENDING")))
        .assert_row("orders 2026-02-06 INSERT");
    let (_, columns) = workload.rows().remove(0);
    let of_order = [&*columns["order_id"], &*columns["user_id"], &*columns["total"], &*columns["status"]];
    assert_eq!(of_order, ["o", "1", "9.99", "PENDING"]);
    workload
        .put(TABLE, order("1", "o", 9.99, "2026-02-06T10:00:00Z", Some("DELETED")))
        .assert_row("orders 2026-02-06 MODIFY");
    let mut old = review("p", "1", 5);
    old["user_identifier"] = old["userId"].take();
    old.as_object_mut().unwrap().remove("userId");
    workload.put(TABLE, old).assert_row("reviews 2026-02-06 INSERT");
    let (_, columns) = workload.rows().remove(0);
    assert_eq!([&*columns["product_id"], &*columns["user_id"], &*columns["rating"]], ["p", "1", "5"]);
    workload
        .put(TABLE, reading("2026-02-06-10", "2026-02-06T10:30:45.123Z", 72.5))
        .assert_row("readings 2026-02-06 INSERT");
    let (_, columns) = workload.rows().remove(0);
    assert_eq!([&*columns["sensor_id"], &*columns["hour"]], ["S1", "2026-02-06-10"]);
    let exported = workload.exported().await;
    assert_eq!(["orders", "reviews", "readings"].map(|dataset| exported[dataset].len()), [2, 1, 1]);
    assert_eq!(exported["orders"][0]["total"], "9.9900");
    assert_eq!(exported["readings"][0]["measured_at"], "2026-02-06T10:30:45.123Z");
}
