//! Lookups by primary key, of items of another table and of the same entity, compared with a recount of the final items.

use std::collections::BTreeMap;

use afterwrite_model::table::Model;
use afterwrite_tests::random::SeededRandom;
use serde_json::{Value, json};

use super::delivery::DeliveryOrder;
use super::values::{attributes, plain_value};
use super::workload::TableWorkload;

/// Issues count by the language of their repository, which is in another table; forks count by the language of the repository that
/// they are of.
const REPOS: &str = r##"
name = "repos"
generation = 1

[tables.Issues]
key = ["pk", "number"]
types = { number = "N" }

[tables.Repos]
key = ["PK", "SK"]

[entities.repo]
table = "Repos"
key = { PK = "REPO#{owner}#{name}", SK = "REPO#{owner}#{name}" }
attributes = { language = "S", parent_owner = "S", parent_name = "S" }

[entities.issue]
table = "Issues"
key = { pk = "ISSUES#{owner}#{name}", number = "{number}" }
attributes = { state = "S" }

[entities.comment]
table = "Issues"
key = { pk = "COMMENTS#{owner}#{name}#{issue}", number = "{number}" }

[lookups.repo]
of = "repo"
gives = ["language"]

[lookups.parent]
of = "repo"
key = { PK = "REPO#{parent_owner}#{parent_name}", SK = "REPO#{parent_owner}#{parent_name}" }
gives = ["language"]

[lookups.commented_issue]
of = "issue"
key = { pk = "ISSUES#{owner}#{name}", number = "{issue}" }
gives = ["state"]

[rollups.language]
key = { PK = "LANGUAGE#{language}", SK = "ROLLUP" }

[rollups.state]
key = { PK = "STATE#{state}", SK = "ROLLUP" }

[[aggregates]]
name = "issues"
of = "issue"
lookup = "repo"
into = "language"
measures.issues = "count"

[[aggregates]]
name = "forks"
of = "repo"
lookup = "parent"
when.parent_name = [{ exists = true }]
into = "language"
measures.forks = "count"

[[aggregates]]
name = "comments"
of = "comment"
lookup = "commented_issue"
into = "state"
measures.comments = "count"
"##;

const REPOS_TABLE: &str = "Repos";
const ISSUES_TABLE: &str = "Issues";
const NAMES: [&str; 4] = ["core", "docs", "site", "tool"];
const LANGUAGES: [&str; 4] = ["Rust", "Go", "Rust", "C#"];

fn workload() -> TableWorkload {
    TableWorkload::of_model(Model::parse(REPOS, "repos.toml").unwrap_or_else(|errors| panic!("{errors}")))
}

fn repo(name: usize, parent: Option<usize>) -> Value {
    let key = format!("REPO#acme#{}", NAMES[name]);
    let mut repo = json!({ "PK": key, "SK": key, "language": LANGUAGES[name] });
    if let Some(parent) = parent {
        repo["parent_owner"] = json!("acme");
        repo["parent_name"] = json!(NAMES[parent]);
    }
    repo
}

fn issue(name: usize, number: u64) -> Value {
    let state = if number.is_multiple_of(2) { "open" } else { "closed" };
    json!({ "pk": format!("ISSUES#acme#{}", NAMES[name]), "number": number, "state": state })
}

#[tokio::test]
async fn items_are_looked_up_by_their_primary_keys() {
    for seed in 0..20 {
        let mut random = SeededRandom::new(seed);
        let mut workload = workload();
        let mut parents: BTreeMap<usize, Option<usize>> = BTreeMap::new();
        let mut issues = BTreeMap::new();
        let mut comments: BTreeMap<(usize, u64, u64), ()> = BTreeMap::new();
        let mut pick = |count: u64| usize::try_from(random.below(count)).expect("a small number");
        for name in 0..NAMES.len() {
            parents.insert(name, None);
            workload.put(REPOS_TABLE, repo(name, None));
        }
        for number in 0..20 {
            let (name, other) = (pick(4), pick(4));
            match pick(3) {
                0 => {
                    let parent = (name != other).then_some(other);
                    parents.insert(name, parent);
                    workload.put(REPOS_TABLE, repo(name, parent));
                }
                1 => {
                    issues.insert((name, number), ());
                    workload.put(ISSUES_TABLE, issue(name, number));
                }
                _ => {
                    let of = issues.keys().next_back().copied();
                    if let Some((name, issue)) = of {
                        comments.insert((name, issue, number), ());
                        let partition = format!("COMMENTS#acme#{}#{issue}", NAMES[name]);
                        workload.put(ISSUES_TABLE, json!({ "pk": partition, "number": number }));
                    }
                }
            }
        }
        let mut expected: BTreeMap<(String, &str), u32> = BTreeMap::new();
        let mut count = |partition: String, measure| *expected.entry((partition, measure)).or_default() += 1;
        for parent in parents.values().flatten() {
            count(format!("LANGUAGE#{}", LANGUAGES[*parent]), "forks");
        }
        for (name, _) in issues.keys() {
            count(format!("LANGUAGE#{}", LANGUAGES[*name]), "issues");
        }
        for (_, issue, _) in comments.keys() {
            count(format!("STATE#{}", if issue % 2 == 0 { "open" } else { "closed" }), "comments");
        }
        let mut rollups: BTreeMap<&str, Value> = BTreeMap::new();
        for ((partition, measure), count) in &expected {
            rollups.entry(&**partition).or_insert_with(|| json!({}))[*measure] = json!(count);
        }
        let rollups: Vec<_> =
            rollups.iter().map(|(partition, values)| (*partition, "ROLLUP", values.clone())).collect();
        workload.assert_derived(&rollups, &[]).await;
    }
}

/// The table itself is read, so the item does not exist: the record is parked, and counted once it is delivered again.
#[tokio::test]
async fn a_record_whose_looked_up_item_does_not_exist_is_parked_and_counted_later() {
    let mut early = workload();
    early.put(ISSUES_TABLE, issue(0, 2));
    let consumer = early.consumer();
    let parked = format!("{:?}", consumer.failures(early.last_record()).await);
    assert!(parked.contains("lookup `repo` found no item of entity `repo` that has `language`"), "{parked}");
    consumer.tables().put(REPOS_TABLE, attributes(&repo(0, None))).expect("an item");
    consumer.deliver(&[early.last_record()], DeliveryOrder::OneByOne).await;
    // The answer is remembered: a later language is not seen.
    assert_eq!(consumer.stored("LANGUAGE#Rust", "ROLLUP", "issues"), Some(plain_value(&json!(1))));
    assert_eq!(
        consumer.stored("LOOKUP#repo#acme#core", "-", "gives"),
        Some(plain_value(&json!({ "language": "Rust" })))
    );
}
