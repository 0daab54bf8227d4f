//! Parked items: entries of the ledger that miss a record.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use afterwrite_ledger::state::BEHIND;
use afterwrite_ledger::tables::{ScanRequest, TableScan, Tables};
use afterwrite_ledger::{ItemRecords, Ledger, SourceItem, StateItem, StateItems};
use afterwrite_model::clock::Clock;
use afterwrite_model::effect::ItemKey;
use afterwrite_model::entity::SourceKey;
use afterwrite_model::projection::RollupTargets;
use afterwrite_model::record::{AttributeValue, Item};
use afterwrite_model::{ErrorKind, Result};
use afterwrite_services::dynamodb::index_scan_error;
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::error::ProvideErrorMetadata as _;
use aws_sdk_dynamodb::types::AttributeValue as SdkValue;
use serde::{Deserialize, Serialize};

use crate::dropped::DROPPED_CONTRIBUTIONS;
use crate::jobs::JobTotals;
use crate::lives::LifeTotal;

/// The sparse index of the state table that lists parked items.
pub const PARKED_INDEX: &str = "parked";
/// The time that a batch may take.
const BATCH_TIME: Duration = Duration::from_secs(60);

/// A parked item, as the index `parked` lists it. The order is that of the missing records.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
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

impl ParkedItem {
    /// A parked item of the state table; `None` for any other item.
    #[must_use]
    pub fn of_item(item: &Item) -> Option<Self> {
        let text = |name: &str| item.get(name).and_then(AttributeValue::as_text).map(str::to_owned);
        Some(Self { behind: text(BEHIND)?, partition: text("PK")?, sort: text("SK")? })
    }

    /// The position of the newest missing record.
    #[must_use]
    pub fn position(&self) -> &str {
        self.behind.rsplit_once(' ').map_or(&*self.behind, |(position, _)| position)
    }

    /// The name of the kind of its error.
    #[must_use]
    pub fn kind(&self) -> &str {
        self.behind.rsplit_once(' ').map_or("", |(_, kind)| kind)
    }

    /// A parked item as the index has it.
    fn of_sdk(item: &HashMap<String, SdkValue>) -> Option<Self> {
        let text = |name: &str| item.get(name).and_then(|value| value.as_s().ok()).cloned();
        Some(Self { behind: text(BEHIND)?, partition: text("PK")?, sort: text("SK")? })
    }
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

/// The parked items of a state table, the oldest first, from its sparse index `parked`; `None` if the table has no such index.
///
/// # Errors
/// As [`TableScan::scan`].
pub async fn parked_by_index(client: &Client, state_table: &str) -> Result<Option<Vec<ParkedItem>>> {
    let scan = client.scan().table_name(state_table).index_name(PARKED_INDEX);
    let mut pages = scan.into_paginator().items().send();
    let mut parked = Vec::new();
    while let Some(item) = pages.next().await {
        let item = match item {
            Ok(item) => item,
            Err(error) if error.code() == Some("ValidationException") => return Ok(None),
            Err(error) => return Err(index_scan_error(state_table, PARKED_INDEX, &error)),
        };
        parked.extend(ParkedItem::of_sdk(&item));
    }
    parked.sort();
    Ok(Some(parked))
}

/// Why an item is parked, in words, by the kind of the error that its mark has.
#[must_use]
pub fn parked_reason(kind: &str) -> String {
    let known = [
        (ErrorKind::Record, "a value is missing or does not fit the model"),
        (ErrorKind::Rejected, "DynamoDB rejected the write"),
        (ErrorKind::Unreadable, "its ledger entry or marker cannot be read"),
    ];
    let words = known.into_iter().find(|(known, _)| known.name() == kind);
    words.map_or_else(|| kind.to_owned(), |(_, words)| format!("{words} ({kind})"))
}

/// The key after which a page of parked items begins: texts by attribute.
pub type ParkedPosition = BTreeMap<String, String>;

/// At most `items` parked items of the index `parked`, and the position of the next page; `None` if the table has no such index.
///
/// # Errors
/// As [`parked_by_index`].
pub async fn parked_page(
    client: &Client,
    state_table: &str,
    items: i32,
    after: Option<ParkedPosition>,
) -> Result<Option<(Vec<ParkedItem>, Option<ParkedPosition>)>> {
    let after = after.map(|after| after.into_iter().map(|(name, text)| (name, SdkValue::S(text))).collect());
    let scan = client.scan().table_name(state_table).index_name(PARKED_INDEX).limit(items);
    let page = match scan.set_exclusive_start_key(after).send().await {
        Ok(page) => page,
        Err(error) if error.code() == Some("ValidationException") => return Ok(None),
        Err(error) => return Err(index_scan_error(state_table, PARKED_INDEX, &error)),
    };
    let parked = page.items().iter().filter_map(ParkedItem::of_sdk).collect();
    let next = page.last_evaluated_key.map(|key| {
        let texts = key.into_iter().filter_map(|(name, value)| Some((name, value.as_s().ok()?.clone())));
        texts.collect()
    });
    Ok(Some((parked, next)))
}

/// A redrive of parked items.
#[derive(Debug)]
pub struct ParkedRedrive<T, C> {
    /// The ledger that reconciles them.
    pub ledger: Ledger<T, C>,
    /// Reads entries of its state table.
    pub entries: StateItems,
    /// The label of the current stream of each of the model's tables; empty without a stream.
    pub stream_labels: Vec<String>,
}

/// The result for one parked item.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ParkedResult {
    /// It is counted as its table has it now.
    Reconciled,
    /// Another write healed it meanwhile: of another process, or of this step before a request failed.
    Healed,
    /// It stays parked.
    Stays(String),
}

impl<T: Tables, C: Clock> ParkedRedrive<T, C> {
    /// Reconciles items; the results align with them. Adds the contributions that were dropped.
    ///
    /// # Errors
    /// As [`Ledger::reconcile`] and [`Tables::read`].
    pub(super) async fn redrive(
        &self,
        parked: &[ParkedItem],
        totals: &mut JobTotals,
    ) -> Result<Vec<ParkedResult>> {
        let keys: Vec<ItemKey> =
            parked.iter().map(|item| self.entries.key(&item.partition, &item.sort)).collect();
        let stored = self.ledger.tables().read(&keys).await?.items;
        let mut results = Vec::with_capacity(parked.len());
        for stored in stored {
            let Some(entry) = stored.filter(|entry| entry.contains_key(BEHIND)) else {
                results.push(ParkedResult::Healed);
                continue;
            };
            let result = match self.entries.classify(&entry) {
                StateItem::Entry(Some(source), _) => Box::pin(self.reconcile(&source, totals)).await?,
                StateItem::Entry(None, _) => ParkedResult::Stays(
                    "the key is hashed, or of a table that the model does not have: the item's next change heals it".to_owned(),
                ),
                StateItem::Rollup(..) | StateItem::ParkedExpiry | StateItem::Other => ParkedResult::Stays(
                    "an expiry is settled by its record: correct the model, and replay the record from the archive".to_owned(),
                ),
            };
            results.push(result);
        }
        Ok(results)
    }

    /// Counts the lives of items that were parked, by their entries, whichever process has reconciled them.
    ///
    /// # Errors
    /// As [`Tables::read`].
    pub(super) async fn note_lives(&self, parked: &[ParkedItem], totals: &mut JobTotals) -> Result<()> {
        let keys: Vec<ItemKey> =
            parked.iter().map(|item| self.entries.key(&item.partition, &item.sort)).collect();
        let mut targets = RollupTargets::of(self.ledger.model());
        for stored in self.ledger.tables().read(&keys).await?.items.into_iter().flatten() {
            let StateItem::Entry(Some(source), stored) = self.entries.classify(&stored) else { continue };
            let Ok(entry) = self.entries.decode_entry(stored, &mut targets) else { continue };
            let model = self.ledger.model();
            LifeTotal::note(totals, (model, Some(&source)), Some(&entry), self.ledger.clock().now());
            let label = self.stream_labels.get(source.table).map_or("", String::as_str);
            LifeTotal::note_stream(totals, &entry, label);
        }
        Ok(())
    }

    async fn reconcile(&self, source: &SourceKey<'static>, totals: &mut JobTotals) -> Result<ParkedResult> {
        let candidates = source.candidates(self.ledger.model());
        if candidates.is_empty() {
            return Ok(ParkedResult::Stays("the item matches no entity of the model any more".to_owned()));
        }
        let label = self.stream_labels.get(source.table).map_or("", String::as_str);
        let item = SourceItem { source, candidates: &candidates, records: ItemRecords::new() };
        let deadline = self.ledger.clock().now().plus(BATCH_TIME);
        let outcome = Box::pin(self.ledger.reconcile(vec![item], label, deadline)).await?;
        totals.add(DROPPED_CONTRIBUTIONS, outcome.totals.dropped_contributions);
        let mut failures = outcome.failures.into_iter().chain(outcome.parked).map(|failure| failure.error);
        match failures.next() {
            None => Ok(ParkedResult::Reconciled),
            // Also if a later attempt may succeed: the ledger has repeated its requests, and the item must not hold up the others.
            Some(error) => Ok(ParkedResult::Stays(error.to_string())),
        }
    }
}
