//! What the demo shows: one admin's month, the projects, what it cost, and the verdict. As tables, or as JSON.

use std::fmt;
use std::time::Duration;

use afterwrite::Result;
use aws_sdk_dynamodb::Client;
use comfy_table::Table;
use serde::Serialize;

use super::archive::{Archived, InvalidatedByRule};
use super::generator::{Month, earliest};
use super::lake::Lake;
use super::platform::{self, Item, failed, text as s};
use super::recount::{number, text};
use super::subject::Subject;
use super::verdict::Verdict;
use super::{Demo, STATE_TABLE};
use crate::local::progress::{Progress, Skipped};
use crate::print::{align_right, new_table};

/// How many differences are printed; JSON has them all.
const DIFFERENCES_SHOWN: usize = 20;
const BAR_WIDTH: i64 = 24;

/// All results of a demo.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Whether every number is right, no record was given up, and every change is archived.
    right: bool,
    seed: u64,
    attempts: u64,
    /// From the start of the server until every record was counted and the recount had been made once.
    seconds: f64,
    admin: AdminMonth,
    projects: Vec<ProjectLine>,
    cost: Cost,
    archive: Archived,
    cache_keys: Vec<InvalidatedByRule>,
    datasets: Lake,
    /// The old records that were delivered once more in the end.
    delivered_again: u64,
    /// The verdict before those, and the one after them.
    verdicts: [Verdict; 2],
    skipped: Vec<Skipped>,
}

/// What was played, for [`Report::new`]: what changes in the end is taken as it was when all was counted first.
pub(super) struct Played<'a> {
    pub(super) demo: &'a Demo,
    pub(super) month: &'a Month,
    pub(super) subject: &'a Subject,
    pub(super) cost: Cost,
    pub(super) archived: Archived,
    pub(super) invalidated: Vec<InvalidatedByRule>,
    pub(super) lake: Lake,
    /// Before and after the old records came once more.
    pub(super) verdicts: [Verdict; 2],
    /// Of counting, of archiving, and of the old records.
    pub(super) progress: [&'a Progress; 3],
    pub(super) counted: Duration,
}

#[derive(Clone, Debug, Serialize)]
struct AdminMonth {
    admin_id: String,
    days: Vec<Day>,
}

#[derive(Clone, Debug, Serialize)]
struct Day {
    day: String,
    attempts: i64,
    completed: i64,
    passed: i64,
    score_sum: i64,
    questions_sum: i64,
}

#[derive(Clone, Debug, Serialize)]
struct ProjectLine {
    title: String,
    project_id: String,
    /// The count that its application stored at first.
    stored_at_first: i64,
    /// The count that it shows now; none if it was deleted.
    question_count: Option<i64>,
    archived: bool,
}

/// What counting cost, until all was counted.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Cost {
    items_written: u64,
    records: u64,
    batches: u64,
    retried_batches: u64,
    redelivered_records: u64,
    duplicates_skipped: u64,
    folded: u64,
    transactions: u64,
    ledger_writes: u64,
    mirrors: u64,
    write_units: u64,
    write_units_a_record: f64,
}

impl Cost {
    pub(super) fn new(month: &Month, subject: &Subject, progress: &Progress) -> Self {
        let (counts, sums) = (progress.counts(), subject.sums());
        let totals = sums.totals;
        Self {
            items_written: month.world.application.writes(),
            records: counts.read,
            batches: counts.batches,
            retried_batches: counts.retries,
            redelivered_records: counts.redelivered,
            duplicates_skipped: totals.duplicates,
            folded: totals.folded,
            transactions: totals.transactions,
            ledger_writes: totals.ledger_writes,
            mirrors: totals.mirrors,
            write_units: totals.write_units,
            write_units_a_record: ratio(totals.write_units, counts.read),
        }
    }

    fn lines(&self) -> [(&'static str, String); 11] {
        [
            ("items written by the application", self.items_written.to_string()),
            ("records", self.records.to_string()),
            ("batches", self.batches.to_string()),
            ("  of them retried", self.retried_batches.to_string()),
            ("records delivered twice on purpose", self.redelivered_records.to_string()),
            ("duplicates skipped", self.duplicates_skipped.to_string()),
            ("records folded into a newer one", self.folded.to_string()),
            ("transactions", self.transactions.to_string()),
            ("mirrored counts refreshed", self.mirrors.to_string()),
            ("write units", self.write_units.to_string()),
            ("write units a record", format!("{:.2}", self.write_units_a_record)),
        ]
    }
}

impl Report {
    pub(super) async fn new(client: &Client, played: Played<'_>) -> Result<Self> {
        let Played { demo, month, subject, progress, .. } = played;
        let mut skipped: Vec<Skipped> = progress.iter().flat_map(|progress| progress.skipped()).collect();
        let reasons = subject.sums().reasons;
        for skipped in &mut skipped {
            if let Some(reason) = reasons.get(&skipped.sequence_number) {
                skipped.reason.clone_from(reason);
            }
        }
        let [.., again] = progress;
        Ok(Self {
            right: played.verdicts.iter().all(Verdict::is_equal)
                && skipped.is_empty()
                && played.archived.is_whole()
                && played.lake.is_whole(),
            seed: demo.seed,
            attempts: demo.attempts,
            seconds: played.counted.as_secs_f64(),
            admin: busiest_admin(client, month).await?,
            projects: projects(client, month).await?,
            cost: played.cost,
            archive: played.archived,
            cache_keys: played.invalidated,
            datasets: played.lake,
            delivered_again: again.counts().accepted,
            verdicts: played.verdicts,
            skipped,
        })
    }

    /// Whether every number is right and no record was given up.
    #[must_use]
    pub fn is_right(&self) -> bool {
        self.right
    }
}

/// The month of the admin with the most attempts.
async fn busiest_admin(client: &Client, month: &Month) -> Result<AdminMonth> {
    let mut busiest = AdminMonth { admin_id: String::new(), days: Vec::new() };
    for admin_id in month.admins() {
        let days = days(client, admin_id, month).await?;
        let attempts = |days: &[Day]| days.iter().map(|day| day.attempts).sum::<i64>();
        if busiest.admin_id.is_empty() || attempts(&days) > attempts(&busiest.days) {
            busiest = AdminMonth { admin_id: admin_id.clone(), days };
        }
    }
    Ok(busiest)
}

/// An admin's last 31 days: one query of at most 31 small items.
async fn days(client: &Client, admin_id: &str, month: &Month) -> Result<Vec<Day>> {
    let key_of = |time: jiff::Timestamp| format!("ROLLUP#DAY#{}", time.strftime("%Y-%m-%d"));
    let queried = client
        .query()
        .table_name(STATE_TABLE)
        .key_condition_expression("PK = :admin AND SK BETWEEN :first AND :last")
        .expression_attribute_values(":admin", s(format!("ADMIN#{admin_id}")))
        .expression_attribute_values(":first", s(key_of(earliest(month.world.now))))
        .expression_attribute_values(":last", s(key_of(month.world.now)))
        .consistent_read(true)
        .send()
        .await
        .map_err(|error| failed("reading an admin's days", error.into_service_error()))?;
    Ok(queried.items.unwrap_or_default().iter().map(day).collect())
}

fn day(item: &Item) -> Day {
    let of = |name: &str| number(item, name).unwrap_or(0);
    Day {
        day: text(item, "SK").rsplit('#').next().unwrap_or_default().to_owned(),
        attempts: of("attempts"),
        completed: of("completed"),
        passed: of("passed"),
        score_sum: of("score_sum"),
        questions_sum: of("questions_sum"),
    }
}

async fn projects(client: &Client, month: &Month) -> Result<Vec<ProjectLine>> {
    let items = platform::scan(client, platform::TABLE).await?;
    let line = |course: &super::generator::Course| {
        let key = course.project.key();
        let item = items.iter().find(|item| text(item, "PK") == key.0 && text(item, "SK") == key.1);
        let archived = item.and_then(|item| item.get("archived")?.as_bool().ok().copied());
        ProjectLine {
            title: course.project.title.clone(),
            project_id: course.project.id.clone(),
            stored_at_first: course.believed,
            question_count: item.and_then(|item| number(item, "question_count")),
            archived: archived.unwrap_or(false),
        }
    };
    Ok(month.world.courses.iter().map(line).collect())
}

#[expect(clippy::cast_precision_loss, reason = "counts of a demo are far below 2^53")]
fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "The last 31 days of admin {} (one query):\n{}\n", self.admin.admin_id, self.admin)?;
        writeln!(f, "Projects:\n{}\n", projects_table(&self.projects))?;
        writeln!(f, "What it cost:\n{}\n", cost_table(&self.cost))?;
        for skipped in &self.skipped {
            writeln!(f, "Given up: record {}: {}", skipped.sequence_number, skipped.reason)?;
        }
        writeln!(
            f,
            "Cache keys invalidated, by rule (each once a batch):\n{}\n",
            cache_table(&self.cache_keys)
        )?;
        writeln!(f, "{}\n", self.archive)?;
        writeln!(f, "{}\n", self.datasets)?;
        let [first, last] = &self.verdicts;
        writeln!(f, "After {:.1} s: {first}", self.seconds)?;
        write!(f, "After {} old records came once more: {last}", self.delivered_again)
    }
}

impl fmt::Display for Archived {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { objects, bytes, lines, changes, expected, billed_units } = self;
        let verdict = if self.is_whole() { "holds" } else { "DOES NOT HOLD" };
        write!(
            f,
            "The archive {verdict} all {expected} changes: {changes} of them in {lines} lines of {objects} objects \
             ({bytes} bytes packed; Firehose would bill {billed_units} records of 5 KB)."
        )
    }
}

impl fmt::Display for AdminMonth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let most = self.days.iter().map(|day| day.attempts).max().unwrap_or(0).max(1);
        let mut table = new_table(&["day", "attempts", "completed", "passed", "average", ""]);
        for day in &self.days {
            let average = match (day.score_sum * 100).checked_div(day.questions_sum) {
                Some(percent) => format!("{percent} %"),
                None => String::new(),
            };
            let bar = usize::try_from((day.attempts * BAR_WIDTH + most - 1) / most).unwrap_or(0);
            table.add_row(vec![
                day.day.clone(),
                day.attempts.to_string(),
                day.completed.to_string(),
                day.passed.to_string(),
                average,
                "█".repeat(bar),
            ]);
        }
        align_right(&mut table, 1..5);
        write!(f, "{table}")
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "a recount of the table {} all {} numbers of {} rollups and {} mirrored question counts.",
            if self.is_equal() { "confirms" } else { "DOES NOT CONFIRM" },
            self.numbers,
            self.rollups,
            self.question_counts
        )?;
        for difference in self.differences.iter().take(DIFFERENCES_SHOWN) {
            write!(
                f,
                "\n  {} {} {}: counted {}, must be {}",
                difference.partition,
                difference.sort,
                difference.measure,
                difference.found,
                difference.expected
            )?;
        }
        match self.differences.len().checked_sub(DIFFERENCES_SHOWN) {
            Some(more @ 1..) => write!(f, "\n  and {more} more (see --json)"),
            _ => Ok(()),
        }
    }
}

fn projects_table(projects: &[ProjectLine]) -> Table {
    let mut table = new_table(&["project", "status", "stored at first", "question_count"]);
    for project in projects {
        let status = match (project.question_count, project.archived) {
            (None, _) => "deleted",
            (Some(_), true) => "archived",
            (Some(_), false) => "active",
        };
        let count = project.question_count.map_or_else(String::new, |count| count.to_string());
        let row = [project.title.clone(), status.to_owned(), project.stored_at_first.to_string(), count];
        table.add_row(row);
    }
    align_right(&mut table, 2..4);
    table
}

fn cost_table(cost: &Cost) -> Table {
    let mut table = new_table(&[]);
    for (name, value) in cost.lines() {
        table.add_row([name.to_owned(), value]);
    }
    align_right(&mut table, 1..2);
    table
}

fn cache_table(rules: &[InvalidatedByRule]) -> Table {
    let mut table = new_table(&["a change of", "makes stale", "keys"]);
    for rule in rules.iter().filter(|rule| !rule.keys.is_empty()) {
        table.add_row([rule.of.clone(), rule.keys.join(", "), rule.invalidated.to_string()]);
    }
    align_right(&mut table, 2..3);
    table
}
