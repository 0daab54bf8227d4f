//! Plans: an item with more images than a transaction has actions is cut into several plans.

use std::collections::BTreeMap;

use serde_json::json;

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
