//! The clients of a model whose rollups, measures, variables and entities have the names of keywords, of the members of every object, and of the
//! fixed part: the compilers of both languages accept them, and each number is read under its own name.

use afterwrite_client::{ClientDescription, ReaderDescription};
use afterwrite_model::table::Model;
use serde_json::{Map, Value, json};

use super::super::delivery::DeliveryOrder;
use super::super::values::dynamodb_json;
use super::super::workload::TableWorkload;
use super::toolchain::{ClientFolder, serving};

/// Names of rollups and of measures.
const NAMES: [&str; 25] = [
    "constructor",
    "toString",
    "hasOwnProperty",
    "valueOf",
    "then",
    "prototype",
    "toLocaleString",
    "isPrototypeOf",
    "propertyIsEnumerable",
    "class",
    "None",
    "print",
    "str",
    "Decimal",
    "__init__",
    "self",
    "readonly",
    "static",
    "state",
    "keys",
    "a_b",
    "aB",
    "A_b",
    "a__b",
    "a_b_",
];
/// Measures whose names are those of methods of dictionaries.
const METHODS: [&str; 4] = ["items", "keys", "get", "update"];
/// The prices are 1 to this number. A measure counts those that are above its place among the names.
const THINGS: usize = 30;

/// The model without the rollups and measures that have the names of `NAMES`, and without the measures of `METHODS`.
const BASE: &str = r##"
name = "names"
generation = 1
rollup_keys = "escaped"
tables.Things.key = ["PK", "SK"]
entities.read.key = { PK = "SHELF#{toString}", SK = "SHELF" }
[entities.thing]
key = { PK = "SHELF#{toString}", SK = "THING#{__proto__}" }
attributes = { valueOf = "S", price = "N" }
[rollups]
shelf.key = { PK = "SHELF#{toString}", SK = "ROLLUP#{toString}" }
shelf_total.key = { PK = "TOTAL#{toString}", SK = "ROLLUP" }
methods.key = { PK = "METHODS#{str}", SK = "AS#{int}" }
__proto__.key = { PK = "PROTO#{toString}", SK = "ROLLUP" }
[[mirrors]]
onto = "read"
from = "shelf"
attributes = { toString = "things", "stats.__proto__" = "values" }
[[aggregates]]
name = "shelves"
of = "thing"
into = ["shelf", "shelf_total"]
measures = { things = "count", values = { distinct = "valueOf" } }
[[aggregates]]
name = "prototypes"
of = "thing"
into = "__proto__"
measures.__proto__ = "count"
[[aggregates]]
name = "methods"
of = "thing"
into = "methods"
bind = { str = "toString", int = "valueOf" }
"##;

/// A count of prices above its place for each name.
fn counts(before: &str, names: &[&str]) -> String {
    let counts = names.iter().enumerate().map(|(place, name)| {
        format!("{before}{name} = {{ count = true, when.price = [{{ numeric = [\">\", {place}] }}] }}\n")
    });
    counts.collect()
}

/// The model. The average has the name of a number, which objects have before all other names.
fn model() -> Model {
    let rollup = |(place, name): (usize, &&str)| {
        format!("[rollups.{name}]\nkey = {{ PK = \"R{place}#{{toString}}\", SK = \"VALUE#{{valueOf}}\" }}\n")
    };
    let rollups: String = NAMES.iter().enumerate().map(rollup).collect();
    let into: Vec<String> = NAMES.iter().map(|name| format!("{name:?}")).collect();
    let into = into.join(", ");
    let things = format!(
        "[[aggregates]]\nname = \"things\"\nof = \"thing\"\ninto = [{into}]\n[aggregates.measures]\n"
    );
    let computed = "sum = { sum = \"price\" }\n7 = { avg = \"sum\", over = \"constructor\" }\n";
    let text =
        [BASE, &counts("measures.", &METHODS), &rollups, &things, &counts("", &NAMES), computed].concat();
    Model::parse(&text, "names.toml").unwrap_or_else(|errors| panic!("{errors}"))
}

/// The items: one shelf whose things have one value.
fn workload() -> TableWorkload {
    let mut workload = TableWorkload::of_model(model());
    workload.put("Things", json!({ "PK": "SHELF#s", "SK": "SHELF" }));
    for price in 1..=THINGS {
        let item = json!({ "PK": "SHELF#s", "SK": format!("THING#{price}"), "valueOf": "v", "price": price });
        workload.put("Things", item);
    }
    workload
}

/// The measures of every rollup of things.
fn expected() -> Map<String, Value> {
    let counts = NAMES.iter().enumerate().map(|(place, name)| ((*name).to_owned(), count_above(place)));
    let sum = THINGS * (THINGS + 1) / 2;
    let mean = format!("{}.5", sum / THINGS);
    counts.chain([("sum".to_owned(), json!(sum.to_string())), ("7".to_owned(), json!(mean))]).collect()
}

fn count_above(price: usize) -> Value {
    json!((THINGS - price).to_string())
}

fn request(reader: &str, call: &str, arguments: Value) -> Value {
    json!({ "reader": reader, "call": call, "args": arguments })
}

fn reader_of<'d>(description: &'d ClientDescription, rollup: &str) -> &'d ReaderDescription {
    description.readers.iter().find(|reader| reader.rollup == rollup).expect("a reader")
}

/// For each rollup of things, its only item: by its key, listed, and as the total of a list.
fn requests(description: &ClientDescription) -> Vec<Value> {
    let key = json!({ "toString_": "s", "valueOf_": "v" });
    let shelf = json!({ "toString_": "s" });
    let readers = NAMES.iter().map(|name| reader_of(description, name));
    readers
        .flat_map(|reader| {
            let property = reader.property.as_str();
            let [get, all] =
                [request(property, "get", json!([key])), request(property, "all", json!([shelf]))];
            [get, all, request(property, "total", json!([shelf]))]
        })
        .collect()
}

#[tokio::test]
#[ignore = "needs TypeScript, boto3, mypy, prettier and black: run tests/run"]
async fn names_of_keywords_and_of_the_members_of_objects_are_read() {
    let counted = workload().deliver(DeliveryOrder::OneBatch).await;
    let model = model();
    let server = serving(&model, &counted.tables().scan("state")).await;
    let folder = ClientFolder::of([&model]);
    folder.compile();
    folder.check_prettier();
    folder.check_python();

    let mut requests = requests(&ClientDescription::of(&model));
    let things = requests.len();
    let copy = json!({ "toString": 4, "toString_rev": 7, "toString_of": "abc", "PK": "SHELF#s", "SK": "SHELF",
        "stats": { "__proto__": 3, "__proto___rev": 6, "__proto___of": "def" } });
    let numbers = request("constructor_", "numbers", json!([{ "toString_": "s", "valueOf_": "v" }]));
    requests.extend([
        request("", "mirrors", json!(["read2Mirrors", dynamodb_json(&copy)["M"]])),
        request("methods", "get", json!([{ "str_": "s", "int_": "v" }])),
        request("shelf_total_2", "get", json!([{ "toString_": "s" }])),
        numbers,
        request("x__proto__", "get", json!([{ "toString_": "s" }])),
    ]);
    let [typescript, python] = folder.answers(&model, &server.endpoint(), &json!(requests)).await;
    for answers in [&typescript, &python] {
        check_things(&answers[..things]);
        check_others(&answers[things..]);
    }
    // AWS's SDK for JavaScript does not read such an attribute, and no number is better than 0.
    let refused = typescript[things + 4]["error"].as_str().expect("an error");
    assert!(refused.contains("__proto__"), "{refused}");
    assert_eq!(python[things + 4]["measures"]["__proto__"], count_above(0));
    server.stop().await.expect("the server stops");
}

/// The answers to `requests`.
fn check_things(answers: &[Value]) {
    let expected = Value::Object(expected());
    for (place, answer) in answers.iter().enumerate() {
        let measures = match place % 3 {
            0 => &answer["measures"],
            1 => &answer[0]["measures"],
            _ => answer,
        };
        assert_eq!(*measures, expected, "{}", NAMES[place / 3]);
    }
}

/// The answers about copies, names of methods, names of totals, and plain numbers.
fn check_others(answers: &[Value]) {
    let shown = json!({
        "toString": { "value": "4", "rev": "7", "of": "abc" },
        "stats.__proto__": { "value": "3", "rev": "6", "of": "def" },
    });
    assert_eq!(answers[0], shown);
    for (place, name) in METHODS.iter().enumerate() {
        assert_eq!(answers[1]["measures"][name], count_above(place), "{name}");
    }
    assert_eq!(answers[2]["measures"], json!({ "things": THINGS.to_string(), "values": "1" }));
    let numbers: Value = serde_json::from_str(answers[3].as_str().expect("JSON")).expect("JSON");
    assert_eq!(numbers["toString"].to_string(), (THINGS - 1).to_string());
}
