//! Rollups whose bucket of time is filled by `bind`, in keys whose variables have no format: their pages have bars and ranges, and they expire by the
//! calendar of the bound bucket, on every level.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use afterwrite_tests::development::{Development, model_file, text};
use jiff::civil::Weekday;
use jiff::tz::TimeZone;
use jiff::{Span, Timestamp, ToSpan as _};
use serde_json::{Value, json};

use super::browser::walk;
use super::http::ConsoleClient;
use super::matches::{column, row};

/// Scans of parcels: each depot has days and weeks of Berlin, which are counted into the weeks of all depots.
const MODEL: &str = r##"
name = "depots"
generation = 1
tables.Scans.key = ["pk", "sk"]
entities.scan = { key = { pk = "DEPOT#{depot}", sk = "SCAN#{scan}" }, attributes = { at = "S" } }
rollups.depot_day = { key = { PK = "DEPOT#{depot}", SK = "DAY#{day}" }, expires = { after = "3650 days", of = "day" } }
rollups.depot_week = { key = { PK = "DEPOT#{depot}", SK = "WEEK#{week}" }, expires = { after = "3650 days", of = "week" } }
rollups.week = { key = { PK = "ALL", SK = "WEEK#{week}" }, expires = { after = "3650 days", of = "week" } }
[[aggregates]]
name = "days"
of = "scan"
into = "depot_day"
bind = { day = "at:day@Europe/Berlin" }
measures.scans = "count"
[[aggregates]]
name = "depot_weeks"
of = "scan"
into = "depot_week"
bind = { week = "at:week@Europe/Berlin" }
measures.scans = "count"
[[aggregates]]
name = "weeks"
of = "depot_week"
into = "week"
measures = { depots = "count", scans = { sum = "scans" } }
"##;
const SCANS: usize = 60;
const COUNTED_WITHIN: Duration = Duration::from_secs(60);

/// The moments of the scans: every 13 hours, so that many are on another day in Berlin than in UTC.
fn moments() -> Vec<Timestamp> {
    let first: Timestamp = "2026-06-20T09:30:00Z".parse().unwrap();
    (0..SCANS).map(|place| first + Span::new().hours(13 * i64::try_from(place).unwrap())).collect()
}

fn berlin() -> TimeZone {
    TimeZone::get("Europe/Berlin").unwrap()
}

/// The scans by the day in Berlin, each with the moment at which its rollup expires.
fn by_day() -> BTreeMap<String, (usize, String)> {
    counted(|at| {
        let day = at.to_zoned(berlin()).date();
        (day.to_string(), day)
    })
}

/// The scans by the week in Berlin.
fn by_week() -> BTreeMap<String, (usize, String)> {
    counted(|at| {
        let week = at.to_zoned(berlin()).date().iso_week_date();
        let monday = jiff::civil::ISOWeekDate::new(week.year(), week.week(), Weekday::Monday).unwrap();
        (format!("{:04}-W{:02}", week.year(), week.week()), monday.date())
    })
}

fn counted(
    bucket_of: impl Fn(Timestamp) -> (String, jiff::civil::Date),
) -> BTreeMap<String, (usize, String)> {
    let mut buckets: BTreeMap<String, (usize, String)> = BTreeMap::new();
    for at in moments() {
        let (bucket, first_day) = bucket_of(at);
        let begins = first_day.to_zoned(berlin()).unwrap().timestamp();
        let expires = begins + (24 * 3650_i64).hours();
        buckets.entry(bucket).or_insert((0, expires.to_string())).0 += 1;
    }
    buckets
}

/// The rows of the buckets of a page, once all scans are counted.
async fn buckets(console: &ConsoleClient, path: &str) -> Value {
    let deadline = Instant::now() + COUNTED_WITHIN;
    loop {
        let page = console.json(path);
        let counts = column(&page["buckets"], "scans");
        if counts.iter().filter_map(|count| count.parse::<usize>().ok()).sum::<usize>() == SCANS {
            return page["buckets"].clone();
        }
        assert!(Instant::now() < deadline, "{page}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

fn check(
    console: &ConsoleClient,
    buckets: &Value,
    variable: &str,
    expected: &BTreeMap<String, (usize, String)>,
    key: &str,
) {
    let counts: Vec<String> = expected.values().map(|(count, _)| count.to_string()).collect();
    assert_eq!(column(buckets, variable), expected.keys().cloned().collect::<Vec<_>>());
    assert_eq!(column(buckets, "scans"), counts);
    for (bucket, (_, expires)) in expected {
        let page = console.json(&format!("/rollups/at?{key}{bucket}"));
        assert_eq!(row(&page["facts"], "fact", "expires_at")["value"], expires.as_str(), "{bucket}");
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the release binaries and Chromium: run tests/run"]
async fn a_bucket_that_bind_fills_has_bars_ranges_and_an_expiry() {
    let (_folder, model) = model_file(MODEL);
    let development = Development::start(&["--model", model.to_str().unwrap()]);
    let console = ConsoleClient::of(&development);
    for (place, at) in moments().into_iter().enumerate() {
        let put = development.client.put_item().table_name("Scans").item("pk", text("DEPOT#d1"));
        put.item("sk", text(&format!("SCAN#{place}")))
            .item("at", text(&at.to_string()))
            .send()
            .await
            .unwrap();
    }
    let (days, weeks) = (by_day(), by_week());
    let of_depot = buckets(&console, "/rollups/of/depot_day?v.depot=d1&from=2026-06-01&to=2026-07-31").await;
    check(&console, &of_depot, "day", &days, "pk=DEPOT%23d1&sk=DAY%23");
    let of_weeks = buckets(&console, "/rollups/of/week?from=2026-W20&to=2026-W40").await;
    check(&console, &of_weeks, "week", &weeks, "pk=ALL&sk=WEEK%23");

    let texts = walk(
        development.announced["console"].as_str().unwrap(),
        &json!([
            { "open": "/rollups" },
            { "click": "td a::-p-text(depot_day)" },
            { "type": "input[name='v.depot']", "text": "d1" },
            { "type": "input[name=from]", "text": "2026-06-25" },
            { "type": "input[name=to]", "text": "2026-07-05" },
            { "click": "main form button" },
            { "wait": "svg.chart" },
            { "count": "svg.chart rect", "as": "bars" },
            { "read": "main", "as": "page" },
            { "judge": true },
        ]),
    );
    let within = days.range("2026-06-25".to_owned()..="2026-07-05".to_owned());
    assert_eq!(texts["bars"], within.clone().count().to_string(), "{texts:?}");
    for (day, (count, _)) in within {
        assert!(texts["page"].as_str().unwrap().contains(&format!("{day}\t{count}\t")), "{day}: {texts:?}");
    }
    development.stop();
}
