//! Circles: files of one target that import each other in a loop. [`super::imports`] defines an import, [`super::type_places`] what
//! the files take from each other over which the methods of one type are spread.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use super::imports::{CrateModules, TakenName};
use super::module_trees::module_trees;
use super::sources::{RuleBreach, SourceFile};
use super::type_places::taken_within_places;

pub(crate) const RULE: &str = "Files import each other in a circle";
pub(crate) const REASON: &str = "Data flows one way. Files in a circle can only be read, tested and changed together: move what both \
    need into a file below them, or pass it in as an argument. If the methods of one type make the circle, give the stage that lies \
    in a file of its own a type of its own.";

/// The files of a circle.
type FileCircle<'s> = BTreeSet<&'s str>;

/// The circles that are left. The list only shrinks: a circle that is smaller, or gone, fails the rule too.
pub(crate) const KNOWN: &[&[&str]] = &[
    // ModelCompiler: it holds the parts of a model, and each part is compiled in a file of its own
    &[
        "common/model/src/table/aggregate.rs",
        "common/model/src/table/binding.rs",
        "common/model/src/table/derivation.rs",
        "common/model/src/table/entity.rs",
        "common/model/src/table/for_each.rs",
        "common/model/src/table/load/compiler.rs",
        "common/model/src/table/load/scope.rs",
        "common/model/src/table/lookup.rs",
        "common/model/src/table/measure.rs",
        "common/model/src/table/measure_settings.rs",
        "common/model/src/table/notation.rs",
        "common/model/src/table/pattern/settings.rs",
        "common/model/src/table/secondary_index.rs",
        "common/model/src/table/times.rs",
    ],
];

/// One breach for every circle among the files of a target that is not known, and for every known one that is not there. A path that the
/// rule cannot resolve is a breach too: it could be part of a circle.
pub(crate) fn breaches(files: &[SourceFile], known: &[&[&str]]) -> Vec<RuleBreach> {
    let mut known: Vec<FileCircle<'_>> =
        known.iter().map(|circle| circle.iter().copied().collect()).collect();
    let mut breaches = Vec::new();
    for tree in module_trees(files) {
        let modules = CrateModules::read(&tree);
        breaches.extend(modules.unresolved_paths());
        let mut taken = modules.taken_names();
        taken.extend(taken_within_places(&tree));
        for circle in circles_of(&taken) {
            match known.iter().position(|known| *known == circle) {
                Some(index) => drop(known.remove(index)),
                None => breaches.push(breach(&circle, &taken)),
            }
        }
    }
    breaches.extend(known.iter().map(outdated));
    breaches
}

fn outdated(circle: &FileCircle<'_>) -> RuleBreach {
    let files: Vec<&str> = circle.iter().copied().collect();
    let problem =
        format!("these files are not exactly one circle: shorten `KNOWN`\n    {}", files.join("\n    "));
    RuleBreach::new("tests/house/circles.rs", 1, problem)
}

fn circles_of<'s>(taken: &[TakenName<'s>]) -> Vec<FileCircle<'s>> {
    let mut next: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for name in taken {
        next.entry(name.from).or_default().insert(name.to);
    }
    let reachable: BTreeMap<&str, BTreeSet<&str>> =
        next.keys().map(|file| (*file, files_reachable_from(file, &next))).collect();
    let reaches = |from: &str, to: &str| reachable.get(from).is_some_and(|files| files.contains(to));
    let mut circles: Vec<FileCircle<'_>> = Vec::new();
    for file in next.keys().filter(|file| reaches(file, file)) {
        if !circles.iter().any(|circle| circle.contains(file)) {
            let others = next.keys().filter(|other| reaches(file, other) && reaches(other, file));
            circles.push(others.copied().collect());
        }
    }
    circles
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

fn breach(circle: &FileCircle<'_>, taken: &[TakenName<'_>]) -> RuleBreach {
    let mut problem = format!("a circle of {} files", circle.len());
    let inside = taken.iter().filter(|name| circle.contains(name.from) && circle.contains(name.to));
    let mut inside: Vec<&TakenName<'_>> = inside.collect();
    inside.sort();
    inside.dedup_by_key(|name| (name.from, name.to, name.name));
    for ties in inside.chunk_by(|left, right| (left.from, left.to) == (right.from, right.to)) {
        let names: Vec<&str> = ties.iter().map(|name| name.name).collect();
        let _ = write!(problem, "\n    {} takes {} from {}", ties[0].from, names.join(", "), ties[0].to);
    }
    RuleBreach::new(inside[0].from, inside[0].line, problem)
}

#[cfg(test)]
mod tests {
    use super::super::module_trees::package_of;
    use super::*;

    #[test]
    fn a_loop_of_three_files_is_one_circle() {
        let files = package_of(&[
            ("a/src/lib.rs", "mod a; mod b; mod c; mod d;"),
            ("a/src/a.rs", "use super::b::B; pub struct A;"),
            ("a/src/b.rs", "pub struct B; fn f() { crate::c::C; }"),
            ("a/src/c.rs", "use crate::a::A; pub struct C;"),
            ("a/src/d.rs", "use crate::a::A;"),
        ]);
        let breaches = breaches(&files, &[]);
        assert_eq!(breaches.len(), 1);
        assert!(breaches[0].problem.starts_with("a circle of 3 files"), "{}", breaches[0].problem);
    }

    #[test]
    fn imports_in_one_direction_are_allowed() {
        let files = package_of(&[
            ("a/src/lib.rs", "mod a; mod b;"),
            ("a/src/a.rs", "use super::b::B;"),
            ("a/src/b.rs", "pub struct B; #[cfg(test)] mod tests { use crate::a::A; }"),
        ]);
        assert_eq!(breaches(&files, &[]), []);
    }

    #[test]
    fn methods_of_one_type_that_call_each_other_across_files_are_a_circle() {
        let files = package_of(&[
            ("a/src/lib.rs", "mod b; pub struct T; impl T { fn f(&self) { self.g() } }"),
            ("a/src/b.rs", "use super::T; impl T { fn g(&self) {} }"),
        ]);
        let both: &[&str] = &["a/src/b.rs", "a/src/lib.rs"];
        assert!(breaches(&files, &[])[0].problem.starts_with("a circle of 2 files"));
        assert_eq!(breaches(&files, &[both]), []);
        let none = package_of(&[("a/src/lib.rs", "mod b;"), ("a/src/b.rs", "")]);
        assert_eq!(breaches(&none, &[both]).len(), 1);
    }

    #[test]
    fn every_target_is_searched_by_itself() {
        let files = package_of(&[
            ("a/src/lib.rs", "mod b; mod c;"),
            ("a/src/b.rs", "use crate::c::C; pub struct B;"),
            ("a/src/c.rs", "pub struct C;"),
            ("a/t/main.rs", "mod b; mod c;"),
            ("a/t/b.rs", "pub struct B;"),
            ("a/t/c.rs", "use crate::b::B; pub struct C;"),
        ]);
        assert_eq!(breaches(&files, &[]), []);
    }
}
