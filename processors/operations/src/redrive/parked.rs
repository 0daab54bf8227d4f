//! Parked items: entries of the ledger that miss a record.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use afterwrite::clock::Clock;
use afterwrite::commit::{ItemRecords, Ledger, SourceItem};
use afterwrite::entity::SourceKey;
use afterwrite::record::{AttributeValue, Item};
use afterwrite::sink::{ScanRequest, TableScan, Tables};
use afterwrite::table::Model;
use afterwrite::{Error, Result};
use serde::Serialize;

/// Items that are reconciled at once.
const BATCH_ITEMS: usize = 100;
/// The time that a batch may take.
const BATCH_TIME: Duration = Duration::from_secs(60);
/// Separates the sort key of an item from the position of its expiry, in the key of a marker.
const EXPIRED: &str = "#EXPIRED#";
/// Precedes the hash of a key that is too long.
const HASHED: &str = "#SHA256#";

/// A parked item, as the index `parked` lists it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct ParkedItem {
    /// The position of the newest missing record, and the kind of its error.
    pub behind: String,
    /// The partition key of the entry or marker.
    #[serde(rename = "PK")]
    pub partition: String,
    /// The sort key of the entry or marker.
    #[serde(rename = "SK")]
    pub sort: String,
}

/// The result of a redrive of parked items.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
pub struct RedrivenItems {
    /// Items that are counted as their tables have them now.
    pub reconciled: u64,
    /// The items that stay parked, and why.
    pub failed: Vec<(ParkedItem, String)>,
}

/// The parked items of a state table, the oldest first, by a scan of the whole table: for a table without the index `parked`.
///
/// # Errors
/// As [`TableScan::scan`].
pub async fn parked_by_scan(tables: &impl TableScan, state_table: &Arc<str>) -> Result<Vec<ParkedItem>> {
    let mut request = Some(ScanRequest::whole(Arc::clone(state_table)));
    let mut parked = Vec::new();
    while let Some(now) = request {
        let page = tables.scan(&now).await?;
        parked.extend(page.items.iter().filter_map(ParkedItem::of_item));
        request = page.next.map(|next| ScanRequest { start_after: Some(next), ..now });
    }
    parked.sort();
    Ok(parked)
}

/// A redrive of parked items.
#[derive(Debug)]
pub struct ParkedRedrive<'r, T, C> {
    /// The ledger that reconciles them.
    pub ledger: &'r Ledger<T, C>,
    /// The label of the current stream of each of the model's tables; `None` without a stream.
    pub stream_labels: &'r [Option<String>],
}

impl<T: Tables, C: Clock> ParkedRedrive<'_, T, C> {
    /// Reconciles the items. `progress` is called after each batch.
    ///
    /// # Errors
    /// As [`Ledger::reconcile`].
    pub async fn run(&self, parked: &[ParkedItem], mut progress: impl FnMut(&RedrivenItems)) -> Result<RedrivenItems> {
        let mut redriven = RedrivenItems::default();
        for items in parked.chunks(BATCH_ITEMS) {
            for (table, label) in self.stream_labels.iter().enumerate() {
                let of_table = items.iter().filter_map(|item| {
                    let source = item.source(self.ledger.model())?;
                    (source.table == table).then_some((item, source))
                });
                let of_table: Vec<(&ParkedItem, SourceKey<'static>)> = of_table.collect();
                if !of_table.is_empty() {
                    Box::pin(self.reconcile(&of_table, label.as_deref(), &mut redriven)).await?;
                }
            }
            let unknown = items.iter().filter(|item| item.source(self.ledger.model()).is_none());
            redriven.failed.extend(unknown.map(|item| (item.clone(), item.unknown_reason().to_owned())));
            progress(&redriven);
        }
        Ok(redriven)
    }

    async fn reconcile(
        &self,
        parked: &[(&ParkedItem, SourceKey<'static>)],
        label: Option<&str>,
        redriven: &mut RedrivenItems,
    ) -> Result<()> {
        let model = self.ledger.model();
        let identified = parked.iter().map(|(item, source)| (*item, source, source.identify(model)));
        let identified: Vec<_> = identified.collect();
        let known: Vec<_> = identified
            .iter()
            .filter_map(|(item, source, identity)| Some((*item, *source, identity.as_ref()?)))
            .collect();
        // An entry has a stream of its own; the label is for items without one.
        let label = label.or(known.first().and_then(|(item, ..)| item.stream_label())).unwrap_or_default();
        let items = known.iter().map(|(_, source, identity)| SourceItem {
            source,
            identity,
            records: ItemRecords::new(),
        });
        let deadline = self.ledger.clock().now().plus(BATCH_TIME);
        let outcome = Box::pin(self.ledger.reconcile(items.collect(), label, deadline)).await?;
        redriven.reconciled += outcome.totals.reconciled;
        let error = |errors: &[Error]| errors.first().map(ToString::to_string);
        let reasons: Vec<Error> = outcome.failures.into_iter().chain(outcome.parked).map(|failure| failure.error).collect();
        let first = error(&reasons);
        let unidentified = identified.iter().filter(|(.., identity)| identity.is_none());
        let no_entity = "the item matches no entity of the model any more";
        redriven.failed.extend(unidentified.map(|(item, ..)| ((*item).clone(), no_entity.to_owned())));
        if let Some(first) = first {
            // A failure of a reconciliation names no item: each is tried alone to find out.
            redriven.reconciled -= outcome.totals.reconciled.min(redriven.reconciled);
            for (item, source, identity) in known {
                let alone = SourceItem { source, identity, records: ItemRecords::new() };
                let deadline = self.ledger.clock().now().plus(BATCH_TIME);
                let outcome = Box::pin(self.ledger.reconcile(vec![alone], label, deadline)).await?;
                let reasons = outcome.failures.into_iter().chain(outcome.parked).map(|failure| failure.error);
                match error(&reasons.collect::<Vec<_>>()) {
                    Some(reason) => redriven.failed.push((item.clone(), reason)),
                    None => redriven.reconciled += 1,
                }
            }
            let _ = first;
        }
        Ok(())
    }
}

impl ParkedItem {
    /// A parked item of the state table; `None` for any other item.
    #[must_use]
    pub fn of_item(item: &Item) -> Option<Self> {
        let text = |name: &str| item.get(name).and_then(AttributeValue::as_text).map(str::to_owned);
        Some(Self { behind: text("behind")?, partition: text("PK")?, sort: text("SK")? })
    }

    /// The source item; `None` if it is an expiry, or its key is hashed.
    fn source(&self, model: &Model) -> Option<SourceKey<'static>> {
        let rest = self.partition.strip_prefix("LEDGER#")?;
        if self.sort.contains(EXPIRED) || self.sort.contains(HASHED) || rest.contains(HASHED) {
            return None;
        }
        let table = model.tables.iter().position(|table| {
            rest.strip_prefix(&*table.name).is_some_and(|rest| rest.starts_with('#'))
        })?;
        let schema = model.tables.get(table)?;
        let partition = rest.get(schema.name.len() + 1..)?;
        let sort = schema.sort_key.as_ref().map(|_| Cow::Owned(self.sort.clone()));
        Some(SourceKey { table, partition: Cow::Owned(partition.to_owned()), sort })
    }

    fn unknown_reason(&self) -> &'static str {
        if self.sort.contains(EXPIRED) {
            "an expiry is settled by its record: correct the model and replay the record from the archive"
        } else if self.sort.contains(HASHED) || self.partition.contains(HASHED) {
            "the key is hashed: the item's next change, or a replay of its record, heals it"
        } else {
            "the table is not in the model any more"
        }
    }

    fn stream_label(&self) -> Option<&str> {
        self.behind.split_once('#').map(|(label, _)| label)
    }
}
