//! How events are published in a run, and what their targets and the queue have.

use std::collections::BTreeMap;
use std::sync::Arc;

use afterwrite_relay::notify::TargetName;
use afterwrite_services::EventEntry;

/// How events are published in a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EventOptions {
    /// Whether the relay has the queue.
    pub(crate) has_queue: bool,
    /// Requests and entries per thousand that fail, and responses that are lost.
    pub(crate) faults: u64,
    /// Records per thousand that a delivery to the relay damages; the next delivery has them as they are.
    pub(crate) damages: u64,
}

/// The change of the relay's surroundings that switches a guard of events off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EventBypass {
    /// Each delivery of an event has another id.
    NewIds,
    /// Each event has a group of its own.
    OwnGroups,
    /// A target seems to take the entries that it refuses.
    HideRefusals,
    /// A FIFO target seems to be a standard target. The relay has no queue.
    HideOrder,
    /// The entries that a FIFO target refuses go to the queue.
    QueueRefused,
    /// The queue seems to take the messages that it refuses.
    HideQueueRefusals,
    /// A message leaves the queue although its response names it.
    DropFailedMessages,
    /// A damaged record does not show its item.
    HideDamagedItem,
}

/// The targets of the model's rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum EventTargetKind {
    /// The default target.
    Fifo,
    /// The target `audit`.
    Standard,
}

impl EventTargetKind {
    pub(crate) const ALL: [Self; 2] = [Self::Fifo, Self::Standard];

    /// The rule's `to`.
    pub(crate) fn name(self) -> TargetName {
        match self {
            Self::Fifo => None,
            Self::Standard => Some(Arc::from("audit")),
        }
    }
}

/// An event that a target took.
#[derive(Clone, Debug)]
pub(crate) struct TakenEvent {
    pub(crate) target: EventTargetKind,
    pub(crate) id: String,
    pub(crate) group: String,
    pub(crate) body: String,
}

/// A message of the queue.
#[derive(Clone, Debug)]
pub(crate) struct QueuedText {
    pub(crate) id: u64,
    pub(crate) text: String,
}

/// The contents of the targets and of the queue.
#[derive(Debug, Default)]
pub(crate) struct EventState {
    /// Requests and entries per thousand that fail, and responses that are lost.
    pub(crate) faults: u64,
    pub(crate) bypass: Option<EventBypass>,
    /// All events in the order of arrival. A FIFO target would drop some repetitions.
    pub(crate) taken: Vec<TakenEvent>,
    /// The requests that take effect after their author stopped waiting.
    pub(crate) late: Vec<Vec<TakenEvent>>,
    /// How many requests each target refuses from now on.
    pub(crate) busy: BTreeMap<EventTargetKind, u64>,
    pub(crate) messages: Vec<QueuedText>,
    queued: u64,
}

impl EventState {
    pub(crate) fn is_idle(&self) -> bool {
        self.messages.is_empty() && self.late.is_empty()
    }

    pub(crate) fn has_late_requests(&self) -> bool {
        !self.late.is_empty()
    }

    /// Lets the oldest late request take effect.
    pub(crate) fn land(&mut self) {
        if !self.late.is_empty() {
            let events = self.late.remove(0);
            self.taken.extend(events);
        }
    }

    pub(crate) fn enqueue(&mut self, text: String) {
        self.queued += 1;
        self.messages.push(QueuedText { id: self.queued, text });
    }

    /// An event as it arrives.
    pub(crate) fn arriving(&self, target: EventTargetKind, entry: &EventEntry<'_>) -> TakenEvent {
        let (mut id, mut group) = (entry.id.to_owned(), entry.group.to_owned());
        match self.bypass {
            Some(EventBypass::NewIds) => id = format!("{id}-{}", self.taken.len()),
            Some(EventBypass::OwnGroups) => group.clone_from(&id),
            Some(_) | None => {}
        }
        TakenEvent { target, id, group, body: entry.body.to_owned() }
    }
}
