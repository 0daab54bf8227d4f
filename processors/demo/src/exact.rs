//! Exact decimal numbers for a second opinion: arithmetic as it is taught at school, digit by digit, without limits.
//!
//! It shares no code with the product's decimals. The demo's recount, the simulation and the property tests of the product's
//! decimals all judge by it.

use std::cmp::Ordering;
use std::fmt;

/// A decimal number of any length.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct ExactNumber {
    is_negative: bool,
    /// Least significant first. Neither end is 0; zero has no digits.
    digits: Vec<u8>,
    /// The power of ten of the first digit.
    exponent: i64,
}

impl ExactNumber {
    /// Zero.
    pub const ZERO: Self = Self { is_negative: false, digits: Vec::new(), exponent: 0 };

    /// One.
    #[must_use]
    pub fn one() -> Self {
        Self::from(1)
    }

    /// This number of hundredths.
    #[must_use]
    pub fn hundredths(number: i64) -> Self {
        let mut exact = Self::from(number);
        exact.exponent -= if exact.digits.is_empty() { 0 } else { 2 };
        exact
    }

    /// Reads digits with or without a point and an exponent: `-12`, `0.10`, `6.02E+23`; `None` for anything else.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (coefficient, exponent) = text.split_once('E').unwrap_or((text, "0"));
        let (is_negative, digits) =
            coefficient.strip_prefix('-').map_or((false, coefficient), |digits| (true, digits));
        let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
        let is_plain = |digits: &str| digits.bytes().all(|digit| digit.is_ascii_digit());
        if whole.is_empty() || !is_plain(whole) || !is_plain(fraction) {
            return None;
        }
        let digits = whole.bytes().chain(fraction.bytes()).rev().map(|digit| digit - b'0').collect();
        let exponent = exponent.parse::<i64>().ok()?.checked_sub(i64::try_from(fraction.len()).ok()?)?;
        Some(Self::normal(is_negative, digits, exponent))
    }

    fn normal(is_negative: bool, mut digits: Vec<u8>, exponent: i64) -> Self {
        digits.truncate(digits.iter().rposition(|digit| *digit != 0).map_or(0, |last| last + 1));
        let Some(zeros) = digits.iter().position(|digit| *digit != 0) else { return Self::ZERO };
        digits.drain(..zeros);
        Self { is_negative, digits, exponent: exponent + i64::try_from(zeros).unwrap_or(i64::MAX) }
    }

    /// The number as an `i64`, if it is one.
    #[must_use]
    pub fn to_i64(&self) -> Option<i64> {
        if self.exponent > 18 { None } else { self.to_string().parse().ok() }
    }

    /// The number with the opposite sign.
    #[must_use]
    pub fn negated(&self) -> Self {
        Self { is_negative: !self.is_negative && !self.digits.is_empty(), ..self.clone() }
    }

    /// The sum.
    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        if self.digits.is_empty() {
            return other.clone();
        }
        let (a, b, exponent) = self.aligned(other);
        if self.is_negative == other.is_negative {
            return Self::normal(self.is_negative, sum(&a, &b), exponent);
        }
        match compare(&a, &b) {
            Ordering::Less => Self::normal(other.is_negative, difference(&b, &a), exponent),
            Ordering::Equal | Ordering::Greater => {
                Self::normal(self.is_negative, difference(&a, &b), exponent)
            }
        }
    }

    /// The difference.
    #[must_use]
    pub fn minus(&self, other: &Self) -> Self {
        self.plus(&other.negated())
    }

    /// The product.
    #[must_use]
    pub fn times(&self, other: &Self) -> Self {
        let mut product = Vec::new();
        for (place, digit) in other.digits.iter().enumerate() {
            let row = [vec![0; place], self.digits.clone()].concat();
            for _ in 0..*digit {
                product = sum(&product, &row);
            }
        }
        Self::normal(self.is_negative != other.is_negative, product, self.exponent + other.exponent)
    }

    /// The quotient, rounded half to even at `places` decimal places; `None` if `divisor` is zero.
    #[must_use]
    pub fn divided_by(&self, divisor: &Self, places: u8) -> Option<Self> {
        let scaled = Self { exponent: self.exponent + i64::from(places), ..self.clone() };
        let (quotient, remainder, divisor_digits) = scaled.divide(divisor)?;
        let is_odd = quotient.first().is_some_and(|digit| digit % 2 == 1);
        let is_up = match compare(&sum(&remainder, &remainder), &divisor_digits) {
            Ordering::Greater => true,
            Ordering::Equal => is_odd,
            Ordering::Less => false,
        };
        let quotient = if is_up { sum(&quotient, &[1]) } else { quotient };
        Some(Self::normal(self.is_negative != divisor.is_negative, quotient, -i64::from(places)))
    }

    /// The largest integer that is not above `self / divisor`; `None` if `divisor` is zero.
    #[must_use]
    pub fn floor_divided_by(&self, divisor: &Self) -> Option<Self> {
        let (quotient, remainder, _) = self.divide(divisor)?;
        let is_negative = self.is_negative != divisor.is_negative;
        let is_exact = remainder.iter().all(|digit| *digit == 0);
        let quotient = if is_negative && !is_exact { sum(&quotient, &[1]) } else { quotient };
        Some(Self::normal(is_negative, quotient, 0))
    }

    /// The number without the digits after `places` decimal places.
    #[must_use]
    pub fn truncated(&self, places: u8) -> Self {
        let surplus = usize::try_from(-i64::from(places) - self.exponent).unwrap_or(0);
        let digits = self.digits.get(surplus..).unwrap_or_default().to_vec();
        let exponent = self.exponent + i64::try_from(surplus).unwrap_or(i64::MAX);
        Self::normal(self.is_negative, digits, exponent)
    }

    /// The digits of both numbers, brought to the same exponent.
    fn aligned(&self, other: &Self) -> (Vec<u8>, Vec<u8>, i64) {
        let exponent = self.exponent.min(other.exponent);
        let shifted = |number: &Self| {
            let zeros = usize::try_from(number.exponent - exponent).unwrap_or(0);
            [vec![0; zeros], number.digits.clone()].concat()
        };
        (shifted(self), shifted(other), exponent)
    }

    /// The integer quotient and the remainder, both without sign, and the divisor that the remainder is compared with.
    fn divide(&self, divisor: &Self) -> Option<(Vec<u8>, Vec<u8>, Vec<u8>)> {
        if divisor.digits.is_empty() {
            return None;
        }
        let (dividend, divisor, _) = self.aligned(divisor);
        let (mut quotient, mut remainder) = (Vec::new(), Vec::new());
        for digit in dividend.iter().rev() {
            remainder.insert(0, *digit);
            let mut times = 0;
            while compare(&remainder, &divisor).is_ge() {
                remainder = difference(&remainder, &divisor);
                times += 1;
            }
            quotient.insert(0, times);
        }
        Some((quotient, remainder, divisor))
    }
}

fn digit_at(digits: &[u8], place: usize) -> u8 {
    digits.get(place).copied().unwrap_or(0)
}

fn compare(a: &[u8], b: &[u8]) -> Ordering {
    let mut orders = (0..a.len().max(b.len())).rev().map(|place| digit_at(a, place).cmp(&digit_at(b, place)));
    orders.find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
}

fn sum(a: &[u8], b: &[u8]) -> Vec<u8> {
    let mut carry = 0;
    let mut digits = Vec::with_capacity(a.len().max(b.len()) + 1);
    for place in 0..=a.len().max(b.len()) {
        let column = digit_at(a, place) + digit_at(b, place) + carry;
        digits.push(column % 10);
        carry = column / 10;
    }
    digits
}

/// `a - b`, where `a` is not less than `b`.
fn difference(a: &[u8], b: &[u8]) -> Vec<u8> {
    let mut borrow = 0;
    let mut digits = Vec::with_capacity(a.len());
    for place in 0..a.len().max(b.len()) {
        let (upper, lower) = (digit_at(a, place), digit_at(b, place) + borrow);
        borrow = u8::from(upper < lower);
        digits.push(upper + 10 * borrow - lower);
    }
    digits
}

impl Ord for ExactNumber {
    fn cmp(&self, other: &Self) -> Ordering {
        let difference = self.minus(other);
        match (difference.digits.is_empty(), difference.is_negative) {
            (true, _) => Ordering::Equal,
            (false, true) => Ordering::Less,
            (false, false) => Ordering::Greater,
        }
    }
}

impl PartialOrd for ExactNumber {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl From<i64> for ExactNumber {
    fn from(number: i64) -> Self {
        Self::parse(&number.to_string()).unwrap_or_default()
    }
}

impl From<bool> for ExactNumber {
    /// One or zero.
    fn from(condition: bool) -> Self {
        Self::from(i64::from(condition))
    }
}

/// As [`fmt::Display`].
impl fmt::Debug for ExactNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// All digits, without an exponent.
impl fmt::Display for ExactNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.is_negative { "-" } else { "" };
        let digits: String = self.digits.iter().rev().map(|digit| char::from(b'0' + digit)).collect();
        let zeros = "0".repeat(usize::try_from(self.exponent).unwrap_or(0));
        let places = usize::try_from(-self.exponent).unwrap_or(0);
        let digits = format!("{digits:0>width$}", width = places + 1);
        match digits.split_at(digits.len() - places) {
            (whole, "") => write!(f, "{sign}{whole}{zeros}"),
            (whole, fraction) => write!(f, "{sign}{whole}.{fraction}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exact(text: &str) -> ExactNumber {
        ExactNumber::parse(text).unwrap()
    }

    #[test]
    fn a_number_is_written_as_it_was_read() {
        for text in ["0", "1", "-1", "0.1", "-0.1", "29.99", "1000000", "-70.000001"] {
            assert_eq!(exact(text).to_string(), text);
        }
        for (text, plain) in
            [("5.250", "5.25"), ("007", "7"), ("-0.00", "0"), ("1.5E3", "1500"), ("12E-3", "0.012")]
        {
            assert_eq!(exact(text).to_string(), plain);
        }
        for invalid in ["", "-", ".5", "1e3", "x", "1.-5", "1E", "--1"] {
            assert_eq!(ExactNumber::parse(invalid), None, "{invalid}");
        }
    }

    #[test]
    fn arithmetic_is_exact() {
        let tenths = (0..10).fold(ExactNumber::ZERO, |sum, _| sum.plus(&exact("0.1")));
        assert_eq!(tenths, ExactNumber::one());
        assert_eq!(exact("3").times(&exact("-29.99")).to_string(), "-89.97");
        assert_eq!(ExactNumber::hundredths(-5).to_string(), "-0.05");
        assert_eq!(ExactNumber::hundredths(0), ExactNumber::ZERO);
        assert_eq!(exact("12.99").truncated(1).to_string(), "12.9");
        assert_eq!(exact("-0.09").truncated(1), ExactNumber::ZERO);
        assert_eq!(exact("1200").truncated(1).to_i64(), Some(1200));
        assert_eq!([exact("0.5").to_i64(), exact("1E30").to_i64()], [None, None]);
    }

    #[test]
    fn quotients_are_rounded_half_to_even() {
        for (dividend, divisor, quotient) in [
            ("11", "3", "3.666667"),
            ("-11", "3", "-3.666667"),
            ("0.000001", "2", "0"),
            ("0.000003", "2", "0.000002"),
            ("-0.000003", "2", "-0.000002"),
            ("-0.000001", "2", "0"),
            ("76.9", "3", "25.633333"),
        ] {
            let rounded = exact(dividend).divided_by(&exact(divisor), 6).unwrap();
            assert_eq!(rounded.to_string(), quotient, "{dividend}/{divisor}");
        }
        assert_eq!(ExactNumber::one().divided_by(&ExactNumber::ZERO, 6), None);
    }
}
