//! Values in the keys of rollups: buckets of time, and numbers.

use super::*;
use crate::projection::snapshot_row;

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
}

#[test]
fn a_key_of_type_n_is_not_compared_as_text() {
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
