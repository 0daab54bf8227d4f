//! The idiom that this code base has left behind, and the plain words to write instead.
//!
//! A pattern is a sequence of words. `a|b` is either word; `!a|b` is any word, or none, but not these; `.` is the end of the
//! sentence.

use super::prose::{CODE_SPAN, PassageKind, ProsePassage, ProseWord, passages};
use super::sources::{RuleBreach, SourceFile};

pub(crate) const RULE: &str = "Retired idiom";
pub(crate) const REASON: &str = "Comments, messages and names use plain technical English, so that an engineer on call who is not a \
    native speaker understands them at first reading.";

/// Where a pattern applies.
#[derive(Clone, Copy, PartialEq, Eq)]
enum PatternScope {
    Everywhere,
    /// The product without the demo: elsewhere the word names something of a sample application.
    Product,
    /// Prose, not names: part of the standard name of something.
    Prose,
}

use PatternScope::{Everywhere, Product, Prose};

const PATTERNS: &[(&str, PatternScope, &str)] = &[
    ("nought|noughts", Everywhere, "zero, 0"),
    ("lest", Everywhere, "so that … not"),
    ("whoever|whosever|whomever", Everywhere, "name the component or the person"),
    ("anew", Everywhere, "again, from the start"),
    ("amid|amidst", Everywhere, "during, with"),
    ("in the midst", Everywhere, "during"),
    ("gift|gifts", Everywhere, "output of a lookup"),
    ("beside|besides", Everywhere, "next to, and, also, compared with"),
    ("sought", Everywhere, "requested, the name of the key"),
    ("whereupon|thereof|therein|hitherto|henceforth", Everywhere, "a plain sentence"),
    ("told", Everywhere, "reported, returned, distinguished, given"),
    ("tell|tells apart", Everywhere, "distinguishes"),
    ("say|says|said|saying", Everywhere, "states, returns, declares, reports; of a setting: set"),
    ("ask|asks|asked|asking", Everywhere, "requests, reads, queries, returns"),
    ("answer|answers|answered|answering", Product, "response, result; returns, responds"),
    ("!there|or is|are|be|was|were none !of", Everywhere, "is not a …, is missing"),
    (
        "!there is|are no !longer|more|less|fewer|later|earlier|larger|smaller|greater|older|newer|different",
        Everywhere,
        "is not a …, has no …",
    ),
    ("come|comes|came|coming again", Everywhere, "is redelivered, is returned again"),
    ("for ever", Everywhere, "forever, without expiry, never removed"),
    ("in the making", Everywhere, "while it is built, unfinished"),
    ("would be right", Everywhere, "a fix"),
    ("becomes|become|became of", Everywhere, "name the result"),
    ("came|comes|come of !age", Everywhere, "name the result"),
    ("as it|they is|are written", Everywhere, "unchanged, verbatim, as in the file"),
    ("in short", Prose, "leave it out"),
    ("own|whose account", Everywhere, "by itself; because of which"),
    ("a little", Prose, "a number, or leave it out"),
    ("of old .", Everywhere, "previous, earlier"),
    ("so and so many|so-and-so-many", Everywhere, "n"),
];

/// Names of types, modules and variables that are one vague word, or one of the idiom, and what to call such a thing.
const RETIRED_NAMES: &[(&str, &str)] = &[
    ("apart", "key_overlap"),
    ("Asked", "PendingLookups"),
    ("Answered", "LookupResults"),
    ("Delayed", "DelayedLookups"),
    ("Evils", "FaultCoverage"),
    ("evils", "fault_coverage"),
    ("Found", "a noun of two words"),
    ("Given", "a noun of two words"),
    ("Parcel", "TransactionBatch"),
    ("Sought", "LookupKey"),
    ("Told", "a noun of two words"),
    ("Vocabulary", "AttributeInterner"),
    ("Way", "TcpProxy"),
    ("way", "tcp_proxy, or a noun of two words"),
    ("Work", "a noun of two words"),
];

/// Files that may contain the words, with the reason.
const EXCEPTIONS: &[(&str, &str)] =
    &[("tests/house/idiom.rs", "it lists the patterns, and has bad examples for its own tests")];

/// Whether a text is one word in capitals: the name of a command or an error of a protocol, not prose.
fn is_protocol_word(passage: &ProsePassage) -> bool {
    let is_capital = |word: &ProseWord| word.text.chars().all(|character| character.is_ascii_uppercase());
    passage.kind == PassageKind::Text && passage.words.len() == 1 && passage.words.iter().all(is_capital)
}

/// All breaches of the rule in these files.
pub(crate) fn breaches(files: &[SourceFile]) -> Vec<RuleBreach> {
    let patterns: Vec<IdiomPattern> = PATTERNS.iter().map(IdiomPattern::new).collect();
    let mut breaches = Vec::new();
    for file in files.iter().filter(|file| !EXCEPTIONS.iter().any(|(path, _)| file.path == *path)) {
        let is_product = is_product(&file.path);
        for passage in passages(file).into_iter().filter(|passage| !is_protocol_word(passage)) {
            let of_scope = patterns.iter().filter(|pattern| match pattern.scope {
                Everywhere => true,
                Product => is_product,
                Prose => passage.kind != PassageKind::Name,
            });
            let found = of_scope.flat_map(|pattern| pattern.find_in(&passage));
            let found = found.chain(clause_openings(&passage)).chain(chains_of_purpose(&passage));
            let found = found.chain(retired_names(&passage));
            breaches.extend(found.map(|(line, problem)| RuleBreach::new(&file.path, line, problem)));
        }
    }
    breaches
}

fn is_product(path: &str) -> bool {
    let is_sample = path.contains("/demo/") || path.contains("/tests") || path.contains("/models/");
    (path.starts_with("common/") || path.starts_with("processors/")) && path.ends_with(".rs") && !is_sample
}

/// A compiled pattern.
struct IdiomPattern {
    scope: PatternScope,
    instead: &'static str,
    elements: Vec<PatternElement>,
}

enum PatternElement {
    OneOf(Vec<&'static str>),
    NoneOf(Vec<&'static str>),
    SentenceEnd,
}

impl IdiomPattern {
    fn new(&(source, scope, instead): &(&'static str, PatternScope, &'static str)) -> Self {
        let element = |word: &'static str| match word.strip_prefix('!') {
            Some(words) => PatternElement::NoneOf(words.split('|').collect()),
            None if word == "." => PatternElement::SentenceEnd,
            None => PatternElement::OneOf(word.split('|').collect()),
        };
        Self { scope, instead, elements: source.split(' ').map(element).collect() }
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
                PatternElement::SentenceEnd => word.is_none_or(|word| !starts_with_letter(word)),
            }
        })
    }
}

fn is_one_of(word: &ProseWord, any: &[&str]) -> bool {
    any.iter().any(|expected| word.text.eq_ignore_ascii_case(expected))
}

fn starts_with_letter(word: &ProseWord) -> bool {
    word.text == CODE_SPAN || word.text.starts_with(char::is_alphanumeric)
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

fn chains_of_purpose(passage: &ProsePassage) -> Vec<(usize, String)> {
    let so_that = |pair: &&[ProseWord]| is_one_of(&pair[0], &["so"]) && is_one_of(&pair[1], &["that"]);
    let chained = sentences(passage).filter_map(|sentence| sentence.windows(2).filter(so_that).nth(1));
    chained
        .map(|second| (second[0].line, "\"so that\" twice in one sentence: write two sentences".to_owned()))
        .collect()
}

fn retired_names(passage: &ProsePassage) -> Option<(usize, String)> {
    let [word] = &*passage.words else { return None };
    let (_, instead) = RETIRED_NAMES.iter().find(|(retired, _)| word.text == *retired)?;
    let is_name = passage.kind == PassageKind::Name;
    is_name.then(|| (word.line, format!("the name \"{}\" is retired: use {instead}", word.text)))
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
        for (source, ..) in PATTERNS {
            let example: Vec<&str> = source
                .split(' ')
                .filter(|word| !word.starts_with('!'))
                .map(|word| word.split('|').next().expect("a word"))
                .collect();
            let comment = format!("// Here {}", example.join(" "));
            assert!(!problems("common/src/a.rs", &comment).is_empty(), "{source}: {comment}");
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
        let plain = "// There is none, and there is no index. It is no longer `is none`. What is it? A list of old images.";
        assert_eq!(problems("a.rs", plain), [""; 0]);
    }

    #[test]
    fn a_sentence_that_opens_with_a_clause_is_reported() {
        assert_eq!(problems("a.rs", "/// A list. What it holds.").len(), 1);
        assert_eq!(problems("a.md", "## What it holds\n"), [""; 0]);
    }

    #[test]
    fn purposes_are_not_chained() {
        assert_eq!(problems("a.rs", "// One, so that two, so that three.").len(), 1);
        assert_eq!(problems("a.rs", "// One, so that two. Three, so that four."), [""; 0]);
    }

    #[test]
    fn retired_names_are_found_where_they_are_defined() {
        assert_eq!(problems("a.rs", "struct Parcel;").len(), 1);
        assert_eq!(problems("a.rs", "struct ParcelSize; fn f(x: Parcel) {}"), [""; 0]);
    }
}
