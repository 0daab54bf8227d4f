//! Why parked items cannot be counted as they are now: the errors of the model, which name attributes and no values.

use afterwrite_ledger::StateItem;
use afterwrite_ledger::tables::Tables;
use afterwrite_model::Result;
use afterwrite_model::effect::ItemKey;
use afterwrite_model::entity::SourceKey;
use afterwrite_model::projection::RollupTargets;
use afterwrite_model::record::{Image, Item};

use super::parked::{ParkedItem, parked_reason};
use crate::items::{IdentifiedItem, identify};
use crate::{DeploymentContext, ItemProjector};

/// Why each of these items is parked, in words: the kind of the error that its mark has, and the error of the item as its table has it now. An
/// item that could be counted now, and an item that is not in its table, have the kind alone.
///
/// # Errors
/// As [`Tables::read`].
pub async fn parked_reasons<T: Tables + Clone, C>(
    context: &DeploymentContext<T, C>,
    parked: &[ParkedItem],
) -> Result<Vec<String>>
where
    C: Clone,
{
    if parked.is_empty() {
        return Ok(Vec::new());
    }
    let sources = parked_sources(context, parked).await?;
    let items = source_items(context, &sources).await?;
    let read =
        sources.iter().zip(&items).filter_map(|(source, item)| Some((source.as_ref()?, item.as_ref())));
    let identified = identify(&context.model, read, |_| true);
    let imaged: Vec<(&IdentifiedItem<'_>, Image<'static>)> =
        identified.iter().map(|item| (item, item.image(&context.model))).collect();
    let projector = ItemProjector::new(context);
    let outputs = projector.remembered(&imaged).await?;
    let problem = |source: &SourceKey<'_>| {
        let (item, image) = imaged.iter().find(|(item, _)| item.source == source)?;
        let projected =
            projector.project(item, image, None, &outputs, &mut RollupTargets::of(&context.model));
        projected.err().map(|error| error.without_hint().to_string())
    };
    let reasons = parked.iter().zip(&sources).map(|(item, source)| {
        let reason = parked_reason(item.kind());
        match source.as_ref().and_then(problem) {
            Some(problem) => format!("{reason}: {problem}"),
            None => reason,
        }
    });
    Ok(reasons.collect())
}

/// The items that the entries of parked items are of; `None` for an expiry, and for an entry whose key is hashed.
async fn parked_sources<T: Tables, C>(
    context: &DeploymentContext<T, C>,
    parked: &[ParkedItem],
) -> Result<Vec<Option<SourceKey<'static>>>> {
    let state = context.state_items();
    let keys: Vec<ItemKey> = parked.iter().map(|item| state.key(&item.partition, &item.sort)).collect();
    let entries = context.tables.read(&keys).await?.items;
    let source = |entry: Option<Item>| match state.classify(&entry?) {
        StateItem::Entry(source, _) => source,
        StateItem::Rollup(..) | StateItem::ParkedExpiry | StateItem::Other => None,
    };
    Ok(entries.into_iter().map(source).collect())
}

/// The items as their tables have them, aligned with their keys.
async fn source_items<T: Tables, C>(
    context: &DeploymentContext<T, C>,
    sources: &[Option<SourceKey<'static>>],
) -> Result<Vec<Option<Item>>> {
    let state = context.state_items();
    let key = |source: &Option<SourceKey<'static>>| state.source_item_key(source.as_ref()?);
    let keys: Vec<Option<ItemKey>> = sources.iter().map(key).collect();
    let wanted: Vec<ItemKey> = keys.iter().flatten().cloned().collect();
    let mut read = context.tables.read(&wanted).await?.items.into_iter();
    Ok(keys.iter().map(|key| key.as_ref().and_then(|_| read.next().flatten())).collect())
}
