//! Records inside `dev` that are not counted now: failed batches in its bucket, parked items, and batches that are delivered again. A counter
//! never falls; these records are read, so that a page no longer has them once they are mended.

use afterwrite_deployment::doctor::{FAILED_RECORDS, age_text};
use afterwrite_model::Result;
use afterwrite_model::clock::{Clock as _, SystemClock};
use afterwrite_model::harmless::harmless;
use afterwrite_operations::redrive::parked_by_index;
use afterwrite_services::Bucket as _;
use maud::{Markup, html};

use crate::board::{WaitingBatch, mapping_id};
use crate::context::ConsoleContext;
use crate::links::item_link;
use crate::table::{Cell, PageTable};

/// The keys of the failed batches that were not processed again.
#[derive(Clone, Debug, Default)]
pub(crate) struct FailedBatches(Vec<String>);

impl FailedBatches {
    /// Lists the failed batches; without a bucket there are none.
    ///
    /// # Errors
    /// As [`Bucket::list`](afterwrite_services::Bucket::list).
    pub(crate) async fn read(context: &ConsoleContext) -> Result<Self> {
        let Some(bucket) = &context.bucket else { return Ok(Self::default()) };
        let objects = bucket.list(FAILED_RECORDS).await?;
        Ok(Self(objects.into_iter().map(|object| object.key).collect()))
    }

    /// The number of failed batches of a table's stream to a function of `dev`; the deployed name names the table.
    pub(crate) fn of(&self, function: &str, table: &str) -> usize {
        let prefix = prefix_of(function, table);
        self.0.iter().filter(|key| key.starts_with(&prefix)).count()
    }
}

/// The beginning of the keys of the failed batches of a table's stream to a function.
pub(crate) fn prefix_of(function: &str, table: &str) -> String {
    format!("{FAILED_RECORDS}{}/", mapping_id(function, table))
}

/// The number of parked items; `None` if the state table has no index of them.
///
/// # Errors
/// As [`parked_by_index`].
pub(crate) async fn parked_items(context: &ConsoleContext) -> Result<Option<usize>> {
    let parked = parked_by_index(&context.client, &context.state_table).await?;
    Ok(parked.map(|parked| parked.len()))
}

/// The item of the record that a batch waits for, by its key, with a link to its page.
pub(crate) fn waiting_item(context: &ConsoleContext, batch: &WaitingBatch) -> Cell {
    let Some(item) = &batch.item else { return Cell::code(format!("record {}", batch.first)) };
    let text = item.key.join(" ");
    let names = &context.config.table_names;
    let table = context.model().table_deployed_as(names, &item.table);
    let table = table.and_then(|table| context.model().tables.get(table));
    match (table, item.key.first()) {
        (Some(table), Some(partition)) => {
            Cell::link(text, item_link(&table.name, partition, item.key.get(1).map(String::as_str)))
        }
        (Some(_) | None, _) => Cell::code(text),
    }
}

/// The batches that are delivered again, each with the record that it waits for.
pub(crate) fn waiting_table(context: &ConsoleContext, waiting: &[WaitingBatch]) -> PageTable {
    let columns = ["item", "reason", "waits for", "invocations", "records that wait"];
    let mut table = PageTable::new("retried", &columns, "No batch is delivered again.");
    table.rows.extend(waiting.iter().map(|batch| {
        vec![
            waiting_item(context, batch),
            Cell::text(batch.reason.as_str()),
            Cell::text(age_text(SystemClock.now().since(batch.since))),
            Cell::number(batch.invocations),
            Cell::number(batch.records),
        ]
    }));
    table
}

/// The batches that are delivered again, in a few words: the item and the reason of each.
pub(crate) fn waiting_list(lines: &[(Cell, String)]) -> Markup {
    html! {
        @if !lines.is_empty() {
            ul class="waiting" {
                @for (item, reason) in lines { li { (item.markup()) ": " (harmless(reason)) } }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failed_batches_are_those_of_their_function_and_table() {
        let key = |function, table| format!("{}shardId-00000001/2026/02/06/x", prefix_of(function, table));
        let of_orders = || key("aggregator", "Orders");
        let failed = FailedBatches(vec![of_orders(), of_orders(), key("relay", "Orders")]);
        let of = |function, table| failed.of(function, table);
        assert_eq!([of("aggregator", "Orders"), of("relay", "Orders"), of("search", "Orders")], [2, 1, 0]);
        assert_eq!(of("aggregator", "Customers"), 0, "its records are counted");
    }
}
