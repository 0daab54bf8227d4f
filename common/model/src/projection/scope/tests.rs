//! Given an image, expect these derived values.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::entity::SourceKey;
use crate::record::Item;

const MODEL: &str = r#"
name = "orders"
generation = 1
tables.t.key = ["pk"]
[entities.order]
key = { pk = "ORDER#{placed}" }
attributes = { any = "any", gross = "N", discount = "N", begin = "any", end = "any" }
derive.size = { size = "any" }
derive.number = { number = "any" }
derive.net = { minus = ["gross", "discount"] }
derive.rest = { minus = [100, "discount"] }
derive.seconds = { duration = ["begin", "end"] }
derive.since = { duration = ["placed", "end"] }
"#;

/// The derived value with this name of an item with these attributes; `None` if the item does not have it, and the text of the error if it
/// cannot be computed.
fn derived(name: &str, attributes: &[(&str, AttributeValue<'static>)]) -> Result<Option<String>, String> {
    let model = Arc::new(Model::parse(MODEL, "orders.toml").unwrap_or_else(|errors| panic!("{errors}")));
    let key = SourceKey { table: 0, partition: "ORDER#2026-02-06".into(), sort: None };
    let item: Item =
        attributes.iter().map(|(name, value)| ((*name).to_owned().into(), value.clone())).collect();
    let image = Image::from_item(&item, &model.row_attributes);
    let identity = key.identify(&model, &image).expect("an order");
    let scope = ImageScope::of(&model, &identity, &image);
    let index = identity.entity.derivations.iter().position(|known| *known.name == *name).expect("a name");
    match scope.read(&Term::Derived(index)) {
        Ok(None) => Ok(None),
        Ok(Some(Operand::Number(number))) => Ok(Some(number.to_string())),
        Ok(Some(other)) => panic!("{other:?}"),
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::Record);
            Err(error.to_string())
        }
    }
}

fn number(text: &str) -> AttributeValue<'static> {
    AttributeValue::N(text.parse().expect("a number"))
}

fn is(expected: &str) -> Result<Option<String>, String> {
    Ok(Some(expected.to_owned()))
}

#[test]
fn a_number_is_read_from_text_exactly() {
    for (text, expected) in [
        ("23.40", "23.4"),
        ("63.13999999999999", "63.13999999999999"),
        ("-0.10", "-0.1"),
        ("+5", "5"),
        ("007", "7"),
        ("1.5e3", "1500"),
        ("12345678901234567890123456789012345678", "12345678901234567890123456789012345678"),
    ] {
        assert_eq!(derived("number", &[("any", AttributeValue::text(text))]), is(expected), "{text}");
    }
    assert_eq!(derived("number", &[("any", number("23.40"))]), is("23.4"));
    for absent in [vec![], vec![("any", AttributeValue::Null)]] {
        assert_eq!(derived("number", &absent), Ok(None));
    }
}

#[test]
fn a_text_that_is_no_number_does_not_fit() {
    let texts = [
        "1,234.50",
        "1.234,50",
        "1 234",
        "1_234",
        "1'234",
        " 5",
        "5 ",
        "",
        "-",
        ".",
        "e5",
        "€5",
        "5 EUR",
        "0x10",
        "NaN",
        "Infinity",
        "１２",
        "1e200",
        "123456789012345678901234567890123456789",
        "five",
    ];
    let misfits = texts.into_iter().map(AttributeValue::text);
    for misfit in misfits.chain([AttributeValue::Bool(true), AttributeValue::L(Vec::new())]) {
        let error = derived("number", &[("any", misfit.clone())]).expect_err("a misfit");
        assert!(error.contains("attribute `any`"), "{error}");
        if let Some(text) = misfit.as_text().filter(|text| text.len() > 3) {
            assert!(!error.contains(text), "contents stay out of errors: {error}");
        }
    }
}

#[test]
fn an_error_of_a_number_says_which_texts_are_numbers() {
    let error = derived("number", &[("any", AttributeValue::text("five"))]).expect_err("a misfit");
    let problem =
        "attribute `any` must be a number or the text of one, such as `-1234.5`, and is another text";
    assert!(error.starts_with(problem), "{error}");
}

#[test]
fn a_size_counts_elements_characters_or_bytes() {
    let one = || AttributeValue::text("x");
    for (value, expected) in [
        (AttributeValue::L(vec![one(), one(), AttributeValue::Null]), "3"),
        (AttributeValue::L(Vec::new()), "0"),
        (AttributeValue::M(BTreeMap::from([("a".into(), one()), ("b".into(), one())])), "2"),
        (AttributeValue::Ss(vec!["a".into(), "b".into()]), "2"),
        (AttributeValue::Ns(vec![Decimal::ONE]), "1"),
        (AttributeValue::Bs(vec![vec![1].into(), vec![2].into()]), "2"),
        (AttributeValue::text("größe"), "5"),
        (AttributeValue::B(vec![0, 1, 2, 3].into()), "4"),
    ] {
        assert_eq!(derived("size", &[("any", value.clone())]), is(expected), "{value:?}");
    }
    for absent in [vec![], vec![("any", AttributeValue::Null)]] {
        assert_eq!(derived("size", &absent), Ok(None));
    }
    for misfit in [number("5"), AttributeValue::Bool(true)] {
        let error = derived("size", &[("any", misfit)]).expect_err("a misfit");
        assert!(error.contains("attribute `any`") && error.contains("has no size"), "{error}");
    }
}

#[test]
fn a_difference_is_exact_and_needs_both_numbers() {
    let net = |gross: &str, discount: &str| {
        derived("net", &[("gross", number(gross)), ("discount", number(discount))])
    };
    assert_eq!(net("0.3", "0.1"), is("0.2"));
    assert_eq!(net("1", "3"), is("-2"));
    assert_eq!(
        net("12345678901234567890123456789012345678", "0"),
        is("12345678901234567890123456789012345678")
    );
    assert!(net("12345678901234567890123456789012345678", "0.1").expect_err("39 digits").contains("net"));
    assert_eq!(derived("net", &[("gross", number("1"))]), Ok(None));
    assert_eq!(derived("net", &[("gross", number("1")), ("discount", AttributeValue::Null)]), Ok(None));
    assert!(derived("net", &[("gross", number("1")), ("discount", AttributeValue::text("1"))]).is_err());
    assert_eq!(derived("rest", &[("discount", number("0.5"))]), is("99.5"));
}

#[test]
fn a_duration_is_the_seconds_from_the_first_time_to_the_second() {
    let seconds = |begin: AttributeValue<'static>, end: AttributeValue<'static>| {
        derived("seconds", &[("begin", begin), ("end", end)])
    };
    let text = AttributeValue::text;
    assert_eq!(seconds(text("2026-02-06T10:00:00Z"), text("2026-02-06T10:01:30.5Z")), is("90.5"));
    assert_eq!(seconds(text("2026-02-06T10:00:00+01:00"), text("2026-02-06T10:00:00Z")), is("3600"));
    // Seconds and milliseconds since 1970.
    assert_eq!(seconds(number("1770336000"), number("1770336000001")), is("0.001"));
    assert_eq!(seconds(text("2026-02-07"), text("2026-02-06")), is("-86400"));
    assert_eq!(derived("since", &[("end", text("2026-02-06T00:00:01Z"))]), is("1"));
    assert_eq!(derived("seconds", &[("begin", text("2026-02-06"))]), Ok(None));
    assert_eq!(seconds(text("2026-02-06"), AttributeValue::Null), Ok(None));
    let error = seconds(text("2026-02-06"), text("tomorrow")).expect_err("not a time");
    assert!(error.contains("attribute `end` is not a time") && !error.contains("tomorrow"), "{error}");
}

proptest! {
    #[test]
    fn a_duration_is_exact_to_the_millisecond(begin in 0_i64..4_000_000_000_000, length in -1_000_000_000_i64..1_000_000_000) {
        let milliseconds = |at: i64| number(&format!("{}.{:03}", at / 1000, at % 1000));
        let end = (begin + length).max(0);
        let found = derived("seconds", &[("begin", milliseconds(begin)), ("end", milliseconds(end))]);
        let expected = Decimal::from(end - begin).divided_by(&Decimal::from(1000), 3).expect("a quotient");
        prop_assert_eq!(found, is(&expected.to_string()));
    }
}
