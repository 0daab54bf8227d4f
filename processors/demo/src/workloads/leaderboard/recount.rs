//! The values to derive from the game's table, computed without the model.

use jiff::Timestamp;

use crate::exact::ExactNumber;
use crate::item::{ItemValue, SdkItem, TableItem, integer_of, text_of};
use crate::recount::{ExtremeRule, Recount, RollupSums, WorkloadOutcome, after, member, start_of_day};
use crate::rollups::{RollupKey, number};
use crate::workloads::tools::{day, days_before, week};

const DAY_SECONDS: i64 = 86_400;
/// The texts from which the time of the highest score is taken.
const SEEN: &str = "top_score_at_seen";

pub(super) fn recount(outcome: &WorkloadOutcome) -> Recount {
    let mut recount = Recount::of(outcome, |sums, TableItem { item, .. }| {
        if let Some(played) = played(item) {
            count(sums, &played);
        }
    });
    for played in outcome.images.iter().filter_map(|image| played(&image.item)) {
        see(&played, &mut recount);
    }
    recount.drop_expired(outcome.now);
    recount.average("win_rate", "wins", "matches");
    for (key, measures) in &mut recount.rollups {
        // Games have no wins.
        if key.0.starts_with("GAME#") {
            measures.remove("win_rate");
        }
        if let Some(ItemValue::Text(seen)) = measures.get(SEEN) {
            let time = seen.rsplit_once("\tS").map_or("", |(_, time)| time);
            measures.insert("top_score_at".to_owned(), ItemValue::Text(time.to_owned()));
        }
    }
    recount.computed.insert("top_score_at".to_owned());
    recount.count_members("players");
    leagues(&mut recount);
    outcome.items.iter().for_each(|stored| mirror(&stored.item, &mut recount));
    recount
}

/// A match.
struct PlayedMatch<'i> {
    player: &'i str,
    id: &'i str,
    game: &'i str,
    score: i64,
    outcome: &'i str,
    ended_at: &'i str,
}

fn played(item: &SdkItem) -> Option<PlayedMatch<'_>> {
    Some(PlayedMatch {
        player: after(text_of(item, "PK"), "PLAYER#")?,
        id: after(text_of(item, "SK"), "MATCH#")?,
        game: text_of(item, "game"),
        score: integer_of(item, "score")?,
        outcome: text_of(item, "outcome"),
        ended_at: text_of(item, "ended_at"),
    })
}

impl PlayedMatch<'_> {
    fn date(&self) -> &str {
        self.ended_at.get(..10).unwrap_or_default()
    }

    fn total(&self) -> RollupKey {
        total(self.player, self.game)
    }

    fn week(&self) -> RollupKey {
        let sort = format!("ROLLUP#WEEK#{}#{}", week(self.date()), self.game);
        RollupKey::new(format!("PLAYER#{}", self.player), sort)
    }

    fn of_game(&self) -> [RollupKey; 2] {
        let of_week = format!("ROLLUP#WEEK#{}", week(self.date()));
        [of_all_time(self.game), RollupKey::new(format!("GAME#{}", self.game), of_week)]
    }

    /// When the rollup of the player's week expires: 60 days after Monday.
    fn week_expires_at(&self) -> Option<i64> {
        let start = Timestamp::from_second(start_of_day(self.date())?).ok()?;
        let of_week = |time: &Timestamp| week(&day(*time)) == week(self.date());
        let monday = (0..7).rev().map(|days| days_before(start, days)).find(of_week)?;
        Some(monday.as_second() + 60 * DAY_SECONDS)
    }
}

fn total(player: &str, game: &str) -> RollupKey {
    RollupKey::new(format!("PLAYER#{player}"), format!("ROLLUP#GAME#{game}"))
}

fn of_all_time(game: &str) -> RollupKey {
    RollupKey::new(format!("GAME#{game}"), "ROLLUP#TOTAL")
}

fn count(sums: &mut RollupSums<'_>, played: &PlayedMatch<'_>) {
    let one = ExactNumber::one;
    let mut measures = vec![("matches", one()), ("points", played.score.into())];
    measures.extend((played.outcome == "WIN").then(|| ("wins", one())));
    measures.extend((played.outcome == "LOSS").then(|| ("losses", one())));
    for key in [played.total(), played.week()] {
        sums.add(key, &measures);
    }
    for key in played.of_game() {
        sums.add(member(&key, "players", played.player), &[("count", one())]);
        sums.add(key, &[("matches", one())]);
    }
}

/// The highest scores that were ever written, and when the rollups expire that were ever written.
fn see(played: &PlayedMatch<'_>, recount: &mut Recount) {
    let score = ItemValue::Number(played.score.into());
    for key in [played.total(), played.week()] {
        recount.see(&key, "top_score", score.clone(), ExtremeRule::Largest);
    }
    for key in played.of_game() {
        recount.see(&key, "record", score.clone(), ExtremeRule::Largest);
    }
    // Equal scores are in the order of the matches' keys, and of their times.
    let PlayedMatch { player, id, ended_at, .. } = played;
    let seen = format!("{}\t{player}#{id}\tS{ended_at}", score_order(played.score));
    recount.see(&played.total(), SEEN, ItemValue::Text(seen), ExtremeRule::Largest);
    if let Some(at) = played.week_expires_at() {
        recount.expire_at(played.week(), at);
    }
}

/// A text whose order is that of the scores: the sign, 500 and the number of digits, and the digits without the zeros at the end.
fn score_order(score: i64) -> String {
    let digits = score.to_string();
    if score == 0 { digits } else { format!("1{:03}{}", 500 + digits.len(), digits.trim_end_matches('0')) }
}

/// The league of each player in each game, by the points of all time.
fn leagues(recount: &mut Recount) {
    recount.above(|sums, below| {
        for (key, measures) in below {
            let Some(game) = key.1.strip_prefix("ROLLUP#GAME#") else { continue };
            // A player whose matches are all gone is in no league.
            if number(measures, "matches") == ExactNumber::ZERO {
                continue;
            }
            let points = number(measures, "points");
            let league = match (points >= 400.into(), points >= 1000.into()) {
                (false, _) => "bronze",
                (true, false) => "silver",
                (true, true) => "gold",
            };
            sums.add(of_all_time(game), &[(league, ExactNumber::one())]);
        }
    });
}

fn mirror(item: &SdkItem, recount: &mut Recount) {
    let (partition, sort) = (text_of(item, "PK"), text_of(item, "SK"));
    let place = format!("{partition} {sort}");
    if let (Some(player), Some(game)) = (after(partition, "PLAYER#"), after(sort, "SCORE#")) {
        let key = total(player, game);
        recount.mirror(&place, item, "TopScore", recount.computed(&key, "top_score"));
        recount.mirror(&place, item, "TopScoreDateTime", recount.computed(&key, "top_score_at"));
        recount.mirror(&place, item, "Wins", recount.sum(&key, "wins"));
        recount.mirror(&place, item, "Losses", recount.sum(&key, "losses"));
    }
    if let (Some(game), "GAME") = (after(partition, "GAME#"), sort) {
        let key = of_all_time(game);
        for (path, measure) in
            [("player_count", "players"), ("match_count", "matches"), ("gold_count", "gold")]
        {
            recount.mirror(&place, item, path, recount.sum(&key, measure));
        }
    }
}
