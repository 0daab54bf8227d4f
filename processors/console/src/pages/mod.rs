//! The pages, a module each.

pub(crate) mod flow;
pub(crate) mod health;
pub(crate) mod item;
pub(crate) mod play;
pub(crate) mod rollups;

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use maud::html;

use crate::frame::Page;
use crate::links::{ITEM, ROLLUPS};
use crate::query::PageQuery;
use crate::served::Served;
use crate::view::{View, ViewResult, failed};

/// The answer at an address without a page.
pub(crate) async fn no_page(State(served): State<Arc<Served>>, query: PageQuery) -> Response {
    let mut view = View::new(Page::Flow, "There is no such page");
    view.show(html! {
        p { "This address has no page. The links above lead to all pages; " a href=(ROLLUPS) { "Rollups" } " finds a number by its name and key, " a href=(ITEM) { "Item" } " an item by its key." }
    });
    (StatusCode::NOT_FOUND, view.respond(&served, &query)).into_response()
}

/// The answer of a page: its view, or its error in a page.
pub(crate) fn answer(served: &Served, page: Page, query: &PageQuery, view: ViewResult) -> Response {
    match view {
        Ok(view) => view.respond(served, query),
        Err(error) => failed(served, page, query, &error),
    }
}
