//! Rust source → tokens with their lines. Comments are tokens too: they are half of what the rules read, and a parser drops them.

/// The kind of a [`RustToken`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TokenKind {
    /// A name or a keyword.
    Word,
    /// `::`, `=>`, `->`, `==`, `!=`, `&&` or a single character.
    Symbol,
    /// A string literal; the token's text is what stands between the quotation marks.
    Text,
    /// A line or block comment; the token's text includes the marks that open it.
    Comment,
    /// A number, a character or a lifetime.
    Other,
}

/// A token of Rust source.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RustToken<'s> {
    pub(crate) kind: TokenKind,
    pub(crate) text: &'s str,
    /// From 1.
    pub(crate) line: usize,
    /// Whether an item with `#[cfg(test)]` encloses it.
    pub(crate) is_test: bool,
}

impl RustToken<'_> {
    pub(crate) fn is_word(&self, word: &str) -> bool {
        self.kind == TokenKind::Word && self.text == word
    }

    pub(crate) fn is_symbol(&self, symbol: &str) -> bool {
        self.kind == TokenKind::Symbol && self.text == symbol
    }
}

/// The tokens of a source file, without white space.
pub(crate) fn tokens(source: &str) -> Vec<RustToken<'_>> {
    let mut lexer = SourceLexer { source, position: 0, line: 1 };
    let mut tokens = Vec::new();
    while let Some(token) = lexer.next_token() {
        tokens.push(token);
    }
    mark_tests(&mut tokens);
    tokens
}

struct SourceLexer<'s> {
    source: &'s str,
    position: usize,
    line: usize,
}

impl<'s> SourceLexer<'s> {
    fn next_token(&mut self) -> Option<RustToken<'s>> {
        let blank = self.length_while(0, char::is_whitespace);
        self.advance(blank);
        let rest = self.rest();
        let first = rest.chars().next()?;
        if let Some((prefix, length)) = string_literal(rest) {
            let hashes = rest[..prefix].bytes().filter(|byte| *byte == b'#').count();
            let (line, text) = (self.line, &rest[prefix..length - 1 - hashes]);
            self.advance(length);
            return Some(RustToken { kind: TokenKind::Text, text, line, is_test: false });
        }
        let (kind, length) = if rest.starts_with("//") {
            (TokenKind::Comment, rest.find('\n').unwrap_or(rest.len()))
        } else if rest.starts_with("/*") {
            (TokenKind::Comment, block_comment(rest))
        } else if first == '\'' {
            (TokenKind::Other, quoted_or_lifetime(rest))
        } else if first.is_ascii_digit() {
            (TokenKind::Other, number(rest))
        } else if is_name(first) {
            let raw = if rest.starts_with("r#") { 2 } else { 0 };
            (TokenKind::Word, self.length_while(raw, is_name))
        } else {
            (TokenKind::Symbol, symbol(rest, first))
        };
        let (line, text) = (self.line, &rest[..length]);
        self.advance(length);
        Some(RustToken { kind, text, line, is_test: false })
    }

    fn rest(&self) -> &'s str {
        &self.source[self.position..]
    }

    /// The length of what begins with `from` bytes and goes on as long as the characters are such.
    fn length_while(&self, from: usize, is_part: impl Fn(char) -> bool) -> usize {
        let rest = self.rest();
        rest[from..].find(|character| !is_part(character)).map_or(rest.len(), |length| from + length)
    }

    fn advance(&mut self, length: usize) {
        self.line += self.rest()[..length].bytes().filter(|byte| *byte == b'\n').count();
        self.position += length;
    }
}

fn is_name(character: char) -> bool {
    character == '_' || character.is_alphanumeric()
}

fn symbol(rest: &str, first: char) -> usize {
    const DOUBLE: [&str; 6] = ["::", "=>", "->", "==", "!=", "&&"];
    if DOUBLE.iter().any(|double| rest.starts_with(double)) { 2 } else { first.len_utf8() }
}

/// How long what opens a string literal is (`b"`, `r#"`), and how long the whole literal; `None` if there is none here.
fn string_literal(rest: &str) -> Option<(usize, usize)> {
    let letters = rest.len() - rest.trim_start_matches(['b', 'c', 'r']).len();
    if letters > 2 {
        return None;
    }
    let is_raw = rest[..letters].contains('r');
    let hashes = rest[letters..].bytes().take_while(|byte| *byte == b'#').count();
    let prefix = letters + hashes + 1;
    if rest.as_bytes().get(prefix - 1) != Some(&b'"') || (hashes > 0 && !is_raw) {
        return None;
    }
    let text = &rest[prefix..];
    if is_raw {
        let end = format!("\"{}", "#".repeat(hashes));
        let length = text.find(&end).expect("a raw string that ends");
        return Some((prefix, prefix + length + end.len()));
    }
    let mut escaped = false;
    let end = text.bytes().position(|byte| {
        let is_end = byte == b'"' && !escaped;
        escaped = byte == b'\\' && !escaped;
        is_end
    });
    Some((prefix, prefix + end.expect("a string that ends") + 1))
}

fn block_comment(rest: &str) -> usize {
    let (mut depth, mut position) = (0, 0);
    while position < rest.len() {
        let here = &rest.as_bytes()[position..];
        if here.starts_with(b"/*") {
            depth += 1;
            position += 2;
        } else if here.starts_with(b"*/") {
            depth -= 1;
            position += 2;
            if depth == 0 {
                return position;
            }
        } else {
            position += 1;
        }
    }
    rest.len()
}

/// `'a'` and `'\n'` are characters; `'a` is a lifetime.
fn quoted_or_lifetime(rest: &str) -> usize {
    let mut characters = rest.char_indices().skip(1);
    let (_, first) = characters.next().expect("a character after the quotation mark");
    let (end, second) = characters.next().unwrap_or((rest.len(), ' '));
    if first == '\\' {
        let close = rest[3..].find('\'').expect("a character that ends");
        return 3 + close + 1;
    }
    if second == '\'' {
        return end + 1;
    }
    1 + rest[1..].find(|character| !is_name(character)).unwrap_or(rest.len() - 1)
}

fn number(rest: &str) -> usize {
    let bytes = rest.as_bytes();
    let mut length = 0;
    while length < bytes.len() {
        let is_point = bytes[length] == b'.' && bytes.get(length + 1).is_some_and(u8::is_ascii_digit);
        if !is_point && !is_name(char::from(bytes[length])) {
            break;
        }
        length += 1;
    }
    length
}

/// Marks the items that stand behind `#[cfg(test)]`.
fn mark_tests(tokens: &mut [RustToken<'_>]) {
    const ATTRIBUTE: [&str; 7] = ["#", "[", "cfg", "(", "test", ")", "]"];
    let mut position = 0;
    while position + ATTRIBUTE.len() <= tokens.len() {
        let here = &tokens[position..position + ATTRIBUTE.len()];
        if !here.iter().zip(ATTRIBUTE).all(|(token, expected)| token.text == expected) {
            position += 1;
            continue;
        }
        let end = item_end(tokens, position + ATTRIBUTE.len());
        tokens[position..end].iter_mut().for_each(|token| token.is_test = true);
        position = end;
    }
}

/// Where the item that begins at a token ends: behind its block, or its semicolon.
fn item_end(tokens: &[RustToken<'_>], begin: usize) -> usize {
    let mut depth = 0_i32;
    for (position, token) in tokens.iter().enumerate().skip(begin) {
        if token.kind != TokenKind::Symbol {
            continue;
        }
        match token.text {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" => depth -= 1,
            "}" => {
                depth -= 1;
                if depth == 0 {
                    return position + 1;
                }
            }
            ";" if depth == 0 => return position + 1,
            _ => {}
        }
    }
    tokens.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(source: &str) -> Vec<&str> {
        tokens(source).into_iter().map(|token| token.text).collect()
    }

    #[test]
    fn comments_strings_characters_and_lifetimes_are_one_token_each() {
        let source = "fn f<'a>(x: &'a str) { // a \"comment\"\n let y = \"a \\\" // text\"; '\\''; 'x'; r#\"raw \" text\"#; /* a /* b */ c */ 1.5; 0..2 }";
        let expected = [
            "fn",
            "f",
            "<",
            "'a",
            ">",
            "(",
            "x",
            ":",
            "&",
            "'a",
            "str",
            ")",
            "{",
            "// a \"comment\"",
            "let",
            "y",
            "=",
            "a \\\" // text",
            ";",
            "'\\''",
            ";",
            "'x'",
            ";",
            "raw \" text",
            ";",
            "/* a /* b */ c */",
            "1.5",
            ";",
            "0",
            ".",
            ".",
            "2",
            "}",
        ];
        assert_eq!(texts(source), expected);
    }

    #[test]
    fn lines_are_counted_through_multi_line_strings() {
        let tokens = tokens("a\n\"one\ntwo\"\n/* x\n*/ b");
        let lines: Vec<usize> = tokens.iter().map(|token| token.line).collect();
        assert_eq!(lines, [1, 2, 4, 5]);
    }

    #[test]
    fn items_behind_cfg_test_are_marked() {
        let tokens =
            tokens("fn a() {} #[cfg(test)] mod tests { fn b() {} } fn c() {} #[cfg(test)] mod d; fn e() {}");
        let product: Vec<&str> = tokens
            .iter()
            .filter(|token| !token.is_test && token.kind == TokenKind::Word && token.text.len() == 1)
            .map(|token| token.text)
            .collect();
        assert_eq!(product, ["a", "c", "e"]);
    }
}
