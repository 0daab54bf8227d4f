//! Models that load as they should, and for every mistake the message that it gets.

use std::fmt::Write as _;

use super::*;
use crate::table::{Format, MeasureKind, Piece, Term};

/// A sound model, small enough to be read whole.
const LIBRARY: &str = include_str!("golden/library.toml");

/// Changes to it (`-` this text, `+` that instead) and the problems that follow, a paragraph each.
const PROBLEMS: &str = include_str!("golden/problems.txt");

fn load(source: &str) -> Model {
    Model::parse(source, "library.toml").unwrap_or_else(|errors| panic!("{errors}"))
}

fn problems(source: &str) -> String {
    Model::parse(source, "library.toml").map_or_else(|errors| errors.to_string(), |_| "no problem".to_owned())
}

/// Applies the `-` and `+` lines of a case, in pairs.
fn changed(lines: &[&str]) -> String {
    let mut source = LIBRARY.to_owned();
    for change in lines.chunk_by(|before, after| before.starts_with('-') || after.starts_with('+')) {
        let side = |sign: &str| {
            let lines: Vec<&str> = change.iter().filter_map(|line| line.strip_prefix(sign)).collect();
            lines.join("\n")
        };
        let (before, after) = (side("- "), side("+ "));
        assert!(source.contains(&before), "the library has no {before}");
        source = source.replacen(&before, &after, 1);
    }
    source
}

#[test]
fn every_mistake_gets_its_message() {
    load(LIBRARY);
    let mut differences = String::new();
    let mut count = 0;
    for case in PROBLEMS.split("\n\n").map(str::trim_end).filter(|case| !case.starts_with("# ")) {
        let lines: Vec<&str> = case.lines().collect();
        let changes =
            lines.iter().take_while(|line| line.starts_with("- ") || line.starts_with("+ ")).count();
        let expected: Vec<String> =
            lines[changes..].iter().map(|line| format!("library.toml:{line}")).collect();
        assert!(!expected.is_empty(), "{case}");
        let found = problems(&changed(&lines[..changes]));
        if found != expected.join("\n") {
            writeln!(differences, "{}\n{found}\n", lines[..changes].join("\n")).unwrap();
        }
        count += 1;
    }
    assert!(differences.is_empty(), "these cases give other messages:\n\n{differences}");
    assert!(count > 100, "only {count} cases were found");
}

#[test]
fn every_built_in_model_loads() {
    assert!(Model::built_in_names().any(|name| name == Model::DEFAULT_NAME));
    for name in Model::built_in_names() {
        let model = Model::load(name).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(&*model.name, name);
    }
}

#[test]
fn a_model_that_is_not_there() {
    let error = Model::load("nowhere.toml").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Configuration);
    let text = error.to_string();
    assert!(text.contains("nowhere.toml") && text.contains(Model::DEFAULT_NAME), "{text}");
}

#[test]
fn a_wrong_model_is_an_error_of_kind_model() {
    let error = Model::parse("name = 1", "wrong.toml").unwrap_err().into_error();
    assert_eq!(error.kind(), ErrorKind::Model);
    assert!(error.to_string().contains("wrong.toml:1:8: model: `name` must be a string"), "{error}");
}

#[test]
fn names_become_indexes() {
    let model = load(LIBRARY);
    let [shelf, book] = model.entities.as_slice() else { panic!("{:?}", model.entities) };
    assert_eq!((&*shelf.name, shelf.table, shelf.mirrors.as_slice()), ("shelf", 0, [0].as_slice()));
    assert_eq!((&*book.name, book.aggregates.as_slice()), ("book", [0].as_slice()));
    assert_eq!(book.variables.iter().map(|name| &**name).collect::<Vec<_>>(), ["shelf_id", "book_id"]);

    let [answer] = shelf.answers.as_slice() else { panic!("{:?}", shelf.answers) };
    assert_eq!((&answer.inputs, &answer.gifts), (&vec![Term::Key(1)], &vec![Term::Key(0)]));

    let [books] = model.aggregates.as_slice() else { panic!("{:?}", model.aggregates) };
    let [lookup] = books.lookups.as_slice() else { panic!("{:?}", books.lookups) };
    assert_eq!((lookup.lookup, &lookup.inputs, lookup.gifts.len()), (0, &vec![Term::Key(0)], 0));
    let day = &books.into[1];
    let [Piece::Literal(text), Piece::Value(Term::Attribute(path), Format::Day)] = day.sort.pieces.as_slice()
    else {
        panic!("{:?}", day.sort)
    };
    assert_eq!((&**text, &**model.vocabulary.name(path.root)), ("ROLLUP#DAY#", "bought_at"));
    assert!(matches!(
        &day.partition.pieces[1],
        Piece::Value(Term::Given { lookup: 0, gift: 0 }, Format::Plain)
    ));

    let [mirror] = model.mirrors.as_slice() else { panic!("{:?}", model.mirrors) };
    assert_eq!(mirror.item_variables, [0, 1]);
    let owner = (Term::Given { lookup: 0, gift: 0 }, Format::Plain);
    assert_eq!(mirror.rollup_variables, [owner, (Term::Key(1), Format::Plain)]);
    let lookup = mirror.lookup.as_ref().unwrap();
    assert_eq!((&lookup.inputs, &lookup.gifts), (&vec![Term::Key(1)], &vec![Term::Key(0)]));
    let [shown] = mirror.attributes.as_slice() else { panic!("{:?}", mirror.attributes) };
    assert_eq!((&shown.path, &shown.revision_path), (&"books".into(), &"books_rev".into()));
}

#[test]
fn the_vocabulary_is_what_is_read() {
    let model = load(LIBRARY);
    let names = ["pages", "price", "bought_at", "books"];
    assert_eq!(model.vocabulary.len(), names.len());
    for name in names {
        assert!(model.vocabulary.id(name).is_some(), "{name}");
    }
}

#[test]
fn everything_else_that_a_model_can_say() {
    let model = load(&changed(&[
        "- generation = 1",
        "+ generation = 7",
        "- [tables.items]",
        "+ [tables.users]",
        "+ key = [\"id\"]",
        "+ [tables.items]",
        "- [entities.shelf]",
        "+ [entities.reader]",
        "+ table = \"users\"",
        "+ key = { id = \"{reader_id}\" }",
        "+ on_expiry = \"subtract\"",
        "+ attributes = { at = \"N\", \"stats.read\" = \"N\", stats2 = \"M\", old_name = \"S\", name = \"S\" }",
        "+ derive.called = { first = [\"name\", \"old_name\"] }",
        "+ [entities.shelf]",
        "+ table = \"items\"",
        "- [entities.book]",
        "+ [entities.book]",
        "+ table = \"items\"",
        "- [[mirrors]]",
        "+ [rollups.readers]",
        "+ key = { PK = \"READERS#{called}\", SK = \"ROLLUP#READERS#{at:day}\" }",
        "+ expires = { after = \"2 weeks\", of = \"at\" }",
        "+ [[aggregates]]",
        "+ name = \"readers\"",
        "+ of = \"reader\"",
        "+ into = \"readers\"",
        "+ when = { called = [\"a\"], stats2.inner.most = [{ exists = true }] }",
        "+ [aggregates.measures]",
        "+ readers = \"count\"",
        "+ read = { sum = [\"stats.read\", \"at\"] }",
        "+ last_day = { max = \"at:day\" }",
        "+ first = { min = \"at\" }",
        "+ readAvg = { avg = \"read\", over = \"readers\" }",
        "+ spread = { histogram = \"stats.read\", width = 25, bins = 5 }",
        "+ [[mirrors]]",
    ]));
    assert_eq!(model.generation, 7);
    assert_eq!(model.tables[0].sort_key, None);
    let reader = &model.entities[0];
    assert_eq!(
        (reader.table, reader.on_expiry, reader.key.sort.is_none()),
        (0, crate::table::OnExpiry::Subtract, true)
    );
    let rollup = &model.rollups[2];
    assert_eq!(rollup.extremes.iter().map(|name| &**name).collect::<Vec<_>>(), ["last_day", "first"]);
    assert_eq!((&*rollup.averages[0].sum, &*rollup.averages[0].count), ("read", "readers"));
    assert!(rollup.is_computed());
    let aggregate = &model.aggregates[1];
    let expiry = aggregate.into[0].expires.as_ref().unwrap();
    assert_eq!(expiry.after, std::time::Duration::from_secs(14 * 24 * 60 * 60));
    // The average is the rollup's.
    assert_eq!(aggregate.measures.len(), 5);
    let MeasureKind::Sum(product) = &aggregate.measures[1].kind else { panic!("{:?}", aggregate.measures) };
    let Term::Attribute(read) = &product[0] else { panic!("{product:?}") };
    assert_eq!(read.within.iter().map(|name| &**name).collect::<Vec<_>>(), ["read"]);
    assert!(matches!(aggregate.measures[2].kind, MeasureKind::Max(_, Format::Day)));
    let MeasureKind::Histogram { labels, .. } = &aggregate.measures[4].kind else {
        panic!("{:?}", aggregate.measures)
    };
    assert_eq!(
        labels.iter().map(|label| &**label).collect::<Vec<_>>(),
        ["spread_000", "spread_025", "spread_050", "spread_075", "spread_100"]
    );
}

/// The library, its books counted into so many rollups.
fn counted_into(rollups: usize, on_expiry: &str) -> String {
    let mut more = format!("on_expiry = \"{on_expiry}\"\n");
    let mut names = Vec::new();
    for number in 0..rollups {
        writeln!(more, "[rollups.r{number}]\nkey = {{ PK = \"R{number}\", SK = \"ROLLUP\" }}").unwrap();
        names.push(format!("\"r{number}\""));
    }
    let source = LIBRARY.replacen("[lookups.owner]", &format!("{more}[lookups.owner]"), 1);
    source.replacen("[\"shelf\", \"day\"]", &format!("[\"shelf\", {}]", names.join(", ")), 1)
}

#[test]
fn one_change_must_fit_into_a_transaction() {
    // Entry and marker, and three times 32 rollups: 98 actions. With TTL subtracting, the entry and twice 49: 99.
    for (rollups, on_expiry) in [(31, "keep"), (48, "subtract")] {
        load(&counted_into(rollups, on_expiry));
    }
    for (rollups, on_expiry, actions) in [(32, "keep", 101), (49, "subtract", 101)] {
        let targets = rollups + 1;
        assert_eq!(
            problems(&counted_into(rollups, on_expiry)),
            format!(
                "library.toml:11:11: entity `book`: its items count into {targets} rollups, so one change could need \
                 {actions} actions in a transaction, which holds 100; count into fewer"
            )
        );
    }
}

#[test]
fn datasets_name_attributes_that_nothing_else_reads() {
    let model = load(&changed(&[
        "- [[mirrors]]",
        "+ [datasets.books]",
        "+ of = \"book\"",
        "+ partition = \"added.at:day\"",
        "+ sort = \"cost\"",
        "+ columns = { cost = \"decimal(10,2)\", title = { type = \"string\", from = \"label.title\" } }",
        "+ [[mirrors]]",
    ]));
    let dataset = &model.datasets[0];
    let columns: Vec<&str> = dataset.columns.iter().map(|column| &*column.name).collect();
    assert_eq!(columns, ["cost", "title", "_key_shelf_id", "_key_book_id"], "the key is always there");
    assert_eq!((&*dataset.key, &*dataset.sort), (&[2, 3][..], &[0][..]));
    assert!(model.vocabulary.id("label").is_none() && model.row_vocabulary.id("label").is_some());
    assert_eq!(model.vocabulary.id("price"), model.row_vocabulary.id("price"));
}

#[test]
fn what_is_cached_and_what_is_archived() {
    let model = load(&changed(&[
        "- generation = 1",
        "+ generation = 1",
        "+ archive = \"matched\"",
        "- derive.share",
        "+ secret = [\"notes\", \"tags.inner\"]",
        "+ derive.share",
        "- [[mirrors]]",
        "+ [[caches]]",
        "+ of = [\"shelf\", \"book\"]",
        "+ keys = [\"shelf:{shelf_id}\"]",
        "+ [[caches]]",
        "+ of = \"book\"",
        "+ keys = [\"book:{title}:{bought_at:day}\"]",
        "+ paths = [\"/books/{book_id}/*\"]",
        "+ when.price = [{ exists = true }]",
        "+ depends_on = [\"title\", \"bought_at\"]",
        "+ remedy = { tombstone = \"1500ms\" }",
        "+ [[mirrors]]",
    ]));
    assert_eq!(model.archive, crate::table::ArchiveScope::Matched);
    let [shelf, book] = model.entities.as_slice() else { panic!("{:?}", model.entities) };
    assert_eq!((&shelf.caches, &book.caches), (&vec![0], &vec![1, 2]));
    assert_eq!(book.secrets, ["notes".into(), crate::effect::Path::dotted("tags.inner")]);
    let [of_shelf, _, of_book] = model.caches.as_slice() else { panic!("{:?}", model.caches) };
    assert_eq!((of_shelf.of, of_shelf.remedy), (0, crate::table::Remedy::Delete));
    assert!(matches!(of_shelf.keys[0].pieces[1], Piece::Value(Term::Key(1), Format::Plain)));
    let five = std::time::Duration::from_millis(1_500);
    assert_eq!((of_book.depends_on.len(), of_book.remedy), (2, crate::table::Remedy::Tombstone(five)));
    assert!(of_book.when.is_some() && model.vocabulary.id("title").is_some());
    assert!(model.vocabulary.id("notes").is_none(), "what is secret is not even decoded");
}
