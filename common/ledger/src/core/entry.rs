//! The ledger entry of a source item: what is counted of the item now, up to which of its changes.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use afterwrite_model::projection::{
    Contribution, ItemContributions, RollupTargets, TargetId, TargetIds, TargetKey,
};
use afterwrite_model::record::{AttributeValue, Decimal, Item, JsonMembers, Position, Timestamp};
use afterwrite_model::{Error, ErrorKind, Result};
use serde::Deserialize;
use serde::de::{Deserializer, Error as _};
use serde_json::value::RawValue;

use super::keys;

/// The largest difference between two clocks, or between a stream's times and a clock.
pub(crate) const CLOCK_TOLERANCE: Duration = Duration::from_secs(15 * 60);

/// A ledger entry.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct LedgerEntry<'r> {
    /// The position of the newest change that is counted.
    pub(crate) position: Position<'r>,
    /// The revision: grows by one with every write of the entry, and is the condition of the next write.
    pub(crate) rev: u64,
    /// The generation of the model that wrote the entry.
    pub(crate) generation: u64,
    /// The fingerprint of the model that wrote the entry: tells two models of one generation apart. Empty if unknown.
    pub(crate) fingerprint: Arc<str>,
    /// The contributions that are counted now.
    pub(crate) current: ItemContributions,
    /// The mirrored rollups that the item has left. If the writer crashed before it refreshed their mirrors, the next reader of the
    /// entry refreshes them; they stay here until a writer can know that somebody has.
    pub(crate) left: Vec<TargetId>,
    /// The server's time of the last reconciliation.
    pub(crate) as_of: Option<Timestamp>,
    /// When DynamoDB may delete the entry; set on tombstones only.
    pub(crate) expires_at: Option<Timestamp>,
    /// Set while the item has a newer record that could not be counted.
    pub(crate) behind: Option<ParkedPosition<'r>>,
}

/// The newest record of an item that could not be counted, and why. It never has item contents.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ParkedPosition<'r> {
    /// The record's position.
    pub(crate) position: Position<'r>,
    /// The name of the error's kind.
    pub(crate) reason: Cow<'r, str>,
}

pub(super) const POSITION: &str = "position";
pub(crate) const GENERATION: &str = "generation";
pub(super) const CONTRIBUTIONS: &str = "contributions";
pub(super) const AS_OF: &str = "as_of";
const FINGERPRINT: &str = "model";

impl<'r> LedgerEntry<'r> {
    /// An entry that counts nothing, at the start of a stream and without a revision yet.
    pub(crate) fn before(position: Position<'r>) -> Self {
        Self {
            position,
            rev: 0,
            generation: 0,
            fingerprint: Arc::default(),
            current: ItemContributions::default(),
            left: Vec::new(),
            as_of: None,
            expires_at: None,
            behind: None,
        }
    }

    /// The entry without what is counted.
    pub(crate) fn without_contributions(&self) -> Self {
        Self {
            position: self.position.clone(),
            fingerprint: Arc::clone(&self.fingerprint),
            current: ItemContributions::default(),
            left: Vec::new(),
            behind: self.behind.clone(),
            ..*self
        }
    }
}

impl LedgerEntry<'_> {
    /// The item to store, without its key.
    #[must_use]
    pub(crate) fn encode(&self, targets: &RollupTargets) -> Item {
        let mut item = keys::item_of_type("LEDGER");
        let number = |number: i64| AttributeValue::N(Decimal::from(number));
        item.insert(Cow::Borrowed(POSITION), AttributeValue::text(self.position.to_text()));
        item.insert(Cow::Borrowed(keys::REV), number(i64::try_from(self.rev).unwrap_or(i64::MAX)));
        item.insert(Cow::Borrowed(GENERATION), number(i64::try_from(self.generation).unwrap_or(i64::MAX)));
        item.insert(Cow::Borrowed(CONTRIBUTIONS), AttributeValue::text(self.encode_contributions(targets)));
        if !self.fingerprint.is_empty() {
            item.insert(Cow::Borrowed(FINGERPRINT), AttributeValue::text(&*self.fingerprint));
        }
        if let Some(behind) = &self.behind {
            item.insert(Cow::Borrowed(keys::BEHIND), AttributeValue::text(behind.to_text()));
        }
        if let Some(as_of) = self.as_of {
            item.insert(Cow::Borrowed(AS_OF), number(as_of.epoch_seconds()));
        }
        if let Some(expires_at) = self.expires_at {
            item.insert(Cow::Borrowed(keys::EXPIRES_AT), number(expires_at.epoch_seconds()));
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
        let (current, left) = decode_contributions(text(CONTRIBUTIONS)?, targets)
            .map_err(|cause| unreadable_entry(CONTRIBUTIONS).caused_by(cause))?;
        Ok(LedgerEntry {
            position: parse_position(text(POSITION)?, POSITION)?,
            rev: counter(keys::REV)?,
            generation: counter(GENERATION)?,
            fingerprint: item.get(FINGERPRINT).and_then(AttributeValue::as_text).unwrap_or_default().into(),
            current,
            left,
            as_of: integer(AS_OF).map(Timestamp::from_epoch_seconds),
            expires_at: integer(keys::EXPIRES_AT).map(Timestamp::from_epoch_seconds),
            behind: match item.get(keys::BEHIND) {
                Some(_) => Some(ParkedPosition::parse(text(keys::BEHIND)?)?),
                None => None,
            },
        })
    }

    /// Whether a record is counted: its position is not newer, or a reconciliation has counted a newer state.
    pub(crate) fn has_passed(&self, position: &Position<'_>, created_at: Option<Timestamp>) -> bool {
        let reconciled_since = self.as_of.zip(created_at);
        *position <= self.position
            || reconciled_since.is_some_and(|(as_of, created)| created < as_of.minus(CLOCK_TOLERANCE))
    }

    /// Whether anything of the item has been counted. An entry that only marks the item as behind counts nothing: older
    /// records are judged as if there were no entry.
    pub(crate) fn has_counted(&self) -> bool {
        self.as_of.is_some() || !self.position.is_start()
    }

    /// `[[aggregate, [target, …], {measure: number, …}], …, [null, [left target, …]]]`. A target is `[rollup, PK, SK,
    /// shard, expires_at]`; `shard` and `expires_at` are omitted if both are absent. Written without serde, because it
    /// is written for every record.
    fn encode_contributions(&self, targets: &RollupTargets) -> String {
        // Longer than nearly all: growing the text costs more than the memory.
        const TARGET_BYTES: usize = 128;
        const MEASURE_BYTES: usize = 32;
        let bytes = |contribution: &Contribution| {
            TARGET_BYTES * (1 + contribution.targets.len()) + MEASURE_BYTES * contribution.measures.len()
        };
        let mut out = String::with_capacity(2 + self.current.by_aggregate.iter().map(bytes).sum::<usize>());
        out.push('[');
        for contribution in &self.current.by_aggregate {
            open(&mut out, '[');
            json_text(&mut out, &contribution.aggregate);
            out.push(',');
            json_targets(&mut out, &contribution.targets, targets);
            out.push_str(",{");
            for (measure, number) in &contribution.measures {
                separate(&mut out);
                json_text(&mut out, measure);
                out.push(':');
                json_number(&mut out, number);
            }
            out.push_str("}]");
        }
        if !self.left.is_empty() {
            open(&mut out, '[');
            out.push_str("null,");
            json_targets(&mut out, &self.left, targets);
            out.push(']');
        }
        out.push(']');
        out
    }
}

impl ParkedPosition<'_> {
    /// `<position> <reason>`: also the key of the sparse index that lists parked items.
    pub(crate) fn to_text(&self) -> String {
        format!("{} {}", self.position.to_text(), self.reason)
    }

    pub(crate) fn into_owned(self) -> ParkedPosition<'static> {
        let (position, reason) = (self.position.into_owned(), Cow::Owned(self.reason.into_owned()));
        ParkedPosition { position, reason }
    }

    pub(crate) fn parse(text: &str) -> Result<ParkedPosition<'static>> {
        let (position, reason) = text.split_once(' ').ok_or_else(|| unreadable_entry(keys::BEHIND))?;
        let position = parse_position(position, keys::BEHIND)?;
        Ok(ParkedPosition { position, reason: Cow::Owned(reason.to_owned()) })
    }
}

fn separate(out: &mut String) {
    if !out.ends_with(['[', '{', ',']) {
        out.push(',');
    }
}

fn open(out: &mut String, bracket: char) {
    separate(out);
    out.push(bracket);
}

fn json_text(out: &mut String, text: &str) {
    // No early exit: the compiler vectorises a loop over all bytes.
    let is_special = |byte: u8| byte < b' ' || byte == b'"' || byte == b'\\';
    let is_plain = !text.bytes().fold(false, |any, byte| any | is_special(byte));
    if is_plain {
        out.push('"');
        out.push_str(text);
        out.push('"');
    } else {
        out.push_str(&serde_json::Value::from(text).to_string());
    }
}

fn json_number(out: &mut String, number: &Decimal) {
    use std::fmt::Write as _;
    if *number == Decimal::ONE {
        // The most frequent number: a count.
        return out.push('1');
    }
    // Only integers that every JSON reader keeps exactly are written as numbers. Writing to a String cannot fail.
    let _ = if number.to_i64().is_some() { write!(out, "{number}") } else { write!(out, "\"{number}\"") };
}

fn json_targets(out: &mut String, ids: &[TargetId], targets: &RollupTargets) {
    let number_or_null = |number: Option<i64>| number.map_or("null".to_owned(), |number| number.to_string());
    open(out, '[');
    for id in ids {
        let target = targets.get(*id);
        open(out, '[');
        json_text(out, &target.name);
        out.push(',');
        json_text(out, &target.partition);
        out.push(',');
        json_text(out, &target.sort);
        if target.shard.is_some() || target.expires_at.is_some() {
            let shard = number_or_null(target.shard.map(i64::from));
            let expires_at = number_or_null(target.expires_at.map(Timestamp::epoch_seconds));
            out.push_str(&format!(",{shard},{expires_at}"));
        }
        out.push(']');
    }
    out.push(']');
}

/// One element of `contributions`: aggregate, targets, measures. The aggregate is null for the rollups that the item
/// left.
#[derive(Deserialize)]
struct StoredContribution<'e>(
    Option<String>,
    #[serde(borrow)] Vec<StoredTarget<'e>>,
    #[serde(default)] Option<JsonMembers<String, StoredNumber>>,
);

/// A target: rollup, `PK`, `SK`, shard, expiry in epoch seconds.
#[derive(Deserialize)]
struct StoredTarget<'e>(
    #[serde(borrow)] Cow<'e, str>,
    #[serde(borrow)] Cow<'e, str>,
    #[serde(borrow)] Cow<'e, str>,
    #[serde(default)] Option<u32>,
    #[serde(default)] Option<i64>,
);

/// A JSON number or string that holds a decimal.
struct StoredNumber(Decimal);

impl<'de> Deserialize<'de> for StoredNumber {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let json = <&RawValue>::deserialize(deserializer)?;
        json.get().trim_matches('"').parse().map(Self).map_err(D::Error::custom)
    }
}

impl StoredTarget<'_> {
    fn intern(self, targets: &mut RollupTargets) -> TargetId {
        let Self(rollup, partition, sort, shard, expires_at) = self;
        let key = TargetKey { partition: &partition, sort: &sort, shard };
        targets.intern_stored(&rollup, key, expires_at.map(Timestamp::from_epoch_seconds))
    }
}

fn decode_contributions(
    json: &str,
    targets: &mut RollupTargets,
) -> Result<(ItemContributions, Vec<TargetId>), serde_json::Error> {
    let (mut current, mut left) = (ItemContributions::default(), Vec::new());
    for StoredContribution(aggregate, stored, measures) in
        serde_json::from_str::<Vec<StoredContribution<'_>>>(json)?
    {
        let ids: TargetIds = stored.into_iter().map(|target| target.intern(targets)).collect();
        let Some(aggregate) = aggregate else {
            left = ids.into_vec();
            continue;
        };
        let measures = measures.into_iter().flat_map(|JsonMembers(members)| members);
        current.by_aggregate.push(Contribution {
            aggregate: aggregate.into(),
            targets: ids,
            measures: measures.map(|(name, StoredNumber(number))| (name.into(), number)).collect(),
        });
    }
    Ok((current, left))
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
    use afterwrite_model::table::Model;
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
            left in vec(target(), 0..3),
            rev in 1..u64::from(u32::MAX),
            sequence_number in "[1-9][0-9]{0,39}",
            behind in any::<bool>(),
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
                left: intern(&left, &mut targets),
                as_of: as_of.map(Timestamp::from_epoch_seconds),
                expires_at: expires_at.map(Timestamp::from_epoch_seconds),
                behind: behind.then(|| ParkedPosition {
                    position: Position::start_of("2026-02-06T10:00:00.000"),
                    reason: Cow::Borrowed(ErrorKind::Rejected.name()),
                }),
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
