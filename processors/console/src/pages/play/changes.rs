//! Changes as they flow, the newest first, each with everything that follows from it.

use std::sync::Arc;

use afterwrite_model::harmless::{harmless, harmless_lines};
use afterwrite_preview::trace::RecordTrace;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{Html, IntoResponse as _, Response};
use maud::{Markup, html};

use super::again::AGAIN;
use super::change_text::{differences, event_name, item_address, item_name, rollup_name, row_name};
use super::{PLAY, not_here};
use crate::board::{CountedChange, DevBoard};
use crate::links::rollup_link;
use crate::query::{PageQuery, address};
use crate::served::Served;
use crate::table::{Cell, PageTable};
use crate::time::time;
use crate::view::write_form;

/// The address of the changes after a number.
pub(crate) const CHANGES: &str = "/play/changes";
/// The changes that a page has at first, and that follow each time when a reader comes to the end of them: the first paint takes time for each.
const STEP: usize = 6;
/// The changes that a list keeps when new ones appear.
const SHOWN: usize = 100;
/// The rollups, keys or paths of a change that a page shows.
const SHOWN_EFFECTS: usize = 50;

/// The changes that a page shows, and those that it marks.
#[derive(Clone, Debug)]
pub(crate) struct ChangeFilter {
    text: Option<String>,
    mark: Option<ChangeMark>,
    /// The list begins with the newest change before this number.
    before: u64,
}

/// The changes of one item after a number: the number, the deployed name of the table, and the values of the key.
pub(super) type ChangeMark = (u64, String, Vec<String>);

impl ChangeFilter {
    /// The filter of an address.
    pub(crate) fn of(query: &PageQuery) -> Self {
        let mark = query.get("mark").and_then(|mark| serde_json::from_str(mark).ok());
        let before = query.get("before").and_then(|before| before.parse().ok());
        Self { text: query.get("text").map(str::to_owned), mark, before: before.unwrap_or(u64::MAX) }
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

    /// The address of changes on one side of a number: `after`, or `before`.
    fn address(&self, path: &str, side: &str, number: u64) -> String {
        let number = number.to_string();
        let text = self.text.as_deref().map(|text| ("text", text));
        address(path, [(side, number.as_str())].into_iter().chain(text))
    }
}

/// `GET` of the changes before a number: the next rows of the list. Or of the changes after a number: new rows, and the next request for more.
pub(crate) async fn changes(State(served): State<Arc<Served>>, query: PageQuery) -> Response {
    let Some(board) = served.context.board() else { return not_here(&served) };
    let number = |side: &str| query.get(side).and_then(|number| number.parse().ok());
    if let Some(before) = number("before") {
        return Html(older(&served, board, &ChangeFilter::of(&query), before).into_string()).into_response();
    }
    let after = number("after").unwrap_or(0);
    let found = board.changes.after(after);
    let Some(newest) = found.first().map(|change| change.number) else {
        return StatusCode::NO_CONTENT.into_response();
    };
    let filter = ChangeFilter::of(&query);
    let part = html! {
        (poller(&filter, newest))
        div hx-swap-oob="afterbegin:#changes" { (rows(&served, &filter, &found)) }
    };
    Html(part.into_string()).into_response()
}

/// The list, and the form that filters it.
pub(super) fn list(served: &Served, board: &DevBoard, filter: &ChangeFilter) -> Markup {
    html! {
        form method="get" action=(PLAY) role="search" {
            label { "Text in a change" input type="search" name="text" value=[filter.text.as_deref()]; }
            button { "Filter" }
            label class="check" { input type="checkbox" id="pause"; "Pause" }
            p class="quiet" id="live-state" role="status" { "New changes appear by themselves." }
        }
        (mark_field(filter, false))
        (poller(filter, board.changes.newest()))
        ol id="changes" class="changes" data-most=(SHOWN) { (older(served, board, filter, filter.before)) }
        p class="empty" { (if_empty(board, filter)) }
        p class="quiet" { "This process keeps the newest 500 changes: " a href=(filter.json_address()) { "JSON" } }
    }
}

/// The text below a list without changes. The style hides it once there is one.
fn if_empty(board: &DevBoard, filter: &ChangeFilter) -> &'static str {
    let is_older = filter.before <= board.changes.newest();
    match (is_older, filter.text.is_some()) {
        (true, true) => "No older change has this text.",
        (true, false) => "No older change is kept.",
        (false, true) => "No change has this text yet.",
        (false, false) => {
            "No change was counted yet. Write the item of the editor, or use the variables that the command printed."
        }
    }
}

/// The hidden field with the changes that are marked. As an extra part of another answer, it replaces the field of the page.
pub(super) fn mark_field(filter: &ChangeFilter, is_extra: bool) -> Markup {
    let mark = filter.mark.as_ref().and_then(|mark| serde_json::to_string(mark).ok());
    html! {
        input type="hidden" id="mark" name="mark" value=(mark.unwrap_or_default()) hx-swap-oob=[is_extra.then_some("true")];
    }
}

/// The element that asks for newer changes each second, and replaces itself. The page's script holds it while the reader reads.
fn poller(filter: &ChangeFilter, newest: u64) -> Markup {
    html! {
        div id="live" data-live="changes" hx-get=(filter.address(CHANGES, "after", newest)) hx-include="#mark" hx-trigger="every 1s" hx-swap="outerHTML" {}
    }
}

fn rows(served: &Served, filter: &ChangeFilter, changes: &[Arc<CountedChange>]) -> Markup {
    let shown = changes.iter().filter(|change| filter.shows(change)).take(SHOWN);
    html! { @for change in shown { (row(served, change, filter.marks(change))) } }
}

/// The newest changes before a number, and after them the place of the changes before these, which are loaded when a reader comes to it.
fn older(served: &Served, board: &DevBoard, filter: &ChangeFilter, before: u64) -> Markup {
    let kept = board.changes.after(0);
    let mut found = kept.iter().filter(|change| change.number < before && filter.shows(change)).peekable();
    let step: Vec<&Arc<CountedChange>> = found.by_ref().take(STEP).collect();
    let last = step.last().filter(|_| found.peek().is_some()).map(|change| change.number);
    html! {
        @for change in &step { (row(served, change, filter.marks(change))) }
        @if let Some(last) = last {
            li class="older" hx-get=(filter.address(CHANGES, "before", last)) hx-trigger="intersect once" hx-include="#mark" hx-swap="outerHTML" {
                a href=(filter.address(PLAY, "before", last)) { "Older changes" }
            }
        }
    }
}

fn row(served: &Served, change: &CountedChange, is_marked: bool) -> Markup {
    let trace = &change.trace;
    html! {
        li class={ "change" @if is_marked { " marked" } } id={ "change-" (change.number) } {
            (write_form(served, AGAIN, html! {
                input type="hidden" name="number" value=(change.number);
                button { "Deliver again" }
            }))
            p class="head" {
                strong { (harmless(&trace.operation)) } " "
                @match item_address(served, trace) {
                    Some(to) => { a href=(to) { (harmless(&item_name(trace))) } },
                    None => { (harmless(&item_name(trace))) },
                }
                " → " (harmless(trace.entity.as_deref().unwrap_or("(no entity)")))
                @if is_marked { " " span class="verdict good" { "your change" } }
            }
            p class="quiet" { (change.taken()) " " (time(change.counted_at)) ", number " (change.number) }
            (effects(trace, served.context.board().is_some_and(|board| board.has_cache)))
            @if let Some(contents) = &trace.change {
                details { summary { "Contents" } pre { (harmless_lines(contents.get())) } }
            }
        }
    }
}

/// Everything that follows from a change. Without a cache, its keys are shown and not removed.
fn effects(trace: &RecordTrace, has_cache: bool) -> Markup {
    let cache_key = if has_cache { "cache key" } else { "cache key (no Redis here)" };
    let (events, rows) = (trace.events.iter().map(event_name), trace.rows.iter().map(row_name));
    let others: [(&str, Vec<String>); 4] = [
        (cache_key, trace.keys.clone()),
        ("path", trace.paths.clone()),
        ("event", events.collect()),
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
            @if let Some(problem) = &trace.problem_before {
                li { span class="verdict unknown" { "problem before the change" } " " (harmless(problem)) }
            }
        }
    }
}

fn more(number: usize) -> Markup {
    let hidden = number.saturating_sub(SHOWN_EFFECTS);
    html! { @if hidden > 0 { li class="quiet" { "and " (hidden) " more" } } }
}

/// The kept changes, for machines.
pub(super) fn table(served: &Served, board: &DevBoard, filter: &ChangeFilter) -> PageTable {
    let columns = COLUMNS.map(|(name, _)| name);
    let mut table = PageTable::new("changes", &columns, "No change was counted yet.");
    let changes = board.changes.after(0);
    let shown = changes.iter().filter(|change| filter.shows(change));
    table.rows.extend(shown.map(|change| COLUMNS.map(|(_, cell)| cell(served, change)).to_vec()));
    table
}

/// A column of the table: its name, and the cell of a change.
type ChangeColumn = (&'static str, fn(&Served, &CountedChange) -> Cell);

const COLUMNS: [ChangeColumn; 13] = [
    ("number", |_, change| Cell::number(change.number)),
    ("counted", |_, change| Cell::Time(change.counted_at)),
    ("operation", |_, change| Cell::text(&change.trace.operation)),
    ("table", |_, change| Cell::text(&change.trace.table)),
    ("key", |served, change| {
        let key = change.trace.key.join(" ");
        item_address(served, &change.trace).map_or_else(|| Cell::code(&key), |to| Cell::link(&key, to))
    }),
    ("entity", |_, change| change.trace.entity.as_ref().map_or(Cell::Empty, Cell::text)),
    ("rollups", |_, change| {
        lines(
            change
                .trace
                .rollups
                .iter()
                .map(|rollup| format!("{}: {}", rollup_name(rollup), differences(rollup))),
        )
    }),
    ("keys", |_, change| lines(change.trace.keys.iter().cloned())),
    ("paths", |_, change| lines(change.trace.paths.iter().cloned())),
    ("events", |_, change| lines(change.trace.events.iter().map(event_name))),
    ("rows", |_, change| lines(change.trace.rows.iter().map(row_name))),
    ("problem", |_, change| change.trace.problem.as_ref().map_or(Cell::Empty, Cell::text)),
    ("problem before", |_, change| change.trace.problem_before.as_ref().map_or(Cell::Empty, Cell::text)),
];

fn lines(lines: impl Iterator<Item = String>) -> Cell {
    Cell::text(lines.collect::<Vec<_>>().join("\n"))
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
        let again = ChangeFilter::of(&PageQuery::parse(
            filter.address(CHANGES, "after", 7).split_once('?').unwrap().1,
        ));
        assert_eq!(again.text, filter.text);
        let field = mark_field(&filter, true).into_string();
        assert!(field.contains("[1,&quot;T&quot;,[&quot;A#&lt;b&gt;&quot;]]"), "{field}");
    }
}
