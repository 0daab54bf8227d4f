//! Events → requests within a target's limits.

use crate::pending_event::PendingEvent;
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
    let mut requests: Vec<Vec<PendingEvent>> = Vec::new();
    let mut bytes = 0;
    for event in events {
        let size = target.entry_bytes(&event.entry());
        bytes += size;
        match requests.last_mut() {
            Some(request) if request.len() < limits.entries && bytes <= limits.bytes => request.push(event),
            Some(_) | None => {
                bytes = size;
                requests.push(vec![event]);
            }
        }
    }
    requests
}
