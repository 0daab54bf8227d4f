//! `docs/PROBLEMS.md`: every code that the loader can report is on the page, and every example causes just the problem that
//! it stands for.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use afterwrite_model::table::{Model, ModelProblem, ProblemCode, ProblemSeverity};

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
fn no_built_in_model_has_a_warning_but_about_keys_and_lookups_that_its_readers_know() {
    for name in Model::built_in_names() {
        let source = Model::built_in(name).expect("a built-in model");
        let report = Model::check(source, name);
        // Escaping would move rollups that exist. The attributes that lookups give are those of places, which do not move.
        let known = [ProblemCode::MergeableGroups, ProblemCode::ChangeableOutput];
        let others = report.problems.iter().filter(|problem| !known.contains(&problem.code));
        let problems: Vec<String> = others.map(ToString::to_string).collect();
        assert_eq!(problems, [""; 0], "{name}");
    }
}

/// The problems of the page's base model with these lines appended.
fn problems(example: &str) -> Vec<ModelProblem> {
    Model::check(&whole_model(base(&page()), example), "model.toml").problems
}

/// The one problem of the page's base model with these lines appended.
fn problem(example: &str) -> ModelProblem {
    let problems = problems(example);
    let [problem] = problems.as_slice() else { panic!("{example}:\n{problems:#?}") };
    problem.clone()
}

const SHELF_ROLLUP: &str = "[rollups.shelf]\nkey = { PK = \"SHELF#{shelf_id}\", SK = \"ROLLUP\" }\n";

#[test]
fn one_missing_brace_in_a_large_model_is_one_problem() {
    let source = Model::built_in(Model::DEFAULT_NAME).expect("a built-in model");
    let at = source.find("[rollups.").and_then(|rollup| Some(rollup + source.get(rollup..)?.find(" }")?));
    let at = at.expect("the key of a rollup");
    let mut broken = source.to_owned();
    broken.replace_range(at..at + 2, "");
    let problems = Model::check(&broken, "model.toml").problems;
    assert_eq!(problems.len(), 1, "{problems:#?}");
    assert_eq!(problems[0].code, ProblemCode::UnclosedDelimiter);
    assert_eq!(problems[0].span.line, 1 + broken[..at].matches('\n').count());
}

#[test]
fn one_pair_of_overlapping_rollups_is_one_problem_whatever_they_hold() {
    let measures: Vec<String> = (0..45).map(|number| format!("m{number} = \"count\"")).collect();
    let example = format!(
        "{SHELF_ROLLUP}[rollups.any]\nkey = {{ PK = \"S{{shelf_id}}\", SK = \"ROLLUP\" }}\n[[aggregates]]\n\
         name = \"books\"\nof = \"book\"\ninto = [\"shelf\", \"any\"]\n[aggregates.measures]\n{}\n",
        measures.join("\n")
    );
    let problem = problem(&example);
    assert_eq!((problem.code, problem.related.len()), (ProblemCode::OverlappingRollups, 1));
    assert!(problem.message.contains("45 measures of the same name"), "{problem}");
}

#[test]
fn a_name_that_several_aggregates_lack_for_one_rollup_is_one_problem() {
    let mut example = "[rollups.owner]\nkey = { PK = \"OWNER#{ownr_id}\", SK = \"ROLLUP\" }\n".to_owned();
    for number in 0..6 {
        let of = if number % 2 == 0 { "shelf" } else { "book" };
        example.push_str(&format!(
            "[[aggregates]]\nname = \"a{number}\"\nof = \"{of}\"\ninto = \"owner\"\nmeasures = {{ m{number} = \"count\" }}\n"
        ));
    }
    let problem = problem(&example);
    assert_eq!(problem.code, ProblemCode::UndefinedName);
    assert!(problem.related.iter().any(|related| related.message == "the rollup"), "{problem}");
    assert!(problem.to_string().ends_with("also here, and in 2 more places)"), "{problem}");
}

#[test]
fn a_near_word_is_suggested_wherever_a_word_is_not_known() {
    let aggregate = |measure: &str| {
        format!(
            "{SHELF_ROLLUP}[[aggregates]]\nname = \"a\"\nof = \"book\"\ninto = \"shelf\"\nmeasures = {{ m = {measure} }}\n"
        )
    };
    let cache = |rest: &str| format!("[[caches]]\nof = \"book\"\n{rest}\n");
    let dataset = |column: &str| {
        format!(
            "[datasets.books]\nof = \"book\"\npartition = \"bought_at:day\"\ncolumns = {{ price = \"{column}\" }}\n"
        )
    };
    let entity = |rest: &str| format!("[entities.a]\nkey = {{ pk = \"A#{{a}}\", sk = \"A\" }}\n{rest}\n");
    for (example, meant) in [
        (
            format!(
                "{SHELF_ROLLUP}[[aggregate]]\nname = \"a\"\nof = \"book\"\ninto = \"shelf\"\nmeasures = {{ m = \"count\" }}\n"
            ),
            "[[aggregates]]",
        ),
        (
            "[rollup.shelf]\nkey = { PK = \"SHELF#{shelf_id}\", SK = \"ROLLUP\" }\n".to_owned(),
            "[rollups.<name>]",
        ),
        (aggregate("{ summ = \"price\" }"), "sum"),
        (aggregate("\"cuont\""), "count"),
        (cache("keys = [\"book:{book_id}\"]\nremedy = \"delet\""), "delete"),
        (cache("keys = [\"book:{bought_at:dya}\"]"), "day"),
        (cache("keys = [\"book:{book_id}\"]\nwhen.price = [{ numerci = [\">\", 0] }]"), "numeric"),
        (dataset("strng"), "string"),
        (dataset("int"), "int64"),
        (entity("attributes = { x = \"string\" }"), "S"),
        (entity("attributes = { x = \"bool\" }"), "BOOL"),
        (entity("on_expiry = \"substract\""), "subtract"),
    ] {
        let problem = problem(&example);
        assert!(problem.message.contains(&format!("did you mean `{meant}`?")), "{example}:\n{problem}");
    }
}

#[test]
fn a_section_in_the_form_of_another_is_one_problem() {
    for (example, form) in [
        ("[aggregate]\nname = \"a\"\n", "did you mean `[[aggregates]]`?"),
        ("[aggregates]\nname = \"a\"\n", "must be a list of tables: `[[aggregates]]`"),
        ("[[rollups]]\nkey = { PK = \"A\", SK = \"B\" }\n", "must be tables with names: `[rollups.<name>]`"),
    ] {
        let problem = problem(example);
        assert!(problem.message.contains(form), "{example}:\n{problem}");
    }
}

#[test]
fn a_suggestion_ends_the_message() {
    let problem = problem(
        "[datasets.books]\nof = \"book\"\npartition = \"bougt_at:day\"\ncolumns = { bought_at = \"timestamp\" }\n",
    );
    assert_eq!(problem.code, ProblemCode::UndeclaredPartition);
    assert!(problem.message.ends_with("; did you mean `bought_at`?"), "{problem}");
}

#[test]
fn a_wrong_key_of_a_table_is_one_problem_in_a_large_model() {
    let source = Model::built_in(Model::DEFAULT_NAME).expect("a built-in model");
    let broken = source.replacen("key = [\"PK\", \"SK\"]", "key = [\"PK\"]", 1);
    assert_ne!(broken, source);
    let problems = Model::check(&broken, "model.toml").problems;
    assert_eq!(problems.len(), 1, "{problems:#?}");
    assert_eq!(problems[0].code, ProblemCode::KeyMismatch);
}

#[test]
fn one_wrong_header_in_a_large_model_is_one_problem_at_the_header() {
    let source = Model::built_in(Model::DEFAULT_NAME).expect("a built-in model");
    for (right, wrong) in [
        ("[[aggregates]]", "[[agregates]]"),
        ("[[aggregates]]", "[aggregates]"),
        ("[aggregates.measures]", "[agregates.measures]"),
        ("[[caches]]", "[caches]"),
        ("[[caches]]", "[[cahces]]"),
        ("[rollups.", "[rolups."),
        ("[entities.", "[entites."),
    ] {
        let lines = source.lines().enumerate().filter(|(_, line)| line.starts_with(right));
        for (number, line) in lines {
            let mut lines: Vec<String> = source.lines().map(str::to_owned).collect();
            lines[number] = line.replacen(right, wrong, 1);
            let problems = Model::check(&lines.join("\n"), "model.toml").problems;
            assert_eq!(problems.len(), 1, "line {number}: {wrong}: {problems:#?}");
            assert_eq!(problems[0].span.line, number + 1, "{wrong}: {problems:#?}");
            let header = right.trim_end_matches('.');
            assert!(problems[0].message.contains(header), "{wrong}: {problems:#?}");
        }
    }
}

#[test]
fn a_conflict_has_two_places() {
    let conflicts = [
        ProblemCode::DuplicateKey,
        ProblemCode::DuplicateName,
        ProblemCode::OverlappingEntities,
        ProblemCode::OverlappingRollups,
        ProblemCode::EntityOverlapsRollup,
        ProblemCode::MeasureNameTaken,
        ProblemCode::MirrorFeedback,
        ProblemCode::ExposedSecret,
    ];
    let page = page();
    for section in sections(&page) {
        if conflicts.iter().any(|code| code.code() == section.code) {
            let problem = problem(&section.examples[0]);
            assert_eq!(problem.related.len(), 1, "{problem}");
            assert_ne!(problem.related[0].span, problem.span, "{problem}");
        }
    }
}

#[test]
fn warnings_neither_keep_a_model_from_loading_nor_stand_next_to_errors() {
    let unused = whole_model(base(&page()), SHELF_ROLLUP);
    let report = Model::check(&unused, "model.toml");
    assert!(report.model.is_some() && Model::parse(&unused, "model.toml").is_ok());
    assert_eq!(report.problems[0].severity(), ProblemSeverity::Warning);
    let both = problems(&format!("{SHELF_ROLLUP}[rollups.other]\nkey = {{ PK = \"OTHER\" }}\n"));
    assert!(both.iter().all(|problem| problem.severity() == ProblemSeverity::Error), "{both:#?}");
}
