//! Bindings: counts on an item that another attribute names, compared with a recount of the final items.
//!
//! A follow counts on both of its users, a fork on the repository that it was made of.

use std::collections::BTreeMap;

use afterwrite_model::table::{Model, ProblemCode};
use afterwrite_tests::random::SeededRandom;
use serde_json::{Value, json};

use super::workload::{ShownAttribute, TableWorkload};

const TABLE: &str = "Social";

/// Both users of a follow show their part: `following` by a binding of the aggregate, `followers` by one of the mirror.
const FOLLOWS: &str = r##"
name = "follows"
generation = 1
tables.Social.key = ["PK", "SK"]

[entities.user]
key = { PK = "USER#{username}", SK = "USER#{username}" }

[entities.follow]
key = { PK = "USER#{follower}", SK = "FOLLOW#{followed}" }

[rollups.following]
key = { PK = "USER#{username}", SK = "ROLLUP#FOLLOWING" }

[rollups.followers]
key = { PK = "USER#{followed}", SK = "ROLLUP#FOLLOWERS" }

[[aggregates]]
name = "following"
of = "follow"
into = "following"
bind = { username = "follower" }
measures.following = "count"

[[aggregates]]
name = "followers"
of = "follow"
into = "followers"
measures.followers = "count"

[[mirrors]]
onto = "user"
from = "following"
attributes = { following = "following" }

[[mirrors]]
onto = "user"
from = "followers"
bind = { username = "followed" }
attributes = { followers = "followers" }
"##;

/// A repository counts its forks, which are repositories too.
const FORKS: &str = r##"
name = "forks"
generation = 1
tables.Social.key = ["PK", "SK"]

[entities.repo]
key = { PK = "REPO#{owner}#{name}", SK = "REPO#{owner}#{name}" }
attributes = { parent_owner = "S", parent_name = "S", forked_at = "S" }

[rollups.forks]
key = { PK = "REPO#{owner}#{name}", SK = "ROLLUP#FORKS" }

[rollups.fork_days]
key = { PK = "REPO#{owner}#{name}", SK = "ROLLUP#DAY#{at:day}" }
expires = { after = "10 days", of = "at" }

[[aggregates]]
name = "forks"
of = "repo"
when.parent_name = [{ exists = true }]
into = ["forks", "fork_days"]
bind = { owner = "parent_owner", name = "parent_name", at = "forked_at" }
measures.forks = "count"

[[mirrors]]
onto = "repo"
from = "forks"
attributes = { "counts.forks" = "forks" }
"##;

fn model(source: &str) -> Model {
    Model::parse(source, "bindings.toml").unwrap_or_else(|errors| panic!("{errors}"))
}

fn follow(follower: &str, followed: &str) -> Value {
    json!({ "PK": format!("USER#{follower}"), "SK": format!("FOLLOW#{followed}") })
}

fn user(name: &str) -> Value {
    json!({ "PK": format!("USER#{name}"), "SK": format!("USER#{name}") })
}

/// The counts by name, without zeros.
fn counted<'n>(names: impl Iterator<Item = &'n str>) -> BTreeMap<&'n str, u32> {
    let mut counts = BTreeMap::new();
    names.for_each(|name| *counts.entry(name).or_default() += 1);
    counts
}

#[tokio::test]
async fn a_follow_counts_on_both_of_its_users() {
    const USERS: [&str; 4] = ["ann", "ben", "cleo", "dan"];
    for seed in 0..20 {
        let mut random = SeededRandom::new(seed);
        let mut workload = TableWorkload::of_model(model(FOLLOWS));
        let mut follows = Vec::new();
        for name in &USERS[..3] {
            workload.put(TABLE, user(name));
        }
        for _ in 0..25 {
            let pair = [(); 2].map(|()| *random.pick(&USERS).expect("a user"));
            let known = follows.iter().position(|known| *known == pair);
            if let Some(position) = known.filter(|_| random.chance(600)) {
                follows.remove(position);
                workload.remove(TABLE, follow(pair[0], pair[1]));
                continue;
            }
            if known.is_none() {
                follows.push(pair);
            }
            workload.put(TABLE, follow(pair[0], pair[1]));
        }
        let following = counted(follows.iter().map(|[follower, _]| *follower));
        let followers = counted(follows.iter().map(|[_, followed]| *followed));
        let mut rollups = Vec::new();
        for (counts, measure, sort) in
            [(&following, "following", "ROLLUP#FOLLOWING"), (&followers, "followers", "ROLLUP#FOLLOWERS")]
        {
            for (name, count) in counts {
                rollups.push((format!("USER#{name}"), sort, json!({ measure: count })));
            }
        }
        let rollups: Vec<_> =
            rollups.iter().map(|(partition, sort, values)| (&**partition, *sort, values.clone())).collect();
        let mut shown: Vec<ShownAttribute<'_>> = Vec::new();
        for name in &USERS[..3] {
            for (path, counts) in [("following", &following), ("followers", &followers)] {
                shown.push((TABLE, user(name), path, Some(json!(counts.get(name).unwrap_or(&0)))));
            }
        }
        // Nobody has put this user.
        shown.push((TABLE, user("dan"), "PK", None));
        workload.assert_derived(&rollups, &shown).await;
    }
}

#[tokio::test]
async fn forks_count_on_the_repository_that_they_are_of() {
    const NAMES: [&str; 3] = ["core", "docs", "site"];
    const OWNERS: [&str; 2] = ["acme", "zoe"];
    let repo = |owner: &str, name: &str| json!({ "PK": format!("REPO#{owner}#{name}"), "SK": format!("REPO#{owner}#{name}") });
    for seed in 0..20 {
        let mut random = SeededRandom::new(seed);
        let mut workload = TableWorkload::of_model(model(FORKS));
        let mut parents: BTreeMap<[&str; 2], Option<([&str; 2], u64)>> = BTreeMap::new();
        for _ in 0..25 {
            let [own, parent] =
                [(); 2].map(|()| [*random.pick(&OWNERS).expect("one"), *random.pick(&NAMES).expect("one")]);
            if parents.contains_key(&own) && random.chance(200) {
                parents.remove(&own);
                workload.remove(TABLE, repo(own[0], own[1]));
                continue;
            }
            let day = random.below(3) + 1;
            let parent = (own != parent && random.chance(700)).then_some((parent, day));
            let mut item = repo(own[0], own[1]);
            if let Some((parent, day)) = parent {
                item["parent_owner"] = json!(parent[0]);
                item["parent_name"] = json!(parent[1]);
                item["forked_at"] = json!(format!("2026-02-0{day}T10:00:00Z"));
            }
            parents.insert(own, parent);
            workload.put(TABLE, item);
        }
        let mut forks: BTreeMap<(String, String), u32> = BTreeMap::new();
        for (parent, day) in parents.values().flatten() {
            for sort in ["ROLLUP#FORKS".to_owned(), format!("ROLLUP#DAY#2026-02-0{day}")] {
                *forks.entry((format!("REPO#{}#{}", parent[0], parent[1]), sort)).or_default() += 1;
            }
        }
        let measures = |sort: &str, count: u32| {
            let mut measures = json!({ "forks": count });
            if let Some(day) = sort.strip_prefix("ROLLUP#DAY#") {
                measures["expires_at"] = json!(super::workload::days_after(10, &format!("{day}T00:00:00Z")));
            }
            measures
        };
        let rollups: Vec<(&str, &str, Value)> = forks
            .iter()
            .map(|((partition, sort), count)| (&**partition, &**sort, measures(sort, *count)))
            .collect();
        let shown: Vec<ShownAttribute<'_>> = parents
            .keys()
            .map(|[owner, name]| {
                let count = forks.get(&(format!("REPO#{owner}#{name}"), "ROLLUP#FORKS".to_owned()));
                (TABLE, repo(owner, name), "counts.forks", Some(json!(count.unwrap_or(&0))))
            })
            .collect();
        workload.assert_derived(&rollups, &shown).await;
    }
}

/// The natural wrong attempt: one rollup for the user in the item's key, and both measures in it.
#[test]
fn followers_and_following_on_one_user_are_reported() {
    let attempt = r##"
name = "follows"
generation = 1
tables.Social.key = ["PK", "SK"]

[entities.user]
key = { PK = "USER#{username}", SK = "USER#{username}" }

[entities.follow]
key = { PK = "USER#{username}", SK = "FOLLOW#{following}" }

[rollups.user]
key = { PK = "USER#{username}", SK = "ROLLUP#USER" }

[[aggregates]]
name = "follows"
of = "follow"
into = "user"
measures = { followers = "count", following = "count" }

[[mirrors]]
onto = "user"
from = "user"
attributes = { followers = "followers", following = "following" }
"##;
    let codes = |source: &str| -> Vec<ProblemCode> {
        Model::check(source, "attempt.toml").problems.iter().map(|problem| problem.code).collect()
    };
    assert_eq!(codes(attempt), [ProblemCode::EqualMeasures]);
    let corrected = attempt.replace(
        r#"measures = { followers = "count", following = "count" }"#,
        r#"measures = { following = "count" }

[[aggregates]]
name = "followers"
of = "follow"
into = "user"
bind = { username = "following" }
measures = { followers = "count" }"#,
    );
    assert_eq!(codes(&corrected), []);
    assert_eq!(codes(FOLLOWS), []);
}
