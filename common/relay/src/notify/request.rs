//! Events → requests within a target's limits.

use crate::pending_event::PendingEvent;
use crate::requests::split_into_requests;
use afterwrite_services::{EventOrder, EventTarget};

/// Takes the events that may be sent now out of `pending`. A standard target takes all. A FIFO target takes the first of each group: a
/// request that a target takes in part can then not reverse two events of a group.
pub(super) fn next_wave(pending: &mut Vec<PendingEvent>, order: EventOrder) -> Vec<PendingEvent> {
    match order {
        EventOrder::Standard => std::mem::take(pending),
        EventOrder::Fifo => {
            let mut groups = std::collections::HashSet::new();
            let (wave, later) = std::mem::take(pending).into_iter().partition(|event| {
                // A group's later events find it in the set.
                groups.insert(event.group.clone())
            });
            *pending = later;
            wave
        }
    }
}

/// Splits events into requests within the target's limits, in order.
pub(super) fn split_requests(events: Vec<PendingEvent>, target: &impl EventTarget) -> Vec<Vec<PendingEvent>> {
    let limits = target.limits();
    split_into_requests(events, (limits.entries, limits.bytes), |event| target.entry_bytes(&event.entry()))
}
