//! The README stays short, `docs/README.md` lists every page, and `docs/decisions/README.md` every decision.

use std::fs;
use std::path::Path;

const README: &str = include_str!("../../README.md");
const MOST_WORDS: usize = 1000;

/// The names of a folder's pages, except its contents.
fn pages(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).expect("a folder");
    let names = entries.filter_map(|entry| entry.expect("an entry").file_name().into_string().ok());
    names.filter(|name| name.ends_with(".md") && name != "README.md").collect()
}

#[test]
fn the_readme_is_short() {
    let words = README.split_whitespace().count();
    assert!(
        words <= MOST_WORDS,
        "README.md has {words} words: move what one reader needs to that reader's page"
    );
}

#[test]
fn every_page_is_in_the_contents_of_its_folder() {
    for folder in ["docs", "docs/decisions"] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(folder);
        let contents = fs::read_to_string(path.join("README.md")).expect("the contents");
        let pages = pages(&path);
        assert!(pages.len() > 10, "{folder} has {} pages", pages.len());
        for page in pages {
            assert!(contents.contains(&format!("]({page})")), "{folder}/README.md does not list {page}");
        }
    }
}
