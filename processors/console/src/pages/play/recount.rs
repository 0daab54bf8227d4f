//! The result of the recount, which goes on while the page is open.

use std::sync::Arc;
use std::time::Duration;

use afterwrite_model::clock::{Clock as _, SystemClock};
use afterwrite_model::harmless::harmless;
use afterwrite_operations::verify::VerifyFinding;
use axum::extract::State;
use axum::response::{Html, IntoResponse as _, Response};
use maud::{Markup, html};

use super::not_here;
use crate::board::{DevBoard, RecountResult, RecountVerdict};
use crate::links::{item_link, rollup_link};
use crate::recount::records_in_flight;
use crate::served::Served;
use crate::table::{Cell, PageTable, Verdict};

/// The address of the result.
pub(crate) const RECOUNT: &str = "/play/recount";
/// The findings that the page shows.
const SHOWN: usize = 20;

/// `GET` of the result.
pub(crate) async fn recount(State(served): State<Arc<Served>>) -> Response {
    let Some(board) = served.context.board() else { return not_here(&served) };
    board.recount.ask(SystemClock.now());
    Html(markup(board).into_string()).into_response()
}

/// The verdict with its style and its text.
fn shown(result: Option<&RecountResult>) -> (Verdict, String) {
    match result.map(|result| &result.verdict) {
        None => (Verdict::Unknown, "counting…".to_owned()),
        Some(RecountVerdict::Equal) => (Verdict::Good, "equal".to_owned()),
        Some(RecountVerdict::Nothing) => (Verdict::Unknown, "nothing to count yet".to_owned()),
        Some(RecountVerdict::Counting(_)) => (Verdict::Unknown, "counting…".to_owned()),
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
            dt { "In flight" } dd { (records_in_flight(board)) " records" }
            dt { "Not judged yet" } dd { (harmless(left(latest.as_ref()))) }
        }
        @match latest.map(|latest| latest.verdict) {
            Some(RecountVerdict::Different(findings)) => (finding_rows(&findings).markup()),
            Some(RecountVerdict::Failed(report)) => div class="problem" role="alert" { pre { (harmless(&report)) } },
            Some(RecountVerdict::Equal | RecountVerdict::Nothing | RecountVerdict::Counting(_)) | None => {},
        }
    }
}

/// The part that is not judged yet.
fn left(result: Option<&RecountResult>) -> &str {
    match result.map(|result| &result.verdict) {
        Some(RecountVerdict::Counting(left)) => left,
        Some(RecountVerdict::Equal | RecountVerdict::Nothing | RecountVerdict::Different(_)) => "–",
        Some(RecountVerdict::Failed(_)) | None => "everything",
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
    let columns = [
        "verdict",
        "items",
        "items equal",
        "rollups",
        "rollups equal",
        "began",
        "seconds",
        "in flight",
        "not judged",
    ];
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
        Cell::number(records_in_flight(board)),
        Cell::text(left(latest.as_ref())),
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
