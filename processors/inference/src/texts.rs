//! Values as texts of keys, and the words among them.

use std::borrow::Cow;

use afterwrite_model::record::{AttributeValue, Timestamp};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// The longest word that can be a constant part of a key.
const LONGEST_WORD: usize = 32;

/// A date: the shortest time.
const DATE: usize = "2026-02-06".len();

/// A value as a template writes it into a key; `None` if it cannot be part of one.
pub(super) fn text_of<'v>(value: &'v AttributeValue<'_>) -> Option<Cow<'v, str>> {
    if let AttributeValue::B(bytes) = value {
        return Some(Cow::Owned(STANDARD.encode(bytes)));
    }
    let number = || value.as_number().map(|number| Cow::Owned(number.to_string()));
    value.as_text().map(Cow::Borrowed).or_else(number)
}

/// How a word is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WordStyle {
    Upper,
    Lower,
    Mixed,
}

/// The style of a word: letters of any script, `_` and `-`, a letter first. Other texts (ids, numbers, times) are values. A word may begin
/// with `$` and then end with a version, as in ElectroDB's `$tasks_1`.
pub(super) fn word_style(text: &str) -> Option<WordStyle> {
    let versioned = |name: &'_ str| name.trim_end_matches(|last: char| last.is_ascii_digit()).len();
    let plain = text.strip_prefix('$').map_or(text, |name| name.get(..versioned(name)).unwrap_or(name));
    let is_plain = |character: char| character.is_alphabetic() || "_-".contains(character);
    let is_word = plain.chars().count() <= LONGEST_WORD
        && plain.starts_with(char::is_alphabetic)
        && plain.chars().all(is_plain);
    let (has_upper, has_lower) = (plain.contains(char::is_uppercase), plain.contains(char::is_lowercase));
    is_word.then_some(match (has_upper, has_lower) {
        (true, false) => WordStyle::Upper,
        (false, _) => WordStyle::Lower,
        (true, true) => WordStyle::Mixed,
    })
}

/// The segments of a key. A time is one segment, whatever it contains.
pub(super) fn segments(text: &str, separator: Option<char>) -> Vec<&str> {
    let Some(separator) = separator else { return vec![text] };
    let (mut segments, mut rest) = (Vec::new(), text);
    loop {
        let skipped = time_length(rest);
        let end = rest.get(skipped..).and_then(|tail| tail.find(separator)).map(|end| end + skipped);
        let Some((segment, tail)) = end.and_then(|end| rest.split_at_checked(end)) else { break };
        segments.push(segment);
        rest = tail.strip_prefix(separator).unwrap_or_default();
    }
    segments.push(rest);
    segments
}

/// The length of the time that a text begins with; 0 if it begins with something else.
fn time_length(text: &str) -> usize {
    let is_of_time = |character: char| character.is_ascii_digit() || "TZ:.+-".contains(character);
    let length = text.find(|character: char| !is_of_time(character)).unwrap_or(text.len());
    let time = text.get(..length).unwrap_or_default().trim_end_matches([':', '.', '-', '+']);
    // An id may follow a date.
    let candidates = [Some(time), text.get(..DATE)];
    let mut times = candidates.into_iter().flatten().filter(|time| time.len() >= DATE);
    times.find(|time| Timestamp::parse(time).is_some()).map_or(0, str::len)
}

/// A name in lower case with `_` between words: `OrderItem` and `ORDER-ITEM` are `order_item`. `None` without a letter.
pub(super) fn snake(text: &str) -> Option<String> {
    let mut name = String::new();
    let mut was_lower = false;
    for character in text.chars() {
        if character.is_ascii_alphanumeric() {
            if character.is_ascii_uppercase() && was_lower {
                name.push('_');
            }
            was_lower = character.is_ascii_lowercase();
            name.push(character.to_ascii_lowercase());
        } else if !name.is_empty() && !name.ends_with('_') {
            name.push('_');
            was_lower = false;
        }
    }
    let name = name.trim_end_matches('_');
    name.starts_with(|first: char| first.is_ascii_alphabetic()).then(|| name.to_owned())
}

/// A word in lower case, letters and digits only.
pub(super) fn folded(word: &str) -> String {
    word.chars().filter(char::is_ascii_alphanumeric).map(|one| one.to_ascii_lowercase()).collect()
}

/// Whether a name can be a variable of a template.
pub(super) fn is_plain_name(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|one| one.is_ascii_alphanumeric() || "_-".contains(one))
}

/// Whether an attribute of this name holds a key of an index, a copy of other values: `GSI1PK`, `gsi1_sk`, `indexSk`; not `task` or `DISK`.
pub(super) fn is_index_key(name: &str) -> bool {
    let Some((before, ending)) = name.len().checked_sub(2).and_then(|at| name.split_at_checked(at)) else {
        return false;
    };
    let begins_word = match before.chars().next_back() {
        Some(last) if last.is_lowercase() => ending.starts_with(|first: char| first.is_uppercase()),
        Some(last) if last.is_uppercase() => {
            ["GSI", "LSI", "INDEX"].iter().any(|index| before.ends_with(index))
        }
        Some(_) | None => true,
    };
    begins_word && ["pk", "sk"].iter().any(|key| ending.eq_ignore_ascii_case(key))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_that_ends_like_a_key_is_no_key() {
        for name in ["PK", "sk", "GSI1PK", "gsi1_sk", "indexSk", "byDatePK", "GSIPK", "gsi-1-pk"] {
            assert!(is_index_key(name), "{name}");
        }
        for name in ["task", "risk", "DISK", "Task", "k", "", "größe", "pks"] {
            assert!(!is_index_key(name), "{name}");
        }
    }
}
