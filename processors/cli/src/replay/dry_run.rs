//! A replay that writes nothing: the items that would change.

use std::sync::Arc;

use afterwrite_ledger::TombstoneHistory;
use afterwrite_ledger::state::{
    FINGERPRINT, GENERATION, LEDGER_TYPE, LOOKUP_TYPE, POSITION, REV, ROLLUP_TYPE,
};
use afterwrite_model::Result;
use afterwrite_model::clock::SystemClock;
use afterwrite_operations::jobs::JobTotals;
use afterwrite_operations::replay::{InputSource, NoTarget, ReplayTask, ReplayTotals};
use afterwrite_preview::tables::{ItemDifference, OverlayTables};
use afterwrite_services::dynamodb::DynamoDb;
use afterwrite_services::s3::S3Bucket;
use serde::Serialize;

use super::job::all_processed;
use super::targets::{aggregator, sourceless_table, uncounted_rollups};
use crate::deployment::Deployment;
use crate::item_table::{difference_text, without_secrets};
use crate::job_output::event_note;
use crate::print::{json, print, tell};
use crate::reconciled_lives::{report_dropped, report_old_expiries, report_uncounted_rollups};

/// The result of a dry run.
#[derive(Serialize)]
struct DryRunReport {
    totals: JobTotals,
    /// The objects that were searched for records of the range, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    searched: Option<String>,
    /// The items that would differ.
    items: Vec<ItemDifference>,
    /// Entries that would only note a newer position, and copies that would only note a newer revision.
    advanced_items: usize,
    #[serde(flatten)]
    problems: ReplayTotals,
}

/// Replays into memory and prints the changed items; returns whether every record and text was processed.
pub(super) async fn run(
    deployment: &Deployment,
    source: InputSource<S3Bucket>,
    as_json: bool,
) -> Result<bool> {
    let tables = Arc::new(OverlayTables::new(Arc::clone(&deployment.tables)));
    let state = Arc::clone(&deployment.state_table);
    let state = (state, uncounted_rollups(deployment).await?);
    let counting = aggregator(deployment, state, Arc::clone(&tables), TombstoneHistory::Expiring)?;
    let searched =
        source.range.searched().map(|searched| format!("{} objects: {searched}", source.objects.len()));
    let task: ReplayTask<_, _, _, Arc<DynamoDb>, _> =
        ReplayTask::new(source, counting, NoTarget, SystemClock);
    let task = task.without_rollups_of(sourceless_table(deployment));
    let totals = Box::pin(task.run(|_| {})).await?;
    let (advanced, items): (Vec<_>, Vec<_>) = tables.differences().into_iter().partition(is_advanced);
    let has_levels = report_uncounted_rollups(&totals);
    let are_counted = report_old_expiries(&totals) & report_dropped(&totals);
    let is_complete = are_counted && has_levels && all_processed(&totals);
    let advanced_items = advanced.len();
    let items = without_secrets(deployment, items);
    let report = DryRunReport { totals, searched, items, advanced_items, problems: task.report() };
    event_note(&deployment.config.model).iter().for_each(|note| tell(note));
    print(&if as_json { json(&report)? } else { report.text() })?;
    Ok(is_complete)
}

/// Whether only the position of a ledger entry, or the revision of a mirror, differs.
fn is_advanced(item: &ItemDifference) -> bool {
    const OF_POSITION: [&str; 4] = [POSITION, REV, GENERATION, FINGERPRINT];
    let is_unimportant = |name: &str| match item.entity_type() {
        LEDGER_TYPE => OF_POSITION.contains(&name),
        ROLLUP_TYPE | LOOKUP_TYPE => false,
        _ => name.ends_with("_rev"),
    };
    let mut attributes = item.attributes().into_iter();
    item.before.is_some() && attributes.all(|attribute| is_unimportant(&attribute.attribute))
}

impl DryRunReport {
    fn text(&self) -> String {
        let mut text = String::new();
        if self.items.is_empty() {
            text.push_str("Nothing would change.\n");
        } else {
            text.push_str(&format!(
                "{}\n\n{} items would change.\n",
                difference_text(&self.items),
                self.items.len()
            ));
        }
        for (name, number) in self.totals.iter() {
            text.push_str(&format!("{}: {number}\n", name.replace('_', " ")));
        }
        if let Some(searched) = &self.searched {
            text.push_str(&format!("searched: {searched}\n"));
        }
        let ReplayTotals { failed, parked, rejected } = &self.problems;
        for (title, reasons) in [("not processed", failed), ("parked", parked), ("rejected", rejected)] {
            for reason in reasons {
                text.push_str(&format!("{title}: {reason}\n"));
            }
        }
        text
    }
}
