//! The items of a table, as operations read them.

use std::sync::Arc;

use afterwrite_ledger::tables::{ScanPage, ScanRequest, TableScan, item_bytes};
use afterwrite_model::Result;
use afterwrite_model::entity::{ItemCandidates, ItemIdentity, SourceKey};
use afterwrite_model::record::{Image, Item};
use afterwrite_model::table::{Entity, Model};

use crate::cursor::{decode_cursor, encode_cursor};
use crate::jobs::{JobTotals, StepOutcome, WorkUnit, count};

/// The request for pages of a segment of a table, of so many items each.
pub(crate) fn segment_request(
    table: Arc<str>,
    (segment, segments): (u32, u32),
    page_items: u32,
) -> ScanRequest {
    ScanRequest {
        segment,
        segments: segments.max(1),
        page_items: Some(page_items),
        ..ScanRequest::whole(table)
    }
}

/// Reads the page at the cursor of a unit, and the outcome of a step that did nothing else.
pub(crate) async fn read_page(
    tables: &impl TableScan,
    unit: &WorkUnit,
    request: ScanRequest,
) -> Result<(ScanPage, StepOutcome)> {
    let page =
        tables.scan(&ScanRequest { start_after: decode_cursor(unit.cursor.as_ref())?, ..request }).await?;
    let outcome = StepOutcome {
        cursor: page.next.as_ref().map(encode_cursor),
        spent: count(page.items.len()),
        bytes: count(page.items.iter().map(item_bytes).sum()),
        totals: JobTotals::from([("read_units", page.read_units)]),
        ..StepOutcome::default()
    };
    Ok((page, outcome))
}

/// An item of a page, identified.
#[derive(Clone, Debug)]
pub(crate) struct IdentifiedItem<'p> {
    /// Its key.
    pub(crate) source: &'p SourceKey<'p>,
    /// The entities that its key allows.
    pub(crate) candidates: ItemCandidates<'p, 'p>,
    /// The item.
    pub(crate) item: &'p Item,
}

impl<'p> IdentifiedItem<'p> {
    /// Its identity; `None` if it is of no entity.
    pub(crate) fn identity(&self, model: &Model) -> Option<ItemIdentity<'p, 'p>> {
        match self.candidates.by_key() {
            Some(identity) => Some(identity.clone()),
            None => self.candidates.in_state(&self.image(model)).cloned(),
        }
    }

    /// Its image, with the attributes that the model uses.
    pub(crate) fn image(&self, model: &Model) -> Image<'static> {
        Image::from_item(self.item, &model.attributes)
    }
}

/// The keys of the items of a page, aligned with them; `None` for an item whose key has other types than the model's.
pub(crate) fn source_keys<'p>(model: &Model, table: usize, items: &'p [Item]) -> Vec<Option<SourceKey<'p>>> {
    items.iter().map(|item| SourceKey::of_item(model, table, item)).collect()
}

/// The items of a page whose keys match an entity of which something is derived in the state table.
pub(crate) fn identified<'p>(
    model: &'p Model,
    items: &'p [Item],
    sources: &'p [Option<SourceKey<'p>>],
) -> Vec<IdentifiedItem<'p>> {
    identified_of(model, items, sources, Entity::is_used)
}

/// The items of a page whose keys match a wanted entity.
pub(crate) fn identified_of<'p>(
    model: &'p Model,
    items: &'p [Item],
    sources: &'p [Option<SourceKey<'p>>],
    is_wanted: impl Fn(&Entity) -> bool,
) -> Vec<IdentifiedItem<'p>> {
    let keyed = sources.iter().zip(items).filter_map(|(source, item)| Some((source.as_ref()?, Some(item))));
    identify(model, keyed, is_wanted)
}

/// The items that exist of these keys, if a key matches a wanted entity.
pub(crate) fn identify<'p, 'k: 'p>(
    model: &'p Model,
    read: impl IntoIterator<Item = (&'p SourceKey<'k>, Option<&'p Item>)>,
    is_wanted: impl Fn(&Entity) -> bool,
) -> Vec<IdentifiedItem<'p>> {
    let identified = read.into_iter().filter_map(|(source, item)| {
        let (source, item): (&'p SourceKey<'p>, &Item) = (source, item?);
        let candidates = source.candidates(model);
        candidates.any(&is_wanted).then_some(IdentifiedItem { source, candidates, item })
    });
    identified.collect()
}

/// The same key with owned texts.
pub(crate) fn owned_key(source: &SourceKey<'_>) -> SourceKey<'static> {
    SourceKey {
        table: source.table,
        partition: source.partition.clone().into_owned().into(),
        sort: source.sort.as_ref().map(|sort| sort.clone().into_owned().into()),
    }
}

/// The tables with items that operations read: indexes into [`Model::tables`].
pub(crate) fn used_tables(model: &Model) -> Vec<usize> {
    let is_read =
        |table: &usize| model.entities.iter().any(|entity| entity.table == *table && entity.is_used());
    (0..model.tables.len()).filter(is_read).collect()
}
