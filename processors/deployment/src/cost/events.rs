//! The price of events.

use super::deployed::DeploymentPart;
use super::line::{CostLine, line};
use super::month::MonthTotals;

/// The events, as an EventBridge bus bills them; `None` for a model without events.
pub(super) fn event_line(month: &MonthTotals<'_>, event_dollars: f64) -> Option<CostLine> {
    let is_deployed = month.settings.module.has(DeploymentPart::Events);
    is_deployed.then(|| line("events", "events", month.monthly(month.trial.events), event_dollars))
}

/// The assumption behind their price.
pub(super) fn assumption(month: &MonthTotals<'_>) -> Option<String> {
    let assumption = "Events are priced for an EventBridge bus, up to 64 KB each. A million requests cost $0.40 for a queue and $0.50 for a topic; a request has up to ten events.";
    month.settings.module.has(DeploymentPart::Events).then(|| assumption.to_owned())
}
