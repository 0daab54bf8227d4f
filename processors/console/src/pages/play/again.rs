//! A record delivered again: the rollups that it changed, before and after.

use std::collections::BTreeSet;
use std::sync::Arc;

use afterwrite_ledger::StateItems;
use afterwrite_ledger::tables::Tables as _;
use afterwrite_model::harmless::harmless;
use afterwrite_model::record::{AttributeValue, Item};
use afterwrite_model::{Error, ErrorKind, Result};
use axum::extract::State;
use axum::response::Response;
use maud::html;

use super::change_text::{item_address, item_name, rollup_name};
use super::{PLAY, not_here};
use crate::board::{CountedChange, DevBoard, RedeliveredTo};
use crate::frame::Page;
use crate::links::rollup_link;
use crate::query::{PageForm, PageQuery};
use crate::served::Served;
use crate::table::{Cell, PageTable, Verdict};
use crate::view::{View, ViewResult};

/// The address that takes the number of a change.
pub(crate) const AGAIN: &str = "/play/again";
/// How often a record is delivered while other changes of its rollups are counted at the same time.
const ATTEMPTS: usize = 3;

/// A record that was delivered again: its rollups before and after, and the functions' responses.
struct RedeliveredChange {
    before: Vec<Option<Item>>,
    after: Vec<Option<Item>>,
    responses: Vec<RedeliveredTo>,
    /// Whether another change of one of these rollups was counted in the meantime.
    is_disturbed: bool,
}

/// `POST` of the number of a change.
pub(crate) async fn again(State(served): State<Arc<Served>>, PageForm(form): PageForm) -> Response {
    let Some(board) = served.context.board() else { return not_here(&served) };
    let view = view(&served, board, &form).await;
    super::answer(&served, Page::Play, &form, view)
}

async fn view(served: &Served, board: &DevBoard, form: &PageQuery) -> ViewResult {
    let number = form.get("number").and_then(|number| number.parse().ok());
    let change = number.and_then(|number| board.changes.get(number)).ok_or_else(|| {
        Error::new(ErrorKind::Configuration, "the change is not kept any more")
            .hint("Choose a newer one: this process keeps the newest 500")
    })?;
    let redelivered = redelivered(served, board, &change).await?;
    let (is_equal, trace) = (redelivered.before == redelivered.after, &change.trace);
    let mut view = View::new(Page::Play, "Delivered again");
    view.show(html! {
        p {
            strong { (harmless(&trace.operation)) } " "
            @match item_address(served, trace) {
                Some(to) => { a href=(to) { (harmless(&item_name(trace))) } },
                None => { (harmless(&item_name(trace))) },
            }
        }
        p { (verdict(&redelivered, is_equal, trace.rollups.is_empty()).markup()) }
    });
    view.table(comparison(&change, &redelivered));
    view.show(html! { h2 { "Responses" } });
    view.table(response_table(&redelivered.responses));
    view.show(html! {
        p class="quiet" {
            "The archive has the line twice now, and datasets drop the second one. Caches are invalidated once more."
        }
        p { a href=(PLAY) { "Back to the changes" } }
    });
    Ok(view)
}

/// Delivers a change, again while other changes of its rollups disturb the comparison.
async fn redelivered(
    served: &Served,
    board: &DevBoard,
    change: &Arc<CountedChange>,
) -> Result<RedeliveredChange> {
    let mut attempt = 1;
    loop {
        let newest = board.changes.newest();
        let before = stored(served, change).await?;
        let responses = board.deliver_again(Arc::clone(change)).await?;
        let after = stored(served, change).await?;
        let is_disturbed = before != after && others_changed(board, newest, change);
        if !is_disturbed || attempt == ATTEMPTS {
            return Ok(RedeliveredChange { before, after, responses, is_disturbed });
        }
        attempt += 1;
    }
}

/// Whether changes after a number have changed rollups of this one.
fn others_changed(board: &DevBoard, after: u64, change: &CountedChange) -> bool {
    let own: BTreeSet<_> =
        change.trace.rollups.iter().map(|rollup| (&rollup.partition, &rollup.sort)).collect();
    board.changes.after(after).iter().any(|other| {
        other.trace.rollups.iter().any(|rollup| own.contains(&(&rollup.partition, &rollup.sort)))
    })
}

/// The rollups of a change as they are stored.
async fn stored(served: &Served, change: &CountedChange) -> Result<Vec<Option<Item>>> {
    let context = &served.context;
    let names = context.config.table_names.clone();
    let state = StateItems::new(Arc::clone(context.model()), names, Arc::clone(&context.state_table));
    let rollups = change.trace.rollups.iter();
    let keys: Vec<_> = rollups.map(|rollup| state.key(&rollup.partition, &rollup.sort)).collect();
    if keys.is_empty() {
        return Ok(Vec::new());
    }
    Ok(context.tables.read(&keys).await?.items)
}

fn verdict(redelivered: &RedeliveredChange, is_equal: bool, is_without_rollups: bool) -> Cell {
    if redelivered.responses.iter().any(|response| response.outcome.is_err()) {
        return Cell::Verdict(Verdict::Warning, "a function did not take the record".to_owned());
    }
    match (is_without_rollups, is_equal, redelivered.is_disturbed) {
        (true, ..) => Cell::Verdict(Verdict::Good, "delivered; the change has no rollups".to_owned()),
        (false, true, _) => Cell::Verdict(Verdict::Good, "nothing changed".to_owned()),
        (false, false, true) => Cell::Verdict(
            Verdict::Unknown,
            "other changes of these rollups were counted at the same time; deliver it again when it is quiet"
                .to_owned(),
        ),
        (false, false, false) => Cell::Verdict(Verdict::Bad, "a rollup changed".to_owned()),
    }
}

/// The values of the rollups, side by side.
fn comparison(change: &CountedChange, redelivered: &RedeliveredChange) -> PageTable {
    let columns = ["rollup", "value", "before", "after", "result"];
    let mut table = PageTable::new("rollups", &columns, "The change has no rollups.");
    let states = redelivered.before.iter().zip(&redelivered.after);
    for (rollup, (before, after)) in change.trace.rollups.iter().zip(states) {
        let link = Cell::link(rollup_name(rollup), rollup_link(&rollup.partition, &rollup.sort));
        let names: BTreeSet<&str> =
            before.iter().chain(after).flat_map(Item::keys).map(AsRef::as_ref).collect();
        if names.is_empty() {
            let result = Cell::Verdict(Verdict::Good, "equal: not stored any more".to_owned());
            table.rows.push(vec![link, Cell::Empty, Cell::Empty, Cell::Empty, result]);
            continue;
        }
        for name in names.into_iter().filter(|name| !["PK", "SK"].contains(name)) {
            let value = |item: &Option<Item>| item.as_ref().and_then(|item| item.get(name)).map(shown);
            let (before, after) = (value(before), value(after));
            let result = if before == after { (Verdict::Good, "equal") } else { (Verdict::Bad, "different") };
            let [before, after] = [before, after].map(|value| value.unwrap_or(Cell::Empty));
            let result = Cell::Verdict(result.0, result.1.to_owned());
            table.rows.push(vec![link.clone(), Cell::code(name), before, after, result]);
        }
    }
    table
}

fn shown(value: &AttributeValue<'_>) -> Cell {
    match (value.as_number(), value.as_text()) {
        (Some(number), _) => Cell::number(number),
        (None, Some(text)) => Cell::code(text),
        (None, None) => Cell::text(value.type_name()),
    }
}

fn response_table(responses: &[RedeliveredTo]) -> PageTable {
    let mut table = PageTable::new("responses", &["function", "response"], "No function reads streams.");
    for response in responses {
        let outcome = match &response.outcome {
            Ok(answer) => Cell::code(answer),
            Err(report) => Cell::Verdict(Verdict::Bad, report.clone()),
        };
        table.rows.push(vec![Cell::text(&response.function), outcome]);
    }
    table
}
