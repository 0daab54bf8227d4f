//! The prose of a file: comments, strings, pages, and the names of things, as words with their lines.

use super::lexer::{RustToken, TokenKind};
use super::sources::SourceFile;

/// One piece of prose: a comment, a string, a paragraph, a name.
#[derive(Clone, Debug)]
pub(crate) struct ProsePassage {
    pub(crate) kind: PassageKind,
    pub(crate) words: Vec<ProseWord>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PassageKind {
    Comment,
    Text,
    Page,
    Heading,
    Name,
}

/// A word, a sign of punctuation, or a code span, which is one word.
#[derive(Clone, Debug)]
pub(crate) struct ProseWord {
    /// As written; [`CODE_SPAN`] for a code span.
    pub(crate) text: String,
    /// From 1; 0 for the path of the file.
    pub(crate) line: usize,
}

/// Stands for a text between two backticks.
pub(crate) const CODE_SPAN: &str = "`";

/// All prose of a file.
pub(crate) fn passages(file: &SourceFile) -> Vec<ProsePassage> {
    let mut passages = vec![name(&file.path, 0)];
    let extension = file.path.rsplit_once('.').map_or("", |(_, extension)| extension);
    match extension {
        "rs" => passages.extend(rust(file)),
        "md" => passages.extend(markdown(file.text)),
        "txt" => passages.extend(file.text.lines().zip(1..).map(|(line, number)| text(line, number))),
        "toml" => {
            passages.extend(comments(file.text, "#"));
            passages.extend(descriptions(file.text));
        }
        "sql" => passages.extend(comments(file.text, "--")),
        "py" => {
            passages.extend(comments(file.text, "#"));
            passages.extend(docstrings(file.text));
        }
        _ if file.text.starts_with("#!") => passages.extend(comments(file.text, "#")),
        _ => {}
    }
    passages
}

fn rust(file: &SourceFile) -> Vec<ProsePassage> {
    let tokens = file.tokens();
    let mut passages: Vec<ProsePassage> = Vec::new();
    let mut before = (0, "");
    for token in tokens {
        match token.kind {
            TokenKind::Comment => {
                let mark = comment_mark(token.text);
                let continues = before == (token.line, mark);
                let content = words(token.text.trim_start_matches(['/', '!', '*']), token.line);
                match passages.last_mut().filter(|_| continues && !starts_paragraph(token.text)) {
                    Some(passage) => passage.words.extend(content),
                    None => passages.push(ProsePassage { kind: PassageKind::Comment, words: content }),
                }
                before = (token.line + 1, mark);
            }
            TokenKind::Text => passages.push(text(token.text, token.line)),
            TokenKind::Word | TokenKind::Symbol | TokenKind::Other => {}
        }
    }
    passages.extend(defined_names(tokens));
    passages
}

/// The marks that begin a comment: `//`, `///` or `//!`.
fn comment_mark(comment: &str) -> &str {
    &comment[..comment.len() - comment.trim_start_matches(['/', '!']).len()]
}

/// An empty line, an item of a list or a heading ends the paragraph before it.
fn starts_paragraph(line: &str) -> bool {
    let line = line.trim_start_matches(['/', '!']).trim();
    line.is_empty() || line.starts_with(['#', '|', '-', '*'])
}

/// The names that a file defines, with the words that they are made of.
fn defined_names(tokens: &[RustToken<'_>]) -> Vec<ProsePassage> {
    const DEFINING: [&str; 10] =
        ["fn", "struct", "enum", "union", "trait", "type", "const", "static", "mod", "let"];
    let code: Vec<&RustToken<'_>> =
        tokens.iter().filter(|token| token.kind != TokenKind::Comment && !token.is_word("mut")).collect();
    let is_definition = |pair: &&[&RustToken<'_>]| {
        DEFINING.iter().any(|keyword| pair[0].is_word(keyword)) && pair[1].kind == TokenKind::Word
    };
    code.windows(2).filter(is_definition).map(|pair| name(pair[1].text, pair[1].line)).collect()
}

/// Consecutive lines without a blank line between them are one paragraph; a heading and a row of a table stand alone.
fn markdown(page: &str) -> Vec<ProsePassage> {
    let mut passages: Vec<ProsePassage> = Vec::new();
    let (mut continues, mut is_example) = (false, false);
    for (line, number) in page.lines().zip(1..) {
        if line.starts_with("```") {
            is_example = !is_example;
            continues = false;
            continue;
        }
        let stands_alone = is_example || starts_paragraph(line);
        let kind = if line.starts_with('#') { PassageKind::Heading } else { PassageKind::Page };
        let content = words(line, number);
        match passages.last_mut().filter(|_| continues && !stands_alone) {
            Some(passage) => passage.words.extend(content),
            None => passages.push(ProsePassage { kind, words: content }),
        }
        continues = !line.trim().is_empty() && !line.starts_with('#');
    }
    passages
}

/// The comments of a file in which `mark` opens one, unless it stands within a string or a word.
fn comments(source: &str, mark: &str) -> Vec<ProsePassage> {
    let mut passages: Vec<ProsePassage> = Vec::new();
    let mut next_line = 0;
    for (line, number) in source.lines().zip(1..) {
        let Some(comment) = comment_of_line(line, mark) else { continue };
        let content = words(comment, number);
        match passages.last_mut().filter(|_| next_line == number && !content.is_empty()) {
            Some(passage) => passage.words.extend(content),
            None => passages.push(ProsePassage { kind: PassageKind::Comment, words: content }),
        }
        next_line = if comment.trim().is_empty() { 0 } else { number + 1 };
    }
    passages
}

/// The descriptions of packages.
fn descriptions(manifest: &str) -> Vec<ProsePassage> {
    let description =
        |(line, number): (&str, usize)| Some(text(line.strip_prefix("description = ")?, number));
    manifest.lines().zip(1..).filter_map(description).collect()
}

fn comment_of_line<'l>(line: &'l str, mark: &str) -> Option<&'l str> {
    let mut quote = None;
    for (position, character) in line.char_indices() {
        match (quote, character) {
            (None, '"' | '\'') => quote = Some(character),
            (Some(open), _) if open == character => quote = None,
            (None, _) if line[position..].starts_with(mark) => {
                let is_word = line[..position].ends_with(|before: char| !before.is_whitespace());
                if !is_word {
                    return Some(&line[position + mark.len()..]);
                }
            }
            _ => {}
        }
    }
    None
}

fn docstrings(source: &str) -> Vec<ProsePassage> {
    let mut passages = Vec::new();
    let mut line = 1;
    for (index, part) in source.split("\"\"\"").enumerate() {
        if index % 2 == 1 {
            passages.push(text(part, line));
        }
        line += part.matches('\n').count();
    }
    passages
}

fn text(content: &str, line: usize) -> ProsePassage {
    ProsePassage { kind: PassageKind::Text, words: words(content, line) }
}

/// The words of a name: `is_none`, `is-none`, `IsNone` and `IS_NONE` are two.
fn name(name: &str, line: usize) -> ProsePassage {
    let mut words: Vec<ProseWord> = Vec::new();
    let mut continues = false;
    for character in name.chars() {
        let starts_hump = character.is_uppercase()
            && words.last().is_some_and(|word| word.text.ends_with(|last: char| last.is_lowercase()));
        if !character.is_alphanumeric() {
            continues = false;
            if character == '/' || character == '.' {
                words.push(ProseWord { text: character.to_string(), line });
            }
            continue;
        }
        match words.last_mut().filter(|_| continues && !starts_hump) {
            Some(word) => word.text.push(character),
            None => words.push(ProseWord { text: character.to_string(), line }),
        }
        continues = true;
    }
    ProsePassage { kind: PassageKind::Name, words }
}

fn words(content: &str, first_line: usize) -> Vec<ProseWord> {
    let mut words: Vec<ProseWord> = Vec::new();
    let mut line = first_line;
    let mut rest = content;
    while let Some(character) = rest.chars().next() {
        let length = if character == '`' {
            code_span(rest)
        } else if character.is_alphanumeric() {
            rest.find(|next: char| !next.is_alphanumeric() && next != '-' && next != '_')
                .unwrap_or(rest.len())
        } else {
            character.len_utf8()
        };
        let (text, after) = rest.split_at(length);
        if character == '`' {
            words.push(ProseWord { text: CODE_SPAN.to_owned(), line });
        } else if !character.is_whitespace() && !"*_/!".contains(character) {
            words.push(ProseWord { text: text.to_owned(), line });
        } else if character == '!' && !words.is_empty() {
            words.push(ProseWord { text: ".".to_owned(), line });
        }
        line += text.matches('\n').count();
        rest = after;
    }
    words
}

/// How long the code span is with which a text begins; one character if it does not end.
fn code_span(text: &str) -> usize {
    text[1..].find('`').filter(|end| !text[1..=*end].contains('\n')).map_or(1, |end| end + 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(path: &str, text: &str) -> Vec<String> {
        let all = passages(&SourceFile::new(path, text));
        let line = |passage: &ProsePassage| {
            let words: Vec<&str> = passage.words.iter().map(|word| &*word.text).collect();
            format!("{:?}: {}", passage.kind, words.join(" "))
        };
        all.iter().skip(1).map(line).collect()
    }

    #[test]
    fn a_comment_of_several_lines_is_one_passage() {
        let source =
            "/// One `a b`\n/// two.\n///\n/// Three.\nfn one_two() { let x = \"a text\"; } // four\n";
        let expected = [
            "Comment: One ` two .",
            "Comment: Three .",
            "Text: a text",
            "Comment: four",
            "Name: one two",
            "Name: x",
        ];
        assert_eq!(shown("a.rs", source), expected);
    }

    #[test]
    fn pages_have_paragraphs_headings_and_lists() {
        let expected = ["Heading: # A head", "Page: one two", "Page: - three", "Page: four"];
        let mut shown = shown("a.md", "# A head\none\ntwo\n- three\n\nfour\n");
        shown.retain(|line| line != "Page: ");
        assert_eq!(shown, expected);
    }

    #[test]
    fn a_comment_mark_within_a_string_opens_no_comment() {
        let expected = ["Comment: one two", "Comment: three"];
        assert_eq!(shown("a.toml", "# one\n# two\nkey = \"USER#{id}\"\nx = 1 # three\n"), expected);
    }

    #[test]
    fn the_name_of_a_file_is_prose() {
        let file = SourceFile::new("tests/days-that-are.toml", "");
        let words: Vec<String> = passages(&file)[0].words.iter().map(|word| word.text.clone()).collect();
        assert_eq!(words, ["tests", "/", "days", "that", "are", ".", "toml"]);
    }
}
