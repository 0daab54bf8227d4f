//! The settings of the model's events, and the buses, queues and topics that they name.

use std::collections::BTreeSet;

use afterwrite_model::table::Model;
use afterwrite_services::config::{ProjectionKind, event_setting};

use super::delivery::projections;
use super::facts::{DeploymentFacts, EventTargetFacts};
use super::{HealthFinding, on_part};

pub(super) fn judge_events(model: &Model, facts: &DeploymentFacts) -> Vec<HealthFinding> {
    let targets = model.event_targets();
    let mut findings: Vec<HealthFinding> =
        targets.iter().map(|to| judge_setting(&event_setting(to.as_deref()), facts)).collect();
    for ((setting, arn), target) in &facts.event_targets {
        let advice = format!(
            "{setting} names it: create it, or set the right ARN. Its events wait in the queue or hold up the streams until then"
        );
        let name = short_name(arn);
        on_part(&mut findings, "event target", name, target, &advice, |target, findings| {
            findings.push(judge_target(name, target));
        });
    }
    findings
}

/// The variable of a target: every function that publishes events has it, with one value, and so has this process, if it has one: `replay` and `redrive` publish
/// there.
fn judge_setting(setting: &str, facts: &DeploymentFacts) -> HealthFinding {
    let functions = facts.functions.iter().filter_map(|(name, function)| Some((name, function.found()?)));
    let hosts = functions.filter(|(name, it)| projections(name, it).contains(&ProjectionKind::Notify));
    let of_functions = hosts.map(|(name, function)| (name.as_str(), function.environment.get(setting)));
    let of_functions: Vec<(&str, Option<&String>)> = of_functions.collect();
    let own = facts.own_event_settings.get(setting);
    if of_functions.is_empty() && own.is_none() {
        let advice = format!("the model has events: name their target in {setting}");
        return HealthFinding::unchecked("events", setting, advice);
    }
    let found: Vec<String> = of_functions
        .iter()
        .copied()
        .chain(own.map(|own| ("this environment", Some(own))))
        .map(|(place, arn)| format!("{} in {place}", arn.map_or("nothing", |arn| short_name(arn))))
        .collect();
    let values: BTreeSet<Option<&String>> =
        of_functions.iter().map(|(_, arn)| *arn).chain(own.map(Some)).collect();
    let advice = if of_functions.iter().any(|(_, arn)| arn.is_none()) {
        "A function that hosts `notify` does not start without it: set it to the ARN of a bus, queue or topic"
    } else {
        "Events that are published again go to another target than new ones: set it to one ARN, in the functions and here"
    };
    let is_set_once = values.len() == 1 && !values.contains(&None);
    HealthFinding::new("events", setting, is_set_once, found.join(", "), advice)
}

/// The last part of an ARN.
fn short_name(arn: &str) -> &str {
    arn.rsplit([':', '/']).next().unwrap_or(arn)
}

/// A target keeps the order of an item's events if its name promises it.
fn judge_target(name: &str, target: &EventTargetFacts) -> HealthFinding {
    let promises_order = name.ends_with(".fifo");
    let found = if target.is_fifo { "exists, keeps order" } else { "exists, in any order" };
    let advice =
        "The name ends in `.fifo`, and the target keeps no order: create it as a FIFO queue or topic";
    HealthFinding::new("event target", name, !promises_order || target.is_fifo, found, advice)
}
