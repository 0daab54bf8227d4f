//! Exact numbers for a second opinion: whole millionths, and arithmetic of nothing but integers.

use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Neg, Sub};

const PLACES: usize = 6;
const ONE: i128 = 1_000_000;

/// A number of up to six decimal places.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Exact(i128);

impl Exact {
    /// Nought.
    pub const ZERO: Self = Self(0);
    /// One.
    pub const ONE: Self = Self(ONE);

    /// A whole number.
    #[must_use]
    pub fn whole(number: i64) -> Self {
        Self(i128::from(number) * ONE)
    }

    /// So many hundredths.
    #[must_use]
    pub fn hundredths(number: i64) -> Self {
        Self(i128::from(number) * (ONE / 100))
    }

    /// Reads plain decimal digits; `None` for anything else, and for more places than six.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (sign, digits) = text.strip_prefix('-').map_or((1, text), |digits| (-1, digits));
        let (whole, places) = digits.split_once('.').unwrap_or((digits, ""));
        let is_plain = |digits: &str| digits.bytes().all(|digit| digit.is_ascii_digit());
        if whole.is_empty() || places.len() > PLACES || !is_plain(whole) || !is_plain(places) {
            return None;
        }
        let whole: i128 = whole.parse().ok()?;
        let places: i128 = format!("{places:0<PLACES$}").parse().ok()?;
        Some(Self(sign * (whole.checked_mul(ONE)? + places)))
    }

    /// The product, where it has no more than six places.
    #[must_use]
    pub fn times(self, other: Self) -> Self {
        Self(self.0 * other.0 / ONE)
    }

    /// The quotient, rounded half to even at six places; `None` if `other` is nought.
    #[must_use]
    pub fn over(self, other: Self) -> Option<Self> {
        let (dividend, divisor) = (self.0 * ONE * other.0.signum(), other.0.abs());
        let (quotient, rest) = (dividend.checked_div_euclid(divisor)?, dividend.checked_rem_euclid(divisor)?);
        let is_up = 2 * rest > divisor || (2 * rest == divisor && quotient % 2 != 0);
        Some(Self(quotient + i128::from(is_up)))
    }

    /// The digits up to so many decimal places, for people to read.
    #[must_use]
    pub fn rounded(self, places: usize) -> String {
        let digits = self.to_string();
        match digits.split_once('.') {
            Some((whole, parts)) => format!("{whole}.{}", parts.get(..places).unwrap_or(parts)),
            None => digits,
        }
    }

    /// How many of `parts` equal parts of `whole` it comes to, rounded up: the length of a bar.
    #[must_use]
    pub fn part_of(self, whole: Self, parts: i128) -> usize {
        let rounded_up = (self.0.max(0) * parts + whole.0 - 1).checked_div(whole.0).unwrap_or(0);
        usize::try_from(rounded_up).unwrap_or(0)
    }
}

impl Add for Exact {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self(self.0 + other.0)
    }
}

impl Sub for Exact {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        Self(self.0 - other.0)
    }
}

impl AddAssign for Exact {
    fn add_assign(&mut self, other: Self) {
        self.0 += other.0;
    }
}

impl Neg for Exact {
    type Output = Self;

    fn neg(self) -> Self {
        Self(-self.0)
    }
}

impl Sum for Exact {
    fn sum<I: Iterator<Item = Self>>(numbers: I) -> Self {
        numbers.fold(Self::ZERO, Add::add)
    }
}

impl From<bool> for Exact {
    fn from(holds: bool) -> Self {
        if holds { Self::ONE } else { Self::ZERO }
    }
}

impl fmt::Display for Exact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (sign, units) = (if self.0 < 0 { "-" } else { "" }, self.0.unsigned_abs());
        let one = ONE.unsigned_abs();
        let digits = format!("{sign}{}.{:0PLACES$}", units / one, units % one);
        f.pad(digits.trim_end_matches('0').trim_end_matches('.'))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exact(text: &str) -> Exact {
        Exact::parse(text).unwrap()
    }

    #[test]
    fn what_is_read_is_written_again() {
        for text in ["0", "1", "-1", "0.1", "-0.1", "29.99", "1000000", "-70.000001"] {
            assert_eq!(exact(text).to_string(), text);
        }
        assert_eq!(exact("5.250").to_string(), "5.25");
        for none in ["", "-", ".5", "1e3", "1.0000001", "x", "1.-5"] {
            assert_eq!(Exact::parse(none), None, "{none}");
        }
    }

    #[test]
    fn arithmetic_is_exact() {
        let tenths: Exact = (0..10).map(|_| exact("0.1")).sum();
        assert_eq!(tenths, Exact::ONE);
        assert_eq!(exact("3").times(exact("-29.99")).to_string(), "-89.97");
        assert_eq!(Exact::hundredths(-5).to_string(), "-0.05");
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
            assert_eq!(
                exact(dividend).over(exact(divisor)).unwrap().to_string(),
                quotient,
                "{dividend}/{divisor}"
            );
        }
        assert_eq!(Exact::ONE.over(Exact::ZERO), None);
    }
}
