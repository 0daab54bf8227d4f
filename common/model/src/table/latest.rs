//! Measures `latest`: the value of the item with the latest time, ever seen.
//!
//! A rollup keeps such a measure in two attributes. `<measure>_seen` is a text of the time, the item's key and the value, whose order as a text is that
//! of the times, and of the keys where times are equal: the largest one is kept, exactly as `max` keeps it. The measure itself is the value
//! in that text, computed as an average is computed from its sum and count.

use std::sync::Arc;

use super::{Term, ValueFormat};
use crate::record::{AttributeValue, Decimal};

/// Follows the measure in the name of the attribute that is compared.
const SEEN: &str = "_seen";
/// Separates the parts of that attribute. It sorts before every printable character, so that a text sorts before its continuations.
const SEPARATOR: char = '\t';
/// Begins a value that is a number.
const NUMBER: char = 'N';
/// Begins a value that is a text.
const TEXT: char = 'S';
/// The parts of the order of a number: negative, zero, positive.
const SIGNS: [char; 3] = ['-', '0', '1'];
/// Above every digit: a negative number that goes on is smaller.
const END_OF_NEGATIVE: char = '~';
/// Added to the magnitude of a number, which is at least -130, so that it has no sign.
const MAGNITUDE_OFFSET: i64 = 500;

/// A measure `latest`.
#[derive(Clone, Debug)]
pub struct Latest {
    /// The value that is kept.
    pub of: Term,
    /// How the value is written.
    pub format: ValueFormat,
    /// The time by which the latest is chosen: a number or a text.
    pub by: Term,
    /// How the time is written.
    pub by_format: ValueFormat,
    /// The rollup's attributes: the text that is compared, and the measure.
    pub attributes: [Arc<str>; 2],
}

impl Latest {
    /// The attributes of a rollup for a measure of this name: the text that is compared, and the measure.
    #[must_use]
    pub fn attributes(name: &str) -> [Arc<str>; 2] {
        [Arc::from([name, SEEN].concat()), Arc::from(name)]
    }

    /// The attribute that is compared.
    #[must_use]
    pub fn seen(&self) -> &Arc<str> {
        let [seen, _] = &self.attributes;
        seen
    }

    /// The text that is compared: by the time first, then by the item's key, then by the value.
    #[must_use]
    pub fn text(by: &AttributeValue<'_>, key: &str, value: &AttributeValue<'_>) -> String {
        let order =
            by.as_number().map_or_else(|| by.as_text().map(ToOwned::to_owned), |by| Some(number_order(by)));
        let one_part = |text: &str| text.replace(SEPARATOR, " ");
        let (order, key) = (one_part(&order.unwrap_or_default()), one_part(key));
        let value = match value.as_number() {
            Some(number) => format!("{NUMBER}{number}"),
            None => format!("{TEXT}{}", value.as_text().unwrap_or_default()),
        };
        format!("{order}{SEPARATOR}{key}{SEPARATOR}{value}")
    }

    /// The value in a text that [`Latest::text`] made.
    #[must_use]
    pub fn value(seen: &str) -> Option<AttributeValue<'static>> {
        let value = seen.splitn(3, SEPARATOR).nth(2)?;
        match value.strip_prefix(NUMBER) {
            Some(number) => Some(AttributeValue::N(number.parse().ok()?)),
            None => Some(AttributeValue::text(value.strip_prefix(TEXT)?)),
        }
    }
}

/// A text whose order is that of the numbers.
fn number_order(number: &Decimal) -> String {
    let written = number.to_string();
    let (mantissa, exponent) = written.split_once(['E', 'e']).unwrap_or((&written, "0"));
    let mantissa = mantissa.trim_start_matches('-');
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = [whole, fraction].concat();
    let leading = digits.bytes().take_while(|digit| *digit == b'0').count();
    let digits = digits.trim_matches('0');
    // The number is 0.DIGITS times ten to the power of the magnitude.
    let places = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
    let magnitude = places(whole.len()) - places(leading) + exponent.parse::<i64>().unwrap_or(0);
    let [negative, zero, positive] = SIGNS;
    match number.sign() {
        std::cmp::Ordering::Equal => zero.to_string(),
        std::cmp::Ordering::Greater => format!("{positive}{:03}{digits}", MAGNITUDE_OFFSET + magnitude),
        std::cmp::Ordering::Less => {
            let digits: String = digits.bytes().map(|digit| char::from(b'0' + b'9' - digit)).collect();
            format!("{negative}{:03}{digits}{END_OF_NEGATIVE}", MAGNITUDE_OFFSET - magnitude)
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn number(text: &str) -> Decimal {
        text.parse().unwrap()
    }

    proptest! {
        #[test]
        fn texts_of_numbers_are_in_the_order_of_the_numbers(
            one in (-99_999_i64..99_999, -12_i32..12),
            other in (-99_999_i64..99_999, -12_i32..12),
        ) {
            let [one, other] = [one, other].map(|(digits, exponent)| number(&format!("{digits}E{exponent}")));
            prop_assert_eq!(number_order(&one).cmp(&number_order(&other)), one.cmp(&other), "{} {}", one, other);
        }

        #[test]
        fn the_value_is_in_the_text(key in ".*", by in ".*", text in ".*", digits in any::<i64>()) {
            for value in [AttributeValue::text(text.as_str()), AttributeValue::N(digits.into())] {
                let seen = Latest::text(&AttributeValue::text(by.as_str()), &key, &value);
                prop_assert_eq!(Latest::value(&seen), Some(value.into_owned()));
            }
        }
    }

    #[test]
    fn the_time_is_before_the_key_and_the_key_before_the_value() {
        let text = |by: &str, key: &str, value: &str| {
            Latest::text(&AttributeValue::text(by), key, &AttributeValue::text(value))
        };
        assert!(text("2026-02-06", "b", "b") < text("2026-02-06T10", "a", "a"));
        assert!(text("2026-02-06", "a", "b") < text("2026-02-06", "a#1", "a"));
        assert!(text("2026-02-06", "a", "a") < text("2026-02-06", "a", "b"));
        let by = |by: &str| Latest::text(&AttributeValue::N(number(by)), "", &AttributeValue::text(""));
        let ordered = [
            "-1E+125",
            "-20",
            "-12",
            "-1",
            "-0.5",
            "-1E-130",
            "0",
            "1E-130",
            "0.5",
            "1",
            "12",
            "1770400000",
            "1E+125",
        ];
        assert!(ordered.is_sorted_by_key(|text| by(text)));
        for other in ["no separators", "2\tone separator", "2\tkey\t", "2\tkey\tvalue", "2\tkey\tNtext"] {
            assert_eq!(Latest::value(other), None, "{other}");
        }
    }
}
