//! The buses, queues and topics that functions name as targets of events.

use super::facts::{DeploymentFacts, EventTargetFacts};
use super::{HealthFinding, on_part};

pub(super) fn judge_event_targets(facts: &DeploymentFacts) -> Vec<HealthFinding> {
    let mut findings = Vec::new();
    for ((setting, arn), target) in &facts.event_targets {
        let advice = format!(
            "{setting} of a function names it: create it, or set the right ARN. Its events wait in the queue or hold up the streams until then"
        );
        let name = arn.rsplit([':', '/']).next().unwrap_or(arn);
        on_part(&mut findings, "event target", name, target, &advice, |target, findings| {
            findings.push(judge_target(name, target));
        });
    }
    findings
}

/// A target keeps the order of an item's events if its name promises it.
fn judge_target(name: &str, target: &EventTargetFacts) -> HealthFinding {
    let promises_order = name.ends_with(".fifo");
    let found = if target.is_fifo { "exists, keeps order" } else { "exists, in any order" };
    let advice =
        "The name ends in `.fifo`, and the target keeps no order: create it as a FIFO queue or topic";
    HealthFinding::new("event target", name, !promises_order || target.is_fifo, found, advice)
}
