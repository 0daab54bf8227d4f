//! One writer's players: they join games and play matches; results are corrected, and cheaters lose their matches.

use fastrand::Rng;
use jiff::Timestamp;
use serde_json::json;

use super::{GAMES, TABLE};
use crate::item::{SdkItem, with};
use crate::script::{PAST, ScriptLane};
use crate::workloads::tools::{LaneWriter, chance, instant, key, moment, new_id, one_of};

const OUTCOMES: [&str; 5] = ["WIN", "WIN", "LOSS", "LOSS", "DRAW"];
const COUNTRIES: [&str; 4] = ["BR", "IN", "NO", "ZA"];

/// Writes some of the players, one after the other.
#[derive(Debug)]
pub(super) struct PlayerWriter {
    pub(super) random: Rng,
    pub(super) players: Vec<String>,
    pub(super) now: Timestamp,
}

impl PlayerWriter {
    fn match_item(&mut self, match_key: SdkItem, round: usize) -> SdkItem {
        let at = moment(&mut self.random, self.now, round);
        let attributes = json!({
            "game": one_of(&mut self.random, &GAMES), "score": self.score(),
            "outcome": one_of(&mut self.random, &OUTCOMES), "ended_at": instant(at),
            "duration_seconds": self.random.i64(30..900),
        });
        with(match_key, attributes)
    }

    /// A score; few are equal, and some are 0.
    fn score(&mut self) -> i64 {
        if chance(&mut self.random, 10) { 0 } else { 10 * self.random.i64(1..=30) }
    }

    /// A player's own number on the item that shows the derived ones.
    fn score_item(&mut self, player: &str, game: &str) -> SdkItem {
        with(score_key(player, game), json!({ "level": self.random.i64(1..=50) }))
    }

    fn change_match(&mut self, match_key: SdkItem, lane: &mut ScriptLane) {
        match self.random.u8(..100) {
            // A result is corrected: the highest score ever stays.
            0..10 => {
                let corrected =
                    json!({ "score": self.score(), "outcome": one_of(&mut self.random, &OUTCOMES) });
                lane.set(TABLE, match_key, corrected);
            }
            // The match was of another game.
            10..16 => lane.set(TABLE, match_key, json!({ "game": one_of(&mut self.random, &GAMES) })),
            // Another week.
            16..20 => {
                let at = instant(moment(&mut self.random, self.now, 0));
                lane.set(TABLE, match_key, json!({ "ended_at": at }));
            }
            // A cheater's match; some are played again under the same id.
            20..30 => {
                lane.delete(TABLE, match_key.clone());
                if self.random.bool() {
                    let again = self.match_item(match_key, 0);
                    lane.put(TABLE, again);
                }
            }
            // Deleted by time to live: the match stays counted.
            30..42 => lane.set(TABLE, match_key, json!({ "ttl": PAST })),
            _ => {}
        }
    }

    /// The player's items are saved by a client with numbers of its own, or deleted and created again.
    fn change_player(&mut self, player: &str, lane: &mut ScriptLane) {
        let game = one_of(&mut self.random, &GAMES);
        match self.random.u8(..100) {
            0..6 => {
                let stale = json!({ "Wins": 99, "Losses": 0 });
                let item = with(self.score_item(player, game), stale);
                lane.put(TABLE, item);
            }
            6..10 => {
                lane.delete(TABLE, score_key(player, game));
                if self.random.bool() {
                    let item = self.score_item(player, game);
                    lane.put(TABLE, item);
                }
            }
            10..14 => lane.set(
                TABLE,
                player_key(player),
                json!({ "country": one_of(&mut self.random, &COUNTRIES) }),
            ),
            _ => {}
        }
    }
}

fn player_key(player: &str) -> SdkItem {
    key(&format!("PLAYER#{player}"), "PLAYER")
}

fn score_key(player: &str, game: &str) -> SdkItem {
    key(&format!("PLAYER#{player}"), &format!("SCORE#{game}"))
}

impl LaneWriter for PlayerWriter {
    fn open(&mut self, lane: &mut ScriptLane) {
        for player in self.players.clone() {
            let country = one_of(&mut self.random, &COUNTRIES);
            lane.put(
                TABLE,
                with(player_key(&player), json!({ "name": "Ada \"π\" Łęcka", "country": country })),
            );
            let joined: Vec<SdkItem> = GAMES.iter().map(|game| self.score_item(&player, game)).collect();
            lane.put_together(TABLE, joined);
        }
    }

    fn write_round(&mut self, matches: u64, round: usize, lane: &mut ScriptLane) {
        for _ in 0..matches {
            let Some(player) = self.random.choice(&self.players).cloned() else { return };
            let match_key = key(&format!("PLAYER#{player}"), &format!("MATCH#{}", new_id(&mut self.random)));
            let played = self.match_item(match_key.clone(), round);
            lane.put(TABLE, played);
            self.change_match(match_key, lane);
            self.change_player(&player, lane);
        }
    }
}
