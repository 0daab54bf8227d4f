//! A record of a sample before it is delivered: its time, its item and the entity whose rate it has.

use std::collections::BTreeMap;

use afterwrite_model::entity::SourceKey;
use afterwrite_model::record::{Position, RecordDecoder, Timestamp};
use afterwrite_model::table::Model;

use super::batches::hash_of;
use super::paced::{RecordSource, UNMATCHED};

/// A record of a sample: what is needed of it before it is delivered.
pub(super) struct SampledChange {
    created_at: Option<Timestamp>,
    pub(super) position: Position<'static>,
    pub(super) source: RecordSource,
    /// The table, an index into the model's.
    pub(super) table: usize,
    /// A hash of the item's key.
    pub(super) key: u64,
}

impl SampledChange {
    /// `None` if the record is malformed, or of no table of the model.
    pub(super) fn of(model: &Model, json: &str) -> Option<Self> {
        let mut decoder = RecordDecoder::new(&model.attributes);
        let record = decoder.record(json.as_bytes()).ok()?;
        let table = model.tables.iter().position(|table| *table.name == *record.table)?;
        let source = SourceKey::of_keys(model, table, &record.keys)?;
        let candidates = source.candidates(model);
        let identity =
            candidates.after(&record).or_else(|| candidates.before(&record)).or_else(|| candidates.by_key());
        let index = identity.and_then(|identity| {
            model.entities.iter().position(|entity| entity.name == identity.entity.name)
        });
        let key = hash_of(&source);
        let source = index.map_or(RecordSource::Unmatched, RecordSource::Entity);
        Some(Self {
            created_at: record.created_at,
            position: record.position.into_owned(),
            source,
            table,
            key,
        })
    }

    /// Whether it is the same change of the same item.
    pub(super) fn is_copy_of(&self, other: &Self) -> bool {
        (self.table, self.key, &self.position) == (other.table, other.key, &other.position)
    }

    /// Orders the records of a sample as they were made, whatever their order in its file.
    pub(super) fn order(&self) -> (Option<Timestamp>, &Position<'static>) {
        (self.created_at, &self.position)
    }
}

/// How many records of a sample each entity has, and how many are [`UNMATCHED`].
#[must_use]
pub fn entity_counts(model: &Model, sample: &[String]) -> BTreeMap<String, f64> {
    let mut counts = BTreeMap::new();
    for record in sample {
        let name = match SampledChange::of(model, record).map(|change| change.source) {
            Some(RecordSource::Entity(entity)) => model.entities.get(entity).map(|known| &*known.name),
            Some(RecordSource::Unmatched) => Some(UNMATCHED),
            None => None,
        };
        if let Some(name) = name {
            *counts.entry(name.to_owned()).or_default() += 1.0;
        }
    }
    counts
}
