//! Every type of value is read back unchanged; what DynamoDB cannot store is refused.

use std::borrow::Cow;

use afterwrite_model::effect::{WriteAction, WriteCondition};
use afterwrite_model::record::{AttributeValue, Decimal, Item};

use super::outcome::{ExpectedOutcome, WriteCase, bytes, decimal, item, map, number, set, text};
use super::store::TableStore;

/// Values that are stored unchanged.
fn storable() -> Vec<(&'static str, AttributeValue<'static>)> {
    let texts =
        |texts: &[&'static str]| AttributeValue::Ss(texts.iter().map(|text| Cow::Borrowed(*text)).collect());
    vec![
        ("text", text("grün 🦀 \"quoted\" \\ \u{0} #0 :0")),
        ("empty text", text("")),
        ("long text", text(&"x".repeat(10_000))),
        ("integer", number("-9223372036854775809")),
        ("38 digits", number("-12345678901234567890123456789.012345678")),
        ("very large", number("9.9999999999999999999999999999999999999E+125")),
        ("very small", number("-1E-130")),
        ("bytes", bytes(&[0, 1, 127, 128, 255])),
        ("empty bytes", bytes(&[])),
        ("true", AttributeValue::Bool(true)),
        ("false", AttributeValue::Bool(false)),
        ("null", AttributeValue::Null),
        ("empty list", AttributeValue::L(Vec::new())),
        ("empty map", map([])),
        (
            "list",
            AttributeValue::L(vec![text(""), number("1"), AttributeValue::Null, map([("a", bytes(&[9]))])]),
        ),
        (
            "map",
            map([
                ("a", map([("b", AttributeValue::L(vec![map([("c", number("0.5"))])]))])),
                ("d.e", text("f")),
            ]),
        ),
        ("texts", texts(&["", "a", "b"])),
        ("numbers", AttributeValue::Ns(vec![decimal("-1.5"), Decimal::ZERO, decimal("1E+20")])),
        ("byte strings", AttributeValue::Bs(vec![Cow::Owned(vec![1]), Cow::Owned(vec![1, 0])])),
        ("a set in a map", map([("set", texts(&["x"]))])),
        ("31 levels", nested(31)),
    ]
}

/// Values that DynamoDB refuses, regardless of the stored item.
fn not_storable() -> Vec<(&'static str, AttributeValue<'static>)> {
    vec![
        ("empty set of texts", AttributeValue::Ss(Vec::new())),
        ("empty set of numbers", AttributeValue::Ns(Vec::new())),
        ("empty set in a list", AttributeValue::L(vec![AttributeValue::Bs(Vec::new())])),
        ("a repeated member", AttributeValue::Ss(vec!["a".into(), "a".into()])),
        ("a repeated number", AttributeValue::Ns(vec![decimal("1.0"), decimal("1")])),
        ("40 levels", nested(40)),
    ]
}

fn nested(levels: usize) -> AttributeValue<'static> {
    (1..levels).fold(AttributeValue::L(Vec::new()), |inner, _| AttributeValue::L(vec![inner]))
}

pub(super) async fn suite(store: &impl TableStore) {
    for (name, value) in storable() {
        let expected = || ExpectedOutcome::Stored(Some(item([("x", value.clone())])));
        let put = WriteAction::Put(item([("x", value.clone())]));
        let update = WriteAction::Update(vec![set("x", value.clone())]);
        for action in [put, update] {
            WriteCase { name, stored: None, condition: WriteCondition::Always, action, expected: expected() }
                .run(store)
                .await;
        }
    }
    for (name, value) in not_storable() {
        let put = WriteAction::Put(item([("x", value.clone())]));
        let update = WriteAction::Update(vec![set("x", value)]);
        for action in [put, update] {
            let expected = ExpectedOutcome::InvalidRequest;
            WriteCase { name, stored: None, condition: WriteCondition::Always, action, expected }
                .run(store)
                .await;
        }
    }
    sizes(store).await;
    index_keys(store).await;
}

/// The limit of 400 KB, to the byte.
async fn sizes(store: &impl TableStore) {
    const LIMIT: usize = 400 * 1024;
    // The key of a case: PK and its name, SK and "alone" or the five bytes longer "transacted".
    let key = "PKsizesSKtransacted".len();
    let filled = |length: usize| item([("x", text(&"x".repeat(length - "x".len())))]);
    let fits = WriteAction::Put(filled(LIMIT - key));
    let cases = [
        ("sizes", fits, ExpectedOutcome::Stored(Some(filled(LIMIT - key)))),
        ("sizes", WriteAction::Put(filled(LIMIT - key + 10)), ExpectedOutcome::InvalidRequest),
    ];
    for (name, action, expected) in cases {
        let stored = matches!(expected, ExpectedOutcome::InvalidRequest).then(Item::new);
        WriteCase { name, stored, condition: WriteCondition::Always, action, expected }.run(store).await;
    }
    let stored = Some(filled(LIMIT - key));
    let action = WriteAction::Update(vec![set("more", "ten letters")]);
    WriteCase {
        name: "sizes",
        stored,
        condition: WriteCondition::Always,
        action,
        expected: ExpectedOutcome::Invalid,
    }
    .run(store)
    .await;
}

/// An index's key attribute may be missing, but not empty or of another type.
async fn index_keys(store: &impl TableStore) {
    for (name, value, expected) in [
        ("index key: a number", number("1"), ExpectedOutcome::Invalid),
        ("index key: empty", text(""), ExpectedOutcome::InvalidRequest),
    ] {
        let update = WriteAction::Update(vec![set("GSI1PK", value.clone())]);
        let put = WriteAction::Put(item([("GSI1PK", value)]));
        for action in [update, put] {
            let stored = Some(item([("x", text("y"))]));
            let expected = expected.clone();
            WriteCase { name, stored, condition: WriteCondition::Always, action, expected }.run(store).await;
        }
    }
}
