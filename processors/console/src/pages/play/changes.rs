//! Changes as they flow, the newest first, each with everything that follows from it.

use std::sync::Arc;

use afterwrite_model::harmless::{harmless, harmless_lines};
use afterwrite_preview::trace::{RecordTrace, TracedRollup};
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{Html, IntoResponse as _, Response};
use maud::{Markup, html};

use super::{PLAY, not_here, token_field};
use crate::board::{CountedChange, DevBoard};
use crate::links::{item_link, rollup_link};
use crate::query::{PageQuery, address};
use crate::served::Served;
use crate::table::{Cell, PageTable};
use crate::time::time;

/// The address of the changes after a number.
pub(crate) const CHANGES: &str = "/play/changes";
/// The changes that a page shows.
const SHOWN: usize = 100;
/// The rollups, keys or paths of a change that a page shows.
const SHOWN_EFFECTS: usize = 50;

/// The changes that a page shows, and those that it marks.
#[derive(Clone, Debug, Default)]
pub(crate) struct ChangeFilter {
    text: Option<String>,
    mark: Option<ChangeMark>,
}

/// The changes of one item after a number: the number, the deployed name of the table, and the values of the key.
pub(super) type ChangeMark = (u64, String, Vec<String>);

impl ChangeFilter {
    /// The filter of an address.
    pub(crate) fn of(query: &PageQuery) -> Self {
        let mark = query.get("mark").and_then(|mark| serde_json::from_str(mark).ok());
        Self { text: query.get("text").map(str::to_owned), mark }
    }

    /// The same filter, which marks other changes.
    pub(super) fn marking(self, mark: Option<ChangeMark>) -> Self {
        Self { mark, ..self }
    }

    fn shows(&self, change: &CountedChange) -> bool {
        let text = self.text.as_ref().map(|text| text.to_lowercase());
        text.is_none_or(|text| change.trace.to_string().to_lowercase().contains(&text))
    }

    fn marks(&self, change: &CountedChange) -> bool {
        let trace = &change.trace;
        self.mark.as_ref().is_some_and(|(since, table, key)| {
            change.number > *since && trace.table == *table && trace.key == *key
        })
    }

    fn json_address(&self) -> String {
        let text = self.text.as_deref().map(|text| ("text", text));
        address(PLAY, [("format", "json")].into_iter().chain(text))
    }

    fn address(&self, after: u64) -> String {
        let (after, mark) = (after.to_string(), serde_json::to_string(&self.mark).unwrap_or_default());
        let text = self.text.as_deref().map(|text| ("text", text));
        let mark = self.mark.is_some().then_some(("mark", mark.as_str()));
        address(CHANGES, [("after", after.as_str())].into_iter().chain(text).chain(mark))
    }
}

/// `GET` of the changes after a number: new rows, and the next request for more.
pub(crate) async fn changes(State(served): State<Arc<Served>>, query: PageQuery) -> Response {
    let Some(board) = served.context.board() else { return not_here(&served) };
    let after = query.get("after").and_then(|after| after.parse().ok()).unwrap_or(0);
    let found = board.changes.after(after);
    let Some(newest) = found.first().map(|change| change.number) else {
        return StatusCode::NO_CONTENT.into_response();
    };
    let filter = ChangeFilter::of(&query);
    let part = html! {
        (poller(&filter, newest, false))
        div hx-swap-oob="afterbegin:#changes" { (rows(&served, &filter, &found)) }
    };
    Html(part.into_string()).into_response()
}

/// The list, and the form that filters it.
pub(super) fn list(served: &Served, board: &DevBoard, filter: &ChangeFilter) -> Markup {
    let found = board.changes.after(0);
    html! {
        form method="get" action=(PLAY) role="search" {
            label { "Text in a change" input type="search" name="text" value=[filter.text.as_deref()]; }
            button { "Filter" }
            label class="check" { input type="checkbox" id="pause"; "Pause" }
            p class="quiet" id="live-state" role="status" { "New changes appear by themselves." }
        }
        (poller(filter, board.changes.newest(), false))
        ol id="changes" class="changes" data-most=(SHOWN) { (rows(served, filter, &found)) }
        p class="empty" { (if_empty(filter)) }
        p class="quiet" { "The newest " (SHOWN) " changes are shown. This process keeps 500: " a href=(filter.json_address()) { "JSON" } }
    }
}

/// The text below a list without changes. The style hides it once there is one.
fn if_empty(filter: &ChangeFilter) -> &'static str {
    if filter.text.is_some() {
        "No change has this text yet."
    } else {
        "No change was counted yet. Write the item of the editor, or use the variables that the command printed."
    }
}

/// The element that asks for newer changes each second, and replaces itself. The page's script holds it while the reader reads.
pub(super) fn poller(filter: &ChangeFilter, newest: u64, is_extra: bool) -> Markup {
    html! {
        div id="live" data-live="changes" hx-get=(filter.address(newest)) hx-trigger="every 1s"
            hx-swap="outerHTML" hx-swap-oob=[is_extra.then_some("true")] {}
    }
}

fn rows(served: &Served, filter: &ChangeFilter, changes: &[Arc<CountedChange>]) -> Markup {
    let shown = changes.iter().filter(|change| filter.shows(change)).take(SHOWN);
    html! { @for change in shown { (row(served, change, filter.marks(change))) } }
}

fn row(served: &Served, change: &CountedChange, is_marked: bool) -> Markup {
    let trace = &change.trace;
    html! {
        li class={ "change" @if is_marked { " marked" } } id={ "change-" (change.number) } {
            form method="post" action=(super::again::AGAIN) {
                (token_field(served))
                input type="hidden" name="number" value=(change.number);
                button { "Deliver again" }
            }
            p class="head" {
                strong { (harmless(&trace.operation)) } " "
                @match item_address(served, trace) {
                    Some(to) => { a href=(to) { (harmless(&item_name(trace))) } },
                    None => { (harmless(&item_name(trace))) },
                }
                " → " (harmless(trace.entity.as_deref().unwrap_or("(no entity)")))
                @if is_marked { " " span class="verdict good" { "your change" } }
            }
            p class="quiet" { "counted " (time(change.counted_at)) ", number " (change.number) }
            (effects(trace))
            @if let Some(contents) = &trace.change {
                details { summary { "Contents" } pre { (harmless_lines(contents.get())) } }
            }
        }
    }
}

/// Everything that follows from a change.
fn effects(trace: &RecordTrace) -> Markup {
    let events = trace.events.iter().map(|event| format!("{} {}", event.name, event.id)).collect();
    let rows = trace.rows.iter().map(|row| format!("{} dt={} {}", row.dataset, row.dt, row.operation));
    let others: [(&str, Vec<String>); 4] = [
        ("cache key", trace.keys.clone()),
        ("path", trace.paths.clone()),
        ("event", events),
        ("row", rows.collect()),
    ];
    html! {
        ul class="effects" {
            @for rollup in trace.rollups.iter().take(SHOWN_EFFECTS) {
                li {
                    span class="quiet" { "rollup " }
                    a href=(rollup_link(&rollup.partition, &rollup.sort)) { (harmless(&rollup_name(rollup))) }
                    " " (harmless(&differences(rollup)))
                }
            }
            (more(trace.rollups.len()))
            @for (kind, texts) in others.iter() {
                @for text in texts.iter().take(SHOWN_EFFECTS) {
                    li { span class="quiet" { (kind) " " } code { (harmless(text)) } }
                }
                (more(texts.len()))
            }
            @if let Some(problem) = &trace.problem {
                li { span class="verdict bad" { "problem" } " " (harmless(problem)) }
            }
        }
    }
}

fn more(number: usize) -> Markup {
    let hidden = number.saturating_sub(SHOWN_EFFECTS);
    html! { @if hidden > 0 { li class="quiet" { "and " (hidden) " more" } } }
}

/// The table and the key.
pub(super) fn item_name(trace: &RecordTrace) -> String {
    format!("{} {}", trace.table, trace.key.join(" "))
}

pub(super) fn rollup_name(rollup: &TracedRollup) -> String {
    format!("{} {}", rollup.partition, rollup.sort)
}

fn differences(rollup: &TracedRollup) -> String {
    let measures = rollup.measures.iter().map(|(name, number)| format!("{name} {number}"));
    measures.collect::<Vec<_>>().join(", ")
}

/// The page of the item.
pub(super) fn item_address(served: &Served, trace: &RecordTrace) -> Option<String> {
    let config = &served.context.config;
    let table = config.model.table_deployed_as(&config.table_names, &trace.table)?;
    let (partition, sort) = (trace.key.first()?, trace.key.get(1));
    Some(item_link(&config.model.tables.get(table)?.name, partition, sort.map(String::as_str)))
}

/// The kept changes, for machines.
pub(super) fn table(served: &Served, board: &DevBoard, filter: &ChangeFilter) -> PageTable {
    let columns = [
        "number",
        "counted",
        "operation",
        "table",
        "key",
        "entity",
        "rollups",
        "keys",
        "paths",
        "events",
        "rows",
        "problem",
    ];
    let mut table = PageTable::new("changes", &columns, "No change was counted yet.");
    for change in board.changes.after(0).iter().filter(|change| filter.shows(change)) {
        let trace = &change.trace;
        let name = Cell::code(trace.key.join(" "));
        let key = item_address(served, trace).map(|to| Cell::link(trace.key.join(" "), to)).unwrap_or(name);
        let rollups =
            trace.rollups.iter().map(|rollup| format!("{}: {}", rollup_name(rollup), differences(rollup)));
        let events = trace.events.iter().map(|event| format!("{} {}", event.name, event.id));
        let rows = trace.rows.iter().map(|row| format!("{} dt={} {}", row.dataset, row.dt, row.operation));
        let lines = |lines: Vec<String>| Cell::text(lines.join("\n"));
        table.rows.push(vec![
            Cell::number(change.number),
            Cell::Time(change.counted_at),
            Cell::text(&trace.operation),
            Cell::text(&trace.table),
            key,
            trace.entity.as_ref().map_or(Cell::Empty, Cell::text),
            lines(rollups.collect()),
            lines(trace.keys.clone()),
            lines(trace.paths.clone()),
            lines(events.collect()),
            lines(rows.collect()),
            trace.problem.as_ref().map_or(Cell::Empty, Cell::text),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use afterwrite_model::record::Timestamp;

    use super::*;
    use crate::board::ChangeRing;

    #[test]
    fn a_filter_is_a_part_of_the_line_and_marks_an_item_after_a_number() {
        let ring = ChangeRing::default();
        let trace = || RecordTrace {
            operation: "INSERT".to_owned(),
            table: "T".to_owned(),
            key: vec!["A#<b>".to_owned()],
            ..RecordTrace::default()
        };
        (0..2).for_each(|_| ring.add("{}", trace(), Timestamp::from_epoch_ms(0)));
        let query = address("", [("text", "a#<B>"), ("mark", r##"[1,"T",["A#<b>"]]"##)]);
        let filter = ChangeFilter::of(&PageQuery::parse(query.trim_start_matches('?')));
        let found = ring.after(0);
        assert!(found.iter().all(|change| filter.shows(change)));
        let marked: Vec<u64> =
            found.iter().filter(|change| filter.marks(change)).map(|change| change.number).collect();
        assert_eq!(marked, [2]);
        let again = ChangeFilter::of(&PageQuery::parse(filter.address(7).split_once('?').unwrap().1));
        assert_eq!((again.text, again.mark), (filter.text, filter.mark));
    }
}
