//! The page *Rollups*, inside `dev`: its numbers are those of a recount by the test.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::http::encoded;
use super::item::until;
use super::matches::{
    CountedMatches, PLAYERS, PlayedMatch, column, matches, measure, row, scores, tenths, written,
};

/// The quotient of tenths by a count, rounded half to even at six places, without zeros at its end.
fn mean(sum: i64, count: i64) -> String {
    let (dividend, divisor) = (i128::from(sum) * 1_000_000, i128::from(count) * 10);
    let (whole, rest) = (dividend / divisor, dividend % divisor);
    let rounds_up = 2 * rest > divisor || (2 * rest == divisor && whole % 2 == 1);
    let millionths = whole + i128::from(rounds_up);
    let text = format!("{}.{:06}", millionths / 1_000_000, millionths % 1_000_000);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn of_player(player: &str) -> Vec<PlayedMatch> {
    matches().into_iter().filter(|played| played.player == player).collect()
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the release binaries: run tests/run"]
async fn the_pages_of_rollups_show_what_was_counted() {
    let counted = CountedMatches::start().await;
    lists_the_rollups_of_the_model(&counted);
    pages_say_up_to_when_they_are_counted(&counted).await;
    one_rollup_has_all_of_its_measures(&counted);
    buckets_are_those_of_the_recount(&counted);
    buckets_of_partitions_are_read_by_key(&counted);
    partitions_are_listed_page_by_page(&counted);
    known_partitions_are_offered(&counted);
    ranks_are_those_of_the_recount(&counted);
    contributors_add_up_to_their_rollup(&counted);
    each_shard_has_contributors_of_its_own(&counted);
    hostile_keys_are_text_or_refused(&counted);
}

fn lists_the_rollups_of_the_model(counted: &CountedMatches) {
    let page = counted.console.json("/rollups");
    let names = column(&page["rollups"], "rollup");
    assert_eq!(names, ["score", "season", "hour", "local_day", "player", "player.rivals"]);
    let hour = row(&page["rollups"], "rollup", "hour");
    assert_eq!((hour["shards"].as_str(), hour["PK"].as_str()), (Some("2"), Some("GAME#{game}")));
    assert_eq!(row(&page["rollups"], "rollup", "player")["level"], "2", "it counts different rivals, too");
    let csv = counted.console.get("/rollups?format=csv").body;
    assert!(csv.starts_with("rollup,PK,SK,") && csv.lines().count() == 7, "{csv}");
    let html = counted.console.get("/rollups").body;
    assert!(html.contains(r#"href="/rollups/of?name=player%2Erivals""#), "{html}");
}

/// The page of a player's rollup has the measures of a recount.
fn assert_page_of_player(page: &Value, player: &str) {
    let played = of_player(player);
    let (sum, count) = (played.iter().map(|played| played.tenths).sum::<i64>(), played.len());
    assert_eq!(measure(page, "matches"), count.to_string(), "{player}: {page}");
    assert_eq!(measure(page, "points-sum"), tenths(sum), "{player}");
    assert_eq!(measure(page, "mean"), mean(sum, i64::try_from(count).unwrap()), "{player}");
    let best = played.iter().map(|played| played.tenths).max().unwrap();
    assert_eq!(measure(page, "best"), tenths(best), "{player}");
    assert_eq!(measure(page, "last"), "2026-03-29");
    let bins = [0, 50, 100].map(|from| {
        let is_in =
            |played: &&PlayedMatch| played.tenths >= from && (played.tenths < from + 50 || from == 100);
        played.iter().filter(is_in).count().to_string()
    });
    assert_eq!(column(&page["bins"], "count"), bins, "{player}");
    let rivals: BTreeSet<String> = played.iter().map(PlayedMatch::rival).collect();
    assert_eq!(measure(page, "rivals"), rivals.len().to_string());
    let fact = |name: &str| row(&page["facts"], "fact", name)["value"].clone();
    assert!(fact("rev").as_str().unwrap().parse::<u64>().unwrap() >= 1, "{page}");
    assert!(fact("updated_at").as_str().unwrap().starts_with("20"), "{page}");
    assert_eq!(fact("expires_at"), "never");
    assert_eq!(column(&page["mirrors"], "attribute"), ["stats.matches", "best"]);
    assert_eq!(column(&page["mirrors"], "item")[0], format!("PLAYER#{player} / PLAYER"));
}

/// Every page states the time up to which its sources are counted: matches are items of a table, different rivals are rollups. It comes to be
/// later than the last write, and is never in the future.
async fn pages_say_up_to_when_they_are_counted(counted: &CountedMatches) {
    let written = jiff::Timestamp::now();
    let page = || counted.console.json(&format!("/rollups/of/player?v.player={}", encoded(PLAYERS[0])));
    let reached = |page: &Value, table: &str| {
        let shown = row(&page["facts"], "fact", &format!("counted up to, of {table}"))["value"].clone();
        shown.as_str().and_then(|shown| shown.parse::<jiff::Timestamp>().ok())
    };
    let is_later = |page: &Value| ["Games", "rollups"].map(|table| reached(page, table) > Some(written));
    let page = until(page, |page| is_later(page) == [true, true]).await;
    let now = jiff::Timestamp::now();
    assert!(["Games", "rollups"].iter().all(|table| reached(&page, table) <= Some(now)), "{page}");
}

fn one_rollup_has_all_of_its_measures(counted: &CountedMatches) {
    for player in PLAYERS {
        let played = of_player(player);
        let by_values = counted.console.json(&format!("/rollups/of/player?v.player={}", encoded(player)));
        let stored = format!("PLAYER#{}", written(player));
        let by_key = counted.console.json(&format!("/rollups/at?pk={}&sk=ROLLUP", encoded(&stored)));
        for page in [&by_values, &by_key] {
            assert_page_of_player(page, player);
        }
        let members = format!("/rollups/of?name=player.rivals&v.player={}", encoded(player));
        let members = counted.console.json(&members);
        let mut rivals: BTreeMap<String, u32> = BTreeMap::new();
        played.iter().for_each(|played| *rivals.entry(played.rival()).or_default() += 1);
        assert_eq!(
            column(&members["rollups"], "SK"),
            rivals.keys().map(|rival| format!("ROLLUP#{}", written(rival))).collect::<Vec<_>>()
        );
        assert_eq!(
            column(&members["rollups"], "count"),
            rivals.values().map(ToString::to_string).collect::<Vec<_>>()
        );
    }
    let absent = counted.console.json("/rollups/of?name=player&v.player=nobody");
    assert_eq!(row(&absent["facts"], "fact", "state")["value"]["text"], "not stored");
    assert_eq!(measure(&absent, "matches"), "0");
    let html = counted.console.get("/rollups/at?pk=PLAYER%23nobody&sk=ROLLUP");
    assert_eq!(html.status, 200);
    assert!(html.body.contains("No such item is stored"), "{}", html.body);
}

/// The matches of a game by the hour of Berlin.
fn by_hour(game: &str) -> BTreeMap<String, Vec<PlayedMatch>> {
    let mut hours: BTreeMap<String, Vec<PlayedMatch>> = BTreeMap::new();
    for played in matches().into_iter().filter(|played| played.game == game) {
        hours.entry(played.hour_of_berlin()).or_default().push(played);
    }
    hours
}

fn buckets_are_those_of_the_recount(counted: &CountedMatches) {
    for game in ["go", "chess#960"] {
        let hours = by_hour(game);
        let range =
            format!("/rollups/of?name=hour&v.game={}&from=2026-03-29T00&to=2026-03-29T06", encoded(game));
        let page = counted.console.json(&range);
        let variable = "played_at:hour@Europe/Berlin";
        assert_eq!(column(&page["buckets"], variable), hours.keys().cloned().collect::<Vec<_>>());
        let counts: Vec<String> = hours.values().map(|played| played.len().to_string()).collect();
        assert_eq!(column(&page["buckets"], "matches"), counts);
        let all: usize = hours.values().map(Vec::len).sum();
        assert_eq!(measure(&page, "matches"), all.to_string(), "together");
        let filled = counted.console.json(&format!("{range}&zeros=1"));
        let buckets: Vec<String> = (0..7).map(|hour| format!("2026-03-29T{hour:02}")).collect();
        assert_eq!(column(&filled["buckets"], variable), buckets);
        assert_eq!(filled["buckets"][2]["matches"], "0", "an hour that the clocks of Berlin skip");
        let seconds: Vec<i64> = hours.values().flatten().map(PlayedMatch::seconds).collect();
        assert_percentiles(&page, seconds);
        let html = counted.console.get(&format!("{range}&measure=matches")).body;
        assert_eq!(html.matches("<rect").count(), hours.len() + bins_with_values(&page), "{html}");
        let (hour, played) = hours.first_key_value().unwrap();
        let values = format!("/rollups/of?name=hour&v.game={}&v.{}={hour}", encoded(game), encoded(variable));
        let one = counted.console.json(&values);
        let shards = column(&one["shards"], "matches")
            .iter()
            .map(|count| count.parse::<usize>().unwrap())
            .sum::<usize>();
        assert_eq!((measure(&one, "matches"), shards), (played.len().to_string(), played.len()));
    }
}

/// The bucket is in PK: its rollups are read by their keys.
fn buckets_of_partitions_are_read_by_key(counted: &CountedMatches) {
    let days = counted.console.json("/rollups/of?name=local_day&v.game=go&from=2026-03-28&to=2026-03-30");
    let of_go = matches().iter().filter(|played| played.game == "go").count();
    assert_eq!(column(&days["buckets"], "matches"), [of_go.to_string()]);
    assert_eq!(column(&days["buckets"], "played_at:day@city_zone"), ["2026-03-29"]);
    let long =
        counted.console.json("/rollups/of?name=local_day&v.game=go&from=2024-01-01&to=2026-12-31&zeros=1");
    assert_eq!(long["buckets"].as_array().unwrap().len(), 366, "a page");
    let html = counted.console.get("/rollups/of?name=local_day&v.game=go&from=2024-01-01&to=2026-12-31").body;
    assert!(html.contains("Next page, from 2025-01-01") && html.contains("from=2025%2D01%2D01"), "{html}");
    for (wrong, problem) in [
        ("from=2026-13-01&to=2026-12-31", "there is no such day"),
        ("from=2026-02-02&to=2026-02-01", "the last bucket is before the first"),
    ] {
        let refused = counted.console.get(&format!("/rollups/of?name=local_day&v.game=go&{wrong}"));
        assert!(refused.status == 400 && refused.body.contains(problem), "{}", refused.body);
        // The form with the values is beside the problem.
        assert!(refused.body.contains("Rollup local_day") && refused.body.contains(r#"value="go""#));
    }
}

fn bins_with_values(page: &Value) -> usize {
    column(&page["bins"], "count").iter().filter(|count| *count != "0").count()
}

/// Each estimate is within the relative error of the value with the nearest rank.
fn assert_percentiles(page: &Value, mut seconds: Vec<i64>) {
    seconds.sort_unstable();
    let percents = column(&page["percentiles"], "percent");
    assert_eq!(percents, ["50", "75", "90", "95", "99", "100"]);
    for (percent, estimate) in percents.iter().zip(column(&page["percentiles"], "estimate")) {
        let percent: usize = percent.parse().unwrap();
        let rank = (seconds.len() * percent).div_ceil(100).max(1);
        let exact = f64::from(i32::try_from(seconds[rank - 1]).unwrap());
        let estimate: f64 = estimate.parse().unwrap();
        assert!((estimate - exact).abs() <= 0.2 * exact, "{percent}: {estimate} for {exact}");
    }
}

fn partitions_are_listed_page_by_page(counted: &CountedMatches) {
    let season = format!("/rollups/of?name=season&v.{}=2026-Q1", encoded("played_at:quarter"));
    let page = counted.console.json(&season);
    let mut keys: Vec<String> = PLAYERS.iter().map(|player| format!("PLAYER#{}", written(player))).collect();
    keys.sort();
    assert_eq!(column(&page["rollups"], "SK"), keys);
    for (place, key) in keys.iter().enumerate() {
        let after = counted.console.json(&format!("{season}&after={}", encoded(key)));
        assert_eq!(column(&after["rollups"], "SK"), keys[place + 1..]);
    }
    for wrong in ["ROUND%231".to_owned(), format!("PLAYER%23{}", "x".repeat(1_024))] {
        let refused = counted.console.get(&format!("{season}&after={wrong}"));
        assert_eq!(refused.status, 400);
        assert!(refused.body.contains("the list has no such sort key"), "{}", refused.body);
    }
    let hours = counted.console.json("/rollups/of?name=hour&v.game=go");
    let expected: Vec<String> = by_hour("go").into_keys().map(|hour| format!("HOUR#{hour}")).collect();
    assert_eq!(column(&hours["rollups"], "SK"), expected, "the shards are added up");
    let expected: Vec<String> = by_hour("go").values().map(|played| played.len().to_string()).collect();
    assert_eq!(column(&hours["rollups"], "matches"), expected);
    let missing = counted.console.get("/rollups/of?name=score&v.game=go").body;
    assert!(missing.contains("write `player`, too"), "{missing}");
    let missing = counted.console.get("/rollups/of?name=score&v.game=go&format=json");
    assert_eq!(missing.status, 400, "{}", missing.body);
}

/// The partitions that changes have written are offered, with their values as they are.
fn known_partitions_are_offered(counted: &CountedMatches) {
    let page = counted.console.get("/rollups/of?name=hour").body;
    assert!(page.contains("Written by the newest changes"), "{page}");
    assert!(page.contains(r#"href="/rollups/of?name=hour&amp;v%2Egame=go">game = go</a>"#), "{page}");
    let chess = r#"href="/rollups/of?name=hour&amp;v%2Egame=chess%23960">game = chess#960</a>"#;
    assert!(page.contains(chess), "{page}");
    let hours = counted.console.json("/rollups/of?name=hour&v.game=go");
    assert!(hours["counted"][0]["fact"].as_str().unwrap().starts_with("counted up to"), "{hours}");
}

fn ranks_are_those_of_the_recount(counted: &CountedMatches) {
    for game in ["go", "chess#960"] {
        let scores = scores(game);
        let mut order: Vec<(i64, &str)> = scores.iter().map(|(player, score)| (*score, *player)).collect();
        order.sort_by_key(|(score, _)| -score);
        let page = format!("/rollups/rank?name=score&measure=points&v.game={}", encoded(game));
        let top = counted.console.json(&page);
        let points: Vec<String> = order.iter().map(|(score, _)| tenths(*score)).collect();
        assert_eq!(column(&top["top"], "points"), points, "{top}");
        let first = counted.console.json(&format!("{page}&top=2"));
        assert_eq!(column(&first["top"], "points"), points[..2]);
        for (score, player) in &order {
            let rank = 1 + order.iter().filter(|(other, _)| other > score).count();
            let (partition, sort) =
                (format!("PLAYER#{}", written(player)), format!("GAME#{}", written(game)));
            let own = format!(
                "/rollups/rank?name=score&measure=points&pk={}&sk={}",
                encoded(&partition),
                encoded(&sort)
            );
            let own = counted.console.json(&own);
            assert_eq!(column(&own["rank"], "rank"), [rank.to_string()], "{player}: {own}");
            assert_eq!(column(&own["around"], "points"), points, "{player}: all are within ten places");
            assert_eq!(row(&own["around"], "PK", &partition)["rank"], rank.to_string());
        }
    }
    let quarter = format!("/rollups/rank?name=season&v.{}=2026-Q1", encoded("played_at:quarter"));
    assert_eq!(counted.console.json(&quarter)["top"].as_array().unwrap().len(), PLAYERS.len());
    assert_eq!(counted.console.get("/rollups/rank?name=player").status, 400, "it has no rank");
    let link = r#"href="/rollups/rank?name=score&amp;measure=points""#;
    for page in ["/rollups", "/rollups/of?name=score"] {
        assert!(counted.console.get(page).body.contains(link), "{page} leads to the rank");
    }
    let chosen = counted.console.get("/rollups/of?name=score&v.game=go").body;
    assert!(
        chosen.contains(r#"href="/rollups/rank?name=score&amp;measure=points&amp;v%2Egame=go""#),
        "the group that is chosen: {chosen}"
    );
    let nowhere = counted.console.get("/rollups/score");
    assert!(nowhere.status == 404 && nowhere.body.contains("There is no such page"), "{}", nowhere.body);
}

fn contributors_add_up_to_their_rollup(counted: &CountedMatches) {
    for player in PLAYERS {
        let stored = format!("PLAYER#{}", written(player));
        let key = format!("pk={}&sk=ROLLUP", encoded(&stored));
        let page = counted.console.json(&format!("/rollups/contributors?{key}"));
        assert_eq!(page["progress"][0]["complete"], "yes", "{page}");
        let played = of_player(player);
        let matches_of: BTreeSet<String> =
            played.iter().map(|played| format!("PLAYER#{player} / MATCH#{}", played.number)).collect();
        let found: BTreeSet<String> = column(&page["contributors"], "item").into_iter().collect();
        let of_matches: BTreeSet<String> =
            found.iter().filter(|item| item.contains(" / MATCH#")).cloned().collect();
        assert_eq!(of_matches, matches_of);
        let rivals: BTreeSet<String> = played.iter().map(PlayedMatch::rival).collect();
        assert_eq!(
            found.len(),
            played.len() + rivals.len(),
            "the members of the distinct count, too: {page}"
        );
        for sum in page["sums"].as_array().unwrap() {
            assert_eq!(sum["comparison"]["verdict"], "good", "{player}: {sum}");
        }
        let sum = row(&page["sums"], "measure", "points-sum");
        assert_eq!(sum["stored"], tenths(played.iter().map(|played| played.tenths).sum()));
        let html = counted.console.get(&format!("/rollups/at?{key}")).body;
        assert!(html.contains(r#"hx-get="/rollups/contributors?pk="#), "{html}");
        // The page of its own is painted before its items are read; the first step is an address, too.
        let html = counted.console.get(&format!("/rollups/contributors?{key}")).body;
        assert!(html.contains("step=1") && !html.contains("items read"), "{html}");
        let html = counted.console.get(&format!("/rollups/contributors?{key}&step=1")).body;
        assert!(html.contains("All tables were read"), "{html}");
    }
}

fn each_shard_has_contributors_of_its_own(counted: &CountedMatches) {
    let hours = by_hour("go");
    let (hour, played) = hours.first_key_value().unwrap();
    let mut found = 0;
    for shard in 0..2 {
        let key = format!(
            "pk={}&sk={}",
            encoded(&format!("GAME#go#SHARD#{shard}")),
            encoded(&format!("HOUR#{hour}"))
        );
        let page = counted.console.json(&format!("/rollups/contributors?{key}"));
        found += page["progress"][0]["contributors"].as_str().unwrap().parse::<usize>().unwrap();
        for sum in page["sums"].as_array().unwrap() {
            assert_eq!(sum["comparison"]["verdict"], "good", "{sum}");
        }
    }
    assert_eq!(found, played.len());
    let unknown = counted.console.get("/rollups/contributors?pk=a&sk=b&search=none");
    assert!(unknown.status == 400 && unknown.body.contains("does not remember"), "{}", unknown.body);
}

fn hostile_keys_are_text_or_refused(counted: &CountedMatches) {
    let hostile = "<script>alert(1)</script>";
    for path in [
        format!("/rollups/of?name=player&v.player={}", encoded(hostile)),
        format!("/rollups/at?pk={}&sk={}", encoded(hostile), encoded("\"'><img src=x onerror=alert(1)>")),
        format!("/rollups/of?name={}", encoded(hostile)),
        format!("/rollups/rank?name=score&v.game={}", encoded(hostile)),
        format!("/rollups/contributors?pk={0}&sk={0}", encoded(hostile)),
        format!("/rollups/of?name=player&v.player={}", encoded(&"é".repeat(1_000))),
    ] {
        let page = counted.console.get(&path);
        assert!([200, 400].contains(&page.status), "{path}: {}", page.body);
        assert!(!page.body.contains("<script>alert") && !page.body.contains("<img"), "{path}: {}", page.body);
    }
    let long =
        counted.console.get(&format!("/rollups/of?name=player&v.player={}", encoded(&"é".repeat(1_021))));
    assert!(long.status == 400 && long.body.contains("longer than DynamoDB allows"), "{}", long.body);
    let long = counted.console.get(&format!("/rollups/at?pk={}&sk=x", "a".repeat(2_049)));
    assert!(long.status == 400 && long.body.contains("longer than DynamoDB allows"), "{}", long.body);
    assert_eq!(counted.console.get("/rollups/at?pk=a").status, 400);
}
