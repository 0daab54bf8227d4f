//! Failed batches in the bucket of `dev`: the events whose records a mapping has given up.

use std::sync::Arc;

use afterwrite_deployment::doctor::FAILED_RECORDS;
use afterwrite_services::Bucket as _;
use axum::extract::State;
use axum::response::Response;
use maud::html;

use crate::frame::Page;
use crate::pages::answer;
use crate::query::PageQuery;
use crate::served::Served;
use crate::table::{Cell, PageTable};
use crate::view::{View, ViewResult};

/// The objects that are shown.
const MAX_OBJECTS: usize = 50;

/// `GET /health/failures`.
pub(crate) async fn failures(State(served): State<Arc<Served>>, query: PageQuery) -> Response {
    let view = Box::pin(view(&served)).await;
    answer(&served, Page::Health, &query, view)
}

async fn view(served: &Served) -> ViewResult {
    let mut view = View::new(Page::Health, "Failed batches");
    let Some((bucket, name)) = served.context.bucket.as_ref().zip(served.context.bucket_name.as_ref()) else {
        view.show(html! { p class="empty" { "Unknown: no bucket is named." } });
        return Ok(view);
    };
    let objects = bucket.list(FAILED_RECORDS).await?;
    let mut table = PageTable::new("failures", &["object", "command"], "No batch was given up.");
    table.rows.extend(objects.iter().take(MAX_OBJECTS).map(|object| {
        vec![
            Cell::code(object.key.as_str()),
            Cell::code(format!("afterwrite redrive s3://{name}/{} --dry-run", object.key)),
        ]
    }));
    view.table(table);
    if objects.len() > MAX_OBJECTS {
        view.show(
            html! { p class="quiet" { "The first " (MAX_OBJECTS) " of " (objects.len()) " objects." } },
        );
    }
    Ok(view)
}
