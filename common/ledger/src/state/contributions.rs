//! The attribute `contributions` of a ledger entry, as JSON.

use std::borrow::Cow;

use afterwrite_model::projection::{
    Contribution, ItemContributions, RollupTargets, TargetId, TargetIds, TargetKey,
};
use afterwrite_model::record::{Decimal, JsonMembers, Timestamp};
use serde::Deserialize;
use serde::de::{Deserializer, Error as _};
use serde_json::value::RawValue;

/// `[[aggregate, [target, …], {measure: number, …}], …, [null, [departed target, …]]]`. A target is `[rollup, PK, SK,
/// shard, expires_at]`; `shard` and `expires_at` are omitted if both are absent. Written without serde, because it
/// is written for every record.
pub(super) fn encode_contributions(
    current: &ItemContributions,
    departed: &[TargetId],
    targets: &RollupTargets,
) -> String {
    // Longer than nearly all: growing the text costs more than the memory.
    const TARGET_BYTES: usize = 128;
    const MEASURE_BYTES: usize = 32;
    let bytes = |contribution: &Contribution| {
        TARGET_BYTES * (1 + contribution.targets.len()) + MEASURE_BYTES * contribution.measures.len()
    };
    let mut out = String::with_capacity(2 + current.by_aggregate.iter().map(bytes).sum::<usize>());
    out.push('[');
    for contribution in &current.by_aggregate {
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
    if !departed.is_empty() {
        open(&mut out, '[');
        out.push_str("null,");
        json_targets(&mut out, departed, targets);
        out.push(']');
    }
    out.push(']');
    out
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

/// The contributions that are counted, and the rollups that the item left.
pub(super) fn decode_contributions(
    json: &str,
    targets: &mut RollupTargets,
) -> Result<(ItemContributions, Vec<TargetId>), serde_json::Error> {
    let (mut current, mut departed) = (ItemContributions::default(), Vec::new());
    for StoredContribution(aggregate, stored, measures) in
        serde_json::from_str::<Vec<StoredContribution<'_>>>(json)?
    {
        let ids: TargetIds = stored.into_iter().map(|target| target.intern(targets)).collect();
        let Some(aggregate) = aggregate else {
            departed = ids.into_vec();
            continue;
        };
        let measures = measures.into_iter().flat_map(|JsonMembers(members)| members);
        current.by_aggregate.push(Contribution {
            aggregate: aggregate.into(),
            targets: ids,
            measures: measures.map(|(name, StoredNumber(number))| (name.into(), number)).collect(),
        });
    }
    Ok((current, departed))
}
