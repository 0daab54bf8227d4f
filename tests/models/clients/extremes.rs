//! The largest and smallest values of several rollups together: the clients order them as the engine does, which keeps them in one rollup.

use afterwrite_model::table::Model;
use serde_json::{Value, json};

use super::super::delivery::DeliveryOrder;
use super::super::workload::TableWorkload;
use super::toolchain::{ClientFolder, serving};

const MODEL: &str = r##"
name = "extremes"
generation = 1
tables.Things.key = ["PK", "SK"]
[entities.thing]
key = { PK = "SHELF#{shelf}", SK = "THING#{number}" }
attributes = { box = "S", name = "S", mark = "any" }
[rollups]
box.key = { PK = "BOXES#{shelf}", SK = "BOX#{box}" }
shelf.key = { PK = "SHELVES#{shelf}", SK = "ROLLUP" }
[[aggregates]]
name = "things"
of = "thing"
into = ["box", "shelf"]
[aggregates.measures]
last_number = { max = "number" }
first_number = { min = "number" }
last_name = { max = "name" }
first_name = { min = "name" }
best_mark = { max = "mark" }
worst_mark = { min = "mark" }
"##;

/// Numbers of a key are texts, and names are in the order of UTF-8. Marks are numbers and texts; one text looks like a number.
fn things() -> [Value; 4] {
    let things = [
        ("9", "\u{1f600}", json!("n/a")),
        ("10", "\u{ff21}", json!(1000)),
        ("08", "\u{fb01}", json!("2000")),
        ("1e2", "\u{fb02}", json!(3)),
    ];
    // Each thing is in a box of its own.
    things.map(|(number, name, mark)| {
        json!({ "PK": "SHELF#s", "SK": format!("THING#{number}"), "box": number, "name": name, "mark": mark })
    })
}

#[tokio::test]
#[ignore = "needs TypeScript and boto3: run tests/run"]
async fn extremes_of_several_rollups_are_those_of_one_rollup() {
    let parsed = || Model::parse(MODEL, "extremes.toml").unwrap_or_else(|errors| panic!("{errors}"));
    let model = parsed();
    let folder = ClientFolder::of([&model]);
    folder.compile();
    let requests = json!([
        { "reader": "box", "call": "total", "args": [{ "shelf": "s" }] },
        { "reader": "shelf", "call": "get", "args": [{ "shelf": "s" }] },
    ]);
    let expected = json!({
        "last_number": "9", "first_number": "08", "last_name": "\u{1f600}", "first_name": "\u{fb01}",
        "best_mark": "1000", "worst_mark": "3",
    });
    for shift in [0, 2] {
        let mut things = things();
        things.rotate_left(shift);
        let mut workload = TableWorkload::of_model(parsed());
        for thing in things {
            workload.put("Things", thing);
        }
        let counted = workload.deliver(DeliveryOrder::OneBatch).await;
        let server = serving(&model, &counted.tables().scan("state")).await;
        for answers in folder.answers(&model, &server.endpoint(), &requests).await {
            assert_eq!((&answers[0], &answers[1]["measures"]), (&expected, &expected), "{shift}");
        }
        server.stop().await.expect("the server stops");
    }
}
