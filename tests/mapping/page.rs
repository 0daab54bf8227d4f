//! `docs/ESM.md` names each test of these rules, and no test that does not exist.

use std::collections::BTreeSet;

const SOURCES: [(&str, &str); 9] = [
    ("batches", include_str!("batches.rs")),
    ("destination", include_str!("destination.rs")),
    ("filters", include_str!("filters.rs")),
    ("lanes", include_str!("lanes.rs")),
    ("response", include_str!("response.rs")),
    ("restarts", include_str!("restarts.rs")),
    ("retries", include_str!("retries.rs")),
    ("settings", include_str!("settings.rs")),
    ("shards", include_str!("shards.rs")),
];

#[test]
fn the_page_and_the_tests_agree() {
    let page = include_str!("../../docs/ESM.md");
    let mut tests = BTreeSet::new();
    for (module, source) in SOURCES {
        let mut lines = source.lines();
        while let Some(line) = lines.next() {
            if line.starts_with("#[test]") || line.starts_with("#[tokio::test") {
                let function = lines.next().unwrap().trim_start_matches("async ").trim_start_matches("fn ");
                tests.insert(format!("{module}::{}", function.split('(').next().unwrap()));
            }
        }
    }
    let named: BTreeSet<String> = page
        .split('`')
        .skip(1)
        .step_by(2)
        .filter(|span| SOURCES.iter().any(|(module, _)| span.starts_with(&format!("{module}::"))))
        .map(str::to_owned)
        .collect();
    assert!(tests.len() > 50, "{}", tests.len());
    assert_eq!(named.difference(&tests).collect::<Vec<_>>(), [""; 0], "tests that do not exist");
    assert_eq!(tests.difference(&named).collect::<Vec<_>>(), [""; 0], "tests that the page lacks");
}
