use std::sync::Arc;

use crate::entity::SourceKey;
use crate::projection::{
    ItemContributions, RollupTarget, RollupTargets, SearchedLookups, ShardAssignment, contributions,
    snapshot_row,
};
use crate::record::{AttributeValue, Decimal, Image, Item, Timestamp};
use crate::table::{Model, ProblemCode};

const SHOP: &str = r##"
name = "shop"
generation = 1
rollup_keys = "escaped"

[tables.shop]
key = ["pk", "sk"]

[entities.order]
key = { pk = "SHOP#{shop}", sk = "ORDER#{order}" }
attributes = { total = "N", placed_at = "S", customer = "S", status = "S" }

[rollups.month]
key = { PK = "SHOP#{shop}", SK = "MONTH#{placed_at:month}" }

[rollups.day]
key = { PK = "SHOP#{shop}", SK = "DAY#{placed_at:day}" }
expires = { after = "90 days", of = "placed_at" }
on_expiry = "subtract"

[[aggregates]]
name = "months"
of = "day"
into = "month"
[aggregates.measures]
days = "count"
revenue = { sum = "revenue" }
busy = { count = true, when.orders = [{ numeric = [">=", 2] }] }

[[aggregates]]
name = "days"
of = "order"
into = "day"
[aggregates.measures]
orders = "count"
revenue = { sum = "total" }
payers = { distinct = "customer", when.status = ["PAID"] }
"##;

fn shop() -> Arc<Model> {
    Arc::new(Model::parse(SHOP, "shop.toml").unwrap_or_else(|errors| panic!("{errors}")))
}

fn first_code(source: &str) -> ProblemCode {
    Model::check(source, "shop.toml").problems[0].code
}

/// The contributions of an item of the state table: `<PK> <SK> <measure>=<amount>`.
fn contributed(model: &Arc<Model>, key: [&str; 2], numbers: &[(&'static str, i64)]) -> Vec<String> {
    let written = |target: &RollupTarget, measure: &str, amount: &Decimal| {
        format!("{} {} {measure}={amount}", target.partition_key(), target.sort)
    };
    contributions_of(model, key, numbers, written)
}

/// The contributions of an item of the state table, each in words.
fn contributions_of(
    model: &Arc<Model>,
    key: [&str; 2],
    numbers: &[(&'static str, i64)],
    written: impl Fn(&RollupTarget, &str, &Decimal) -> String,
) -> Vec<String> {
    let mut item = Item::from([
        ("PK".into(), AttributeValue::text(key[0].to_owned())),
        ("SK".into(), AttributeValue::text(key[1].to_owned())),
    ]);
    for (name, number) in numbers {
        item.insert((*name).into(), AttributeValue::N(Decimal::from(*number)));
    }
    contributions_of_item(model, model.state_source().unwrap(), &item, written)
}

fn contributions_of_item(
    model: &Arc<Model>,
    table: usize,
    item: &Item,
    written: impl Fn(&RollupTarget, &str, &Decimal) -> String,
) -> Vec<String> {
    let image = Image::from_item(item, &model.attributes);
    let source = SourceKey::of_item(model, table, item).unwrap();
    let (candidates, mut targets) = (source.candidates(model), RollupTargets::of(model));
    let sharding = ShardAssignment { source: &source, current: &ItemContributions::NOTHING };
    let lookups = SearchedLookups::default();
    let projected = contributions(model, &candidates, &image, &lookups, sharding, &mut targets).unwrap();
    let mut lines = Vec::new();
    for contribution in projected.contributions.by_aggregate {
        for target in &contribution.targets {
            let target = targets.get(*target);
            for (measure, amount) in &contribution.measures {
                lines.push(written(target, measure, amount));
            }
        }
    }
    lines
}

#[test]
fn levels_follow_from_the_sources_whatever_the_order_of_the_file() {
    let model = shop();
    let level = |name: &str| model.entities.iter().find(|entity| *entity.name == *name).unwrap().level;
    assert_eq!(["order", "day.payers", "day"].map(level), [0, 1, 2]);
    assert_eq!(model.highest_level(), 2);
    let table = &model.tables[model.state_source().unwrap()];
    assert_eq!(
        (&*table.name, table.is_state(), table.describe()),
        ("@state", true, vec!["PK".into(), "SK".into()])
    );
}

#[test]
fn a_day_counts_in_its_month_unless_all_its_sums_are_zero() {
    let model = shop();
    let day = ["SHOP#a", "DAY#2026-02-06"];
    assert_eq!(
        contributed(&model, day, &[("orders", 2), ("revenue", 5), ("payers", 1)]),
        ["SHOP#a MONTH#2026-02 days=1", "SHOP#a MONTH#2026-02 revenue=5", "SHOP#a MONTH#2026-02 busy=1"]
    );
    assert_eq!(contributed(&model, day, &[("orders", 0), ("revenue", -1)]).len(), 2);
    let nothing: [&[(&'static str, i64)]; 2] =
        [&[("orders", 0), ("revenue", 0), ("payers", 0)], &[("rev", 7)]];
    for numbers in nothing {
        assert!(contributed(&model, day, numbers).is_empty(), "{numbers:?}");
    }
    assert!(contributed(&model, ["SHOP#a", "MONTH#2026-02"], &[("days", 1)]).is_empty(), "no source");
    assert!(contributed(&model, ["LEDGER#shop#SHOP#a", "DAY#2026-02-06"], &[("orders", 1)]).is_empty());
}

#[test]
fn a_member_counts_once_in_its_rollup_with_the_values_of_its_key() {
    let model = shop();
    let member = ["SHOP#a%23b#DISTINCT#payers", "DAY#2026-02-06#c%257"];
    assert_eq!(contributed(&model, member, &[("count", 3)]), ["SHOP#a%23b DAY#2026-02-06 payers=1"]);
    assert!(contributed(&model, member, &[("count", 0)]).is_empty());
    let payers = model.rollups.iter().find(|rollup| *rollup.name == *"day.payers").unwrap();
    assert_eq!(payers.describe().key, "SHOP#{shop}#DISTINCT#payers / DAY#{placed_at:day}#{customer}");
    assert_eq!(payers.lifetime, model.rollups.iter().find(|rollup| *rollup.name == *"day").unwrap().lifetime);
}

#[test]
fn a_circle_a_sharded_source_and_a_source_without_a_beginning_are_refused() {
    let circle = SHOP.replace("of = \"order\"", "of = \"month\"").replace("{ sum = \"total\" }", "\"count\"");
    assert_eq!(first_code(&circle.replace("payers", "#")), ProblemCode::CircularLevels);
    let sharded = SHOP.replace("on_expiry = \"subtract\"", "shards = 2");
    assert_eq!(first_code(&sharded), ProblemCode::ShardedSource);
    let unfiltered = SHOP.replace("PK = \"SHOP#{shop}\", SK = \"DAY", "PK = \"{shop}\", SK = \"DAY");
    assert_eq!(first_code(&unfiltered), ProblemCode::UnfilteredSource);
}

/// A category without a name, and one to which no returned order was counted yet.
#[test]
fn an_empty_value_in_a_key_is_a_value_and_a_sum_without_items_is_zero() {
    let source = SHOP
        .replace("SK = \"DAY#{placed_at:day}\"", "SK = \"DAY#{customer}\"")
        .replace("expires = { after = \"90 days\", of = \"placed_at\" }\n", "")
        .replace("SK = \"MONTH#{placed_at:month}\"", "SK = \"ALL\"")
        .replace("[{ numeric = [\">=\", 2] }]", "[{ numeric = [\"<\", 2] }]");
    let model = Arc::new(Model::parse(&source, "shop.toml").unwrap_or_else(|errors| panic!("{errors}")));
    for key in [["SHOP#a", "DAY#"], ["SHOP#", "DAY#"], ["SHOP#", "DAY#c"]] {
        let shop = key[0];
        assert_eq!(
            contributed(&model, key, &[("revenue", 5)]),
            [format!("{shop} ALL days=1"), format!("{shop} ALL revenue=5"), format!("{shop} ALL busy=1")]
        );
    }
    let member = ["SHOP#a#DISTINCT#payers", "DAY##"];
    assert_eq!(contributed(&model, member, &[("count", 1)]), ["SHOP#a DAY# payers=1"]);
}

/// A dataset is the only reader of the rollup: functions that make no rows know its items all the same.
#[test]
fn a_dataset_alone_makes_a_rollup_a_source() {
    let source = r#"
        name = "shop"
        generation = 1
        tables.shop.key = ["pk"]
        [entities.order]
        key = { pk = "ORDER#{order}" }
        attributes = { placed_at = "S" }
        [rollups.day]
        key = { PK = "DAYS", SK = "DAY#{placed_at:day}" }
        expires = { after = "90 days", of = "placed_at" }
        [[aggregates]]
        name = "orders"
        of = "order"
        into = "day"
        measures.orders = "count"
        [datasets.days]
        of = "day"
        partition = "placed_at:day"
        columns = { orders = "int64" }
    "#;
    let model = Model::parse(source, "shop.toml").unwrap_or_else(|errors| panic!("{errors}"));
    let day = model.entities.iter().find(|entity| entity.rollup.is_some()).unwrap();
    let read = |name: &str| model.attributes.id(name);
    assert_eq!(day.ttl.as_ref().map(|ttl| ttl.root), read("expires_at"));
    assert!(read("orders").is_some() && read("placed_at").is_some());
}

#[test]
fn two_sources_that_can_be_one_item_are_refused() {
    let rollup = "[rollups.total]\nkey = { PK = \"SHOP#{shop}\", SK = \"DAY#{order}\" }\n";
    let counted =
        "[[aggregates]]\nname = \"totals\"\nof = \"order\"\ninto = \"total\"\nmeasures.all = \"count\"\n";
    let above = "[[aggregates]]\nname = \"above\"\nof = \"total\"\ninto = \"month\"\nbind = { \"placed_at:month\" = \"order\" }\nmeasures.totals = \"count\"\n";
    let source = [SHOP, rollup, counted]
        .concat()
        .replace("expires = { after = \"90 days\", of = \"placed_at\" }\n", "");
    assert!(Model::parse(&source, "shop.toml").is_ok(), "one of them is a source");
    assert_eq!(first_code(&[&source, above].concat()), ProblemCode::OverlappingRollups);
}

#[test]
fn an_entity_of_the_same_name_is_meant_first() {
    let source =
        SHOP.replace("[rollups.day]", "[rollups.order]").replace("into = \"day\"", "into = \"order\"");
    let source =
        source.replace("of = \"day\"", "of = \"order\"").replace("sum = \"revenue\"", "sum = \"total\"");
    let source = source.replace("when.orders = [{ numeric = [\">=\", 2] }]", "when.total = [2]");
    let model = Model::parse(&source, "shop.toml").unwrap_or_else(|errors| panic!("{errors}"));
    assert_eq!(
        &*model.entities[model.aggregates.iter().find(|one| *one.name == *"months").unwrap().of].name,
        "order"
    );
}

/// Depots count into their days and weeks of Berlin, in keys whose variables have no format; these count into the days, weeks and months of all depots.
const DEPOTS: &str = r##"
name = "depots"
generation = 1
rollup_keys = "escaped"
tables.Scans.key = ["pk", "sk"]
entities.scan = { key = { pk = "DEPOT#{depot}", sk = "SCAN#{scan}" }, attributes = { at = "S", parcel = "S", tz = "S" } }
rollups.depot_day = { key = { PK = "DEPOT#{depot}", SK = "DAY#{day}" }, expires = { after = "1 day", of = "day" } }
rollups.depot_week = { key = { PK = "DEPOT#{depot}", SK = "WEEK#{week}" }, expires = { after = "1 day", of = "week" } }
rollups.day = { key = { PK = "ALL", SK = "DAY#{day}" }, expires = { after = "1 day", of = "day" } }
rollups.week = { key = { PK = "ALL", SK = "WEEK#{week}" }, expires = { after = "1 day", of = "week" } }
rollups.month = { key = { PK = "ALL", SK = "MONTH#{month}" }, expires = { after = "1 day", of = "month" } }
[[aggregates]]
name = "depot_days"
of = "scan"
into = "depot_day"
bind = { day = "at:day@Europe/Berlin" }
measures = { scans = "count", parcels = { distinct = "parcel" } }
[[aggregates]]
name = "depot_weeks"
of = "scan"
into = "depot_week"
bind = { week = "at:week@Europe/Berlin" }
measures.scans = "count"
[[aggregates]]
name = "days"
of = "depot_day"
into = "day"
measures.depots = "count"
[[aggregates]]
name = "weeks"
of = "depot_week"
into = "week"
measures.depots = "count"
[[aggregates]]
name = "months"
of = "depot_day"
into = "month"
bind = { month = "day:month" }
measures.days = "count"
"##;

fn expiries(model: &Arc<Model>, key: [&str; 2], measure: &'static str) -> Vec<String> {
    contributions_of(model, key, &[(measure, 1)], |target, _, _| {
        let expires_at = target.expires_at.map(|at| at.to_string());
        format!("{} {}", target.sort, expires_at.unwrap_or_default())
    })
}

#[test]
fn a_level_expires_by_the_calendar_of_the_buckets_that_are_bound_below_it() {
    let parsed = |source: &str| {
        Arc::new(Model::parse(source, "depots.toml").unwrap_or_else(|errors| panic!("{errors}")))
    };
    let model = parsed(DEPOTS);
    let day = ["DEPOT#d", "DAY#2026-07-02"];
    let expected = ["DAY#2026-07-02 2026-07-02T22:00:00Z", "MONTH#2026-07 2026-07-01T22:00:00Z"];
    assert_eq!(expiries(&model, day, "scans"), expected);
    let member = ["DEPOT#d#DISTINCT#parcels", "DAY#2026-07-02#p"];
    assert_eq!(expiries(&model, member, "count"), ["DAY#2026-07-02 2026-07-02T22:00:00Z"]);
    let week = ["DEPOT#d", "WEEK#2026-W27"];
    assert_eq!(expiries(&model, week, "scans"), ["WEEK#2026-W27 2026-06-29T22:00:00Z"]);
    let quarters = DEPOTS.replace("\"at:week", "\"at:month");
    let quarters =
        quarters.replace("into = \"week\"\n", "into = \"week\"\nbind = { week = \"week:quarter\" }\n");
    let month = ["DEPOT#d", "WEEK#2026-02"];
    assert_eq!(expiries(&parsed(&quarters), month, "scans"), ["WEEK#2026-Q1 2026-01-01T23:00:00Z"]);
    // In zones of items, a bucket begins when UTC shows it.
    let of_items = parsed(&DEPOTS.replace("@Europe/Berlin", "@tz"));
    let expected = ["DAY#2026-07-02 2026-07-03T00:00:00Z", "MONTH#2026-07 2026-07-02T00:00:00Z"];
    assert_eq!(expiries(&of_items, day, "scans"), expected);
    assert_eq!(expiries(&of_items, week, "scans"), ["WEEK#2026-W27 2026-06-30T00:00:00Z"]);
}

#[test]
fn a_bucket_that_is_bound_into_a_key_determines_its_coarser_buckets_in_its_zone() {
    let weeks =
        DEPOTS.replace("of = \"depot_day\"\ninto = \"month\"", "of = \"depot_week\"\ninto = \"month\"");
    for (model, written, of_key, format) in [
        (DEPOTS, "day:hour@Europe/Berlin", "day@Europe/Berlin", "hour@Europe/Berlin"),
        (DEPOTS, "day:hour", "day@Europe/Berlin", "hour@Europe/Berlin"),
        (DEPOTS, "day:month@Asia/Tokyo", "day@Europe/Berlin", "month@Asia/Tokyo"),
        (&weeks, "week:month", "week@Europe/Berlin", "month@Europe/Berlin"),
    ] {
        let message = format!(
            "aggregate `months`: rollup `month`: `{written}`: the key has its `{of_key}` and nothing more, which does not determine its `{format}`"
        );
        let report = Model::check(&model.replace("day:month", written), "depots.toml");
        let found: Vec<_> = report.problems.iter().map(|found| (found.code, found.message.clone())).collect();
        assert_eq!(found, [(ProblemCode::FormatTooFine, message)]);
    }
    for written in ["day:month@Europe/Berlin", "day:year", "day:week"] {
        let model = DEPOTS.replace("day:month", written);
        assert!(Model::parse(&model, "depots.toml").is_ok(), "{written}");
    }
}

#[test]
fn the_rows_of_a_rollup_are_kept_by_the_first_day_of_the_bucket_in_its_key() {
    let day_in = |rollup: &str, partition: &str, sort: &str| {
        let dataset = format!(
            "[datasets.rows]\nof = \"{rollup}\"\npartition = \"{partition}\"\ncolumns = {{ depots = \"int64\" }}\n"
        );
        let report = Model::check(&[DEPOTS, MONTHS, &dataset].concat(), "depots.toml");
        assert!(report.problems.is_empty(), "{:?}", report.problems);
        let model = report.model.unwrap();
        let key = ["ALL", sort].map(|text| AttributeValue::text(text.to_owned()));
        let mut item: Item = ["PK", "SK"].into_iter().map(Into::into).zip(key).collect();
        item.extend(["depots", "days", "scans"].map(|name| (name.into(), AttributeValue::N(1.into()))));
        let source = SourceKey::of_item(&model, model.state_source().unwrap(), &item).unwrap();
        let image = Image::from_item(&item, &model.row_attributes);
        let candidates = source.candidates(&model);
        snapshot_row(&model.datasets[0], &candidates, &image).map(|row| row.day.into_owned())
    };
    for (rollup, partition, sort, day) in [
        ("day", "day:day", "DAY#2026-03-01", "2026-03-01"),
        ("day", "day:day@Europe/Berlin", "DAY#2026-03-01", "2026-03-01"),
        ("week", "week:day", "WEEK#2026-W06", "2026-02-02"),
        ("month", "month:day", "MONTH#2026-03", "2026-03-01"),
        ("formatted", "at:day", "QUARTER#2026-Q2", "2026-04-01"),
        ("formatted", "at:day@Europe/Berlin", "QUARTER#2026-Q2", "2026-04-01"),
    ] {
        assert_eq!(day_in(rollup, partition, sort).as_deref(), Some(day), "{rollup} {partition} {sort}");
    }
    let other = "[datasets.rows]\nof = \"month\"\npartition = \"month:day@Asia/Tokyo\"\ncolumns = { days = \"int64\" }\n";
    assert_eq!(first_code(&[DEPOTS, other].concat()), ProblemCode::FormatTooFine);
}

/// Quarters whose variable has a format.
const MONTHS: &str = r##"
[rollups.formatted]
key = { PK = "ALL", SK = "QUARTER#{at:quarter@Europe/Berlin}" }
[[aggregates]]
name = "quarters"
of = "scan"
into = "formatted"
measures.scans = "count"
"##;

#[test]
fn a_number_in_a_key_is_not_compared_as_text() {
    let scores = |key: &str, bind: &str, measure: &str| {
        let model = format!(
            r##"
name = "scores"
generation = 1
tables.T = {{ key = ["id", "n"], types = {{ n = "N" }} }}
entities.e = {{ key = {{ id = "E#{{id}}", n = "{{n}}" }}, attributes = {{ score = "N", level = "S", at = "N" }}, derive.twice = {{ size = "level" }} }}
rollups.by = {{ key = {{ PK = "S#{{{key}}}", SK = "R" }} }}
rollups.all = {{ key = {{ PK = "ALL", SK = "R" }} }}
[[aggregates]]
name = "by"
of = "e"
into = "by"
{bind}
measures.entries = "count"
[[aggregates]]
name = "all"
of = "by"
into = "all"
measures.best = {measure}
"##
        );
        let report = Model::check(&model, "scores.toml");
        report.model.is_none().then(|| report.problems[0].code)
    };
    let largest = |key: &str| format!("{{ max = \"{key}\" }}");
    let unfit = Some(ProblemCode::UnfitMeasureValue);
    for (key, bind) in [("score", ""), ("n", ""), ("twice", ""), ("x", "bind.x = \"score\"")] {
        assert_eq!(scores(key, bind, &largest(key)), unfit, "{key}");
        assert_eq!(scores(key, bind, "{ max = \"entries\" }"), None, "{key}");
    }
    assert_eq!(scores("level", "", "{ latest = \"entries\", by = \"level\" }"), None);
    assert_eq!(scores("score", "", "{ latest = \"entries\", by = \"score\" }"), unfit);
    assert_eq!(scores("at:day", "", &largest("at:day")), None);
    let of_items = DEPOTS.replace(
        "tables.Scans.key = [\"pk\", \"sk\"]",
        "tables.Scans = { key = [\"pk\", \"sk\"], types.sk = \"N\" }",
    );
    let of_items = of_items.replace("SCAN#{scan}", "{scan}");
    let of_items = |measure: &str| {
        of_items.replace(
            "measures = { scans = \"count\",",
            &format!("measures = {{ scans = \"count\", {measure},"),
        )
    };
    assert_eq!(first_code(&of_items("last = { max = \"scan\" }")), ProblemCode::UnfitMeasureValue);
    assert!(Model::parse(&of_items("last = { max = \"scan:day\" }"), "depots.toml").is_ok());
}

#[test]
fn a_number_in_a_key_is_a_time_by_its_size() {
    const EPOCHS: &str = r##"
name = "epochs"
generation = 1
tables.T = { key = ["id", "ts"], types = { ts = "N" } }
entities.e = { key = { id = "E#{id}", ts = "{ts}" }, attributes = { at = "N" } }
rollups.day = { key = { PK = "DAY", SK = "{ts:day}" } }
rollups.at = { key = { PK = "AT", SK = "{at}" } }
rollups.month = { key = { PK = "MONTH", SK = "{at:month}" } }
[[aggregates]]
name = "entries"
of = "e"
into = ["day", "at"]
measures.entries = "count"
[[aggregates]]
name = "months"
of = "at"
into = "month"
measures.entries = { sum = "entries" }
"##;
    let model = Arc::new(Model::parse(EPOCHS, "epochs.toml").unwrap_or_else(|errors| panic!("{errors}")));
    assert_eq!(contributed(&model, ["AT", "1770388200"], &[("entries", 2)]), ["MONTH 2026-02 entries=2"]);
    let item: Item = [
        ("id".into(), AttributeValue::text("E#1".to_owned())),
        ("ts".into(), AttributeValue::N(1_770_388_200.into())),
        ("at".into(), AttributeValue::N(5.into())),
    ]
    .into();
    let keys =
        |target: &RollupTarget, _: &str, _: &Decimal| format!("{} {}", target.partition_key(), target.sort);
    assert_eq!(contributions_of_item(&model, 0, &item, keys), ["DAY 2026-02-06", "AT 5"]);
}

#[test]
fn a_source_has_expired_by_the_bucket_that_is_bound_into_its_key() {
    let model = Model::parse(DEPOTS, "depots.toml").unwrap_or_else(|errors| panic!("{errors}"));
    let has_expired = |sort: &str, at: &str| {
        let key = ["DEPOT#d", sort].map(|text| AttributeValue::text(text.to_owned()));
        let item = ["PK", "SK"].into_iter().map(Into::into).zip(key).collect();
        let source = SourceKey::of_item(&model, model.state_source().unwrap(), &item).unwrap();
        source.candidates(&model).keep_expired(Timestamp::parse(at).unwrap())
    };
    assert!(!has_expired("DAY#2026-07-02", "2026-07-02T21:59:59Z"));
    assert!(has_expired("DAY#2026-07-02", "2026-07-02T22:00:00Z"));
    assert!(!has_expired("WEEK#2026-W27", "2026-06-29T21:59:59Z"));
    assert!(has_expired("WEEK#2026-W27", "2026-06-29T22:00:00Z"));
}
