//! An event on its way to a target.

use std::sync::Arc;

use afterwrite_model::projection::Event;
use afterwrite_model::record::Timestamp;
use afterwrite_services::{EventEntry, EventTarget};

/// An event that is to be published, with its envelope as text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PendingEvent {
    /// The index of its record, or of its message, in the batch.
    pub(crate) index: usize,
    /// The rule's `to`; `None` for the default target.
    pub(crate) to: Option<Arc<str>>,
    /// Its id.
    pub(crate) id: String,
    /// Its name.
    pub(crate) name: Arc<str>,
    /// The group in which a FIFO target keeps order.
    pub(crate) group: String,
    /// The time of the change, if it is known.
    pub(crate) changed_at: Option<Timestamp>,
    /// The envelope.
    pub(crate) body: String,
    /// The envelope without the detail, if a target with smaller limits than its service allows could refuse the whole one.
    pub(crate) spare_body: Option<String>,
}

impl PendingEvent {
    /// An event of a record, for this target. The second value tells whether its body is without the
    /// detail, because it is larger than the target takes.
    pub(crate) fn of(event: &Event, index: usize, target: &impl EventTarget) -> (Self, bool) {
        let mut pending = Self {
            index,
            to: event.to.clone(),
            id: event.id.clone(),
            name: event.name.clone(),
            group: event.group.clone(),
            changed_at: event.changed_at,
            body: printable(event.body()),
            spare_body: None,
        };
        let is_oversized = target.entry_bytes(&pending.entry()) > target.limits().bytes;
        if is_oversized {
            pending.body = printable(event.body_without_detail());
        } else if pending.body.len() > COMMON_BYTES {
            pending.spare_body = Some(printable(event.body_without_detail()));
        }
        (pending, is_oversized)
    }

    /// Replaces the envelope by the one without the detail; `false` if the event has no other envelope.
    pub(crate) fn shorten(&mut self) -> bool {
        self.spare_body.take().map(|spare| self.body = spare).is_some()
    }

    /// The entry of a request.
    pub(crate) fn entry(&self) -> EventEntry<'_> {
        let Self { id, name, group, changed_at, body, .. } = self;
        EventEntry { id, name, group, changed_at: *changed_at, body }
    }
}

/// The size of an event that every queue, topic and bus takes: a queue that was created before August 2025 has this limit.
const COMMON_BYTES: usize = 250 * 1024;

/// The envelope without the two characters that SQS and SNS refuse. They are escaped; both are in texts of the JSON only.
fn printable(body: String) -> String {
    const REFUSED: [(char, &str); 2] = [('\u{FFFE}', "\\ufffe"), ('\u{FFFF}', "\\uffff")];
    REFUSED.into_iter().fold(body, |body, (character, escaped)| match body.contains(character) {
        true => body.replace(character, escaped),
        false => body,
    })
}
