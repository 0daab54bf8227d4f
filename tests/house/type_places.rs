//! Types whose methods lie in several files.
//!
//! The files that hold an `impl Type { … }` form one place with the file that defines the type. Within a place
//!
//! - a file with an `impl Type` takes the type from the file that defines it;
//! - a file takes a method from the file that holds it if it calls `self.method`, `Self::method` or `Type::method`; the first two
//!   count within an `impl` of the type, also one of a trait.
//!
//! Unlike other imports, these count between a module and the modules within it too: methods that call each other across files are
//! read together, wherever the files lie. A call through a variable does not count, because the tokens do not show its type.
//!
//! A type is found by its name. If a target defines the name twice, the file's own definition is meant; a file without one is
//! left out.

use std::collections::BTreeSet;

use super::imports::TakenName;
use super::lexer::{RustToken, TokenKind};
use super::module_trees::ModuleTree;
use super::sources::SourceFile;

/// A file of a target: its types, and its methods of types.
struct TypeFile<'s> {
    path: &'s str,
    tokens: Vec<RustToken<'s>>,
    defined: BTreeSet<&'s str>,
    blocks: Vec<ImplBlock<'s>>,
}

/// An `impl Type` or `impl Trait for Type`.
#[derive(Debug)]
struct ImplBlock<'s> {
    type_name: &'s str,
    line: usize,
    is_of_trait: bool,
    /// The tokens between its braces.
    begin: usize,
    end: usize,
}

/// The types and methods that files of a place take from each other.
pub(crate) fn taken_within_places<'s>(tree: &ModuleTree<'s>) -> Vec<TakenName<'s>> {
    let files: Vec<TypeFile<'s>> = tree.product_modules().map(|(_, file)| TypeFile::read(file)).collect();
    let implemented = files.iter().flat_map(|file| file.blocks.iter().map(|block| block.type_name));
    let implemented: BTreeSet<&str> = implemented.collect();
    let mut taken = Vec::new();
    for name in implemented {
        let defining: Vec<&TypeFile<'s>> = files.iter().filter(|file| file.defined.contains(name)).collect();
        let [definition] = defining.as_slice() else { continue };
        let place: Vec<&TypeFile<'s>> = files.iter().filter(|file| file.has_methods_of(name)).collect();
        if place.iter().any(|file| file.path != definition.path) {
            taken.extend(taken_within_place(name, definition, &place));
        }
    }
    taken
}

fn taken_within_place<'s>(
    name: &'s str,
    definition: &TypeFile<'s>,
    place: &[&TypeFile<'s>],
) -> Vec<TakenName<'s>> {
    let mut taken = Vec::new();
    for file in place {
        for block in file.inherent_blocks(name) {
            taken.push(TakenName { from: file.path, to: definition.path, name, line: block.line });
        }
    }
    let is_definition_apart = !place.iter().any(|file| file.path == definition.path);
    for file in place.iter().copied().chain(is_definition_apart.then_some(definition)) {
        for call in file.called_methods(name) {
            for to in place.iter().filter(|to| to.methods_of(name).any(|method| method == call.text)) {
                taken.push(TakenName { from: file.path, to: to.path, name: call.text, line: call.line });
            }
        }
    }
    taken.retain(|name| name.from != name.to);
    taken
}

impl<'s> TypeFile<'s> {
    fn read(file: &'s SourceFile) -> Self {
        let tokens = file.code().iter().filter(|token| !token.is_test);
        let tokens: Vec<RustToken<'s>> = tokens.copied().collect();
        let is_definition = |pair: &&[RustToken<'s>]| {
            ["struct", "enum", "union"].iter().any(|keyword| pair[0].is_word(keyword))
        };
        let defined = tokens.windows(2).filter(is_definition).map(|pair| pair[1].text).collect();
        let blocks = (0..tokens.len()).filter_map(|index| impl_block(&tokens, index)).collect();
        Self { path: &file.path, tokens, defined, blocks }
    }

    fn inherent_blocks(&self, name: &str) -> impl Iterator<Item = &ImplBlock<'s>> {
        self.blocks.iter().filter(move |block| block.type_name == name && !block.is_of_trait)
    }

    fn has_methods_of(&self, name: &str) -> bool {
        self.inherent_blocks(name).next().is_some()
    }

    /// The names of the functions that stand directly in inherent `impl` blocks of the type.
    fn methods_of(&self, name: &str) -> impl Iterator<Item = &'s str> {
        self.inherent_blocks(name).flat_map(|block| functions_of(&self.tokens[block.begin..block.end]))
    }

    /// The last word of every `self.method`, `Self::method` and `Type::method`.
    fn called_methods(&self, name: &str) -> Vec<RustToken<'s>> {
        let is_within = |index: usize| {
            self.blocks
                .iter()
                .any(|block| block.type_name == name && (block.begin..block.end).contains(&index))
        };
        let is_call = |(index, window): &(usize, &[RustToken<'s>])| {
            let is_path = window[1].is_symbol("::");
            let is_field = window[1].is_symbol(".") && !["(", "::"].contains(&window[3].text);
            let of_self = (window[0].is_word("self") && !is_field) || (window[0].is_word("Self") && is_path);
            let of_type = window[0].is_word(name) && is_path;
            window[2].kind == TokenKind::Word && (of_type || (of_self && is_within(*index)))
        };
        self.tokens.windows(4).enumerate().filter(is_call).map(|(_, window)| window[2]).collect()
    }
}

/// The block whose `impl` is the token at an index.
fn impl_block<'s>(tokens: &[RustToken<'s>], index: usize) -> Option<ImplBlock<'s>> {
    let before = index.checked_sub(1).map(|before| &tokens[before]);
    let begins_item = before.is_none_or(|before| ["}", ";", "]", "{", "unsafe"].contains(&before.text));
    if !tokens[index].is_word("impl") || !begins_item {
        return None;
    }
    let open = (index..tokens.len()).find(|open| tokens[*open].is_symbol("{"))?;
    let header = &tokens[index + 1..open];
    let header = &header[generics_length(header)..];
    let names = names_outside_generics(header);
    let end = names.iter().position(|name| name.is_word("where")).unwrap_or(names.len());
    let of_trait = names[..end].iter().position(|name| name.is_word("for"));
    let subject = &names[of_trait.map_or(0, |index| index + 1)..end];
    Some(ImplBlock {
        type_name: subject.iter().rfind(|name| !["mut", "dyn", "const"].contains(&name.text))?.text,
        line: tokens[index].line,
        is_of_trait: of_trait.is_some(),
        begin: open + 1,
        end: closing_brace(tokens, open),
    })
}

/// How many tokens the `<…>` has with which these begin.
fn generics_length(tokens: &[RustToken<'_>]) -> usize {
    let mut depth = 0_i32;
    for (index, token) in tokens.iter().enumerate() {
        depth += angle(token);
        if depth == 0 {
            return if index == 0 { 0 } else { index + 1 };
        }
    }
    0
}

fn angle(token: &RustToken<'_>) -> i32 {
    i32::from(token.is_symbol("<")) - i32::from(token.is_symbol(">"))
}

fn names_outside_generics<'s>(header: &[RustToken<'s>]) -> Vec<RustToken<'s>> {
    let mut depth = 0_i32;
    let mut names = Vec::new();
    for token in header {
        depth += angle(token);
        if depth == 0 && token.kind == TokenKind::Word {
            names.push(*token);
        }
    }
    names
}

/// The position of the brace that closes the one at `open`.
pub(crate) fn closing_brace(tokens: &[RustToken<'_>], open: usize) -> usize {
    let mut depth = 0_i32;
    for (index, token) in tokens.iter().enumerate().skip(open) {
        depth += i32::from(token.is_symbol("{")) - i32::from(token.is_symbol("}"));
        if depth == 0 {
            return index;
        }
    }
    tokens.len()
}

fn functions_of<'s>(body: &[RustToken<'s>]) -> Vec<&'s str> {
    let mut depth = 0_i32;
    let mut functions = Vec::new();
    for pair in body.windows(2) {
        depth += i32::from(pair[0].is_symbol("{")) - i32::from(pair[0].is_symbol("}"));
        if depth == 0 && pair[0].is_word("fn") {
            functions.push(pair[1].text);
        }
    }
    functions
}

#[cfg(test)]
mod tests {
    use super::super::module_trees::{module_trees, package_of};
    use super::*;

    fn taken(files: &[(&str, &str)]) -> Vec<String> {
        let files = package_of(files);
        let mut taken = taken_within_places(&module_trees(&files)[0]);
        taken.sort();
        taken.iter().map(|taken| format!("{} -> {}: {}", taken.from, taken.to, taken.name)).collect()
    }

    #[test]
    fn files_with_methods_of_a_type_take_the_type_and_the_methods_that_they_call() {
        let found = taken(&[
            (
                "a/src/lib.rs",
                "mod b; pub struct T<'a>(&'a str); impl<'a> T<'a> { fn f(&self) { self.g() } fn h() {} }",
            ),
            (
                "a/src/b.rs",
                "use super::T; impl T<'_> { fn g(&self) { Self::h(); T::k(); self.f } fn k() {} }",
            ),
        ]);
        assert_eq!(
            found,
            [
                "a/src/b.rs -> a/src/lib.rs: T",
                "a/src/b.rs -> a/src/lib.rs: h",
                "a/src/lib.rs -> a/src/b.rs: g"
            ]
        );
    }

    #[test]
    fn traits_and_functions_within_methods_hold_no_methods() {
        let found = taken(&[
            ("a/src/lib.rs", "mod b; mod c; pub struct T; impl T { fn f(&self) { self.g(); self.k() } }"),
            ("a/src/b.rs", "use super::T; impl<F: Fn(u8) -> u8> From<F> for T { fn g(&self) {} }"),
            ("a/src/c.rs", "use super::T; impl T { fn m() { fn k() {} } } fn n() -> impl Copy { self.f() }"),
        ]);
        assert_eq!(found, ["a/src/c.rs -> a/src/lib.rs: T"]);
    }

    #[test]
    fn an_implementation_of_a_trait_takes_methods() {
        let found = taken(&[
            (
                "a/src/lib.rs",
                "mod b; pub struct T; impl std::fmt::Debug for T { fn f(&self) { self.g::<u8>() } }",
            ),
            ("a/src/b.rs", "impl super::T where u8: Copy { fn g(&self) {} }"),
        ]);
        assert_eq!(found, ["a/src/b.rs -> a/src/lib.rs: T", "a/src/lib.rs -> a/src/b.rs: g"]);
    }
}
