//! The page *Health*: jobs, parked items, verifications and failed batches, each with the command or the button that mends it.
//!
//! | address | contents |
//! |---|---|
//! | `/health` | jobs, parked items, and inside `dev` batches that are retried; the other parts are loaded after them |
//! | `/health/job` | one job, with its controls |
//! | `/health/job/progress` | the parts of that page that change while the job runs |
//! | `/health/reports` | the verifier's reports over time |
//! | `/health/findings` | the findings of `afterwrite doctor` |
//! | `/health/failures` | failed batches in the bucket of `dev` |
//! | `/health/running` | the parts of the page that change while a command or a job runs |
//! | `/health/run` | a command: its plan, and the button that starts it |

mod failed_batch;
pub(crate) mod failures;
pub(crate) mod findings;
pub(crate) mod job;
mod jobs;
mod parked;
pub(crate) mod reports;
pub(crate) mod run;

use std::sync::Arc;

use afterwrite_model::Result;
use afterwrite_operations::jobs::ListedJob;
use axum::extract::State;
use axum::response::{Html, IntoResponse as _, Response};
use maud::{Markup, html};

use super::answer;
use crate::frame::Page;
use crate::incidents::waiting_table;
use crate::query::PageQuery;
use crate::recount::COUNTING;
use crate::served::Served;
use crate::view::{ENDED, View, ViewResult, loaded_later, polled};

/// `GET /health`.
pub(crate) async fn health(State(served): State<Arc<Served>>, query: PageQuery) -> Response {
    let view = Box::pin(view(&served, &query)).await;
    answer(&served, Page::Health, &query, view)
}

/// The address of the parts that change while something runs.
pub(crate) const RUNNING: &str = "/health/running";

/// `GET` of these parts. At the end of the last command and job, parked items and findings have changed, too: these parts of the page are replaced
/// or loaded again. The page itself stays, with everything that its reader has opened.
pub(crate) async fn running(State(served): State<Arc<Served>>, query: PageQuery) -> Response {
    match Box::pin(changed(&served, &query)).await {
        Ok(response) => response,
        Err(error) => answer(&served, Page::Health, &query, Err(error)),
    }
}

async fn changed(served: &Served, query: &PageQuery) -> Result<Response> {
    let jobs = served.context.jobs().list().await?;
    let parts = html! { (commands(served, &jobs, query)) (shown_jobs(&jobs, true)) };
    if is_running(served, &jobs) {
        return Ok(Html(parts.into_string()).into_response());
    }
    let incidents = incidents(served, query).await.contents();
    let parts = html! { (parts) div id=(INCIDENTS) hx-swap-oob="true" { (incidents) } };
    Ok(([("HX-Trigger", ENDED)], Html(parts.into_string())).into_response())
}

/// Whether a command that was started here, or a job, has not ended.
fn is_running(served: &Served, jobs: &[ListedJob]) -> bool {
    run::is_any_running(served) || jobs::has_any_process(jobs)
}

/// The commands. While something runs, the element asks for itself again.
fn commands(served: &Served, jobs: &[ListedJob], query: &PageQuery) -> Markup {
    let again = is_running(served, jobs).then(|| query.address(RUNNING, []));
    polled("commands", again.as_deref(), &run::offered(served))
}

/// The jobs. As an extra part of another answer, the table replaces the jobs of the page.
fn shown_jobs(jobs: &[ListedJob], is_extra: bool) -> Markup {
    html! { div id="jobs" hx-swap-oob=[is_extra.then_some("true")] { (jobs::table(jobs).markup()) } }
}

async fn view(served: &Served, query: &PageQuery) -> ViewResult {
    let mut view = View::new(Page::Health, "Health");
    let context = &served.context;
    let listed = match context.jobs().list().await {
        Ok(listed) => {
            view.show(html! { h2 { "Jobs" } (shown_jobs(&listed, false)) });
            view.data(jobs::table(&listed));
            listed
        }
        // The other parts may be readable.
        Err(error) => {
            view.show(html! { h2 { "Jobs" } p class="empty" { "Unknown: the jobs could not be read." } });
            view.unread(jobs::TABLE, &error);
            Vec::new()
        }
    };
    view.enclose(INCIDENTS, incidents(served, query).await);
    view.show(html! { h2 { "Commands" } (commands(served, &listed, query)) });
    let again = format!("{ENDED} from:body");
    view.show(html! { h2 { "Verifications" } (loaded_later("/health/reports", Some(&again))) });
    let (title, address) = match context.board() {
        Some(_) => ("Failed batches", "/health/failures"),
        None => ("Findings", "/health/findings"),
    };
    view.show(html! { h2 { (title) } (loaded_later(address, Some(&again))) });
    Ok(view)
}

/// The id of the element with the parked items and the records that are retried.
const INCIDENTS: &str = "incidents";

/// The parked items, and inside `dev` the records that are retried.
async fn incidents(served: &Served, query: &PageQuery) -> View {
    let (mut view, context) = (View::new(Page::Health, ""), &served.context);
    view.show(html! { h2 { "Parked items" } });
    match parked::page(context, query).await {
        Ok(parked) => parked.add_to(&mut view, query),
        Err(error) => view.unread(parked::TABLE, &error),
    }
    let Some(board) = context.board() else { return view };
    let waiting = board.meters.waiting(COUNTING);
    let table = waiting_table(context, &waiting);
    if waiting.is_empty() {
        view.data(table);
        return view;
    }
    view.show(html! { h2 { "Records that are retried" } });
    view.table(table);
    view.show(html! {
        p {
            "A batch is delivered to " code { (COUNTING) } " again until its first record is counted; the later records of its stream wait. After ten retries it is a failed batch. "
            "If a lookup found no item, write the item that it looks for."
        }
    });
    view
}
