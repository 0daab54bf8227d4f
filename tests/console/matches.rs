//! Matches of a game, written into a running `dev`, and their recount: a model with buckets, shards, ranks, percentiles, numbers of different
//! values, mirrors and escaped keys.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use afterwrite_tests::development::{Development, model_file, number, text};
use serde_json::Value;
use tempfile::TempDir;

use super::http::{ConsoleClient, encoded};

const MODEL: &str = include_str!("../models/clients/readers.toml");
/// Names that are hostile in addresses, in keys and in pages.
pub(super) const PLAYERS: [&str; 7] =
    ["ann", "ben", "cem#2", "dee%", "<script>alert(1)</script>", "flo\"'&=", "größe"];
/// How long counting everything may take on a busy machine.
const COUNTED_WITHIN: Duration = Duration::from_secs(120);

/// A match: its player, game, points in tenths, and the minutes from midnight of 29 March 2026 in UTC. In that night, clocks are set forward
/// in Berlin.
#[derive(Clone, Debug)]
pub(super) struct PlayedMatch {
    pub(super) number: usize,
    pub(super) player: &'static str,
    pub(super) game: &'static str,
    pub(super) tenths: i64,
    pub(super) minute: i64,
}

impl PlayedMatch {
    pub(super) fn rival(&self) -> String {
        format!("rival#{}", self.tenths % 3)
    }

    pub(super) fn seconds(&self) -> i64 {
        self.minute % 90 + 2
    }

    /// The hour by the clocks of Berlin, which jump from 2 to 3 o'clock.
    pub(super) fn hour_of_berlin(&self) -> String {
        let utc = self.minute / 60;
        format!("2026-03-29T{:02}", if utc >= 1 { utc + 2 } else { utc + 1 })
    }

    pub(super) fn key(&self) -> (String, String) {
        (format!("PLAYER#{}", self.player), format!("MATCH#{}", self.number))
    }
}

/// All matches.
pub(super) fn matches() -> Vec<PlayedMatch> {
    let small = |place: usize| i64::try_from(place).unwrap();
    let played = (0..40).map(|place| PlayedMatch {
        number: place,
        player: PLAYERS[place * 5 % PLAYERS.len()],
        game: if place % 4 == 0 { "go" } else { "chess#960" },
        tenths: small(place) * 37 % 90,
        minute: small(place) * 23 % 240,
    });
    played.collect()
}

/// Tenths as an exact number.
pub(super) fn tenths(tenths: i64) -> String {
    match tenths % 10 {
        0 => format!("{}", tenths / 10),
        rest => format!("{}.{rest}", tenths / 10),
    }
}

/// The points of each player in a game, in tenths.
pub(super) fn scores(game: &str) -> BTreeMap<&'static str, i64> {
    let mut scores = BTreeMap::new();
    for played in matches().iter().filter(|played| played.game == game) {
        *scores.entry(played.player).or_default() += played.tenths;
    }
    scores
}

/// A value in a key of this model's rollups.
pub(super) fn written(value: &str) -> String {
    value.replace('%', "%25").replace('#', "%23")
}

/// A running `dev` that has counted all matches.
pub(super) struct CountedMatches {
    pub(super) development: Development,
    pub(super) console: ConsoleClient,
    _folder: TempDir,
}

impl CountedMatches {
    pub(super) async fn start() -> Self {
        let (folder, model) = model_file(MODEL);
        let development = Development::start(&["--model", model.to_str().unwrap(), "--show-items"]);
        for player in PLAYERS {
            let put = development.client.put_item().table_name("Games");
            let put = put.item("PK", text(&format!("PLAYER#{player}"))).item("SK", text("PLAYER"));
            put.send().await.unwrap();
        }
        for played in matches() {
            let (partition, sort) = played.key();
            let zone = if played.game == "go" { "Asia/Tokyo" } else { "America/New_York" };
            let at = format!("2026-03-29T{:02}:{:02}:00Z", played.minute / 60, played.minute % 60);
            let put = development.client.put_item().table_name("Games");
            let put =
                put.item("PK", text(&partition)).item("SK", text(&sort)).item("game", text(played.game));
            let put = put.item("points", number(&tenths(played.tenths))).item("rival", text(&played.rival()));
            let put = put.item("seconds", number(&played.seconds().to_string()));
            let put = put.item("played_at", text(&at)).item("city_zone", text(zone));
            put.send().await.unwrap();
        }
        let console = ConsoleClient::of(&development);
        let counted = Self { development, console, _folder: folder };
        counted.wait().await;
        counted
    }

    /// Waits until the numbers of all players are those of the recount, numbers of different rivals and mirrors included: they follow last.
    async fn wait(&self) {
        let deadline = Instant::now() + COUNTED_WITHIN;
        for player in PLAYERS {
            let played: Vec<PlayedMatch> =
                matches().into_iter().filter(|played| played.player == player).collect();
            let rivals: std::collections::BTreeSet<String> = played.iter().map(PlayedMatch::rival).collect();
            let count = played.len().to_string();
            loop {
                let page = format!("/rollups/of?name=player&v.player={}", encoded(player));
                let page = self.console.json(&page);
                let item = self.console.json(&format!(
                    "/item?table=Games&pk={}&sk=PLAYER",
                    encoded(&format!("PLAYER#{player}"))
                ));
                let mirror = row(&item["mirrors"], "attribute", "stats.matches");
                if measure(&page, "matches") == count
                    && measure(&page, "rivals") == rivals.len().to_string()
                    && mirror["on the item"] == count
                {
                    break;
                }
                assert!(Instant::now() < deadline, "{player}: {page} {item} {}", self.development.errors());
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

/// The row of a table whose column has a value.
pub(super) fn row<'t>(table: &'t Value, column: &str, value: &str) -> &'t Value {
    let rows = table.as_array().unwrap_or_else(|| panic!("no table: {table}"));
    rows.iter().find(|row| row[column] == value).unwrap_or(&Value::Null)
}

/// The texts of a column.
pub(super) fn column(table: &Value, name: &str) -> Vec<String> {
    let rows = table.as_array().unwrap_or_else(|| panic!("no table: {table}"));
    rows.iter().map(|row| row[name].as_str().unwrap_or_default().to_owned()).collect()
}

/// The value of a measure on the page of a rollup.
pub(super) fn measure(page: &Value, name: &str) -> String {
    row(&page["measures"], "measure", name)["value"].as_str().unwrap_or_default().to_owned()
}
