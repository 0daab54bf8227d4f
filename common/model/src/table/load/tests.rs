//! Models that load as they should.

mod advice;
mod indexes;
mod mirrored;
mod zones;

use std::fmt::Write as _;

use super::*;
use crate::record::AttributeInterner;
use crate::table::{
    BoundPiece, FormatZone, MeasureKind, Term, TimeBucket, TimeFormat, TimeReading, ValueFormat,
};

/// A small valid model. The messages of the broken models next to it have a test of their own.
const LIBRARY: &str = include_str!("../../../../../tests/fixtures/models/library.toml");

/// `:day`, of a value that is read by its form.
const DAY: ValueFormat = ValueFormat::Time(TimeFormat {
    bucket: TimeBucket::Day,
    zone: FormatZone::Utc,
    reading: TimeReading::Detected,
});

fn load(source: &str) -> Model {
    Model::parse(source, "library.toml").unwrap_or_else(|errors| panic!("{errors}"))
}

fn problems(source: &str) -> String {
    Model::parse(source, "library.toml").map_or_else(|errors| errors.to_string(), |_| "no problem".to_owned())
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
fn a_folder_cannot_be_loaded_as_a_model() {
    let error = Model::load(env!("CARGO_MANIFEST_DIR")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Configuration);
    assert!(error.to_string().contains("cannot be read as a text file"), "{error}");
}

#[test]
fn a_wrong_model_is_an_error_of_kind_model() {
    let error = Model::parse("name = 1", "wrong.toml").unwrap_err().into_error();
    assert_eq!(error.kind(), ErrorKind::Model);
    assert!(
        error.to_string().contains("wrong.toml:1:8: error[AW006]: model: `name` must be a string"),
        "{error}"
    );
}

#[test]
fn names_become_indexes() {
    let model = load(LIBRARY);
    let [shelf, book] = model.entities.as_slice() else { panic!("{:?}", model.entities) };
    assert_eq!((&*shelf.name, shelf.table, shelf.mirrors.as_slice()), ("shelf", 0, [0].as_slice()));
    assert_eq!((&*book.name, book.aggregates.as_slice()), ("book", [0].as_slice()));
    assert_eq!(book.variables.iter().map(|name| &**name).collect::<Vec<_>>(), ["shelf_id", "book_id"]);

    let [answer] = shelf.offers.as_slice() else { panic!("{:?}", shelf.offers) };
    assert_eq!((&answer.inputs, &answer.outputs), (&vec![Term::Key(1)], &vec![Term::Key(0)]));

    let [books] = model.aggregates.as_slice() else { panic!("{:?}", model.aggregates) };
    let [lookup] = books.lookups.as_slice() else { panic!("{:?}", books.lookups) };
    assert_eq!((lookup.lookup, &lookup.inputs, lookup.outputs.len()), (0, &vec![Term::Key(0)], 0));
    let day = &books.into[1];
    let [BoundPiece::Literal(text), BoundPiece::Value(Term::Attribute(path), format)] =
        day.sort.pieces.as_slice()
    else {
        panic!("{:?}", day.sort)
    };
    assert_eq!((&**text, &**model.attributes.name(path.root)), ("ROLLUP#DAY#", "bought_at"));
    assert_eq!(*format, DAY);
    assert!(matches!(
        &day.partition.pieces[1],
        BoundPiece::Value(Term::LookupOutput { lookup: 0, output: 0 }, ValueFormat::Plain)
    ));

    let [mirror] = model.mirrors.as_slice() else { panic!("{:?}", model.mirrors) };
    assert_eq!(mirror.item_variables, [0, 1]);
    let owner = (Term::LookupOutput { lookup: 0, output: 0 }, ValueFormat::Plain);
    assert_eq!(mirror.rollup_variables, [owner, (Term::Key(1), ValueFormat::Plain)]);
    let lookup = mirror.lookup.as_ref().unwrap();
    assert_eq!((&lookup.inputs, &lookup.outputs), (&vec![Term::Key(1)], &vec![Term::Key(0)]));
    let [shown] = mirror.attributes.as_slice() else { panic!("{:?}", mirror.attributes) };
    let paths = [&shown.path, &shown.revision_path, &shown.of_path];
    assert_eq!(paths, [&"books".into(), &"books_rev".into(), &"books_of".into()]);
}

#[test]
fn the_vocabulary_is_what_is_read() {
    let model = load(LIBRARY);
    let names = ["pages", "price", "bought_at", "books"];
    assert_eq!(model.attributes.len(), names.len());
    for name in names {
        assert!(model.attributes.id(name).is_some(), "{name}");
    }
}

#[test]
fn the_other_settings_of_a_model_are_read() {
    let model = load(include_str!("../../../../../tests/fixtures/models/library-and-readers.toml"));
    assert_eq!(model.generation, 7);
    assert_eq!(model.tables[0].sort_key, None);
    let reader = &model.entities[0];
    assert_eq!(
        (reader.table, reader.on_expiry, reader.key.sort.is_none()),
        (0, crate::table::OnExpiry::Subtract, true)
    );
    let rollup = &model.rollups[2];
    assert_eq!(rollup.extremes.iter().map(|name| &**name).collect::<Vec<_>>(), ["last_day", "first"]);
    let parts = rollup.computed[0].parts();
    assert_eq!(parts.iter().map(|name| &**name).collect::<Vec<_>>(), ["read", "readers"]);
    assert!(rollup.is_computed());
    let aggregate = &model.aggregates[1];
    let expiry = aggregate.into[0].expires.as_ref().unwrap();
    assert_eq!(expiry.after, std::time::Duration::from_secs(14 * 24 * 60 * 60));
    assert_eq!(aggregate.measures.len(), 6);
    assert!(matches!(aggregate.measures[4].kind, MeasureKind::Average { .. }));
    let MeasureKind::Sum { factors: product, constant: None } = &aggregate.measures[1].kind else {
        panic!("{:?}", aggregate.measures)
    };
    let Term::Attribute(read) = &product[0] else { panic!("{product:?}") };
    assert_eq!(read.within.iter().map(|name| &**name).collect::<Vec<_>>(), ["read"]);
    assert!(matches!(&aggregate.measures[2].kind, MeasureKind::Max(_, format, _) if *format == DAY));
    let MeasureKind::Histogram { labels, .. } = &aggregate.measures[5].kind else {
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
                "library.toml:11:11: error[AW045]: entity `book`: its items count into {targets} rollups, so one change could need \
                 {actions} actions in a transaction, which holds 100; count into fewer"
            )
        );
    }
}

#[test]
fn datasets_name_attributes_that_nothing_else_reads() {
    let model = load(include_str!("../../../../../tests/fixtures/models/library-with-a-dataset.toml"));
    let dataset = &model.datasets[0];
    let columns: Vec<&str> = dataset.columns.iter().map(|column| &*column.name).collect();
    assert_eq!(columns, ["cost", "title", "_key_shelf_id", "_key_book_id"], "the key is always there");
    assert_eq!((&*dataset.key, &*dataset.sort), (&[2, 3][..], &[0][..]));
    assert!(model.attributes.id("label").is_none() && model.row_attributes.id("label").is_some());
    assert_eq!(model.attributes.id("price"), model.row_attributes.id("price"));
    let days = model.row_attributes.eager_fields().unwrap();
    assert_eq!((days.len(), days.id("added")), (1, model.row_attributes.id("added")));
    assert!(days.id("added").is_some() && days.id("price").is_none());
}

#[test]
fn what_is_cached_and_what_is_archived() {
    let model = load(include_str!("../../../../../tests/fixtures/models/library-with-caches.toml"));
    assert_eq!(model.archive, crate::table::ArchiveScope::Matched);
    let [shelf, book] = model.entities.as_slice() else { panic!("{:?}", model.entities) };
    assert_eq!((&shelf.caches, &book.caches), (&vec![0], &vec![1, 2]));
    assert_eq!(book.secrets, [crate::record::AttributePath::from("notes"), "tags.inner".parse().unwrap()]);
    let [of_shelf, _, of_book] = model.caches.as_slice() else { panic!("{:?}", model.caches) };
    assert_eq!((of_shelf.of, of_shelf.remedy), (0, crate::table::CacheRemedy::Delete));
    assert!(matches!(of_shelf.keys[0].pieces[1], BoundPiece::Value(Term::Key(1), ValueFormat::Plain)));
    let five = std::time::Duration::from_millis(1_500);
    assert_eq!((of_book.depends_on.len(), of_book.remedy), (2, crate::table::CacheRemedy::Tombstone(five)));
    assert!(of_book.when.is_some() && model.attributes.id("title").is_some());
    assert!(model.attributes.id("notes").is_none(), "what is secret is not even decoded");
}

#[test]
fn a_rollup_that_could_be_an_item_is_refused_however_literal_its_key_is() {
    let model = |rollup_keys: &str, separator: &str| {
        format!(
            r##"
            name = "shop"
            generation = 1
            {rollup_keys}
            [tables.shop]
            key = ["PK", "SK"]
            {separator}
            [entities.order]
            key = {{ PK = "ORDER#{{order}}", SK = "ORDER#{{order}}" }}
            [entities.line]
            key = {{ PK = "ORDER#{{order}}", SK = "ORDER#{{order}}#LINE#{{line}}" }}
            [rollups.order]
            key = {{ PK = "ORDER#{{order}}", SK = "ORDER#{{order}}#ROLLUP" }}
            [[aggregates]]
            name = "lines"
            of = "line"
            into = "order"
            measures.lines = "count"
            "##
        )
    };
    assert_eq!(problems(&model("rollup_keys = 'escaped'", "separator = '#'")), "no problem");
    // An order that contains the text between two variables of a line.
    let problems = problems(&model("", ""));
    assert!(problems.contains("AW038") && problems.contains("entity `order`"), "{problems}");
}

/// Two entities with the same key and these conditions, and a rollup that the first is counted into.
fn accounts(first: &str, second: &str) -> String {
    format!(
        r##"
        name = "accounts"
        generation = 1
        [tables.app]
        key = ["PK", "SK"]
        [entities.user]
        key = {{ PK = "ACCOUNT#{{account}}", SK = "ACCOUNT#{{account}}" }}
        attributes = {{ Type = "S", level = "N", part = "N", whole = "N" }}
        derive.percent = {{ percent = ["part", "whole"] }}
        {first}
        [entities.team]
        key = {{ PK = "ACCOUNT#{{team}}", SK = "ACCOUNT#{{team}}" }}
        attributes = {{ Type = "S", level = "N" }}
        {second}
        [rollups.all]
        key = {{ PK = "ALL", SK = "ROLLUP" }}
        [[aggregates]]
        name = "users"
        of = "user"
        into = "all"
        measures.users = {{ count = true, when.percent = [50] }}
        "##
    )
}

#[test]
fn conditions_tell_entities_of_one_key_apart_if_no_item_can_meet_both() {
    for (first, second) in [
        ("when.Type = ['User']", "when.Type = ['Team', 'Club']"),
        ("when.Type = ['User']", ""),
        ("", "when.level = [{ numeric = ['>', 3] }]"),
        ("when = { Type = ['User'], level = [1, 2] }", "when.level = [3]"),
        ("when.account = ['a', 'b']", "when.team = ['c']"),
        ("when.percent = [50]", ""),
    ] {
        assert_eq!(problems(&accounts(first, second)), "no problem", "{first} and {second}");
    }
    for (first, second) in [
        ("", ""),
        ("when.Type = ['User']", "when.Type = ['User', 'Team']"),
        ("when.Type = ['User']", "when.level = [1]"),
        ("when.Type = ['User']", "when.Type = [{ anything-but = 'User' }]"),
        ("when.account = ['a']", "when.team = ['a', 'b']"),
    ] {
        assert!(problems(&accounts(first, second)).contains("AW036"), "{first} and {second}");
    }
}

#[test]
fn the_entity_without_a_condition_takes_what_is_left() {
    for (first, second, order) in [("", "when.Type = ['Team']", [1, 0]), ("when.Type = ['User']", "", [0, 1])]
    {
        let model = load(&accounts(first, second));
        assert_eq!(model.match_order, order);
        let [preferred, other] = order.map(|index| &model.entities[index]);
        assert_eq!(
            (preferred.yields_to.as_slice(), other.yields_to.as_slice()),
            ([].as_slice(), [order[0]].as_slice())
        );
        assert_eq!(
            (preferred.rivals.as_slice(), other.rivals.as_slice()),
            ([order[1]].as_slice(), [order[0]].as_slice())
        );
        assert_eq!((&preferred.decided_by, &other.decided_by), (&vec!["Type".into()], &vec!["Type".into()]));
    }
}

#[test]
fn what_conditions_of_entities_read_is_decoded_eagerly() {
    let eager = |source: &str| {
        let model = load(source);
        let eager = |interner: &AttributeInterner| {
            let names = ["Type", "level", "part", "whole"].into_iter();
            interner
                .eager_fields()
                .map(|eager| names.filter(|name| eager.id(name).is_some()).collect::<Vec<_>>())
        };
        (eager(&model.attributes), eager(&model.row_attributes))
    };
    assert_eq!(eager(&accounts("when.Type = ['User']", "")), (Some(vec!["Type"]), Some(vec!["Type"])));
    let of_percent = Some(vec!["part", "whole"]);
    assert_eq!(eager(&accounts("when.percent = [50]", "")), (of_percent.clone(), of_percent));
    assert_eq!(eager(LIBRARY).0, None, "a model without conditions decodes old images as before");
}

#[test]
fn conditions_of_entities_are_part_of_the_fingerprint() {
    let fingerprint = |first, second| load(&accounts(first, second)).fingerprint().to_string();
    let user = fingerprint("when.Type = ['User']", "when.Type = ['Team']");
    assert_ne!(user, fingerprint("when.Type = ['Person']", "when.Type = ['Team']"), "the entity's own");
    let left = fingerprint("", "when.Type = ['Team']");
    assert_ne!(left, fingerprint("", "when.Type = ['Club']"), "that of an entity which is preferred");
    assert_eq!(user, fingerprint("when.Type = ['User']", "when.Type = ['Club']"), "that of another entity");
}

#[test]
fn the_states_of_an_item_share_a_transaction_even_if_it_moves() {
    let source = |rollups: usize| {
        let mut source = accounts("when.Type = ['User']", "when.Type = ['Team']\non_expiry = \"subtract\"");
        let mut names = Vec::new();
        for number in 0..rollups {
            writeln!(source, "[rollups.r{number}]\nkey = {{ PK = \"R{number}\", SK = \"ROLLUP\" }}").unwrap();
            names.push(format!("\"r{number}\""));
        }
        let names = names.join(", ");
        writeln!(
            source,
            "[[aggregates]]\nname = \"teams\"\nof = \"team\"\ninto = [{names}]\nmeasures.teams = \"count\""
        )
        .unwrap();
        source
    };
    // An entry, the rollups of two states, the marker of a user's expiry and the one rollup that it settles.
    assert_eq!(problems(&source(48)), "no problem");
    assert!(problems(&source(49)).contains("AW045"));
}

#[test]
fn what_decides_the_entity_is_neither_mirrored_nor_secret() {
    let secret = accounts("when.Type = ['User']\nsecret = ['Type']", "");
    assert!(problems(&secret).contains("AW090"));
    let mirrored = format!(
        "{}\n[rollups.of_team]\nkey = {{ PK = \"TEAM#{{team}}\", SK = \"ROLLUP\" }}\n[[aggregates]]\nname = \"teams\"\nof = \"team\"\ninto = \"of_team\"\nmeasures.teams = \"count\"\n[[mirrors]]\nonto = \"team\"\nfrom = \"of_team\"\nattributes = {{ level = \"teams\" }}",
        accounts("when.level = [1]", "")
    );
    assert!(problems(&mirrored).contains("AW063"), "{}", problems(&mirrored));
}

#[test]
fn e2_a_secret_is_no_variable_of_the_key() {
    let secret =
        |name: &str| LIBRARY.replacen("[entities.book]", &format!("[entities.book]\nsecret = ['{name}']"), 1);
    assert!(problems(&secret("book_id")).contains("secret `book_id` is a variable of the item's key"));
    assert_eq!(problems(&secret("isbn")), "no problem");
}

#[test]
fn g5_a_wildcard_before_a_value_that_is_a_path_is_refused() {
    let with = |path: &str| format!("{LIBRARY}\n[[caches]]\nof = \"book\"\npaths = [\"{path}\"]\n");
    for path in ["/*{title:path}", "/ü/{title:path}", "/a*/{title}"] {
        assert!(problems(&with(path)).contains("AW070"), "{path}");
    }
    assert_eq!(problems(&with("/books/{title:path}*")), "no problem");
}

#[test]
fn e1_a_measure_has_a_name_that_an_attribute_can_have() {
    let named = |letters: usize| LIBRARY.replacen("price_sum", &"m".repeat(letters), 1);
    assert_eq!(problems(&named(255)), "no problem");
    assert!(problems(&named(256)).contains("AW010"));
}
