//! Watches every change of the state table as it happens: what must never be, at no moment.

use std::collections::BTreeMap;

use afterwrite::record::{AttributeValue, Item, Timestamp};
use afterwrite_memory::ItemChange;

use super::state::{StateKind, state_kind};
use super::store::text;

/// An expiry was settled.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Claim {
    /// By a process with this generation of the model.
    pub(crate) generation: u64,
    pub(crate) at: Timestamp,
}

/// What was seen.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    /// By the marker's `PK` and `SK`.
    pub(crate) claims: BTreeMap<(String, String), Claim>,
    pub(crate) problems: Vec<String>,
}

impl Watch {
    /// Takes in a change, made by a process of this generation, or by TTL.
    pub(crate) fn observe(&mut self, change: &ItemChange, generation: u64) {
        let some = change.new.as_ref().or(change.old.as_ref());
        let Some(item) = some else { return };
        let (partition, sort) = (text(item, "PK").to_owned(), text(item, "SK").to_owned());
        let kind = state_kind(&partition, &sort);
        let Some(new) = &change.new else {
            if !change.is_expiry {
                self.problems.push(format!("{partition} {sort} was deleted"));
            }
            return;
        };
        let old = change.old.as_ref();
        let fault = match kind {
            StateKind::Entry => entry(old, new),
            StateKind::Rollup => rollup(old, new),
            StateKind::Lookup => lookup(old, new),
            StateKind::Marker => {
                let claim = Claim { generation, at: change.time };
                let is_second = self.claims.insert((partition.clone(), sort.clone()), claim).is_some();
                is_second.then_some("was claimed twice")
            }
        };
        self.problems.extend(fault.map(|fault| format!("{partition} {sort} {fault}")));
    }
}

fn number<'i>(item: &'i Item, name: &str) -> Option<&'i afterwrite::record::Decimal> {
    item.get(name).and_then(AttributeValue::as_number)
}

/// Whether `rev` is the next one.
fn follows(old: Option<&Item>, new: &Item) -> bool {
    let rev = |item: &Item| number(item, "rev").and_then(|rev| rev.to_string().parse::<i64>().ok());
    rev(new) == Some(old.and_then(rev).unwrap_or(0) + 1)
}

fn entry(old: Option<&Item>, new: &Item) -> Option<&'static str> {
    if text(new, "EntityType") != "LEDGER" {
        return Some("is no ledger entry");
    }
    if !follows(old, new) {
        return Some("has a `rev` that does not follow the one before");
    }
    let old = old?;
    if text(old, "position") > text(new, "position") {
        return Some("has a position before the one it had");
    }
    (number(old, "generation") > number(new, "generation")).then_some("fell back behind its generation")
}

fn rollup(old: Option<&Item>, new: &Item) -> Option<&'static str> {
    if text(new, "EntityType") != "ROLLUP" {
        return Some("is no rollup");
    }
    (!follows(old, new)).then_some("has a `rev` that does not follow the one before")
}

fn lookup(old: Option<&Item>, new: &Item) -> Option<&'static str> {
    let has_changed = old.is_some_and(|old| old.get("gives") != new.get("gives"));
    has_changed.then_some("gives something else than it did")
}
