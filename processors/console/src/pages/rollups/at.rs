//! One stored rollup, by its key in the state table.

use std::sync::Arc;

use afterwrite_ledger::state::{ENTITY_TYPE, PARTITION_KEY, ROLLUP_TYPE, SORT_KEY};
use afterwrite_ledger::{StateItem, StateItems};
use afterwrite_model::projection::{MAX_PARTITION_KEY, MAX_SORT_KEY};
use afterwrite_model::record::{AttributeValue, Item};
use afterwrite_model::{Error, ErrorKind, Result};
use axum::extract::State;
use axum::response::Response;
use maud::html;

use super::downloads::downloads;
use super::facts::{show_links, stored_facts};
use crate::context::ConsolePlace;
use crate::frame::Page;
use crate::links::{ROLLUP_AT, contributors_link, item_link, series_link};
use crate::pages::answer;
use crate::query::{PageQuery, address};
use crate::rollup::counted::CountedChanges;
use crate::rollup::measures::{MeasureTotals, show_measures};
use crate::rollup::reads::RollupReads;
use crate::rollup::shape::RollupShape;
use crate::served::Served;
use crate::table::{Cell, PageTable};
use crate::view::{View, ViewResult, loaded_later};

/// `GET` of the page.
pub(crate) async fn at(State(served): State<Arc<Served>>, query: PageQuery) -> Response {
    let view = view(&served, &query).await;
    answer(&served, Page::Rollups, &query, view)
}

/// The key that a query names.
///
/// # Errors
/// `Configuration` if a part is missing, or no item can have the key.
pub(super) fn stored_key(query: &PageQuery) -> Result<(&str, &str)> {
    let (Some(partition), Some(sort)) = (query.get("pk"), query.get("sk")) else {
        return Err(Error::new(ErrorKind::Configuration, "the address lacks a part of the rollup's key")
            .hint("Name both: /rollups/at?pk=PK&sk=SK. The page Rollups finds a rollup by the values of its key"));
    };
    if partition.len() > MAX_PARTITION_KEY || sort.len() > MAX_SORT_KEY {
        return Err(Error::new(
            ErrorKind::Configuration,
            "the key is longer than DynamoDB allows: 2,048 bytes of PK, 1,024 bytes of SK",
        ));
    }
    Ok((partition, sort))
}

async fn view(served: &Served, query: &PageQuery) -> ViewResult {
    let context = &served.context;
    let (partition, sort) = stored_key(query)?;
    let shapes = RollupShape::of_key(context.model(), partition, sort);
    let names: Vec<&str> = shapes.iter().map(|shape| &*shape.rollup.name).collect();
    let title = if names.is_empty() { "Rollup".to_owned() } else { format!("Rollup {}", names.join(", ")) };
    let mut view = View::new(Page::Rollups, title);
    let key = (partition.to_owned(), sort.to_owned());
    let (keys, reads) = ([key], RollupReads(context));
    let (counted, stored) = CountedChanges::with_rollups(context, &shapes, reads.stored(&keys)).await?;
    let stored = stored.into_iter().next().flatten();
    if let Some(item) = stored.as_ref().filter(|item| !is_rollup(item)) {
        view.show(other_item(served, item));
        return Ok(view);
    }
    let items: Vec<&Item> = stored.iter().collect();
    view.table(facts(&shapes, (partition, sort), (&items, &counted)));
    view.show(counted.note());
    if items.is_empty() {
        view.show(html! {
            p class="empty" { "No such item is stored: nothing was counted into it, or it has expired." }
        });
    }
    if names.is_empty() {
        view.show(html! {
            p class="empty" { "No rollup of the model has such a key. It may be of another model, or of an earlier generation of this one." }
        });
    }
    show_measures(&mut view, &shapes, &MeasureTotals::of_one(items));
    for shape in &shapes {
        show_links(&mut view, shape, (shape.rollup.unsharded(partition), sort));
    }
    view.show(downloads(query, ROLLUP_AT));
    if !shapes.is_empty() {
        show_contributors(&mut view, &context.place, (partition, sort));
    }
    Ok(view)
}

/// Adds the contributors, which are found at once on this machine.
fn show_contributors(view: &mut View, place: &ConsolePlace, (partition, sort): (&str, &str)) {
    let link = contributors_link(partition, sort);
    view.show(html! { h2 { "Contributors" } });
    view.show(match place {
        ConsolePlace::Dev(_) => loaded_later(&link, None),
        ConsolePlace::Deployed => html! {
            p { "The items that are counted into it are found by reading their tables, one page for each click. " }
            p { a href=(address(&link, [("step", "1")])) { "Find the contributors: read the first page" } }
        },
    });
}

fn is_rollup(item: &Item) -> bool {
    item.get(ENTITY_TYPE).and_then(AttributeValue::as_text).is_none_or(|kind| kind == ROLLUP_TYPE)
}

/// An item of the state table that is not a rollup.
fn other_item(served: &Served, item: &Item) -> maud::Markup {
    let context = &served.context;
    let names = context.config.table_names.clone();
    let state = StateItems::new(Arc::clone(context.model()), names, Arc::clone(&context.state_table));
    let source = match state.classify(item) {
        StateItem::Entry(source, _) => source,
        StateItem::Rollup(..) | StateItem::ParkedExpiry | StateItem::Other => None,
    };
    let table = |index: usize| context.model().tables.get(index).map_or("", |table| &*table.name);
    html! {
        p class="empty" {
            "This item of the state table is not a rollup; only Afterwrite reads it. "
            @if let Some(source) = source {
                a href=(item_link(table(source.table), &source.partition, source.sort.as_deref())) { "The item whose ledger entry it is" }
            }
        }
    }
}

fn facts(
    shapes: &[RollupShape<'_>],
    (partition, sort): (&str, &str),
    (items, counted): (&[&Item], &CountedChanges),
) -> PageTable {
    let mut table = PageTable::new("facts", &["fact", "value"], "");
    let mut fact = |name: &str, cell: Cell| table.rows.push(vec![Cell::text(name), cell]);
    fact(PARTITION_KEY, Cell::code(partition));
    fact(SORT_KEY, Cell::code(sort));
    for shape in shapes {
        fact("rollup", Cell::link(&*shape.rollup.name, series_link(&shape.rollup.name, [], &[])));
        let unsharded = shape.rollup.unsharded(partition);
        if shape.rollup.shards > 1 {
            let values = shape.rollup.values(unsharded, sort).unwrap_or_default();
            let values = shape.rollup.variables.iter().zip(values.iter().map(|value| &**value));
            let text = format!("one of {}: their sum", shape.rollup.shards);
            fact("shard", Cell::link(text, series_link(&shape.rollup.name, values, &[])));
        }
        for group in shape.rollup.rank_groups(partition, sort) {
            fact(&format!("group in {}", group.attribute), Cell::code(group.name));
        }
    }
    table.rows.extend(stored_facts(items, counted));
    table
}
