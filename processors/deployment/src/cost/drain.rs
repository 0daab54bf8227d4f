//! The queue of stale paths, and of events whose target is busy; the function `invalidator` drains it.

use super::deployed::DeploymentPart;
use super::figures as f;
use super::line::{CostLine, line};
use super::month::MonthTotals;
use super::prices::PriceList;

/// The requests of the queue, if the deployment has it.
pub(super) fn line_of(month: &MonthTotals<'_>, prices: &PriceList) -> Option<CostLine> {
    let module = &month.settings.module;
    let part = match (module.has(DeploymentPart::Distribution), module.has(DeploymentPart::Events)) {
        (true, true) => "SQS: paths and waiting events",
        (true, false) => "SQS: paths",
        (false, true) => "SQS: waiting events",
        (false, false) => return None,
    };
    let requests = requests(month.drained_messages());
    Some(line(part, "requests", requests, prices.million_queue_requests / 1e6))
}

/// The requests of a queue: for its messages, and polls.
pub(super) fn requests(messages: f64) -> f64 {
    messages * f::QUEUE_REQUESTS_A_MESSAGE + f::QUEUE_POLLS_A_SECOND * f::MONTH_SECONDS
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use afterwrite_model::table::Model;

    use super::super::deployed::{DeployedModule, StreamReaders};
    use super::super::event_usage::{EventTargetKind, EventUsage};
    use super::super::month::CostSettings;
    use super::super::trial::TrialTotals;
    use super::*;

    /// A month whose trial has these events in its one second.
    fn month_of<T>(events: u64, parts: &[DeploymentPart], price: impl FnOnce(&MonthTotals<'_>) -> T) -> T {
        let source = include_str!("../../../../infra/tests/events.toml");
        let model = Model::parse(source, "events.toml").unwrap();
        let usage = EventUsage { kind: EventTargetKind::Bus, events, ..EventUsage::default() };
        let events = BTreeMap::from([(None, usage)]);
        let trial = TrialTotals { seconds: 1.0, records: 100, batches: 1, events, ..TrialTotals::default() };
        let module = DeployedModule::new(&model, parts.iter().copied(), StreamReaders::Separate);
        price(&MonthTotals::new(&trial, &CostSettings { module, queries_a_day: 0.0, month: 1.0 }))
    }

    #[test]
    fn a_queue_of_waiting_events_alone_is_polled_and_has_no_messages() {
        let prices = PriceList::built_in().unwrap();
        let priced = |parts: &[DeploymentPart]| {
            let line = month_of(1_000, parts, |month| line_of(month, &prices)).unwrap();
            (line.part, line.quantity)
        };
        let polls = f::QUEUE_POLLS_A_SECOND * f::MONTH_SECONDS;
        assert_eq!(priced(&[]), ("SQS: waiting events".into(), polls));
        let of_paths = f::QUEUE_REQUESTS_A_MESSAGE * f::MONTH_SECONDS;
        let both = priced(&[DeploymentPart::Distribution]);
        assert_eq!(both, ("SQS: paths and waiting events".into(), polls + of_paths));
    }

    #[test]
    fn the_function_that_publishes_events_is_billed_for_their_time() {
        let seconds = |events| {
            let uses = month_of(events, &[], |month| month.function_uses());
            uses.iter().map(|each| each.gigabyte_seconds).sum::<f64>()
        };
        let of_events = 1_000.0 * f::EVENT_SECONDS * f::STREAM_FUNCTION_MEMORY * f::MONTH_SECONDS;
        let difference = seconds(1_000) - seconds(0);
        assert!((difference / of_events - 1.0).abs() < 1e-9, "{difference}, expected {of_events}");
    }
}
