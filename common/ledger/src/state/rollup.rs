//! A rollup: its key, the write that adds to it in a transaction, and the values that are computed from those stored.
//!
//! Counts and sums are `ADD`ed without a condition, because additions of concurrent writers commute. Computed measures
//! (`max`, `min`, averages, percentiles) are not additive: a rollup with computed measures is read first and written on the `rev`
//! that was read. The same holds for a change that exceeds 38 digits, such as that from 1E+39 to 1: DynamoDB cannot `ADD` it, but its total before and
//! after has fewer digits.
//!
//! **A total that is set is counted exactly once, as an addition is.** It is the total that was read plus the change, and is written only while the
//! rollup's `rev` is the one that was read. Every write of a rollup increases its `rev`, so no addition came between. The entry's condition
//! makes the change the true difference, and both are in one transaction.

use std::sync::Arc;

use afterwrite_model::effect::update::updated;
use afterwrite_model::effect::{AttributeChange, ItemKey, Write, WriteAction, WriteCondition};
use afterwrite_model::projection::{
    ExtremeValue, INVALID_ROLLUP_KEY, MeasureAmounts, RollupTarget, RollupTargets, TargetId,
};
use afterwrite_model::record::{AttributePath, AttributeValue, Decimal, Item, Timestamp};
pub use afterwrite_model::table::SETTLED;
use afterwrite_model::table::{ComputedMeasure, ComputedValue, RankGroup, Rollup};
use afterwrite_model::{Error, ErrorKind, Result, hex};

use sha2::{Digest as _, Sha256};

use super::{ENTITY_TYPE, EXPIRES_AT, REV, ROLLUP_TYPE, StateKeys, set};

/// The additions of one transaction to one rollup.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct RollupUpdate {
    /// The change of each measure. A change of zero is kept, so that `rev` grows.
    pub(crate) measures: MeasureAmounts,
    /// The settled part.
    pub(crate) settled: MeasureAmounts,
    /// The values that `max` and `min` must take into account.
    pub(crate) extremes: Vec<ExtremeValue>,
}

impl RollupUpdate {
    /// Whether a change exceeds what DynamoDB stores, so that the rollup must be read before its total is set.
    pub(crate) fn exceeds(&self) -> bool {
        !are_storable(&self.measures) || !are_storable(&self.settled)
    }
}

/// Whether DynamoDB can store these numbers.
pub(crate) fn are_storable(amounts: &MeasureAmounts) -> bool {
    amounts.iter().all(|(_, number)| number.is_storable())
}

/// The attribute with the settled part of a measure.
#[must_use]
pub fn settled_name(measure: &str) -> String {
    [SETTLED, measure].concat()
}

/// A rollup's key. It is never truncated, because readers must find it; `None` if it is empty or exceeds DynamoDB's limits.
pub(crate) fn rollup_key(keys: &StateKeys, target: &RollupTarget) -> Option<ItemKey> {
    target.has_valid_key().then(|| keys.key(target.partition_key(), target.sort.as_ref().to_owned()))
}

/// A short name of a rollup, for the copies of its measures: the beginning of the SHA-256 hash of its key.
pub(crate) fn rollup_origin(target: &RollupTarget) -> String {
    stored_rollup_origin(&target.partition_key(), &target.sort)
}

/// The value of `<attribute>_of` on a copy of the rollup with this stored key.
#[must_use]
pub fn stored_rollup_origin(partition: &str, sort: &str) -> String {
    let hash = Sha256::digest([partition, "\0", sort].concat().as_bytes());
    hex(&hash, 8)
}

/// The `rev` of a rollup; 0 if it does not exist.
pub(crate) fn rollup_revision(stored: Option<&Item>) -> AttributeValue<'static> {
    stored.and_then(|item| item.get(REV)).cloned().unwrap_or(Decimal::ZERO.into())
}

/// The rollup of a target that has computed measures. Such rollups never overlap, so a target has at most one.
pub(crate) fn computed_rollup(targets: &RollupTargets, id: TargetId) -> Option<&Rollup> {
    targets.rollups(id).find(|rollup| rollup.is_computed())
}

/// A rollup that was read, because its new values depend on the stored values.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReadRollup<'b> {
    /// Its declaration, if it has computed measures.
    pub(crate) computed: Option<&'b Rollup>,
    /// The item; `None` if it does not exist.
    pub(crate) stored: Option<&'b Item>,
}

/// The write that applies `update` to the rollup `target`; `None` if no value of the rollup changes. `read` is set if the rollup has computed
/// measures, or the update exceeds what can be added.
pub(crate) fn rollup_write(
    state_keys: &StateKeys,
    target: &RollupTarget,
    mut update: RollupUpdate,
    updated_at: Option<&str>,
    read: Option<ReadRollup<'_>>,
) -> Result<Option<Write>> {
    let key = rollup_key(state_keys, target).ok_or_else(|| {
        Error::new(ErrorKind::Record, INVALID_ROLLUP_KEY).with("rollup", target.name.as_ref())
    })?;
    let mut changes = Vec::with_capacity(update.measures.len() + update.settled.len() + 4);
    let names = state_keys.names();
    let mut push =
        |name: &Arc<str>, value| changes.push(AttributeChange::Set(AttributePath::from(name), value));
    push(&names.entity_type, ROLLUP_TYPE.into());
    if let Some(updated_at) = updated_at {
        push(&names.updated_at, AttributeValue::text(updated_at));
    }
    if let Some(expires_at) = target.expires_at {
        push(&names.expires_at, Decimal::from(expires_at.epoch_seconds()).into());
    }
    let ranked = target.ranks.iter();
    changes.extend(ranked.map(|group| set(&group.attribute, AttributeValue::text(group.name.clone()))));
    changes.push(AttributeChange::Add(AttributePath::from(&names.rev), Decimal::ONE));
    let mut condition = WriteCondition::Always;
    if let Some(ReadRollup { computed, stored }) = read {
        condition = unchanged(stored);
        update.extremes = new_extremes(&update.extremes, stored);
        if update.extremes.is_empty() && update.measures.is_empty() && update.settled.is_empty() {
            return Ok(None);
        }
        let extremes = update.extremes.iter();
        let extreme_change = |extreme: &ExtremeValue| set(&extreme.measure, extreme.value.clone());
        changes.extend(extremes.map(extreme_change));
        let computed = computed.into_iter().flat_map(|rollup| &rollup.computed);
        changes.extend(computed.filter_map(|computed| computed_change(computed, &update, stored)));
    }
    for (name, number) in &update.measures {
        changes.extend(sum_change(AttributePath::from(name), number, read)?);
    }
    for (name, number) in &update.settled {
        changes.extend(sum_change(AttributePath::from(settled_name(name).as_str()), number, read)?);
    }
    Ok(Some(Write { key, condition, action: WriteAction::Update(changes) }))
}

/// The change of a sum: an addition, or the new total if the change exceeds what can be added; `None` if the sum stays.
///
/// # Errors
/// [`ErrorKind::Rejected`] if the attribute is not a number, or the total exceeds 38 digits.
fn sum_change(
    path: AttributePath,
    number: &Decimal,
    read: Option<ReadRollup<'_>>,
) -> Result<Option<AttributeChange>> {
    if number.is_storable() {
        return Ok((!number.is_zero()).then(|| AttributeChange::Add(path, number.clone())));
    }
    let Some(ReadRollup { stored, .. }) = read else {
        let message = "a rollup was not read before its total is set; this is a defect of Afterwrite";
        return Err(Error::new(ErrorKind::State, message));
    };
    let known = stored.and_then(|item| item.get(&**path.root()));
    let total = match known.map(AttributeValue::as_number) {
        None => Decimal::ZERO.plus(number).ok(),
        Some(known) => known.and_then(|known| known.plus(number).ok()),
    };
    let total = total.ok_or_else(|| {
        let message =
            "a measure is not a number, or its new total exceeds the 38 digits of a DynamoDB number";
        Error::new(ErrorKind::Rejected, message).with("measure", path.to_string())
    })?;
    Ok(Some(AttributeChange::Set(path, total.into())))
}

/// The write that sets attributes of a rollup as it is stored, `None` for those to remove, unless the rollup has changed since it was read.
#[must_use]
pub fn rollup_correction<'v>(
    key: ItemKey,
    stored: Option<&Item>,
    expires_at: Option<Timestamp>,
    values: impl Iterator<Item = (&'v str, Option<AttributeValue<'static>>)>,
) -> Write {
    let mut changes = vec![
        set(ENTITY_TYPE, ROLLUP_TYPE.into()),
        AttributeChange::Add(AttributePath::from(REV), Decimal::ONE),
    ];
    changes.extend(expires_at.map(|at| set(EXPIRES_AT, Decimal::from(at.epoch_seconds()).into())));
    changes.extend(values.map(|(name, value)| match value {
        Some(value) => set(name, value),
        None => AttributeChange::Remove(AttributePath::from(name)),
    }));
    Write { key, condition: unchanged(stored), action: WriteAction::Update(changes) }
}

/// The write that sets the groups in which an item is ranked; `None` if it has them. Nothing else changes, and neither does `rev`: a group follows
/// from the item's key, so that every writer sets the same one. A rollup that was deleted meanwhile is not created.
#[must_use]
pub fn rank_write(key: ItemKey, stored: &Item, groups: Vec<RankGroup>) -> Option<Write> {
    let has_group = |group: &RankGroup| {
        stored.get(&*group.attribute).and_then(AttributeValue::as_text) == Some(group.name.as_str())
    };
    let lacking = groups.into_iter().filter(|group| group.is_valid() && !has_group(group));
    let changes: Vec<AttributeChange> =
        lacking.map(|group| set(&group.attribute, AttributeValue::text(group.name))).collect();
    (!changes.is_empty()).then(|| Write {
        key,
        condition: WriteCondition::ItemExists,
        action: WriteAction::Update(changes),
    })
}

/// The rollup after a write of [`rollup_write`] took effect, if its stored state is known.
pub(crate) fn rollup_after_write(stored: Option<Item>, action: &WriteAction) -> Option<Item> {
    let WriteAction::Update(changes) = action else { return None };
    updated(stored.unwrap_or_default(), changes).ok()
}

/// Whether an extreme replaces the value of the rollup as it is stored.
pub(crate) fn changes_rollup(extreme: &ExtremeValue, stored: Option<&Item>) -> bool {
    stored
        .and_then(|item| item.get(&*extreme.measure))
        .is_none_or(|known| extreme.rule.prefers(&extreme.value, known))
}

/// Whether a rollup, as it is stored, cannot take a change of its measures: an attribute is not a number, or the sum exceeds DynamoDB's
/// limits.
pub(crate) fn refuses(stored: &Item, measures: &MeasureAmounts, settled: &MeasureAmounts) -> bool {
    let mut settled = settled.iter();
    measures.iter().any(|(name, number)| refuses_sum(stored, name, number))
        || settled.any(|(name, number)| refuses_sum(stored, &settled_name(name), number))
}

/// Whether the revision of a rollup, as it is stored, cannot grow.
pub(crate) fn refuses_revision(stored: &Item) -> bool {
    refuses_sum(stored, REV, &Decimal::ONE)
}

fn refuses_sum(stored: &Item, name: &str, number: &Decimal) -> bool {
    let Some(known) = stored.get(name).filter(|_| !number.is_zero()) else { return false };
    known.as_number().is_none_or(|known| known.plus(number).is_err())
}

/// Holds while the rollup is unchanged since it was read.
fn unchanged(stored: Option<&Item>) -> WriteCondition {
    match stored {
        None => WriteCondition::ItemAbsent,
        Some(item) => match item.get(REV) {
            Some(rev) => WriteCondition::Equals(AttributePath::from(REV), rev.clone()),
            None => WriteCondition::All(vec![
                WriteCondition::ItemExists,
                WriteCondition::Absent(AttributePath::from(REV)),
            ]),
        },
    }
}

/// The extremes that replace the values of the rollup as it is stored, one of each measure.
fn new_extremes(seen: &[ExtremeValue], stored: Option<&Item>) -> Vec<ExtremeValue> {
    let mut winners: Vec<ExtremeValue> = Vec::new();
    for extreme in seen {
        match winners.iter_mut().find(|winner| winner.measure == extreme.measure) {
            Some(winner) => {
                if extreme.rule.prefers(&extreme.value, &winner.value) {
                    *winner = extreme.clone();
                }
            }
            None => winners.push(extreme.clone()),
        }
    }
    winners.retain(|winner| changes_rollup(winner, stored));
    winners
}

/// A measure of a rollup that is computed from others, as these are stored and updated; `None` if it stays. Extremes of `update` replace stored extremes.
pub(crate) fn computed_change(
    computed: &ComputedMeasure,
    update: &RollupUpdate,
    stored: Option<&Item>,
) -> Option<AttributeChange> {
    let total = |measure: &Arc<str>| {
        let known = stored.and_then(|item| item.get(measure.as_ref())).and_then(AttributeValue::as_number);
        let added = update.measures.iter().find(|(name, _)| name == measure).map(|(_, number)| number);
        known.unwrap_or(&Decimal::ZERO).plus(added.unwrap_or(&Decimal::ZERO)).ok()
    };
    let seen = |measure: &Arc<str>| {
        let new = update.extremes.iter().find(|extreme| extreme.measure == *measure);
        new.map(|extreme| &extreme.value).or_else(|| stored?.get(measure.as_ref()))
    };
    let path = AttributePath::from(&computed.name);
    match computed.value(total, seen) {
        ComputedValue::Present(value) => Some(AttributeChange::Set(path, value)),
        ComputedValue::Absent => Some(AttributeChange::Remove(path)),
        ComputedValue::Unseen(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use afterwrite_model::projection::{ExtremeRule, TargetKey};
    use afterwrite_model::table::{ComputedRule, Model};
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_rollup_has_what_was_added_to_it(
            numbers in proptest::collection::vec((any::<i64>(), any::<i64>()), 1..6),
            expires_at in proptest::option::of(0..4_000_000_000_i64),
        ) {
            let mut targets = RollupTargets::of(&Arc::new(Model::load(Model::DEFAULT_NAME).unwrap()));
            let key = TargetKey { partition: "P", sort: "S", shard: None };
            let expires_at = expires_at.map(Timestamp::from_epoch_seconds);
            let id = targets.intern_stored("r", key, expires_at);
            let (mut stored, mut known) = (Item::new(), Some(Item::new()));
            for (sum, settled) in &numbers {
                let amount = |number: &i64| vec![(Arc::from("n"), Decimal::from(*number))];
                let update = RollupUpdate { measures: amount(sum), settled: amount(settled), extremes: Vec::new() };
                let keys = StateKeys::new(Arc::from("state"));
                let write = rollup_write(&keys, targets.get(id), update, Some("now"), None).unwrap().unwrap();
                let WriteAction::Update(changes) = &write.action else { panic!("a rollup is updated") };
                stored = updated(stored, changes).unwrap();
                known = rollup_after_write(known, &write.action);
            }
            prop_assert_eq!(known.as_ref(), Some(&stored));
            prop_assert!(super::super::is_of_type(&stored, ROLLUP_TYPE));
            prop_assert_eq!(rollup_revision(Some(&stored)), Decimal::from(i64::try_from(numbers.len()).unwrap()).into());
            let zero = Decimal::ZERO;
            let sum = numbers.iter().fold(zero.clone(), |sum, (number, _)| sum.plus(&Decimal::from(*number)).unwrap());
            let settled = numbers.iter().fold(zero.clone(), |sum, (_, number)| sum.plus(&Decimal::from(*number)).unwrap());
            for (name, total) in [("n".to_owned(), &sum), (settled_name("n"), &settled)] {
                prop_assert_eq!(stored.get(&*name).and_then(AttributeValue::as_number).unwrap_or(&zero), total);
            }
            prop_assert_eq!(stored.contains_key(EXPIRES_AT), expires_at.is_some());
            let keys = StateKeys::new(Arc::from("state"));
            let values = [("n", None), ("m", Some(Decimal::ONE.into()))];
            let correct = |read: Option<&Item>| rollup_correction(keys.item("P", "S"), read, expires_at, values.clone().into_iter());
            let corrected = correct(Some(&stored)).applied(Some(&stored)).unwrap().unwrap();
            prop_assert_eq!((corrected.get("n"), corrected.get("m")), (None, Some(&Decimal::ONE.into())));
            prop_assert!(super::super::is_of_type(&corrected, ROLLUP_TYPE));
            // The rollup has changed since it was read.
            prop_assert!(correct(Some(&stored)).applied(Some(&corrected)).is_err());
            prop_assert!(correct(None).applied(Some(&stored)).is_err() && correct(None).applied(None).is_ok());
        }
    }

    #[test]
    fn a_text_that_latest_did_not_make_is_replaced_and_takes_no_value_with_it() {
        let name: Arc<str> = Arc::from("l_seen");
        let computed =
            ComputedMeasure { name: Arc::from("l"), rule: ComputedRule::Latest { seen: Arc::clone(&name) } };
        let mut targets = RollupTargets::of(&Arc::new(Model::load(Model::DEFAULT_NAME).unwrap()));
        let target = targets.intern_stored("r", TargetKey { partition: "P", sort: "S", shard: None }, None);
        let extreme = |text: &'static str| ExtremeValue {
            target,
            measure: Arc::clone(&name),
            rule: ExtremeRule::Latest,
            value: AttributeValue::text(text),
        };
        let mut stored = Item::new();
        stored.insert("l".into(), AttributeValue::text("right"));
        for damaged in [AttributeValue::text("zone2"), AttributeValue::text("9\tkey"), Decimal::ONE.into()] {
            stored.insert("l_seen".into(), damaged);
            assert_eq!(computed_change(&computed, &RollupUpdate::default(), Some(&stored)), None);
            let seen = [extreme("1\ta\tSold"), extreme("2\ta\tSnew")];
            assert_eq!(new_extremes(&seen, Some(&stored)), seen[1..]);
        }
        stored.insert("l_seen".into(), AttributeValue::text("2\ta\tSnew"));
        assert!(!changes_rollup(&extreme("1\tb\tSold"), Some(&stored)));
    }
}
