//! The events of `afterwrite dev`: shown as they flow, or sent to a queue.

use std::time::Duration;

use afterwrite_local::eventbridge::{BusEvent, EmbeddedEventBridge};
use afterwrite_local::sdk::REGION;
use afterwrite_model::harmless::harmless;
use afterwrite_model::table::Model;
use afterwrite_services::config::{EnvironmentSettings, event_setting};
use clap::ValueEnum;
use serde_json::Value;

/// Where `dev` sends the model's events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum EventDisplay {
    /// To an EventBridge in this process: each event is a line on standard error.
    #[default]
    Show,
    /// To the queue `events` of the embedded SQS, from which an application receives them.
    Sqs,
}

impl EventDisplay {
    /// The queue that an application receives the events from, if there is one: `queue` is the name of the embedded queue of events.
    pub(super) fn queue(self, queue: &str) -> Option<&str> {
        match self {
            Self::Show => None,
            Self::Sqs => Some(queue),
        }
    }

    /// Sets the targets of all events that the model's rules have. `queue` is the name of the embedded queue of events.
    pub(super) fn configure(self, settings: &mut EnvironmentSettings, queue: &str, model: &Model) {
        let arn = match self {
            Self::Show => format!("arn:aws:events:{REGION}:000000000000:event-bus/dev"),
            Self::Sqs => format!("arn:aws:sqs:{REGION}:000000000000:{queue}"),
        };
        settings.events = None;
        settings.events_to.clear();
        for target in model.event_targets() {
            match &target {
                None => settings.events = Some(arn.clone()),
                Some(to) => _ = settings.events_to.insert(event_setting(Some(to)), arn.clone()),
            }
        }
    }
}

/// Prints each event that the embedded bus takes.
pub(super) async fn show_events(bus: &EmbeddedEventBridge) {
    loop {
        for event in bus.take_events() {
            eprintln!("afterwrite: event {}", shown(&event));
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

/// The name, the id and the item's key: no other values of the item, as in the lines of changes.
fn shown(event: &BusEvent) -> String {
    let envelope: Value = serde_json::from_str(&event.detail).unwrap_or_default();
    let id = envelope.get("id").and_then(Value::as_str).unwrap_or("(a whole change record)");
    let key: Vec<String> = envelope
        .get("key")
        .and_then(Value::as_object)
        .into_iter()
        .flat_map(|key| key.values())
        .map(|value| value.as_str().map_or_else(|| value.to_string(), str::to_owned))
        .collect();
    format!("{} {id} {}", harmless(&event.detail_type), harmless(&key.join(" "))).trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_the_name_the_id_and_the_key() {
        let event = |detail: &str| BusEvent {
            detail_type: "order_paid".to_owned(),
            detail: detail.to_owned(),
            ..BusEvent::default()
        };
        let envelope =
            r#"{"id":"0c1f","name":"order_paid","key":{"PK":"ORDER#1","n":7},"detail":{"secret":"x"}}"#;
        assert_eq!(shown(&event(envelope)), "order_paid 0c1f ORDER#1 7");
        assert_eq!(shown(&event(r#"{"eventID":"1"}"#)), "order_paid (a whole change record)");
    }
}
