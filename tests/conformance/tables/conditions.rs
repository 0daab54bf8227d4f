//! Every kind of condition, on existing and on missing items.

use afterwrite_model::effect::{WriteAction, WriteCondition};
use afterwrite_model::record::{AttributeValue, Decimal, Item};

use super::outcome::{ExpectedOutcome, WriteCase, bytes, item, map, number, path, set, text};
use super::store::TableStore;

fn stored() -> Item {
    item([
        ("n", number("10")),
        ("s", text("b")),
        ("b", bytes(&[1, 2])),
        ("empty", text("")),
        ("null", AttributeValue::Null),
        ("flag", AttributeValue::Bool(true)),
        ("m", map([("n", number("1.50")), ("deep", map([("s", text("x"))]))])),
        ("l", AttributeValue::L(vec![number("1"), text("two")])),
        ("set", AttributeValue::Ns(vec![Decimal::from(1), Decimal::from(2)])),
    ])
}

/// A condition on the stored item, and whether it holds.
fn on_an_item() -> Vec<(&'static str, WriteCondition, bool)> {
    use WriteCondition::{Absent, All, Always, Any, Differs, Equals, ItemAbsent, ItemExists, Less};
    vec![
        ("always", Always, true),
        ("item exists", ItemExists, true),
        ("item absent", ItemAbsent, false),
        ("absent: missing", Absent(path("nowhere")), true),
        ("absent: present", Absent(path("n")), false),
        ("absent: null is present", Absent(path("null")), false),
        ("absent: below a map", Absent(path("m/nowhere")), true),
        ("absent: in a map", Absent(path("m/n")), false),
        ("absent: below a value that is not a map", Absent(path("n/x")), true),
        ("equals: number by value", Equals(path("n"), number("10.0")), true),
        ("equals: other number", Equals(path("n"), number("11")), false),
        ("equals: other type", Equals(path("n"), text("10")), false),
        ("equals: missing", Equals(path("nowhere"), text("x")), false),
        ("equals: text", Equals(path("s"), text("b")), true),
        ("equals: empty text", Equals(path("empty"), text("")), true),
        ("equals: null", Equals(path("null"), AttributeValue::Null), true),
        ("equals: bool", Equals(path("flag"), AttributeValue::Bool(false)), false),
        ("equals: bytes", Equals(path("b"), bytes(&[1, 2])), true),
        ("equals: nested", Equals(path("m/deep/s"), text("x")), true),
        ("equals: a whole map", Equals(path("m/deep"), map([("s", text("x"))])), true),
        ("equals: a map with more", Equals(path("m/deep"), map([("s", text("x")), ("t", text("y"))])), false),
        ("equals: list in order", Equals(path("l"), AttributeValue::L(vec![number("1"), text("two")])), true),
        (
            "equals: list out of order",
            Equals(path("l"), AttributeValue::L(vec![text("two"), number("1")])),
            false,
        ),
        (
            "equals: a set has no order",
            Equals(path("set"), AttributeValue::Ns(vec![Decimal::from(2), Decimal::from(1)])),
            true,
        ),
        ("differs: other value", Differs(path("n"), number("11")), true),
        ("differs: same value", Differs(path("n"), number("1E1")), false),
        ("differs: other type", Differs(path("n"), text("10")), true),
        ("differs: missing", Differs(path("nowhere"), number("1")), false),
        ("less: number", Less(path("n"), number("10.01")), true),
        ("less: equal", Less(path("n"), number("10")), false),
        ("less: by value, not by digits", Less(path("n"), number("9")), false),
        ("less: other type", Less(path("n"), text("z")), false),
        ("less: missing", Less(path("nowhere"), number("1")), false),
        ("less: text", Less(path("s"), text("ba")), true),
        ("less: text, longer is greater", Less(path("s"), text("a9")), false),
        ("less: bytes", Less(path("b"), bytes(&[1, 3])), true),
        ("less: nested", Less(path("m/n"), number("2")), true),
        ("all: no parts", All(Vec::new()), true),
        ("all: one fails", All(vec![ItemExists, Equals(path("n"), number("10")), ItemAbsent]), false),
        ("all: hold", All(vec![ItemExists, Equals(path("n"), number("10"))]), true),
        ("any: no parts", Any(Vec::new()), false),
        ("any: one holds", Any(vec![ItemAbsent, Equals(path("s"), text("b"))]), true),
        ("any: with always", Any(vec![ItemAbsent, Always]), true),
        ("any: no part holds", Any(vec![ItemAbsent, Absent(path("n"))]), false),
        (
            "nested: absent or older",
            All(vec![ItemExists, Any(vec![Absent(path("rev")), Less(path("rev"), number("3"))])]),
            true,
        ),
        (
            "nested: any binds its own parts",
            All(vec![Any(vec![ItemExists, ItemAbsent]), Equals(path("n"), number("1"))]),
            false,
        ),
    ]
}

/// A condition where there is no item, and whether it holds.
fn on_no_item() -> Vec<(&'static str, WriteCondition, bool)> {
    use WriteCondition::{Absent, Always, Any, Differs, Equals, ItemAbsent, ItemExists, Less};
    vec![
        ("no item: always", Always, true),
        ("no item: item exists", ItemExists, false),
        ("no item: item absent", ItemAbsent, true),
        ("no item: absent", Absent(path("n")), true),
        ("no item: absent key", Absent(path("PK")), true),
        ("no item: equals", Equals(path("n"), number("1")), false),
        ("no item: differs", Differs(path("n"), number("1")), false),
        ("no item: less", Less(path("n"), number("1")), false),
        ("no item: any", Any(vec![ItemExists, ItemAbsent]), true),
    ]
}

pub(super) async fn suite(store: &impl TableStore) {
    let stored_cases = on_an_item().into_iter().map(|case| (case, Some(stored())));
    let bare_cases = on_no_item().into_iter().map(|case| (case, None));
    for ((name, condition, holds), stored) in stored_cases.chain(bare_cases) {
        let mut after = stored.clone().unwrap_or_default();
        after.insert("new".into(), text("x"));
        let expected =
            if holds { ExpectedOutcome::Stored(Some(after)) } else { ExpectedOutcome::ConditionFails };
        let action = WriteAction::Update(vec![set("new", "x")]);
        WriteCase { name, stored, condition, action, expected }.run(store).await;
    }
    conditions_guard_every_action(store).await;
}

async fn conditions_guard_every_action(store: &impl TableStore) {
    let wrong = WriteCondition::Equals(path("n"), number("11"));
    let right = WriteCondition::Equals(path("n"), number("10"));
    let put = WriteAction::Put(item([("only", text("this"))]));
    let cases = [
        (
            "put: holds",
            right.clone(),
            put.clone(),
            ExpectedOutcome::Stored(Some(item([("only", text("this"))]))),
        ),
        ("put: fails", wrong.clone(), put, ExpectedOutcome::ConditionFails),
        ("delete: holds", right, WriteAction::Delete, ExpectedOutcome::Stored(None)),
        ("delete: fails", wrong, WriteAction::Delete, ExpectedOutcome::ConditionFails),
    ];
    for (name, condition, action, expected) in cases {
        WriteCase { name, stored: Some(stored()), condition, action, expected }.run(store).await;
    }
}
