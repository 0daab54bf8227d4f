//! The write of one rollup in a transaction.
//!
//! Counts and sums are `ADD`ed without a condition, because additions of concurrent writers commute. Computed measures
//! (`max`, `min`, averages, percentiles) are not additive: a rollup with computed measures is read first and written on the `rev`
//! that was read. The same holds for a change that exceeds 38 digits, such as that from 1E+39 to 1: DynamoDB cannot `ADD` it, but its total before and
//! after has fewer digits.
//!
//! **A total that is set is counted exactly once, as an addition is.** It is the total that was read plus the change, and is written only while the
//! rollup's `rev` is the one that was read. Every write of a rollup increases its `rev`, so no addition came between. The entry's condition
//! makes the change the true difference, and both are in one transaction.

use std::borrow::Cow;
use std::sync::Arc;

use afterwrite_model::effect::{AttributeChange, Write, WriteAction, WriteCondition};
use afterwrite_model::projection::{ExtremeValue, RollupTarget, RollupTargets, TargetId};
use afterwrite_model::record::{AttributePath, AttributeValue, Decimal, Item};
use afterwrite_model::table::{ComputedMeasure, Rollup};
use afterwrite_model::{Error, ErrorKind, Result};

use super::keys::{self, StateKeys};
use super::pack::RollupUpdate;
use super::plan::ItemPlan;

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
    update: RollupUpdate,
    updated_at: Option<&str>,
    read: Option<ReadRollup<'_>>,
) -> Result<Option<Write>> {
    let key = state_keys.rollup(target).ok_or_else(|| {
        Error::new(ErrorKind::Record, "a rollup's key is empty or longer than DynamoDB allows")
            .with("rollup", target.name.as_ref())
    })?;
    let mut changes = Vec::with_capacity(update.measures.len() + update.settled.len() + 4);
    let names = state_keys.names();
    let mut set =
        |name: &Arc<str>, value| changes.push(AttributeChange::Set(AttributePath::from(name), value));
    set(&names.entity_type, "ROLLUP".into());
    if let Some(updated_at) = updated_at {
        set(&names.updated_at, AttributeValue::text(updated_at));
    }
    if let Some(expires_at) = target.expires_at {
        set(&names.expires_at, Decimal::from(expires_at.epoch_seconds()).into());
    }
    changes.push(AttributeChange::Add(AttributePath::from(&names.rev), Decimal::ONE));
    let mut condition = WriteCondition::Always;
    if let Some(ReadRollup { computed, stored }) = read {
        condition = unchanged(stored);
        let extremes = extreme_changes(&update.extremes, stored);
        if extremes.is_empty() && update.measures.is_empty() && update.settled.is_empty() {
            return Ok(None);
        }
        changes.extend(extremes);
        let computed = computed.into_iter().flat_map(|rollup| &rollup.computed);
        changes.extend(computed.map(|computed| computed_change(computed, &update, stored)));
    }
    let settled = |name: &Arc<str>| AttributePath::from([keys::SETTLED, name].concat().as_str());
    for (name, number) in &update.measures {
        changes.extend(sum_change(AttributePath::from(name), number, read)?);
    }
    for (name, number) in &update.settled {
        changes.extend(sum_change(settled(name), number, read)?);
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

/// The rollup after a write of [`rollup_write`] took effect, if its stored state is known.
pub(crate) fn after_write(stored: Option<Item>, action: &WriteAction) -> Option<Item> {
    let WriteAction::Update(changes) = action else { return None };
    let mut item = stored.unwrap_or_default();
    for change in changes {
        match change {
            AttributeChange::Set(path, value) => {
                item.insert(Cow::Owned(path.root().to_string()), value.clone());
            }
            AttributeChange::Remove(path) => {
                item.remove(&**path.root());
            }
            AttributeChange::Add(path, number) => {
                let name = path.root();
                let known = item.get(&**name).map_or(Some(&Decimal::ZERO), AttributeValue::as_number)?;
                let sum = known.plus(number).ok()?;
                item.insert(Cow::Owned(name.to_string()), sum.into());
            }
        }
    }
    Some(item)
}

/// Whether an extreme replaces the value of the rollup as it is stored.
pub(crate) fn changes_rollup(extreme: &ExtremeValue, stored: Option<&Item>) -> bool {
    stored
        .and_then(|item| item.get(&*extreme.measure))
        .is_none_or(|known| extreme.rule.prefers(&extreme.value, known))
}

/// Whether the rollup `target`, as it is stored, cannot take what a plan adds to it: an attribute is not a number, or the
/// sum exceeds DynamoDB's limits.
pub(crate) fn refuses(stored: &Item, plan: &ItemPlan<'_>, target: TargetId) -> bool {
    let mut additions = plan.additions().filter(|addition| addition.targets.contains(&target));
    plan.targets().any(|written| written == target)
        && (refuses_sum(stored, keys::REV, &Decimal::ONE)
            || additions.any(|addition| {
                let mut settled = addition.settled.iter();
                addition.measures.iter().any(|(name, number)| refuses_sum(stored, name, number))
                    || settled
                        .any(|(name, number)| refuses_sum(stored, &[keys::SETTLED, name].concat(), number))
            }))
}

fn refuses_sum(stored: &Item, name: &str, number: &Decimal) -> bool {
    let Some(known) = stored.get(name).filter(|_| !number.is_zero()) else { return false };
    known.as_number().is_none_or(|known| known.plus(number).is_err())
}

/// Holds while the rollup is unchanged since it was read.
fn unchanged(stored: Option<&Item>) -> WriteCondition {
    match stored {
        None => WriteCondition::ItemAbsent,
        Some(item) => match item.get(keys::REV) {
            Some(rev) => WriteCondition::Equals(AttributePath::from(keys::REV), rev.clone()),
            None => WriteCondition::All(vec![
                WriteCondition::ItemExists,
                WriteCondition::Absent(AttributePath::from(keys::REV)),
            ]),
        },
    }
}

fn extreme_changes(seen: &[ExtremeValue], stored: Option<&Item>) -> Vec<AttributeChange> {
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
        .into_iter()
        .map(|winner| AttributeChange::Set(AttributePath::from(&winner.measure), winner.value))
        .collect()
}

/// A measure of a rollup that is computed from others, as these are stored and updated.
pub(super) fn computed_change(
    computed: &ComputedMeasure,
    update: &RollupUpdate,
    stored: Option<&Item>,
) -> AttributeChange {
    let total = |measure: &Arc<str>| {
        let known = stored.and_then(|item| item.get(measure.as_ref())).and_then(AttributeValue::as_number);
        let added = update.measures.iter().find(|(name, _)| name == measure).map(|(_, number)| number);
        known.unwrap_or(&Decimal::ZERO).plus(added.unwrap_or(&Decimal::ZERO)).ok()
    };
    let path = AttributePath::from(&computed.name);
    computed
        .value(total)
        .map_or(AttributeChange::Remove(path.clone()), |value| AttributeChange::Set(path, value.into()))
}
