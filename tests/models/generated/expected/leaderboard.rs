//! leaderboard: matches are rows. The rollups of a game's weeks make the cached pages of boards stale.

use afterwrite_demo::item::{SdkItem as Item, integer_of, text_of};

use super::{ExpectedRow, key, present};

pub(super) fn cache_keys(_: &str, item: &Item) -> Vec<String> {
    let (partition, sort) = (text_of(item, "PK"), text_of(item, "SK"));
    let (kind, id) = partition.split_once('#').expect("a key");
    match (kind, sort.split_once('#')) {
        ("PLAYER", Some(("SCORE", game))) => present([key(["player", id]), key(["score", id, game])]),
        ("PLAYER", Some(("MATCH", _))) => present([key(["player", id, "matches"])]),
        // Members of a distinct count have the same sort key, and another partition key. A week without matches counts as absent.
        ("GAME", Some(("ROLLUP", rest))) if !id.contains('#') && has_matches(item) => {
            rest.strip_prefix("WEEK#").and_then(|week| key(["board", id, week])).into_iter().collect()
        }
        _ => Vec::new(),
    }
}

fn has_matches(item: &Item) -> bool {
    let is_nonzero = |name: &str| integer_of(item, name).is_some_and(|number| number != 0);
    is_nonzero("matches") || is_nonzero("players")
}

pub(super) fn row<'i>(_: &str, item: &'i Item) -> Option<ExpectedRow<'i>> {
    let id = text_of(item, "SK").strip_prefix("MATCH#")?;
    let columns = ExpectedRow::of("matches", item, "ended_at")
        .text("match_id", Some(id))
        .text("player", text_of(item, "PK").strip_prefix("PLAYER#"))
        .scalar("game", "game")
        .scalar("score", "score")
        .scalar("outcome", "outcome")
        .instant("ended_at", "ended_at");
    Some(columns)
}
