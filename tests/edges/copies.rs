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

/// An item of a table that was restored from another, with the copies that the other table's rollup had.
#[tokio::test]
async fn a_restored_item_shows_the_count_of_the_new_state_table() {
    for revision in [json!({ "N": "500" }), json!({ "S": "500" }), json!({ "NULL": true })] {
        let mut world = EdgeWorld::new(PROJECTS);
        world.put("PROJECT#p1", "PROJECT", json!({}));
        world.put("PROJECT#p1", "QUESTION#q1", json!({}));
        world.settle().await;
        let shown = world.item("PROJECT#p1", "PROJECT").expect("a project");
        let of = shown["question_count_of"].as_text().expect("a name");
        let restored = json!({
            "question_count": { "N": "500" }, "question_count_rev": revision, "question_count_of": { "S": of },
        });
        world.put("PROJECT#p1", "PROJECT", restored);
        world.settle().await;
        assert_eq!(world.shown("PROJECT#p1", "PROJECT", "question_count"), Some(1), "{revision}");
        world.put("PROJECT#p1", "QUESTION#q2", json!({}));
        world.settle().await;
        assert_eq!(world.shown("PROJECT#p1", "PROJECT", "question_count"), Some(2), "{revision}");
    }
}
