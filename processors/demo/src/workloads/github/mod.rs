//! A month of a code-hosting service in the layout of "The DynamoDB Book".

mod items;
mod recount;
mod writer;

use std::sync::Arc;

use fastrand::Rng;
use jiff::Timestamp;

use self::items::{RepoName, TABLE};
use self::writer::AccountWriter;
use super::tools::{CHART_ROWS, LANES, play, share, short_id, single_table};
use crate::chart::{Chart, cells};
use crate::rollups::{RollupSet, number};
use crate::script::Script;
use crate::workload::{Workload, WorkloadQuestion};

pub(super) const WORKLOAD: Workload = Workload {
    model: "github",
    about: "A month of a code-hosting service",
    unit: "issues and pull requests",
    // An issue is about four items.
    usual_size: 500,
    questions: &[WorkloadQuestion::Saved("busiest_repos"), WorkloadQuestion::Saved("most_forked")],
    tables: || single_table(TABLE, &["GSI1"]),
    script,
    recount: recount::recount,
    archived_rollup: |_, _| false,
    charts: |_, rollups| vec![repos(rollups), issues(rollups)],
};

fn script(mut random: Rng, size: u64, now: Timestamp) -> Script {
    let mut accounts_of = |lane| -> Vec<String> {
        let count = share(size.div_ceil(16).max(16), LANES, lane);
        (0..count).map(|_| format!("account-{}", short_id(&mut random))).collect()
    };
    let accounts: Vec<Vec<String>> = (0..LANES).map(&mut accounts_of).collect();
    let repos_of = |accounts: &[String], random: &mut Rng| -> Vec<RepoName> {
        let name =
            |owner: &String| RepoName { owner: owner.clone(), name: format!("repo-{}", short_id(random)) };
        accounts.iter().map(name).collect()
    };
    let repos: Vec<Vec<RepoName>> = accounts.iter().map(|accounts| repos_of(accounts, &mut random)).collect();
    let everyone: Arc<[String]> = accounts.iter().flatten().cloned().collect();
    let world: Arc<[RepoName]> = repos.iter().flatten().cloned().collect();
    let writers = accounts.into_iter().zip(repos).map(|(accounts, repos)| AccountWriter {
        random: random.fork(),
        accounts,
        repos,
        everyone: Arc::clone(&everyone),
        world: Arc::clone(&world),
        now,
        last_number: 0,
    });
    play(size, writers.collect(), None)
}

fn repos(rollups: &RollupSet) -> Chart {
    let columns = ["repository", "open issues", "open pull requests", "forks", "stars"];
    let mut chart = Chart::new("The repositories with most stars", &columns);
    for (repo, measures) in rollups.each("REPO#", "ROLLUP") {
        let cells = cells(repo, measures, &["open_issues", "open_pull_requests", "forks", "stars"], "0");
        chart.add_bar(cells, number(measures, "stars"));
    }
    chart.top(CHART_ROWS)
}

fn issues(rollups: &RollupSet) -> Chart {
    let columns = ["issue", "comments", "thumbs up", "hearts"];
    let mut chart = Chart::new("The issues with most comments", &columns);
    for (issue, measures) in rollups.each("ISSUE#", "ROLLUP") {
        let cells = cells(issue, measures, &["comments", "thumbs_up", "heart"], "0");
        chart.add_bar(cells, number(measures, "comments"));
    }
    chart.top(CHART_ROWS)
}
