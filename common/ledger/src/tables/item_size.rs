//! Item sizes by DynamoDB's rules, and the write units that they cost.
//!
//! The rules are those of the developer guide ("DynamoDB item sizes and formats"). Where the guide has "approximately" (numbers), the exact
//! rule was measured against the service: each side of the decimal point rounds up separately, and a minus sign costs a byte.

use afterwrite_model::record::{AttributeValue, Decimal, Item};

/// DynamoDB's limit on an item, names and values together, in bytes.
pub const MAX_ITEM_BYTES: usize = 400 * 1024;

/// One write unit per started kilobyte.
const WRITE_UNIT_BYTES: usize = 1024;
/// The overhead of a list or a map.
const COLLECTION_OVERHEAD_BYTES: usize = 3;
/// The overhead of each element of a list or a map.
const ELEMENT_OVERHEAD_BYTES: usize = 1;

/// The size of an item in bytes: the names and the values of its attributes.
#[must_use]
pub fn item_bytes(item: &Item) -> usize {
    item.iter().map(|(name, value)| name.len() + value_bytes(value)).sum()
}

/// The size of a value in bytes, without the name of its attribute.
#[must_use]
pub fn value_bytes(value: &AttributeValue<'_>) -> usize {
    match value {
        AttributeValue::S(text) => text.len(),
        AttributeValue::N(number) => number_bytes(number),
        AttributeValue::B(bytes) => bytes.len(),
        AttributeValue::Bool(_) | AttributeValue::Null => 1,
        AttributeValue::M(map) => {
            let elements =
                map.iter().map(|(name, value)| name.len() + value_bytes(value) + ELEMENT_OVERHEAD_BYTES);
            COLLECTION_OVERHEAD_BYTES + elements.sum::<usize>()
        }
        AttributeValue::L(list) => {
            let elements = list.iter().map(|value| value_bytes(value) + ELEMENT_OVERHEAD_BYTES);
            COLLECTION_OVERHEAD_BYTES + elements.sum::<usize>()
        }
        AttributeValue::Ss(set) => set.iter().map(|text| text.len()).sum(),
        AttributeValue::Ns(set) => set.iter().map(number_bytes).sum(),
        AttributeValue::Bs(set) => set.iter().map(|bytes| bytes.len()).sum(),
    }
}

/// The write units of `bytes` outside a transaction: one per started kilobyte, at least one.
#[must_use]
pub fn write_units(bytes: usize) -> u64 {
    u64::try_from(bytes.div_ceil(WRITE_UNIT_BYTES)).unwrap_or(u64::MAX).max(1)
}

/// One byte per two significant digits on each side of the point, one byte for the exponent, and one for a minus sign.
fn number_bytes(number: &Decimal) -> usize {
    let text = number.to_string();
    let (is_negative, unsigned) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.as_str()),
    };
    let (mantissa, exponent) = unsigned.split_once(['e', 'E']).unwrap_or((unsigned, "0"));
    let exponent = exponent.parse::<i64>().unwrap_or(0);
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = [whole, fraction].concat();
    let significant = digits.trim_start_matches('0');
    let leading_zeros = digits.len() - significant.len();
    let significant = significant.trim_end_matches('0').len();
    // The position of the decimal point among the significant digits, with the exponent applied.
    let point = signed(whole.len()) + exponent - signed(leading_zeros);
    let whole_digits = usize::try_from(point).unwrap_or(0).min(significant);
    let fraction_digits = significant - whole_digits;
    whole_digits.div_ceil(2) + fraction_digits.div_ceil(2) + 1 + usize::from(is_negative)
}

fn signed(length: usize) -> i64 {
    i64::try_from(length).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_costs_a_byte_per_two_digits_on_each_side_of_the_point() {
        for (text, bytes) in [
            ("0", 1),
            ("5", 2),
            ("42", 2),
            ("-42", 3),
            ("100", 2),
            ("1200", 2),
            ("12.5", 3),
            ("0.0012", 2),
            ("123.456", 5),
            ("1E+100", 2),
            ("-1E-100", 3),
            ("12345678901234567890123456789012345678", 20),
        ] {
            let number: Decimal = text.parse().unwrap();
            assert_eq!(number_bytes(&number), bytes, "{text}");
        }
    }

    #[test]
    fn collections_cost_three_bytes_and_one_per_element() {
        let list = AttributeValue::L(vec![AttributeValue::from("ab"), AttributeValue::Null]);
        assert_eq!(value_bytes(&list), 3 + (2 + 1) + (1 + 1));
        let map = AttributeValue::M([("k".into(), AttributeValue::Bool(true))].into());
        assert_eq!(value_bytes(&map), 3 + 1 + 1 + 1);
        assert_eq!(value_bytes(&AttributeValue::L(Vec::new())), 3);
    }

    #[test]
    fn a_write_unit_covers_a_started_kilobyte() {
        assert_eq!([0, 1, 1024, 1025].map(write_units), [1, 1, 1, 2]);
    }
}
