//! A month of an exam platform: admins maintain projects of questions, candidates take exams and answer.

mod attempts;
mod editor;
mod items;
mod recount;
mod world;

use std::collections::{BTreeMap, BTreeSet};

use fastrand::Rng;
use jiff::Timestamp;

use self::attempts::AttemptWriter;
use self::editor::ProjectEditor;
use self::items::TABLE;
use self::world::ExamWorld;
use super::tools::{DAYS, LANES, play, single_table};
use crate::chart::{Chart, ChartRow, cells, percent};
use crate::item::{SdkItem, integer_of, text_of};
use crate::recount::WorkloadOutcome;
use crate::rollups::{RollupSet, number};
use crate::script::Script;
use crate::workload::{Workload, WorkloadQuestion};

pub(super) const WORKLOAD: Workload = Workload {
    model: "exambuddy",
    about: "A month of an exam platform",
    unit: "attempts at exams",
    usual_size: 2000,
    questions: &[WorkloadQuestion::Saved("pass_rate_by_week"), WorkloadQuestion::Saved("hardest_questions")],
    tables: || single_table(TABLE, &["GSI1", "GSI2", "GSI3"]),
    script,
    recount: recount::recount,
    archived_rollup: |_, _| false,
    charts: |outcome, rollups| vec![busiest_admin(rollups), projects(outcome)],
};

fn script(mut random: Rng, size: u64, now: Timestamp) -> Script {
    let world = ExamWorld::new(&mut random, size, now);
    let mut editor = ProjectEditor::new(&world, random.fork());
    let writers = (0..LANES).map(|lane| AttemptWriter::new(&world, random.fork(), lane)).collect();
    play(size, writers, Some(&mut editor))
}

/// The last days of the admin with the most attempts: one query, backwards, of one small item for each day.
fn busiest_admin(rollups: &RollupSet) -> Chart {
    let admins = rollups.each("ADMIN#", "ROLLUP#TOTAL");
    let busiest = admins.max_by_key(|(_, measures)| number(measures, "attempts"));
    let admin = busiest.map(|(admin, _)| admin).unwrap_or_default();
    let title = format!("The last {DAYS} days of admin {admin}, day by day (one query)");
    let mut chart = Chart::new(title, &["day", "attempts", "completed", "passed", "average"]);
    let days = rollups.query(&format!("ADMIN#{admin}"), "ROLLUP#DAY#").rev();
    for (day, measures) in days.take(usize::try_from(DAYS).unwrap_or(0)) {
        let mut cells = cells(day, measures, &["attempts", "completed", "passed"], "0");
        cells.push(percent(&number(measures, "score_sum"), &number(measures, "questions_sum")));
        chart.add_bar(cells, number(measures, "attempts"));
    }
    chart.rows.reverse();
    chart
}

/// The count that each project's own item shows, next to the application's first count.
fn projects(outcome: &WorkloadOutcome) -> Chart {
    let columns = ["project", "status", "stored at first", "question_count"];
    let mut chart = Chart::new("The projects' own items", &columns);
    let is_project = |item: &&SdkItem| text_of(item, "EntityType") == "PROJECT";
    let existing = outcome.items.iter().map(|stored| &stored.item).filter(is_project);
    let existing: BTreeMap<&str, &SdkItem> =
        existing.map(|item| (text_of(item, "project_id"), item)).collect();
    let count = |item: &SdkItem| integer_of(item, "question_count").map(|count| count.to_string());
    let mut shown = BTreeSet::new();
    for first in outcome.images.iter().map(|image| &image.item).filter(is_project) {
        let id = text_of(first, "project_id");
        if !shown.insert(id) {
            continue;
        }
        let item = existing.get(id);
        let status = match item.and_then(|item| item.get("archived")?.as_bool().ok()) {
            None => "deleted",
            Some(true) => "archived",
            Some(false) => "active",
        };
        let counts = [count(first), item.and_then(|item| count(item))].map(Option::unwrap_or_default);
        let subject = [text_of(first, "title").to_owned(), status.to_owned()];
        chart.rows.push(ChartRow { cells: [subject, counts].concat(), bar: None });
    }
    chart
}

#[cfg(test)]
mod tests;
