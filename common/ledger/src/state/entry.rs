//! The ledger entry of a source item: what is counted of the item now, up to which of its changes.

use std::borrow::Cow;
use std::sync::Arc;

use afterwrite_model::effect::{AttributeChange, ItemKey, WriteAction, WriteCondition};
use afterwrite_model::entity::SourceKey;
use afterwrite_model::projection::{
    ItemContributions, MAX_PARTITION_KEY, MAX_SORT_KEY, RollupTargets, TargetId,
};
use afterwrite_model::record::{AttributePath, AttributeValue, Decimal, Item, Position, Timestamp};
use afterwrite_model::table::Model;
use afterwrite_model::{Error, ErrorKind, Result};

use super::contributions::{decode_contributions, encode_contributions};
use super::life::{LifeChange, UNRECORDED, UnrecordedLife, lives_text, parse_lives};
use super::parked::ParkedPosition;
use super::{
    BEHIND, EXPIRES_AT, HASHED, LEDGER_PREFIX, LEDGER_TYPE, NO_SORT_KEY, REV, StateKeys, hashed_key,
    item_of_type, natural_key, not_in_model,
};
use crate::policy::CLOCK_TOLERANCE;

/// A ledger entry.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct LedgerEntry<'r> {
    /// The position of the newest change that is counted.
    pub(crate) position: Position<'r>,
    /// The revision: grows by one with every write of the entry, and is the condition of the next write.
    pub(crate) rev: u64,
    /// The generation of the model that counted the item's state. A write that keeps the state, because it only settles or parks, keeps it.
    pub(crate) generation: u64,
    /// The fingerprint of the same model: tells two models of one generation apart. Empty if unknown.
    pub(crate) fingerprint: Arc<str>,
    /// The contributions that are counted now.
    pub(crate) current: ItemContributions,
    /// The mirrored rollups that the item has left. If the writer crashed before it refreshed their mirrors, the next reader of the
    /// entry refreshes them; they stay here until a writer can know that somebody has.
    pub(crate) departed: Vec<TargetId>,
    /// The server's time of the last reconciliation.
    pub(crate) as_of: Option<Timestamp>,
    /// When DynamoDB may delete the entry; set on tombstones only.
    pub(crate) expires_at: Option<Timestamp>,
    /// Set while the item has a newer record that could not be counted.
    pub(crate) behind: Option<ParkedPosition<'r>>,
    /// The changes of the item's life that no counted record shows.
    pub(crate) unrecorded: Vec<UnrecordedLife>,
}

/// The position of the newest change that is counted.
pub const POSITION: &str = "position";
/// The generation of the model that counted the item's state.
pub const GENERATION: &str = "generation";
/// The contributions that are counted, as JSON. A marker has none.
pub const CONTRIBUTIONS: &str = "contributions";
/// The server's time of the last reconciliation.
pub const AS_OF: &str = "as_of";
/// The fingerprint of the model that counted the item's state.
pub const FINGERPRINT: &str = "model";

/// Separates a source item's sort key from the position of its expiry.
pub(super) const EXPIRED: &str = "#EXPIRED#";

impl<'r> LedgerEntry<'r> {
    /// An entry that counts nothing, at the start of a stream and without a revision yet.
    pub(crate) fn before(position: Position<'r>) -> Self {
        Self {
            position,
            rev: 0,
            generation: 0,
            fingerprint: Arc::default(),
            current: ItemContributions::default(),
            departed: Vec::new(),
            as_of: None,
            expires_at: None,
            behind: None,
            unrecorded: Vec::new(),
        }
    }

    /// The entry without what is counted.
    pub(crate) fn without_contributions(&self) -> Self {
        Self {
            position: self.position.clone(),
            fingerprint: Arc::clone(&self.fingerprint),
            current: ItemContributions::default(),
            departed: Vec::new(),
            behind: self.behind.clone(),
            unrecorded: self.unrecorded.clone(),
            ..*self
        }
    }
}

impl LedgerEntry<'_> {
    /// The key of the entry of a source item.
    ///
    /// # Errors
    /// [`ErrorKind::State`] if the model has no such table.
    pub(crate) fn key(keys: &StateKeys, model: &Model, source: &SourceKey<'_>) -> Result<ItemKey> {
        let sort = source_sort(source);
        // A natural key that contains the separator could be the key of a marker.
        let sort = if sort.contains(EXPIRED) {
            hashed_key(sort, sort, MAX_SORT_KEY)
        } else {
            natural_key(sort.to_owned(), MAX_SORT_KEY)
        };
        Ok(keys.key(ledger_partition(model, source)?, sort))
    }

    /// The source item of an entry with this key; `None` if the key is hashed, or of no table of the model.
    pub(crate) fn source(model: &Model, partition: &str, sort: &str) -> Option<SourceKey<'static>> {
        let (name, partition) = Self::table_name(partition)?;
        let index = model.tables.iter().position(|table| *table.name == *name)?;
        if partition.contains(HASHED) || sort.contains(HASHED) {
            return None;
        }
        let has_sort_key = model.tables.get(index)?.sort_key.is_some();
        Some(SourceKey {
            table: index,
            partition: Cow::Owned(partition.to_owned()),
            sort: has_sort_key.then(|| Cow::Owned(sort.to_owned())),
        })
    }

    /// Whether an entry with this `PK` is of a table that the model does not have.
    pub(crate) fn is_of_unknown_table(model: &Model, partition: &str) -> bool {
        Self::table_name(partition)
            .is_some_and(|(name, _)| model.tables.iter().all(|table| *table.name != *name))
    }

    /// The name of an entry's table, as the model has it, and the item's partition key.
    fn table_name(partition: &str) -> Option<(&str, &str)> {
        partition.strip_prefix(LEDGER_PREFIX)?.split_once('#')
    }

    /// Whether an item of the state table is an entry. A marker, which has the same type, counts nothing.
    pub(crate) fn is_entry(item: &Item) -> bool {
        super::is_of_type(item, LEDGER_TYPE) && item.contains_key(POSITION)
    }

    /// The generation of the model that counted the state of a stored entry, if it can be read.
    pub(crate) fn stored_generation(item: &Item) -> Option<u64> {
        let generation = item.get(GENERATION).and_then(AttributeValue::as_number).and_then(Decimal::to_i64);
        generation.and_then(|generation| u64::try_from(generation).ok())
    }

    /// Holds while the stored entry equals the entry that was read. A tombstone may be deleted while a write is in flight; the
    /// entry that follows begins at revision 1 again, but either does not expire or expires later.
    pub(crate) fn unchanged(&self, keys: &StateKeys) -> WriteCondition {
        let names = keys.names();
        let same_revision = WriteCondition::Equals(AttributePath::from(&names.rev), revision(self.rev));
        let Some(expires_at) = self.expires_at else { return same_revision };
        let expires_at = Decimal::from(expires_at.epoch_seconds()).into();
        let same_expiry = WriteCondition::Equals(AttributePath::from(&names.expires_at), expires_at);
        WriteCondition::All(vec![same_revision, same_expiry])
    }

    /// The item to store, without its key.
    #[must_use]
    pub(crate) fn encode(&self, targets: &RollupTargets) -> Item {
        let mut item = item_of_type(LEDGER_TYPE);
        let number = |number: i64| AttributeValue::N(Decimal::from(number));
        item.insert(Cow::Borrowed(POSITION), AttributeValue::text(self.position.to_text()));
        item.insert(Cow::Borrowed(REV), revision(self.rev));
        item.insert(Cow::Borrowed(GENERATION), number(i64::try_from(self.generation).unwrap_or(i64::MAX)));
        item.insert(
            Cow::Borrowed(CONTRIBUTIONS),
            AttributeValue::text(encode_contributions(&self.current, &self.departed, targets)),
        );
        if !self.fingerprint.is_empty() {
            item.insert(Cow::Borrowed(FINGERPRINT), AttributeValue::text(&*self.fingerprint));
        }
        if let Some(behind) = &self.behind {
            item.insert(Cow::Borrowed(BEHIND), AttributeValue::text(behind.to_text()));
        }
        if !self.unrecorded.is_empty() {
            item.insert(Cow::Borrowed(UNRECORDED), AttributeValue::text(lives_text(&self.unrecorded)));
        }
        if let Some(as_of) = self.as_of {
            item.insert(Cow::Borrowed(AS_OF), number(as_of.epoch_seconds()));
        }
        if let Some(expires_at) = self.expires_at {
            item.insert(Cow::Borrowed(EXPIRES_AT), number(expires_at.epoch_seconds()));
        }
        item
    }

    /// Reads the item that [`LedgerEntry::encode`] made.
    ///
    /// # Errors
    /// [`ErrorKind::Unreadable`] if the item is not a ledger entry.
    pub(crate) fn decode(item: &Item, targets: &mut RollupTargets) -> Result<LedgerEntry<'static>> {
        let integer =
            |name: &str| item.get(name).and_then(AttributeValue::as_number).and_then(Decimal::to_i64);
        let counter = |name: &'static str| {
            integer(name).and_then(|n| u64::try_from(n).ok()).ok_or_else(|| unreadable_entry(name))
        };
        let text = |name: &'static str| {
            item.get(name).and_then(AttributeValue::as_text).ok_or_else(|| unreadable_entry(name))
        };
        let (current, departed) = decode_contributions(text(CONTRIBUTIONS)?, targets)
            .map_err(|cause| unreadable_entry(CONTRIBUTIONS).caused_by(cause))?;
        Ok(LedgerEntry {
            position: parse_position(text(POSITION)?, POSITION)?,
            rev: counter(REV)?,
            generation: counter(GENERATION)?,
            fingerprint: item.get(FINGERPRINT).and_then(AttributeValue::as_text).unwrap_or_default().into(),
            current,
            departed,
            as_of: integer(AS_OF).map(Timestamp::from_epoch_seconds),
            expires_at: integer(EXPIRES_AT).map(Timestamp::from_epoch_seconds),
            behind: match item.get(BEHIND) {
                Some(_) => {
                    Some(ParkedPosition::parse(text(BEHIND)?).ok_or_else(|| unreadable_entry(BEHIND))?)
                }
                None => None,
            },
            unrecorded: match item.get(UNRECORDED) {
                Some(_) => parse_lives(text(UNRECORDED)?).ok_or_else(|| unreadable_entry(UNRECORDED))?,
                None => Vec::new(),
            },
        })
    }

    /// Whether a record is counted: its position is not newer, or a reconciliation has counted a newer state.
    pub(crate) fn has_passed(&self, position: &Position<'_>, created_at: Option<Timestamp>) -> bool {
        let reconciled_since = self.as_of.zip(created_at);
        *position <= self.position
            || reconciled_since.is_some_and(|(as_of, created)| created < as_of.minus(CLOCK_TOLERANCE))
    }

    /// A change of the item's life since the state that the entry counts.
    pub(crate) fn unrecorded_life(
        &self,
        change: LifeChange,
        before: Option<&Position<'_>>,
        now: Timestamp,
    ) -> UnrecordedLife {
        UnrecordedLife {
            change,
            found_at: now,
            counted_at: self.as_of,
            after: self.position.clone().into_owned(),
            before: before.map(|before| before.clone().into_owned()),
        }
    }

    /// Whether anything of the item has been counted. An entry that only marks the item as behind counts nothing: older
    /// records are judged as if there were no entry.
    pub(crate) fn has_counted(&self) -> bool {
        self.as_of.is_some() || !self.position.is_start()
    }
}

/// The write that marks an entry as behind and changes nothing else. TTL must not delete it before a person has seen it.
pub(crate) fn mark_action(behind: &ParkedPosition<'_>) -> WriteAction {
    WriteAction::Update(vec![
        AttributeChange::Set(AttributePath::from(BEHIND), AttributeValue::text(behind.to_text())),
        AttributeChange::Remove(AttributePath::from(EXPIRES_AT)),
    ])
}

/// The condition and the action of a write after which the entry with this revision does not name an unrecorded change of a life.
pub(crate) fn accepted_lives(rev: u64) -> (WriteCondition, WriteAction) {
    let path = AttributePath::from(REV);
    let changes = vec![
        AttributeChange::Remove(AttributePath::from(UNRECORDED)),
        AttributeChange::Add(path.clone(), Decimal::ONE),
    ];
    (WriteCondition::Equals(path, revision(rev)), WriteAction::Update(changes))
}

/// The partition key of the entry and the markers of a source item.
pub(super) fn ledger_partition(model: &Model, source: &SourceKey<'_>) -> Result<String> {
    let table = model.tables.get(source.table).ok_or_else(|| not_in_model("table"))?;
    Ok(natural_key([LEDGER_PREFIX, &table.name, "#", &source.partition].concat(), MAX_PARTITION_KEY))
}

/// The sort key of a source item; items of a table without sort keys share one.
pub(super) fn source_sort<'k>(source: &'k SourceKey<'_>) -> &'k str {
    source.sort.as_deref().unwrap_or(NO_SORT_KEY)
}

fn revision(rev: u64) -> AttributeValue<'static> {
    Decimal::from(i64::try_from(rev).unwrap_or(i64::MAX)).into()
}

fn parse_position(text: &str, attribute: &'static str) -> Result<Position<'static>> {
    Position::parse(text).map_err(|cause| unreadable_entry(attribute).caused_by(cause))
}

fn unreadable_entry(attribute: &'static str) -> Error {
    Error::new(ErrorKind::Unreadable, "a ledger entry cannot be read")
        .with("attribute", attribute)
        .hint("Only Afterwrite may write the ledger. Delete the entry, then run `afterwrite backfill`, `verify` and `repair`: the item is counted again, and its rollups are set to the sums of the ledger")
}

#[cfg(test)]
mod tests {
    use afterwrite_model::projection::{Contribution, TargetKey};
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    fn targets() -> RollupTargets {
        RollupTargets::of(&Arc::new(Model::load(Model::DEFAULT_NAME).unwrap()))
    }

    fn text() -> impl Strategy<Value = String> {
        "[a-zA-Z#\"\\\\ \n,:\\[\\]{}éß試]{1,12}"
    }

    fn number() -> impl Strategy<Value = Decimal> {
        prop_oneof![
            any::<i64>().prop_map(Decimal::from),
            "-?[1-9][0-9]{0,20}\\.[0-9]{1,15}[1-9]".prop_map(|text| text.parse().unwrap()),
        ]
    }

    type TargetParts = (String, String, String, Option<u32>, Option<i64>);

    fn target() -> impl Strategy<Value = TargetParts> {
        (text(), text(), text(), any::<Option<u32>>(), proptest::option::of(0..4_000_000_000_i64))
    }

    fn intern(parts: &[TargetParts], targets: &mut RollupTargets) -> Vec<TargetId> {
        let intern = |(rollup, partition, sort, shard, expires): &TargetParts| {
            let expires = expires.map(Timestamp::from_epoch_seconds);
            targets.intern_stored(rollup, TargetKey { partition, sort, shard: *shard }, expires)
        };
        parts.iter().map(intern).collect()
    }

    proptest! {
        #[test]
        fn decoding_an_encoded_entry_returns_the_entry(
            contributions in vec((text(), vec(target(), 1..4), vec((text(), number()), 1..5)), 0..4),
            departed in vec(target(), 0..3),
            rev in 1..u64::from(u32::MAX),
            sequence_number in "[1-9][0-9]{0,39}",
            (behind, unrecorded) in (any::<bool>(), vec((any::<bool>(), 0..4_000_000_000_i64, any::<bool>()), 0..3)),
            (as_of, expires_at) in (proptest::option::of(0..4_000_000_000_i64), proptest::option::of(0..4_000_000_000_i64)),
        ) {
            let mut targets = targets();
            let contribution = |(aggregate, listed, measures): &(String, Vec<TargetParts>, Vec<(String, Decimal)>)| Contribution {
                aggregate: aggregate.as_str().into(),
                targets: intern(listed, &mut targets).into(),
                measures: measures.iter().map(|(name, number)| (name.as_str().into(), number.clone())).collect(),
            };
            let by_aggregate = contributions.iter().map(contribution).collect();
            let entry = LedgerEntry {
                position: Position::new("2026-02-06T10:00:00.000", sequence_number).unwrap(),
                rev,
                generation: 7,
                fingerprint: "f00d".into(),
                current: ItemContributions { by_aggregate },
                departed: intern(&departed, &mut targets),
                as_of: as_of.map(Timestamp::from_epoch_seconds),
                expires_at: expires_at.map(Timestamp::from_epoch_seconds),
                behind: behind.then(|| ParkedPosition {
                    position: Position::start_of("2026-02-06T10:00:00.000"),
                    reason: Cow::Borrowed(ErrorKind::Rejected.name()),
                }),
                unrecorded: unrecorded.into_iter().map(|(has_vanished, second, is_known)| UnrecordedLife {
                    change: if has_vanished { LifeChange::Vanished } else { LifeChange::Began },
                    found_at: Timestamp::from_epoch_seconds(second),
                    counted_at: is_known.then(|| Timestamp::from_epoch_seconds(second / 2)),
                    after: Position::start_of("2026-02-06T10:00:00.000"),
                    before: is_known.then(|| Position::new("2026-02-06T10:00:00.000", "7").unwrap()),
                }).collect(),
            };
            let stored = entry.encode(&targets);
            prop_assert_eq!(LedgerEntry::decode(&stored, &mut targets).unwrap(), entry);
        }
    }

    #[test]
    fn an_unreadable_entry_names_the_attribute_and_never_its_contents() {
        let mut item = LedgerEntry::before(Position::start_of("label")).encode(&targets());
        item.insert(Cow::Borrowed(CONTRIBUTIONS), AttributeValue::text("[[secret"));
        let error = LedgerEntry::decode(&item, &mut targets()).unwrap_err().to_string();
        assert!(error.contains(CONTRIBUTIONS) && !error.contains("secret"), "{error}");
    }
}
