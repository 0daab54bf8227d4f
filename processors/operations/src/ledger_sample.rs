//! A look at the deployed ledger before a job is planned: whether a newer model has written the ledger.
//!
//! The look is bounded, so it proves nothing if it finds nothing. An entry keeps the generation of the model that wrote it last, and an item
//! whose contributions stay as they are is not written again. So the generations of the backfills that are done count, too.

use std::sync::Arc;

use afterwrite_ledger::tables::{TableScan, Tables};
use afterwrite_ledger::{StateItem, StateItems};
use afterwrite_model::Result;
use afterwrite_model::clock::Clock;
use futures::future::try_join_all;

use crate::DeploymentContext;
use crate::items::segment_request;
use crate::jobs::{JobKind, JobStatus, JobStore, ListedJob};

/// The segments of the state table of which the first page is read.
const SEGMENTS: u32 = 8;
/// The items of a page.
const PAGE_ITEMS: u32 = 500;

/// Reads up to 500 items of each of eight segments of the state table, and the jobs that `afterwrite jobs list` shows.
///
/// # Errors
/// [`Configuration`](afterwrite_model::ErrorKind::Configuration) if a newer model has written one of the entries, or a backfill with a newer
/// generation of the model is done; as [`TableScan::scan`].
pub async fn check_generations<T, C>(context: &DeploymentContext<T, C>) -> Result<()>
where
    T: Tables + TableScan + Clone,
    C: Clock + Clone,
{
    let state = context.state_items();
    context.check_backfills(&state).await?;
    let pages = (0..SEGMENTS).map(|segment| async move {
        let request = segment_request(Arc::clone(&context.state_table), (segment, SEGMENTS), PAGE_ITEMS);
        context.tables.scan(&request).await
    });
    for item in try_join_all(pages).await?.iter().flat_map(|page| &page.items) {
        if let StateItem::Entry(_, entry) = state.classify(item) {
            state.check_generation(entry)?;
        }
    }
    Ok(())
}

impl<T: Tables + Clone, C: Clock + Clone> DeploymentContext<T, C> {
    /// Refuses a model that is older than that of a backfill that is done. A bulk backfill has counted into another table.
    async fn check_backfills(&self, state: &StateItems) -> Result<()> {
        let Self { model, state_table, tables, clock, .. } = self.clone();
        for job in JobStore::new(tables, clock, state_table).list().await? {
            let ListedJob::Readable(job) = job else { continue };
            let is_done = (job.kind, job.status) == (JobKind::Backfill, JobStatus::Done);
            let has_counted = is_done && job.arguments.get("bulk").is_none();
            let basis = job.basis.filter(|basis| has_counted && *basis.model.name == *model.name);
            basis.map_or(Ok(()), |basis| state.check_is_known(basis.model.generation))?;
        }
        Ok(())
    }
}
