//! Circles: files of one crate that import each other in a loop. [`super::imports`] defines an import.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use super::imports::{CrateModules, TakenName};
use super::sources::{RuleBreach, SourceFile};

pub(crate) const RULE: &str = "Files import each other in a circle";
pub(crate) const REASON: &str = "Data flows one way. Files in a circle can only be read, tested and changed together: move what both \
    need into a file below them, or pass it in as an argument.";

/// One breach for every circle among the files of a crate.
pub(crate) fn breaches(files: &[SourceFile]) -> Vec<RuleBreach> {
    let mut crates: BTreeMap<&str, Vec<&SourceFile>> = BTreeMap::new();
    for file in files.iter().filter(|file| file.is_rust()) {
        crates.entry(file.crate_folder()).or_default().push(file);
    }
    let folders = crates.into_iter().map(|(folder, files)| {
        // The modules of a library package lie in `src`.
        let folder = if folder == "common" { "common/src" } else { folder };
        (folder, files)
    });
    folders.flat_map(|(folder, files)| circles_of(&CrateModules::read(folder, files).taken_names())).collect()
}

fn circles_of(taken: &BTreeSet<TakenName<'_>>) -> Vec<RuleBreach> {
    let mut next: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for name in taken {
        next.entry(name.from).or_default().insert(name.to);
    }
    let reachable: BTreeMap<&str, BTreeSet<&str>> =
        next.keys().map(|file| (*file, files_reachable_from(file, &next))).collect();
    let reaches = |from: &str, to: &str| reachable.get(from).is_some_and(|files| files.contains(to));
    let mut placed: BTreeSet<&str> = BTreeSet::new();
    let mut breaches = Vec::new();
    for file in next.keys().filter(|file| reaches(file, file)) {
        if placed.contains(file) {
            continue;
        }
        let circle: BTreeSet<&str> =
            next.keys().filter(|other| reaches(file, other) && reaches(other, file)).copied().collect();
        breaches.push(breach(&circle, taken));
        placed.extend(circle);
    }
    breaches
}

fn files_reachable_from<'s>(file: &'s str, next: &BTreeMap<&'s str, BTreeSet<&'s str>>) -> BTreeSet<&'s str> {
    let (mut reached, mut open) = (BTreeSet::new(), vec![file]);
    while let Some(file) = open.pop() {
        for other in next.get(file).into_iter().flatten() {
            if reached.insert(*other) {
                open.push(other);
            }
        }
    }
    reached
}

fn breach(circle: &BTreeSet<&str>, taken: &BTreeSet<TakenName<'_>>) -> RuleBreach {
    let mut problem = format!("a circle of {} files", circle.len());
    let inside = |name: &&TakenName<'_>| circle.contains(name.from) && circle.contains(name.to);
    let ties: BTreeSet<_> = taken.iter().filter(inside).map(|name| (name.from, name.to, name.name)).collect();
    for (from, to, name) in ties {
        let _ = write!(problem, "\n    {from} takes `{name}` from {to}");
    }
    let first = taken.iter().find(inside).expect("a circle has imports");
    RuleBreach::new(first.from, first.line, problem)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loop_of_three_files_is_one_circle() {
        let files = [
            SourceFile::new("common/src/lib.rs", "mod a; mod b; mod c; mod d;"),
            SourceFile::new("common/src/a.rs", "use super::b::B; pub struct A;"),
            SourceFile::new("common/src/b.rs", "pub struct B; fn f() { crate::c::C; }"),
            SourceFile::new("common/src/c.rs", "use crate::a::A; pub struct C;"),
            SourceFile::new("common/src/d.rs", "use crate::a::A;"),
        ];
        let breaches = breaches(&files);
        assert_eq!(breaches.len(), 1);
        assert!(breaches[0].problem.starts_with("a circle of 3 files"), "{}", breaches[0].problem);
    }

    #[test]
    fn imports_in_one_direction_are_allowed() {
        let files = [
            SourceFile::new("common/src/a.rs", "use super::b::B;"),
            SourceFile::new("common/src/b.rs", "pub struct B; #[cfg(test)] mod tests { use crate::a::A; }"),
        ];
        assert_eq!(breaches(&files), []);
    }
}
