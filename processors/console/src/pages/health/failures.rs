//! Failed batches in the bucket of `dev`: the events whose records a mapping has given up.

use std::sync::Arc;

use afterwrite_deployment::doctor::FAILED_RECORDS;
use afterwrite_services::Bucket as _;
use afterwrite_services::config::ProjectionKind;
use axum::extract::State;
use axum::response::Response;
use maud::html;

use super::failed_batch::FailedBatch;
use crate::context::ConsoleContext;
use crate::frame::Page;
use crate::incidents::prefix_of;
use crate::pages::answer;
use crate::prose::prose;
use crate::query::PageQuery;
use crate::served::Served;
use crate::table::{Cell, PageTable};
use crate::view::{View, ViewResult};

/// The objects that are shown.
const MAX_OBJECTS: usize = 50;

/// The advice for failed batches.
const WHAT_TO_DO: &str = "The records of a failed batch were given up: they are not delivered again by themselves. Remove the reason, then run the command, and again with `--yes` in place of `--dry-run`. It moves the object to `redriven/` once all of its records are processed.";

/// The functions of `dev` whose failed batches are processed again, with their projections.
const FUNCTIONS: [(&str, &[ProjectionKind]); 2] =
    [("aggregator", &[ProjectionKind::Aggregate]), ("relay", &ProjectionKind::OF_RELAY)];

/// The function whose failed batch has this key; `None` of another program, or of another version of `dev`.
fn function_of(context: &ConsoleContext, key: &str) -> Option<(&'static str, &'static [ProjectionKind])> {
    let tables = || context.config.table_names.iter();
    let is_of = |function: &str| tables().any(|table| key.starts_with(&prefix_of(function, table)));
    FUNCTIONS.into_iter().find(|(function, _)| is_of(function))
}

/// The command that processes failed batches of `dev` again, of its objects with this prefix; `None` without a bucket.
pub(crate) fn redrive_command(context: &ConsoleContext, prefix: &str) -> Option<String> {
    let bucket = context.bucket_name.as_deref()?;
    let has_events = !context.model().events.is_empty();
    // Of an unknown function, nothing may be left out.
    let hosted = function_of(context, prefix).map_or(ProjectionKind::ALL.as_slice(), |(_, hosted)| hosted);
    let hosted = hosted.iter().filter(|kind| **kind != ProjectionKind::Notify || has_events);
    let hosted: Vec<&str> = hosted.map(|kind| kind.name()).collect();
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
    let if_empty = "No failed batch is left: none was given up, or each was processed again.";
    let columns = ["function", "item", "other records", "reason", "object", "command"];
    let mut table = PageTable::new("failures", &columns, if_empty);
    for object in objects.iter().take(MAX_OBJECTS) {
        let command = redrive_command(&served.context, &object.key);
        let function = function_of(&served.context, &object.key).map(|(function, _)| function);
        let place = (object.key.as_str(), object.size);
        let batch = FailedBatch::read(&served.context, bucket, place, function).await?;
        let (item, others) = batch.item.unzip();
        table.rows.push(vec![
            function.map_or(Cell::Empty, Cell::text),
            item.unwrap_or(Cell::Empty),
            others.map_or(Cell::Empty, Cell::number),
            batch.reason.map_or(Cell::Empty, Cell::text),
            Cell::code(object.key.as_str()),
            command.map_or(Cell::Empty, Cell::Code),
        ]);
    }
    if !objects.is_empty() {
        view.show(html! { p { (prose(WHAT_TO_DO)) } });
    }
    view.table(table);
    if objects.len() > MAX_OBJECTS {
        view.show(
            html! { p class="quiet" { "The first " (MAX_OBJECTS) " of " (objects.len()) " objects." } },
        );
    }
    Ok(view)
}
