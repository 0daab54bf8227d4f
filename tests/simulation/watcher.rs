//! Checks every change of the state table when it occurs.

use std::collections::{BTreeMap, BTreeSet};

use afterwrite_memory::ItemChange;
use afterwrite_model::record::{AttributeValue, Item, Timestamp};

use super::coverage::FaultCoverage;
use super::state::{StateKind, state_kind};
use super::state_keys::StateKey;
use super::store::text;

/// An expiry whose marker was written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SettledExpiry {
    /// The model generation of the process.
    pub(crate) generation: u64,
    pub(crate) at: Timestamp,
    /// Whether the ledger knew that it had not been settled: it was parked, or its entry had not passed it.
    pub(crate) was_open: bool,
}

/// A write of a ledger entry: its `PK`, `SK` and `position`.
pub(crate) type CountedPosition = (String, String, String);

/// The observed expiries and problems.
#[derive(Debug, Default)]
pub(crate) struct StateWatcher {
    /// By the marker's `PK` and `SK`.
    pub(crate) settled: BTreeMap<(String, String), SettledExpiry>,
    /// The positions of entries before and after their last write, by `PK` and `SK`.
    positions: BTreeMap<(String, String), (String, String)>,
    /// The positions that entries advanced to.
    pub(crate) counted: BTreeSet<CountedPosition>,
    /// The entry and the position of each expiry in the streams, by its marker's key.
    pub(crate) expiries: BTreeMap<StateKey, (StateKey, String)>,
    /// The written entries that name a rollup that their item has left, since the last turn of a task.
    pub(crate) left: Vec<StateKey>,
    /// The number of changes of rollups that the newest deployed model uses as sources.
    pub(crate) source_changes: usize,
    /// The numbers of observed kinds of entries.
    pub(crate) coverage: FaultCoverage,
    pub(crate) problems: Vec<String>,
}

impl StateWatcher {
    /// Checks a change made by a process of this generation, or by TTL.
    pub(crate) fn observe(&mut self, change: &ItemChange, generation: u64) {
        let Some(item) = change.new.as_ref().or(change.old.as_ref()) else { return };
        let (partition, sort) = (text(item, "PK").to_owned(), text(item, "SK").to_owned());
        let kind = state_kind(item);
        let Some(new) = &change.new else {
            if !change.is_expiry {
                self.problems.push(format!("{partition} {sort} was deleted"));
            }
            return;
        };
        let old = change.old.as_ref();
        if kind == StateKind::Entry {
            let position = text(new, "position").to_owned();
            let before = old.map(|old| text(old, "position").to_owned()).unwrap_or_default();
            if before < position {
                self.counted.insert((partition.clone(), sort.clone(), position.clone()));
            }
            self.positions.insert((partition.clone(), sort.clone()), (before, position));
            // In place of an aggregate, `null` precedes the rollups that the item has left.
            if text(new, "contributions").contains("[null,") {
                self.left.push((partition.clone(), sort.clone()));
            }
            self.cover(old, new);
        }
        let fault = match kind {
            StateKind::Entry => entry(old, new),
            StateKind::Marker if new.contains_key("behind") => {
                old.is_some().then_some("was parked after it was settled, or twice")
            }
            StateKind::Rollup => rollup(old, new),
            StateKind::Lookup => lookup(old, new),
            StateKind::Marker => {
                let was_parked = old.is_some_and(|old| old.contains_key("behind"));
                let was_open = was_parked || self.has_passed(&partition, &sort);
                let expiry = SettledExpiry { generation, at: change.time, was_open };
                let is_second = self.settled.insert((partition.clone(), sort.clone()), expiry).is_some();
                is_second.then_some("was written twice")
            }
        };
        self.problems.extend(fault.map(|fault| format!("{partition} {sort} {fault}")));
    }
}

impl StateWatcher {
    /// Whether the entry's last write, which is in the marker's transaction, was the one that passed the expiry.
    fn has_passed(&self, partition: &str, marker: &str) -> bool {
        let marker = (partition.to_owned(), marker.to_owned());
        let Some((entry, position)) = self.expiries.get(&marker) else { return false };
        let positions = self.positions.get(entry);
        positions.is_some_and(|(before, after)| before < position && position <= after)
    }

    /// Records what is special of an entry.
    fn cover(&mut self, old: Option<&Item>, new: &Item) {
        let (partition, sort) = (text(new, "PK"), text(new, "SK"));
        if partition.contains("#SHA256#") || sort.contains("#SHA256#") {
            self.coverage.record("hashed key written");
        }
        if sort.starts_with("SESSION#0#EXPIRED#") {
            self.coverage.record("entry whose key is like a marker's");
        }
        if partition.starts_with("LEDGER#meters#") {
            self.coverage.record("entry with a binary and a number key");
        }
        let has_moved = old.is_some_and(|old| text(old, "position") < text(new, "position"));
        if old.is_some_and(|old| old.contains_key("behind")) && !new.contains_key("behind") && has_moved {
            self.coverage.record("parked item healed by its next change");
        }
    }
}

fn number<'i>(item: &'i Item, name: &str) -> Option<&'i afterwrite_model::record::Decimal> {
    item.get(name).and_then(AttributeValue::as_number)
}

/// Whether `rev` grows by one.
fn is_next_revision(old: Option<&Item>, new: &Item) -> bool {
    let rev = |item: &Item| number(item, "rev").and_then(|rev| rev.to_string().parse::<i64>().ok());
    rev(new) == Some(old.and_then(rev).unwrap_or(0) + 1)
}

fn entry(old: Option<&Item>, new: &Item) -> Option<&'static str> {
    if text(new, "EntityType") != "LEDGER" {
        return Some("is not a ledger entry");
    }
    if !is_next_revision(old, new) {
        return Some("has a `rev` that did not grow by one");
    }
    let old = old?;
    if has_counted(old) && text(old, "position") > text(new, "position") {
        return Some("has a position before its previous one");
    }
    (number(old, "generation") > number(new, "generation"))
        .then_some("has a generation before its previous one")
}

/// Whether an entry counts anything. One that only marks a parked item has the position of the beginning of the parked
/// record's stream; records of an earlier stream may follow.
fn has_counted(entry: &Item) -> bool {
    let is_at_start = text(entry, "position").ends_with(&format!("#{:0>40}", 0));
    !is_at_start || entry.contains_key("as_of")
}

fn rollup(old: Option<&Item>, new: &Item) -> Option<&'static str> {
    if text(new, "EntityType") != "ROLLUP" {
        return Some("is not a rollup");
    }
    (!is_next_revision(old, new)).then_some("has a `rev` that did not grow by one")
}

fn lookup(old: Option<&Item>, new: &Item) -> Option<&'static str> {
    let has_changed = old.is_some_and(|old| old.get("gives") != new.get("gives"));
    has_changed.then_some("has other outputs than before")
}
