//! The page *Play*.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;

use super::answer;
use crate::frame::Page;
use crate::query::PageQuery;
use crate::served::Served;
use crate::view::{View, ViewResult};

/// `GET` of the page.
pub(crate) async fn play(State(served): State<Arc<Served>>, query: PageQuery) -> Response {
    let view = view(&served, &query).await;
    answer(&served, Page::Play, &query, view)
}

async fn view(_served: &Served, _query: &PageQuery) -> ViewResult {
    Ok(View::new(Page::Play, "Play"))
}
