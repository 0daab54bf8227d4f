//! Failed batches in the bucket of `dev`: the events whose records a mapping has given up.

use std::sync::Arc;

use afterwrite_deployment::doctor::FAILED_RECORDS;
use afterwrite_services::Bucket as _;
use afterwrite_services::config::ProjectionKind;
use axum::extract::State;
use axum::response::Response;
use maud::html;

use crate::context::ConsoleContext;
use crate::frame::Page;
use crate::pages::answer;
use crate::query::PageQuery;
use crate::served::Served;
use crate::table::{Cell, PageTable};
use crate::view::{View, ViewResult};

/// The objects that are shown.
const MAX_OBJECTS: usize = 50;

/// The command that processes discarded batches of `dev` again, of its objects with this prefix; `None` without a bucket. All mappings of `dev`
/// have one id, so the command has the projections of all functions.
pub(crate) fn redrive_command(context: &ConsoleContext, prefix: &str) -> Option<String> {
    let bucket = context.bucket_name.as_deref()?;
    let has_events = !context.model().events.is_empty();
    let hosted = ProjectionKind::ALL.into_iter().filter(|kind| *kind != ProjectionKind::Notify || has_events);
    let hosted: Vec<&str> = hosted.map(ProjectionKind::name).collect();
    Some(format!("afterwrite redrive s3://{bucket}/{prefix} --only {} --dry-run", hosted.join(",")))
}

/// `GET /health/failures`.
pub(crate) async fn failures(State(served): State<Arc<Served>>, query: PageQuery) -> Response {
    let view = Box::pin(view(&served)).await;
    answer(&served, Page::Health, &query, view)
}

async fn view(served: &Served) -> ViewResult {
    let mut view = View::new(Page::Health, "Failed batches");
    let Some(bucket) = &served.context.bucket else {
        view.show(html! { p class="empty" { "Unknown: no bucket is named." } });
        return Ok(view);
    };
    let objects = bucket.list(FAILED_RECORDS).await?;
    let mut table = PageTable::new("failures", &["object", "command"], "No batch was given up.");
    table.rows.extend(objects.iter().take(MAX_OBJECTS).map(|object| {
        let command = redrive_command(&served.context, &object.key);
        vec![Cell::code(object.key.as_str()), command.map_or(Cell::Empty, Cell::Code)]
    }));
    view.table(table);
    if objects.len() > MAX_OBJECTS {
        view.show(
            html! { p class="quiet" { "The first " (MAX_OBJECTS) " of " (objects.len()) " objects." } },
        );
    }
    Ok(view)
}
