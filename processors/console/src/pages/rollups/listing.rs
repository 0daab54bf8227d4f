//! The rollups of a partition, page by page.

use afterwrite_client::ReaderMeasure;
use afterwrite_ledger::state::SORT_KEY;
use afterwrite_model::Result;
use afterwrite_model::effect::MAX_SORT_KEY;
use afterwrite_model::harmless::harmless;
use maud::html;

use super::downloads::downloads;
use super::facts::stored_link;
use super::shares::show_share;
use crate::links::ROLLUPS_OF;
use crate::query::{PageQuery, no_such_key};
use crate::rollup::measures::{MeasureTotals, cell_of};
use crate::rollup::reads::RollupReads;
use crate::rollup::shape::RollupShape;
use crate::rollup::share::MeasureShare;
use crate::served::Served;
use crate::table::{Cell, PageTable};
use crate::view::View;

/// The items that are read for a page, of each shard.
const PAGE_ITEMS: u16 = 25;
/// The parameter with the sort key after which a page begins.
const AFTER: &str = "after";

/// Adds a page of the rollups of a partition.
pub(super) async fn show(
    served: &Served,
    view: &mut View,
    shape: &RollupShape<'_>,
    (partition, beginning): (&str, &str),
    query: &PageQuery,
) -> Result<()> {
    let reads = RollupReads(&served.context);
    let after = sort_key_before_page(query, beginning)?;
    let (rollups, next) = reads.listed(shape, (partition, beginning), after, PAGE_ITEMS).await?;
    let measures: Vec<&ReaderMeasure> = shape.reader.measures.iter().collect();
    let names = measures.iter().map(|measure| measure.name.as_str());
    let columns: Vec<&str> = [SORT_KEY].into_iter().chain(names).collect();
    let if_empty = "No rollup of this name is in this part of the partition: nothing is counted there, or it has expired.";
    let mut table = PageTable::new("rollups", &columns, if_empty);
    for rollup in &rollups {
        let totals = MeasureTotals::of_one(rollup.stored());
        let mut row = vec![Cell::link(&rollup.sort, stored_link(shape, rollup))];
        row.extend(measures.iter().map(|measure| cell_of(totals.value(shape, measure).as_ref())));
        table.rows.push(row);
    }
    view.show(html! {
        h2 { "In the partition " code { (harmless(partition)) } }
        p class="quiet" {
            "A page of " (PAGE_ITEMS) " items, by a query of the partition"
            @if shape.rollup.shards > 1 { " of each of " (shape.rollup.shards) " shards, added up" }
            "."
        }
    });
    if let Some(share) = MeasureShare::of(shape, query) {
        let rollups = rollups.iter().map(|rollup| {
            (Cell::link(&rollup.sort, stored_link(shape, rollup)), MeasureTotals::of_one(rollup.stored()))
        });
        show_share(view, &share, SORT_KEY, rollups.collect(), None);
    }
    view.table(table);
    if let Some(next) = next {
        let address = query.address(ROLLUPS_OF, [(AFTER, Some(next.as_str()))]);
        view.show(html! { p { a href=(address) { "Next page" } } });
        view.continue_at(&address);
    }
    view.show(downloads(query, ROLLUPS_OF));
    Ok(())
}

/// The sort key after which the page begins; `None` for the first page. DynamoDB takes only a key that the list can have.
fn sort_key_before_page<'q>(query: &'q PageQuery, beginning: &str) -> Result<Option<&'q str>> {
    match query.get(AFTER) {
        Some(after) if !after.starts_with(beginning) || after.len() > MAX_SORT_KEY => {
            Err(no_such_key(AFTER, "the list has no such sort key"))
        }
        after => Ok(after),
    }
}
