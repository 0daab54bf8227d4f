//! The tutorial `docs/LEARN.md` runs from an empty folder, and its commands print what it shows. The README shows the same model.
//! (The test `models` checks the README's numbers.)

use std::env;

use afterwrite_tests::programs::{program, remove_settings};
use afterwrite_tests::{page, python};

const README: &str = include_str!("../../README.md");
const TUTORIAL: &str = include_str!("../../docs/LEARN.md");

#[test]
#[ignore = "needs the release binaries and boto3: run tests/run"]
fn the_commands_of_the_tutorial_print_what_it_shows() {
    let afterwrite = program("afterwrite");
    let own_folder = afterwrite.parent().expect("the folder of the programs").to_path_buf();
    let path = env::var_os("PATH").unwrap_or_default();
    let folders = std::iter::once(own_folder).chain(env::split_paths(&path));
    let mut command = python::script("documentation/run_tutorial.py");
    command.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/LEARN.md"));
    command.env("PATH", env::join_paths(folders).expect("folders without a separator"));
    remove_settings(&mut command);
    let done = command.output().expect("Python starts");
    assert!(done.status.success(), "docs/LEARN.md:\n{}", String::from_utf8_lossy(&done.stderr));
}

#[test]
fn the_readme_shows_the_model_of_the_tutorial() {
    let [of_readme, of_tutorial] = [README, TUTORIAL].map(|page| page::model(page).trim().to_owned());
    assert_eq!(of_readme, of_tutorial);
}
