//! Indexes whose keys have several attributes.

use crate::table::{Model, ProblemCode};

fn source(declared: &str, key: &str) -> String {
    format!(
        r##"
        name = "test"
        generation = 1
        tables.t.key = ["pk"]
        {declared}
        [entities.city]
        key = {{ pk = "CITY#{{city}}" }}
        attributes = {{ a = "S", b = "S", c = "S", d = "S" }}
        [entities.order]
        key = {{ pk = "ORDER#{{order}}" }}
        attributes = {{ a = "S", b = "S", c = "S", d = "S" }}
        [lookups.city]
        of = "city"
        index = "ByPlace"
        key = {{ {key} }}
        gives = "city"
        [rollups.city]
        key = {{ PK = "CITY#{{city}}", SK = "TOTAL" }}
        [[aggregates]]
        name = "orders"
        of = "order"
        lookup = "city"
        into = "city"
        measures.orders = "count"
        "##
    )
}

const DECLARED: &str = "tables.t.indexes.ByPlace.key = [[\"a\", \"b\"], [\"c\", \"d\"]]";

#[test]
fn a_lookup_states_the_partition_key_and_the_sort_key_from_the_left() {
    let parts = ["a = \"{a}\"", "b = \"B#{b}\"", "c = \"{c}\"", "d = \"{d}\""];
    for length in 2..=4 {
        let text = source(DECLARED, &parts[..length].join(", "));
        let model = Model::parse(&text, "t.toml").unwrap_or_else(|errors| panic!("{errors}"));
        let names: Vec<&str> = model.lookups[0].key.iter().map(|(name, _)| &**name).collect();
        assert_eq!(names, &["a", "b", "c", "d"][..length]);
        assert_eq!(model.tables[0].indexes[0].key_text(), "[a (S), b (S)], [c (S), d (S)]");
    }
}

#[test]
fn other_keys_are_refused() {
    let lookup = "a = \"{a}\", b = \"{b}\", c = \"{c}\"";
    for (declared, key, problem) in [
        (DECLARED, "a = \"{a}\"", "declared on [a (S), b (S)], [c (S), d (S)]"),
        (DECLARED, "a = \"{a}\", b = \"{b}\", d = \"{d}\"", "declared on [a (S), b (S)], [c (S), d (S)]"),
        ("", lookup, "is declared by its table: `[tables.t.indexes.ByPlace]`"),
        (
            "tables.t.indexes.ByPlace.key = [[\"a\", \"b\", \"c\", \"d\", \"e\"]]",
            lookup,
            "a list of two to four attributes",
        ),
        ("tables.t.indexes.ByPlace.key = [\"a\", \"b\", \"c\"]", lookup, "a list of two to four attributes"),
        ("tables.t.indexes.ByPlace.key = [[\"a\", \"b\"], \"a\"]", lookup, "names an attribute twice"),
        ("tables.t.indexes.ByPlace.key = [[]]", lookup, "a list of two to four attributes"),
    ] {
        let report = Model::check(&source(declared, key), "t.toml");
        let found = report.problems.iter().find(|found| found.code == ProblemCode::KeyMismatch);
        assert!(
            found.is_some_and(|found| found.message.contains(problem)),
            "{declared} {key}: {:?}",
            report.problems
        );
    }
}
