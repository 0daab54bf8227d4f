//! One writer's accounts: what happens in their repositories, and what they fork.

use std::sync::Arc;

use fastrand::Rng;
use jiff::Timestamp;
use serde_json::json;

use super::items::{
    Discussion, RepoName, TABLE, account, account_key, comment_id, member, member_key, plan, reactions,
};
use crate::item::with;
use crate::script::{PAST, ScriptLane};
use crate::workloads::tools::{LaneWriter, chance, moment};

/// Writes some of the accounts, one after the other.
#[derive(Debug)]
pub(super) struct AccountWriter {
    pub(super) random: Rng,
    pub(super) accounts: Vec<String>,
    /// The repositories of these accounts, without forks.
    pub(super) repos: Vec<RepoName>,
    /// All accounts.
    pub(super) everyone: Arc<[String]>,
    /// All repositories, without forks.
    pub(super) world: Arc<[RepoName]>,
    pub(super) now: Timestamp,
    pub(super) last_number: u32,
}

impl AccountWriter {
    fn anyone(&mut self) -> String {
        self.random.choice(&*self.everyone).cloned().unwrap_or_default()
    }

    /// An issue or a pull request, with comments and reactions.
    fn discuss(&mut self, repo: &RepoName, round: usize, lane: &mut ScriptLane) {
        self.last_number += 1;
        let discussion = Discussion {
            repo: repo.clone(),
            number: self.last_number,
            is_pull_request: chance(&mut self.random, 40),
            created_at: moment(&mut self.random, self.now, round),
        };
        lane.put(TABLE, discussion.item(&mut self.random));
        for _ in 0..self.random.u8(..3) {
            self.comment(&discussion, lane);
        }
        for _ in 0..self.random.u8(..3) {
            self.react(&discussion, lane);
        }
        self.change_later(&discussion, lane);
    }

    fn change_later(&mut self, discussion: &Discussion, lane: &mut ScriptLane) {
        let done = if discussion.is_pull_request { "Merged" } else { "Closed" };
        match self.random.u8(..100) {
            0..30 => lane.set(TABLE, discussion.key(), json!({ "status": done })),
            30..40 => {
                lane.set(TABLE, discussion.key(), json!({ "status": "Closed" }));
                lane.set(TABLE, discussion.key(), json!({ "status": "Open" }));
            }
            // Saved as a whole by a client with counts of its own.
            40..48 => {
                let stale = json!({ "comment_count": 99, "reaction_counts": { "heart": 7 } });
                lane.put(TABLE, with(discussion.item(&mut self.random), stale));
            }
            48..56 => lane.delete(TABLE, discussion.key()),
            // Archived by time to live: it stays counted.
            56..64 => lane.set(TABLE, discussion.key(), json!({ "ttl": PAST })),
            _ => {}
        }
    }

    fn comment(&mut self, discussion: &Discussion, lane: &mut ScriptLane) {
        let (id, author) = (comment_id(&mut self.random, discussion.created_at), self.anyone());
        lane.put(TABLE, discussion.comment(&id, &author));
        if !discussion.is_pull_request && chance(&mut self.random, 30) {
            let key = discussion.comment_reaction_key(&id, &author);
            lane.put(TABLE, with(key, reactions(&mut self.random)));
        }
        match self.random.u8(..100) {
            0..10 => lane.set(TABLE, discussion.comment_key(&id), json!({ "comment": "(edited)" })),
            10..20 => lane.delete(TABLE, discussion.comment_key(&id)),
            _ => {}
        }
    }

    /// A user's reactions; some change their mind.
    fn react(&mut self, discussion: &Discussion, lane: &mut ScriptLane) {
        let key = discussion.reaction_key(&self.anyone());
        lane.put(TABLE, with(key.clone(), reactions(&mut self.random)));
        match self.random.u8(..100) {
            0..30 => lane.put(TABLE, with(key, reactions(&mut self.random))),
            30..45 => lane.delete(TABLE, key),
            _ => {}
        }
    }

    fn star(&mut self, repo: &RepoName, lane: &mut ScriptLane) {
        let user = self.anyone();
        lane.put(TABLE, repo.star(&user));
        if chance(&mut self.random, 20) {
            lane.delete(TABLE, repo.star_key(&user));
        }
    }

    /// One of the accounts forks somebody else's repository; a fork may be deleted, or made independent.
    fn fork(&mut self, round: usize, lane: &mut ScriptLane) {
        let chosen =
            self.random.choice(&self.accounts).cloned().zip(self.random.choice(&*self.world).cloned());
        let Some((owner, source)) = chosen.filter(|(owner, source)| *owner != source.owner) else { return };
        let fork = RepoName { owner, name: source.name.clone() };
        let at = moment(&mut self.random, self.now, round);
        lane.put(TABLE, fork.item(at, Some(&source)));
        match self.random.u8(..100) {
            0..20 => lane.delete(TABLE, fork.key()),
            20..30 => lane.put(TABLE, fork.item(at, None)),
            _ => {}
        }
    }

    /// The repository's own item is saved with counts of its own, or is deleted and created again.
    fn change_repo(&mut self, repo: &RepoName, lane: &mut ScriptLane) {
        let at = moment(&mut self.random, self.now, 0);
        match self.random.u8(..100) {
            0..6 => lane.put(TABLE, with(repo.item(at, None), json!({ "star_count": 1000 }))),
            6..10 => {
                lane.delete(TABLE, repo.key());
                lane.put(TABLE, repo.item(at, None));
            }
            _ => {}
        }
    }

    /// A member joins, changes roles, or leaves.
    fn change_members(&mut self, organization: &str, lane: &mut ScriptLane) {
        let person = self.anyone();
        lane.put(TABLE, member(&mut self.random, organization, &person));
        match self.random.u8(..100) {
            0..20 => lane.set(TABLE, member_key(organization, &person), json!({ "role": "Owner" })),
            20..40 => lane.delete(TABLE, member_key(organization, &person)),
            _ => {}
        }
    }

    /// Another plan; a user becomes an organization, or an organization a user.
    fn change_account(&mut self, name: &str, lane: &mut ScriptLane) {
        match self.random.u8(..100) {
            0..10 => lane.set(TABLE, account_key(name), json!({ "payment_plan": plan(&mut self.random) })),
            10..16 => lane.set(TABLE, account_key(name), json!({ "type": "Organization" })),
            16..20 => lane.set(TABLE, account_key(name), json!({ "type": "User" })),
            _ => {}
        }
    }
}

impl LaneWriter for AccountWriter {
    fn open(&mut self, lane: &mut ScriptLane) {
        for name in self.accounts.clone() {
            let kind = if chance(&mut self.random, 30) { "Organization" } else { "User" };
            let at = moment(&mut self.random, self.now, 0);
            lane.put(TABLE, account(&mut self.random, &name, kind, at));
        }
        for repo in self.repos.clone() {
            let at = moment(&mut self.random, self.now, 0);
            lane.put(TABLE, repo.item(at, None));
        }
    }

    fn write_round(&mut self, discussions: u64, round: usize, lane: &mut ScriptLane) {
        for _ in 0..discussions {
            let Some(repo) = self.random.choice(&self.repos).cloned() else { return };
            self.discuss(&repo, round, lane);
            self.star(&repo, lane);
            self.change_repo(&repo, lane);
            if chance(&mut self.random, 40) {
                self.fork(round, lane);
            }
            if chance(&mut self.random, 40) {
                self.change_members(&repo.owner, lane);
                self.change_account(&repo.owner, lane);
            }
        }
    }
}
