//! An item with its ledger entry, and everything that follows from it, as it is read.

use std::sync::Arc;

use afterwrite_input::item_json::ItemJson;
use afterwrite_ledger::state::BEHIND;
use afterwrite_ledger::tables::Tables as _;
use afterwrite_ledger::{StateItems, StoredEntry};
use afterwrite_model::entity::{ItemCandidates, SourceKey};
use afterwrite_model::projection::{
    ImageScope, ItemContributions, KnownLookups, LookupKey, LookupOutputs, RollupTargets, lookup_keys,
};
use afterwrite_model::record::{AttributeValue, Image, Item, TypedItem};
use afterwrite_model::table::Model;
use afterwrite_model::{Error, ErrorKind, Result};
use afterwrite_operations::{ItemProjector, RememberedOutputs};
use afterwrite_preview::explain::{Consequences, ExplainedLookups, GuessedOutputs, consequences};

use crate::served::Served;

/// An item with its ledger entry.
pub(super) struct ItemReading {
    /// Its key.
    pub(super) source: SourceKey<'static>,
    /// The item, if it exists.
    pub(super) item: Option<Item>,
    /// Its ledger entry.
    pub(super) entry: ReadEntry,
    /// The rollups that the entry names.
    pub(super) targets: RollupTargets,
    /// Everything that follows from the item; `None` if it does not exist, or matches no entity.
    pub(super) consequences: Option<Consequences>,
}

/// The ledger entry of an item.
pub(super) enum ReadEntry {
    /// There is none.
    Nothing,
    /// As it is stored, with the mark of a parked record.
    Stored(Box<StoredEntry>, Option<String>),
    /// It cannot be read.
    Unreadable(Error),
}

impl ReadEntry {
    /// The entry, if it can be read.
    pub(super) fn stored(&self) -> Option<&StoredEntry> {
        match self {
            Self::Stored(entry, _) => Some(entry),
            Self::Nothing | Self::Unreadable(_) => None,
        }
    }
}

/// Lookups as the state table remembers them.
struct KnownOutputs(RememberedOutputs);

impl KnownLookups for KnownOutputs {
    fn outputs(&self, key: &LookupKey<'_>) -> Option<&LookupOutputs> {
        self.0.outputs(key)
    }

    fn is_absent(&self, key: &LookupKey<'_>) -> bool {
        self.0.is_absent(key)
    }

    fn failure(&self, key: &LookupKey<'_>) -> Option<Error> {
        self.0.failure(key)
    }
}

impl ExplainedLookups for KnownOutputs {
    fn is_placeholder(&self, _output: &str) -> bool {
        false
    }

    fn guesses(&self) -> Vec<GuessedOutputs> {
        Vec::new()
    }
}

impl ItemReading {
    /// Reads an item, its entry, and the lookups that it needs.
    pub(super) async fn read(served: &Served, source: SourceKey<'static>) -> Result<Self> {
        let context = &served.context;
        let model = context.model();
        let state = StateItems::new(
            Arc::clone(model),
            context.config.table_names.clone(),
            Arc::clone(&context.state_table),
        );
        let item_key = state.source_item_key(&source).ok_or_else(|| {
            Error::new(ErrorKind::Configuration, "the key does not match the key schema of its table")
        })?;
        let mut read = context.tables.read(&[state.entry_key(&source)?, item_key]).await?.items.into_iter();
        let (stored, item) = (read.next().flatten(), read.next().flatten());
        let mut targets = RollupTargets::of(model);
        let entry = match &stored {
            None => ReadEntry::Nothing,
            Some(stored) => match state.decode_entry(stored, &mut targets) {
                Ok(entry) => {
                    let behind = stored.get(BEHIND).and_then(AttributeValue::as_text);
                    ReadEntry::Stored(Box::new(entry), behind.map(str::to_owned))
                }
                Err(error) => ReadEntry::Unreadable(error),
            },
        };
        let consequences = match &item {
            Some(item) => followed(served, (&source, item), entry.stored(), &mut targets).await?,
            None => None,
        };
        Ok(Self { source, item, entry, targets, consequences })
    }
}

/// Everything that follows from an item that exists.
async fn followed(
    served: &Served,
    (source, item): (&SourceKey<'_>, &Item),
    entry: Option<&StoredEntry>,
    targets: &mut RollupTargets,
) -> Result<Option<Consequences>> {
    let model = served.context.model();
    let candidates = source.candidates(model);
    if candidates.is_empty() {
        return Ok(None);
    }
    let keys = needed_lookups(model, &candidates, item);
    let lookups = KnownOutputs(ItemProjector::new(&served.context.deployment()).read(keys).await?);
    let json = serde_json::to_string(&TypedItem(item)).ok().as_deref().and_then(ItemJson::parse);
    let json = json.ok_or_else(|| {
        Error::new(ErrorKind::State, "the item cannot be written as JSON; this is a defect of Afterwrite")
    })?;
    let counted_now = entry.map_or(const { &ItemContributions::NOTHING }, |entry| &entry.contributions);
    consequences(model, source.table, &json, &lookups, (counted_now, targets))
}

/// The lookups that the item's contributions, mirrors and rows need.
fn needed_lookups(
    model: &Model,
    candidates: &ItemCandidates<'_, '_>,
    item: &Item,
) -> Vec<LookupKey<'static>> {
    let image = Image::from_item(item, &model.attributes);
    // An item whose keys cannot be made cannot be counted either; its explanation has the problem.
    let counted = lookup_keys(model, candidates, &image).unwrap_or_default();
    let mut keys: Vec<LookupKey<'static>> = counted.into_iter().map(LookupKey::into_owned).collect();
    let Some(identity) = candidates.in_state(&image) else { return keys };
    let scope = ImageScope::of(model, identity, &image);
    let mirrors = identity.entity.mirrors.iter().filter_map(|index| model.mirrors.get(*index));
    let of_rows = model.datasets_of(identity.entity).flat_map(|(_, dataset)| &dataset.lookups);
    let used = mirrors.filter_map(|mirror| mirror.lookup.as_ref()).chain(of_rows);
    keys.extend(used.filter_map(|used| Some(scope.lookup_key(used).ok()?.into_owned())));
    keys
}
