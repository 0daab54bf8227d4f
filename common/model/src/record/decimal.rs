//! Exact decimals with the limits of DynamoDB's numbers.

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

use bigdecimal::BigDecimal;
use bigdecimal::num_bigint::{BigInt, Sign};
use bigdecimal::num_traits::{Euclid as _, Signed as _, ToPrimitive as _, Zero as _};

/// DynamoDB's limit on significant digits.
const MAX_DIGITS: i64 = 38;
/// DynamoDB's limits on the magnitude (1E-130 to 9.9…E+125): the power of ten of the first digit.
const MAX_MAGNITUDE: i64 = 125;
const MIN_MAGNITUDE: i64 = -130;

/// A decimal number of up to 38 significant digits, exact, as DynamoDB stores it. Only [`Decimal::plus_unlimited`] makes longer numbers.
///
/// Nearly every number is a small integer and is stored as an `i64`; all others as a [`BigDecimal`]. Equal numbers have equal forms.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decimal(DecimalRepr);

#[derive(Clone, Debug, PartialEq, Eq)]
enum DecimalRepr {
    Integer(i64),
    Exact(Box<BigDecimal>),
}

/// Why a text is not a DynamoDB number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotADecimal {
    /// The text is not a decimal number.
    Syntax,
    /// The number has more than 38 significant digits, or its magnitude is outside 1E-130 to 9.9E+125.
    Range,
}

impl fmt::Display for NotADecimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Syntax => "not a decimal number",
            Self::Range => "a number outside DynamoDB's limits: 38 digits, magnitude 1E-130 to 9.9E+125",
        })
    }
}

impl std::error::Error for NotADecimal {}

impl Decimal {
    /// Zero.
    pub const ZERO: Self = Self(DecimalRepr::Integer(0));
    /// One.
    pub const ONE: Self = Self(DecimalRepr::Integer(1));

    /// Whether the number is zero.
    #[must_use]
    pub fn is_zero(&self) -> bool {
        self.sign() == Ordering::Equal
    }

    /// The comparison with zero.
    #[must_use]
    pub fn sign(&self) -> Ordering {
        match &self.0 {
            DecimalRepr::Integer(integer) => integer.cmp(&0),
            DecimalRepr::Exact(number) => match number.sign() {
                Sign::Minus => Ordering::Less,
                Sign::NoSign => Ordering::Equal,
                Sign::Plus => Ordering::Greater,
            },
        }
    }

    /// The sum, exact.
    ///
    /// # Errors
    /// [`NotADecimal::Range`] if the result exceeds DynamoDB's limits.
    pub fn plus(&self, other: &Self) -> Result<Self, NotADecimal> {
        if let (DecimalRepr::Integer(a), DecimalRepr::Integer(b)) = (&self.0, &other.0)
            && let Some(sum) = a.checked_add(*b)
        {
            return Ok(Self(DecimalRepr::Integer(sum)));
        }
        Self::from_big(self.to_big() + other.to_big())
    }

    /// The sum, exact, also if it exceeds DynamoDB's limits: the difference of two numbers can have more digits than both.
    ///
    /// ```
    /// use afterwrite_model::record::Decimal;
    /// let (large, one): (Decimal, Decimal) = ("1E+39".parse()?, Decimal::ONE);
    /// let change = one.plus_unlimited(&large.negated());
    /// assert!(!change.is_storable());
    /// assert_eq!(large.plus(&change)?, one);
    /// # Ok::<(), afterwrite_model::record::NotADecimal>(())
    /// ```
    #[must_use]
    pub fn plus_unlimited(&self, other: &Self) -> Self {
        self.plus(other).unwrap_or_else(|_| Self::normal(self.to_big() + other.to_big()))
    }

    /// Whether DynamoDB can store the number.
    #[must_use]
    pub fn is_storable(&self) -> bool {
        match &self.0 {
            DecimalRepr::Integer(_) => true,
            DecimalRepr::Exact(number) => is_within_limits(number),
        }
    }

    /// The difference, exact.
    ///
    /// # Errors
    /// [`NotADecimal::Range`] if the result exceeds DynamoDB's limits.
    pub fn minus(&self, other: &Self) -> Result<Self, NotADecimal> {
        self.plus(&other.negated())
    }

    /// The product, exact.
    ///
    /// # Errors
    /// [`NotADecimal::Range`] if the result exceeds DynamoDB's limits.
    pub fn times(&self, other: &Self) -> Result<Self, NotADecimal> {
        if let (DecimalRepr::Integer(a), DecimalRepr::Integer(b)) = (&self.0, &other.0)
            && let Some(product) = a.checked_mul(*b)
        {
            return Ok(Self(DecimalRepr::Integer(product)));
        }
        Self::from_big(self.to_big() * other.to_big())
    }

    /// The number with the opposite sign.
    #[must_use]
    pub fn negated(&self) -> Self {
        match &self.0 {
            DecimalRepr::Integer(integer) => match integer.checked_neg() {
                Some(negated) => Self(DecimalRepr::Integer(negated)),
                None => Self(DecimalRepr::Exact(Box::new(-BigDecimal::from(*integer)))),
            },
            DecimalRepr::Exact(number) => Self::normal(-number.as_ref()),
        }
    }

    /// The quotient, rounded half to even at `places` decimal places; `None` if the divisor is zero or the quotient
    /// exceeds DynamoDB's limits.
    #[must_use]
    pub fn divided_by(&self, divisor: &Self, places: u8) -> Option<Self> {
        if divisor.is_zero() {
            return None;
        }
        let (numerator, denominator) = self.integer_ratio(divisor);
        let numerator = numerator * BigInt::from(10).pow(u32::from(places));
        let quotient = round_half_even(&numerator, &denominator);
        Self::from_big(BigDecimal::from_bigint(quotient, i64::from(places))).ok()
    }

    /// The largest integer that is at most `self / divisor`; `None` if the divisor is zero or the result exceeds an
    /// `i64`.
    #[must_use]
    pub fn floor_divided_by(&self, divisor: &Self) -> Option<i64> {
        if let (DecimalRepr::Integer(a), DecimalRepr::Integer(b)) = (&self.0, &divisor.0)
            && *b > 0
        {
            return Some((*a).div_euclid(*b));
        }
        if divisor.is_zero() {
            return None;
        }
        let (numerator, denominator) = self.integer_ratio(divisor);
        // Euclidean division rounds down if the denominator is positive.
        let is_negative = denominator.is_negative();
        let numerator = if is_negative { -numerator } else { numerator };
        i64::try_from(numerator.div_euclid(&denominator.abs())).ok()
    }

    /// Two integers with the ratio `self / divisor`: both numbers at the same scale.
    fn integer_ratio(&self, divisor: &Self) -> (BigInt, BigInt) {
        let (dividend, divisor) = (self.to_big(), divisor.to_big());
        let scale = dividend.fractional_digit_count().max(divisor.fractional_digit_count()).max(0);
        let integer = |number: BigDecimal| number.with_scale(scale).into_bigint_and_scale().0;
        (integer(dividend), integer(divisor))
    }

    /// The exact comparison of `self / denominator` with `other`; `denominator` must be positive.
    #[must_use]
    pub fn compare_quotient(&self, denominator: &Self, other: &Self) -> Ordering {
        if let (DecimalRepr::Integer(a), DecimalRepr::Integer(b), DecimalRepr::Integer(c)) =
            (&self.0, &denominator.0, &other.0)
        {
            return i128::from(*a).cmp(&(i128::from(*b) * i128::from(*c)));
        }
        self.to_big().cmp(&(denominator.to_big() * other.to_big()))
    }

    /// The number as an `i64`; `None` if it is not an integer or exceeds an `i64`.
    #[must_use]
    pub fn to_i64(&self) -> Option<i64> {
        if let DecimalRepr::Integer(integer) = self.0 { Some(integer) } else { None }
    }

    /// The number as a multiple of 10^−`scale`; `None` if it is not exact or exceeds an `i128`.
    ///
    /// ```
    /// use afterwrite_model::record::Decimal;
    /// let price: Decimal = "12.5".parse()?;
    /// assert_eq!((price.scaled(2), price.scaled(0)), (Some(1250), None));
    /// # Ok::<(), afterwrite_model::record::NotADecimal>(())
    /// ```
    #[must_use]
    pub fn scaled(&self, scale: u8) -> Option<i128> {
        let power = |exponent: i64| 10_i128.checked_pow(u32::try_from(exponent).ok()?);
        match &self.0 {
            DecimalRepr::Integer(integer) => i128::from(*integer).checked_mul(power(i64::from(scale))?),
            DecimalRepr::Exact(number) => {
                let (digits, places) = number.as_bigint_and_exponent();
                i128::try_from(digits).ok()?.checked_mul(power(i64::from(scale) - places)?)
            }
        }
    }

    /// The number of digits after the decimal point; negative for the zeros at the end of an integer that exceeds an
    /// `i64`.
    #[must_use]
    pub fn fraction_digits(&self) -> i64 {
        match &self.0 {
            DecimalRepr::Integer(_) => 0,
            DecimalRepr::Exact(number) => number.fractional_digit_count(),
        }
    }

    /// The nearest float.
    #[must_use]
    pub fn to_f64(&self) -> f64 {
        // DynamoDB's magnitudes fit an `f64`, so parsing cannot fail; the parser rounds to the nearest.
        self.to_string().parse().unwrap_or(f64::NAN)
    }

    fn to_big(&self) -> BigDecimal {
        match &self.0 {
            DecimalRepr::Integer(integer) => BigDecimal::from(*integer),
            DecimalRepr::Exact(number) => number.as_ref().clone(),
        }
    }

    /// The canonical form, so that equal numbers have equal forms: an integer if it fits, no trailing zeros.
    fn normal(number: BigDecimal) -> Self {
        let number = number.normalized();
        if number.fractional_digit_count() <= 0
            && let Some(integer) = number.to_i64()
        {
            return Self(DecimalRepr::Integer(integer));
        }
        Self(DecimalRepr::Exact(Box::new(number)))
    }

    fn from_big(number: BigDecimal) -> Result<Self, NotADecimal> {
        let number = number.normalized();
        if is_within_limits(&number) { Ok(Self::normal(number)) } else { Err(NotADecimal::Range) }
    }
}

/// Whether a normalized number has at most 38 digits, and a magnitude that DynamoDB can store.
fn is_within_limits(number: &BigDecimal) -> bool {
    let digits = i64::try_from(number.digits()).unwrap_or(i64::MAX);
    let magnitude = digits - number.fractional_digit_count() - 1;
    number.is_zero() || (digits <= MAX_DIGITS && (MIN_MAGNITUDE..=MAX_MAGNITUDE).contains(&magnitude))
}

/// Compares twice the remainder with the divisor, which is exact.
fn round_half_even(numerator: &BigInt, denominator: &BigInt) -> BigInt {
    let (quotient, remainder) = (numerator / denominator, numerator % denominator);
    let away_from_zero = match (remainder.abs() * BigInt::from(2)).cmp(&denominator.abs()) {
        Ordering::Less => false,
        Ordering::Equal => (&quotient % BigInt::from(2)) != BigInt::ZERO,
        Ordering::Greater => true,
    };
    if away_from_zero { quotient + numerator.signum() * denominator.signum() } else { quotient }
}

impl From<i64> for Decimal {
    fn from(integer: i64) -> Self {
        Self(DecimalRepr::Integer(integer))
    }
}

impl FromStr for Decimal {
    type Err = NotADecimal;

    /// Parses every notation that DynamoDB writes or accepts: `-12`, `0.10`, `+.5`, `5.`, `6.02E+23`.
    fn from_str(text: &str) -> Result<Self, NotADecimal> {
        match text.parse() {
            Ok(integer) => Ok(Self(DecimalRepr::Integer(integer))),
            Err(_) => DecimalText::parse(text).ok_or(NotADecimal::Syntax)?.value(),
        }
    }
}

/// The text of a number. DynamoDB's limits are checked on the text, so that `1E999999999` or a million digits are cheap.
struct DecimalText<'a> {
    is_negative: bool,
    whole: &'a str,
    fraction: &'a str,
    exponent: i64,
}

impl<'a> DecimalText<'a> {
    fn parse(text: &'a str) -> Option<Self> {
        let (is_negative, unsigned) = match text.strip_prefix('-') {
            Some(unsigned) => (true, unsigned),
            None => (false, text.strip_prefix('+').unwrap_or(text)),
        };
        let (coefficient, exponent) = match unsigned.split_once(['E', 'e']) {
            Some((coefficient, exponent)) => (coefficient, exponent.parse().ok()?),
            None => (unsigned, 0),
        };
        let (whole, fraction) = coefficient.split_once('.').unwrap_or((coefficient, ""));
        let mut digits = whole.bytes().chain(fraction.bytes()).peekable();
        let is_number = digits.peek().is_some() && digits.all(|digit| digit.is_ascii_digit());
        is_number.then_some(Self { is_negative, whole, fraction, exponent })
    }

    fn value(self) -> Result<Decimal, NotADecimal> {
        fn length(text: &str) -> i64 {
            i64::try_from(text.len()).unwrap_or(i64::MAX)
        }
        let digits = [self.whole, self.fraction].concat();
        let without_tail = digits.trim_end_matches('0');
        let significant = without_tail.trim_start_matches('0');
        if significant.is_empty() {
            return Ok(Decimal::ZERO);
        }
        let tail = length(&digits) - length(without_tail);
        let exponent = self.exponent.saturating_sub(length(self.fraction)).saturating_add(tail);
        let magnitude = exponent.saturating_add(length(significant) - 1);
        if length(significant) > MAX_DIGITS || !(MIN_MAGNITUDE..=MAX_MAGNITUDE).contains(&magnitude) {
            return Err(NotADecimal::Range);
        }
        let coefficient: i128 = significant.parse().map_err(|_| NotADecimal::Range)?;
        let coefficient = BigInt::from(if self.is_negative { -coefficient } else { coefficient });
        Ok(Decimal::normal(BigDecimal::from_bigint(coefficient, -exponent)))
    }
}

/// Plain digits, or an exponent if plain digits would need more than 38 zeros. DynamoDB accepts both.
impl fmt::Display for Decimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            DecimalRepr::Integer(integer) => write!(f, "{integer}"),
            DecimalRepr::Exact(number) => {
                let (coefficient, scale) = number.as_bigint_and_scale();
                if scale.abs() <= MAX_DIGITS {
                    number.write_plain_string(f)
                } else {
                    write!(f, "{coefficient}E{}", -scale)
                }
            }
        }
    }
}

impl Ord for Decimal {
    fn cmp(&self, other: &Self) -> Ordering {
        match (&self.0, &other.0) {
            (DecimalRepr::Integer(a), DecimalRepr::Integer(b)) => a.cmp(b),
            _ => self.to_big().cmp(&other.to_big()),
        }
    }
}

impl PartialOrd for Decimal {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

#[cfg(test)]
mod tests;
