//! A month of a photo-sharing network: users post, like, comment, follow, and change their minds.

mod items;
mod recount;

use std::sync::Arc;

use fastrand::Rng;
use jiff::Timestamp;
use serde_json::json;

use self::items::{NetworkPhoto, TABLE, comment, follow, follow_key, like, like_key, user, user_key};
use super::tools::{
    CHART_ROWS, LANES, LaneWriter, ROUNDS, chance, moment, play, share, short_id, single_table,
};
use crate::chart::{Chart, cells};
use crate::item::{SdkItem, with};
use crate::rollups::{RollupSet, number};
use crate::script::{PAST, Script, ScriptLane};
use crate::workload::{Workload, WorkloadQuestion};

pub(super) const WORKLOAD: Workload = Workload {
    model: "social",
    about: "A month of a photo-sharing network",
    unit: "visits of users",
    usual_size: 1000,
    questions: &[WorkloadQuestion::Saved("most_followed")],
    tables: || single_table(TABLE, &["GSI1"]),
    script,
    recount: recount::recount,
    archived_rollup: |_, _| false,
    charts: |_, rollups| vec![photos(rollups), users(rollups)],
};

fn script(mut random: Rng, size: u64, now: Timestamp) -> Script {
    let users: Vec<Vec<String>> = (0..LANES)
        .map(|lane| {
            let count = share(size.div_ceil(10).max(16), LANES, lane);
            (0..count).map(|_| format!("user-{}", short_id(&mut random))).collect()
        })
        .collect();
    let names: Arc<[String]> = users.iter().flatten().cloned().collect();
    let photos = (0..size.div_ceil(2).max(10)).map(|_| {
        let round = random.usize(..ROUNDS);
        let at = moment(&mut random, now, round);
        let owner = random.choice(&*names).cloned().unwrap_or_default();
        NetworkPhoto::new(&mut random, &owner, at, round)
    });
    let photos: Arc<[NetworkPhoto]> = photos.collect();
    let writers = users.into_iter().map(|users| UserWriter {
        random: random.fork(),
        users,
        names: Arc::clone(&names),
        photos: Arc::clone(&photos),
        now,
    });
    play(size, writers.collect(), None)
}

fn photos(rollups: &RollupSet) -> Chart {
    let mut chart = Chart::new("The photos that people like most", &["photo", "comments", "likes"]);
    for (photo, measures) in rollups.each("PHOTO#", "ROLLUP") {
        chart.add_bar(cells(photo, measures, &["comments", "likes"], "0"), number(measures, "likes"));
    }
    chart.top(CHART_ROWS)
}

fn users(rollups: &RollupSet) -> Chart {
    let mut chart =
        Chart::new("The users with most followers", &["user", "photos", "following", "followers"]);
    for (user, measures) in rollups.each("USER#", "ROLLUP#FOLLOWS") {
        let photos = rollups.number(&format!("USER#{user}"), "ROLLUP#PHOTOS", "photos");
        let mut cells = cells(user, measures, &["following", "followers"], "0");
        cells.insert(1, photos.to_string());
        chart.add_bar(cells, number(measures, "followers"));
    }
    chart.top(CHART_ROWS)
}

/// Writes some of the users, one after the other. Their likes and comments may be of anybody's photos.
#[derive(Debug)]
struct UserWriter {
    random: Rng,
    users: Vec<String>,
    names: Arc<[String]>,
    photos: Arc<[NetworkPhoto]>,
    now: Timestamp,
}

impl UserWriter {
    /// Posts the round's photos of the writer's users; some are deleted, or expire as stories do.
    fn post(&mut self, round: usize, lane: &mut ScriptLane) {
        for photo in
            self.photos.iter().filter(|photo| photo.round == round && self.users.contains(&photo.owner))
        {
            lane.put(TABLE, photo.item());
            match self.random.u8(..100) {
                0..10 => {
                    lane.set(TABLE, photo.key(), json!({ "url": "https://photos.example.com/edited.jpg" }))
                }
                10..18 => lane.delete(TABLE, photo.key()),
                18..26 => lane.set(TABLE, photo.key(), json!({ "ttl": PAST })),
                _ => {}
            }
        }
    }

    /// A like, perhaps taken back; perhaps given again.
    fn like(&mut self, photo: &NetworkPhoto, user: &str, at: Timestamp, lane: &mut ScriptLane) {
        lane.put(TABLE, like(&mut self.random, photo, user, at));
        if chance(&mut self.random, 20) {
            lane.delete(TABLE, like_key(photo, user));
            if self.random.bool() {
                lane.put(TABLE, like(&mut self.random, photo, user, at));
            }
        }
    }

    /// A comment, perhaps edited, deleted, or deleted by time to live.
    fn comment(&mut self, photo: &NetworkPhoto, user: &str, at: Timestamp, lane: &mut ScriptLane) {
        let comment = comment(&mut self.random, photo, user, at);
        let key = || -> SdkItem {
            let is_key = |name: &String| name == "PK" || name == "SK";
            comment
                .iter()
                .filter(|(name, _)| is_key(name))
                .map(|(name, value)| (name.clone(), value.clone()))
                .collect()
        };
        lane.put(TABLE, comment.clone());
        match self.random.u8(..100) {
            0..10 => lane.set(TABLE, key(), json!({ "content": "(edited)" })),
            10..20 => lane.delete(TABLE, key()),
            20..30 => lane.set(TABLE, key(), json!({ "ttl": PAST })),
            _ => {}
        }
    }

    fn follow(&mut self, follower: &str, at: Timestamp, lane: &mut ScriptLane) {
        let Some(followed) = self.random.choice(&*self.names).cloned() else { return };
        lane.put(TABLE, follow(&followed, follower, at));
        if chance(&mut self.random, 20) {
            lane.delete(TABLE, follow_key(&followed, follower));
        }
    }

    /// The user's own item is saved with counts of its own, or is deleted and created again.
    fn change_user(&mut self, name: &str, lane: &mut ScriptLane) {
        match self.random.u8(..100) {
            0..5 => {
                lane.put(TABLE, with(user(name), json!({ "follower_count": 1000, "photo_count": 0 })));
            }
            5..8 => {
                lane.delete(TABLE, user_key(name));
                if self.random.bool() {
                    lane.put(TABLE, user(name));
                }
            }
            _ => {}
        }
    }
}

impl LaneWriter for UserWriter {
    fn open(&mut self, lane: &mut ScriptLane) {
        self.users.iter().for_each(|name| lane.put(TABLE, user(name)));
    }

    fn write_round(&mut self, size: u64, round: usize, lane: &mut ScriptLane) {
        self.post(round, lane);
        let posted: Vec<NetworkPhoto> =
            self.photos.iter().filter(|photo| photo.round <= round).cloned().collect();
        for _ in 0..size {
            let Some(name) = self.random.choice(&self.users).cloned() else { return };
            let at = moment(&mut self.random, self.now, round);
            match (self.random.bool(), self.random.choice(&posted)) {
                (true, Some(photo)) => self.like(photo, &name, at, lane),
                (false, Some(photo)) => self.comment(photo, &name, at, lane),
                (_, None) => {}
            }
            if chance(&mut self.random, 70) {
                self.follow(&name, at, lane);
            }
            self.change_user(&name, lane);
        }
    }
}
