//! The fixed part of a client: the files of `runtime/`, one after the other, without their imports of each other.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use super::names::value_name;

/// The parts in TypeScript that every client has.
const TYPESCRIPT: [&str; 6] = [
    include_str!("../runtime/typescript/decimals.ts"),
    include_str!("../runtime/typescript/buckets.ts"),
    include_str!("../runtime/typescript/keys.ts"),
    include_str!("../runtime/typescript/measures.ts"),
    include_str!("../runtime/typescript/state.ts"),
    include_str!("../runtime/typescript/readers.ts"),
];
const TYPESCRIPT_RANKS: &str = include_str!("../runtime/typescript/ranks.ts");
const TYPESCRIPT_MIRRORS: &str = include_str!("../runtime/typescript/mirrors.ts");

/// The parts in Python that every client has.
const PYTHON: [&str; 5] = [
    include_str!("../runtime/python/buckets.py"),
    include_str!("../runtime/python/keys.py"),
    include_str!("../runtime/python/measures.py"),
    include_str!("../runtime/python/state.py"),
    include_str!("../runtime/python/readers.py"),
];
const PYTHON_RANKS: &str = include_str!("../runtime/python/ranks.py");
const PYTHON_MIRRORS: &str = include_str!("../runtime/python/mirrors.py");

/// The words before the name of a definition.
const DEFINING: [&str; 7] = ["class", "interface", "type", "function", "const", "def", "async"];

/// The endings of the names that belong to a type.
const ENDINGS: [&str; 14] = [
    "Key",
    "Prefix",
    "Series",
    "Measures",
    "Totals",
    "Numbers",
    "TotalNumbers",
    "Rollup",
    "Group",
    "Rank",
    "Definition",
    "Reader",
    "Mirrors",
    "MirrorDefinitions",
];

/// The names that the fixed part defines, as names of values.
static FIXED_NAMES: LazyLock<BTreeSet<String>> = LazyLock::new(|| {
    let names = files().flat_map(str::lines).filter_map(defined_name);
    names.map(|name| value_name(name.trim_start_matches('_'))).collect()
});

/// Whether the fixed part has a name that belongs to this type.
pub(crate) fn has_name_of(type_name: &str) -> bool {
    let own = value_name(type_name);
    ENDINGS.iter().any(|ending| FIXED_NAMES.contains(&format!("{own}{ending}")))
}

fn files() -> impl Iterator<Item = &'static str> {
    let others = [TYPESCRIPT_RANKS, TYPESCRIPT_MIRRORS, PYTHON_RANKS, PYTHON_MIRRORS];
    TYPESCRIPT.into_iter().chain(PYTHON).chain(others)
}

/// The name that a line defines at the top level.
fn defined_name(line: &str) -> Option<&str> {
    let line = line.strip_prefix("export ").unwrap_or(line);
    let (word, rest) = line.split_once(' ')?;
    let rest = if DEFINING.contains(&word) { rest } else { line };
    let name = rest.split(|character: char| !(character.is_alphanumeric() || character == '_')).next()?;
    (!name.is_empty()).then_some(name)
}

/// The fixed part in TypeScript.
pub(crate) fn typescript(has_ranks: bool, has_mirrors: bool) -> String {
    let optional = [(has_ranks, TYPESCRIPT_RANKS), (has_mirrors, TYPESCRIPT_MIRRORS)];
    let optional = optional.into_iter().filter_map(|(is_used, part)| is_used.then_some(part));
    let parts = TYPESCRIPT.into_iter().chain(optional);
    let parts = parts.map(|part| without_imports(part, |line| line.starts_with("import "), ";"));
    parts.collect::<Vec<_>>().join("\n")
}

/// The fixed part in Python.
pub(crate) fn python(has_ranks: bool, has_mirrors: bool) -> String {
    let optional = [(has_ranks, PYTHON_RANKS), (has_mirrors, PYTHON_MIRRORS)];
    let optional = optional.into_iter().filter_map(|(is_used, part)| is_used.then_some(part));
    let parts = PYTHON.into_iter().chain(optional);
    let is_import =
        |line: &str| line.starts_with("import ") || line.starts_with("from ") || line.starts_with("\"\"\"");
    parts.map(|part| without_imports(part, is_import, "")).collect::<Vec<_>>().join("\n\n")
}

/// A file from the first line on that is neither blank nor an import, nor documentation of the file. A statement goes on until a line with this
/// ending, or until its parenthesis is closed.
fn without_imports(file: &str, is_import: impl Fn(&str) -> bool, ending: &str) -> String {
    let mut lines = file.lines().peekable();
    while let Some(line) = lines.next_if(|line| line.is_empty() || is_import(line)) {
        let mut last = line;
        let is_open = |last: &str| {
            !last.ends_with(ending) || (ending.is_empty() && (last.ends_with('(') || last.ends_with(',')))
        };
        while !line.is_empty() && is_open(last) {
            let Some(next) = lines.next() else { break };
            last = next;
        }
    }
    lines.flat_map(|line| [line, "\n"]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fixed_part_has_no_imports() {
        for part in [typescript(true, true), python(true, true)] {
            assert!(
                !part.lines().any(|line| line.starts_with("import ") || line.starts_with("from ")),
                "{part}"
            );
        }
        assert!(typescript(false, false).starts_with("/** The digits of an exact decimal number"));
        assert!(python(false, false).starts_with("#: The form of each bucket's text"));
    }

    #[test]
    fn names_of_the_fixed_part_are_taken() {
        assert_eq!(["Rollup", "Measure", "Rank", "AdminDay"].map(has_name_of), [true, true, true, false]);
    }
}
