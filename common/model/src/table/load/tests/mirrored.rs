//! Mirrored attributes: what an item contributes cannot depend on them, and caches and datasets can.

use crate::table::{Model, ProblemCode};

/// A model whose books show a mirrored attribute, with these lines behind it.
fn source(derived: &str, rest: &str) -> String {
    format!(
        r##"
        name = "library"
        generation = 1
        tables.t.key = ["PK", "SK"]
        [entities.book]
        key = {{ PK = "SHELF#{{shelf}}", SK = "BOOK#{{book}}" }}
        attributes = {{ loans = "N", copies = "N" }}
        {derived}
        [entities.loan]
        key = {{ PK = "SHELF#{{shelf}}", SK = "LOAN#{{book}}#{{loan}}" }}
        [rollups.book]
        key = {{ PK = "SHELF#{{shelf}}", SK = "ROLLUP#{{book}}" }}
        [[aggregates]]
        name = "loans"
        of = "loan"
        into = "book"
        measures.loans = "count"
        [[mirrors]]
        onto = "book"
        from = "book"
        attributes.loans = "loans"
        {rest}
        "##
    )
}

const LEFT: &str = "derive.left = { minus = [\"copies\", \"loans\"] }";

fn codes(derived: &str, rest: &str) -> Vec<ProblemCode> {
    let report = Model::check(&source(derived, rest), "library.toml");
    report.problems.iter().map(|problem| problem.code).collect()
}

#[test]
fn caches_and_datasets_read_mirrored_attributes() {
    for rest in [
        "[[caches]]\nof = \"book\"\nkeys = \"book:{book}\"\nwhen.left = [{ numeric = [\"<=\", 0] }]",
        "[[caches]]\nof = \"book\"\nkeys = \"book:{book}:{loans}:{left}\"\ndepends_on = \"loans\"",
        "[datasets.books]\nof = \"book\"\npartition = \"copies:day\"\nwhen.left = [0]\ncolumns = { loans = \"int64\", left = \"int64\" }",
    ] {
        assert_eq!(codes(LEFT, rest), [], "{rest}");
    }
}

#[test]
fn contributions_do_not_read_them() {
    let aggregate = |settings: &str| {
        format!(
            "[rollups.shelf]\nkey = {{ PK = \"SHELF#{{shelf}}\", SK = \"TOTAL\" }}\n[[aggregates]]\nname = \"books\"\nof = \"book\"\ninto = \"shelf\"\n{settings}"
        )
    };
    for (derived, rest) in [
        (LEFT, aggregate("measures.left = { sum = \"left\" }")),
        (LEFT, aggregate("when.left = [0]\nmeasures.books = \"count\"")),
        ("", aggregate("measures.loans_of_all = { sum = \"loans\" }")),
        ("when.loans = [0]", aggregate("measures.books = \"count\"")),
    ] {
        assert_eq!(codes(derived, &rest), [ProblemCode::MirrorFeedback], "{derived} {rest}");
    }
}
