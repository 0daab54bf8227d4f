//! The parked items: those that miss a record, by the sparse index of the state table.

use afterwrite_ledger::state::{BEHIND, PARTITION_KEY, SORT_KEY};
use afterwrite_ledger::tables::Tables as _;
use afterwrite_ledger::{StateItem, StateItems};
use afterwrite_model::entity::SourceKey;
use afterwrite_model::{Error, ErrorKind, Result};
use afterwrite_operations::redrive::{PARKED_INDEX, ParkedItem, ParkedPosition, parked_page, parked_reasons};
use maud::html;

use crate::context::ConsoleContext;
use crate::links::item_link;
use crate::query::{PageQuery, no_such_key};
use crate::recount::COUNTING;
use crate::table::{Cell, PageTable, Verdict};
use crate::view::View;

/// The items of a page.
const PAGE_ITEMS: i32 = 50;
/// The attributes of a key of the index, in the order of their names.
const INDEX_KEY: [&str; 3] = [PARTITION_KEY, SORT_KEY, BEHIND];
/// The name of the table.
pub(super) const TABLE: &str = "parked";
/// The parameter with the key after which a page begins.
const AFTER: &str = "parked_after";

/// A page of the parked items.
pub(super) enum ParkedPage {
    /// The state table has no index that lists them.
    NoIndex,
    /// The items, and the parameter of the next page.
    Listed(PageTable, Option<String>),
}

/// Reads a page of the index.
pub(super) async fn page(context: &ConsoleContext, query: &PageQuery) -> Result<ParkedPage> {
    let after = query.get(AFTER).map(position).transpose()?;
    let is_first = after.is_none();
    let page = parked_page(&context.client, &context.state_table, PAGE_ITEMS, after).await?;
    let Some((parked, next)) = page else {
        return if is_first { Ok(ParkedPage::NoIndex) } else { Err(no_position()) };
    };
    let mut table = PageTable::new(TABLE, &["item", "reason", "record"], &if_empty(context));
    table.rows = rows(context, &parked).await?;
    Ok(ParkedPage::Listed(table, next.and_then(|next| serde_json::to_string(&next).ok())))
}

/// The key of the index in a parameter.
fn position(text: &str) -> Result<ParkedPosition> {
    let read: Option<ParkedPosition> = serde_json::from_str(text).ok();
    let is_key = |key: &ParkedPosition| key.keys().map(String::as_str).eq(INDEX_KEY);
    read.filter(is_key).ok_or_else(no_position)
}

/// The error of a parameter that is no key of the index.
fn no_position() -> Error {
    no_such_key(AFTER, "the index of parked items has no such key")
}

/// The text in place of the items. A record whose lookup through an index finds nothing is retried, and not parked.
fn if_empty(context: &ConsoleContext) -> String {
    let Some(board) = context.board() else {
        return "No item is parked. A record that waits for a lookup is retried, and not parked: the page Flow shows a stream that is late.".to_owned();
    };
    match board.meters.waiting(COUNTING).iter().map(|batch| batch.records).sum() {
        0_u64 => "No item is parked, and no record is retried.".to_owned(),
        1 => "No item is parked; 1 record is retried.".to_owned(),
        records => format!("No item is parked; {records} records are retried."),
    }
}

async fn rows(context: &ConsoleContext, parked: &[ParkedItem]) -> Result<Vec<Vec<Cell>>> {
    let names = context.config.table_names.clone();
    let state = StateItems::new(context.model().clone(), names, context.state_table.clone());
    let keys: Vec<_> = parked.iter().map(|item| state.key(&item.partition, &item.sort)).collect();
    let entries = context.tables.read(&keys).await?.items;
    let reasons = parked_reasons(&context.deployment(), parked).await?;
    let rows = parked.iter().zip(entries).zip(reasons).map(|((item, entry), reason)| {
        let source = entry.as_ref().and_then(|entry| match state.classify(entry) {
            StateItem::Entry(source, _) => source,
            StateItem::Rollup(..) | StateItem::ParkedExpiry | StateItem::Other => None,
        });
        let named = source.and_then(|source| source_link(context, &source));
        vec![
            named.unwrap_or_else(|| Cell::code(format!("{} {}", item.partition, item.sort))),
            Cell::Verdict(Verdict::Bad, reason),
            Cell::Position(item.position().to_owned()),
        ]
    });
    Ok(rows.collect())
}

/// A link to an item, by its key.
pub(super) fn source_link(context: &ConsoleContext, source: &SourceKey<'_>) -> Option<Cell> {
    let table = context.config.table_names.get(source.table)?;
    let sort = source.sort.as_deref();
    let text = [Some(&*source.partition), sort].into_iter().flatten().collect::<Vec<_>>().join(" ");
    Some(Cell::link(text, item_link(table, &source.partition, sort)))
}

impl ParkedPage {
    /// Adds the page's parts to a view.
    pub(super) fn add_to(self, view: &mut View, query: &PageQuery) {
        match self {
            Self::NoIndex => {
                view.show(html! { p class="empty" { "Unknown: the parked items could not be read." } });
                let error = Error::new(ErrorKind::State, "the state table has no index of parked items");
                let hint = "`afterwrite redrive --dry-run` reads the whole table and lists parked items";
                view.unread(TABLE, &error.with("index", PARKED_INDEX).hint(hint));
            }
            Self::Listed(table, next) => {
                let is_empty = table.rows.is_empty();
                view.table(table);
                if let Some(next) = next {
                    let address = query.address("/health", [(AFTER, Some(next.as_str()))]);
                    view.show(
                        html! { p { "The first " (PAGE_ITEMS) ". " a href=(address) { "Next page" } } },
                    );
                    view.continue_at(&address);
                }
                if !is_empty {
                    view.show(html! {
                        p {
                            "A plan of " code { "afterwrite redrive" } " shows why each of them is parked. Correct the items or the model; then it counts them."
                        }
                    });
                }
            }
        }
    }
}
