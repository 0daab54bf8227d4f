//! Plans: an item with more images than a transaction has actions is cut into several plans.

use std::collections::BTreeMap;

use afterwrite_model::record::Timestamp;
use serde_json::{Value, json};

use super::models::{ATTEMPTS, put_project};
use super::world::{EdgeWorld, NOW, STATE, key};

const DAYS: &str = r##"
[entities.reading]
key = { PK = "SENSOR#{sensor_id}", SK = "READING" }
attributes = { day = "S", value = "N" }
[rollups.day]
key = { PK = "DAY#{day}", SK = "ROLLUP" }
[[aggregates]]
name = "readings"
of = "reading"
into = "day"
measures = { readings = "count", highest = { max = "value" }, lowest = { min = "value" } }
"##;

/// The attributes of a reading.
fn reading(day: &str, value: &str) -> Value {
    json!({ "day": { "S": day }, "value": { "N": value } })
}

#[tokio::test]
async fn many_images_of_one_item_into_changing_rollups_are_counted() {
    for images in [99, 100, 250] {
        let mut world = EdgeWorld::new(DAYS);
        for image in 0..images {
            let (day, value) = (format!("d{image}"), image.to_string());
            world.put("SENSOR#s1", "READING", reading(&day, &value));
        }
        let delivery = world.deliver().await;
        assert_eq!(delivery.failures, BTreeMap::new());
        for image in 0..images {
            let day = format!("DAY#d{image}");
            assert_eq!(world.measure(&day, "ROLLUP", "highest"), Some(image), "max and min see every image");
            let counted = world.measure(&day, "ROLLUP", "readings").unwrap_or(0);
            assert_eq!(counted, i64::from(image == images - 1), "the item counts where it is now");
        }
    }
}

#[tokio::test]
async fn many_expiries_of_one_item_are_settled() {
    let counts = DAYS
        .replace(", highest = { max = \"value\" }, lowest = { min = \"value\" }", "")
        .replace("into = \"day\"", "into = [\"day\", \"night\"]")
        .replace(
            "[[aggregates]]",
            "[rollups.night]\nkey = { PK = \"NIGHT#{day}\", SK = \"ROLLUP\" }\n[[aggregates]]",
        );
    // The first lives expire in the same rollups, each of the others in its own: the actions that are left over differ.
    for shared in 0..3 {
        let mut world = EdgeWorld::new(&counts);
        world.put("SENSOR#s1", "READING", reading("first", "1"));
        world.settle().await;
        for life in 0..120 {
            let day = format!("d{}", shared.max(life));
            world.put("SENSOR#s1", "READING", reading(&day, "1"));
            world.expire("SENSOR#s1", "READING");
        }
        let delivery = world.deliver().await;
        assert_eq!((delivery.failures, delivery.parked), (BTreeMap::new(), BTreeMap::new()));
        for day in shared..120 {
            let lives = if day == shared { shared + 1 } else { 1 };
            for rollup in [format!("DAY#d{day}"), format!("NIGHT#d{day}")] {
                assert_eq!(world.measure(&rollup, "ROLLUP", "readings"), Some(lives));
                assert_eq!(world.measure(&rollup, "ROLLUP", "settled_readings"), Some(lives));
            }
        }
    }
}

#[tokio::test]
async fn no_image_is_passed_over_while_its_lookup_finds_nothing() {
    let best = ATTEMPTS
        .replace("status = \"S\"", "score = \"N\"")
        .replace("attempts = \"count\"", "attempts = \"count\", best = { max = \"score\" }");
    let mut world = EdgeWorld::new(&best);
    put_project(&mut world, "p1");
    world.settle().await;
    for (project, score) in [("p2", "9"), ("p1", "5")] {
        let attempt = json!({ "project_id": { "S": project }, "score": { "N": score } });
        world.put("CANDIDATE#c1", "ATTEMPT#t1", attempt);
    }
    assert_eq!(world.deliver().await.failures.len(), 1, "the newer image waits for the older one");
    assert_eq!(world.measure("ADMIN#a1", "ROLLUP", "best"), None);

    world.put("ADMIN#a2", "PROJECT#p2", json!({ "GSI1PK": { "S": "PROJECT#p2" } }));
    world.stream();
    let delivery = world.deliver_these(&world.records[1..]).await;
    assert_eq!(delivery.failures, BTreeMap::new());
    assert_eq!(world.measure("ADMIN#a2", "ROLLUP", "best"), Some(9));
    assert_eq!(world.measure("ADMIN#a1", "ROLLUP", "best"), Some(5));
    assert_eq!(world.measure("ADMIN#a1", "ROLLUP", "attempts"), Some(1));
}

#[tokio::test]
async fn records_of_one_item_are_counted_in_the_order_of_their_positions() {
    for order in [[0, 1, 2], [2, 1, 0], [1, 2, 0]] {
        let mut world = EdgeWorld::new(DAYS);
        for value in ["1", "9", "4"] {
            world.put("SENSOR#s1", "READING", reading(value, value));
        }
        world.stream();
        let records = order.map(|index: usize| world.records[index].clone());
        assert_eq!(world.deliver_these(&records).await.failures, BTreeMap::new());
        let counted = ["1", "9", "4"].map(|day| world.measure(&format!("DAY#{day}"), "ROLLUP", "readings"));
        assert_eq!(counted.map(|counted| counted.unwrap_or(0)), [0, 0, 1], "{order:?}");
    }
}

#[tokio::test]
async fn an_item_whose_change_of_a_rollup_exceeds_38_digits_is_parked_alone() {
    let with_total = DAYS
        .replace("into = \"day\"", "into = [\"day\", \"all\"]")
        .replace("[[aggregates]]", "[rollups.all]\nkey = { PK = \"ALL\", SK = \"ROLLUP\" }\n[[aggregates]]")
        .replace(
            "highest = { max = \"value\" }, lowest = { min = \"value\" }",
            "total = { sum = \"value\" }",
        );
    let mut world = EdgeWorld::new(&with_total);
    world.put("SENSOR#s1", "READING", reading("d1", "0.1"));
    world.settle().await;
    // Its day changes, so that the rollup of all readings loses one number and gets another one.
    world.put("SENSOR#s1", "READING", reading("d2", &"9".repeat(38)));
    world.put("SENSOR#s2", "READING", reading("d2", "2"));
    let delivery = world.deliver().await;
    assert_eq!((delivery.failures, delivery.parked.len()), (BTreeMap::new(), 1));
    assert_eq!(world.measure("DAY#d2", "ROLLUP", "total"), Some(2));
    assert!(world.entry("SENSOR#s1", "READING", "behind").is_some());
    assert_eq!(world.entry("SENSOR#s2", "READING", "behind"), None);
}

#[tokio::test]
async fn max_and_min_of_more_items_than_a_transaction_has_room_for_are_right() {
    for is_descending in [false, true] {
        let mut world = EdgeWorld::new(DAYS);
        for number in 0..250 {
            let value = if is_descending { 250 - number } else { number + 1 };
            world.put(&format!("SENSOR#s{number:03}"), "READING", reading("d1", &value.to_string()));
        }
        assert_eq!(world.deliver().await.failures, BTreeMap::new());
        let measures = ["readings", "highest", "lowest"].map(|name| world.measure("DAY#d1", "ROLLUP", name));
        assert_eq!(measures, [Some(250), Some(250), Some(1)]);
    }
}

#[tokio::test]
async fn nothing_is_added_to_a_rollup_that_has_expired() {
    let expiring = DAYS
        .replace("SK = \"ROLLUP\" }", "SK = \"ROLLUP\" }\nexpires = { after = \"2 days\", of = \"day\" }");
    let mut world = EdgeWorld::new(&expiring);
    let (live, expired) = ("2026-02-06", "2026-01-01");
    world.put("SENSOR#s2", "READING", reading(expired, "5"));
    for (day, counted) in [(live, 1), (expired, 0), (live, 1)] {
        world.put("SENSOR#s1", "READING", reading(day, "5"));
        assert_eq!(world.deliver().await.failures, BTreeMap::new());
        assert_eq!(world.measure(&format!("DAY#{live}"), "ROLLUP", "readings"), Some(counted));
        assert_eq!(world.tables.get(&key(STATE, &format!("DAY#{expired}"), "ROLLUP")), None);
    }
}

/// The machine's clock is ten minutes ahead of DynamoDB: a rollup that expires in five minutes still lives.
#[tokio::test]
async fn the_clock_of_a_machine_does_not_decide_that_a_rollup_has_expired() {
    let (ahead, left) = (600, 300);
    let day_began = NOW - NOW % 86_400;
    let lifetime = NOW - day_began - ahead + left;
    let expiring = DAYS.replace(
        "SK = \"ROLLUP\" }",
        &format!("SK = \"ROLLUP\" }}\nexpires = {{ after = \"{lifetime} seconds\", of = \"day\" }}"),
    );
    for (service_time, counted) in [(NOW - ahead, Some(1)), (NOW, None)] {
        let mut world = EdgeWorld::new(&expiring);
        world.tables.set_time(Timestamp::from_epoch_seconds(service_time));
        world.put("SENSOR#s1", "READING", reading("2026-02-06", "5"));
        assert_eq!(world.deliver().await.failures, BTreeMap::new());
        assert_eq!(world.measure("DAY#2026-02-06", "ROLLUP", "readings"), counted, "{service_time}");
    }
}
