//! The picture of imports in `docs/ARCHITECTURE.md`: each crate of the product is on one of its lines, and imports crates of lower lines.

use std::collections::BTreeMap;

use super::manifests::packages;
use super::sources::{RuleBreach, SourceFile};

pub(crate) const RULE: &str = "A crate imports against the picture of docs/ARCHITECTURE.md";
pub(crate) const REASON: &str =
    "Data flows one way. A newcomer learns the crates from that picture, so it must be true.";

const PAGE: &str = "docs/ARCHITECTURE.md";
const HEADING: &str = "## Crates\n";
const FOLDERS: [&str; 2] = ["common/", "processors/"];

/// Crates that the picture lacks, or has without their being there, and imports of the same or a higher line.
pub(crate) fn breaches(files: &[SourceFile]) -> Vec<RuleBreach> {
    let pictured = files.iter().find(|file| file.path == PAGE).map(|page| lines_of_crates(page.text));
    let mut pictured = pictured.unwrap_or_default();
    let lines = pictured.clone();
    let line_of = |package: &str| lines.get(package.strip_prefix("afterwrite-")?).copied();
    let mut breaches = Vec::new();
    for package in packages(files) {
        if !FOLDERS.iter().any(|folder| package.folder.starts_with(folder)) {
            continue;
        }
        let Some(line) = line_of(package.name) else {
            breaches.push(RuleBreach::new(package.path, 1, format!("{PAGE} does not picture this crate")));
            continue;
        };
        pictured.remove(package.name.trim_start_matches("afterwrite-"));
        for (dependency, at) in &package.dependencies {
            if line_of(dependency).is_some_and(|other| other <= line) {
                let problem = format!(
                    "`{dependency}` is not on a lower line: move what is needed to a crate below both"
                );
                breaches.push(RuleBreach::new(package.path, *at, problem));
            }
        }
    }
    breaches
        .extend(pictured.keys().map(|name| RuleBreach::new(PAGE, 1, format!("there is no crate `{name}`"))));
    breaches
}

/// The line of each crate in the first drawing below the heading.
fn lines_of_crates(page: &str) -> BTreeMap<&str, usize> {
    let drawing = page.split_once(HEADING).and_then(|(_, rest)| rest.split("```").nth(1));
    let lines = drawing.unwrap_or_default().lines().skip(1).enumerate();
    lines.flat_map(|(number, line)| line.split_whitespace().map(move |name| (name, number))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(picture: &str, dependency: &str) -> Vec<String> {
        let manifest = |name: &str, dependencies: &str| {
            let text = format!("[package]\nname = \"afterwrite-{name}\"\n\n[dependencies]\n{dependencies}");
            SourceFile::new(&format!("common/{name}/Cargo.toml"), &text)
        };
        let page = format!("# A\n\n## Crates\n\n```text\n{picture}```\n");
        let files = [
            SourceFile::new(PAGE, &page),
            manifest("one", &format!("{dependency}.workspace = true\n")),
            manifest("two", "serde.workspace = true\n"),
        ];
        breaches(&files).into_iter().map(|breach| breach.problem).collect()
    }

    #[test]
    fn imports_go_down() {
        assert_eq!(problems("one\ntwo\n", "afterwrite-two"), [""; 0]);
        assert_eq!(problems("two\none\n", "afterwrite-two").len(), 1);
        assert_eq!(problems("one  two\n", "afterwrite-two").len(), 1);
    }

    #[test]
    fn the_picture_has_every_crate_and_no_other() {
        assert_eq!(problems("one\n", "serde"), ["docs/ARCHITECTURE.md does not picture this crate"]);
        assert_eq!(problems("one two three\n", "serde"), ["there is no crate `three`"]);
    }
}
