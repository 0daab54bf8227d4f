//! The pages, a module each.

pub(crate) mod flow;
pub(crate) mod health;
pub(crate) mod item;
pub(crate) mod play;
pub(crate) mod rollups;

use axum::response::Response;

use crate::frame::Page;
use crate::query::PageQuery;
use crate::served::Served;
use crate::view::{ViewResult, failed};

/// The answer of a page: its view, or its error in a page.
pub(crate) fn answer(served: &Served, page: Page, query: &PageQuery, view: ViewResult) -> Response {
    match view {
        Ok(view) => view.respond(served, query),
        Err(error) => failed(served, page, query, &error),
    }
}
