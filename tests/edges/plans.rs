//! Plans: an item with more images than a transaction has actions is cut into several plans.

use std::collections::BTreeMap;

use serde_json::json;

use crate::models::{ATTEMPTS, put_project};
use crate::world::EdgeWorld;

const DAYS: &str = r##"
name = "edge"
generation = 1
[tables.app]
key = ["PK", "SK"]
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

#[tokio::test]
async fn many_images_of_one_item_into_changing_rollups_are_counted() {
    for images in [99, 100, 250] {
        let mut world = EdgeWorld::new(DAYS);
        for image in 0..images {
            let (day, value) = (format!("d{image}"), image.to_string());
            world.put("SENSOR#s1", "READING", json!({ "day": { "S": day }, "value": { "N": value } }));
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
        let first = json!({ "day": { "S": "first" }, "value": { "N": "1" } });
        world.put("SENSOR#s1", "READING", first);
        world.settle().await;
        for life in 0..120 {
            let day = format!("d{}", shared.max(life));
            world.put("SENSOR#s1", "READING", json!({ "day": { "S": day }, "value": { "N": "1" } }));
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
