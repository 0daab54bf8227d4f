//! The recount: everything that is derived is compared with the items while the page is open, as `afterwrite verify` compares it.
//!
//! A rollup that differs from the sum of the ledger is wrong, whatever is in flight. An item that differs from its ledger entry may have
//! a change in flight, which faults can hold up for long: it is judged only while nothing is in flight.

use std::sync::Arc;
use std::time::Duration;

use afterwrite_model::Result;
use afterwrite_model::clock::{Clock as _, SystemClock};
use afterwrite_model::harmless::harmless;
use afterwrite_operations::verifier::{TimedResult, TimedVerification};
use afterwrite_operations::verify::{
    DatasetCoverage, FindingPlace, VerifyArguments, VerifyFinding, VerifyJob, VerifyTask, recheck_findings,
    verify_units,
};
use afterwrite_services::s3::S3Bucket;
use axum::extract::State;
use axum::response::{Html, IntoResponse as _, Response};
use maud::{Markup, html};

use super::not_here;
use crate::board::{DevBoard, RecountResult, RecountVerdict};
use crate::context::ConsoleContext;
use crate::links::{item_link, rollup_link};
use crate::server::Served;
use crate::table::{Cell, PageTable, Verdict};

/// The address of the result.
pub(crate) const RECOUNT: &str = "/play/recount";
/// The function that counts.
const COUNTING: &str = "aggregator";
/// A change that is not held up is counted within this time.
const TOLERANCE: Duration = Duration::from_secs(2);
/// The longest time of a recount.
const MAX_TIME: Duration = Duration::from_secs(300);
/// A mapping reads a new record within this time.
const READ_WITHIN: Duration = Duration::from_millis(500);
/// The findings that the page shows.
const SHOWN: usize = 20;

/// `GET` of the result.
pub(crate) async fn recount(State(served): State<Arc<Served>>) -> Response {
    let Some(board) = served.context.board() else { return not_here(&served) };
    begin(&served, board);
    Html(markup(board).into_string()).into_response()
}

/// Begins a recount, unless one is under way, or has just ended.
pub(super) fn begin(served: &Arc<Served>, board: &Arc<DevBoard>) {
    if board.recount.begins(SystemClock.now()) {
        let (served, board) = (Arc::clone(served), Arc::clone(board));
        tokio::spawn(async move { board.recount.end(Box::pin(compare(&served.context, &board)).await) });
    }
}

async fn compare(context: &ConsoleContext, board: &DevBoard) -> RecountResult {
    let began = SystemClock.now();
    let mut result = RecountResult {
        verdict: RecountVerdict::Nothing,
        items: (0, 0),
        rollups: (0, 0),
        began,
        took: Duration::ZERO,
    };
    match verified(context).await {
        Err(error) => result.verdict = RecountVerdict::Failed(error.report()),
        Ok(found) => {
            let summary = &found.report.summary;
            result.items = (summary.items, summary.items_confirmed);
            result.rollups = (summary.rollups, summary.rollups_confirmed);
            result.verdict = match certain(context, board, &found).await {
                Err(error) => RecountVerdict::Failed(error.report()),
                Ok(wrong) if !wrong.is_empty() => RecountVerdict::Different(wrong),
                Ok(_) => judged(&found, board),
            };
        }
    }
    result.took = SystemClock.now().since(began);
    result
}

/// Everything that is derived in the state table, compared with the items.
async fn verified(context: &ConsoleContext) -> Result<TimedResult> {
    let arguments = VerifyArguments {
        segments: 1,
        tolerance_seconds: TOLERANCE.as_secs(),
        datasets: DatasetCoverage::Excluded,
        ..VerifyArguments::default()
    };
    let deadline = SystemClock.now().plus(MAX_TIME);
    let task = VerifyTask::new(context.deployment(), arguments.clone()).until(deadline);
    let job = VerifyJob::<S3Bucket, _, _>::new(task, None, arguments.datasets);
    let timed = TimedVerification { job: &job, clock: &SystemClock, deadline, tolerance: TOLERANCE };
    timed.run(verify_units(context.model(), &arguments)).await
}

/// The findings that no change in flight explains.
async fn certain(
    context: &ConsoleContext,
    board: &DevBoard,
    found: &TimedResult,
) -> Result<Vec<VerifyFinding>> {
    let drift = found.report.findings.iter().filter(|finding| finding.is_drift()).cloned();
    let (mut wrong, of_items): (Vec<_>, Vec<_>) =
        drift.partition(|finding| finding.place() == FindingPlace::Rollup);
    if of_items.is_empty() {
        return Ok(wrong);
    }
    let before = flow(board);
    let left = recheck_findings(&context.deployment(), TOLERANCE, &of_items).await?;
    tokio::time::sleep(READ_WITHIN).await;
    let is_quiet = before.0 == 0 && flow(board) == before;
    if is_quiet {
        wrong.extend(left.into_iter().filter(VerifyFinding::is_drift));
    }
    Ok(wrong)
}

/// The records in flight to the function that counts, and those that it has read.
fn flow(board: &DevBoard) -> (u64, u64) {
    let streams = board.meters.streams_of(COUNTING);
    streams.iter().fold((0, 0), |(in_flight, read), stream| {
        (in_flight + stream.in_flight(), read + stream.progress.counts().read)
    })
}

/// The verdict if nothing is known to be wrong. Everything was judged only if every item and every rollup is confirmed.
fn judged(found: &TimedResult, board: &DevBoard) -> RecountVerdict {
    let (summary, share) = (&found.report.summary, &found.share);
    if summary.items == 0 && summary.rollups == 0 {
        return RecountVerdict::Nothing;
    }
    let is_read = [share.rollups, share.items, share.entries].iter().all(|share| *share >= 1.0);
    let is_all = is_read
        && found.report.findings.is_empty()
        && summary.unjudged.is_empty()
        && share.unjudged == 0
        && summary.unrecorded_lives == 0
        && summary.items == summary.items_confirmed
        && summary.rollups == summary.rollups_confirmed + summary.rollups_expired;
    if is_all {
        return RecountVerdict::Equal;
    }
    let rollups = summary.rollups_confirmed + summary.rollups_expired;
    let left =
        summary.items.saturating_sub(summary.items_confirmed) + summary.rollups.saturating_sub(rollups);
    let cause = found.report.findings.iter().find_map(|finding| finding.cause.clone());
    let cause = cause.map_or_else(String::new, |cause| format!(" ({cause})"));
    RecountVerdict::Counting(format!("{left} not judged yet{cause}, {} records in flight", flow(board).0))
}

/// The verdict with its style and its text.
fn shown(result: Option<&RecountResult>) -> (Verdict, String) {
    match result.map(|result| &result.verdict) {
        None => (Verdict::Unknown, "counting…".to_owned()),
        Some(RecountVerdict::Equal) => (Verdict::Good, "equal".to_owned()),
        Some(RecountVerdict::Nothing) => (Verdict::Unknown, "nothing to count yet".to_owned()),
        Some(RecountVerdict::Counting(left)) => (Verdict::Unknown, format!("counting… {left}")),
        Some(RecountVerdict::Different(findings)) => {
            (Verdict::Bad, format!("{} differences", findings.len()))
        }
        Some(RecountVerdict::Failed(_)) => (Verdict::Bad, "the recount failed".to_owned()),
    }
}

/// The result for people, of fixed height unless something is wrong.
pub(super) fn markup(board: &DevBoard) -> Markup {
    let latest = board.recount.latest();
    let (verdict, text) = shown(latest.as_ref());
    html! {
        p class="recount" { (Cell::Verdict(verdict, text).markup()) }
        dl class="facts" {
            dt { "Items equal" } dd { (of_all(latest.as_ref().map(|latest| latest.items))) }
            dt { "Rollups equal" } dd { (of_all(latest.as_ref().map(|latest| latest.rollups))) }
            dt { "Compared" }
            dd {
                @match &latest {
                    Some(latest) => { (crate::time::time(latest.began)) ", in " (seconds(latest.took)) " s" },
                    None => { "–" },
                }
            }
            dt { "In flight" } dd { (flow(board).0) " records" }
        }
        @match latest.map(|latest| latest.verdict) {
            Some(RecountVerdict::Different(findings)) => (finding_rows(&findings).markup()),
            Some(RecountVerdict::Failed(report)) => div class="problem" role="alert" { pre { (harmless(&report)) } },
            Some(RecountVerdict::Equal | RecountVerdict::Nothing | RecountVerdict::Counting(_)) | None => {},
        }
    }
}

fn of_all(numbers: Option<(u64, u64)>) -> String {
    numbers.map_or_else(|| "–".to_owned(), |(all, equal)| format!("{equal} of {all}"))
}

fn seconds(time: Duration) -> String {
    format!("{}.{}", time.as_secs(), time.subsec_millis() / 100)
}

/// The result, for machines.
pub(super) fn table(board: &DevBoard) -> PageTable {
    let columns =
        ["verdict", "items", "items equal", "rollups", "rollups equal", "began", "seconds", "in flight"];
    let mut table = PageTable::new("recount", &columns, "Nothing was compared yet.");
    let latest = board.recount.latest();
    let (verdict, text) = shown(latest.as_ref());
    let number = |number: Option<u64>| number.map_or(Cell::Empty, Cell::number);
    let (items, rollups) =
        (latest.as_ref().map(|latest| latest.items), latest.as_ref().map(|latest| latest.rollups));
    table.rows.push(vec![
        Cell::Verdict(verdict, text),
        number(items.map(|(all, _)| all)),
        number(items.map(|(_, equal)| equal)),
        number(rollups.map(|(all, _)| all)),
        number(rollups.map(|(_, equal)| equal)),
        latest.as_ref().map_or(Cell::Empty, |latest| Cell::Time(latest.began)),
        latest.as_ref().map_or(Cell::Empty, |latest| Cell::number(seconds(latest.took))),
        Cell::number(flow(board).0),
    ]);
    table
}

/// The differences, for machines.
pub(super) fn findings_table(board: &DevBoard) -> PageTable {
    match board.recount.latest().map(|latest| latest.verdict) {
        Some(RecountVerdict::Different(findings)) => finding_rows(&findings),
        Some(_) | None => finding_rows(&[]),
    }
}

fn finding_rows(findings: &[VerifyFinding]) -> PageTable {
    let columns = ["place", "key", "value", "expected", "found"];
    let mut table = PageTable::new("findings", &columns, "No differences.");
    for finding in findings.iter().take(SHOWN) {
        let place = serde_json::to_value(finding.place()).ok();
        let place = place.as_ref().and_then(|place| place.as_str()).unwrap_or_default().to_owned();
        let (of_table, key) = finding.subject.key();
        let (partition, sort) = (key.first().copied().unwrap_or_default(), key.get(1).copied());
        let to = match of_table {
            Some(of_table) => item_link(of_table, partition, sort),
            None => rollup_link(partition, sort.unwrap_or_default()),
        };
        let link = Cell::link(key.join(" "), to);
        let text = |value: &Option<String>| value.as_ref().map_or(Cell::text("absent"), Cell::code);
        for (name, value) in &finding.values {
            let (expected, found) = (text(&value.expected), text(&value.found));
            table.rows.push(vec![Cell::text(&place), link.clone(), Cell::code(name), expected, found]);
        }
        if finding.values.is_empty() {
            let cause = finding.cause.clone().unwrap_or_default();
            table.rows.push(vec![Cell::text(place), link, Cell::text(cause), Cell::Empty, Cell::Empty]);
        }
    }
    table
}
