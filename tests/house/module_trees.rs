//! Module trees: the files that a target compiles, found as the compiler finds them, from the root file through `mod` declarations
//! and `#[path]`. Every target has a tree of its own: a library, each binary, each test, each benchmark, a build script.
//!
//! A module within a file (`mod name { … }`) counts as part of that file.

use std::collections::{BTreeMap, BTreeSet};

use super::lexer::{RustToken, TokenKind};
use super::manifests::{CargoPackage, packages};
use super::sources::{RuleBreach, SourceFile};

pub(crate) const RULE: &str = "A source file belongs to no target";
pub(crate) const REASON: &str = "The compiler never reads a file that no `mod` names. It looks like code, and is neither checked nor tested.";

/// The module that a file holds, from the crate's root; empty for the root.
pub(crate) type ModulePath = Vec<String>;

/// The files of one target.
pub(crate) struct ModuleTree<'s> {
    pub(crate) root: &'s str,
    pub(crate) modules: BTreeMap<ModulePath, TreeModule<'s>>,
}

/// A file of a target.
#[derive(Clone, Copy)]
pub(crate) struct TreeModule<'s> {
    pub(crate) file: &'s SourceFile,
    /// Whether `#[cfg(test)]` stands before its declaration, or before one of those above it.
    pub(crate) is_test: bool,
}

/// A declaration `mod name;`.
#[derive(Debug, PartialEq, Eq)]
struct ModuleDeclaration<'s> {
    name: &'s str,
    /// The modules within the file that enclose it.
    enclosing: Vec<&'s str>,
    path_attribute: Option<&'s str>,
    is_test: bool,
}

/// The trees of all targets of all packages.
pub(crate) fn module_trees(files: &[SourceFile]) -> Vec<ModuleTree<'_>> {
    let by_path: BTreeMap<&str, &SourceFile> = files.iter().map(|file| (&*file.path, file)).collect();
    let packages = packages(files);
    let is_root = |file: &&SourceFile| {
        let package = packages.iter().filter(|package| contains(package, &file.path));
        let innermost = package.max_by_key(|package| package.folder.len());
        innermost.is_some_and(|package| package.is_root(&file.path))
    };
    let roots = files.iter().filter(|file| file.is_rust()).filter(is_root);
    roots.map(|root| ModuleTree::read(root, &by_path)).collect()
}

fn contains(package: &CargoPackage<'_>, path: &str) -> bool {
    path.strip_prefix(package.folder).is_some_and(|rest| rest.starts_with('/'))
}

/// Files that are in no tree.
pub(crate) fn orphans(files: &[SourceFile]) -> Vec<RuleBreach> {
    let trees = module_trees(files);
    let modules = trees.iter().flat_map(|tree| tree.modules.values());
    let compiled: BTreeSet<&str> = modules.map(|module| &*module.file.path).collect();
    let orphans = files.iter().filter(|file| file.is_rust() && !compiled.contains(&*file.path));
    let problem = "no target reaches this file: declare it with `mod`, or delete it";
    orphans.map(|file| RuleBreach::new(&file.path, 1, problem)).collect()
}

impl<'s> ModuleTree<'s> {
    fn read(root: &'s SourceFile, files: &BTreeMap<&str, &'s SourceFile>) -> Self {
        let mut modules = BTreeMap::new();
        let mut open = vec![(ModulePath::new(), TreeModule { file: root, is_test: false })];
        while let Some((path, module)) = open.pop() {
            let is_root = path.is_empty();
            for declaration in declarations(module.file) {
                let places = declaration.places(&module.file.path, is_root);
                let Some(file) = places.iter().find_map(|place| files.get(&**place)) else { continue };
                let names = declaration.enclosing.iter().chain([&declaration.name]);
                let child: ModulePath =
                    path.iter().cloned().chain(names.map(|name| (*name).to_owned())).collect();
                open.push((child, TreeModule { file, is_test: module.is_test || declaration.is_test }));
            }
            modules.insert(path, module);
        }
        Self { root: &root.path, modules }
    }

    /// The modules that tests alone do not need.
    pub(crate) fn product_modules(&self) -> impl Iterator<Item = (&ModulePath, &'s SourceFile)> {
        self.modules.iter().filter(|(_, module)| !module.is_test).map(|(path, module)| (path, module.file))
    }
}

impl ModuleDeclaration<'_> {
    /// The paths at which the compiler looks for the module, if the file at `path` declares it.
    fn places(&self, path: &str, is_root: bool) -> Vec<String> {
        let (folder, file) = path.rsplit_once('/').unwrap_or(("", path));
        if let Some(attribute) = self.path_attribute {
            return vec![joined(folder, attribute)];
        }
        let mut folder = folder.to_owned();
        let stem = file.trim_end_matches(".rs");
        let own = (!is_root && stem != "mod").then_some(stem);
        for part in own.into_iter().chain(self.enclosing.iter().copied()) {
            folder = format!("{folder}/{part}");
        }
        vec![format!("{folder}/{}.rs", self.name), format!("{folder}/{}/mod.rs", self.name)]
    }
}

/// A path relative to a folder, without `.` and `..`.
pub(crate) fn joined(folder: &str, path: &str) -> String {
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in path.split('/') {
        match part {
            ".." => drop(parts.pop()),
            "" | "." => {}
            name => parts.push(name),
        }
    }
    parts.join("/")
}

/// The declarations of a file.
fn declarations(file: &SourceFile) -> Vec<ModuleDeclaration<'_>> {
    let tokens = file.code();
    let mut declarations = Vec::new();
    // For each open brace, the module that it opened.
    let mut braces: Vec<Option<&str>> = Vec::new();
    for (index, token) in tokens.iter().enumerate() {
        let before = index.checked_sub(2).map(|start| (&tokens[start], &tokens[start + 1]));
        let module = before.filter(|(keyword, name)| keyword.is_word("mod") && name.kind == TokenKind::Word);
        match (token.kind, token.text) {
            (TokenKind::Symbol, "{") => braces.push(module.map(|(_, name)| name.text)),
            (TokenKind::Symbol, "}") => drop(braces.pop()),
            (TokenKind::Symbol, ";") => {
                let Some((keyword, name)) = module else { continue };
                declarations.push(ModuleDeclaration {
                    name: name.text,
                    enclosing: braces.iter().flatten().copied().collect(),
                    path_attribute: path_attribute(&tokens[..index - 2]),
                    is_test: keyword.is_test,
                });
            }
            _ => {}
        }
    }
    declarations
}

/// The path of an attribute `#[path = "…"]` of the item that follows these tokens.
fn path_attribute<'s>(tokens: &[RustToken<'s>]) -> Option<&'s str> {
    let begin = tokens
        .iter()
        .rposition(|token| token.kind == TokenKind::Symbol && [";", "{", "}"].contains(&token.text));
    let item = &tokens[begin.map_or(0, |end| end + 1)..];
    let at = item.windows(3).position(|window| window[0].is_word("path") && window[1].is_symbol("="))?;
    Some(item[at + 2].text)
}

/// For tests: a package in the folder `a`, with a test target in `t`.
pub(crate) fn package_of(files: &[(&str, &str)]) -> Vec<SourceFile> {
    let manifest = "[package]\nname = \"a\"\n\n[[test]]\npath = \"t/main.rs\"\n";
    let files = files.iter().copied().chain([("a/Cargo.toml", manifest)]);
    files.map(|(path, text)| SourceFile::new(path, text)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(files: &[SourceFile]) -> Vec<String> {
        let trees = module_trees(files);
        let modules = trees.iter().flat_map(|tree| tree.modules.iter().map(|entry| (tree.root, entry)));
        let line = |(root, (path, module)): (&str, (&ModulePath, &TreeModule<'_>))| {
            let test = if module.is_test { ", a test" } else { "" };
            format!("{root}: {} = {}{test}", path.join("::"), module.file.path)
        };
        modules.map(line).collect()
    }

    #[test]
    fn every_target_has_a_tree_of_the_files_that_it_compiles() {
        let files = package_of(&[
            ("a/src/lib.rs", "pub mod one; #[cfg(test)] mod tests;"),
            ("a/src/one/mod.rs", "mod two; #[path = \"../other.rs\"] mod three;"),
            ("a/src/one/two.rs", "mod four { mod five; }"),
            ("a/src/one/two/four/five.rs", ""),
            ("a/src/other.rs", ""),
            ("a/src/tests.rs", ""),
            ("a/src/bin/main.rs", "fn main() { mod_name; }"),
            ("a/t/main.rs", "mod one;"),
            ("a/t/one.rs", ""),
        ]);
        let expected = [
            "a/src/lib.rs:  = a/src/lib.rs",
            "a/src/lib.rs: one = a/src/one/mod.rs",
            "a/src/lib.rs: one::three = a/src/other.rs",
            "a/src/lib.rs: one::two = a/src/one/two.rs",
            "a/src/lib.rs: one::two::four::five = a/src/one/two/four/five.rs",
            "a/src/lib.rs: tests = a/src/tests.rs, a test",
            "a/src/bin/main.rs:  = a/src/bin/main.rs",
            "a/t/main.rs:  = a/t/main.rs",
            "a/t/main.rs: one = a/t/one.rs",
        ];
        assert_eq!(tree(&files), expected);
        assert_eq!(orphans(&files), []);
    }

    #[test]
    fn a_file_that_no_module_names_is_an_orphan() {
        let files = package_of(&[
            ("a/src/lib.rs", "// mod one;\nmod two { }"),
            ("a/src/one.rs", ""),
            ("a/src/two.rs", ""),
            ("b/lib.rs", ""),
        ]);
        let orphans: Vec<String> = orphans(&files).into_iter().map(|breach| breach.path).collect();
        assert_eq!(orphans, ["a/src/one.rs", "a/src/two.rs", "b/lib.rs"]);
    }
}
