//! The items of the code-hosting service: accounts and their members, repositories, issues, pull requests, comments, reactions, stars.

use fastrand::Rng;
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::item::{SdkItem, with};
use crate::workloads::tools::{instant, key, ksuid, one_of};

/// The table's name, as the model knows it.
pub(super) const TABLE: &str = "GitHubTable";

const PLANS: [&str; 3] = ["Free", "Pro", "Enterprise"];
const KINDS: [&str; 5] = ["+1", "-1", "heart", "rocket", "eyes"];
const TITLES: [&str; 4] = ["Crash at start-up", "Typo in \"README\"", "対応する", "Slow on Tuesdays"];

/// A repository's name: its owner and its own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct RepoName {
    pub(super) owner: String,
    pub(super) name: String,
}

impl RepoName {
    fn path(&self) -> String {
        format!("{}#{}", self.owner, self.name)
    }

    pub(super) fn key(&self) -> SdkItem {
        same(&format!("REPO#{}", self.path()))
    }

    /// The repository; a fork names its source.
    pub(super) fn item(&self, created_at: Timestamp, source: Option<&Self>) -> SdkItem {
        let attributes = json!({
            "repo_owner": self.owner, "repo_name": self.name, "created_at": instant(created_at),
            "GSI1PK": format!("REPO#{}", self.path()), "GSI1SK": format!("REPO#{}", self.path()),
        });
        let item = with(self.key(), attributes);
        let Some(source) = source else { return item };
        with(item, json!({ "fork_source": { "repo_owner": source.owner, "repo_name": source.name } }))
    }

    pub(super) fn star_key(&self, user: &str) -> SdkItem {
        key(&format!("REPO#{}", self.path()), &format!("STAR#{user}"))
    }

    pub(super) fn star(&self, user: &str) -> SdkItem {
        with(self.star_key(user), json!({ "staring_user": user }))
    }
}

/// An issue, or a pull request: both have numbers of one sequence.
#[derive(Clone, Debug)]
pub(super) struct Discussion {
    pub(super) repo: RepoName,
    pub(super) number: u32,
    pub(super) is_pull_request: bool,
    pub(super) created_at: Timestamp,
}

impl Discussion {
    fn path(&self) -> String {
        format!("{}#{:010}", self.repo.path(), self.number)
    }

    pub(super) fn key(&self) -> SdkItem {
        if self.is_pull_request {
            return same(&format!("PR#{}", self.path()));
        }
        key(&format!("REPO#{}", self.repo.path()), &format!("ISSUE#{:010}", self.number))
    }

    pub(super) fn item(&self, random: &mut Rng) -> SdkItem {
        let attributes = json!({
            "repo_owner": self.repo.owner, "repo_name": self.repo.name, "number": self.number,
            "title": one_of(random, &TITLES), "status": "Open", "created_at": instant(self.created_at),
        });
        with(self.key(), attributes)
    }

    fn prefix(&self) -> &'static str {
        if self.is_pull_request { "PR" } else { "ISSUE" }
    }

    pub(super) fn comment_key(&self, id: &str) -> SdkItem {
        let prefix = self.prefix();
        key(&format!("{prefix}COMMENT#{}", self.path()), &format!("{prefix}COMMENT#{id}"))
    }

    pub(super) fn comment(&self, id: &str, author: &str) -> SdkItem {
        let comment =
            json!({ "comment": "I see it too", "author": author, "created_at": instant(self.created_at) });
        with(self.comment_key(id), comment)
    }

    pub(super) fn reaction_key(&self, user: &str) -> SdkItem {
        same(&format!("{}REACTION#{}#{user}", self.prefix(), self.path()))
    }

    /// The key of a reaction to a comment of this issue.
    pub(super) fn comment_reaction_key(&self, comment: &str, user: &str) -> SdkItem {
        same(&format!("ISSUECOMMENTREACTION#{}#{comment}#{user}", self.repo.path()))
    }
}

/// One to three reactions, as a set.
pub(super) fn reactions(random: &mut Rng) -> Value {
    let count = random.usize(1..=3);
    let mut kinds: Vec<&str> = random.choose_multiple(&KINDS, count).into_iter().copied().collect();
    kinds.sort_unstable();
    json!({ "reactions": { "SS": kinds } })
}

pub(super) fn comment_id(random: &mut Rng, at: Timestamp) -> String {
    ksuid(random, at)
}

pub(super) fn account_key(name: &str) -> SdkItem {
    same(&format!("ACCOUNT#{name}"))
}

/// A user or an organization: only the attribute `type` tells which.
pub(super) fn account(random: &mut Rng, name: &str, kind: &str, at: Timestamp) -> SdkItem {
    let attributes = json!({
        "type": kind, "account_name": name, "created_at": instant(at), "payment_plan": plan(random),
        "GSI3PK": format!("ACCOUNT#{name}"), "GSI3SK": format!("ACCOUNT#{name}"),
    });
    with(account_key(name), attributes)
}

pub(super) fn plan(random: &mut Rng) -> Value {
    json!({ "plan_type": one_of(random, &PLANS), "plan_start_date": "2026-01-01" })
}

pub(super) fn member_key(organization: &str, member: &str) -> SdkItem {
    key(&format!("ACCOUNT#{organization}"), &format!("MEMBERSHIP#{member}"))
}

pub(super) fn member(random: &mut Rng, organization: &str, member: &str) -> SdkItem {
    let role = one_of(random, &["Owner", "Member", "Member"]);
    with(member_key(organization, member), json!({ "role": role, "username": member }))
}

/// A key whose two attributes are the same.
fn same(both: &str) -> SdkItem {
    key(both, both)
}
