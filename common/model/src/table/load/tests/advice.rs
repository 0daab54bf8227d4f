//! Warnings whose advice an operator follows: it names the command, or the key, that mends the finding.

use crate::table::{Model, ProblemCode};

/// The messages of a model with this code.
fn messages(source: &str, code: ProblemCode) -> Vec<String> {
    let report = Model::check(source, "advice.toml");
    let found = report.problems.into_iter().filter(|problem| problem.code == code);
    found.map(|problem| problem.message).collect()
}

#[test]
fn a_changeable_output_of_a_lookup_names_the_command_that_counts_its_new_values() {
    let source = r##"
        name = "clinic"
        generation = 1
        tables.t.key = ["PK", "SK"]
        [entities.clinic]
        key = { PK = "CLINIC#{clinic}", SK = "CLINIC" }
        attributes = { tz = "S" }
        [entities.visit]
        key = { PK = "VISIT#{visit}", SK = "VISIT" }
        attributes = { clinic = "S" }
        [lookups.zone]
        of = "clinic"
        key = { PK = "CLINIC#{clinic}", SK = "CLINIC" }
        gives = ["tz"]
        [rollups.zone]
        key = { PK = "ZONE#{tz}", SK = "TOTAL" }
        [[aggregates]]
        name = "visits"
        of = "visit"
        lookup = "zone"
        into = "zone"
        measures.visits = "count"
    "##;
    let messages = messages(source, ProblemCode::ChangeableOutput);
    let [message] = messages.as_slice() else { panic!("{messages:?}") };
    assert!(
        message.contains("`tz` is not in the key") && message.contains("`afterwrite backfill --reattribute`"),
        "{message}"
    );
}

/// A model with a rollup of this key.
fn titles(rollup_keys: &str, key: &str) -> String {
    format!(
        r##"
        name = "library"
        generation = 1
        rollup_keys = "{rollup_keys}"
        tables.t.key = ["PK", "SK"]
        [entities.book]
        key = {{ PK = "BOOK#{{book}}", SK = "BOOK" }}
        attributes = {{ title = "S", shelf = "S" }}
        [rollups.title]
        key = {{ PK = "{key}", SK = "TOTAL" }}
        [[aggregates]]
        name = "books"
        of = "book"
        into = "title"
        measures.books = "count"
        "##
    )
}

#[test]
fn the_advice_for_groups_that_may_merge_ends_the_warning() {
    let advice = |key: &str| messages(&titles("plain", key), ProblemCode::MergeableGroups).concat();
    let divided = advice("TITLE#{title}#{shelf}");
    assert!(divided.contains("set `rollup_keys = \"escaped\"` in a new generation, or put"), "{divided}");
    let undivided = advice("TITLE#{title}-{shelf}");
    assert!(undivided.contains("with `#` between these values, `rollup_keys = \"escaped\"`"), "{undivided}");
    // Without the `#` the first half of the advice is an error; with it, nothing is left to say.
    let codes = |key: &str| -> Vec<ProblemCode> {
        Model::check(&titles("escaped", key), "advice.toml")
            .problems
            .iter()
            .map(|problem| problem.code)
            .collect()
    };
    assert_eq!(codes("TITLE#{title}-{shelf}"), [ProblemCode::InseparableValues]);
    assert_eq!(codes("TITLE#{title}#{shelf}"), []);
}
