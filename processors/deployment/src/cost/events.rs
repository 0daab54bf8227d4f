//! The prices of events, by the service that takes them.

use std::borrow::Cow;

use super::deployed::DeploymentPart;
use super::event_usage::{EventTargetKind, EventUsage};
use super::line::{CostLine, line};
use super::month::MonthTotals;
use super::prices::PriceList;

const MILLION: f64 = 1e6;
const GIGABYTE: f64 = 1e9;

/// The unit that a target's service bills, and the price of one.
fn unit_price(kind: EventTargetKind, prices: &PriceList) -> (&'static str, f64) {
    let (unit, million) = match kind {
        EventTargetKind::Bus => ("events", prices.million_events),
        EventTargetKind::Queue => ("requests", prices.million_queue_requests),
        EventTargetKind::FifoQueue => ("requests", prices.million_fifo_queue_requests),
        EventTargetKind::Topic => ("requests", prices.million_topic_requests),
        EventTargetKind::FifoTopic => ("messages", prices.million_fifo_topic_messages),
    };
    (unit, million / MILLION)
}

/// The price of a gigabyte, of a service that bills bytes.
const fn gigabyte_price(kind: EventTargetKind, prices: &PriceList) -> Option<f64> {
    match kind {
        EventTargetKind::Bus
        | EventTargetKind::Queue
        | EventTargetKind::FifoQueue
        | EventTargetKind::Topic => None,
        EventTargetKind::FifoTopic => Some(prices.fifo_topic_gigabyte),
    }
}

/// The lines of each target that the model's event rules name.
pub(super) fn lines(month: &MonthTotals<'_>, prices: &PriceList) -> Vec<CostLine> {
    let of_target = |(name, usage): (&Option<_>, &EventUsage)| {
        let name =
            name.as_deref().map_or(Cow::Borrowed("default target"), |to: &str| format!("`{to}`").into());
        let part = format!("events: {name}, {}", usage.kind);
        let (unit, price) = unit_price(usage.kind, prices);
        let bytes = gigabyte_price(usage.kind, prices).map(|price| {
            line(format!("{part}, payload"), "GB", month.monthly(usage.bytes) / GIGABYTE, price)
        });
        let billed = line(part, unit, month.monthly(usage.billed), price);
        std::iter::once(billed).chain(bytes)
    };
    month.trial.events.iter().flat_map(of_target).collect()
}

/// The assumption behind their price.
pub(super) fn assumption(month: &MonthTotals<'_>) -> Option<String> {
    let assumption = "Events are priced as published once, and their target is never busy: an event that waits for a busy target costs three requests of a queue more, and the function `invalidator` publishes it. A request has at most ten. EventBridge bills each event, SQS and SNS each request, in steps of 64 KB; a FIFO topic bills each message, and bytes. The requests of consumers, the deliveries of a topic and the targets of a bus's rules are not included.";
    month.settings.module.has(DeploymentPart::Events).then(|| assumption.to_owned())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use afterwrite_model::table::Model;

    use super::super::deployed::{DeployedModule, StreamReaders};
    use super::super::month::CostSettings;
    use super::super::trial::TrialTotals;
    use super::*;

    /// The lines of a trial of one second, as part, unit, quantity a second and dollars a million seconds.
    fn priced(kind: EventTargetKind) -> Vec<(String, &'static str, f64, f64)> {
        let source = include_str!("../../../../infra/tests/events.toml");
        let model = Model::parse(source, "events.toml").unwrap();
        let usage = EventUsage { kind, events: 25, requests: 3, billed: 4, bytes: 2_000 };
        let events = BTreeMap::from([(Some("billing".into()), usage)]);
        let trial = TrialTotals { seconds: 1.0, events, ..TrialTotals::default() };
        let module = DeployedModule::new(&model, [], StreamReaders::Separate);
        let settings = CostSettings { module, queries_a_day: 0.0, month: 1.0 };
        let month = MonthTotals::new(&trial, &settings);
        assert!(assumption(&month).is_some());
        let lines = lines(&month, &PriceList::built_in().unwrap()).into_iter();
        let rounded = |number: f64| (number * 1e9).round() / 1e9;
        let of_line = |line: CostLine| {
            let seconds = super::super::figures::MONTH_SECONDS;
            let dollars = line.dollars / seconds * MILLION;
            (line.part.into_owned(), line.unit, rounded(line.quantity / seconds), rounded(dollars))
        };
        lines.map(of_line).collect()
    }

    #[test]
    fn each_target_is_priced_as_its_service_bills() {
        let part = |kind: &str| format!("events: `billing`, {kind}");
        for (kind, expected) in [
            (EventTargetKind::Bus, (part("EventBridge bus"), "events", 4.0, 4.0)),
            (EventTargetKind::Queue, (part("SQS queue"), "requests", 4.0, 1.6)),
            (EventTargetKind::FifoQueue, (part("SQS FIFO queue"), "requests", 4.0, 2.0)),
            (EventTargetKind::Topic, (part("SNS topic"), "requests", 4.0, 2.0)),
        ] {
            assert_eq!(priced(kind), [expected]);
        }
        let payload = (part("SNS FIFO topic, payload"), "GB", 2e-6, 0.034);
        let messages = (part("SNS FIFO topic"), "messages", 4.0, 1.2);
        assert_eq!(priced(EventTargetKind::FifoTopic), [messages, payload]);
    }
}
