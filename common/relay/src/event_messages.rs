//! The messages that carry events to the invalidator, after their target did not take them in time.
//!
//! ```json
//! {"version":2,"events":[{"to":"billing","id":"0c…","name":"order_paid","group":"9f…","changed_at":1770372000000,"body":{…}}]}
//! ```
//!
//! | field | contents |
//! |---|---|
//! | `version` | 2. An invalidator that knows only the paths of version 1 leaves the message in the queue |
//! | `to` | the rule's target; absent for the default target |
//! | `id`, `name`, `group` | as they are published |
//! | `changed_at` | the time of the change in epoch milliseconds, if it is known |
//! | `body` | the envelope |

use afterwrite_model::record::Timestamp;
use afterwrite_services::sqs::{BILLED_BYTES, MAX_BATCH_BYTES};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::messages::{QueueMessage, message_text};
use super::pending_event::PendingEvent;

/// The version of these messages.
pub(super) const VERSION: u32 = 2;
/// The length of a message's text without its events.
const ENVELOPE_BYTES: usize = r#"{"version":2,"events":[]}"#.len();

/// The JSON of a message.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct EventMessageText<'m> {
    version: u32,
    #[serde(borrow)]
    events: Vec<EventText<'m>>,
}

/// The JSON of one event.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct EventText<'m> {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    to: Option<String>,
    id: String,
    name: String,
    group: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    changed_at: Option<i64>,
    #[serde(borrow)]
    body: &'m RawValue,
}

/// The messages for events, in order, and the events that no message can hold. A message is as large as the queue bills as one unit, or has
/// one larger event.
pub(super) fn pack_events(
    events: Vec<PendingEvent>,
) -> (Vec<QueueMessage<Vec<PendingEvent>>>, Vec<PendingEvent>) {
    let mut groups: Vec<Vec<PendingEvent>> = Vec::new();
    let mut unfit = Vec::new();
    let mut bytes = 0;
    for event in events {
        let size = event_text(&event).and_then(|text| message_text(&text).ok()).map(|text| text.len() + 1);
        let Some(size) = size.filter(|size| ENVELOPE_BYTES + size <= MAX_BATCH_BYTES) else {
            unfit.push(event);
            continue;
        };
        match groups.last_mut().filter(|_| bytes + size <= BILLED_BYTES) {
            Some(group) => {
                bytes += size;
                group.push(event);
            }
            None => {
                bytes = ENVELOPE_BYTES + size;
                groups.push(vec![event]);
            }
        }
    }
    let mut messages = Vec::with_capacity(groups.len());
    for contents in groups {
        let events = contents.iter().filter_map(event_text).collect();
        match message_text(&EventMessageText { version: VERSION, events }) {
            Ok(text) => messages.push(QueueMessage { text, contents }),
            Err(_) => unfit.extend(contents),
        }
    }
    (messages, unfit)
}

/// An event as JSON; `None` if its body is not JSON.
fn event_text(event: &PendingEvent) -> Option<EventText<'_>> {
    Some(EventText {
        to: event.to.as_deref().map(str::to_owned),
        id: event.id.clone(),
        name: event.name.to_string(),
        group: event.group.clone(),
        changed_at: event.changed_at.map(Timestamp::epoch_ms),
        body: serde_json::from_str(&event.body).ok()?,
    })
}

impl EventMessageText<'_> {
    /// The events of the message with this index in its batch.
    pub(super) fn into_events(self, index: usize) -> Vec<PendingEvent> {
        let event = |event: EventText<'_>| PendingEvent {
            index,
            to: event.to.map(From::from),
            id: event.id,
            name: event.name.into(),
            group: event.group,
            changed_at: event.changed_at.map(Timestamp::from_epoch_ms),
            body: event.body.get().to_owned(),
            spare_body: None,
        };
        self.events.into_iter().map(event).collect()
    }
}

#[cfg(test)]
mod tests {
    use afterwrite_services::sqs::MAX_BATCH_MESSAGES;
    use proptest::prelude::*;

    use super::*;
    use crate::messages::split_requests;

    fn event(index: usize, length: usize) -> PendingEvent {
        PendingEvent {
            index,
            to: index.is_multiple_of(2).then(|| "billing".into()),
            id: format!("{index:032x}"),
            name: "order_paid".into(),
            group: format!("{:032x}", index % 3),
            changed_at: (!index.is_multiple_of(5)).then(|| Timestamp::from_epoch_ms(1_770_372_000_000)),
            body: format!(
                r#"{{"id":"{index:032x}","detail":{{"text":"{}"}}}}"#,
                "\\u00fc".repeat(length / 6)
            ),
            spare_body: None,
        }
    }

    fn events_of(text: &str) -> Vec<PendingEvent> {
        serde_json::from_str::<EventMessageText<'_>>(text).unwrap().into_events(0)
    }

    #[test]
    fn a_message_is_json_with_its_version_and_the_envelope_as_it_is() {
        let event = PendingEvent { body: r#"{"n":1.50,"t":"a\"b"}"#.to_owned(), ..event(4, 0) };
        let (messages, unfit) = pack_events(vec![event.clone()]);
        let [message] = messages.try_into().unwrap();
        let expected = r#"{"version":2,"events":[{"to":"billing","id":"00000000000000000000000000000004","name":"order_paid","group":"00000000000000000000000000000001","changed_at":1770372000000,"body":{"n":1.50,"t":"a\"b"}}]}"#;
        assert_eq!((message.text.as_str(), unfit.len()), (expected, 0));
        assert_eq!(events_of(&message.text), [PendingEvent { index: 0, ..event }]);
    }

    #[test]
    fn an_event_that_no_message_can_hold_is_returned() {
        let (messages, unfit) = pack_events(vec![event(1, 10), event(2, MAX_BATCH_BYTES), event(3, 10)]);
        assert_eq!((messages.len(), unfit.len(), unfit[0].index), (1, 1, 2));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]
        #[test]
        fn every_event_is_sent_once_and_no_limit_is_exceeded(
            lengths in proptest::collection::vec(prop_oneof![8 => 1_usize..600, 1 => 60_000_usize..250_000], 0..120),
        ) {
            let events: Vec<PendingEvent> =
                lengths.iter().enumerate().map(|(index, length)| event(index, *length)).collect();
            let (messages, unfit) = pack_events(events.clone());
            prop_assert!(unfit.is_empty());
            let sent: Vec<PendingEvent> = messages.iter().flat_map(|message| events_of(&message.text)).collect();
            let expected: Vec<PendingEvent> =
                events.iter().map(|event| PendingEvent { index: 0, ..event.clone() }).collect();
            prop_assert_eq!(sent, expected);
            for message in &messages {
                prop_assert!(message.text.len() <= BILLED_BYTES || message.contents.len() == 1);
            }
            for request in split_requests(messages) {
                prop_assert!(request.len() <= MAX_BATCH_MESSAGES);
                prop_assert!(request.iter().map(|message| message.text.len()).sum::<usize>() <= MAX_BATCH_BYTES);
            }
        }
    }
}
