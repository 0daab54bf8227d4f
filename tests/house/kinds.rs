//! Decisions about the kinds of model parts: a new kind must stop the compiler everywhere that has to know it.

use std::collections::BTreeSet;

use super::lexer::{RustToken, TokenKind};
use super::sources::{RuleBreach, SourceFile};

pub(crate) const RULE: &str = "A kind of a model part is tested by a pattern that ignores new kinds";
pub(crate) const REASON: &str = "`matches!`, `if let` and `let … else` compile without change when a variant is added, and then decide \
    wrongly in silence. An exhaustive `match` makes the compiler name every place that a new kind must touch.";

/// Where the kinds are defined.
const KINDS_FOLDER: &str = "common/model/src/table/";

/// All tests of a kind by such a pattern, in the product.
pub(crate) fn breaches(files: &[SourceFile]) -> Vec<RuleBreach> {
    let product = || files.iter().filter(|file| file.is_rust() && !file.is_test());
    let kinds: BTreeSet<&str> = product()
        .filter(|file| file.path.starts_with(KINDS_FOLDER))
        .flat_map(|file| public_enums(file.code()))
        .collect();
    product().flat_map(|file| breaches_in(file, &kinds)).collect()
}

/// The public enums of a file. One that borrows (`Operand<'v>`) is a value at run time, and no part of a model.
fn public_enums<'s>(tokens: &[RustToken<'s>]) -> Vec<&'s str> {
    let is_public_enum = |window: &&[RustToken<'s>]| {
        window[0].is_word("pub") && window[1].is_word("enum") && !window[4].text.starts_with('\'')
    };
    tokens.windows(5).filter(is_public_enum).map(|window| window[2].text).collect()
}

fn breaches_in(file: &SourceFile, kinds: &BTreeSet<&str>) -> Vec<RuleBreach> {
    let tokens = file.code();
    let mut breaches = Vec::new();
    // For each open brace, the type of the `impl` that it opened.
    let mut implemented: Vec<Option<&str>> = Vec::new();
    for (index, token) in tokens.iter().enumerate().filter(|(_, token)| !token.is_test) {
        match (token.kind, token.text) {
            (TokenKind::Symbol, "{") => implemented.push(implemented_type(&tokens[..index])),
            (TokenKind::Symbol, "}") => drop(implemented.pop()),
            _ => {}
        }
        let Some((form, pattern)) = refutable_pattern(tokens, index) else { continue };
        let own = implemented.iter().rev().find_map(|own| *own);
        let kind = pattern.windows(2).find_map(|pair| {
            let name = if pair[0].is_word("Self") { own? } else { pair[0].text };
            (pair[1].is_symbol("::") && kinds.contains(name)).then_some(name)
        });
        if let Some(kind) = kind {
            let problem =
                format!("`{form}` on `{kind}`: call a method of `{kind}` that has an exhaustive `match`");
            breaches.push(RuleBreach::new(&file.path, token.line, problem));
        }
    }
    breaches
}

/// The `T` of `impl T` or `impl Trait for T`, if the tokens end with that.
fn implemented_type<'s>(tokens: &[RustToken<'s>]) -> Option<&'s str> {
    let begin =
        tokens.iter().rposition(|token| ["{", "}", ";"].contains(&token.text)).map_or(0, |end| end + 1);
    let item = &tokens[begin..];
    let keyword = item.iter().position(|token| token.is_word("impl") || token.is_word("fn"))?;
    if !item[keyword].is_word("impl") {
        return None;
    }
    let after_for = item.iter().rposition(|token| token.is_word("for"));
    let names = &item[after_for.unwrap_or(keyword)..];
    names.iter().find(|token| token.text.starts_with(char::is_uppercase)).map(|token| token.text)
}

/// The pattern of the `matches!(…)`, `if let … =`, `while let … =` or `let … else` that begins at a token, with its form.
fn refutable_pattern<'t, 's>(
    tokens: &'t [RustToken<'s>],
    index: usize,
) -> Option<(&'static str, &'t [RustToken<'s>])> {
    let rest = &tokens[index..];
    if rest[0].is_word("matches") && rest.get(1)?.is_symbol("!") {
        return Some(("matches!", &rest[..closing(rest, 2)]));
    }
    if !rest[0].is_word("let") {
        return None;
    }
    let equals = rest.iter().position(|token| token.is_symbol("=") || token.is_symbol(";"))?;
    let before = index.checked_sub(1).map(|before| tokens[before].text);
    let pattern = &rest[1..equals];
    match before {
        Some("if" | "&&") => Some(("if let", pattern)),
        Some("while") => Some(("while let", pattern)),
        _ => is_let_else(&rest[equals..]).then_some(("let … else", pattern)),
    }
}

/// The position of what closes the parenthesis at `open`.
fn closing(tokens: &[RustToken<'_>], open: usize) -> usize {
    let mut depth = 0_i32;
    for (index, token) in tokens.iter().enumerate().skip(open) {
        match token.text {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return index;
        }
    }
    tokens.len()
}

/// Whether an `else` that belongs to the `let` stands before its semicolon.
fn is_let_else(tokens: &[RustToken<'_>]) -> bool {
    let mut index = 0;
    let mut has_if = false;
    while let Some(token) = tokens.get(index) {
        match token.text {
            ";" => return false,
            "if" | "match" => has_if = true,
            "else" if !has_if && token.kind == TokenKind::Word => return true,
            "(" | "[" | "{" if token.kind == TokenKind::Symbol => index = closing(tokens, index),
            _ => {}
        }
        index += 1;
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(code: &str) -> Vec<String> {
        let kinds = "pub enum MeasureKind { Count, Sum(u8) } impl MeasureKind { fn f(&self) -> bool { match self { Self::Count => true, Self::Sum(_) => false } } } enum Private { A } pub enum Operand<'v> { Text(&'v str) }";
        let files = [
            SourceFile::new("common/model/src/table/measure.rs", kinds),
            SourceFile::new("common/model/src/projection/a.rs", code),
        ];
        breaches(&files).into_iter().map(|breach| breach.problem).collect()
    }

    fn forms(code: &str) -> Vec<String> {
        problems(code)
            .iter()
            .map(|problem| problem.split('`').nth(1).unwrap_or_default().to_owned())
            .collect()
    }

    #[test]
    fn every_refutable_pattern_on_a_kind_is_found() {
        assert_eq!(forms("fn f() { matches!(kind, MeasureKind::Count) }"), ["matches!"]);
        assert_eq!(forms("fn f() { if let MeasureKind::Sum(x) = kind { x } }"), ["if let"]);
        assert_eq!(forms("fn f() { if a && let MeasureKind::Sum(x) = kind { x } }"), ["if let"]);
        assert_eq!(
            forms("fn f() { let MeasureKind::Sum(x) = g(|| { 1 }) else { return }; }"),
            ["let … else"]
        );
        assert_eq!(
            forms("impl Trait for MeasureKind { fn f(&self) { matches!(self, Self::Count) } }"),
            ["matches!"]
        );
    }

    #[test]
    fn exhaustive_matches_other_enums_and_tests_are_allowed() {
        for code in [
            "fn f() { match kind { MeasureKind::Count => 1, MeasureKind::Sum(_) => 2 } }",
            "fn f() { matches!(x, Private::A) }",
            "fn f() { matches!(x, Operand::Text(_)) }",
            "fn f() { let x = MeasureKind::Count; let y = if a { MeasureKind::Count } else { b }; }",
            "#[cfg(test)] mod tests { fn f() { matches!(kind, MeasureKind::Count) } }",
        ] {
            assert_eq!(problems(code), [""; 0], "{code}");
        }
    }
}
