//! The page *Rollups*, and the pages of one rollup: `of` by the values of its key, `at` by its stored key, `rank` for its order,
//! `contributors` for the items that are counted into it.

pub(crate) mod at;
mod buckets;
mod choice;
pub(crate) mod contributors;
mod downloads;
mod facts;
mod known;
mod listing;
pub(crate) mod of;
pub(crate) mod rank;
mod shares;

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;

use self::downloads::downloads;
use super::answer;
use crate::frame::Page;
use crate::links::{ROLLUPS, ranks_link, series_link};
use crate::query::PageQuery;
use crate::rollup::shape::RollupShape;
use crate::served::Served;
use crate::table::{Cell, PageTable};
use crate::view::{View, ViewResult};

/// `GET` of the page.
pub(crate) async fn rollups(State(served): State<Arc<Served>>, query: PageQuery) -> Response {
    answer(&served, Page::Rollups, &query, view(&served, &query))
}

fn view(served: &Served, query: &PageQuery) -> ViewResult {
    let model = served.context.model();
    let mut view = View::new(Page::Rollups, "Rollups");
    let columns =
        ["rollup", "PK", "SK", "measures", "ranks", "shards", "expires", "counts", "level", "is counted"];
    let if_empty = "The model has no rollups. `[rollups.<name>]` declares one: see docs/MODEL.md.";
    let mut table = PageTable::new("rollups", &columns, if_empty);
    let rows = RollupShape::all(model).into_iter().map(|shape| {
        let description = shape.rollup.describe();
        let (partition, sort) = description.key.split_once(" / ").unwrap_or((&description.key, ""));
        let measures = shape.reader.measures.iter().map(|measure| measure.name.as_str());
        let name = &*shape.rollup.name;
        let ranks = description.rank.iter().map(|(measure, rank)| {
            (format!("{measure} within {}", rank.within), ranks_link(name, measure, &[]))
        });
        let sources: Vec<&str> = shape.sources().iter().map(|entity| &*entity.name).collect();
        let is_counted = if model.is_source(shape.index) { "as a source" } else { "" };
        vec![
            Cell::link(&*shape.rollup.name, series_link(&shape.rollup.name, [], &[])),
            Cell::code(partition),
            Cell::code(sort),
            Cell::text(measures.collect::<Vec<_>>().join(", ")),
            Cell::Links(ranks.collect()),
            Cell::number(shape.rollup.shards),
            Cell::text(description.expires.clone().unwrap_or_else(|| "never".to_owned())),
            Cell::text(sources.join(", ")),
            Cell::number(shape.level()),
            Cell::text(is_counted),
        ]
    });
    table.rows = rows.collect();
    view.table(table);
    view.show(downloads(query, ROLLUPS));
    Ok(view)
}
