//! The page *Flow*: the stages that a change passes, each with how it stands.

mod deployed;
mod dev;
mod picture;

use std::sync::Arc;

use afterwrite_model::Result;
use axum::extract::State;
use axum::response::{Html, IntoResponse as _, Response};
use maud::{Markup, html};

use self::picture::{Lane, picture, stage_table};
use super::answer;
use crate::context::ConsolePlace;
use crate::frame::Page;
use crate::query::PageQuery;
use crate::served::Served;
use crate::view::{View, ViewResult, loaded_later, problem};

/// The address of the picture alone.
pub(crate) const PICTURE: &str = "/flow/picture";

/// `GET` of the page.
pub(crate) async fn flow(State(served): State<Arc<Served>>, query: PageQuery) -> Response {
    let view = view(&served, &query).await;
    answer(&served, Page::Flow, &query, view)
}

/// `GET` of the picture, which the page repeats.
pub(crate) async fn flow_picture(State(served): State<Arc<Served>>) -> Response {
    let drawn: Markup = match lanes(&served).await {
        Ok(lanes) => picture(&lanes),
        Err(error) => problem(&error),
    };
    Html(drawn.into_string()).into_response()
}

async fn view(served: &Served, query: &PageQuery) -> ViewResult {
    let mut view = View::new(Page::Flow, "Flow");
    match &served.context.place {
        ConsolePlace::Deployed => {
            view.show(html! {
                p class="quiet" {
                    "From tables, mappings, queues and reports, as " code { "afterwrite doctor" }
                    " reads them. What may not be read is unknown. Records a second and the write units of your changes are metrics in CloudWatch: each stage names its own."
                }
                (loaded_later(PICTURE, Some("every 30s")))
            });
            if query.asks_for_data() {
                view.data(stage_table(&lanes(served).await?));
            }
        }
        ConsolePlace::Dev(_) => {
            let lanes = lanes(served).await?;
            view.show(html! {
                div hx-get=(PICTURE) hx-trigger="every 2s" hx-swap="innerHTML" { (picture(&lanes)) }
            });
            view.data(stage_table(&lanes));
        }
    }
    Ok(view)
}

/// The stages of the deployment.
async fn lanes(served: &Served) -> Result<Vec<Lane>> {
    match &served.context.place {
        ConsolePlace::Deployed => Box::pin(deployed::lanes(served)).await,
        ConsolePlace::Dev(board) => Box::pin(dev::lanes(&served.context, board)).await,
    }
}
