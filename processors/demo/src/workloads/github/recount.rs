//! The values to derive from the code-hosting service, computed without the model.

use crate::exact::ExactNumber;
use crate::item::{SdkItem, TableItem, text_of, texts_of, value_at};
use crate::recount::{Recount, RollupSums, WorkloadOutcome, after};
use crate::rollups::RollupKey;
use crate::workloads::tools::week;

/// The reactions that have a measure of their own.
const KINDS: [(&str, &str); 4] =
    [("+1", "thumbs_up"), ("-1", "thumbs_down"), ("heart", "heart"), ("rocket", "rocket")];

pub(super) fn recount(outcome: &WorkloadOutcome) -> Recount {
    let mut recount = Recount::of(outcome, |sums, TableItem { item, .. }| count(sums, item));
    outcome.items.iter().for_each(|stored| mirror(&stored.item, &mut recount));
    recount
}

fn one(name: &'static str) -> (&'static str, ExactNumber) {
    (name, ExactNumber::one())
}

fn count(sums: &mut RollupSums<'_>, item: &SdkItem) {
    let Some((kind, path)) = text_of(item, "PK").split_once('#') else { return };
    match kind {
        "ACCOUNT" => count_account(sums, item, path),
        "REPO" => count_of_repo(sums, item, path),
        "PR" => count_discussion(sums, item, path.rsplit_once('#').map_or("", |(repo, _)| repo)),
        "ISSUECOMMENT" => sums.add(total(&format!("ISSUE#{path}")), &[one("comments")]),
        "PRCOMMENT" => sums.add(total(&format!("PR#{path}")), &[one("comments")]),
        "ISSUEREACTION" => count_reactions(sums, item, "ISSUE", path),
        "PRREACTION" => count_reactions(sums, item, "PR", path),
        "ISSUECOMMENTREACTION" => count_reactions(sums, item, "COMMENT", path),
        _ => {}
    }
}

fn count_account(sums: &mut RollupSums<'_>, item: &SdkItem, account: &str) {
    if text_of(item, "SK").starts_with("MEMBERSHIP#") {
        let owners = (text_of(item, "role") == "Owner").then(|| one("owners"));
        let measures: Vec<_> = std::iter::once(one("members")).chain(owners).collect();
        return sums.add(of_account(account, "MEMBERS"), &measures);
    }
    let [kind, paying] = if is_organization(item) {
        ["organizations", "paying_organizations"]
    } else {
        ["users", "paying_users"]
    };
    let plan = value_at(item, "payment_plan.plan_type").and_then(|plan| plan.as_s().ok());
    let pays = plan.is_some_and(|plan| plan != "Free").then(|| one(paying));
    let measures: Vec<_> = std::iter::once(one(kind)).chain(pays).collect();
    sums.add(RollupKey::new("ACCOUNTS", "ROLLUP"), &measures);
}

/// A repository, an issue or a star.
fn count_of_repo(sums: &mut RollupSums<'_>, item: &SdkItem, repo: &str) {
    let sort = text_of(item, "SK");
    if sort.starts_with("STAR#") {
        return sums.add(total(&format!("REPO#{repo}")), &[one("stars")]);
    }
    if sort.starts_with("ISSUE#") {
        return count_discussion(sums, item, repo);
    }
    let owner = repo.split_once('#').map_or("", |(owner, _)| owner);
    let mut measures = vec![one("repos")];
    if let Some(source) = source(item) {
        measures.push(one("forked_repos"));
        sums.add(total(&format!("REPO#{source}")), &[one("forks")]);
    }
    sums.add(of_account(owner, "REPOS"), &measures);
}

/// The repository that a fork was made from.
fn source(item: &SdkItem) -> Option<String> {
    let part = |name: &str| value_at(item, &format!("fork_source.{name}"))?.as_s().ok();
    Some(format!("{}#{}", part("repo_owner")?, part("repo_name")?))
}

fn count_discussion(sums: &mut RollupSums<'_>, item: &SdkItem, repo: &str) {
    let is_issue = text_of(item, "SK").starts_with("ISSUE#");
    let [all, open, done, opened, status] = if is_issue {
        ["issues", "open_issues", "closed_issues", "issues_opened", "Closed"]
    } else {
        ["pull_requests", "open_pull_requests", "merged_pull_requests", "pull_requests_opened", "Merged"]
    };
    let mut measures = vec![one(all)];
    match text_of(item, "status") {
        "Open" => measures.push(one(open)),
        other if other == status => measures.push(one(done)),
        _ => {}
    }
    sums.add(total(&format!("REPO#{repo}")), &measures);
    let week = week(text_of(item, "created_at").get(..10).unwrap_or_default());
    sums.add(RollupKey::new(format!("REPO#{repo}"), format!("ROLLUP#WEEK#{week}")), &[one(opened)]);
}

/// The reactions of one user to one target, `<owner>#<repository>#<target>#<user>`.
fn count_reactions(sums: &mut RollupSums<'_>, item: &SdkItem, target: &str, path: &str) {
    let Some((path, _)) = path.rsplit_once('#') else { return };
    let reactions = texts_of(item, "reactions");
    let kinds = KINDS.into_iter().filter(|(kind, _)| reactions.iter().any(|reaction| reaction == kind));
    let measures: Vec<_> =
        std::iter::once(one("reacting_users")).chain(kinds.map(|(_, name)| one(name))).collect();
    sums.add(total(&format!("{target}#{path}")), &measures);
}

fn mirror(item: &SdkItem, recount: &mut Recount) {
    let (partition, sort) = (text_of(item, "PK"), text_of(item, "SK"));
    let place = format!("{partition} {sort}");
    let discussed: &[_] = &[
        ("comment_count", "comments"),
        ("reaction_counts.thumbs_up", "thumbs_up"),
        ("reaction_counts.heart", "heart"),
    ];
    let starred: &[_] = &[
        ("star_count", "stars"),
        ("fork_count", "forks"),
        ("open_issue_count", "open_issues"),
        ("open_pull_request_count", "open_pull_requests"),
    ];
    let (key, shown) = if let Some(number) = after(sort, "ISSUE#") {
        let repo = after(partition, "REPO#").unwrap_or_default();
        (total(&format!("ISSUE#{repo}#{number}")), discussed)
    } else if partition != sort {
        return;
    } else if let Some(account) = after(partition, "ACCOUNT#") {
        let [members, repos] = ["MEMBERS", "REPOS"].map(|what| of_account(account, what));
        recount.mirror(&place, item, "repo_count", recount.sum(&repos, "repos"));
        if is_organization(item) {
            recount.mirror(&place, item, "member_count", recount.sum(&members, "members"));
        }
        return;
    } else if partition.starts_with("REPO#") {
        (total(partition), starred)
    } else if partition.starts_with("PR#") {
        (total(partition), discussed)
    } else {
        return;
    };
    for (path, name) in shown {
        recount.mirror(&place, item, path, recount.sum(&key, name));
    }
}

fn is_organization(account: &SdkItem) -> bool {
    text_of(account, "type") == "Organization"
}

fn total(partition: &str) -> RollupKey {
    RollupKey::new(partition, "ROLLUP")
}

fn of_account(account: &str, what: &str) -> RollupKey {
    RollupKey::new(format!("ACCOUNT#{account}"), format!("ROLLUP#{what}"))
}
