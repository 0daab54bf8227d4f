//! The product's decimals compared with the demo's exact numbers, which share no code with them.

#![expect(clippy::unwrap_used, reason = "a test that meets the unexpected must fail at once")]

use afterwrite_demo::exact::ExactNumber;
use afterwrite_model::record::{Decimal, NotADecimal};
use proptest::prelude::*;

fn decimal(text: &str) -> Decimal {
    text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn exact(text: &str) -> ExactNumber {
    ExactNumber::parse(text).unwrap_or_else(|| panic!("{text}"))
}

/// Whether DynamoDB can hold a number: at most 38 digits, the first of them for a power of ten from -130 to 125.
fn fits_dynamodb(number: &ExactNumber) -> bool {
    let plain = number.to_string();
    let digits = plain.trim_matches(['-', '0', '.']).replace('.', "").len();
    let size = number.clone().max(number.negated());
    digits == 0 || (digits <= 38 && (exact("1E-130")..exact("1E126")).contains(&size))
}

/// A number and a notation of it.
fn numbers() -> impl Strategy<Value = (ExactNumber, String)> {
    let digits = prop_oneof![
        4 => "[0-9]{1,38}",
        2 => "[0-9]{1,19}",
        1 => "9{1,38}",
        1 => "10{0,37}",
        1 => "(922337203685477580[6-9]|0)",
    ];
    let exponents = prop_oneof![3 => Just(0_i64), 3 => -45..45_i64, 1 => -167..=125_i64];
    let (leading, trailing) = (0..3_usize, 0..3_usize);
    (any::<bool>(), digits, exponents, leading, trailing, any::<prop::sample::Index>())
        .prop_map(|(is_negative, digits, exponent, leading, trailing, point)| {
            let number = exact(&format!("{}{digits}E{exponent}", if is_negative { "-" } else { "" }));
            let padded = format!("{}{digits}{}", "0".repeat(leading), "0".repeat(trailing));
            let point = point.index(padded.len() + 1);
            let (whole, fraction) = padded.split_at(point);
            let written =
                exponent - i64::try_from(trailing).unwrap() + i64::try_from(fraction.len()).unwrap();
            let sign = if is_negative { "-" } else { "" };
            let text = match (fraction, written) {
                ("", 0) => format!("{sign}{whole}"),
                (_, 0) => format!("{sign}{whole}.{fraction}"),
                _ => format!("{sign}{whole}.{fraction}E{written}"),
            };
            (number, text)
        })
        .prop_filter("outside DynamoDB's limits", |(number, _)| fits_dynamodb(number))
}

/// The expected result: the number, or an error if it is out of range.
fn expected(number: ExactNumber) -> Result<ExactNumber, NotADecimal> {
    if fits_dynamodb(&number) { Ok(number) } else { Err(NotADecimal::Range) }
}

fn to_exact(decimal: Result<Decimal, NotADecimal>) -> Result<ExactNumber, NotADecimal> {
    decimal.map(|decimal| exact(&decimal.to_string()))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn parsing_and_formatting_keep_the_value((number, text) in numbers()) {
        let decimal = decimal(&text);
        prop_assert_eq!(exact(&decimal.to_string()), number.clone());
        prop_assert_eq!(&decimal.to_string().parse::<Decimal>().unwrap(), &decimal);
        prop_assert_eq!(decimal.sign(), number.cmp(&ExactNumber::ZERO));
        prop_assert_eq!(decimal.is_zero(), number == ExactNumber::ZERO);
        prop_assert_eq!(decimal.to_i64().map(|integer| exact(&integer.to_string())),
            number.to_i64().map(ExactNumber::from));
    }

    #[test]
    fn arithmetic_is_exact((a, left) in numbers(), (b, right) in numbers()) {
        let (left, right) = (decimal(&left), decimal(&right));
        prop_assert_eq!(to_exact(left.plus(&right)), expected(a.plus(&b)));
        prop_assert_eq!(to_exact(left.minus(&right)), expected(a.minus(&b)));
        prop_assert_eq!(to_exact(left.times(&right)), expected(a.times(&b)));
        prop_assert_eq!(to_exact(Ok(left.negated())), Ok(a.negated()));
    }

    #[test]
    fn comparison_is_exact((a, left) in numbers(), (b, right) in numbers(), (c, third) in numbers()) {
        let (left, right, third) = (decimal(&left), decimal(&right), decimal(&third));
        prop_assert_eq!(left.cmp(&right), a.cmp(&b));
        prop_assert_eq!(left == right, a == b);
        if right.sign().is_gt() {
            prop_assert_eq!(left.compare_quotient(&right, &third), a.cmp(&b.times(&c)));
        }
    }

    #[test]
    fn division_rounds_as_documented((a, left) in numbers(), (b, right) in numbers(), places in 0..12_u8) {
        let (dividend, divisor) = (decimal(&left), decimal(&right));
        let rounded = a.divided_by(&b, places).filter(fits_dynamodb);
        let quotient = dividend.divided_by(&divisor, places);
        prop_assert_eq!(quotient.map(|quotient| exact(&quotient.to_string())), rounded);
        let floor = a.floor_divided_by(&b).filter(|floor| floor.to_i64().is_some());
        let actual = dividend.floor_divided_by(&divisor);
        prop_assert_eq!(actual.map(|floor| exact(&floor.to_string())), floor);
    }
}
