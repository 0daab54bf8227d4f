//! A judge of algorithms: users run their solutions of problems within a daily allowance; some runs are public.

mod items;
mod recount;
mod solutions;
mod staff;

use afterwrite_local::dynamodb::KeyDefinition;
use fastrand::Rng;
use jiff::Timestamp;

use self::items::{PLATFORMS, TABLE};
use self::solutions::SolutionWriter;
use self::staff::ProblemEditor;
use super::tools::{CHART_ROWS, LANES, day, play, share, table};
use crate::chart::{Chart, cells, percent};
use crate::item::{ItemValue, text_of, value_at};
use crate::recount::WorkloadOutcome;
use crate::rollups::{RollupSet, number};
use crate::script::Script;
use crate::workload::{Workload, WorkloadQuestion};

pub(super) const WORKLOAD: Workload = Workload {
    model: "algoitny",
    about: "A month of a judge of algorithms",
    unit: "runs of solutions",
    usual_size: 2000,
    questions: &[WorkloadQuestion::Sql(
        "Runs by platform",
        "SELECT platform, count(*) AS runs, sum(CASE WHEN failed = 0 THEN 1 ELSE 0 END) AS solved, \
         count(DISTINCT user_id) AS users FROM history GROUP BY platform ORDER BY runs DESC, platform",
    )],
    tables: || {
        let index = |number| KeyDefinition::new(&format!("gsi{number}pk"), &format!("gsi{number}sk"));
        vec![table(TABLE, KeyDefinition::new("pk", "sk"), &[("GSI1", index(1)), ("GSI2", index(2))], true)]
    },
    script,
    recount: recount::recount,
    archived_rollup: |_, _| false,
    charts: |outcome, rollups| vec![problems(outcome, rollups), platforms(rollups), usage(outcome, rollups)],
};

fn script(mut random: Rng, size: u64, now: Timestamp) -> Script {
    let problems: Vec<String> = (1..=size.div_ceil(40).clamp(4, 60)).map(|id| id.to_string()).collect();
    let writers = (0..LANES).map(|lane| {
        let users = share(size.div_ceil(15).max(8), LANES, lane);
        SolutionWriter::new(random.fork(), lane, users, problems.clone(), now)
    });
    let writers = writers.collect();
    play(size, writers, Some(&mut ProblemEditor::new(random.fork(), problems, now)))
}

/// The problems with the most runs, and the count of their own items.
fn problems(outcome: &WorkloadOutcome, rollups: &RollupSet) -> Chart {
    let public = rollups.number("PUBLIC#1", "ROLLUP#HISTORY", "executions");
    let title = format!("The problems that were run most ({public} runs are public, counted in ten shards)");
    let columns = ["problem", "md.exec_count", "tests", "solved", "passed tests", "runs"];
    let mut chart = Chart::new(title, &columns);
    for (problem, runs) in rollups.each("PROB#", "ROLLUP#EXECUTIONS") {
        let partition = format!("PROB#{problem}");
        let is_own = |item: &_| text_of(item, "pk") == partition && text_of(item, "sk") == "META";
        let own = outcome.items.iter().map(|stored| &stored.item).find(|item| is_own(item));
        let shown = own.and_then(|item| value_at(item, "md.exec_count")).map(ItemValue::of);
        let (passed, failed) = (number(runs, "passed_sum"), number(runs, "failed_sum"));
        let cells = vec![
            problem.to_owned(),
            shown.map_or_else(|| "deleted".to_owned(), |shown| shown.to_string()),
            rollups.number(&partition, "ROLLUP#TESTCASES", "testcases").to_string(),
            number(runs, "solved").to_string(),
            percent(&passed, &passed.plus(&failed)),
            number(runs, "executions").to_string(),
        ];
        chart.add_bar(cells, number(runs, "executions"));
    }
    chart.top(CHART_ROWS)
}

fn platforms(rollups: &RollupSet) -> Chart {
    let mut chart = Chart::new("Problems by platform", &["platform", "drafts", "problems"]);
    for platform in PLATFORMS {
        let of = |name| rollups.number(&format!("PLATFORM#{platform}"), "ROLLUP#PROBLEMS", name);
        let cells = vec![platform.to_owned(), of("drafts").to_string(), of("problems").to_string()];
        chart.add_bar(cells, of("problems"));
    }
    chart
}

/// The items that a rate limit would read: one for each user, day and action.
fn usage(outcome: &WorkloadOutcome, rollups: &RollupSet) -> Chart {
    let today = day(Timestamp::from_second(outcome.now).unwrap_or_default());
    let mut chart =
        Chart::new(format!("The rate limit's counters of {today}, fullest first"), &["user", "uses"]);
    for (user, measures) in rollups.each("USER#", &format!("ROLLUP#USAGE#{today}#execution")) {
        chart.add_bar(cells(user, measures, &["uses"], "0"), number(measures, "uses"));
    }
    chart.top(CHART_ROWS / 2)
}
