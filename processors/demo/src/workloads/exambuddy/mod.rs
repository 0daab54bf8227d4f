//! An exam platform's month: admins keep projects of questions, candidates sit exams and answer.

mod candidate;
mod editor;
mod generator;
mod items;
mod recount;

use std::collections::{BTreeMap, BTreeSet};

use super::tools::time;
use super::{Question, Workload};
use crate::chart::{Chart, percent};
use crate::exact::Exact;
use crate::item::{Item, text_of, whole_of};
use crate::recount::{Counted, Outcome};
use crate::rollups::{Rollups, number};
use crate::script::Script;
use afterwrite_local::dynamodb::TableDefinition;

/// The exam platform.
#[derive(Clone, Copy, Debug)]
pub(super) struct ExamBuddy;

impl Workload for ExamBuddy {
    fn model(&self) -> &'static str {
        "exambuddy"
    }

    fn about(&self) -> &'static str {
        "A month of an exam platform"
    }

    fn unit(&self) -> &'static str {
        "attempts at exams"
    }

    fn tables(&self) -> Vec<TableDefinition> {
        vec![items::table()]
    }

    fn script(&self, seed: u64, size: u64, now: i64) -> Script {
        generator::Month::plan(seed, size, time(now)).script()
    }

    fn recount(&self, outcome: &Outcome) -> Counted {
        recount::recount(outcome)
    }

    fn charts(&self, outcome: &Outcome, rollups: &Rollups) -> Vec<Chart> {
        vec![busiest_admin(rollups), projects(outcome)]
    }

    fn questions(&self) -> &'static [Question] {
        &[Question::Saved("pass_rate_by_week"), Question::Saved("hardest_questions")]
    }
}

/// How many days are shown of an admin.
const DAYS_SHOWN: usize = 31;

/// The last days of the admin with the most attempts: one query, backwards, of so many small items.
fn busiest_admin(rollups: &Rollups) -> Chart {
    let admins = rollups.each("ADMIN#", "ROLLUP#TOTAL");
    let busiest = admins.max_by_key(|(_, measures)| number(measures, "attempts"));
    let admin = busiest.map(|(admin, _)| admin).unwrap_or_default();
    let title = format!("The last {DAYS_SHOWN} days of admin {admin}, day by day (one query)");
    let mut chart = Chart::new(title, &["day", "attempts", "completed", "passed", "average"]);
    let days: Vec<_> = rollups.query(&format!("ADMIN#{admin}"), "ROLLUP#DAY#").collect();
    for (day, measures) in days.into_iter().rev().take(DAYS_SHOWN).rev() {
        let of = |name: &str| number(measures, name);
        let mut cells = vec![day.to_owned()];
        cells.extend(["attempts", "completed", "passed"].map(|name| of(name).to_string()));
        cells.push(percent(of("score_sum"), of("questions_sum")));
        chart.bar(cells, of("attempts"));
    }
    chart
}

/// What each project's own item shows, beside what its application once believed.
fn projects(outcome: &Outcome) -> Chart {
    let columns = ["project", "status", "stored at first", "question_count"];
    let mut chart = Chart::new("The projects' own items", &columns);
    let is_project = |item: &Item| text_of(item, "EntityType") == "PROJECT";
    let there = outcome.items.iter().map(|placed| &placed.item).filter(|item| is_project(item));
    let there: BTreeMap<&str, &Item> = there.map(|item| (text_of(item, "project_id"), item)).collect();
    let mut told = BTreeSet::new();
    for first in outcome.images.iter().map(|placed| &placed.item).filter(|item| is_project(item)) {
        let id = text_of(first, "project_id");
        if !told.insert(id) {
            continue;
        }
        let item = there.get(id);
        let archived = item.and_then(|item| item.get("archived")?.as_bool().ok());
        let status = match archived {
            None => "deleted",
            Some(true) => "archived",
            Some(false) => "active",
        };
        let count =
            |item: &Item| whole_of(item, "question_count").map(|count| Exact::whole(count).to_string());
        chart.row(vec![
            text_of(first, "title").to_owned(),
            status.to_owned(),
            count(first).unwrap_or_default(),
            item.and_then(|item| count(item)).unwrap_or_default(),
        ]);
    }
    chart
}

#[cfg(test)]
mod tests;
