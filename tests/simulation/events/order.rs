//! The order of the events of a FIFO target, as a consumer sees it.
//!
//! A FIFO target keeps the order within a group, and no order between groups. Delivery is at least once: an event may be delivered again after later
//! ones, under its id. So a consumer that handles the first occurrence of each id sees the events of an item in the order of the item's changes.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::state::TakenEvent;
use super::transitions::TransitionKey;

/// The first occurrences of an item's events, in the order of its changes. A stream that was created again has an order of its own: the remaining records of the
/// earlier stream may be delivered after its first ones.
pub(super) fn check_order<'e>(taken: impl Iterator<Item = &'e TakenEvent>) -> Vec<String> {
    let mut groups: BTreeMap<&str, Vec<&TakenEvent>> = BTreeMap::new();
    for event in taken {
        groups.entry(&event.group).or_default().push(event);
    }
    let (mut known, mut newest, mut problems) = (BTreeSet::new(), BTreeMap::new(), Vec::new());
    // The groups one after the other: no consumer may rely on the order between them.
    for event in groups.into_values().flatten() {
        if !known.insert(&event.id) {
            continue;
        }
        let body: Value = serde_json::from_str(&event.body).unwrap_or_default();
        let transition = TransitionKey::of_message(&body);
        let (table, key, label) = transition.item();
        let item = (table.to_owned(), key.to_owned(), label.to_owned());
        let position = transition.position().to_owned();
        if let Some(before) = newest.insert(item, position.clone())
            && before > position
        {
            problems.push(format!("the event at {before} was sent before {}", event.body));
        }
    }
    problems
}
