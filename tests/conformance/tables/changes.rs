//! Put, delete, and every kind of change: set, add and remove, nested and with missing parents.

use afterwrite_model::effect::{AttributeChange, WriteAction, WriteCondition};
use afterwrite_model::record::{AttributeValue, Item};

use super::outcome::{ExpectedOutcome, WriteCase, add, item, map, number, remove, set, text};
use super::store::TableStore;

const LARGEST: &str = "99999999999999999999999999999999999999";

fn stored() -> Item {
    item([
        ("n", number("10")),
        ("s", text("b")),
        ("m", map([("n", number("1.5")), ("deep", map([("s", text("x"))]))])),
        ("l", AttributeValue::L(vec![number("1")])),
    ])
}

fn with(changed: Item) -> ExpectedOutcome {
    let mut item = stored();
    item.extend(changed);
    ExpectedOutcome::Stored(Some(item))
}

fn without(name: &str) -> ExpectedOutcome {
    let mut item = stored();
    item.remove(name);
    ExpectedOutcome::Stored(Some(item))
}

/// Changes of the stored item.
fn on_an_item() -> Vec<(&'static str, Vec<AttributeChange>, ExpectedOutcome)> {
    let m = |n: &str, s: &str| item([("m", map([("n", number(n)), ("deep", map([("s", text(s))]))]))]);
    vec![
        ("set: new", vec![set("x", "y")], with(item([("x", text("y"))]))),
        ("set: over", vec![set("n", "text now")], with(item([("n", text("text now"))]))),
        ("set: nested", vec![set("m/deep/s", "y")], with(m("1.5", "y"))),
        ("set: dots are part of a name", vec![set("a.b", "y")], with(item([("a.b", text("y"))]))),
        ("set: reserved words are names", vec![set("size", "y")], with(item([("size", text("y"))]))),
        ("set: below a missing map", vec![set("nowhere/s", "y")], ExpectedOutcome::Invalid),
        ("set: below a missing map in a map", vec![set("m/nowhere/s", "y")], ExpectedOutcome::Invalid),
        ("set: below a value that is not a map", vec![set("n/s", "y")], ExpectedOutcome::Invalid),
        ("set: below a list", vec![set("l/s", "y")], ExpectedOutcome::Invalid),
        ("add: to a number", vec![add("n", "5")], with(item([("n", number("15"))]))),
        ("add: nothing", vec![add("n", "0")], with(Item::new())),
        ("add: down to zero", vec![add("n", "-10")], with(item([("n", number("0"))]))),
        ("add: below zero", vec![add("n", "-10.25")], with(item([("n", number("-0.25"))]))),
        ("add: to a missing attribute", vec![add("x", "7")], with(item([("x", number("7"))]))),
        ("add: nested", vec![add("m/n", "0.5")], with(m("2", "x"))),
        (
            "add: nested, to a missing attribute",
            vec![add("m/deep/n", "3")],
            with(item([(
                "m",
                map([("n", number("1.5")), ("deep", map([("s", text("x")), ("n", number("3"))]))]),
            )])),
        ),
        ("add: below a missing map", vec![add("nowhere/n", "1")], ExpectedOutcome::Invalid),
        ("add: below a value that is not a map", vec![add("s/n", "1")], ExpectedOutcome::Invalid),
        ("add: to a text", vec![add("s", "1")], ExpectedOutcome::Invalid),
        ("add: to a map", vec![add("m", "1")], ExpectedOutcome::Invalid),
        ("remove: present", vec![remove("s")], without("s")),
        ("remove: missing", vec![remove("nowhere")], with(Item::new())),
        (
            "remove: nested",
            vec![remove("m/deep/s")],
            with(item([("m", map([("n", number("1.5")), ("deep", map([]))]))])),
        ),
        ("remove: nested, missing", vec![remove("m/deep/t")], with(Item::new())),
        ("remove: below a missing map", vec![remove("nowhere/s")], ExpectedOutcome::Invalid),
        (
            "many at once",
            vec![set("x", "y"), add("n", "1"), remove("s"), add("m/n", "1"), set("m/deep/s", "z")],
            {
                let mut item = stored();
                item.remove("s");
                item.extend([("x".into(), text("y")), ("n".into(), number("11"))]);
                item.extend(m("2.5", "z"));
                ExpectedOutcome::Stored(Some(item))
            },
        ),
        ("one invalid change prevents all", vec![set("x", "y"), add("s", "1")], ExpectedOutcome::Invalid),
        ("paths overlap: equal", vec![set("x", "y"), add("x", "1")], ExpectedOutcome::InvalidRequest),
        (
            "paths overlap: parent and child",
            vec![set("m/n", "y"), remove("m")],
            ExpectedOutcome::InvalidRequest,
        ),
        ("no change", Vec::new(), ExpectedOutcome::InvalidRequest),
        ("an empty name", vec![set("m/", "y")], ExpectedOutcome::InvalidRequest),
    ]
}

/// Changes where there is no item.
fn on_no_item() -> Vec<(&'static str, Vec<AttributeChange>, ExpectedOutcome)> {
    vec![
        ("no item: set", vec![set("x", "y")], ExpectedOutcome::Stored(Some(item([("x", text("y"))])))),
        ("no item: add", vec![add("n", "-7")], ExpectedOutcome::Stored(Some(item([("n", number("-7"))])))),
        ("no item: remove creates it", vec![remove("x")], ExpectedOutcome::Stored(Some(Item::new()))),
        ("no item: add below a map", vec![add("m/n", "1")], ExpectedOutcome::Invalid),
    ]
}

fn numbers() -> Vec<(&'static str, &'static str, &'static str, Option<&'static str>)> {
    vec![
        ("38 digits", "0", LARGEST, Some(LARGEST)),
        (
            "38 digits with a fraction",
            "0.5",
            "1234567890123456789012345678901234567",
            Some("1234567890123456789012345678901234567.5"),
        ),
        ("to a round number of 39", LARGEST, "1", Some("1E+38")),
        ("39 digits", LARGEST, "0.1", None),
        ("39 digits, far apart", "1E+38", "1", None),
        ("smallest", "0", "1E-130", Some("1E-130")),
        ("largest", "9E+125", "9E+124", Some("9.9E+125")),
        ("beyond the largest", "9E+125", "9E+125", None),
        ("cancels exactly", "0.1", "-0.1", Some("0")),
        ("decimal: three tenths", "0.2", "0.1", Some("0.3")),
    ]
}

pub(super) async fn suite(store: &impl TableStore) {
    let stored_cases = on_an_item().into_iter().map(|case| (case, Some(stored())));
    let bare_cases = on_no_item().into_iter().map(|case| (case, None));
    for ((name, changes, expected), stored) in stored_cases.chain(bare_cases) {
        let (condition, action) = (WriteCondition::Always, WriteAction::Update(changes));
        WriteCase { name, stored, condition, action, expected }.run(store).await;
    }
    for (name, from, addend, sum) in numbers() {
        let expected = sum.map_or(ExpectedOutcome::Invalid, |sum| {
            ExpectedOutcome::Stored(Some(item([("n", number(sum))])))
        });
        let stored = Some(item([("n", number(from))]));
        let (condition, action) = (WriteCondition::Always, WriteAction::Update(vec![add("n", addend)]));
        WriteCase { name, stored, condition, action, expected }.run(store).await;
    }
    whole_items(store).await;
}

async fn whole_items(store: &impl TableStore) {
    let replaced = item([("other", map([]))]);
    let cases = [
        (
            "put: replaces",
            Some(stored()),
            WriteAction::Put(replaced.clone()),
            ExpectedOutcome::Stored(Some(replaced.clone())),
        ),
        ("put: creates", None, WriteAction::Put(replaced.clone()), ExpectedOutcome::Stored(Some(replaced))),
        (
            "put: only a key",
            Some(stored()),
            WriteAction::Put(Item::new()),
            ExpectedOutcome::Stored(Some(Item::new())),
        ),
        ("delete: present", Some(stored()), WriteAction::Delete, ExpectedOutcome::Stored(None)),
        ("delete: missing", None, WriteAction::Delete, ExpectedOutcome::Stored(None)),
    ];
    for (name, stored, action, expected) in cases {
        WriteCase { name, stored, condition: WriteCondition::Always, action, expected }.run(store).await;
    }
    // A put may repeat its key attributes; those of the key count.
    let repeats = item([("PK", text("put: repeats its key")), ("x", text("y"))]);
    let expected = ExpectedOutcome::Stored(Some(item([("x", text("y"))])));
    let action = WriteAction::Put(repeats);
    WriteCase {
        name: "put: repeats its key",
        stored: None,
        condition: WriteCondition::Always,
        action,
        expected,
    }
    .run(store)
    .await;
}
