//! The models of `fixtures/models`. A model with a `.txt` file of the same name is broken: that file has the exact output of
//! `afterwrite model check` in that folder. Every other model loads.
//!
//! A new case is a model and an empty `.txt` file. `AFTERWRITE_TEST_REWRITE=1 cargo nextest run --workspace --test broken_models` rewrites
//! these files: for new cases, and after an intended change of a message. Review the changes with `git diff`.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use afterwrite_model::table::Model;

/// Set to write what is found instead of comparing with it.
const REWRITE: &str = "AFTERWRITE_TEST_REWRITE";

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/models")
}

/// The names of the files with this extension, without the extension.
fn names(extension: &str) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for entry in fs::read_dir(folder()).expect("the folder") {
        let path = entry.expect("an entry").path();
        if path.extension().is_some_and(|own| own == extension) {
            names.insert(path.file_stem().expect("a name").to_string_lossy().into_owned());
        }
    }
    names
}

fn read(name: &str, extension: &str) -> String {
    let path = folder().join(format!("{name}.{extension}"));
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The problems of a model, one per line; empty if the model loads.
fn problems(name: &str) -> String {
    let found = Model::parse(&read(name, "toml"), &format!("{name}.toml"));
    found.map_or_else(|errors| format!("{errors}\n"), |_| String::new())
}

/// The missing lines, then the unexpected lines.
fn difference(expected: &str, found: &str) -> Vec<String> {
    let missing = expected.lines().filter(|line| !found.lines().any(|other| other == *line));
    let unexpected = found.lines().filter(|line| !expected.lines().any(|other| other == *line));
    missing.map(|line| format!("- {line}")).chain(unexpected.map(|line| format!("+ {line}"))).collect()
}

#[test]
fn every_broken_model_gives_its_messages() {
    let broken = names("txt");
    assert!(broken.len() > 200, "only {} broken models were found", broken.len());
    let mut differences = Vec::new();
    for name in &broken {
        let (expected, found) = (read(name, "txt"), problems(name));
        if found.is_empty() {
            differences.push(format!("{name}.toml loads, although {name}.txt lists its problems"));
        } else if found != expected && std::env::var_os(REWRITE).is_some() {
            fs::write(folder().join(format!("{name}.txt")), found).expect("a text");
        } else if found != expected {
            differences.push(format!("{name}.txt, in some order:"));
            differences.extend(difference(&expected, &found));
        }
    }
    assert!(
        differences.is_empty(),
        "{}\nif this is intended: {REWRITE}=1 rewrites the texts",
        differences.join("\n")
    );
}

#[test]
fn every_other_model_loads() {
    let models = names("toml");
    let broken = names("txt");
    let orphans: Vec<&String> = broken.difference(&models).collect();
    assert!(orphans.is_empty(), "texts without a model: {orphans:?}");
    let sound: Vec<&String> = models.difference(&broken).collect();
    assert!(sound.iter().any(|name| *name == "library"), "what the broken ones are made of is sound");
    for name in sound {
        assert_eq!(problems(name), "", "{name}");
    }
}

#[test]
fn no_problem_is_reported_twice() {
    for name in names("txt") {
        let text = read(&name, "txt");
        let lines: BTreeSet<&str> = text.lines().collect();
        assert_eq!(lines.len(), text.lines().count(), "{name}");
    }
}
