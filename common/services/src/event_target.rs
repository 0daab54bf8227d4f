//! Event targets: buses, queues and topics that tell the rest of the system what has happened.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use afterwrite_model::Error;
use afterwrite_model::record::Timestamp;

/// An event to publish.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventEntry<'e> {
    /// Its id, the same at every delivery. A FIFO target drops an id that it has seen within five minutes.
    pub id: &'e str,
    /// Its name.
    pub name: &'e str,
    /// The events of one group keep their order in a FIFO target.
    pub group: &'e str,
    /// The time of the change, if it is known.
    pub changed_at: Option<Timestamp>,
    /// The envelope, as JSON.
    pub body: &'e str,
}

/// Whether a target keeps the order of a group's events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventOrder {
    /// Any order: an EventBridge bus, a standard queue, a standard topic.
    Standard,
    /// The events of a group in the order in which they were published: a FIFO queue or topic.
    Fifo,
}

/// The limits of one request to a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventLimits {
    /// How many entries a request may have.
    pub entries: usize,
    /// The bytes of all entries of a request, and so of one entry, as [`EventTarget::entry_bytes`] measures them.
    pub bytes: usize,
}

/// A bus, a queue or a topic that takes events.
///
/// A request is sent once; retries are the caller's decision. The target may take an event and still report an error, so an event may be
/// published twice, under the same id.
pub trait EventTarget: Send + Sync {
    /// The limits of a request: a request over a limit is rejected as a whole.
    fn limits(&self) -> EventLimits;

    /// Whether it keeps the order of a group's events.
    fn order(&self) -> EventOrder;

    /// The bytes of an entry, as the target measures them.
    fn entry_bytes(&self, entry: &EventEntry<'_>) -> usize;

    /// Publishes events. The results align with the entries; an error means that this event was not taken.
    ///
    /// # Errors
    /// `Unavailable` when throttled, unreachable or without a response within `limit`: the same entry may be taken later; `Configuration`
    /// for a missing target or permission; `Rejected` for a request, or an entry, that would be refused again.
    fn publish(
        &self,
        entries: &[EventEntry<'_>],
        limit: Duration,
    ) -> impl Future<Output = Result<Vec<Result<(), Error>>, Error>> + Send;
}

impl<T: EventTarget> EventTarget for Arc<T> {
    fn limits(&self) -> EventLimits {
        (**self).limits()
    }

    fn order(&self) -> EventOrder {
        (**self).order()
    }

    fn entry_bytes(&self, entry: &EventEntry<'_>) -> usize {
        (**self).entry_bytes(entry)
    }

    fn publish(
        &self,
        entries: &[EventEntry<'_>],
        limit: Duration,
    ) -> impl Future<Output = Result<Vec<Result<(), Error>>, Error>> + Send {
        (**self).publish(entries, limit)
    }
}
