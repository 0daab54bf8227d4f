//! Words that name kinds of items: names of attributes, values of attributes that name types, the table's name, and usual words of keys.
//!
//! A segment of a key that is such a word is constant even if only a few items have it: it cannot be a person or a tenant by chance.

use std::collections::BTreeSet;

use super::attribute_names::is_type_name;
use super::kind_words::{COMMON_WORDS, folded, singular};
use super::sample::TableSample;
use super::texts::{is_plain_name, snake, word_style};

/// The shortest part of a word that consists of several.
const SHORTEST_PART: usize = 2;

/// The most parts of a word.
const MOST_PARTS: usize = 3;

/// Names of kinds of items, as far as a sample shows them.
#[derive(Clone, Debug)]
pub(super) struct KindVocabulary(BTreeSet<String>);

impl KindVocabulary {
    /// The words of a sample.
    pub(super) fn of(sample: &TableSample) -> Self {
        let mut words: BTreeSet<String> = COMMON_WORDS.iter().map(|word| (*word).to_owned()).collect();
        let names: BTreeSet<&str> =
            sample.items.iter().flat_map(|item| item.keys()).map(|name| &**name).collect();
        // Other names may be values, such as the addresses of people.
        let names = names.into_iter().filter(|name| is_plain_name(name));
        names.chain([sample.table.as_str()]).for_each(|name| add(&mut words, name));
        let attributes = sample.items.iter().flat_map(|item| item.iter());
        let types =
            attributes.filter(|(name, _)| is_type_name(name)).filter_map(|(_, value)| value.as_text());
        let types: BTreeSet<&str> = types.filter(|text| word_style(text).is_some()).collect();
        types.into_iter().for_each(|name| add_type(&mut words, name));
        Self(words)
    }

    /// Whether a segment names a kind of items: one of the words, or two or three of them together.
    pub(super) fn names(&self, segment: &str) -> bool {
        self.has_words(&folded(segment), MOST_PARTS)
    }

    fn has_words(&self, word: &str, most: usize) -> bool {
        let begins_with_one = |at: usize| {
            word.split_at_checked(at).is_some_and(|(head, tail)| {
                tail.len() >= SHORTEST_PART
                    && self.0.contains(&singular(head))
                    && self.has_words(tail, most - 1)
            })
        };
        self.0.contains(&singular(word)) || (most > 1 && (SHORTEST_PART..word.len()).any(begins_with_one))
    }
}

/// Adds a name, the beginnings of a name of several words, and their initials: `pull_request_id` has `pull`, `pull_request` and `pr`.
fn add(words: &mut BTreeSet<String>, name: &str) {
    let Some(name) = snake(name) else { return };
    let parts: Vec<&str> = name.split('_').collect();
    for count in 1..=parts.len() {
        let beginning = parts.iter().copied().take(count);
        words.insert(singular(&beginning.clone().collect::<String>()));
        if count > 1 {
            words.insert(initials(beginning));
        }
    }
}

/// Adds a type and its initials. The beginning of a type may be a value: `Jane` of `JaneDoe`.
fn add_type(words: &mut BTreeSet<String>, name: &str) {
    let Some(name) = snake(name) else { return };
    words.insert(singular(&folded(&name)));
    if name.contains('_') {
        words.insert(initials(name.split('_')));
    }
}

fn initials<'p>(parts: impl Iterator<Item = &'p str>) -> String {
    parts.filter_map(|part| part.chars().next()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_attributes_and_their_beginnings_are_names_of_kinds() {
        let mut words = BTreeSet::from(["comment".to_owned()]);
        add(&mut words, "pull_request_id");
        add(&mut words, "batteryLevel");
        let vocabulary = KindVocabulary(words);
        for named in [
            "PULLREQUEST",
            "PullRequests",
            "PR",
            "PRCOMMENT",
            "PRCOMMENTBATTERY",
            "battery",
            "BATTERIES",
            "COMMENTS",
        ] {
            assert!(vocabulary.names(named), "{named}");
        }
        for value in ["JANE", "victor", "request", "level", "", "ss"] {
            assert!(!vocabulary.names(value), "{value}");
        }
    }
}
