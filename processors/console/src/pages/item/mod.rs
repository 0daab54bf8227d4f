//! The page *Item*: one item with everything that is derived from it.
//!
//! ```text
//! address ─▶ key ─▶ item and ledger entry (reading) ─▶ entity, shares, mirrors, caches, rows, events (sections)
//!                                        └───────────▶ entry, contents (entry)
//! ```

mod contents;
mod entities;
mod entry;
mod key;
mod reading;
mod sections;
mod shares;

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use maud::html;

use self::key::{asked_key, forms};
use self::reading::ItemReading;
use super::answer;
use crate::frame::Page;
use crate::query::PageQuery;
use crate::served::Served;
use crate::view::{View, ViewResult};

/// `GET` of the page.
pub(crate) async fn item(State(served): State<Arc<Served>>, query: PageQuery) -> Response {
    let view = view(&served, &query).await;
    answer(&served, Page::Item, &query, view)
}

async fn view(served: &Served, query: &PageQuery) -> ViewResult {
    let mut view = View::new(Page::Item, "Item");
    view.show(forms(&served.context, query));
    let Some(source) = asked_key(&served.context, query)? else {
        view.show(html! {
            p class="empty" {
                "Write the key of an item: its entity, its shares of rollups, its ledger entry and everything else that is derived from it are shown. "
                "On a page of a rollup, "
                em { "Contributors" }
                " lists items."
            }
        });
        return Ok(view);
    };
    let reading = ItemReading::read(served, source).await?;
    sections::show(served, &mut view, &reading, query).await?;
    Ok(view)
}
