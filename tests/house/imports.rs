//! Which file of a crate takes which names from which other file.
//!
//! A file takes the names that its `use` declarations import, and those that a path in its code reaches (`pack::add`,
//! `crate::table::Model`). A name that a module imports or re-exports is taken from the file that defines it: files that take names from each
//! other through the face of their folder make a circle, too.
//!
//! Not counted are `mod` declarations, re-exports, tests, and what a module and the modules within it take from each other: they
//! are one unit, in which the outer one holds what the inner ones share and calls them.

use std::collections::{BTreeMap, BTreeSet};

use super::lexer::{RustToken, TokenKind};
use super::module_trees::{ModulePath, ModuleTree};
use super::sources::{RuleBreach, SourceFile};

/// A file of a crate, as far as imports go.
pub(crate) struct ModuleFile<'s> {
    pub(crate) path: &'s str,
    module: ModulePath,
    imports: Vec<ImportedPath<'s>>,
    /// Paths in its code.
    paths: Vec<(Vec<&'s str>, usize)>,
    /// The names that it defines or imports; `*` if it imports all names of a module.
    names: BTreeSet<&'s str>,
}

/// One name of a `use` declaration.
#[derive(Debug, PartialEq, Eq)]
struct ImportedPath<'s> {
    segments: Vec<&'s str>,
    /// The name that it has here; `*` for all names of a module.
    alias: &'s str,
    is_public: bool,
    line: usize,
}

/// An import of one file by another: the name, and the line that takes it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct TakenName<'s> {
    pub(crate) from: &'s str,
    pub(crate) to: &'s str,
    pub(crate) name: &'s str,
    pub(crate) line: usize,
}

/// The modules of one crate.
pub(crate) struct CrateModules<'s> {
    files: BTreeMap<ModulePath, ModuleFile<'s>>,
}

impl<'s> CrateModules<'s> {
    /// Reads the files of a target.
    pub(crate) fn read(tree: &ModuleTree<'s>) -> Self {
        let read = tree.product_modules().map(|(path, file)| (path.clone(), ModuleFile::read(path, file)));
        Self { files: read.collect() }
    }

    /// Every name that a file takes from another one, parents and children aside.
    pub(crate) fn taken_names(&self) -> Vec<TakenName<'s>> {
        let mut taken = Vec::new();
        for file in self.files.values() {
            let private = file.imports.iter().filter(|import| !import.is_public);
            let imports = private.map(|import| (&import.segments, import.line));
            let all = imports.chain(file.paths.iter().map(|(segments, line)| (segments, *line)));
            for (segments, line) in all {
                let Some((to, name)) = self.item(&file.module, segments) else { continue };
                let (to, name) = self.definition(to, name);
                let is_related = to.starts_with(&file.module) || file.module.starts_with(to);
                if !is_related && let Some(other) = self.files.get(to) {
                    taken.push(TakenName { from: file.path, to: other.path, name, line });
                }
            }
        }
        taken
    }

    /// Paths that begin with `crate` and lead to nothing that a module of the target defines or imports. The compiler knows better:
    /// each of them is a path that these rules misread.
    pub(crate) fn unresolved_paths(&self) -> Vec<RuleBreach> {
        let mut unresolved = Vec::new();
        for file in self.files.values() {
            let imports = file.imports.iter().map(|import| (&import.segments, import.line));
            let all = imports.chain(file.paths.iter().map(|(segments, line)| (segments, *line)));
            for (segments, line) in all.filter(|(segments, _)| segments.first() == Some(&"crate")) {
                if !self.is_resolved(&file.module, segments) {
                    let problem = format!("`{}` leads nowhere", segments.join("::"));
                    unresolved.push(RuleBreach::new(file.path, line, problem));
                }
            }
        }
        unresolved
    }

    fn is_resolved(&self, module: &[String], segments: &[&'s str]) -> bool {
        // A path to a module, which is resolved, has no item.
        self.item(module, segments).is_none_or(|(to, name)| {
            self.files.get(to).is_some_and(|file| file.names.contains(name) || file.names.contains("*"))
        })
    }

    /// The module whose item a path within `module` leads to, and the item's name; `None` for a path to a module, or into another
    /// crate. If a module re-exports an item that has the name of a module within it, the item is meant.
    fn item<'m>(&'m self, module: &'m [String], segments: &[&'s str]) -> Option<(&'m [String], &'s str)> {
        let (module, after) = self.start(module, segments)?;
        let (mut module, mut rest) = (module, after);
        while let Some((segment, after)) = rest.split_first() {
            match self.child(module, segment) {
                Some(_) if after.is_empty() && self.import(module, segment).is_some() => {
                    return Some((module, segment));
                }
                Some(child) => module = child,
                None if *segment == "super" => module = module.split_last()?.1,
                None => return Some((module, segment)),
            }
            rest = after;
        }
        None
    }

    /// The module that defines a name of a module, and its name there: imports and re-exports lead to it.
    fn definition<'m>(&'m self, module: &'m [String], name: &'s str) -> (&'m [String], &'s str) {
        let (mut module, mut name) = (module, name);
        // No file re-exports what it imports from itself, so this ends; the limit is for code that does not compile.
        for _ in 0..self.files.len() {
            let Some(import) = self.import(module, name) else { break };
            let Some(next) = self.item(module, &import.segments) else { break };
            (module, name) = next;
        }
        (module, name)
    }

    /// The module at which a path begins, and the segments that are left from there.
    fn start<'m, 'p>(
        &'m self,
        module: &'m [String],
        path: &'p [&'s str],
    ) -> Option<(&'m [String], &'p [&'s str])> {
        let (first, rest) = path.split_first()?;
        match *first {
            "crate" => Some((&[], rest)),
            "self" => Some((module, rest)),
            "super" => Some((module.split_last()?.1, rest)),
            name if self.child(module, name).is_some() => Some((module, path)),
            name => Some((self.imported_module(module, name)?, rest)),
        }
    }

    /// The module that is imported into another one by its name.
    fn imported_module<'m>(&'m self, module: &'m [String], name: &str) -> Option<&'m [String]> {
        let import = self.import(module, name)?;
        let first = import.segments.first()?;
        let is_own = ["crate", "self", "super"].contains(first) || self.child(module, first).is_some();
        let (mut found, mut rest) = if is_own { self.start(module, &import.segments)? } else { return None };
        while let Some((segment, after)) = rest.split_first() {
            found = if *segment == "super" { found.split_last()?.1 } else { self.child(found, segment)? };
            rest = after;
        }
        Some(found)
    }

    /// The import of a module that has this name there.
    fn import(&self, module: &[String], name: &str) -> Option<&ImportedPath<'s>> {
        self.files.get(module)?.imports.iter().find(|import| import.alias == name)
    }

    fn child<'m>(&'m self, module: &[String], name: &str) -> Option<&'m [String]> {
        let path: ModulePath = module.iter().cloned().chain([name.to_owned()]).collect();
        self.files.get_key_value(&path).map(|(path, _)| path.as_slice())
    }
}

impl<'s> ModuleFile<'s> {
    fn read(module: &ModulePath, file: &'s SourceFile) -> Self {
        let tokens = file.code().iter().filter(|token| !token.is_test);
        let tokens: Vec<RustToken<'s>> = tokens.copied().collect();
        let mut read = Self {
            path: &file.path,
            module: module.clone(),
            imports: Vec::new(),
            paths: Vec::new(),
            names: defined_names(&tokens),
        };
        let mut index = 0;
        while index < tokens.len() {
            let token = &tokens[index];
            if token.is_word("use") && tokens.get(index + 1).is_some_and(|next| !next.is_symbol("<")) {
                let end =
                    (index..tokens.len()).find(|end| tokens[*end].is_symbol(";")).unwrap_or(tokens.len());
                let is_public =
                    index > 0 && (tokens[index - 1].is_word("pub") || tokens[index - 1].is_symbol(")"));
                let tree = &tokens[index + 1..end];
                read_use_tree(tree, &[], is_public, &mut read.imports);
                index = end;
            } else if token.kind == TokenKind::Word {
                let length = path_length(&tokens[index..]);
                if length > 1 {
                    let words =
                        tokens[index..].iter().take(length).filter(|token| token.kind == TokenKind::Word);
                    read.paths.push((words.map(|token| token.text).collect(), token.line));
                }
                index += length;
            } else {
                index += 1;
            }
        }
        read.names.extend(read.imports.iter().map(|import| import.alias));
        read
    }
}

/// The names of functions, types and so on, those of methods included.
fn defined_names<'s>(tokens: &[RustToken<'s>]) -> BTreeSet<&'s str> {
    const DEFINING: [&str; 10] =
        ["fn", "struct", "enum", "union", "trait", "type", "const", "static", "mod", "macro_rules"];
    let is_definition = |window: &&[RustToken<'s>]| DEFINING.iter().any(|keyword| window[0].is_word(keyword));
    let name =
        |window: &[RustToken<'s>]| if window[1].is_symbol("!") { window[2].text } else { window[1].text };
    tokens.windows(3).filter(is_definition).map(name).collect()
}

/// How many tokens the path `a::b::c` has with which these begin; 1 for a name alone.
fn path_length(tokens: &[RustToken<'_>]) -> usize {
    let pairs = tokens[1..].chunks_exact(2);
    let is_segment = |pair: &&[RustToken<'_>]| pair[0].is_symbol("::") && pair[1].kind == TokenKind::Word;
    1 + 2 * pairs.take_while(is_segment).count()
}

/// The names of a `use` tree: `a::{b, c as d, e::*}`.
fn read_use_tree<'s>(
    tree: &[RustToken<'s>],
    prefix: &[&'s str],
    is_public: bool,
    imports: &mut Vec<ImportedPath<'s>>,
) {
    let mut segments = prefix.to_vec();
    let mut alias = None;
    let mut index = 0;
    while let Some(token) = tree.get(index) {
        match (token.kind, token.text) {
            (TokenKind::Symbol, "{") => {
                for branch in branches(&tree[index + 1..]) {
                    read_use_tree(branch, &segments, is_public, imports);
                }
                return;
            }
            (TokenKind::Symbol, "*") => alias = Some("*"),
            (TokenKind::Word, "as") => {
                alias = tree.get(index + 1).map(|name| name.text);
                index += 1;
            }
            (TokenKind::Word, "self") if !segments.is_empty() => {}
            (TokenKind::Word, name) => segments.push(name),
            _ => {}
        }
        index += 1;
    }
    if let (Some(last), Some(token)) = (segments.last().copied(), tree.first()) {
        let alias = alias.unwrap_or(last);
        imports.push(ImportedPath { segments, alias, is_public, line: token.line });
    }
}

/// The branches of `{a, b::{c, d}}`, without the brace that opens it.
fn branches<'t, 's>(tokens: &'t [RustToken<'s>]) -> Vec<&'t [RustToken<'s>]> {
    let (mut depth, mut begin) = (0_i32, 0);
    let mut branches = Vec::new();
    for (index, token) in tokens.iter().enumerate() {
        let is_end = match token.text {
            "{" => {
                depth += 1;
                false
            }
            "}" => {
                depth -= 1;
                depth < 0
            }
            "," => depth == 0,
            _ => false,
        };
        if is_end {
            branches.push(&tokens[begin..index]);
            begin = index + 1;
        }
        if depth < 0 {
            break;
        }
    }
    branches.retain(|branch| !branch.is_empty());
    branches
}

#[cfg(test)]
mod tests {
    use super::super::module_trees::{module_trees, package_of};
    use super::*;

    fn taken(files: &[(&str, &str)]) -> Vec<String> {
        let files = package_of(files);
        let trees = module_trees(&files);
        let modules = CrateModules::read(&trees[0]);
        let line = |taken: &TakenName<'_>| format!("{} -> {}: {}", taken.from, taken.to, taken.name);
        let mut taken = modules.taken_names();
        taken.sort();
        taken.iter().map(line).collect()
    }

    #[test]
    fn names_are_taken_by_use_and_by_paths_from_the_file_that_defines_them() {
        let found = taken(&[
            ("a/src/lib.rs", "mod a; mod b; mod c;"),
            ("a/src/a/mod.rs", "mod inner; pub use self::inner::Key; pub struct Own;"),
            ("a/src/a/inner.rs", "pub struct Key; pub fn other() {}"),
            (
                "a/src/b.rs",
                "use crate::a::{self, Key as ItemKey}; fn f() { a::inner::other(); std::fs::read(); Own::new(); }",
            ),
            ("a/src/c.rs", "use super::b; fn g() { b::f(); self::h(); crate::a::Own; } fn h() {}"),
        ]);
        let expected = [
            "a/src/b.rs -> a/src/a/inner.rs: Key",
            "a/src/b.rs -> a/src/a/inner.rs: other",
            "a/src/c.rs -> a/src/a/mod.rs: Own",
            "a/src/c.rs -> a/src/b.rs: f",
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn a_name_is_taken_through_every_module_that_re_exports_it() {
        let found = taken(&[
            ("a/src/lib.rs", "mod a; mod b; pub use self::a::Key as ItemKey;"),
            ("a/src/a/mod.rs", "mod key; mod other; pub use key::{Key, key}; pub use other::Other;"),
            ("a/src/a/key.rs", "use super::Other; pub struct Key; pub fn key() {}"),
            ("a/src/a/other.rs", "use super::key; pub struct Other; fn f() { key(); }"),
            ("a/src/b.rs", "use crate::ItemKey;"),
        ]);
        let expected = [
            "a/src/a/key.rs -> a/src/a/other.rs: Other",
            "a/src/a/other.rs -> a/src/a/key.rs: key",
            "a/src/b.rs -> a/src/a/key.rs: Key",
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn parents_re_exports_and_tests_do_not_count() {
        let found = taken(&[
            ("a/src/lib.rs", "mod a; mod b; pub use a::Key; pub struct Root; fn f() { a::Key; }"),
            (
                "a/src/a.rs",
                "use super::Root; pub struct Key; #[cfg(test)] mod tests { use crate::b::Other; }",
            ),
            ("a/src/b.rs", "pub use crate::a::Key; pub struct Other;"),
        ]);
        assert_eq!(found, [""; 0]);
    }

    fn unresolved(files: &[(&str, &str)]) -> Vec<String> {
        let files = package_of(files);
        let trees = module_trees(&files);
        let unresolved = trees.iter().flat_map(|tree| CrateModules::read(tree).unresolved_paths());
        unresolved.map(|breach| format!("{}: {}", breach.path, breach.problem)).collect()
    }

    #[test]
    fn paths_from_the_root_are_resolved_in_every_target() {
        let found = unresolved(&[
            ("a/src/lib.rs", "mod b; pub fn f() { crate::b::C::new(); crate::g(); }"),
            ("a/src/b.rs", "use crate::b; pub use std::rc::Rc as C; fn g() { crate::f(); crate::b::D; }"),
            ("a/t/main.rs", "mod h; use crate::h::i::J;"),
            ("a/t/h/mod.rs", "mod i;"),
            ("a/t/h/i.rs", "pub struct J; fn f() { crate::h::i::J; crate::b::C; }"),
        ]);
        let expected = [
            "a/src/lib.rs: `crate::g` leads nowhere",
            "a/src/b.rs: `crate::b::D` leads nowhere",
            "a/t/h/i.rs: `crate::b::C` leads nowhere",
        ];
        assert_eq!(found, expected);
    }
}
