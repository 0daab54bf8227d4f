//! The repository's own files, and the report of breaches of a rule.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::{fs, io};

use super::lexer::{RustToken, TokenKind, tokens};

/// Folders of generated files and recordings.
const IGNORED_FOLDERS: [&str; 6] = ["target", "corpus", "artifacts", "seeds", "exam-42", "__pycache__"];
/// Hidden folders that belong to the repository.
const HIDDEN_FOLDERS: [&str; 3] = [".ci", ".config", ".github"];

/// A text file of the repository. Its text stays in memory until the process ends.
#[derive(Debug)]
pub(crate) struct SourceFile {
    /// From the repository's root, with `/`.
    pub(crate) path: String,
    pub(crate) text: &'static str,
    tokens: OnceLock<Vec<RustToken<'static>>>,
    code: OnceLock<Vec<RustToken<'static>>>,
}

impl SourceFile {
    pub(crate) fn new(path: &str, text: &str) -> Self {
        let text = text.to_owned().leak();
        Self { path: path.to_owned(), text, tokens: OnceLock::new(), code: OnceLock::new() }
    }

    /// The tokens of Rust source. All rules share them: to find them takes longer than to use them.
    pub(crate) fn tokens(&self) -> &[RustToken<'static>] {
        self.tokens.get_or_init(|| tokens(self.text))
    }

    /// The same without comments.
    pub(crate) fn code(&self) -> &[RustToken<'static>] {
        let is_code = |token: &&RustToken<'_>| token.kind != TokenKind::Comment;
        self.code.get_or_init(|| self.tokens().iter().filter(is_code).copied().collect())
    }

    pub(crate) fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }

    /// Whether the whole file is a test, a benchmark or an example.
    pub(crate) fn is_test(&self) -> bool {
        let folders = ["tests", "benches", "examples"];
        self.path.ends_with("/tests.rs") || self.path.split('/').any(|part| folders.contains(&part))
    }
}

/// All text files of the repository, sorted by path.
pub(crate) fn repository() -> &'static [SourceFile] {
    static FILES: OnceLock<Vec<SourceFile>> = OnceLock::new();
    FILES.get_or_init(|| {
        let mut files: Vec<SourceFile> = paths().into_iter().filter_map(|path| read(path).ok()).collect();
        files.sort_by(|left, right| left.path.cmp(&right.path));
        assert!(files.len() > 500, "the repository has more than {} files", files.len());
        files
    })
}

/// The paths of files that are not text.
pub(crate) fn other_paths() -> Vec<String> {
    paths().into_iter().filter_map(|path| read(path).err()).collect()
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: String) -> Result<SourceFile, String> {
    match fs::read_to_string(root().join(&path)) {
        Ok(text) => Ok(SourceFile::new(&path, &text)),
        Err(_) => Err(path),
    }
}

fn paths() -> Vec<String> {
    let mut paths = Vec::new();
    add_paths_of(&root(), "", &mut paths);
    paths
}

fn add_paths_of(root: &Path, folder: &str, paths: &mut Vec<String>) {
    let entries = match fs::read_dir(root.join(folder)) {
        // Another test, which runs at the same time, has removed a folder of its own.
        Err(error) if error.kind() == io::ErrorKind::NotFound && !folder.is_empty() => return,
        entries => entries.expect("a readable folder"),
    };
    for entry in entries {
        let entry = entry.expect("a readable entry");
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = if folder.is_empty() { name.clone() } else { format!("{folder}/{name}") };
        let file_type = entry.file_type().expect("a type of file");
        if file_type.is_dir() {
            let is_hidden = name.starts_with('.') && !HIDDEN_FOLDERS.contains(&&*name);
            if !is_hidden && !IGNORED_FOLDERS.contains(&&*name) {
                add_paths_of(root, &path, paths);
            }
        } else if file_type.is_file() {
            paths.push(path);
        }
    }
}

/// Something that breaks a rule.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct RuleBreach {
    pub(crate) path: String,
    pub(crate) line: usize,
    /// The fault, and a fix.
    pub(crate) problem: String,
}

impl RuleBreach {
    pub(crate) fn new(path: &str, line: usize, problem: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line, problem: problem.into() }
    }
}

/// Fails with the list of all breaches, and their number by file.
pub(crate) fn assert_kept(rule: &str, reason: &str, mut breaches: Vec<RuleBreach>) {
    if breaches.is_empty() {
        return;
    }
    breaches.sort();
    let mut by_file: BTreeMap<&str, usize> = BTreeMap::new();
    let mut report = String::new();
    for RuleBreach { path, line, problem } in &breaches {
        *by_file.entry(path).or_default() += 1;
        let _ = writeln!(report, "{path}:{line}: {problem}");
    }
    let _ = writeln!(report, "\n{} of them, by file:", breaches.len());
    for (path, count) in by_file {
        let _ = writeln!(report, "{count:5} {path}");
    }
    panic!("{rule}\nWhy: {reason}\n\n{report}");
}
