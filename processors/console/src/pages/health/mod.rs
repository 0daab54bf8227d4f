//! The page *Health*: jobs, parked items, verifications and failed batches, each with the command or the button that mends it.
//!
//! | address | contents |
//! |---|---|
//! | `/health` | jobs and parked items; the other parts are loaded after them |
//! | `/health/job` | one job, with its controls |
//! | `/health/reports` | the verifier's reports over time |
//! | `/health/findings` | the findings of `afterwrite doctor` |
//! | `/health/failures` | failed batches in the bucket of `dev` |
//! | `/health/run` | a command: its plan, and the button that starts it |

pub(crate) mod failures;
pub(crate) mod findings;
pub(crate) mod job;
mod jobs;
mod parked;
pub(crate) mod reports;
pub(crate) mod run;

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use maud::html;

use super::answer;
use crate::frame::Page;
use crate::query::PageQuery;
use crate::served::Served;
use crate::view::{View, ViewResult, loaded_later, problem};

/// `GET /health`.
pub(crate) async fn health(State(served): State<Arc<Served>>, query: PageQuery) -> Response {
    let view = Box::pin(view(&served, &query)).await;
    answer(&served, Page::Health, &query, view)
}

async fn view(served: &Served, query: &PageQuery) -> ViewResult {
    let mut view = View::new(Page::Health, "Health");
    let context = &served.context;
    view.show(html! { h2 { "Jobs" } });
    view.table(jobs::table(&context.jobs().list().await?));
    view.show(html! { h2 { "Parked items" } });
    match parked::page(context, query).await {
        Ok(parked) => parked.add_to(&mut view, query),
        Err(error) => view.show(problem(&error)),
    }
    view.show(html! { h2 { "Commands" } (run::offered(served)) });
    view.show(html! { h2 { "Verifications" } (loaded_later("/health/reports", "load")) });
    let (title, address) = match context.board() {
        Some(_) => ("Failed batches", "/health/failures"),
        None => ("Findings", "/health/findings"),
    };
    view.show(html! { h2 { (title) } (loaded_later(address, "load")) });
    Ok(view)
}
