//! Words that name kinds of items: names of attributes, values of attributes that name types, the table's name, and usual words of keys.
//!
//! A segment of a key that is such a word is constant even if only a few items have it: it cannot be a person or a tenant by chance.

use std::collections::BTreeSet;

use super::attributes::is_type_name;
use super::sample::TableSample;
use super::texts::{snake, word_style};

/// Words that begin keys in many designs, in lower case and singular.
const COMMON_WORDS: [&str; 148] = [
    "account",
    "addr",
    "address",
    "admin",
    "alert",
    "all",
    "answer",
    "api",
    "app",
    "appointment",
    "article",
    "asset",
    "at",
    "attempt",
    "audit",
    "author",
    "balance",
    "batch",
    "bid",
    "book",
    "booking",
    "branch",
    "campaign",
    "card",
    "cart",
    "category",
    "channel",
    "chapter",
    "chat",
    "city",
    "client",
    "comment",
    "commit",
    "company",
    "config",
    "contact",
    "contract",
    "conversation",
    "count",
    "country",
    "course",
    "customer",
    "date",
    "day",
    "department",
    "device",
    "doc",
    "document",
    "email",
    "employee",
    "event",
    "file",
    "flight",
    "folder",
    "follow",
    "follower",
    "following",
    "friend",
    "game",
    "gist",
    "group",
    "history",
    "hotel",
    "image",
    "index",
    "info",
    "inventory",
    "invite",
    "invoice",
    "issue",
    "item",
    "job",
    "lead",
    "lesson",
    "like",
    "line",
    "location",
    "log",
    "match",
    "media",
    "member",
    "membership",
    "message",
    "meta",
    "metric",
    "month",
    "msg",
    "note",
    "notification",
    "offer",
    "order",
    "org",
    "organization",
    "owner",
    "page",
    "patient",
    "payment",
    "permission",
    "photo",
    "plan",
    "player",
    "policy",
    "post",
    "price",
    "product",
    "profile",
    "project",
    "quiz",
    "quota",
    "question",
    "rating",
    "reaction",
    "reading",
    "region",
    "repo",
    "report",
    "request",
    "reservation",
    "review",
    "role",
    "room",
    "rule",
    "score",
    "sensor",
    "session",
    "setting",
    "shipment",
    "shop",
    "sku",
    "star",
    "status",
    "stock",
    "store",
    "student",
    "subscription",
    "tag",
    "task",
    "team",
    "tenant",
    "thread",
    "ticket",
    "token",
    "topic",
    "transaction",
    "transfer",
    "usage",
    "user",
    "version",
];

/// The shortest part of a word that consists of two.
const SHORTEST_PART: usize = 2;

/// Whether a word names a kind of items in many designs.
pub(super) fn names_kind(word: &str) -> bool {
    COMMON_WORDS.contains(&singular(&folded(word)).as_str())
}

/// Names of kinds of items, as far as a sample shows them.
#[derive(Clone, Debug)]
pub(super) struct KindVocabulary(BTreeSet<String>);

impl KindVocabulary {
    /// The words of a sample.
    pub(super) fn of(sample: &TableSample) -> Self {
        let mut words: BTreeSet<String> = COMMON_WORDS.iter().map(|word| (*word).to_owned()).collect();
        let names: BTreeSet<&str> =
            sample.items.iter().flat_map(|item| item.keys()).map(|name| &**name).collect();
        names.into_iter().chain([sample.table.as_str()]).for_each(|name| add(&mut words, name));
        let attributes = sample.items.iter().flat_map(|item| item.iter());
        let types =
            attributes.filter(|(name, _)| is_type_name(name)).filter_map(|(_, value)| value.as_text());
        let types: BTreeSet<&str> = types.filter(|text| word_style(text).is_some()).collect();
        types.into_iter().for_each(|name| add(&mut words, name));
        Self(words)
    }

    /// Whether a segment names a kind of items: one of the words, or two of them together.
    pub(super) fn names(&self, segment: &str) -> bool {
        let word = folded(segment);
        let is_pair = |at: usize| {
            word.split_at_checked(at).is_some_and(|(head, tail)| {
                head.len() >= SHORTEST_PART
                    && tail.len() >= SHORTEST_PART
                    && self.0.contains(&singular(head))
                    && self.0.contains(&singular(tail))
            })
        };
        self.0.contains(&singular(&word)) || (1..word.len()).any(is_pair)
    }
}

/// Adds a name, the beginnings of a name of several words, and their initials: `pull_request_id` has `pull`, `pull_request` and `pr`.
fn add(words: &mut BTreeSet<String>, name: &str) {
    let Some(name) = snake(name) else { return };
    let parts: Vec<&str> = name.split('_').collect();
    for count in 1..=parts.len() {
        let beginning = parts.iter().take(count);
        words.insert(singular(&beginning.clone().copied().collect::<String>()));
        if count > 1 {
            words.insert(beginning.filter_map(|part| part.chars().next()).collect());
        }
    }
}

/// A word in lower case, letters and digits only.
fn folded(word: &str) -> String {
    let plain = word.chars().filter(char::is_ascii_alphanumeric);
    plain.map(|character| character.to_ascii_lowercase()).collect()
}

fn singular(word: &str) -> String {
    match (word.strip_suffix("ies"), word.strip_suffix('s')) {
        (Some(stem), _) if stem.len() > 1 => format!("{stem}y"),
        (_, Some(stem)) if stem.len() > 1 && !stem.ends_with('s') => stem.to_owned(),
        _ => word.to_owned(),
    }
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
        for named in ["PULLREQUEST", "PullRequests", "PR", "PRCOMMENT", "battery", "BATTERIES", "COMMENTS"] {
            assert!(vocabulary.names(named), "{named}");
        }
        for value in ["JANE", "victor", "request", "level", "", "ss"] {
            assert!(!vocabulary.names(value), "{value}");
        }
    }
}
