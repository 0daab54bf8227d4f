//! Models that several tests have, and items of theirs.

use serde_json::{Value, json};

use super::world::EdgeWorld;

/// The number and the sum of a sensor's readings.
pub(crate) const READINGS: &str = r##"
[entities.reading]
key = { PK = "SENSOR#{sensor_id}", SK = "READING#{reading_id}" }
attributes = { value = "N" }
[rollups.sensor]
key = { PK = "TOTAL#{sensor_id}", SK = "ROLLUP" }
[[aggregates]]
name = "readings"
of = "reading"
into = "sensor"
measures = { readings = "count", total = { sum = "value" } }
"##;

/// The attempts of candidates, counted for the owner of their project.
pub(crate) const ATTEMPTS: &str = r##"
[entities.project]
key = { PK = "ADMIN#{admin_id}", SK = "PROJECT#{project_id}" }
[entities.attempt]
key = { PK = "CANDIDATE#{candidate_id}", SK = "ATTEMPT#{attempt_id}" }
attributes = { project_id = "S", status = "S" }
[lookups.owner]
of = "project"
index = "GSI1"
key = { GSI1PK = "PROJECT#{project_id}" }
gives = ["admin_id"]
[rollups.admin]
key = { PK = "ADMIN#{admin_id}", SK = "ROLLUP" }
[[aggregates]]
name = "attempts"
of = "attempt"
lookup = "owner"
into = "admin"
measures = { attempts = "count" }
"##;

/// Reviews, counted by two lookups.
pub(crate) const REVIEWS: &str = r##"
[entities.project]
key = { PK = "ADMIN#{admin_id}", SK = "PROJECT#{project_id}" }
attributes = { other_id = "S" }
[entities.review]
key = { PK = "CANDIDATE#{candidate_id}", SK = "REVIEW#{review_id}" }
attributes = { project_id = "S", other_id = "S" }
[lookups.owner]
of = "project"
index = "GSI1"
key = { GSI1PK = "PROJECT#{project_id}" }
gives = ["admin_id"]
[lookups.other]
of = "project"
index = "GSI1"
key = { GSI1PK = "OTHER#{other_id}" }
gives = ["admin_id"]
[rollups.admin]
key = { PK = "ADMIN#{admin_id}", SK = "ROLLUP" }
[rollups.others]
key = { PK = "OTHER#{admin_id}", SK = "ROLLUP" }
[[aggregates]]
name = "reviews"
of = "review"
lookup = "owner"
into = "admin"
measures = { reviews = "count" }
[[aggregates]]
name = "other_reviews"
of = "review"
lookup = "other"
into = "others"
measures = { reviews = "count" }
"##;

/// The number of a shop's books and their largest price; the number is shown on the shop.
pub(crate) const SHOP: &str = r##"
[entities.shop]
key = { PK = "SHOP#{shop_id}", SK = "SHOP" }
[entities.book]
key = { PK = "SHOP#{shop_id}", SK = "BOOK#{book_id}" }
attributes = { price = "N" }
[rollups.shop]
key = { PK = "SHOP#{shop_id}", SK = "ROLLUP" }
[[aggregates]]
name = "books"
of = "book"
into = "shop"
measures = { books = "count", dearest = { max = "price" } }
[[mirrors]]
onto = "shop"
from = "shop"
attributes = { "stats.books" = "books" }
"##;

/// The tasks of a project, shown on the project. A project that moves to another owner moves within its partition.
pub(crate) const PROJECTS: &str = r##"
[entities.project]
key = { PK = "PROJECTS", SK = "OWNER#{owner_id}#PROJECT#{project_id}" }
[entities.task]
key = { PK = "PROJECT#{project_id}", SK = "TASK#{task_id}" }
[lookups.owner]
of = "project"
index = "GSI1"
key = { GSI1PK = "PROJECT#{project_id}" }
gives = ["owner_id"]
[rollups.project]
key = { PK = "OWNER#{owner_id}", SK = "ROLLUP#PROJECT#{project_id}" }
[[aggregates]]
name = "tasks"
of = "task"
lookup = "owner"
into = "project"
measures = { tasks = "count" }
[[mirrors]]
onto = "project"
from = "project"
attributes = { tasks = "tasks" }
"##;

/// The attributes of a reading.
pub(crate) fn reading(value: i64) -> Value {
    json!({ "value": { "N": value.to_string() } })
}

/// The attributes of a reading whose value is not a number.
pub(crate) fn misfit() -> Value {
    json!({ "value": { "S": "secret" } })
}

/// Puts a project of the owner `a1`.
pub(crate) fn put_project(world: &mut EdgeWorld, project: &str) {
    let key = format!("PROJECT#{project}");
    world.put("ADMIN#a1", &key, json!({ "GSI1PK": { "S": key } }));
}
