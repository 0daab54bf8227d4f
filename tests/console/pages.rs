//! The pages inside `dev`, with the application of a built-in model: their numbers, and their looks.

use std::collections::BTreeMap;

use afterwrite_demo::item::ItemValue;
use afterwrite_demo::rollups::RollupKey;
use serde_json::Value;

use super::application::CountedApplication;
use super::browser::{look, print_paints};
use super::http::{ConsoleClient, encoded};
use super::matches::{CountedMatches, PLAYERS, column};

/// The rollups of a page are checked up to this number.
const CHECKED: usize = 200;

/// The address of a stored rollup.
pub(super) fn rollup_path(RollupKey(partition, sort): &RollupKey) -> String {
    format!("/rollups/at?pk={}&sk={}", encoded(partition), encoded(sort))
}

/// The measures on the page of a rollup, by name.
fn shown_measures(page: &Value) -> BTreeMap<String, String> {
    let tables = page.as_object().unwrap();
    let rows = tables.values().filter_map(Value::as_array).flatten();
    let measures = rows.filter_map(|row| {
        Some((row.get("measure")?.as_str()?.to_owned(), row.get("value")?.as_str()?.to_owned()))
    });
    measures.collect()
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the release binaries: run tests/run"]
async fn the_numbers_of_pages_are_those_of_the_recount() {
    for (model, size) in [("exambuddy", 150), ("shop", 60)] {
        let application = CountedApplication::start(model, size, &[]).await;
        let console = ConsoleClient::of(&application.development);
        let mut checked = 0;
        for (key, measures) in application.recount.rollups.iter().take(CHECKED) {
            let path = rollup_path(key);
            let shown = shown_measures(&console.json(&path));
            for (name, expected) in measures {
                // Bins of histograms and percentiles have tables of their own.
                let Some(shown) = shown.get(name) else { continue };
                assert_eq!(*shown, expected.to_string(), "{path} {name}");
                checked += usize::from(matches!(expected, ItemValue::Number(_)));
            }
        }
        assert!(checked > CHECKED / 2, "only {checked} measures of {model} were compared");
    }
}

/// The addresses of the days of the project that has the most of them, of one of these days, of the items that count into it, and of all days of the
/// project's admin.
fn project_days(application: &CountedApplication) -> [String; 4] {
    let mut days: BTreeMap<(&str, &str), Vec<(&str, &RollupKey)>> = BTreeMap::new();
    for key in application.recount.rollups.keys() {
        let (Some(admin), Some(rest)) = (key.0.strip_prefix("ADMIN#"), key.1.strip_prefix("ROLLUP#PROJECT#"))
        else {
            continue;
        };
        if let Some((project, day)) = rest.split_once("#DAY#") {
            days.entry((admin, project)).or_default().push((day, key));
        }
    }
    let ((admin, project), days) = days.into_iter().max_by_key(|(_, days)| days.len()).unwrap();
    let [first, last] = [days.first(), days.last()].map(|day| day.unwrap().0);
    let [admin, project] = [admin, project].map(encoded);
    let series = format!("v.admin_id={admin}&v.project_id={project}&from={first}&to={last}");
    let day = rollup_path(days[0].1);
    [
        format!("/rollups/of/project_day?{series}"),
        day.clone(),
        day.replace("/rollups/at?", "/rollups/contributors?"),
        format!("/rollups/of/project_day?v.admin_id={admin}"),
    ]
}

/// A list for programs and the pages that it names have every rollup of its partition once.
fn every_page_names_the_next(application: &CountedApplication, list: &str) {
    let console = ConsoleClient::of(&application.development);
    let csv = console.get(&format!("{list}&format=csv"));
    assert!(csv.head.to_lowercase().contains("; rel=\"next\"\r\n"), "{}", csv.head);
    let (mut found, mut pages) = (Vec::new(), 0);
    let mut next = Some(format!("{list}&format=json"));
    while let Some(address) = next {
        let page: Value = serde_json::from_str(&console.get(&address).body).unwrap();
        found.extend(column(&page["rollups"], "SK"));
        next = page["next"].as_str().map(str::to_owned);
        pages += 1;
    }
    let (_, admin) = list.split_once("v.admin_id=").unwrap();
    let of_admin = |key: &&RollupKey| {
        key.0.strip_prefix("ADMIN#").is_some_and(|other| encoded(other) == admin)
            && key.1.starts_with("ROLLUP#PROJECT#")
            && key.1.contains("#DAY#")
    };
    let expected: Vec<&str> =
        application.recount.rollups.keys().filter(of_admin).map(|key| key.1.as_str()).collect();
    assert_eq!(found, expected);
    assert!(pages > 1, "{pages} page");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the release binaries and Chromium: run tests/run"]
async fn pages_of_dev_are_for_everyone() {
    let application = CountedApplication::start("exambuddy", 500, &["--show-items"]).await;
    let rollup = application.recount.rollups.keys().find(|key| key.0.starts_with("PROJECT#")).unwrap();
    let [buckets, day, contributors, days] = project_days(&application);
    let item = application.items.iter().find(|item| item.item.contains_key("SK")).unwrap();
    let text =
        |name: &str| item.item.get(name).and_then(|value| value.as_s().ok()).cloned().unwrap_or_default();
    let item_path = format!(
        "/item?table={}&pk={}&sk={}",
        encoded(&item.table),
        encoded(&text("PK")),
        encoded(&text("SK"))
    );
    every_page_names_the_next(&application, &days);
    let pages = [
        ("flow", "/".to_owned()),
        ("rollups", "/rollups".to_owned()),
        ("buckets", buckets),
        ("day", day),
        ("contributors", contributors),
        ("days", days),
        ("choice", "/rollups/of?name=project_day".to_owned()),
        ("rollup", rollup_path(rollup)),
        ("item", item_path),
        ("no-item", "/item".to_owned()),
        ("health", "/health".to_owned()),
        ("reports", "/health/reports".to_owned()),
        ("failures", "/health/failures".to_owned()),
        ("plan", "/health/run?command=verify".to_owned()),
        ("play", "/play".to_owned()),
        ("missing", "/health/job?id=none".to_owned()),
    ];
    let url = application.development.announced["console"].as_str().unwrap();
    look(url, &pages);
    if std::env::var_os("AFTERWRITE_CONSOLE_PAINTS").is_some() {
        print_paints(url, &pages);
    }
}

/// Ranks, shards, percentiles, different values and hostile names.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the release binaries and Chromium: run tests/run"]
async fn pages_of_ranks_shards_and_hostile_names_are_for_everyone() {
    let counted = CountedMatches::start().await;
    let (game, player) = (encoded("chess#960"), encoded(PLAYERS[4]));
    let hours = "from=2026-03-29T00&to=2026-03-29T07";
    let pages = [
        ("ranks", format!("/rollups/rank?name=score&measure=points&v.game={game}")),
        ("rank-form", "/rollups/rank?name=score&measure=points".to_owned()),
        (
            "shards",
            format!("/rollups/of/hour?v.game={game}&v.played_at%3Ahour%40Europe%2FBerlin=2026-03-29T05"),
        ),
        ("hours", format!("/rollups/of/hour?v.game={game}&{hours}&zeros=1")),
        ("player", format!("/rollups/of/player?v.player={player}")),
        ("members", format!("/rollups/of?name=player.rivals&v.player={player}")),
        (
            "own-item",
            format!("/item?table=Games&pk={}&sk=PLAYER", encoded(&format!("PLAYER#{}", PLAYERS[4]))),
        ),
    ];
    look(counted.development.announced["console"].as_str().unwrap(), &pages);
}
