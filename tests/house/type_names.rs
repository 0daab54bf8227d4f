//! Names of types: none twice in a crate, and few of a single word.

use std::collections::BTreeMap;

use super::lexer::{RustToken, TokenKind};
use super::module_trees::{ModuleTree, module_trees};
use super::sources::{RuleBreach, SourceFile};

pub(crate) const UNIQUE_RULE: &str = "A public type name is defined twice within a crate";
pub(crate) const UNIQUE_REASON: &str =
    "A reader who meets the name must know at once which type it is, and a search must find one definition.";

/// Names that mean the same everywhere, each with its own type in many modules.
const SHARED_NAMES: [&str; 2] = ["Error", "Result"];

pub(crate) const WORDS_RULE: &str = "Too many type names are a single word";
pub(crate) const WORDS_REASON: &str = "One word is mostly vague, or means something else in the next module. Two or three words name exactly which thing \
    it is; a single word is for a term that every reader knows (`Ledger`, `Decimal`).";

/// The words of CONTRIBUTING.md before the largest share of types that may be named by a single word, in per cent.
pub(crate) const ONE_WORD_LIMIT: &str = "type names of one word: at most ";

/// A definition of a struct, an enum, a union, a trait or an alias.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TypeDefinition<'s> {
    pub(crate) name: &'s str,
    pub(crate) line: usize,
    /// Visible outside its module: `pub`, `pub(crate)` and so on.
    pub(crate) is_public: bool,
    pub(crate) is_test: bool,
}

/// The types that a file defines. Associated types belong to their trait, and are left out.
pub(crate) fn definitions(file: &SourceFile) -> Vec<TypeDefinition<'_>> {
    let tokens = file.code();
    let mut definitions = Vec::new();
    // For each open brace, whether it opened the body of an `impl` or a trait.
    let mut braces: Vec<bool> = Vec::new();
    let mut item_start = 0;
    for (index, token) in tokens.iter().enumerate() {
        match (token.kind, token.text) {
            (TokenKind::Symbol, "{") => {
                braces.push(is_implementation(&tokens[item_start..index]));
                item_start = index + 1;
            }
            (TokenKind::Symbol, "}") => {
                braces.pop();
                item_start = index + 1;
            }
            (TokenKind::Symbol, ";") => item_start = index + 1,
            (TokenKind::Word, "struct" | "enum" | "union" | "trait" | "type") => {
                let is_associated = token.text == "type" && braces.last().is_some_and(|is_body| *is_body);
                let name = tokens.get(index + 1).filter(|name| name.text.starts_with(char::is_uppercase));
                if let Some(name) = name.filter(|_| !is_associated) {
                    definitions.push(TypeDefinition {
                        name: name.text,
                        line: name.line,
                        is_public: tokens[item_start..index].iter().any(|token| token.is_word("pub")),
                        is_test: name.is_test,
                    });
                }
            }
            _ => {}
        }
    }
    definitions
}

/// Whether an item begins with `impl` or `trait`, its attributes and its visibility aside.
fn is_implementation(item: &[RustToken<'_>]) -> bool {
    const ITEMS: [&str; 8] = ["impl", "trait", "fn", "struct", "enum", "mod", "match", "if"];
    let keyword = item.iter().find(|token| token.kind == TokenKind::Word && ITEMS.contains(&token.text));
    keyword.is_some_and(|token| matches!(token.text, "impl" | "trait"))
}

/// Public names that a target defines a second time.
pub(crate) fn duplicates(files: &[SourceFile]) -> Vec<RuleBreach> {
    module_trees(files).iter().flat_map(duplicates_of).collect()
}

fn duplicates_of(tree: &ModuleTree<'_>) -> Vec<RuleBreach> {
    let mut first: BTreeMap<&str, String> = BTreeMap::new();
    let mut breaches = Vec::new();
    for (_, file) in tree.product_modules() {
        for TypeDefinition { name, line, is_public, is_test } in definitions(file) {
            if !is_public || is_test || SHARED_NAMES.contains(&name) {
                continue;
            }
            if let Some(earlier) = first.get(name) {
                let problem =
                    format!("`{name}` is defined in {earlier} too: give one of them a name of two words");
                breaches.push(RuleBreach::new(&file.path, line, problem));
            } else {
                first.insert(name, format!("{}:{line}", file.path));
            }
        }
    }
    breaches
}

/// How many types the files define, and one breach for each whose name is one word.
pub(crate) fn one_word_names(files: &[SourceFile]) -> (usize, Vec<RuleBreach>) {
    let (mut count, mut one_word) = (0, Vec::new());
    for file in files.iter().filter(|file| file.is_rust()) {
        for TypeDefinition { name, line, .. } in definitions(file) {
            count += 1;
            if word_count(name) == 1 {
                one_word.push(RuleBreach::new(&file.path, line, format!("`{name}` is one word")));
            }
        }
    }
    (count, one_word)
}

/// The number of words of a name in camel case: `Ledger` 1, `ItemKey` 2, `S3Bucket` 2, `IOError` 2.
fn word_count(name: &str) -> usize {
    let characters: Vec<char> = [' '].into_iter().chain(name.chars()).chain([' ']).collect();
    characters.windows(3).filter(|window| starts_word(window[0], window[1], window[2])).count()
}

/// Whether a character, between the one before it and the one after it, is the first one of a word.
fn starts_word(before: char, character: char, after: char) -> bool {
    character.is_uppercase() && (!before.is_uppercase() || after.is_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_as_many_words_as_humps() {
        let counts = ["Ledger", "ItemKey", "S3Bucket", "IOError", "DynamoDbTable", "X"].map(word_count);
        assert_eq!(counts, [1, 2, 2, 2, 3, 1]);
    }

    #[test]
    fn associated_types_and_types_of_functions() {
        let source = "pub trait A { type Item; } impl A for B { type Item = u8; } fn f() -> impl A { struct C; } pub(crate) type D = u8;";
        let file = SourceFile::new("a.rs", source);
        let found: Vec<(&str, bool)> =
            definitions(&file).iter().map(|definition| (definition.name, definition.is_public)).collect();
        assert_eq!(found, [("A", true), ("C", false), ("D", true)]);
    }

    #[test]
    fn a_name_twice_in_a_crate_is_reported_and_in_two_crates_is_not() {
        let files = [
            SourceFile::new("common/model/src/a.rs", "pub struct Key; pub enum Error {} struct Own;"),
            SourceFile::new(
                "common/model/src/b.rs",
                "pub struct Own; #[cfg(test)] mod t { pub struct Key; }",
            ),
            SourceFile::new("common/model/src/c.rs", "pub(super) struct Key; pub struct Error;"),
            SourceFile::new("common/model/src/lib.rs", "mod a; mod b; mod c;"),
            SourceFile::new("common/model/Cargo.toml", "[package]\nname = \"a\""),
            SourceFile::new("cli/src/lib.rs", "pub struct Key;"),
            SourceFile::new("cli/Cargo.toml", "[package]\nname = \"b\""),
        ];
        let breaches = duplicates(&files);
        assert_eq!(breaches.len(), 1);
        assert_eq!((&*breaches[0].path, breaches[0].line), ("common/model/src/c.rs", 1));
    }

    #[test]
    fn names_of_one_word_are_counted_with_private_and_test_types() {
        let files =
            [SourceFile::new("a.rs", "struct Key; struct ItemKey; #[cfg(test)] mod t { struct Probe; }")];
        let (count, one_word) = one_word_names(&files);
        let names: Vec<&str> = one_word.iter().map(|breach| &*breach.problem).collect();
        assert_eq!((count, names.as_slice()), (3, &["`Key` is one word", "`Probe` is one word"][..]));
    }
}
