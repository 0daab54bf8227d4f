//! `docs/PROBLEMS.md`: every code that the loader can report is on the page, and every example causes just the problem that
//! it stands for.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use afterwrite::table::{Model, ProblemCode};

/// A section of the page.
struct ProblemSection {
    code: String,
    title: String,
    /// Its text, without examples.
    text: String,
    examples: Vec<String>,
}

fn page() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/PROBLEMS.md");
    fs::read_to_string(path).expect("docs/PROBLEMS.md")
}

/// The lines that examples are appended to.
fn base(page: &str) -> &str {
    let (_, begun) = page.split_once("```toml base\n").expect("the lines that examples are appended to");
    begun.split_once("```\n").expect("their end").0
}

fn sections(page: &str) -> Vec<ProblemSection> {
    let sections = page.split("\n### ").skip(1);
    sections.map(section).collect()
}

fn section(written: &str) -> ProblemSection {
    let (heading, body) = written.split_once('\n').expect("a heading and a body");
    let (code, title) = heading.split_once(": ").expect("a code and a title");
    let mut blocks = body.split("```");
    let mut text = blocks.next().expect("some text").to_owned();
    let mut examples = Vec::new();
    while let Some(block) = blocks.next() {
        examples.push(block.strip_prefix("toml\n").expect("an example in TOML").to_owned());
        text.push_str(blocks.next().expect("an end of the example"));
    }
    ProblemSection { code: code.to_owned(), title: title.to_owned(), text, examples }
}

/// An example as a whole model.
fn whole_model(base: &str, example: &str) -> String {
    if example.starts_with("name") { example.to_owned() } else { format!("{base}\n{example}") }
}

#[test]
fn every_code_is_on_the_page_under_its_title() {
    let page = page();
    let on_page: Vec<(String, String)> =
        sections(&page).into_iter().map(|section| (section.code, section.title)).collect();
    let known: Vec<(String, String)> =
        ProblemCode::ALL.iter().map(|code| (code.code().to_owned(), code.title().to_owned())).collect();
    assert_eq!(on_page, known, "in the order of the codes");
}

#[test]
fn every_code_has_a_fix_and_an_example() {
    for ProblemSection { code, text, examples, .. } in sections(&page()) {
        assert!(text.contains("\nFix: "), "{code}");
        assert!(!examples.is_empty(), "{code}");
    }
}

#[test]
fn every_example_causes_its_problem_and_no_other() {
    let page = page();
    let base = base(&page);
    let mut wrong = Vec::new();
    for ProblemSection { code, examples, .. } in sections(&page) {
        for example in examples {
            let report = Model::check(&whole_model(base, &example), &format!("{code}.toml"));
            let codes: BTreeSet<&str> = report.problems.iter().map(|problem| problem.code.code()).collect();
            if codes != BTreeSet::from([&*code]) || report.problems.len() > 1 {
                let found: Vec<String> = report.problems.iter().map(ToString::to_string).collect();
                wrong.push(format!("{code}:\n  {}", found.join("\n  ")));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_lines_that_examples_are_appended_to_are_a_model_without_problems() {
    let page = page();
    assert_eq!(Model::check(base(&page), "base.toml").problems, []);
}

#[test]
fn no_built_in_model_has_a_warning() {
    for name in Model::built_in_names() {
        let source = Model::built_in(name).expect("a built-in model");
        let report = Model::check(source, name);
        let problems: Vec<String> = report.problems.iter().map(ToString::to_string).collect();
        assert_eq!(problems, [""; 0], "{name}");
    }
}
