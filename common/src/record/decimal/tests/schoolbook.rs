//! Schoolbook arithmetic, digit by digit.

use std::cmp::Ordering;

/// A number: its digits, least significant first, times a power of ten. Neither end of the digits is 0; zero has no
/// digits.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct SchoolbookNumber {
    is_negative: bool,
    digits: Vec<u8>,
    exponent: i64,
}

impl SchoolbookNumber {
    pub(super) fn zero() -> Self {
        Self { is_negative: false, digits: Vec::new(), exponent: 0 }
    }

    /// From digits, most significant first.
    pub(super) fn new(is_negative: bool, digits: &str, exponent: i64) -> Self {
        Self::of(is_negative, digits.bytes().rev().map(|digit| digit - b'0').collect(), exponent)
    }

    fn of(is_negative: bool, mut digits: Vec<u8>, mut exponent: i64) -> Self {
        while digits.last() == Some(&0) {
            digits.pop();
        }
        while digits.first() == Some(&0) {
            digits.remove(0);
            exponent += 1;
        }
        if digits.is_empty() { Self::zero() } else { Self { is_negative, digits, exponent } }
    }

    /// Reads plain digits with or without a point, or digits and an exponent.
    pub(super) fn read(text: &str) -> Self {
        let (coefficient, exponent) = text.split_once('E').unwrap_or((text, "0"));
        let fraction = coefficient.split_once('.').map_or("", |(_, fraction)| fraction);
        let digits = coefficient.replace(['-', '.'], "");
        let exponent = exponent.parse::<i64>().unwrap() - i64::try_from(fraction.len()).unwrap();
        Self::new(text.starts_with('-'), &digits, exponent)
    }

    /// At most 38 digits, and a power of ten of the first digit from -130 to 125.
    pub(super) fn is_in_range(&self) -> bool {
        let length = i64::try_from(self.digits.len()).unwrap();
        length == 0 || (length <= 38 && (-130..=125).contains(&(self.exponent + length - 1)))
    }

    pub(super) fn is_an_i64(&self) -> bool {
        let lower = Self::read(&i64::MIN.to_string());
        let upper = Self::read(&i64::MAX.to_string());
        self.exponent >= 0 && self.compare(&lower).is_ge() && self.compare(&upper).is_le()
    }

    pub(super) fn negated(&self) -> Self {
        Self { is_negative: !self.is_negative && !self.digits.is_empty(), ..self.clone() }
    }

    /// The digits of both at the same exponent.
    fn aligned(&self, other: &Self) -> (Vec<u8>, Vec<u8>, i64) {
        let exponent = self.exponent.min(other.exponent);
        let shifted = |number: &Self| {
            let zeros = usize::try_from(number.exponent - exponent).unwrap();
            [vec![0; zeros], number.digits.clone()].concat()
        };
        (shifted(self), shifted(other), exponent)
    }

    pub(super) fn compare(&self, other: &Self) -> Ordering {
        let difference = self.plus(&other.negated());
        match (difference.digits.is_empty(), difference.is_negative) {
            (true, _) => Ordering::Equal,
            (false, true) => Ordering::Less,
            (false, false) => Ordering::Greater,
        }
    }

    pub(super) fn plus(&self, other: &Self) -> Self {
        let (a, b, exponent) = self.aligned(other);
        if self.is_negative == other.is_negative {
            return Self::of(self.is_negative, sum(&a, &b), exponent);
        }
        match compare_digits(&a, &b) {
            Ordering::Less => Self::of(other.is_negative, difference(&b, &a), exponent),
            Ordering::Equal | Ordering::Greater => Self::of(self.is_negative, difference(&a, &b), exponent),
        }
    }

    pub(super) fn times(&self, other: &Self) -> Self {
        let mut product = Vec::new();
        for (place, digit) in other.digits.iter().enumerate() {
            let row = [vec![0; place], self.digits.clone()].concat();
            for _ in 0..*digit {
                product = sum(&product, &row);
            }
        }
        Self::of(self.is_negative != other.is_negative, product, self.exponent + other.exponent)
    }

    /// Rounded half to even.
    pub(super) fn divided_by(&self, divisor: &Self, places: u8) -> Option<Self> {
        let scaled = Self { exponent: self.exponent + i64::from(places), ..self.clone() };
        let (quotient, remainder, divisor_digits) = scaled.integer_division(divisor)?;
        let is_odd = quotient.first().is_some_and(|digit| digit % 2 == 1);
        let quotient = match compare_digits(&sum(&remainder, &remainder), &divisor_digits) {
            Ordering::Greater => sum(&quotient, &[1]),
            Ordering::Equal if is_odd => sum(&quotient, &[1]),
            Ordering::Equal | Ordering::Less => quotient,
        };
        Some(Self::of(self.is_negative != divisor.is_negative, quotient, -i64::from(places)))
    }

    pub(super) fn floor_divided_by(&self, divisor: &Self) -> Option<Self> {
        let (quotient, remainder, _) = self.integer_division(divisor)?;
        let is_negative = self.is_negative != divisor.is_negative;
        let is_exact = remainder.iter().all(|digit| *digit == 0);
        let quotient = if is_negative && !is_exact { sum(&quotient, &[1]) } else { quotient };
        Some(Self::of(is_negative, quotient, 0))
    }

    /// Quotient, remainder and aligned divisor, all without sign.
    fn integer_division(&self, divisor: &Self) -> Option<(Vec<u8>, Vec<u8>, Vec<u8>)> {
        if divisor.digits.is_empty() {
            return None;
        }
        let (dividend, divisor, _) = self.aligned(divisor);
        let (mut quotient, mut remainder) = (Vec::new(), Vec::new());
        for digit in dividend.iter().rev() {
            remainder.insert(0, *digit);
            let mut times = 0;
            while compare_digits(&remainder, &divisor).is_ge() {
                remainder = difference(&remainder, &divisor);
                times += 1;
            }
            quotient.insert(0, times);
        }
        Some((quotient, remainder, divisor))
    }
}

fn digit(digits: &[u8], place: usize) -> u8 {
    digits.get(place).copied().unwrap_or(0)
}

fn compare_digits(a: &[u8], b: &[u8]) -> Ordering {
    let places = (0..a.len().max(b.len())).rev();
    places
        .map(|place| digit(a, place).cmp(&digit(b, place)))
        .find(|order| order.is_ne())
        .unwrap_or(Ordering::Equal)
}

fn sum(a: &[u8], b: &[u8]) -> Vec<u8> {
    let mut carry = 0;
    let mut digits = Vec::new();
    for place in 0..=a.len().max(b.len()) {
        let column = digit(a, place) + digit(b, place) + carry;
        digits.push(column % 10);
        carry = column / 10;
    }
    digits
}

/// `a - b`; `a` must be at least `b`.
fn difference(a: &[u8], b: &[u8]) -> Vec<u8> {
    let mut borrow = 0;
    let mut digits = Vec::new();
    for place in 0..a.len().max(b.len()) {
        let (upper, lower) = (digit(a, place), digit(b, place) + borrow);
        borrow = u8::from(upper < lower);
        digits.push(upper + 10 * borrow - lower);
    }
    digits
}
