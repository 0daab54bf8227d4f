//! Cases E. Names, secrets, hostile text.

mod development;
mod hostile;

use std::sync::Arc;

use afterwrite_inference::{InferredModel, TableSample, infer_key};
use afterwrite_input::item_json::ItemJson;
use afterwrite_model::clock::{Clock as _, SystemClock};
use afterwrite_model::projection::archive_line;
use afterwrite_model::record::{AttributePath, decode};
use afterwrite_model::table::{Model, ProblemCode};
use afterwrite_preview::invocation::{InvocationReport, StreamFunctions, invoke_stream_functions};
use afterwrite_preview::recording::RecordCutter;
use afterwrite_preview::tables::{OverlayTables, SourceItems};
use afterwrite_preview::trace::{RecordTracer, TraceLookups};
use afterwrite_services::dynamodb::DynamoDb;
use serde_json::{Value, json};

/// Every place of the language that names an attribute, with names that need quotes.
const MODEL: &str = r##"
name = "names"
generation = 1

[tables."app"]
key = ["'user.id'", "SK"]

[entities.user]
key = { "'user.id'" = "USER#{id}", SK = "USER" }
attributes = { "'user.name'" = "S", "'aws:rep:updatetime'" = "N", "größe" = "N", "First Name" = "S", "'a{b}c'" = "S", "'the user''s'" = "S", "'a list'" = "L", "map.'in.ner'" = "N", "'no.such'" = "N" }
derive."'full.size'" = { first = ["'no.such'", "map.'in.ner'"] }
derive.owner_id = { part = ["'the user''s'", "OWNER#{owner_id}"] }
times."'aws:rep:updatetime'" = "seconds"
secret = ["'example.txt'", "'custom:org'", "'a list'.'pin.code'"]
when."'user.name'" = [{ anything-but = "nobody" }]

[entities.visit]
key = { "user.id" = "VISIT#{visit}", SK = "VISIT" }
attributes = { "'by.user'" = "S", "at" = "S" }

[lookups.visitor]
of = "user"
key = { "'user.id'" = "USER#{'by.user'}", SK = "USER" }
gives = ["'user.name'"]

[rollups.day]
key = { PK = "DAY#{'aws:rep:updatetime':day}#{'a{b}c'}", SK = "NAMES" }

[rollups.visits]
key = { PK = "NAME#{'user.name'}", SK = "VISITS" }

[rollups.own]
key = { PK = "OWN#{id}", SK = "OWN" }

[[aggregates]]
name = "users"
of = "user"
into = ["day", "own"]
optional = ["'a{b}c'"]
when."'a{b}c'" = [{ exists = true }]
[aggregates.measures]
users = "count"
inner = { sum = "'full.size'" }
high = { sum = "größe", when."First Name" = ["Ann"] }

[[aggregates]]
name = "visits"
of = "visit"
lookup = "visitor"
into = "visits"
measures.visits = "count"

[[mirrors]]
onto = "user"
from = "own"
attributes = { "'shown.users'" = "users" }

[[caches]]
of = "user"
keys = ["name:{'user.name'}", "day:{'aws:rep:updatetime':day}"]
paths = ["/names/{'First Name'}"]
depends_on = ["'user.name'", "map.'in.ner'"]

[datasets.users]
of = "user"
partition = "'aws:rep:updatetime':day"
[datasets.users.columns]
name = { type = "string", from = "'user.name'" }
inner = { type = "int64", from = "map.'in.ner'" }
"##;

fn model(source: &str) -> Arc<Model> {
    Arc::new(Model::parse(source, "names.toml").unwrap_or_else(|errors| panic!("{errors}")))
}

/// The record of an item that is created in the table `app`.
fn record(keys: &Value, image: &Value) -> String {
    json!({
        "eventID": "1", "eventName": "INSERT", "eventSource": "aws:dynamodb",
        "eventSourceARN": "arn:aws:dynamodb:eu-west-1:123456789012:table/app/stream/2026-02-01T00:00:00.000",
        "dynamodb": {
            "Keys": keys, "NewImage": image, "ApproximateCreationDateTime": SystemClock.now().epoch_seconds(),
            "SequenceNumber": "100000000000000000000", "StreamViewType": "NEW_AND_OLD_IMAGES",
        },
    })
    .to_string()
}

fn user() -> Value {
    json!({
        "user.id": { "S": "USER#1" }, "SK": { "S": "USER" }, "user.name": { "S": "ann" },
        "aws:rep:updatetime": { "N": "1770370200.5" }, "größe": { "N": "170" }, "First Name": { "S": "Ann" },
        "a{b}c": { "S": "x" }, "the user's": { "S": "OWNER#7" }, "map": { "M": { "in.ner": { "N": "4" } } },
        "example.txt": { "S": "LEAK-1" }, "custom:org": { "S": "LEAK-2" },
        "example": { "M": { "txt": { "S": "kept" } } },
        "a list": { "L": [{ "M": { "pin.code": { "S": "LEAK-3" }, "sku": { "S": "pen" } } }, { "S": "text" }] },
    })
}

/// The report of the functions on one record.
async fn invoked(model: &Arc<Model>, json: &str) -> InvocationReport {
    let event = format!("{{\"Records\":[{json}]}}");
    let (names, state) = (vec![Arc::from("app")], Arc::from("state"));
    let mut items = SourceItems::new(Arc::clone(model), names.clone(), Arc::clone(&state), SystemClock.now());
    for record in &decode(event.as_bytes(), &model.attributes).unwrap().json {
        items.add_images(record).unwrap();
    }
    let tables = OverlayTables::new(items);
    let both = StreamFunctions::Both;
    Box::pin(invoke_stream_functions(model, &names, state, tables, both, event.as_bytes())).await.unwrap()
}

#[tokio::test]
async fn e1_a_quoted_name_works_in_every_place_of_the_language() {
    // The element's aggregate reads what holds a secret, so it has a model of its own.
    let model = model(&MODEL.replace(", \"'a list'.'pin.code'\"", "").replace(
        "[[mirrors]]",
        "[rollups.elements]\nkey = { PK = \"KIND#{one.'the.kind'}\", SK = \"ELEMENTS\" }\n\n[[aggregates]]\nname = \"elements\"\nof = \"user\"\nfor_each = { one = \"'a list'\" }\nat_most = 5\ninto = \"elements\"\noptional = [\"one.'the.kind'\"]\n[aggregates.measures]\nkinds = \"count\"\n\n[[mirrors]]",
    ));
    let keys = json!({ "user.id": { "S": "USER#1" }, "SK": { "S": "USER" } });
    let mut image = user();
    image["a list"] = json!({ "L": [{ "M": { "the.kind": { "S": "k" } } }] });
    let report = invoked(&model, &record(&keys, &image)).await;
    assert!(report.is_counted(), "{:?} {:?}", report.failed, report.parked);
    let [trace] = report.records.as_slice() else { panic!("one record") };
    let rollups: Vec<String> = trace.rollups.iter().map(ToString::to_string).collect();
    assert_eq!(
        rollups,
        [
            "DAY#2026-02-06#x NAMES (high +170 inner +4 users +1)",
            "KIND#k ELEMENTS (kinds +1)",
            "OWN#1 OWN (high +170 inner +4 users +1)",
        ]
    );
    assert_eq!(trace.keys, ["day:2026-02-06", "name:ann"]);
    assert_eq!(trace.paths, ["/names/Ann"]);
    assert_eq!((trace.rows.len(), &*trace.rows[0].dt), (1, "2026-02-06"));
    let items = serde_json::to_string(&report.items).unwrap();
    assert!(items.contains(r#""shown.users":1"#), "{items}");
}

#[test]
fn e1_a_table_has_a_name_that_dynamodb_has() {
    for (name, is_name) in [
        ("app.v2-x_Y", true),
        ("a b", false),
        ("größe", false),
        ("a\u{1b}[2J\n{}", false),
        ("a\u{202e}", false),
    ] {
        let model = MODEL.replace("[tables.\"app\"]", &format!("[tables.{}]", json!(name)));
        let report = Model::check(&model, "names.toml");
        let problem = report.problems.iter().find(|problem| problem.code == ProblemCode::InvalidName);
        assert_eq!(problem.is_none(), is_name, "{name:?}: {:?}", report.problems);
        let index = format!("[tables.\"app\".indexes.{}]\nkey = [\"GSI\"]\n\n[entities.user]", json!(name));
        let report = Model::check(&MODEL.replace("[entities.user]", &index), "names.toml");
        let problem = report.problems.iter().find(|problem| problem.code == ProblemCode::InvalidName);
        assert_eq!(problem.is_none(), is_name, "{name:?}: {:?}", report.problems);
    }
}

#[test]
fn e1_names_are_described_as_they_are_written() {
    let described = serde_json::to_string(&model(MODEL).describe()).unwrap();
    for written in
        ["{'aws:rep:updatetime':day}", "{'a{b}c'}", "'user.name' = [", "map.'in.ner'", "'example.txt'"]
    {
        assert!(described.contains(written), "{written} is not in {described}");
    }
}

#[test]
fn e1_a_wrong_name_is_refused_with_the_form_that_is_right() {
    let with = |setting: &str| {
        format!(
            "name = \"n\"\ngeneration = 1\ntables.app.key = [\"PK\"]\n[entities.e]\nkey = {{ PK = \"E#{{e}}\" }}\n{setting}\n"
        )
    };
    for (setting, part) in [
        ("secret = [\"'open\"]", "close the quote"),
        ("secret = [\"'a'b\"]", "a dot or nothing"),
        ("secret = [\"\"]", "single dots"),
        ("secret = [\"lines[0].card\"]", "every element"),
        ("secret = [\"lines.*.card\"]", "every element"),
        ("secret = ['\"example.txt\"']", "single quotes"),
        ("attributes = { \"a..b\" = \"S\" }", "single dots"),
    ] {
        let report = Model::check(&with(setting), "n.toml");
        let problem = report.problems.iter().find(|problem| problem.code == ProblemCode::InvalidPath);
        let problem = problem.unwrap_or_else(|| panic!("{setting}: {:?}", report.problems));
        assert!(problem.message.contains(part), "{}", problem.message);
    }
    let colon = with(
        "attributes = { \"aws:rep:updatetime\" = \"N\" }\n[[caches]]\nof = \"e\"\nkeys = [\"{aws:rep:updatetime}\"]",
    );
    let report = Model::check(&colon, "n.toml");
    assert!(
        report.problems.iter().any(|problem| problem.message.contains("in single quotes")),
        "{:?}",
        report.problems
    );
}

#[tokio::test]
async fn e1_a_secret_is_cut_whatever_it_is_called() {
    let keys = json!({ "user.id": { "S": "USER#1" }, "SK": { "S": "USER" } });
    for (quoted, bare) in
        [("", ""), ("\"'example.txt'\"", "\"example.txt\""), ("\"'custom:org'\"", "\"custom:org\"")]
    {
        let model = model(&MODEL.replace(quoted, bare));
        let report = invoked(&model, &record(&keys, &user())).await;
        let shown = serde_json::to_string(&report).unwrap();
        assert!(!shown.contains("LEAK") && shown.contains("pen"), "{bare}: {shown}");
    }
    // Quoted, the name is this attribute's alone.
    let line = RecordCutter::new(model(MODEL), vec![Arc::from("app")]).line(&record(&keys, &user())).unwrap();
    assert!(line.contains("kept"), "{line}");
}

#[test]
fn e1_model_init_writes_names_in_quotes() {
    let item = |index: usize| {
        json!({
            "PK": { "S": format!("USER#{index}") }, "SK": { "S": "USER" }, "user.name": { "S": format!("name {index}") },
            "aws:rep:updatetime": { "N": "1770370200" }, "größe": { "N": index.to_string() },
            "First Name": { "S": "x" }, "it's": { "S": "x" }, "\u{7f}\n\"": { "S": "x" },
            // JSON has two escapes for the first, TOML has one.
            "tag\u{e0041}": { "S": "x" }, "mark\u{202e}\u{2028}\u{feff}": { "S": "x" }, "smile \u{1f600}": { "S": "x" },
        })
    };
    let items: Vec<_> =
        (0..30).map(|index| ItemJson::parse(&item(index).to_string()).unwrap().to_item().unwrap()).collect();
    let key = infer_key(&items).unwrap();
    let sample =
        TableSample { table: "app".to_owned(), key, has_guessed_key: false, indexes: Vec::new(), items };
    let toml = InferredModel::of(&sample).toml;
    for line in [
        "\"'user.name'\" = \"S\"",
        "\"'aws:rep:updatetime'\" = \"N\"",
        "\"größe\" = \"N\"",
        "\"First Name\" = \"S\"",
        "\"tag\\U000e0041\" = \"S\"",
        "\"mark\\u202e\\u2028\\ufeff\" = \"S\"",
        "\"smile \u{1f600}\" = \"S\"",
    ] {
        assert!(toml.contains(line), "{line} is not in\n{toml}");
    }
    let model = model(&toml);
    let described = serde_json::to_string(&model.describe()).unwrap();
    assert!(!toml.contains("left out") && !described.is_empty(), "{toml}");
}

#[test]
fn e2_a_secret_in_a_list_is_cut_in_every_element() {
    let secrets: Vec<AttributePath> = vec!["lines.card".parse().unwrap(), "deep.a.b".parse().unwrap()];
    let image = json!({
        "lines": { "L": [
            { "M": { "card": { "S": "LEAK" }, "sku": { "S": "pen" } } },
            { "L": [{ "M": { "card": { "SS": ["LEAK"] } } }] },
            { "S": "text" }, { "NULL": true }, { "M": {} },
        ] },
        "deep": { "L": [{ "M": { "a": { "L": [{ "M": { "b": { "S": "LEAK" }, "c": { "S": "kept" } } }] } } }] },
    });
    let line = archive_line(&record(&json!({}), &image), &secrets).unwrap();
    assert!(!line.contains("LEAK"), "{line}");
    assert!(["pen", "text", "kept"].iter().all(|kept| line.contains(kept)), "{line}");
    let hostile = format!(
        r#"{{"dynamodb":{{"NewImage":{{"lines":{}{{"S":"x"}}{}}}}}}}"#,
        r#"{"L":["#.repeat(50_000),
        "]}".repeat(50_000)
    );
    assert!(archive_line(&hostile, &secrets).is_err(), "no item is nested so deep");
}

#[tokio::test]
async fn e3_no_view_of_an_item_shows_a_secret() {
    let model = model(MODEL);
    let keys = json!({ "user.id": { "S": "USER#1" }, "SK": { "S": "USER" } });
    let json = record(&keys, &user());
    let lookups = TraceLookups::<DynamoDb>::new(&model, None);
    let tracer = RecordTracer::new(Arc::clone(&model), vec![Arc::from("app")], lookups).showing_items(true);
    let trace = tracer.trace(&json).await.unwrap();
    for shown in [trace.to_string(), serde_json::to_string(&trace).unwrap()] {
        assert!(!shown.contains("LEAK") && shown.contains("pen"), "{shown}");
    }
    // An item that is of no entity may have the secrets of any.
    let unknown = json!({ "user.id": { "S": "OTHER#1" }, "SK": { "S": "x" } });
    let other = tracer.trace(&record(&unknown, &user())).await.unwrap().to_string();
    assert!(!other.contains("LEAK") && other.contains("pen"), "{other}");
    let report = invoked(&model, &json).await;
    let shown = serde_json::to_string(&report.items).unwrap();
    assert!(!shown.contains("LEAK") && shown.contains("shown.users"), "{shown}");
}
