//! Copied items: a copy shows its own count, not the original's.

use serde_json::json;

use crate::world::EdgeWorld;

const PROJECTS: &str = r##"
name = "edge"
generation = 1
[tables.app]
key = ["PK", "SK"]
[entities.project]
key = { PK = "PROJECT#{project_id}", SK = "PROJECT" }
[entities.question]
key = { PK = "PROJECT#{project_id}", SK = "QUESTION#{question_id}" }
[rollups.project]
key = { PK = "PROJECT#{project_id}", SK = "ROLLUP" }
[[aggregates]]
name = "questions"
of = "question"
into = "project"
measures = { questions = "count" }
[[mirrors]]
onto = "project"
from = "project"
attributes = { question_count = "questions" }
"##;

#[tokio::test]
async fn a_copied_item_shows_its_own_count_at_once_and_after_each_change() {
    let mut world = EdgeWorld::new(PROJECTS);
    world.put("PROJECT#p1", "PROJECT", json!({ "title": { "S": "one" } }));
    for question in 0..3 {
        world.put("PROJECT#p1", &format!("QUESTION#q{question}"), json!({}));
        world.settle().await;
    }
    assert_eq!(world.shown("PROJECT#p1", "PROJECT", "question_count"), Some(3));
    // The application clones the project with all its attributes, ours included.
    let mut copy = world.item("PROJECT#p1", "PROJECT").expect("a project");
    copy.insert("PK".into(), "PROJECT#p2".into());
    world.tables.put("app", copy).expect("a copy");
    world.settle().await;
    assert_eq!(world.shown("PROJECT#p2", "PROJECT", "question_count"), Some(0));
    world.put("PROJECT#p2", "QUESTION#q9", json!({}));
    world.settle().await;
    assert_eq!(world.shown("PROJECT#p2", "PROJECT", "question_count"), Some(1));
    assert_eq!(world.shown("PROJECT#p1", "PROJECT", "question_count"), Some(3));
}
