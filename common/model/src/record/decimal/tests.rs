//! Decimals compared with examples. (`tests/decimals.rs` compares them with an independent implementation.)

use proptest::prelude::*;

use super::*;

fn decimal(text: &str) -> Decimal {
    text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
}

#[test]
fn every_notation_that_dynamodb_accepts_is_parsed() {
    let cases = [
        ("0", "0"),
        ("-0", "0"),
        ("-0.000", "0"),
        ("+0", "0"),
        ("0E5", "0"),
        ("000", "0"),
        ("5.", "5"),
        (".5", "0.5"),
        ("-.5", "-0.5"),
        ("+.5", "0.5"),
        ("+5", "5"),
        ("00042", "42"),
        ("0.10", "0.1"),
        ("1E3", "1000"),
        ("1e+3", "1000"),
        ("1.5E+3", "1500"),
        ("15e-1", "1.5"),
        ("10E-1", "1"),
        ("9223372036854775807", "9223372036854775807"),
        ("9223372036854775808", "9223372036854775808"),
        ("-9223372036854775808", "-9223372036854775808"),
        ("-9223372036854775809", "-9223372036854775809"),
        ("100000000000000000000", "100000000000000000000"),
        ("99999999999999999999999999999999999999", "99999999999999999999999999999999999999"),
        ("0.12345678901234567890123456789012345678", "0.12345678901234567890123456789012345678"),
        ("1E125", "1E125"),
        ("9.9999999999999999999999999999999999999E+125", "99999999999999999999999999999999999999E88"),
        ("1E-130", "1E-130"),
        ("-1.5E-130", "-15E-131"),
        ("0.00000000000000000000000000000000000001", "0.00000000000000000000000000000000000001"),
        ("0.000000000000000000000000000000000000001", "1E-39"),
    ];
    for (text, written) in cases {
        assert_eq!(decimal(text).to_string(), written, "{text}");
        assert_eq!(decimal(written), decimal(text), "{text}");
    }
}

#[test]
fn text_that_is_not_a_number_is_rejected() {
    let spaced = ["", " ", " 5", "5 "];
    let words = "+ - . +. e E5 .E5 -.e1 1E 1E+ 1E1.5 1e5e5 ++5 -+5 +-5 --5 1+2 1- 1.2.3 1..2 .-5 .+5 1.-5 1_000 1,5 \
        NaN Infinity inf 0x10 ٣ 5\0 1E9223372036854775808 1E-9223372036854775809";
    let cases = spaced.into_iter().chain(words.split_whitespace());
    for text in cases {
        assert_eq!(text.parse::<Decimal>(), Err(NotADecimal::Syntax), "{text:?}");
    }
}

#[test]
fn numbers_outside_dynamodbs_limits_are_rejected() {
    let cases = [
        "123456789012345678901234567890123456789",
        "-123456789012345678901234567890123456789",
        "1.00000000000000000000000000000000000001",
        "1E126",
        "-1E126",
        "10E125",
        "1E-131",
        "0.9E-130",
        "1E999999999",
        "1E-999999999",
        "1E9223372036854775807",
        "1E-9223372036854775808",
        "0.1E-9223372036854775808",
        "10E9223372036854775807",
    ];
    for text in cases {
        assert_eq!(text.parse::<Decimal>(), Err(NotADecimal::Range), "{text}");
    }
}

/// A text of a megabyte is parsed in one pass. Multiplying its digits would take minutes.
#[test]
fn long_texts_are_cheap() {
    let zeros = "0".repeat(1_000_000);
    assert_eq!(decimal(&format!("{zeros}7.{zeros}")), Decimal::from(7));
    assert_eq!(decimal(&format!("0.{zeros}7E1000001")), Decimal::from(7));
    assert_eq!(format!("7{zeros}").parse::<Decimal>(), Err(NotADecimal::Range));
    assert_eq!("7".repeat(1_000_000).parse::<Decimal>(), Err(NotADecimal::Range));
    assert_eq!(decimal(&format!("1E{zeros}1")), Decimal::from(10));
}

#[test]
fn results_outside_dynamodbs_limits_are_rejected() {
    let largest = decimal("99999999999999999999999999999999999999");
    assert_eq!(largest.plus(&Decimal::ONE), Ok(decimal("1E38")));
    assert_eq!(decimal("1E38").minus(&Decimal::ONE), Ok(largest.clone()));
    assert_eq!(decimal("1E38").plus(&Decimal::ONE), Err(NotADecimal::Range));
    assert_eq!(largest.plus(&decimal("0.1")), Err(NotADecimal::Range));
    assert_eq!(decimal("9E125").plus(&decimal("1E125")), Err(NotADecimal::Range));
    assert_eq!(decimal("1E100").times(&decimal("1E100")), Err(NotADecimal::Range));
    assert_eq!(decimal("1E-100").times(&decimal("1E-100")), Err(NotADecimal::Range));
    assert_eq!(decimal("1E125").plus(&decimal("-1E125")), Ok(Decimal::ZERO));
    assert_eq!(Decimal::from(i64::MAX).plus(&Decimal::ONE), Ok(decimal("9223372036854775808")));
    assert_eq!(decimal("9223372036854775808").minus(&Decimal::ONE).unwrap().to_i64(), Some(i64::MAX));
    assert_eq!(Decimal::from(i64::MIN).negated().negated().to_i64(), Some(i64::MIN));
}

#[test]
fn quotients_round_half_to_even() {
    let cases = [
        ("1", "3", 6, "0.333333"),
        ("2", "3", 6, "0.666667"),
        ("1", "2", 0, "0"),
        ("3", "2", 0, "2"),
        ("5", "2", 0, "2"),
        ("-1", "2", 0, "0"),
        ("-3", "2", 0, "-2"),
        ("-5", "2", 0, "-2"),
        ("5", "-2", 0, "-2"),
        ("-2", "3", 2, "-0.67"),
        ("0.0000005", "1", 6, "0"),
        ("0.0000015", "1", 6, "0.000002"),
        ("0.00000050000000000000000000000000000001", "1", 6, "0.000001"),
        ("7", "0.5", 6, "14"),
        ("0", "-7", 6, "0"),
    ];
    for (dividend, divisor, places, quotient) in cases {
        let actual = decimal(dividend).divided_by(&decimal(divisor), places);
        assert_eq!(actual, Some(decimal(quotient)), "{dividend} / {divisor}");
    }
    assert_eq!(Decimal::ONE.divided_by(&Decimal::ZERO, 6), None);
    assert_eq!(decimal("1E125").divided_by(&decimal("3"), 6), None);
}

#[test]
fn floor_division_rounds_down() {
    for (dividend, divisor, floor) in [
        ("7", "2", Some(3)),
        ("-7", "2", Some(-4)),
        ("7", "-2", Some(-4)),
        ("-7", "-2", Some(3)),
        ("-8", "2", Some(-4)),
        ("0", "-3", Some(0)),
        ("0.7", "0.1", Some(7)),
        ("-0.71", "0.1", Some(-8)),
        ("1", "0", None),
        ("0.5", "0", None),
        ("1E30", "1", None),
        ("-9223372036854775808", "-1", None),
        ("1E125", "1E110", Some(1_000_000_000_000_000)),
    ] {
        let actual = decimal(dividend).floor_divided_by(&decimal(divisor));
        assert_eq!(actual, floor, "{dividend} / {divisor}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn every_text_is_parsed_or_rejected(text in "[-+.eE0-9 ]{0,12}|.{0,8}") {
        if let Ok(decimal) = text.parse::<Decimal>() {
            prop_assert_eq!(decimal.to_string().parse::<Decimal>().unwrap(), decimal);
        }
    }
}
