//! The changes of rollups that are sources: records of the state table's stream, which follow from each batch.

use std::collections::BTreeMap;
use std::sync::Arc;

use afterwrite_ledger::state::key_texts;
use afterwrite_model::entity::SourceKey;
use afterwrite_model::record::{RecordDecoder, Timestamp};
use afterwrite_model::table::{Entity, Model};
use afterwrite_operations::jobs::approximate;
use afterwrite_preview::tables::{ItemDifference, StateStream, images_of};

use super::batches::{TimedRecord, hash_of};
use super::members::MemberTotals;

/// The counting of one level: rollups that count the rollups of the level below.
#[derive(Clone, Debug, PartialEq)]
pub struct LevelTotals {
    /// The level, from 2: rollups of level 1 count items of source tables.
    pub level: u32,
    /// The changes of rollups of the level below.
    pub records: u64,
    /// The write units of counting them. A batch with changes of several levels is shared by their number.
    pub write_units: f64,
    /// The changes that are of members of distinct counts, by the member rollup's name.
    pub members: BTreeMap<String, MemberTotals>,
}

/// The stream of the trial's state table.
pub(super) struct LevelStream {
    model: Arc<Model>,
    /// An index into the model's tables.
    pub(super) table: usize,
    changes: StateStream,
}

impl LevelStream {
    /// `None` if no rollup of the model is a source.
    pub(super) fn new(model: &Arc<Model>, state_table: &Arc<str>) -> Option<Self> {
        let (table, changes) = (model.state_source()?, StateStream::new(model, state_table)?);
        Some(Self { model: Arc::clone(model), table, changes })
    }

    /// The records of writes to the state table that were done at `at`, in seconds from the start of the trial.
    pub(super) fn records(
        &mut self,
        writes: Vec<ItemDifference>,
        at: f64,
        now: Timestamp,
    ) -> Vec<TimedRecord<'static>> {
        let (model, table) = (&self.model, self.table);
        let records = self.changes.records(writes, now).into_iter();
        let timed = records.filter_map(|json| {
            let key = key_hash(model, table, &json)?;
            Some(TimedRecord { json: json.into(), table, key, at })
        });
        timed.collect()
    }

    /// The rollup that a record is of, as a source.
    fn entity(&self, json: &str) -> Option<&Entity> {
        let mut decoder = RecordDecoder::new(&self.model.attributes);
        let record = decoder.record(json.as_bytes()).ok()?;
        let source = SourceKey::of_keys(&self.model, self.table, &record.keys)?;
        let candidates = source.candidates(&self.model);
        self.model.entities.iter().find(|entity| candidates.any(|candidate| std::ptr::eq(candidate, *entity)))
    }

    /// The records of a batch that are archived.
    pub(super) fn archived<'b>(&self, batch: &'b [impl AsRef<str>]) -> Vec<&'b str> {
        let records = batch.iter().map(AsRef::as_ref);
        records.filter(|json| self.entity(json).is_some_and(Entity::is_archived)).collect()
    }

    /// Adds a batch that was counted with this many write units.
    pub(super) fn add(&self, levels: &mut Vec<LevelTotals>, batch: &[impl AsRef<str>], write_units: u64) {
        let each = approximate(write_units) / approximate(count(batch.len())).max(1.0);
        let entities = batch.iter().filter_map(|json| Some((json, self.entity(json.as_ref())?)));
        for (json, entity) in entities {
            let level = entity.level + 1;
            let known = levels.iter().position(|totals| totals.level == level).unwrap_or_else(|| {
                levels.push(LevelTotals { level, records: 0, write_units: 0.0, members: BTreeMap::new() });
                levels.sort_by_key(|totals| totals.level);
                levels.iter().position(|totals| totals.level == level).unwrap_or(0)
            });
            if let Some(totals) = levels.get_mut(known) {
                totals.records += 1;
                totals.write_units += each;
                self.add_member(totals, entity, json.as_ref());
            }
        }
    }
}

impl LevelStream {
    /// Adds a change that is of a member of a distinct count.
    fn add_member(&self, totals: &mut LevelTotals, entity: &Entity, json: &str) {
        let rollup = entity.rollup.and_then(|rollup| self.model.rollups.get(rollup));
        let Some(rollup) = rollup.filter(|rollup| rollup.has_members()) else { return };
        let (old, new) = images_of(json).unwrap_or_default();
        let Some(item) = new.as_ref().or(old.as_ref()) else { return };
        if let Some((partition, sort)) = key_texts(item) {
            let members = totals.members.entry(rollup.name.to_string()).or_default();
            members.add(partition, sort, old.is_none());
        }
    }
}

/// A hash of the key of a record's item.
fn key_hash(model: &Model, table: usize, json: &str) -> Option<u64> {
    let mut decoder = RecordDecoder::new(&model.attributes);
    let record = decoder.record(json.as_bytes()).ok()?;
    let source = SourceKey::of_keys(model, table, &record.keys)?;
    Some(hash_of(&source))
}

fn count(number: usize) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}
