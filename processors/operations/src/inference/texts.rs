//! Values as key texts, their segments, and the words among them.

use std::borrow::Cow;
use std::collections::BTreeMap;

use afterwrite::record::{AttributeValue, Timestamp};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// The characters that keys are separated by, the most usual first.
const SEPARATORS: [char; 8] = ['#', '|', '~', ':', '/', '.', '_', '-'];

/// The longest word that a constant part of a key is.
const LONGEST_WORD: usize = 32;

/// A value as a template writes it into a key; `None` if it cannot be part of one.
pub(super) fn text_of<'v>(value: &'v AttributeValue<'_>) -> Option<Cow<'v, str>> {
    match value {
        AttributeValue::S(text) => Some(Cow::Borrowed(text)),
        AttributeValue::N(number) => Some(Cow::Owned(number.to_string())),
        AttributeValue::B(bytes) => Some(Cow::Owned(STANDARD.encode(bytes))),
        AttributeValue::Bool(_)
        | AttributeValue::Null
        | AttributeValue::M(_)
        | AttributeValue::L(_)
        | AttributeValue::Ss(_)
        | AttributeValue::Ns(_)
        | AttributeValue::Bs(_) => None,
    }
}

/// How a word is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WordStyle {
    Upper,
    Lower,
    Mixed,
}

/// The style of a word: letters, `_` and `-`, a letter first. Other texts (ids, numbers, times) are values.
pub(super) fn word_style(text: &str) -> Option<WordStyle> {
    let is_plain = |character: char| character.is_ascii_alphabetic() || "_-".contains(character);
    let is_word = text.len() <= LONGEST_WORD
        && text.starts_with(|first: char| first.is_ascii_alphabetic())
        && text.chars().all(is_plain);
    let (has_upper, has_lower) = (
        text.contains(|character: char| character.is_ascii_uppercase()),
        text.contains(|character: char| character.is_ascii_lowercase()),
    );
    is_word.then_some(match (has_upper, has_lower) {
        (true, false) => WordStyle::Upper,
        (false, _) => WordStyle::Lower,
        (true, true) => WordStyle::Mixed,
    })
}

/// The character that separates the segments of most of these keys: the one with most keys that begin with one of few words and it.
pub(super) fn separator_of<'t>(texts: impl Iterator<Item = &'t str> + Clone) -> Option<char> {
    let mut best: Option<(usize, char)> = None;
    for separator in SEPARATORS {
        let mut heads: BTreeMap<&str, usize> = BTreeMap::new();
        for text in texts.clone() {
            if let Some((head, _)) = text.split_once(separator)
                && word_style(head).is_some()
            {
                *heads.entry(head).or_default() += 1;
            }
        }
        let covered: usize = heads.values().sum();
        let is_usual = "#|".contains(separator);
        let most_heads = if is_usual { covered / 3 + 8 } else { covered / 10 + 2 };
        let is_better = best.is_none_or(|(most, _)| covered > most);
        // The one letter of all identifiers, as in `u-17`, is part of them.
        let is_part = !is_usual && heads.len() == 1 && heads.keys().all(|head| head.len() == 1);
        if covered > 0 && (is_usual || covered > 2) && heads.len() <= most_heads && is_better && !is_part {
            best = Some((covered, separator));
        }
    }
    best.map(|(_, separator)| separator)
}

/// The segments of a key. A time is one segment, whatever it contains.
pub(super) fn segments(text: &str, separator: Option<char>) -> Vec<&str> {
    let Some(separator) = separator else { return vec![text] };
    let mut segments = Vec::new();
    let mut rest = text;
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
    let is_of_time = |character: char| {
        character.is_ascii_digit() || matches!(character, 'T' | 'Z' | ':' | '.' | '+' | '-')
    };
    if !text.starts_with(|first: char| first.is_ascii_digit()) {
        return 0;
    }
    let length = text.find(|character: char| !is_of_time(character)).unwrap_or(text.len());
    let time = text.get(..length).unwrap_or_default().trim_end_matches([':', '.', '-', '+']);
    // An id may follow a date.
    let candidates = [Some(time), text.get(.."2026-02-06".len())];
    let mut times = candidates.into_iter().flatten().filter(|time| time.len() >= "2026-02-06".len());
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

/// Whether a name can be a variable of a template.
pub(super) fn is_plain_name(name: &str) -> bool {
    !name.is_empty()
        && name.chars().all(|character| character.is_ascii_alphanumeric() || "_-".contains(character))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_cut_at_their_separator_but_times_are_not() {
        assert_eq!(segments("ORDER#1#ITEM#", Some('#')), ["ORDER", "1", "ITEM", ""]);
        assert_eq!(segments("at:2026-02-06T14:30:00Z:x", Some(':')), ["at", "2026-02-06T14:30:00Z", "x"]);
        assert_eq!(segments("log-2026-02-06-7f", Some('-')), ["log", "2026-02-06", "7f"]);
        assert_eq!(segments("a#b", None), ["a#b"]);
    }

    #[test]
    fn the_separator_follows_a_word_in_most_keys() {
        let of = |texts: &[&str]| separator_of(texts.iter().copied());
        assert_eq!(of(&["USER#a_b", "USER#c_d", "PROFILE"]), Some('#'));
        assert_eq!(of(&["user:1", "user:2", "order:3"]), Some(':'));
        assert_eq!(of(&["7d3f-a", "9e-b"]), None);
        assert_eq!(of(&["u-1", "u-2", "u-3"]), None);
        assert_eq!(of(&["u-1", "u-2", "o-3"]), Some('-'));
        assert_eq!(of(&["my-first-post", "a-second-one", "third-post"]), None);
    }

    #[test]
    fn names_are_written_in_lower_case() {
        for (text, name) in [
            ("OrderItem", Some("order_item")),
            ("ORDER-ITEM", Some("order_item")),
            ("#X", Some("x")),
            ("12", None),
            ("", None),
        ] {
            assert_eq!(snake(text).as_deref(), name, "{text}");
        }
    }
}
