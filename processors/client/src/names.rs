//! Names in clients: a model's names as identifiers of both languages, each once.

use std::collections::BTreeSet;

/// The members of every object in TypeScript: a property with such a name would hide them, and one that is absent would be theirs.
pub(crate) const OBJECT_MEMBERS: [&str; 7] = [
    "constructor",
    "hasOwnProperty",
    "isPrototypeOf",
    "propertyIsEnumerable",
    "toLocaleString",
    "toString",
    "valueOf",
];

/// The types of members in Python: in a class, a member with such a name would be the type of the members after it.
const PYTHON_TYPES: [&str; 8] =
    ["Decimal", "List", "MirroredValue", "Optional", "Union", "float", "int", "str"];

/// The words that are no identifiers in Python.
const PYTHON_KEYWORDS: [&str; 35] = [
    "False", "None", "True", "and", "as", "assert", "async", "await", "break", "class", "continue", "def",
    "del", "elif", "else", "except", "finally", "for", "from", "global", "if", "import", "in", "is",
    "lambda", "nonlocal", "not", "or", "pass", "raise", "return", "try", "while", "with", "yield",
];

/// A name as an identifier: `address.value.state` is `address_value_state`.
pub(crate) fn identifier(name: &str) -> String {
    let unquoted = name.trim_matches('\'');
    let plain =
        unquoted.chars().map(|character| if character.is_ascii_alphanumeric() { character } else { '_' });
    let mut identifier: String = plain.collect();
    // A name that begins with an underscore can have another meaning in Python.
    if !identifier.starts_with(|first: char| first.is_ascii_alphabetic()) {
        identifier.insert(0, 'x');
    }
    let reserved = PYTHON_KEYWORDS.iter().chain(&PYTHON_TYPES).chain(&OBJECT_MEMBERS);
    if reserved.into_iter().any(|reserved| **reserved == *identifier) {
        identifier.push('_');
    }
    identifier
}

/// Whether a name can be written as it is in both languages.
pub(crate) fn is_identifier(name: &str) -> bool {
    identifier(name) == name
}

/// An identifier as the name of a type: `admin_day` is `AdminDay`.
pub(crate) fn type_name(identifier: &str) -> String {
    let parts = identifier.split('_').filter(|part| !part.is_empty());
    parts.map(capitalized).collect()
}

fn capitalized(part: &str) -> String {
    let mut characters = part.chars();
    let first = characters.next().map(|first| first.to_ascii_uppercase());
    first.into_iter().chain(characters).collect()
}

/// The name of a type as the name of a value: `AdminDay` is `adminDay`.
pub(crate) fn value_name(type_name: &str) -> String {
    let mut characters = type_name.chars();
    let first = characters.next().map(|first| first.to_ascii_lowercase());
    first.into_iter().chain(characters).collect()
}

/// Gives each name once. Names that differ in capital letters and underscores only are the same.
#[derive(Debug, Default)]
pub(crate) struct UniqueNames(BTreeSet<String>);

impl UniqueNames {
    /// The identifier of a name; with a number, if another name has it, or if `is_free` refuses it.
    pub(crate) fn take(&mut self, name: &str, is_free: impl Fn(&str) -> bool) -> String {
        let identifier = identifier(name);
        let numbered = (2..).map(|number| format!("{identifier}_{number}"));
        let mut names = std::iter::once(identifier.clone()).chain(numbered);
        let free = names.find(|name| is_free(name) && self.0.insert(type_name(name).to_lowercase()));
        free.unwrap_or(identifier)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_identifiers_of_both_languages() {
        for (name, expected) in [
            ("admin_day", "admin_day"),
            ("price-sum", "price_sum"),
            ("address.value.state", "address_value_state"),
            ("'First Name'", "First_Name"),
            ("größe", "gr__e"),
            ("class", "class_"),
            ("constructor", "constructor_"),
            ("toString", "toString_"),
            ("str", "str_"),
            ("7days", "x7days"),
            ("__init__", "x__init__"),
        ] {
            assert_eq!(identifier(name), expected);
            assert!(is_identifier(expected), "{expected}");
        }
        assert_eq!(
            [type_name("admin_day"), type_name("adminDay"), value_name("AdminDay")],
            ["AdminDay", "AdminDay", "adminDay"]
        );
    }

    #[test]
    fn each_name_is_given_once() {
        let mut names = UniqueNames::default();
        let mut take = |name| names.take(name, |name| name != "taken");
        assert_eq!(["a_b", "aB", "a-b", "taken"].map(&mut take), ["a_b", "aB_2", "a_b_3", "taken_2"]);
    }
}
