mod keys;

use std::sync::Arc;

use crate::entity::SourceKey;
use crate::projection::{
    ItemContributions, RollupTarget, RollupTargets, SearchedLookups, ShardAssignment, contributions,
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
    let projected =
        contributions(model, &candidates, (&image, &[]), &lookups, sharding, &mut targets).unwrap();
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
