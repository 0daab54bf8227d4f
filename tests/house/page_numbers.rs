//! Numbers that pages state and a test can check. A page is the only place of each: the rules read their limits from it.
//!
//! CONTRIBUTING.md limits the lines of a file and of a function's body, the lines between its braces, and the share of type names
//! that are a single word. The versions of Rust and Terraform that pages name are those of Cargo.toml and `infra/versions.tf`.
//!
//! `large_code.txt` lists the files and functions that are larger than the limit, with the size that they may have. The list only
//! shrinks: an entry that is not needed any longer is a breach.

use std::collections::BTreeMap;

use super::lexer::TokenKind;
use super::sources::{RuleBreach, SourceFile};
use super::type_places::closing_brace;

pub(crate) const SIZE_RULE: &str = "A file or a function is too large";
pub(crate) const SIZE_REASON: &str = "CONTRIBUTING.md limits both, so that a reader can hold one in mind.";

pub(crate) const VERSION_RULE: &str = "A page names another version than the build needs";
pub(crate) const VERSION_REASON: &str = "A reader installs what the page says, and the build fails.";

const CONTRIBUTING: &str = "CONTRIBUTING.md";
const LIST: &str = "tests/house/large_code.txt";

/// A number that CONTRIBUTING.md states after a phrase.
///
/// # Panics
/// If the page lacks the phrase.
pub(crate) fn limit(files: &[SourceFile], phrase: &str) -> usize {
    let numbers = files
        .iter()
        .filter(|file| file.path == CONTRIBUTING)
        .flat_map(|page| numbers_after(page.text, phrase));
    let first = numbers.filter_map(|(_, number)| number.parse().ok()).next();
    first.unwrap_or_else(|| panic!("{CONTRIBUTING} states no number after \"{phrase}\""))
}

/// Each number or version that follows a phrase, with its line. A line break may stand for a space.
fn numbers_after<'p>(page: &'p str, phrase: &str) -> Vec<(usize, &'p str)> {
    let spaced = page.replace('\n', " ");
    let starts = spaced.match_indices(phrase).map(|(start, _)| start + phrase.len());
    let number = |start: usize| {
        let text = page[start..].trim_start();
        let end = text
            .find(|character: char| !character.is_ascii_digit() && character != '.')
            .unwrap_or(text.len());
        (page[..start].matches('\n').count() + 1, text[..end].trim_end_matches('.'))
    };
    starts.map(number).filter(|(_, number)| !number.is_empty()).collect()
}

/// Files and functions that are larger than the page allows, and entries of the list that are not needed.
pub(crate) fn size_breaches(files: &[SourceFile]) -> Vec<RuleBreach> {
    let limits = (limit(files, "Files stay under "), limit(files, "functions under "));
    let list = files.iter().find(|file| file.path == LIST).map_or("", |list| list.text);
    let mut allowed: BTreeMap<&str, (usize, usize)> = list.lines().zip(1..).filter_map(entry).collect();
    let mut breaches = Vec::new();
    for file in files.iter().filter(|file| file.is_rust()) {
        let lines = file.text.lines().count();
        let functions = functions(file).into_iter();
        let functions =
            functions.map(|(name, line, size)| (format!("{}::{name}", file.path), line, size, limits.1));
        for (name, line, size, limit) in functions.chain([(file.path.clone(), 1, lines, limits.0)]) {
            let most =
                if size < limit { limit } else { allowed.remove(&*name).map_or(limit, |(size, _)| size + 1) };
            if size >= most {
                let problem =
                    format!("{name} has {size} lines, and may have {}: split it by what it does", most - 1);
                breaches.push(RuleBreach::new(&file.path, line, problem));
            }
        }
    }
    let unused = allowed.into_iter().map(|(name, (_, line))| {
        RuleBreach::new(LIST, line, format!("{name} is not too large any longer, or gone: delete the entry"))
    });
    breaches.extend(unused);
    breaches
}

/// `path 420` or `path::function 45`, with the line.
fn entry((entry, line): (&str, usize)) -> Option<(&str, (usize, usize))> {
    let (name, size) = entry.split_once(' ')?;
    Some((name, (size.parse().ok()?, line)))
}

/// The functions of a file: name, line, and the number of lines between its braces. Of functions with one name, only the largest.
fn functions(file: &SourceFile) -> Vec<(&str, usize, usize)> {
    let tokens = file.code();
    let mut functions: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    for (index, pair) in tokens.windows(2).enumerate() {
        if !pair[0].is_word("fn") || pair[1].kind != TokenKind::Word {
            continue;
        }
        let end = tokens[index..].iter().position(|token| token.is_symbol("{") || token.is_symbol(";"));
        let Some(open) = end.map(|end| index + end).filter(|open| tokens[*open].is_symbol("{")) else {
            continue;
        };
        let close = tokens.get(closing_brace(tokens, open)).map_or(0, |close| close.line);
        let size = close.saturating_sub(tokens[open].line + 1);
        let largest = functions.entry(pair[1].text).or_default();
        *largest = (*largest).max((size, pair[1].line));
    }
    functions.into_iter().map(|(name, (size, line))| (name, line, size)).collect()
}

/// Versions that pages state.
pub(crate) fn version_breaches(files: &[SourceFile]) -> Vec<RuleBreach> {
    let sources = [
        ("Rust ", "Cargo.toml", "rust-version = \""),
        ("Terraform ", "infra/versions.tf", "required_version = \">= "),
    ];
    let mut breaches = Vec::new();
    for (phrase, path, key) in sources {
        let source = files.iter().find(|file| file.path == path).map_or("", |file| file.text);
        let Some((_, needed)) = numbers_after(source, key).into_iter().next() else {
            breaches.push(RuleBreach::new(path, 1, format!("no version after `{key}`")));
            continue;
        };
        for page in files.iter().filter(|file| file.path.ends_with(".md")) {
            let others = numbers_after(page.text, phrase).into_iter().filter(|(_, stated)| *stated != needed);
            breaches.extend(others.map(|(line, stated)| {
                RuleBreach::new(&page.path, line, format!("{phrase}{stated}: {path} needs {needed}"))
            }));
        }
    }
    breaches
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "Files stay under 6 lines, functions\nunder 3. It needs Rust 1.95 or Terraform 1.7.";

    fn problems(rule: fn(&[SourceFile]) -> Vec<RuleBreach>, files: &[(&str, &str)]) -> Vec<String> {
        let all = files.iter().chain(&[(CONTRIBUTING, PAGE)]);
        let files: Vec<SourceFile> = all.map(|(path, text)| SourceFile::new(path, text)).collect();
        rule(&files)
            .into_iter()
            .map(|breach| format!("{}:{}: {}", breach.path, breach.line, breach.problem))
            .collect()
    }

    #[test]
    fn sizes_are_those_of_the_page_and_of_the_list() {
        let files = [
            ("a.rs", "fn f() {\n1;\n2;\n}\n5\n"),
            ("b.rs", "1\n2\n3\n4\n5\n6\n"),
            ("c.rs", "trait T { fn f(); }\nfn g(\n) {\n1;\n2;\n3;\n}"),
        ];
        let expected = [
            "b.rs:1: b.rs has 6 lines, and may have 5: split it by what it does",
            "c.rs:2: c.rs::g has 3 lines, and may have 2: split it by what it does",
            "c.rs:1: c.rs has 7 lines, and may have 5: split it by what it does",
        ];
        assert_eq!(problems(size_breaches, &files), expected);
        let listed = |list| problems(size_breaches, &[files[0], files[1], files[2], (LIST, list)]);
        assert_eq!(listed("b.rs 6\nc.rs 8\nc.rs::g 3"), [""; 0]);
        assert_eq!(listed("b.rs 6\nc.rs 7\nc.rs::g 2").len(), 1);
        let unused =
            "tests/house/large_code.txt:1: a.rs is not too large any longer, or gone: delete the entry";
        assert_eq!(listed("a.rs 7\nb.rs 6\nc.rs 7\nc.rs::g 3"), [unused]);
    }

    #[test]
    fn versions_are_those_of_the_build() {
        let build = [
            ("Cargo.toml", "rust-version = \"1.95\""),
            ("infra/versions.tf", "required_version = \">= 1.7\""),
        ];
        assert_eq!(problems(version_breaches, &build), [""; 0]);
        let other = [("Cargo.toml", "rust-version = \"1.96\""), build[1]];
        assert_eq!(
            problems(version_breaches, &other),
            ["CONTRIBUTING.md:2: Rust 1.95: Cargo.toml needs 1.96"]
        );
    }

    #[test]
    #[should_panic(expected = "states no number after")]
    fn a_limit_that_the_page_lacks_fails() {
        limit(&[SourceFile::new(CONTRIBUTING, PAGE)], "at most ");
    }
}
