//! The ledger entry of a source item: what is counted of it now, and up to which of its changes.

use serde_json::value::RawValue;
use std::borrow::Cow;

use super::keys;
use crate::projection::{
    Contribution, ItemContributions, MeasureAmounts, RollupTargets, TargetId, TargetIds, TargetKey,
};
use crate::record::{AttributeValue, Decimal, Item, Position, Timestamp};
use crate::{Error, ErrorKind, Result};

/// A ledger entry.
#[derive(Clone, Debug, PartialEq)]
pub struct LedgerEntry<'r> {
    /// The newest change that is counted.
    pub position: Position<'r>,
    /// Grows with every write of the entry: the condition of the next one.
    pub rev: u64,
    /// The generation of the model that wrote it.
    pub generation: u64,
    /// What is counted of the item now.
    pub current: ItemContributions,
    /// The mirrored rollups that the last write took this item out of: should that write's author have crashed before it
    /// refreshed their mirrors, whoever meets the entry next does.
    pub left: Vec<TargetId>,
    /// The server's time of the last reconciliation.
    pub as_of: Option<Timestamp>,
    /// When the entry may go: set on tombstones only.
    pub expires_at: Option<Timestamp>,
}

const POSITION: &str = "position";
const GENERATION: &str = "generation";
const CONTRIBUTIONS: &str = "contributions";
const AS_OF: &str = "as_of";

impl LedgerEntry<'_> {
    /// The item to store, without its key.
    #[must_use]
    pub fn encode(&self, targets: &RollupTargets) -> Item {
        let mut item = keys::typed("LEDGER");
        let number = |number: i64| AttributeValue::N(Decimal::from(number));
        item.insert(Cow::Borrowed(POSITION), AttributeValue::text(self.position.to_text()));
        item.insert(Cow::Borrowed(keys::REV), number(i64::try_from(self.rev).unwrap_or(i64::MAX)));
        item.insert(Cow::Borrowed(GENERATION), number(i64::try_from(self.generation).unwrap_or(i64::MAX)));
        item.insert(Cow::Borrowed(CONTRIBUTIONS), AttributeValue::text(self.encode_contributions(targets)));
        if let Some(as_of) = self.as_of {
            item.insert(Cow::Borrowed(AS_OF), number(as_of.epoch_seconds()));
        }
        if let Some(expires_at) = self.expires_at {
            item.insert(Cow::Borrowed(keys::EXPIRES_AT), number(expires_at.epoch_seconds()));
        }
        item
    }

    /// Reads what [`LedgerEntry::encode`] wrote.
    ///
    /// # Errors
    /// [`ErrorKind::State`] if the item is not a ledger entry.
    pub fn decode(item: &Item, targets: &mut RollupTargets) -> Result<LedgerEntry<'static>> {
        let integer =
            |name: &str| item.get(name).and_then(AttributeValue::as_number).and_then(Decimal::to_i64);
        let counter = |name: &'static str| {
            integer(name).and_then(|n| u64::try_from(n).ok()).ok_or_else(|| broken(name))
        };
        let text =
            |name: &'static str| item.get(name).and_then(AttributeValue::as_text).ok_or_else(|| broken(name));
        let (current, left) = decode_contributions(text(CONTRIBUTIONS)?, targets)
            .map_err(|cause| broken(CONTRIBUTIONS).caused_by(cause))?;
        Ok(LedgerEntry {
            position: Position::parse(text(POSITION)?)?,
            rev: counter(keys::REV)?,
            generation: counter(GENERATION)?,
            current,
            left,
            as_of: integer(AS_OF).map(Timestamp::from_epoch_seconds),
            expires_at: integer(keys::EXPIRES_AT).map(Timestamp::from_epoch_seconds),
        })
    }

    /// `[[aggregate, [target, …], {measure: number, …}], …, [null, [left target, …]]]`, a target being
    /// `[rollup, PK, SK, shard, expires_at]` without the absent rest. Written by hand, because it is written for every record.
    fn encode_contributions(&self, targets: &RollupTargets) -> String {
        // Longer than nearly all: growing costs more than the room.
        const ABOUT_A_TARGET: usize = 128;
        const ABOUT_A_MEASURE: usize = 32;
        let share_bytes = |share: &Contribution| {
            ABOUT_A_TARGET * (1 + share.targets.len()) + ABOUT_A_MEASURE * share.measures.len()
        };
        let mut out = String::with_capacity(2 + self.current.shares.iter().map(share_bytes).sum::<usize>());
        out.push('[');
        for share in &self.current.shares {
            open(&mut out, '[');
            json_text(&mut out, &share.aggregate);
            out.push(',');
            json_targets(&mut out, &share.targets, targets);
            out.push_str(",{");
            for (measure, number) in &share.measures {
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
    // All bytes are looked at, come what may: the compiler then looks at many of them at once.
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
        // Most of them are: what is counted, not summed.
        return out.push('1');
    }
    // Writing to a String cannot fail. Only what every JSON reader keeps exactly is written as a number.
    let _ = if number.to_i64().is_some() { write!(out, "{number}") } else { write!(out, "\"{number}\"") };
}

fn json_targets(out: &mut String, ids: &[TargetId], targets: &RollupTargets) {
    open(out, '[');
    for id in ids {
        let target = targets.get(*id);
        open(out, '[');
        json_text(out, &target.name);
        out.push(',');
        json_text(out, &target.partition);
        out.push(',');
        json_text(out, &target.sort);
        match (target.shard, target.expires_at) {
            (None, None) => {}
            (shard, expires_at) => {
                let shard = shard.map_or("null".to_owned(), |shard| shard.to_string());
                let expires_at =
                    expires_at.map_or("null".to_owned(), |time| time.epoch_seconds().to_string());
                out.push_str(&format!(",{shard},{expires_at}"));
            }
        }
        out.push(']');
    }
    out.push(']');
}

fn decode_contributions(
    json: &str,
    targets: &mut RollupTargets,
) -> Result<(ItemContributions, Vec<TargetId>), serde_json::Error> {
    let (mut current, mut left) = (ItemContributions::default(), Vec::new());
    for share in serde_json::from_str::<Vec<Vec<&RawValue>>>(json)? {
        let mut parts = share.iter().map(|part| part.get());
        let (aggregate, listed) = (parts.next().unwrap_or("null"), parts.next().unwrap_or("[]"));
        let aggregate: Option<String> = serde_json::from_str(aggregate)?;
        let listed = decode_targets(listed, targets)?;
        match aggregate {
            None => left = listed.into_vec(),
            Some(aggregate) => {
                let measures = decode_measures(parts.next().unwrap_or("{}"))?;
                current.shares.push(Contribution { aggregate: aggregate.into(), targets: listed, measures });
            }
        }
    }
    Ok((current, left))
}

fn decode_targets(json: &str, targets: &mut RollupTargets) -> Result<TargetIds, serde_json::Error> {
    let listed: Vec<Vec<&RawValue>> = serde_json::from_str(json)?;
    let target = |parts: Vec<&RawValue>| -> Result<TargetId, serde_json::Error> {
        let part = |index: usize| parts.get(index).map_or("null", |part| part.get());
        let (rollup, partition, sort): (String, String, String) =
            (serde_json::from_str(part(0))?, serde_json::from_str(part(1))?, serde_json::from_str(part(2))?);
        let shard: Option<u32> = serde_json::from_str(part(3))?;
        let expires_at: Option<i64> = serde_json::from_str(part(4))?;
        let expires_at = expires_at.map(Timestamp::from_epoch_seconds);
        let key = TargetKey { partition: &partition, sort: &sort, shard };
        Ok(targets.intern_stored(&rollup, key, expires_at))
    };
    listed.into_iter().map(target).collect()
}

fn decode_measures(json: &str) -> Result<MeasureAmounts, serde_json::Error> {
    struct MeasuresVisitor;
    impl<'de> serde::de::Visitor<'de> for MeasuresVisitor {
        type Value = MeasureAmounts;
        fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("measures")
        }
        fn visit_map<A: serde::de::MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let mut measures = Vec::new();
            while let Some((name, number)) = map.next_entry::<String, &RawValue>()? {
                let number = number.get().trim_matches('"').parse().map_err(serde::de::Error::custom)?;
                measures.push((name.into(), number));
            }
            Ok(measures)
        }
    }
    serde::Deserializer::deserialize_map(&mut serde_json::Deserializer::from_str(json), MeasuresVisitor)
}

fn broken(attribute: &'static str) -> Error {
    Error::new(ErrorKind::State, "a ledger entry cannot be read")
        .with("attribute", attribute)
        .hint("Nothing but Afterwrite may write the ledger; repair it by reconciling the item")
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    fn targets() -> RollupTargets {
        RollupTargets::of(&Arc::new(crate::table::Model::load(crate::table::Model::DEFAULT_NAME).unwrap()))
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

    type WrittenTarget = (String, String, String, Option<u32>, Option<i64>);

    fn target() -> impl Strategy<Value = WrittenTarget> {
        (text(), text(), text(), any::<Option<u32>>(), proptest::option::of(0..4_000_000_000_i64))
    }

    fn intern(written: &[WrittenTarget], targets: &mut RollupTargets) -> Vec<TargetId> {
        let intern = |(rollup, partition, sort, shard, expires): &WrittenTarget| {
            let expires = expires.map(Timestamp::from_epoch_seconds);
            targets.intern_stored(rollup, TargetKey { partition, sort, shard: *shard }, expires)
        };
        written.iter().map(intern).collect()
    }

    proptest! {
        #[test]
        fn an_entry_reads_back_as_it_was_written(
            shares in vec((text(), vec(target(), 1..4), vec((text(), number()), 1..5)), 0..4),
            left in vec(target(), 0..3),
            rev in 1..u64::from(u32::MAX),
            sequence_number in "[1-9][0-9]{0,39}",
            (as_of, expires_at) in (proptest::option::of(0..4_000_000_000_i64), proptest::option::of(0..4_000_000_000_i64)),
        ) {
            let mut targets = targets();
            let share = |(aggregate, listed, measures): &(String, Vec<WrittenTarget>, Vec<(String, Decimal)>)| Contribution {
                aggregate: aggregate.as_str().into(),
                targets: intern(listed, &mut targets).into(),
                measures: measures.iter().map(|(name, number)| (name.as_str().into(), number.clone())).collect(),
            };
            let shares = shares.iter().map(share).collect();
            let entry = LedgerEntry {
                position: Position::new("2026-02-06T10:00:00.000", sequence_number).unwrap(),
                rev,
                generation: 7,
                current: ItemContributions { shares },
                left: intern(&left, &mut targets),
                as_of: as_of.map(Timestamp::from_epoch_seconds),
                expires_at: expires_at.map(Timestamp::from_epoch_seconds),
            };
            let stored = entry.encode(&targets);
            prop_assert_eq!(LedgerEntry::decode(&stored, &mut targets).unwrap(), entry);
        }
    }

    #[test]
    fn what_is_no_entry_is_told_by_its_attribute_and_never_by_its_contents() {
        let mut item = LedgerEntry {
            position: Position::start_of("label"),
            rev: 1,
            generation: 1,
            current: ItemContributions::default(),
            left: Vec::new(),
            as_of: None,
            expires_at: None,
        }
        .encode(&targets());
        item.insert(Cow::Borrowed(CONTRIBUTIONS), AttributeValue::text("[[secret"));
        let error = LedgerEntry::decode(&item, &mut targets()).unwrap_err().to_string();
        assert!(error.contains(CONTRIBUTIONS) && !error.contains("secret"), "{error}");
    }
}
