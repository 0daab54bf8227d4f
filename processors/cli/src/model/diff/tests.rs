use super::*;

#[test]
fn the_total_cost_is_shown_if_the_number_of_items_is_known() {
    let unit =
        ReconcileCost { entity: "book".to_owned(), write_units_an_item: 8, items: None, write_units: None };
    let mut found = Differences { reconcile: vec![unit], ..Differences::default() };
    found.add("aggregate books".to_owned(), "added", "x");
    // An entity whose items need not be reconciled changes nothing.
    found.count(&[("shelf".to_owned(), 1), ("book".to_owned(), 1_000)]);
    assert_eq!((found.reconcile[0].items, found.reconcile[0].write_units), (Some(1_000), Some(8_000)));
    assert!(found.to_string().contains("≤ 8000"), "{found}");
}

#[test]
fn a_count_has_a_name_and_a_number() {
    assert_eq!(count("book=5"), Ok(("book".to_owned(), 5)));
    assert!(count("book").is_err() && count("book=many").is_err());
}

#[test]
fn every_built_in_model_equals_itself_and_differs_from_the_others() {
    let models: Vec<Model> = Model::built_in_names().map(|name| Model::load(name).unwrap()).collect();
    for old in &models {
        for new in &models {
            let differences = Differences::between(old, new);
            assert_eq!(differences.changes.is_empty(), old.name == new.name, "{} {}", old.name, new.name);
        }
    }
}

/// A model of books, counted by one measure into a rollup with so many shards.
fn library(generation: u32, shards: u32, measure: &str) -> Model {
    let source = format!(
        r##"
        name = "library"
        generation = {generation}
        tables.library.key = ["pk"]
        [entities.book]
        key = {{ pk = "BOOK#{{book_id}}" }}
        attributes = {{ author = "S", pages = "N" }}
        [rollups.all]
        key = {{ PK = "ALL", SK = "ROLLUP" }}
        shards = {shards}
        [[aggregates]]
        name = "books"
        of = "book"
        into = "all"
        measures.books = {measure}
        "##
    );
    Model::parse(&source, "library.toml").unwrap_or_else(|errors| panic!("{errors}"))
}

const COUNT: &str = "\"count\"";

/// The decision that a rollup of so many shards needs before it gets another number of them.
fn resharded(before: u32, after: u32) -> Differences {
    Differences::between(&library(1, before, COUNT), &library(2, after, COUNT))
}

#[test]
fn a_table_leaves_the_model_after_its_entries_are_subtracted() {
    let distinct = |generation| library(generation, 1, "{ distinct = \"author\" }");
    let found = Differences::between(&distinct(1), &library(2, 1, COUNT));
    let named = found.problems.iter().filter(|problem| problem.contains("backfill --drop"));
    assert_eq!(named.count(), 1, "{:?}", found.problems);
    assert!(found.problems.iter().all(|problem| !problem.contains("@state")), "{:?}", found.problems);
    let back = Differences::between(&library(1, 1, COUNT), &distinct(2));
    assert!(back.problems.iter().all(|problem| !problem.contains("--drop")), "{:?}", back.problems);
}

#[test]
fn an_attribute_of_a_rollup_does_not_get_a_measure_of_another_kind() {
    let pages = |function: &str| format!("{{ {function} = \"pages\" }}");
    let latest = "{ latest = \"author\", by = \"pages\" }".to_owned();
    let seen = format!("{COUNT}\nmeasures.books_seen = {{ max = \"author\" }}");
    let distinct = "{ distinct = \"author\" }".to_owned();
    for (before, now, is_taken) in [
        (pages("max"), pages("sum"), true),
        (pages("sum"), pages("max"), true),
        (COUNT.to_owned(), pages("min"), true),
        (pages("max"), distinct.clone(), true),
        (seen, latest.clone(), true),
        (latest.clone(), latest, false),
        (pages("max"), pages("max"), false),
        (pages("sum"), COUNT.to_owned(), false),
        (COUNT.to_owned(), distinct, false),
    ] {
        let found = Differences::between(&library(1, 1, &before), &library(2, 1, &now));
        let named = found.problems.iter().any(|problem| problem.contains("Give it another name"));
        assert_eq!(named, is_taken, "{before} to {now}: {found}");
    }
}

#[test]
fn a_rollup_is_not_sharded_in_place() {
    for (before, after, moves) in [(1, 4, true), (4, 1, true), (4, 3, false)] {
        let differences = resharded(before, after);
        let [problem] = differences.problems.as_slice() else { panic!("{differences}") };
        let step = format!("declare a new rollup with shards = {after} under another key");
        assert!(problem.contains("rollup all") && problem.contains(&step), "{problem}");
        assert_eq!(!differences.reconcile.is_empty(), moves, "{differences}");
    }
}

#[test]
fn shards_can_grow() {
    let differences = resharded(2, 4);
    assert!(differences.problems.is_empty() && differences.reconcile.is_empty(), "{differences}");
    assert_eq!(differences.changes.len(), 1, "{differences}");
}

#[test]
fn a_time_that_is_read_in_another_way_counts_items_again() {
    let model = |generation: u32, times: &str| {
        let source = format!(
            r##"
            name = "library"
            generation = {generation}
            tables.library.key = ["pk"]
            [entities.book]
            key = {{ pk = "BOOK#{{book_id}}" }}
            attributes = {{ bought_at = "N" }}
            {times}
            [rollups.day]
            key = {{ PK = "DAY#{{bought_at:day}}", SK = "ROLLUP" }}
            [[aggregates]]
            name = "books"
            of = "book"
            into = "day"
            measures.books = "count"
            "##
        );
        Model::parse(&source, "library.toml").unwrap_or_else(|errors| panic!("{errors}"))
    };
    let (detected, seconds) = (model(1, ""), "times.bought_at = \"seconds\"");
    for (old, new, change) in [
        (&detected, model(2, seconds), "time bought_at added: seconds"),
        (&model(1, seconds), model(2, "times.bought_at = \"milliseconds\""), "time bought_at"),
        (&model(1, seconds), model(2, ""), "time bought_at removed"),
    ] {
        let differences = Differences::between(old, &new);
        assert!(differences.changes.iter().any(|found| found.change.starts_with(change)), "{differences}");
        assert_eq!(differences.reconcile.len(), 1, "{differences}");
    }
}

/// A model of orders by customer, with this time to live of its rollup and these outputs of its lookup.
fn orders(generation: u32, expires: &str, gives: &str) -> Model {
    let source = format!(
        r##"
        name = "shop"
        generation = {generation}
        tables.shop.key = ["PK", "SK"]
        [entities.customer]
        key = {{ PK = "CUSTOMER#{{customer_id}}", SK = "CUSTOMER" }}
        attributes = {{ country = "S", city = "S" }}
        [entities.order]
        key = {{ PK = "ORDER#{{order_id}}", SK = "ORDER" }}
        attributes = {{ customer_id = "S", created_at = "S" }}
        [lookups.place]
        of = "customer"
        key = {{ PK = "CUSTOMER#{{customer_id}}", SK = "CUSTOMER" }}
        gives = [{gives}]
        [rollups.country]
        key = {{ PK = "COUNTRY#{{country}}", SK = "DAY#{{created_at:day}}" }}
        {expires}
        [[aggregates]]
        name = "orders"
        of = "order"
        lookup = "place"
        into = "country"
        measures = {{ orders = "count" }}
        "##
    );
    Model::parse(&source, "shop.toml").unwrap_or_else(|errors| panic!("{errors}"))
}

#[test]
fn another_time_to_live_of_a_rollup_and_further_outputs_of_a_lookup_are_decided_before_deploying() {
    let before = orders(1, "expires = { after = \"30 days\", of = \"created_at\" }", "\"country\"");
    for (expires, gives, problem) in [
        (
            "expires = { after = \"400 days\", of = \"created_at\" }",
            "\"country\"",
            Some("rollup country: what is counted already"),
        ),
        ("", "\"country\"", Some("rollup country: what is counted already")),
        (
            "expires = { after = \"30 days\", of = \"created_at\" }",
            "\"country\", \"city\"",
            Some("lookup place: remembered results lack city"),
        ),
        ("expires = { after = \"30 days\", of = \"created_at\" }", "\"country\"", None),
    ] {
        let differences = Differences::between(&before, &orders(2, expires, gives));
        let problems: Vec<&str> = differences.problems.iter().map(String::as_str).collect();
        assert_eq!(problems.len(), usize::from(problem.is_some()), "{problems:?}");
        assert!(
            problem.is_none_or(|text| problems.iter().all(|found| found.starts_with(text))),
            "{problems:?}"
        );
    }
}

/// A model of orders with these event rules.
fn with_events(generation: u32, rules: &str) -> Model {
    let source = format!(
        r##"
        name = "shop"
        generation = {generation}
        tables.shop.key = ["PK", "SK"]
        entities.order.key = {{ PK = "CUSTOMER#{{customer}}", SK = "ORDER#{{order}}" }}
        entities.order.attributes = {{ status = "S" }}
        rollups.customer.key = {{ PK = "ORDERS#{{customer}}", SK = "ROLLUP" }}
        [[aggregates]]
        name = "orders"
        of = "order"
        into = "customer"
        measures.orders = "count"
        {rules}
        "##
    );
    Model::parse(&source, "shop.toml").unwrap_or_else(|errors| panic!("{errors}"))
}

#[test]
fn events_begin_with_the_changes_after_the_deployment() {
    let rule = |settings: &str| format!("[[events]]\nname = \"paid\"\nof = \"order\"\n{settings}");
    let differences = |before: &str, after: &str| {
        let found = Differences::between(&with_events(1, before), &with_events(2, after));
        assert!(found.reconcile.is_empty() && found.problems.is_empty(), "{found}");
        found
            .changes
            .into_iter()
            .map(|change| format!("{}: {}", change.part, change.change))
            .collect::<Vec<_>>()
    };
    let paid = rule("when.status = [\"PAID\"]\ndetail = [\"order\"]\n");
    assert_eq!(differences("", &paid), ["event paid: added"]);
    assert_eq!(differences(&paid, ""), ["event paid: removed"]);
    let left = rule("when.status = [\"SENT\"]\non = \"leave\"\nto = \"audit\"\n");
    assert_eq!(
        differences(&paid, &left),
        [
            "event paid: its condition was status = [\"PAID\"], is status = [\"SENT\"]",
            "event paid: on was enter, is leave",
            "event paid: its target was the default target, is audit",
            "event paid: detail was order, is nothing",
        ]
    );
    let added = Differences::between(
        &with_events(1, ""),
        &with_events(2, "[[events]]\nname = \"known\"\nof = \"customer\"\n"),
    );
    assert!(
        added.to_string().contains("nothing is sent for items that meet the condition already"),
        "{added}"
    );
    assert!(
        added.reconcile.is_empty() && added.problems.is_empty(),
        "an event contributes to nothing: {added}"
    );
}

/// A model in which attempts are counted by a country that another item has under this definition.
fn by_country(generation: u32, land: &str, lookup: &str) -> Model {
    let source = format!(
        r##"
        name = "exams"
        generation = {generation}
        tables.exams.key = ["pk"]
        [entities.attempt]
        key = {{ pk = "ATTEMPT#{{attempt}}" }}
        attributes = {{ candidate = "S" }}
        [entities.candidate]
        key = {{ pk = "CANDIDATE#{{candidate}}" }}
        attributes = {{ home = "S", moved_to = "S", moved_at = "N", born_at = "N" }}
        {land}
        [lookups.{lookup}]
        of = "candidate"
        key = {{ pk = "CANDIDATE#{{candidate}}" }}
        gives = ["land"]
        [rollups.land]
        key = {{ PK = "LAND#{{land}}", SK = "ROLLUP" }}
        [[aggregates]]
        name = "attempts"
        of = "attempt"
        lookup = "{lookup}"
        into = "land"
        measures.attempts = "count"
        "##
    );
    Model::parse(&source, "exams.toml").unwrap_or_else(|errors| panic!("{errors}"))
}

#[test]
fn an_output_of_a_lookup_that_is_derived_in_another_way_needs_a_decision() {
    let home = "derive.land = { first = [\"home\", \"moved_to\"] }";
    let moved = "derive.land = { first = [\"moved_to\", \"home\"] }";
    let part = |key: &str| format!("derive.land = {{ part = [\"home\", \"{key}\"] }}");
    let waited = |unit: &str| {
        format!(
            "derive.land = {{ duration = [\"born_at\", \"moved_at\"] }}\ntimes = {{ moved_at = \"{unit}\" }}"
        )
    };
    for (before, after) in [
        (home.to_owned(), moved.to_owned()),
        (part("C#{land}"), part("C#{land}#{_}")),
        (waited("seconds"), waited("milliseconds")),
        (home.to_owned(), part("C#{land}")),
    ] {
        let [old, new] =
            [(1, &before), (2, &after)].map(|(generation, land)| by_country(generation, land, "c"));
        let problems = Differences::between(&old, &new).problems;
        assert!(problems.iter().any(|problem| problem.contains("--reattribute")), "{after}: {problems:?}");
        let renamed = Differences::between(&old, &by_country(2, &after, "d")).problems;
        assert!(!renamed.iter().any(|problem| problem.contains("--reattribute")), "{after}: {renamed:?}");
    }
    let unchanged = Differences::between(&by_country(1, home, "c"), &by_country(2, home, "c"));
    assert_eq!(unchanged.problems, Vec::<String>::new());
}

const TABLES: &str = r##"
name = "library"
generation = 1
[tables.library]
key = ["pk", "sk"]
types = { sk = "N" }
[tables.library.indexes.by_author]
key = ["author"]
[entities.book]
key = { pk = "BOOK#{book_id}", sk = "{copy}" }
attributes = { author = "S", pages = "N", bought_at = "S" }
[rollups.all]
key = { PK = "ALL", SK = "ROLLUP" }
[[aggregates]]
name = "books"
of = "book"
into = "all"
measures.pages = { sum = "pages" }
[datasets.books]
of = "book"
partition = "bought_at:day"
columns = { pages = "int64" }
[[events]]
name = "bought"
of = "book"
"##;

/// The text that is replaced, its replacement, the part and the change that are shown, and whether items are counted again.
const TABLE_CHANGES: [(&str, &str, &str, &str, bool); 7] = [
    ("bought_at = \"S\"", "bought_at = \"N\"", "entity book", "the type of bought_at was S, is N", true),
    ("types = { sk = \"N\" }", "", "table library", "its key was pk, sk (N), is pk, sk", true),
    (
        "sk = \"N\" }",
        "sk = \"N\" }\nseparator = \"#\"",
        "table library",
        "its separator was absent, is #",
        true,
    ),
    (
        "[\"author\"]",
        "[\"author\", \"bought_at\"]",
        "index library.by_author",
        "its key was author (S), is author (S), bought_at (S)",
        false,
    ),
    (
        "\"int64\"",
        "{ type = \"int64\", required = true }",
        "dataset books",
        "required was [], is [pages]",
        false,
    ),
    ("name = \"library\"", "name = \"lending\"", "model", "its name was library, is lending", false),
    (
        "[entities.book]",
        "[tables.other]\nkey = [\"id\"]\n[entities.book]\ntable = \"library\"",
        "table other",
        "added",
        false,
    ),
];

#[test]
fn a_table_and_the_types_of_attributes_decide_what_is_counted() {
    let parsed =
        |source: &str| Model::parse(source, "library.toml").unwrap_or_else(|errors| panic!("{errors}"));
    let old = parsed(TABLES);
    for (from, to, part, change, is_counted_again) in TABLE_CHANGES {
        let found = Differences::between(&old, &parsed(&TABLES.replacen(from, to, 1)));
        let changes: Vec<(&str, &str)> =
            found.changes.iter().map(|found| (&*found.part, &*found.change)).collect();
        assert_eq!(changes, [(part, change)]);
        assert_eq!(!found.reconcile.is_empty(), is_counted_again, "{change}");
    }
}
