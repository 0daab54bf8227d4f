//! The page *Item*, inside `dev`.

use std::time::{Duration, Instant};

use afterwrite_tests::development::{Development, STATE, model_file, number, text};
use aws_sdk_dynamodb::primitives::Blob;
use aws_sdk_dynamodb::types::AttributeValue;
use serde_json::Value;

use super::http::{ConsoleClient, encoded};
use super::matches::{CountedMatches, PLAYERS, PlayedMatch, column, matches, row, tenths, written};

/// Files with a binary and a number key, of two kinds that a condition distinguishes.
const FILES: &str = r##"
name = "files"
generation = 4
[tables.Files]
key = ["owner", "at"]
types = { owner = "B", at = "N" }
[entities.image]
key = { owner = "{owner}", at = "{at}" }
attributes = { kind = "S", bytes = "N", until = "N" }
secret = ["password"]
when.kind = ["image"]
ttl = "until"
[entities.folder]
key = { owner = "{owner}", at = "{at}" }
attributes = { kind = "S", public = "BOOL" }
when.kind = ["folder"]
[rollups.usage]
key = { PK = "OWNER#{owner}", SK = "USAGE" }
[[aggregates]]
name = "usage"
of = "image"
into = "usage"
[aggregates.measures]
files = "count"
bytes = { sum = "bytes" }
large = { count = true, when.bytes = [{ numeric = [">", 1000] }] }
[[caches]]
of = "image"
keys = ["file:{at}"]
paths = ["/files/{at}"]
[[events]]
name = "uploaded"
of = "image"
"##;

fn item_page(console: &ConsoleClient, table: &str, partition: &str, sort: &str) -> Value {
    console.json(&format!("/item?table={table}&pk={}&sk={}", encoded(partition), encoded(sort)))
}

fn fact(table: &Value, name: &str) -> Value {
    row(table, "fact", name)["value"].clone()
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the release binaries: run tests/run"]
async fn an_item_has_its_shares_and_mirrors() {
    let counted = CountedMatches::start().await;
    shares_are_those_of_the_recount(&counted.console);
    mirrors_equal_their_rollups(&counted.console);
    a_mirror_that_differs_says_why(&counted).await;
    a_rollup_that_is_a_source_is_an_item(&counted.console);
    hostile_keys_are_text(&counted.console);
    deleted_items_have_a_tombstone(&counted).await;
}

fn shares_are_those_of_the_recount(console: &ConsoleClient) {
    for played in matches() {
        let (partition, sort) = played.key();
        let page = item_page(console, "Games", &partition, &sort);
        assert_eq!(fact(&page["item"], "entity"), "match");
        assert_eq!(fact(&page["item"], "{player}"), played.player);
        let shares = page["shares"].as_array().unwrap();
        let verdicts = shares.iter().filter(|share| !share["comparison"].is_null());
        assert!(verdicts.clone().all(|share| share["comparison"]["verdict"] == "good"), "{page}");
        assert!(verdicts.count() >= 8, "{page}");
        let score = shares.iter().find(|share| {
            share["PK"] == format!("PLAYER#{}", written(played.player)) && share["measure"] == "points"
        });
        if played.tenths > 0 {
            assert_eq!(score.unwrap()["of the item now"], tenths(played.tenths), "{page}");
            assert_eq!(score.unwrap()["counted"], tenths(played.tenths));
        }
        let best = shares.iter().find(|share| share["measure"] == "best").unwrap();
        assert_eq!(best["of the item now"], format!("at least {}", tenths(played.tenths)));
        assert_eq!(fact(&page["entry"], "counted by")["verdict"], "good");
        assert_eq!(fact(&page["entry"], "rev"), "1");
    }
}

fn mirrors_equal_their_rollups(console: &ConsoleClient) {
    for player in PLAYERS {
        let page = item_page(console, "Games", &format!("PLAYER#{player}"), "PLAYER");
        let count = matches().iter().filter(|played: &&PlayedMatch| played.player == player).count();
        let shown = row(&page["mirrors"], "attribute", "stats.matches");
        assert_eq!(
            (shown["on the item"].clone(), shown["of the rollup"].clone()),
            (count.to_string().into(), count.to_string().into())
        );
        assert_eq!(shown["comparison"]["verdict"], "good", "{page}");
        assert!(!shown["rev on the item"].is_null(), "{page}");
    }
}

/// Another program changes the rollup behind a copy: its value, its revision, and back.
async fn a_mirror_that_differs_says_why(counted: &CountedMatches) {
    let player = PLAYERS[0];
    let page = || item_page(&counted.console, "Games", &format!("PLAYER#{player}"), "PLAYER");
    let mirror = |page: &Value| row(&page["mirrors"], "attribute", "stats.matches").clone();
    let at_first = mirror(&page());
    let number_of = |column: &str| at_first[column].as_str().unwrap().parse::<i64>().unwrap();
    // A copy whose value is equal may keep an older revision.
    let (matches, copied_at) = (number_of("of the rollup"), number_of("rev on the item"));
    for (matches, rev, verdict, reason) in [
        (matches + 1, copied_at, "bad", "differs at the same revision"),
        (matches + 1, copied_at + 1, "warning", "the copy is older"),
        (matches, copied_at - 1, "bad", "has not reached the copy's revision"),
        (matches, number_of("rev of the rollup"), "good", "equal"),
    ] {
        let update = counted.development.client.update_item().table_name(STATE);
        let update = update.key("PK", text(&format!("PLAYER#{player}"))).key("SK", text("ROLLUP"));
        let update = update.update_expression("SET matches = :matches, rev = :rev");
        let update = update.expression_attribute_values(":matches", number(&matches.to_string()));
        update.expression_attribute_values(":rev", number(&rev.to_string())).send().await.unwrap();
        let shown = mirror(&page());
        let text = shown["comparison"]["text"].as_str().unwrap();
        assert!(shown["comparison"]["verdict"] == verdict && text.contains(reason), "{reason}: {shown}");
        assert_eq!(shown["copy of"], "this rollup");
    }
}

fn a_rollup_that_is_a_source_is_an_item(console: &ConsoleClient) {
    let member = &matches()[0];
    let key = (
        format!("PLAYER#{}#DISTINCT#rivals", written(member.player)),
        format!("ROLLUP#{}", written(&member.rival())),
    );
    let page = item_page(console, "%40state", &key.0, &key.1);
    assert_eq!(fact(&page["item"], "entity"), "player.rivals", "{page}");
    assert_eq!(column(&page["shares"], "measure"), ["rivals"], "{page}");
    assert_eq!(page["shares"][0]["comparison"]["verdict"], "good");
}

fn hostile_keys_are_text(console: &ConsoleClient) {
    for (partition, sort) in [
        ("PLAYER#<script>alert(1)</script>".to_owned(), "MATCH#1".to_owned()),
        ("\"'><img src=x onerror=alert(1)>".to_owned(), "#".to_owned()),
        ("p".repeat(2_048), "s".repeat(1_024)),
    ] {
        let page =
            console.get(&format!("/item?table=Games&pk={}&sk={}", encoded(&partition), encoded(&sort)));
        assert_eq!(page.status, 200, "{}", page.body);
        assert!(!page.body.contains("<script>alert") && !page.body.contains("<img"), "{}", page.body);
    }
    for (query, problem) in [
        ("table=Games&pk=a".to_owned(), "lacks the sort key"),
        ("table=Nothing&pk=a&sk=b".to_owned(), "no such table"),
        (format!("table=Games&pk={}&sk=b", "p".repeat(2_049)), "longer than the 2048 bytes"),
    ] {
        let refused = console.get(&format!("/item?{query}"));
        assert!(refused.status == 400 && refused.body.contains(problem), "{query}: {}", refused.body);
    }
    let unknown = item_page(console, "Games", "SOMETHING#1", "ELSE#2");
    assert_eq!(fact(&unknown["item"], "exists")["text"], "no");
    assert_eq!(column(&unknown["entities"], "entity"), ["player", "match"], "{unknown}");
}

async fn deleted_items_have_a_tombstone(counted: &CountedMatches) {
    let played = &matches()[3];
    let (partition, sort) = played.key();
    let delete = counted.development.client.delete_item().table_name("Games");
    delete.key("PK", text(&partition)).key("SK", text(&sort)).send().await.unwrap();
    let page = until(
        || item_page(&counted.console, "Games", &partition, &sort),
        |page| !fact(&page["entry"], "tombstone until").is_null(),
    )
    .await;
    assert_eq!(fact(&page["item"], "exists")["text"], "no");
    assert!(page["shares"].as_array().unwrap().is_empty(), "{page}");
    let html = counted
        .console
        .get(&format!("/item?table=Games&pk={}&sk={}", encoded(&partition), encoded(&sort)))
        .body;
    assert!(html.contains("The entry is a tombstone"), "{html}");
    assert!(html.contains("If TTL deleted it, it stays counted"), "the model keeps expired matches: {html}");
}

/// Reads a page again until it meets a condition.
pub(super) async fn until(read: impl Fn() -> Value, holds: impl Fn(&Value) -> bool) -> Value {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        let page = read();
        if holds(&page) {
            return page;
        }
        assert!(Instant::now() < deadline, "{page}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// An owner whose key is not UTF-8.
const OWNER: [u8; 3] = [0, 255, b'<'];
const OWNER_BASE64: &str = "AP88";

async fn put(development: &Development, at: &str, attributes: &[(&str, AttributeValue)]) {
    let put = development.client.put_item().table_name("Files");
    let mut put = put.item("owner", AttributeValue::B(Blob::new(OWNER))).item("at", number(at));
    for (name, value) in attributes {
        put = put.item(*name, value.clone());
    }
    put.send().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the release binaries: run tests/run"]
async fn an_item_shows_why_it_does_not_count_and_never_a_secret() {
    let (_folder, model) = model_file(FILES);
    for shows_items in [true, false] {
        let mut arguments = vec!["--model", model.to_str().unwrap()];
        arguments.extend(shows_items.then_some("--show-items"));
        let development = Development::start(&arguments);
        let console = ConsoleClient::of(&development);
        let image = [
            ("kind", text("image")),
            ("bytes", number("12")),
            ("password", text("hunter2")),
            ("until", number("1900000000")),
        ];
        put(&development, "7", &image).await;
        put(&development, "8", &[("kind", text("link"))]).await;
        put(&development, "9", &[("kind", text("image")), ("bytes", text("many<b>"))]).await;
        counted_files_show_everything(&console, shows_items).await;
        other_files_show_why_they_do_not_count(&console, shows_items).await;
        binary_keys_are_found_again(&console);
    }
}

async fn counted_files_show_everything(console: &ConsoleClient, shows_items: bool) {
    let page = until(
        || item_page(console, "Files", OWNER_BASE64, "7.0"),
        |page| page["shares"][0]["comparison"]["verdict"] == "good",
    )
    .await;
    assert_eq!(fact(&page["item"], "{at}"), "7", "{page}");
    assert_eq!(fact(&page["item"], "never leaves the table"), "password");
    assert!(fact(&page["item"], "expires").as_str().unwrap().starts_with("2030-"), "{page}");
    assert_eq!(column(&page["shares"], "measure"), ["bytes", "files"]);
    assert_eq!(column(&page["shares"], "total now"), ["12", "1"]);
    assert_eq!(column(&page["stale"], "key or path"), ["file:7", "/files/7"]);
    assert_eq!(column(&page["events"], "event"), ["uploaded"]);
    let html = || Value::from(console.get(&format!("/item?table=Files&pk={OWNER_BASE64}&sk=7")).body);
    let html = until(html, |html| html.as_str().unwrap().contains("Events of its newest change")).await;
    assert!(html.as_str().unwrap().contains("INSERT, counted"), "{html}");
    let left_out = &page["left_out"][0];
    assert_eq!(left_out["part of the model"], "aggregate usage: measure large", "{page}");
    let value = if shows_items { "bytes is 12" } else { "hidden: --show-items shows it" };
    assert_eq!(left_out["the item"], value);
    let text_of_page =
        page.to_string() + &console.get(&format!("/item?table=Files&pk={OWNER_BASE64}&sk=7")).body;
    assert!(!text_of_page.contains("hunter2"), "{text_of_page}");
    assert_eq!(text_of_page.contains("1900000000"), shows_items, "the contents: {text_of_page}");
}

async fn other_files_show_why_they_do_not_count(console: &ConsoleClient, shows_items: bool) {
    let neither = item_page(console, "Files", OWNER_BASE64, "8");
    assert_eq!(column(&neither["entities"], "entity"), ["image", "folder"], "{neither}");
    assert!(column(&neither["entities"], "needs")[0].contains("image"), "{neither}");
    let parked = until(
        || item_page(console, "Files", OWNER_BASE64, "9"),
        // The page has no table before the item has an entry.
        |page| page["entry"].is_array() && !fact(&page["entry"], "parked").is_null(),
    )
    .await;
    assert_eq!(fact(&parked["entry"], "parked")["verdict"], "bad", "{parked}");
    let html = console.get(&format!("/item?table=Files&pk={OWNER_BASE64}&sk=9")).body;
    assert!(html.contains("afterwrite redrive --yes") && html.contains("It cannot be counted"), "{html}");
    assert!(!html.contains("<b>"), "{html}");
    assert_eq!(html.contains("many"), shows_items, "{html}");
}

fn binary_keys_are_found_again(console: &ConsoleClient) {
    for (key, problem) in [("pk=A&sk=7", "binary"), ("pk=AP88&sk=seven", "is a number")] {
        let refused = console.get(&format!("/item?table=Files&{key}"));
        assert!(refused.status == 400 && refused.body.contains(problem), "{}", refused.body);
    }
    let rollup = encoded(&format!("OWNER#{OWNER_BASE64}"));
    let page = console.json(&format!("/rollups/contributors?pk={rollup}&sk=USAGE"));
    assert_eq!(page["progress"][0]["contributors"], "1", "{page}");
    assert_eq!(page["progress"][0]["uncountable"], "1", "{page}");
    assert_eq!(row(&page["sums"], "measure", "bytes")["comparison"]["verdict"], "good", "{page}");
    let entry =
        console.get(&format!("/rollups/at?pk={}&sk=7", encoded(&format!("LEDGER#Files#{OWNER_BASE64}"))));
    assert!(entry.body.contains("is not a rollup"), "{}", entry.body);
    assert!(entry.body.contains("/item?table=Files&amp;pk=AP88&amp;sk=7"), "{}", entry.body);
}
