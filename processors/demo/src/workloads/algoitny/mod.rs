//! A judge of algorithms: users run their solutions of problems, within a daily allowance; some runs are public.

mod items;
mod recount;
mod staff;
mod user;

use fastrand::Rng;

use self::items::{PLATFORMS, TABLE};
use self::staff::Staff;
use self::user::Coders;
use super::tools::{day, play, share, table, time};
use super::{LANES, Question, Workload};
use crate::chart::{Chart, percent};
use crate::exact::Exact;
use crate::item::{Value, at, text_of};
use crate::recount::{Counted, Outcome};
use crate::rollups::{Rollups, number};
use crate::script::Script;
use afterwrite_local::dynamodb::{KeyDefinition, TableDefinition};

const SHOWN: usize = 10;

/// The judge.
#[derive(Clone, Copy, Debug)]
pub(super) struct Algoitny;

impl Workload for Algoitny {
    fn model(&self) -> &'static str {
        "algoitny"
    }

    fn about(&self) -> &'static str {
        "A month of a judge of algorithms"
    }

    fn unit(&self) -> &'static str {
        "runs of solutions"
    }

    fn tables(&self) -> Vec<TableDefinition> {
        let indexes = [
            ("GSI1", KeyDefinition::new("gsi1pk", "gsi1sk")),
            ("GSI2", KeyDefinition::new("gsi2pk", "gsi2sk")),
        ];
        vec![table(TABLE, KeyDefinition::new("pk", "sk"), &indexes, true)]
    }

    fn script(&self, seed: u64, size: u64, now: i64) -> Script {
        let (mut random, now) = (Rng::with_seed(seed), time(now));
        let problems: Vec<String> = (1..=size.div_ceil(40).clamp(4, 60)).map(|id| id.to_string()).collect();
        let coders = (0..LANES).map(|number| {
            let users = share(size.div_ceil(15).max(8), LANES, number);
            Coders::new(random.fork(), number, users, problems.clone(), now)
        });
        let coders: Vec<Coders> = coders.collect();
        play(size, coders, Some(&mut Staff::new(random.fork(), problems, now)))
    }

    fn recount(&self, outcome: &Outcome) -> Counted {
        recount::recount(outcome)
    }

    fn charts(&self, outcome: &Outcome, rollups: &Rollups) -> Vec<Chart> {
        vec![problems(outcome, rollups), platforms(rollups), usage(outcome, rollups)]
    }

    fn questions(&self) -> &'static [Question] {
        &[Question::Sql(
            "Runs by platform",
            "SELECT platform, count(*) AS runs, sum(CASE WHEN failed = 0 THEN 1 ELSE 0 END) AS solved, \
             count(DISTINCT user_id) AS users FROM history GROUP BY platform ORDER BY runs DESC, platform",
        )]
    }
}

/// The problems that were run most, and what their own items show.
fn problems(outcome: &Outcome, rollups: &Rollups) -> Chart {
    let public = rollups.number("PUBLIC#1", "ROLLUP#HISTORY", "executions");
    let title = format!("The problems that were run most ({public} runs are public, counted in ten shards)");
    let mut chart =
        Chart::new(title, &["problem", "md.exec_count", "tests", "solved", "passed tests", "runs"]);
    let items = || outcome.items.iter().map(|placed| &placed.item);
    for (problem, runs) in rollups.each("PROB#", "ROLLUP#EXECUTIONS") {
        let partition = format!("PROB#{problem}");
        let own = items().find(|item| text_of(item, "pk") == partition && text_of(item, "sk") == "META");
        let shown = own.and_then(|item| at(item, "md.exec_count")).map(Value::of);
        let (passed, failed) = (number(runs, "passed_sum"), number(runs, "failed_sum"));
        chart.bar(
            vec![
                problem.to_owned(),
                shown.map_or_else(|| "deleted".to_owned(), |shown| shown.to_string()),
                rollups.number(&partition, "ROLLUP#TESTCASES", "testcases").to_string(),
                number(runs, "solved").to_string(),
                percent(passed, passed + failed),
                number(runs, "executions").to_string(),
            ],
            number(runs, "executions"),
        );
    }
    chart.top(SHOWN)
}

fn platforms(rollups: &Rollups) -> Chart {
    let mut chart = Chart::new("Problems by platform", &["platform", "drafts", "problems"]);
    for platform in PLATFORMS {
        let of = |name| rollups.number(&format!("PLATFORM#{platform}"), "ROLLUP#PROBLEMS", name);
        let cells = vec![platform.to_owned(), of("drafts").to_string(), of("problems").to_string()];
        chart.bar(cells, of("problems"));
    }
    chart
}

/// What the check of the rate limit reads: one item for each user, day and action.
fn usage(outcome: &Outcome, rollups: &Rollups) -> Chart {
    let today = day(time(outcome.now));
    let mut chart =
        Chart::new(format!("The rate limit's counters of {today}, fullest first"), &["user", "uses"]);
    let sort = format!("ROLLUP#USAGE#{today}#execution");
    for (user, measures) in rollups.each("USER#", &sort) {
        let uses: Exact = number(measures, "uses");
        chart.bar(vec![user.to_owned(), uses.to_string()], uses);
    }
    chart.top(SHOWN / 2)
}
