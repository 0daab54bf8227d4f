//! Given these conditions and values, expect these results.

use std::collections::BTreeMap;
use std::convert::Infallible;

use proptest::prelude::*;

use super::*;
use crate::record::Item;
use crate::table::{Model, Term};

/// A model whose one aggregate counts items of which this holds.
fn model(when: &str) -> Model {
    let source = format!(
        r#"
        name = "test"
        generation = 1
        tables.t.key = ["pk"]
        [entities.thing]
        key = {{ pk = "{{id}}" }}
        attributes = {{ x = "any", y = "any", m = "M", part = "N", whole = "N" }}
        derive.percent = {{ percent = ["part", "whole"] }}
        [rollups.all]
        key = {{ PK = "ALL", SK = "ROLLUP" }}
        [[aggregates]]
        name = "things"
        of = "thing"
        into = "all"
        measures.things = "count"
        [aggregates.when]
        {when}
        "#
    );
    Model::parse(&source, "test.toml").unwrap_or_else(|errors| panic!("{when}\n{errors}"))
}

/// Whether the condition holds of an item, whose key's variable `id` is "i-1".
fn holds(when: &str, item: &[(&'static str, AttributeValue<'static>)]) -> bool {
    let model = model(when);
    let item: Item = item.iter().map(|(name, value)| (Cow::Borrowed(*name), value.clone())).collect();
    let pattern = model.aggregates[0].when.as_ref().unwrap();
    let read = |term: &Term| -> Result<Option<Operand<'_>>, Infallible> {
        Ok(match term {
            Term::Key(0) => Some(Operand::Text(Cow::Borrowed("i-1"))),
            Term::Derived(0) => ratio(&item),
            Term::Attribute(path) => {
                let mut value = item.get(&**model.attributes.name(path.root));
                for name in &path.within {
                    value = match value {
                        Some(AttributeValue::M(map)) => map.get(&**name),
                        _ => None,
                    };
                }
                value.map(Operand::Value)
            }
            Term::Key(_) | Term::Derived(_) | Term::LookupOutput { .. } | Term::Element(_) => {
                panic!("{term:?}")
            }
        })
    };
    pattern.matches(&mut { read }).unwrap()
}

fn ratio(item: &Item) -> Option<Operand<'static>> {
    let numerator = item.get("part")?.as_number()?.times(&Decimal::from(100)).unwrap();
    let denominator = item.get("whole")?.as_number()?.clone();
    denominator.sign().is_gt().then_some(Operand::Ratio { numerator, denominator })
}

fn text(text: &str) -> AttributeValue<'static> {
    AttributeValue::text(text)
}

fn number(digits: &str) -> AttributeValue<'static> {
    AttributeValue::N(digits.parse().unwrap())
}

/// The condition holds of some values of `x`, and not of others, nor of an item without `x`.
fn check(when: &str, holding: &[AttributeValue<'static>], failing: &[AttributeValue<'static>]) {
    for value in holding {
        assert!(holds(when, &[("x", value.clone())]), "{when} must hold of {value:?}");
    }
    for value in failing {
        assert!(!holds(when, &[("x", value.clone())]), "{when} must not hold of {value:?}");
    }
    assert!(!holds(when, &[]), "{when} must not hold of a missing attribute");
}

#[test]
fn exact_values() {
    let (yes, no, null) = (AttributeValue::Bool(true), AttributeValue::Bool(false), AttributeValue::Null);
    check(
        "x = ['a', 'b']",
        &[text("a"), text("b")],
        &[text("ab"), text(""), text("A"), number("1"), null.clone()],
    );
    check("x = ['']", &[text("")], &[text(" "), null.clone()]);
    check("x = [true]", std::slice::from_ref(&yes), &[no.clone(), text("true"), number("1")]);
    check("x = [{ null = true }]", std::slice::from_ref(&null), &[text(""), no.clone()]);
    check("x = [{ null = false }]", &[text(""), no], &[null]);
    check("x = ['1', 2]", &[text("1"), number("2")], &[number("1"), text("2")]);
}

#[test]
fn numbers_are_compared_as_exact_decimals() {
    check(
        "x = [0.1]",
        &[number("0.1"), number("1E-1"), number("0.10")],
        &[number("0.1000000000000000055511151231257827")],
    );
    check("x = [1_000, 0x10, +7]", &[number("1000.0"), number("16"), number("7")], &[number("-7")]);
    let digits = "12345678901234567890123456789012345678";
    check(&format!("x = [{digits}]"), &[number(digits)], &[number("12345678901234567890123456789012345679")]);
    check(
        "x = [0.12345678901234567890123456789012345678]",
        &[number("0.12345678901234567890123456789012345678")],
        &[number("0.12345678901234567890123456789012345677")],
    );
}

#[test]
fn beginnings_and_endings() {
    check(
        "x = [{ prefix = 'ab' }]",
        &[text("ab"), text("abc")],
        &[text("a"), text("cab"), text("AB"), number("1")],
    );
    check("x = [{ suffix = 'é' }]", &[text("é"), text("caffé")], &[text("e"), text("éa")]);
    check(
        "x = [{ equals-ignore-case = 'Straße' }]",
        &[text("STRAßE"), text("straße")],
        &[text("strasse"), text("xstraße")],
    );
}

#[test]
fn anything_but() {
    check("x = [{ anything-but = 'a' }]", &[text("b"), number("1"), AttributeValue::Null], &[text("a")]);
    check(
        "x = [{ anything-but = ['a', 1] }]",
        &[text("b"), text("1"), number("2")],
        &[text("a"), number("1.0")],
    );
    check("x = [{ anything-but = { prefix = 'a' } }]", &[text("ba")], &[text("ab")]);
    check("x = [{ anything-but = { suffix = ['a', 'b'] } }]", &[text("ac")], &[text("ca"), text("cb")]);
    check("x = [{ anything-but = { equals-ignore-case = 'a' } }]", &[text("b")], &[text("a"), text("A")]);
}

#[test]
fn existence() {
    check(
        "x = [{ exists = true }]",
        &[text(""), AttributeValue::M(BTreeMap::new())],
        &[AttributeValue::Null],
    );
    assert!(holds("x = [{ exists = false }]", &[]));
    assert!(holds("x = [{ exists = false }]", &[("x", AttributeValue::Null)]), "NULL counts as absent");
    assert!(holds("x = [{ exists = false }, 'a']", &[("x", text("a"))]));
    assert!(holds("m.inner = [{ exists = false }]", &[]));
}

#[test]
fn numeric() {
    check("x = [{ numeric = ['=', 5] }]", &[number("5.0")], &[number("5.1"), text("5")]);
    check(
        "x = [{ numeric = ['<', 5] }]",
        &[number("4.999999999999999999999999999999999999")],
        &[number("5")],
    );
    check("x = [{ numeric = ['<=', -0.5] }]", &[number("-0.5"), number("-1E+20")], &[number("-0.4")]);
    check(
        "x = [{ numeric = ['>', 0, '<=', 5] }]",
        &[number("0.1"), number("5")],
        &[number("0"), number("5.1")],
    );
    check("x = [{ numeric = ['>=', 0, '<', 5] }]", &[number("0")], &[number("-1"), number("5")]);
    check(
        "x = [{ numeric = ['<', 0] }, { numeric = ['>', 9] }]",
        &[number("-1"), number("10")],
        &[number("5")],
    );
}

#[test]
fn a_list_or_set_matches_by_one_of_its_elements() {
    let list = |elements: Vec<AttributeValue<'static>>| AttributeValue::L(elements);
    let set = AttributeValue::Ss(vec!["a".into(), "b".into()]);
    check(
        "x = ['a']",
        &[list(vec![number("1"), text("a")]), set.clone()],
        &[list(vec![]), list(vec![text("b")])],
    );
    check(
        "x = [{ numeric = ['>', 1] }]",
        &[AttributeValue::Ns(vec![1.into(), 2.into()])],
        std::slice::from_ref(&set),
    );
    check("x = [{ anything-but = 'a' }]", &[set], &[list(vec![text("a")]), list(vec![])]);
}

#[test]
fn a_map_has_no_value_to_compare() {
    let map = || AttributeValue::M(BTreeMap::from([("a".into(), text("b"))]));
    let [alone, listed] = [map(), AttributeValue::L(vec![map()])];
    for condition in
        ["{ anything-but = 'a' }", "{ anything-but = { prefix = 'a' } }", "'a'", "{ null = true }"]
    {
        check(&format!("x = [{condition}]"), &[], &[alone.clone(), listed.clone()]);
    }
    check("x = [{ exists = true }]", &[alone, listed], &[]);
}

#[test]
fn fields_are_anded_and_or_groups_ored() {
    let items = |x: &'static str, y: &'static str| [("x", text(x)), ("y", text(y))];
    assert!(holds("x = ['a']\ny = ['b']", &items("a", "b")));
    assert!(!holds("x = ['a']\ny = ['b']", &items("a", "c")));
    let either = "'$or' = [{ x = ['a'] }, { y = ['b'] }]";
    for (x, y, expected) in [("a", "c", true), ("c", "b", true), ("c", "c", false)] {
        assert_eq!(holds(either, &items(x, y)), expected, "{x} {y}");
    }
    let both = format!("{either}\nid = [{{ prefix = 'i-' }}]");
    assert!(holds(&both, &items("a", "c")));
    assert!(!holds(&format!("{either}\nid = ['other']"), &items("a", "c")));
}

#[test]
fn inner_attributes() {
    let map = |inner: AttributeValue<'static>| {
        let inner = AttributeValue::M(BTreeMap::from([("deep".into(), inner)]));
        [("m", AttributeValue::M(BTreeMap::from([("exists".into(), inner)])))]
    };
    assert!(holds("m.exists.deep = [1]", &map(number("1"))));
    assert!(!holds("m.exists.deep = [1]", &map(number("2"))));
    assert!(holds("m = { '$or' = [{ exists.deep = [2] }, { other = [1] }] }", &map(number("2"))));
    assert!(!holds("m.exists.deep = [1]", &[("m", text("not a map"))]));
}

#[test]
fn a_percentage_is_exact() {
    let item = |part: &str, whole: &str| [("part", number(part)), ("whole", number(whole))];
    let passed = "percent = [{ numeric = ['>=', 70] }]";
    for (part, whole, expected) in
        [("7", "10", true), ("69", "100", false), ("2", "3", false), ("0.7", "1", true)]
    {
        assert_eq!(holds(passed, &item(part, whole)), expected, "{part} of {whole}");
    }
    // 100·x/y differs from 70 in the 39th digit.
    let whole = "10000000000000000000000000000000000001";
    assert!(!holds(passed, &item("7000000000000000000000000000000000000", whole)));
    assert!(!holds(passed, &item("1", "0")));
    assert!(holds("percent = [{ exists = false }]", &item("1", "0")));
    assert!(holds("percent = [50]", &item("1", "2")));
    assert!(!holds("percent = [{ anything-but = 50 }]", &item("1", "2")));
}

proptest! {
    #[test]
    fn a_ratio_compares_as_fractions_do(a in -2000i64..2000, b in 1i64..2000, tenths in -2000i64..2000) {
        let bound: Decimal = format!("{}e-1", tenths).parse().unwrap();
        let (numerator, denominator) = (Decimal::from(a), Decimal::from(b));
        let value = ScalarValue::Ratio(&numerator, &denominator);
        prop_assert_eq!(compare(&value, &bound), Some((10 * a).cmp(&(tenths * b))));
    }
}
