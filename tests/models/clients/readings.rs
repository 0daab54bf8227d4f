//! The clients of a model with ranks, zones, escaped keys and numbers of different values read what was counted of a few matches.

use std::collections::{BTreeMap, BTreeSet};

use afterwrite_demo::exact::ExactNumber;
use afterwrite_model::table::Model;
use serde_json::{Map, Value, json};

use super::super::delivery::DeliveryOrder;
use super::super::values::dynamodb_json;
use super::super::workload::TableWorkload;
use super::toolchain::{ClientFolder, serving};

const MODEL: &str = include_str!("readers.toml");
const PLAYERS: [&str; 7] = ["ann", "ben", "cem#2", "dee%", "eva%23", "flo", "größe"];

/// A match: its player, game, points in tenths, and the minutes from midnight of 29 March 2026 in UTC. In that night, clocks are set forward
/// in Berlin.
struct PlayedMatch {
    player: &'static str,
    game: &'static str,
    tenths: i32,
    minute: i32,
}

impl PlayedMatch {
    fn points(&self) -> ExactNumber {
        ExactNumber::parse(&format!("{}.{}", self.tenths / 10, self.tenths % 10)).expect("a number")
    }

    /// A rival: without a name, or with a name that begins another rival's name.
    fn rival(&self) -> &'static str {
        match self.tenths % 3 {
            0 => "",
            1 => "rival#1",
            _ => "rival#12",
        }
    }

    fn seconds(&self) -> i32 {
        self.minute % 90 + 2
    }

    fn item(&self, number: usize) -> Value {
        json!({
            "PK": format!("PLAYER#{}", self.player), "SK": format!("MATCH#{number}"), "game": self.game,
            "points": f64::from(self.tenths) / 10.0, "seconds": self.seconds(), "rival": self.rival(),
            "played_at": format!("2026-03-29T{:02}:{:02}:00Z", self.minute / 60, self.minute % 60),
            "city_zone": if self.game == "go" { "Asia/Tokyo" } else { "America/New_York" },
        })
    }
}

fn matches() -> Vec<PlayedMatch> {
    let number = |place: usize| i32::try_from(place).expect("a small number");
    let played = (0..40).map(|place| PlayedMatch {
        player: PLAYERS[place * 5 % PLAYERS.len()],
        game: if place % 4 == 0 { "go" } else { "chess#960" },
        tenths: number(place) * 37 % 90,
        minute: number(place) * 23 % 240,
    });
    played.collect()
}

/// The points of each player in a game.
fn scores(game: &str) -> BTreeMap<&'static str, ExactNumber> {
    let mut scores = BTreeMap::new();
    for played in matches().iter().filter(|played| played.game == game) {
        let score: &mut ExactNumber = scores.entry(played.player).or_default();
        *score = score.plus(&played.points());
    }
    scores
}

fn measure(rollups: &Value, name: &str) -> Vec<String> {
    let rollups = rollups.as_array().unwrap_or_else(|| panic!("{rollups}"));
    rollups.iter().map(|rollup| rollup["measures"][name].as_str().expect("a number").to_owned()).collect()
}

fn model() -> Model {
    Model::parse(MODEL, "readers.toml").unwrap_or_else(|errors| panic!("{errors}"))
}

/// The answers of both clients to these requests, after all matches were counted.
async fn answers(requests: &[Value]) -> Vec<[Value; 2]> {
    let mut workload = TableWorkload::of_model(model());
    for player in PLAYERS {
        workload.put("Games", json!({ "PK": format!("PLAYER#{player}"), "SK": "PLAYER" }));
    }
    for (number, played) in matches().iter().enumerate() {
        workload.put("Games", played.item(number));
    }
    let counted = workload.deliver(DeliveryOrder::BatchTwice).await;
    let model = model();
    let server = serving(&model, &counted.tables().scan("state")).await;
    let folder = ClientFolder::of([&model]);
    folder.compile();
    let [typescript, python] = folder.answers(&model, &server.endpoint(), &json!(requests)).await;
    server.stop().await.expect("the server stops");
    assert_eq!([typescript.len(), python.len()], [requests.len(); 2]);
    typescript.into_iter().zip(python).map(|(typescript, python)| [typescript, python]).collect()
}

fn request(reader: &str, call: &str, arguments: Value) -> Value {
    json!({ "reader": reader, "call": call, "args": arguments })
}

/// The answer that both clients give.
fn same([typescript, python]: &[Value; 2]) -> &Value {
    assert_eq!(typescript, python);
    typescript
}

#[tokio::test]
#[ignore = "needs TypeScript and boto3: run tests/run"]
async fn ranks_are_those_of_the_sorted_scores() {
    let game = json!({ "game": "chess#960" });
    let mut requests = vec![
        request("score_by_points", "top", json!([game, 3])),
        request("score_by_points", "around", json!([{ "player": "cem#2", "game": "chess#960" }, 2])),
        request("score_by_points", "around", json!([{ "player": "nobody", "game": "chess#960" }, 2])),
        request("season_by_points", "top", json!([{ "played_at": "2026-Q1" }, 100])),
    ];
    let ranked = |player: &&str| {
        request("score_by_points", "rank_of", json!([{ "player": player, "game": "chess#960" }]))
    };
    requests.extend(PLAYERS.iter().map(ranked));
    let answers = answers(&requests).await;

    let scores = scores("chess#960");
    let mut sorted: Vec<&ExactNumber> = scores.values().collect();
    sorted.sort_by(|left, right| right.cmp(left));
    let texts = |scores: &[&ExactNumber]| scores.iter().map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!(measure(same(&answers[0]), "points"), texts(&sorted[..3]));
    let own = sorted.iter().position(|score| **score == scores["cem#2"]).expect("a place");
    let page = &sorted[own.saturating_sub(2)..(own + 3).min(sorted.len())];
    assert_eq!(measure(same(&answers[1]), "points"), texts(page));
    assert_eq!(*same(&answers[2]), json!([]));
    assert_eq!(same(&answers[3]).as_array().expect("players").len(), PLAYERS.len());
    for (player, answer) in PLAYERS.iter().zip(&answers[4..]) {
        let larger = sorted.iter().filter(|score| ***score > scores[player]).count();
        assert_eq!(*same(answer), json!((larger + 1).to_string()), "{player}");
    }
}

#[tokio::test]
#[ignore = "needs TypeScript and boto3: run tests/run"]
async fn buckets_follow_the_zones_of_the_model_and_of_the_items() {
    let chess = json!({ "game": "chess#960" });
    let (first, last) = ("2026-03-29T00", "2026-03-29T07");
    let mut filled = request("hour", "range", json!([chess, first, last]));
    filled["options"] = json!({ "zeros": true, "consistent": true });
    let answers = answers(&[
        filled,
        request("hour", "range", json!([chess, first, last])),
        request("hour", "moments", json!([chess, "2026-03-28T23:00:00Z", "2026-03-29T05:59:00Z"])),
        request("hour", "bucket", json!(["2026-03-29T01:30:00Z"])),
        request("local_day", "bucket", json!(["2026-03-29T01:30:00Z", "America/New_York"])),
        request("local_day", "get", json!([{ "played_at": "2026-03-28", "game": "chess#960" }])),
        request("local_day", "range", json!([{ "game": "go" }, "2026-03-27", "2026-03-30"])),
        request("hour", "range", json!([chess, last, first])),
    ])
    .await;

    let hours = hours_in_berlin();
    let counted: BTreeMap<String, u64> = (0..8)
        .map(|hour| format!("2026-03-29T{hour:02}"))
        .map(|hour| (hour.clone(), hours.get(&hour).copied().unwrap_or(0)))
        .collect();
    assert_eq!(counts_by_hour(same(&answers[0])), counted);
    assert_eq!(counted["2026-03-29T02"], 0, "the clocks skip this hour");
    assert_eq!([1, 2].map(|place| counts_by_hour(same(&answers[place]))), [hours.clone(), hours]);
    assert_eq!([same(&answers[3]), same(&answers[4])], [&json!("2026-03-29T03"), &json!("2026-03-28")]);
    let before =
        matches().iter().filter(|played| played.game == "chess#960" && played.minute < 4 * 60).count();
    assert_eq!(same(&answers[5])["measures"]["matches"], json!(before.to_string()));
    let go = matches().iter().filter(|played| played.game == "go").count();
    assert_eq!(measure(same(&answers[6]), "matches"), [go.to_string()]);
    assert_eq!(*same(&answers[7]), json!([]));
}

/// The number of matches of chess in each hour of Berlin.
fn hours_in_berlin() -> BTreeMap<String, u64> {
    let mut hours = BTreeMap::<String, u64>::new();
    for played in matches().iter().filter(|played| played.game == "chess#960") {
        // Berlin is an hour ahead of UTC, and two from 01:00 on.
        let hour = played.minute / 60 + if played.minute < 60 { 1 } else { 2 };
        *hours.entry(format!("2026-03-29T{hour:02}")).or_default() += 1;
    }
    hours
}

/// The same, as a client read it.
fn counts_by_hour(answer: &Value) -> BTreeMap<String, u64> {
    let counts = measure(answer, "matches").into_iter().map(|count| count.parse().expect("a count"));
    let keys = answer.as_array().expect("hours").iter();
    keys.map(|hour| hour["key"]["played_at"].as_str().expect("an hour").to_owned()).zip(counts).collect()
}

#[tokio::test]
#[ignore = "needs TypeScript and boto3: run tests/run"]
async fn measures_of_every_kind_are_exact_and_lists_have_pages() {
    let mut pages = request("score", "all", json!([{ "player": "cem#2" }]));
    pages["options"] = json!({ "limit": 1 });
    let key = json!({ "player": "cem#2" });
    let answers = answers(&[
        pages,
        request("player", "get", json!([key])),
        request("player", "total", json!([key])),
        request("hour", "percentile", json!([{ "game": "go" }, "length", 50])),
        request("player", "average", json!([key, "points-sum", "matches"])),
        request("player", "get", json!([{ "player": "nobody" }])),
        request("player", "numbers", json!([key])),
        request("", "mirrors", json!(["playerMirrors", mirrored()])),
    ])
    .await;

    let own: Vec<PlayedMatch> = matches().into_iter().filter(|played| played.player == "cem#2").collect();
    let games: BTreeSet<&str> = own.iter().map(|played| played.game).collect();
    let read = same(&answers[0]).as_array().expect("games").iter();
    assert!(read.map(|score| score["key"]["game"].as_str().expect("a game")).eq(games));
    let expected = expected_measures(&own);
    assert_eq!(same(&answers[1])["measures"], Value::Object(expected.clone()));
    let mut totals = expected.clone();
    totals.remove("rivals");
    assert_eq!(*same(&answers[2]), Value::Object(totals));
    assert_eq!(*same(&answers[4]), expected["mean"]);
    assert_median(same(&answers[3]));
    let nothing = json!({
        "matches": "0", "points-sum": "0", "best": null, "last": null, "in": ["0", "0", "0"], "rivals": "0", "mean": null,
    });
    assert_eq!([&same(&answers[5])["measures"], &same(&answers[5])["exists"]], [&nothing, &json!(false)]);
    let sum = expected["points-sum"].as_str().expect("a number").parse().expect("a number");
    assert_numbers(same(&answers[6]), own.len(), sum);
    let copy = |value: &str, rev: &str, of: &str| json!({ "value": value, "rev": rev, "of": of });
    let shown = json!({ "stats.matches": copy("4", "7", "abc"), "best": copy("8.5", "6", "abc") });
    assert_eq!(*same(&answers[7]), shown);
}

#[tokio::test]
#[ignore = "needs TypeScript and boto3: run tests/run"]
async fn a_value_of_a_key_is_read_as_a_whole_and_can_be_empty() {
    let key = json!({ "player": "cem#2" });
    let answers = answers(&[
        request("player_rivals", "all", json!([key])),
        request("player_rivals", "all", json!([{ "player": "cem#2", "rival": "rival#1" }])),
        request("player_rivals", "get", json!([{ "player": "cem#2", "rival": "" }])),
    ])
    .await;

    let own: Vec<PlayedMatch> = matches().into_iter().filter(|played| played.player == "cem#2").collect();
    let named = |answer| {
        let members = same(answer).as_array().expect("rivals").iter();
        members.map(|member| member["key"]["rival"].as_str().expect("a rival")).collect::<Vec<_>>()
    };
    assert_eq!(named(&answers[0]), ["", "rival#1", "rival#12"]);
    assert_eq!(named(&answers[1]), ["rival#1"], "no rival whose name begins with this one");
    let unnamed = own.iter().filter(|played| played.rival().is_empty()).count();
    assert_eq!(same(&answers[2])["measures"]["count"], json!(unnamed.to_string()));
}

/// Plain numbers: a sum is a float, and a text stays a text.
fn assert_numbers(written: &Value, matches: usize, sum: f64) {
    let numbers: Value = serde_json::from_str(written.as_str().expect("JSON")).expect("JSON");
    assert_eq!(numbers["matches"], json!(matches));
    assert_eq!([numbers["points-sum"].as_f64(), numbers["last"].as_f64()], [Some(sum), None]);
    assert_eq!(numbers["last"], json!("2026-03-29"));
}

/// An item that shows two measures, as DynamoDB returns it.
fn mirrored() -> Value {
    let stats = json!({ "matches": 4, "matches_rev": 7, "matches_of": "abc" });
    let item = json!({ "PK": "PLAYER#a", "SK": "PLAYER", "stats": stats, "best": 8.5, "best_rev": 6, "best_of": "abc" });
    dynamodb_json(&item)["M"].clone()
}

/// The measures of a player's matches.
fn expected_measures(matches: &[PlayedMatch]) -> Map<String, Value> {
    let sum = matches.iter().fold(ExactNumber::ZERO, |sum, played| sum.plus(&played.points()));
    let count = ExactNumber::from(i64::try_from(matches.len()).expect("a small number"));
    let bin =
        |bin: i32| matches.iter().filter(|played| (played.tenths / 50).min(2) == bin).count().to_string();
    let best = matches.iter().map(PlayedMatch::points).max().expect("a match");
    let rivals: BTreeSet<&str> = matches.iter().map(PlayedMatch::rival).collect();
    let mean = sum.divided_by(&count, 6).expect("a mean");
    let measures = json!({
        "matches": count.to_string(), "points-sum": sum.to_string(), "best": best.to_string(), "last": "2026-03-29",
        "in": [bin(0), bin(1), bin(2)], "rivals": rivals.len().to_string(), "mean": mean.to_string(),
    });
    measures.as_object().expect("measures").clone()
}

/// The median of the lengths of all matches of a game is within the relative error of its bins.
fn assert_median(estimate: &Value) {
    let mut seconds: Vec<i32> =
        matches().iter().filter(|played| played.game == "go").map(PlayedMatch::seconds).collect();
    seconds.sort_unstable();
    let exact = f64::from(seconds[(seconds.len() - 1) / 2]);
    let estimate: f64 = estimate.as_str().expect("a number").parse().expect("a number");
    assert!((estimate - exact).abs() <= 0.2 * exact, "{estimate} for {exact}");
}

#[tokio::test]
#[ignore = "needs TypeScript and boto3: run tests/run"]
async fn keys_that_a_rollup_cannot_have_are_refused_by_name() {
    let hour = |bucket: &str| json!([{ "game": "go", "played_at": bucket }]);
    let cases = [
        (
            request("hour", "get", hour("2026-3-29T1")),
            "played_at is not of the form yyyy-mm-ddThh, or there is no such hour",
        ),
        (request("hour", "get", hour("2026-02-30T01")), "there is no such hour"),
        (request("hour", "get", json!([{ "played_at": "2026-03-29T01" }])), "game is missing, or not a text"),
        (request("player", "get", json!([{ "player": "p".repeat(3000) }])), "longer than 2048 bytes"),
        (
            request("local_day", "bucket", json!(["2026-03-29T01:30:00Z"])),
            "played_at is in the zone of each item",
        ),
    ];
    let requests: Vec<Value> = cases.iter().map(|(request, _)| request.clone()).collect();
    for ((request, expected), answer) in cases.iter().zip(answers(&requests).await) {
        let error = same(&answer)["error"].as_str().unwrap_or_else(|| panic!("{request}: {answer:?}"));
        assert!(
            error.starts_with("RollupKeyError: rollup ") && error.contains(expected),
            "{request}: {error}"
        );
        assert!(!error.contains("2026-3"), "no value is in the message: {error}");
    }
}

#[tokio::test]
#[ignore = "needs TypeScript and boto3: run tests/run"]
async fn a_plain_key_that_would_be_another_groups_is_refused() {
    let model = Model::load("github").expect("a model");
    let server = serving(&model, &[]).await;
    let folder = ClientFolder::of([&model]);
    folder.compile();
    let key = |owner: &str, repo: &str| request("repo", "get", json!([{ "owner": owner, "repo": repo }]));
    let begun = request("repo", "all", json!([{ "owner": "a", "repo": "b#c" }]));
    let requests = json!([key("a#b", "c"), key("a", "b#c"), begun]);
    for answers in folder.answers(&model, &server.endpoint(), &requests).await {
        let error = answers[0]["error"].as_str().expect("an error");
        assert!(error.contains("the value of owner has text of the key after it"), "{error}");
        assert_eq!([&answers[1]["exists"], &answers[2]], [&json!(false), &json!([])]);
    }
    server.stop().await.expect("the server stops");
}

/// With plain keys, the items of both rollups have the form of the first one's keys.
const OVERLAPPING: &str = r##"
name = "overlapping"
generation = 1
tables.Sales.key = ["PK", "SK"]
[entities.sale]
key = { PK = "SHOP#{shop}", SK = "SALE#{sale}" }
attributes = { item = "S", sold_at = "S" }
[rollups.item]
key = { PK = "SHOP#{shop}", SK = "ITEM#{item}" }
[rollups.item_month]
key = { PK = "SHOP#{shop}", SK = "ITEM#{item}#MONTH#{sold_at:month}" }
[[aggregates]]
name = "items"
of = "sale"
into = "item"
measures.sales = "count"
[[aggregates]]
name = "months"
of = "sale"
into = "item_month"
measures.monthly = "count"
"##;

#[tokio::test]
#[ignore = "needs TypeScript and boto3: run tests/run"]
async fn a_list_has_no_items_of_rollups_with_longer_keys() {
    let model = || Model::parse(OVERLAPPING, "overlapping.toml").unwrap_or_else(|errors| panic!("{errors}"));
    let mut workload = TableWorkload::of_model(model());
    for sale in 0..4 {
        let (item, sold_at) = (["pen", "ink"][sale % 2], format!("2026-0{}-06", sale + 1));
        let key = ("SHOP#1", format!("SALE#{sale}"));
        workload.put("Sales", json!({ "PK": key.0, "SK": key.1, "item": item, "sold_at": sold_at }));
    }
    let counted = workload.deliver(DeliveryOrder::OneBatch).await;
    let (model, items) = (model(), counted.tables().scan("state"));
    let server = serving(&model, &items).await;
    let folder = ClientFolder::of([&model]);
    folder.compile();
    let shop = json!({ "shop": "1" });
    let mut pages = request("item", "all", json!([shop]));
    pages["options"] = json!({ "limit": 1 });
    let year = json!([{ "shop": "1", "item": "pen" }, "2026-01", "2026-12"]);
    let requests =
        json!([pages, request("item_month", "all", json!([shop])), request("item_month", "range", year)]);
    for answers in folder.answers(&model, &server.endpoint(), &requests).await {
        assert_eq!(measure(&answers[0], "sales"), ["2", "2"]);
        assert_eq!([1, 2].map(|place| measure(&answers[place], "monthly").len()), [4, 2]);
    }
    server.stop().await.expect("the server stops");
}
