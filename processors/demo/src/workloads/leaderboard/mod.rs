//! A month of an online game: players play matches, and boards rank them.

mod players;
mod recount;
mod studio;

use fastrand::Rng;
use jiff::Timestamp;

use self::players::PlayerWriter;
use self::studio::GameStudio;
use super::tools::{CHART_ROWS, LANES, play, share, short_id, single_table};
use crate::chart::{Chart, cells};
use crate::rollups::{RollupSet, number};
use crate::script::Script;
use crate::workload::{Workload, WorkloadQuestion};

/// The table's name, as the model knows it.
const TABLE: &str = "GameTable";
const GAMES: [&str; 3] = ["comet-chase", "galaxy-invaders", "meteor-blasters"];

pub(super) const WORKLOAD: Workload = Workload {
    model: "leaderboard",
    about: "A month of an online game",
    unit: "matches",
    usual_size: 2000,
    questions: &[WorkloadQuestion::Saved("best_ratio")],
    tables: || single_table(TABLE, &[]),
    script,
    recount: recount::recount,
    archived_rollup: is_read,
    charts: |_, rollups| vec![boards(rollups), games(rollups)],
};

fn script(mut random: Rng, size: u64, now: Timestamp) -> Script {
    let writers = (0..LANES).map(|lane| {
        let players = share(size.div_ceil(20).max(8), LANES, lane);
        let players = (0..players).map(|_| format!("player-{}", short_id(&mut random))).collect();
        PlayerWriter { random: random.fork(), players, now }
    });
    let writers = writers.collect();
    play(size, writers, Some(&mut GameStudio { random: random.fork() }))
}

/// The weeks of games make cached boards stale, and the totals of players have an event. Members of a distinct count have the sort keys of weeks.
fn is_read(partition: &str, sort: &str) -> bool {
    let is_game = partition.starts_with("GAME#") && !partition.contains("#DISTINCT#");
    (is_game && sort.starts_with("ROLLUP#WEEK#"))
        || (partition.starts_with("PLAYER#") && sort.starts_with("ROLLUP#GAME#"))
}

/// The players with most points in a game.
fn boards(rollups: &RollupSet) -> Chart {
    let columns = ["player and game", "matches", "wins", "losses", "win rate", "top score", "points"];
    let mut chart = Chart::new("The boards of all time", &columns);
    for (key, measures) in &rollups.0 {
        let Some(game) = key.1.strip_prefix("ROLLUP#GAME#") else { continue };
        let subject = format!("{} {game}", key.0.trim_start_matches("PLAYER#"));
        let names = ["matches", "wins", "losses", "win_rate", "top_score", "points"];
        chart.add_bar(cells(&subject, measures, &names, "0"), number(measures, "points"));
    }
    chart.top(CHART_ROWS)
}

/// The players of each game, by league.
fn games(rollups: &RollupSet) -> Chart {
    let columns = ["game", "matches", "record", "bronze", "silver", "gold", "players"];
    let mut chart = Chart::new("The players of the games", &columns);
    for (game, measures) in rollups.each("GAME#", "ROLLUP#TOTAL") {
        let names = ["matches", "record", "bronze", "silver", "gold", "players"];
        chart.add_bar(cells(game, measures, &names, "0"), number(measures, "players"));
    }
    chart.top(CHART_ROWS)
}
