//! Keys that DynamoDB does not allow and that follow from the values of an item: only this item is concerned.

use std::collections::BTreeMap;

use serde_json::json;

use super::world::EdgeWorld;

/// The tasks of each project's owner, and the number of tasks on the owner. Both are found by primary keys.
const TASKS: &str = r##"
[entities.project]
key = { PK = "PROJECT#{project_id}", SK = "PROJECT" }
attributes = { owner = "S" }
[entities.user]
key = { PK = "USER", SK = "USER#{owner}" }
[entities.task]
key = { PK = "TASK#{task_id}", SK = "TASK" }
attributes = { project_id = "S" }
[lookups.owner]
of = "project"
key = { PK = "PROJECT#{project_id}", SK = "PROJECT" }
gives = ["owner"]
[rollups.owner]
key = { PK = "OWNER#{owner}", SK = "ROLLUP" }
[[aggregates]]
name = "tasks"
of = "task"
lookup = "owner"
into = "owner"
measures = { tasks = "count" }
[[mirrors]]
onto = "user"
from = "owner"
attributes = { tasks = "tasks" }
"##;

fn put_project(world: &mut EdgeWorld, project: &str, owner: &str) {
    world.put(&format!("PROJECT#{project}"), "PROJECT", json!({ "owner": { "S": owner } }));
}

fn put_task(world: &mut EdgeWorld, task: &str, project: &str) {
    world.put(&format!("TASK#{task}"), "TASK", json!({ "project_id": { "S": project } }));
}

#[tokio::test]
async fn a_lookup_whose_key_is_too_long_parks_its_own_record_alone() {
    let mut world = EdgeWorld::new(TASKS);
    put_project(&mut world, "p1", "ann");
    world.stream();
    let projects = world.records.len();
    for task in 0..10 {
        put_task(&mut world, &format!("t{task}"), "p1");
    }
    put_task(&mut world, "sick", &"x".repeat(2_100));
    world.stream();
    let delivery = world.deliver_these(&world.records[projects..]).await;
    assert_eq!((delivery.failures.len(), delivery.parked.len()), (0, 1), "{:?}", delivery.parked);
    assert_eq!(world.measure("OWNER#ann", "ROLLUP", "tasks"), Some(10));
    assert!(world.entry("TASK#sick", "TASK", "behind").is_some());
}

#[tokio::test]
async fn a_mirror_onto_a_key_that_is_too_long_fails_no_record_that_is_delivered_again() {
    let long = "y".repeat(1_100);
    let mut world = EdgeWorld::new(TASKS);
    for (project, owner) in [("p1", "ann"), ("p2", &long)] {
        put_project(&mut world, project, owner);
        put_task(&mut world, &format!("of-{project}"), project);
    }
    world.put("USER", "USER#ann", json!({}));
    world.settle().await;
    assert_eq!(world.measure(&format!("OWNER#{long}"), "ROLLUP", "tasks"), Some(1));
    for _ in 0..3 {
        assert_eq!(world.deliver_these(&world.records).await.failures, BTreeMap::new());
    }
    assert_eq!(world.shown("USER", "USER#ann", "tasks"), Some(1));
}
