//! github: repositories, issues and pull requests are rows.

use afterwrite_demo::item::{SdkItem as Item, text_of};

use super::{ExpectedRow, key, present};

pub(super) fn cache_keys(_: &str, item: &Item) -> Vec<String> {
    let [partition, sort] = parts(item);
    match (partition.as_slice(), sort.as_slice()) {
        (["ACCOUNT", account], ["ACCOUNT", _]) => present([key(["account", account])]),
        (["ACCOUNT", account], _) => present([key(["account", account, "members"])]),
        (["REPO", owner, repo], ["REPO", ..]) => {
            present([key(["repo", owner, repo]), key(["account", owner, "repos"])])
        }
        (["REPO", owner, repo], ["STAR", _]) => present([key(["repo", owner, repo])]),
        (["REPO", owner, repo], ["ISSUE", number]) => {
            present([key(["repo", owner, repo, "issues"]), key(["issue", owner, repo, number])])
        }
        (["PR", owner, repo, number], _) => {
            present([key(["repo", owner, repo, "pulls"]), key(["pull", owner, repo, number])])
        }
        (["ISSUECOMMENT" | "ISSUEREACTION", owner, repo, number, ..], _) => {
            present([key(["issue", owner, repo, number])])
        }
        (["PRCOMMENT" | "PRREACTION", owner, repo, number, ..], _) => {
            present([key(["pull", owner, repo, number])])
        }
        _ => Vec::new(),
    }
}

pub(super) fn row<'i>(_: &str, item: &'i Item) -> Option<ExpectedRow<'i>> {
    let [partition, sort] = parts(item);
    let (dataset, owner, repo, number) = match (partition.as_slice(), sort.as_slice()) {
        (["REPO", owner, repo], ["REPO", ..]) => {
            let columns = ExpectedRow::of("repos", item, "created_at")
                .text("owner", Some(owner))
                .text("repo", Some(repo))
                .scalar("source_owner", "fork_source.repo_owner")
                .scalar("source_repo", "fork_source.repo_name")
                .instant("created_at", "created_at");
            return Some(columns);
        }
        (["REPO", owner, repo], ["ISSUE", number]) => ("issues", owner, repo, number),
        (["PR", owner, repo, number], _) => ("pull_requests", owner, repo, number),
        _ => return None,
    };
    let columns = ExpectedRow::of(dataset, item, "created_at")
        .text("owner", Some(owner))
        .text("repo", Some(repo))
        .text("number", Some(number))
        .scalar("title", "title")
        .scalar("status", "status")
        .instant("created_at", "created_at");
    Some(columns)
}

/// The parts of both key attributes.
fn parts(item: &Item) -> [Vec<&str>; 2] {
    ["PK", "SK"].map(|name| text_of(item, name).split('#').collect())
}
