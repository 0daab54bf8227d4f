//! The games themselves.

use fastrand::Rng;
use serde_json::json;

use super::{GAMES, TABLE};
use crate::item::{SdkItem, with};
use crate::script::ScriptLane;
use crate::workloads::tools::{LaneWriter, chance, key};

/// Writes the items of the games.
#[derive(Debug)]
pub(super) struct GameStudio {
    pub(super) random: Rng,
}

fn game_key(game: &str) -> SdkItem {
    key(&format!("GAME#{game}"), "GAME")
}

fn game_item(game: &str) -> SdkItem {
    with(game_key(game), json!({ "name": game.replace('-', " "), "genre": "arcade" }))
}

impl LaneWriter for GameStudio {
    fn open(&mut self, lane: &mut ScriptLane) {
        GAMES.iter().for_each(|game| lane.put(TABLE, game_item(game)));
    }

    /// A game is saved as a whole with counts of its own, or is withdrawn and published again.
    fn write_round(&mut self, _: u64, _: usize, lane: &mut ScriptLane) {
        for game in GAMES {
            if chance(&mut self.random, 30) {
                lane.put(TABLE, with(game_item(game), json!({ "player_count": 0, "match_count": 7 })));
            }
            if chance(&mut self.random, 15) {
                lane.delete(TABLE, game_key(game));
                lane.put(TABLE, game_item(game));
            }
        }
    }
}
