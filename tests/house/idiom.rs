//! Words and phrases that a reader with English as a second language misreads, and the plain words to write instead.
//!
//! The list is short on purpose: a list of words moves a dialect into the syntax, and does not end it. A review does.
//!
//! A pattern is a sequence of words. `a|b` is either word; `!a|b` is any word, or none, but not these.

use super::prose::{PassageKind, ProsePassage, ProseWord, passages};
use super::sources::{RuleBreach, SourceFile};

pub(crate) const RULE: &str = "Retired idiom";
pub(crate) const REASON: &str = "Comments, messages and names use plain technical English, so that an engineer on call who is not a \
    native speaker understands them at first reading.";

const PATTERNS: &[(&str, &str)] = &[
    ("nought|noughts", "zero, 0"),
    ("lest", "so that … not"),
    ("whoever|whosever|whomever", "name the component or the person"),
    ("anew", "again, from the start"),
    ("amid|amidst", "during, with"),
    ("whereupon|thereof|therein|hitherto|henceforth", "a plain sentence"),
    ("sought", "requested, the name of the key"),
    ("!there|or is|are|be|was|were none !of", "is not a …, is missing"),
    ("come|comes|came|coming again", "is redelivered, is returned again"),
    ("of none", "of no …"),
    ("those of these", "name the things that are selected"),
    ("of no function", "no function handles …"),
    ("becomes|become|became of", "name the result"),
    ("would be right", "a fix"),
    ("own|whose account", "by itself; because of which"),
];

/// Files that may contain the words, with the reason.
const EXCEPTIONS: &[(&str, &str)] =
    &[("tests/house/idiom.rs", "it lists the patterns, and has bad examples for its own tests")];

/// All breaches of the rule in these files.
pub(crate) fn breaches(files: &[SourceFile]) -> Vec<RuleBreach> {
    let patterns: Vec<IdiomPattern> = PATTERNS.iter().map(IdiomPattern::new).collect();
    let mut breaches = Vec::new();
    for file in files.iter().filter(|file| !EXCEPTIONS.iter().any(|(path, _)| file.path == *path)) {
        for passage in passages(file) {
            let found = patterns.iter().flat_map(|pattern| pattern.find_in(&passage));
            let found = found.chain(clause_openings(&passage));
            breaches.extend(found.map(|(line, problem)| RuleBreach::new(&file.path, line, problem)));
        }
    }
    breaches
}

/// A compiled pattern.
struct IdiomPattern {
    instead: &'static str,
    elements: Vec<PatternElement>,
}

enum PatternElement {
    OneOf(Vec<&'static str>),
    NoneOf(Vec<&'static str>),
}

impl IdiomPattern {
    fn new(&(source, instead): &(&'static str, &'static str)) -> Self {
        let element = |word: &'static str| match word.strip_prefix('!') {
            Some(words) => PatternElement::NoneOf(words.split('|').collect()),
            None => PatternElement::OneOf(word.split('|').collect()),
        };
        Self { instead, elements: source.split(' ').map(element).collect() }
    }

    fn find_in(&self, passage: &ProsePassage) -> Vec<(usize, String)> {
        let leading = usize::from(matches!(self.elements.first(), Some(PatternElement::NoneOf(_))));
        let starts =
            (0..passage.words.len()).filter(|start| self.matches_at(&passage.words, *start, leading));
        starts.map(|start| self.problem(&passage.words[start..])).collect()
    }

    /// The line and the report of a match at the beginning of these words.
    fn problem(&self, words: &[ProseWord]) -> (usize, String) {
        let length =
            self.elements.iter().filter(|element| matches!(element, PatternElement::OneOf(_))).count();
        let matched: Vec<&str> = words[..length].iter().map(|word| &*word.text).collect();
        (words[0].line, format!("\"{}\": write {}", matched.join(" "), self.instead))
    }

    /// Whether the words match from `start` on. The first `leading` elements of the pattern apply to the words before.
    fn matches_at(&self, words: &[ProseWord], start: usize, leading: usize) -> bool {
        self.elements.iter().enumerate().all(|(index, element)| {
            let word = (start + index).checked_sub(leading).and_then(|position| words.get(position));
            match element {
                PatternElement::OneOf(any) => word.is_some_and(|word| is_one_of(word, any)),
                PatternElement::NoneOf(none) => !word.is_some_and(|word| is_one_of(word, none)),
            }
        })
    }
}

fn is_one_of(word: &ProseWord, any: &[&str]) -> bool {
    any.iter().any(|expected| word.text.eq_ignore_ascii_case(expected))
}

/// The sentences of a passage. A colon does not end a sentence.
fn sentences(passage: &ProsePassage) -> impl Iterator<Item = &[ProseWord]> {
    passage.words.split_inclusive(|word| matches!(&*word.text, "." | "?"))
}

/// Sentences like "What it holds.", for which a noun is enough. Questions and headings are not reported.
fn clause_openings(passage: &ProsePassage) -> Vec<(usize, String)> {
    if !matches!(passage.kind, PassageKind::Comment | PassageKind::Page) {
        return Vec::new();
    }
    let is_clause = |sentence: &&[ProseWord]| {
        let is_question = sentence.last().is_some_and(|word| word.text == "?");
        !is_question && sentence.first().is_some_and(|word| word.text == "What" || word.text == "Whatever")
    };
    sentences(passage).filter(is_clause).map(clause_problem).collect()
}

fn clause_problem(sentence: &[ProseWord]) -> (usize, String) {
    let begin: Vec<&str> = sentence.iter().take(5).map(|word| &*word.text).collect();
    let problem =
        format!("a sentence opens with a clause, \"{} …\": open with a noun or a verb", begin.join(" "));
    (sentence[0].line, problem)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(path: &str, text: &str) -> Vec<String> {
        let breaches = breaches(&[SourceFile::new(path, text)]);
        breaches.into_iter().map(|breach| format!("{}: {}", breach.line, breach.problem)).collect()
    }

    #[test]
    fn every_pattern_finds_itself() {
        for (source, _) in PATTERNS {
            let example: Vec<&str> = source
                .split(' ')
                .filter(|word| !word.starts_with('!'))
                .map(|word| word.split('|').next().expect("a word"))
                .collect();
            let comment = format!("// Here {}", example.join(" "));
            assert!(!problems("common/model/src/a.rs", &comment).is_empty(), "{source}: {comment}");
        }
    }

    #[test]
    fn comments_strings_pages_names_and_paths_are_read() {
        let zero = |line: usize, word: &str| format!("{line}: \"{word}\": write zero, 0");
        assert_eq!(problems("a.rs", "// x\n// nought\n"), [zero(2, "nought")]);
        assert_eq!(problems("a.rs", "fn f() { g(\"is Nought\") }"), [zero(1, "Nought")]);
        assert_eq!(problems("a.rs", "fn to_nought() {}"), [zero(1, "nought")]);
        assert_eq!(problems("a.md", "A page\n\nwith nought.\n"), [zero(3, "nought")]);
        assert_eq!(problems("a.toml", "a = \"nought\" # nought"), [zero(1, "nought")]);
        assert_eq!(problems("tests/a-nought.json", ""), [zero(0, "nought")]);
    }

    #[test]
    fn a_phrase_is_found_across_lines_and_not_across_sentences() {
        assert_eq!(problems("a.rs", "/// a line that is\n/// none at all\n").len(), 1);
        assert_eq!(problems("a.rs", "/// What is? None is.\n"), [""; 0]);
    }

    #[test]
    fn plain_uses_of_the_same_words_are_allowed() {
        let plain = "// There is none, and none of them is. It is `is none`. What is it? A list, told again.";
        assert_eq!(problems("a.rs", plain), [""; 0]);
    }

    #[test]
    fn a_sentence_that_opens_with_a_clause_is_reported() {
        assert_eq!(problems("a.rs", "/// A list. What it holds.").len(), 1);
        assert_eq!(problems("a.md", "## What it holds\n"), [""; 0]);
    }
}
