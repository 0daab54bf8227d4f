//! The write of one rollup in a transaction.
//!
//! Counts and sums are `ADD`ed without a condition, because additions of concurrent writers commute. Computed measures
//! (`max`, `min`, averages, percentiles) are not additive: a rollup with computed measures is read first and written on the `rev`
//! that was read.

use std::borrow::Cow;
use std::sync::Arc;

use super::keys::{self, StateKeys};
use super::pack::RollupUpdate;
use super::plan::ItemPlan;
use crate::effect::{AttributeChange, Write, WriteAction, WriteCondition};
use crate::projection::{ExtremeValue, RollupTarget, TargetId};
use crate::record::{AttributePath, AttributeValue, Decimal, Item};
use crate::table::{ComputedMeasure, Rollup};
use crate::{Error, ErrorKind, Result};

/// The write that applies `update` to the rollup `target`; `None` if no value of the rollup changes. `computed` is set
/// for a rollup with computed measures: its declaration and the item as it was read.
pub(crate) fn rollup_write(
    state_keys: &StateKeys,
    target: &RollupTarget,
    update: RollupUpdate,
    updated_at: Option<&str>,
    computed: Option<(&Rollup, Option<&Item>)>,
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
    if let Some((rollup, stored)) = computed {
        condition = unchanged(stored);
        let extremes = extreme_changes(&update.extremes, stored);
        if extremes.is_empty() && update.measures.is_empty() && update.settled.is_empty() {
            return Ok(None);
        }
        changes.extend(extremes);
        changes.extend(rollup.computed.iter().map(|computed| computed_change(computed, &update, stored)));
    }
    let add = |name: AttributePath, number: Decimal| {
        (!number.is_zero()).then_some(AttributeChange::Add(name, number))
    };
    changes.extend(
        update.measures.into_iter().filter_map(|(name, number)| add(AttributePath::from(name), number)),
    );
    let settled = |name: Arc<str>| AttributePath::from([keys::SETTLED, &name].concat().as_str());
    changes.extend(update.settled.into_iter().filter_map(|(name, number)| add(settled(name), number)));
    Ok(Some(Write { key, condition, action: WriteAction::Update(changes) }))
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
