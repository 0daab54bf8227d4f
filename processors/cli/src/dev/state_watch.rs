//! Entries of the state table of `afterwrite dev` that need the developer: parked items, and entries of a newer model.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use afterwrite_deployment::doctor::count_text;
use afterwrite_ledger::state::{ENTITY_TYPE, GENERATION, LEDGER_PREFIX, LEDGER_TYPE};
use afterwrite_model::clock::SystemClock;
use afterwrite_model::{Error, ErrorKind, Result};
use afterwrite_operations::DeploymentContext;
use afterwrite_operations::redrive::{ParkedItem, parked_by_index, parked_reasons};
use afterwrite_services::dynamodb::DynamoDb;
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::AttributeValue;

use super::servers::STATE_TABLE;
use crate::print::tell;

const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Parked items that are named at once.
const MAX_NAMED: usize = 20;

/// Reports every item that becomes parked, and every item that stops being parked, until the watch is dropped.
pub(super) async fn report_parked(
    client: &Client,
    deployment: &DeploymentContext<Arc<DynamoDb>, SystemClock>,
) -> Result<()> {
    let mut known: BTreeSet<ParkedItem> = BTreeSet::new();
    loop {
        let parked: BTreeSet<ParkedItem> =
            parked_by_index(client, STATE_TABLE).await?.unwrap_or_default().into_iter().collect();
        let is_same_item = |one: &ParkedItem, other: &ParkedItem| {
            (&one.partition, &one.sort) == (&other.partition, &other.sort)
        };
        let healed = known.iter().filter(|item| !parked.iter().any(|other| is_same_item(item, other)));
        healed.take(MAX_NAMED).for_each(|item| tell(&format!("{} is counted again", item_name(item))));
        let added: Vec<ParkedItem> = parked.difference(&known).take(MAX_NAMED).cloned().collect();
        let reasons = parked_reasons(deployment, &added).await?;
        for (item, reason) in added.iter().zip(reasons) {
            tell(&format!("{} is parked: {reason}", item_name(item)));
        }
        if !parked.is_empty() && parked != known {
            tell(&format!(
                "{} parked: `afterwrite redrive --dry-run` shows why. An item's next change counts it; after a correction of the model, `afterwrite redrive --parked --yes`",
                count_text(parked.len(), "item")
            ));
        }
        known = parked;
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// Warns if the state table has entries of a newer generation of the model: functions do not count over them.
pub(super) async fn warn_of_newer_generation(client: &Client, generation: u64) -> Result<()> {
    let scan = client
        .scan()
        .table_name(STATE_TABLE)
        .filter_expression(format!("{ENTITY_TYPE} = :ledger AND {GENERATION} > :generation"))
        .projection_expression(GENERATION)
        .expression_attribute_values(":ledger", AttributeValue::S(LEDGER_TYPE.to_owned()))
        .expression_attribute_values(":generation", AttributeValue::N(generation.to_string()));
    let mut newer = scan.into_paginator().items().send();
    let (mut entries, mut newest) = (0, generation);
    while let Some(entry) = newer.next().await {
        let entry = entry.map_err(|error| {
            Error::new(ErrorKind::Unavailable, "the state table cannot be read").caused_by(error)
        })?;
        let written = entry.get(GENERATION).and_then(|value| value.as_n().ok()?.parse().ok());
        newest = newest.max(written.unwrap_or(0));
        entries += 1;
    }
    if entries > 0 {
        tell(&format!(
            "warning: the data has {} of generation {newest} of the model, and this model has generation {generation}: changes of \
             these items are not counted. Use the newer model, a higher `generation`, or another folder for --data",
            count_text(entries, "item")
        ));
    }
    Ok(())
}

/// The table and the key of an item.
fn item_name(item: &ParkedItem) -> String {
    let partition = item.partition.strip_prefix(LEDGER_PREFIX).unwrap_or(&item.partition);
    format!("{} {}", partition.replacen('#', " ", 1), item.sort)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parked_item_is_named_by_table_and_key() {
        let item = ParkedItem {
            behind: "2026-02-06T10:00:00.000#0001 RecordError".to_owned(),
            partition: "LEDGER#Exams#USER#1".to_owned(),
            sort: "ATTEMPT#größe".to_owned(),
        };
        assert_eq!(item_name(&item), "Exams USER#1 ATTEMPT#größe");
        assert_eq!((item.position(), item.kind()), ("2026-02-06T10:00:00.000#0001", "RecordError"));
    }
}
