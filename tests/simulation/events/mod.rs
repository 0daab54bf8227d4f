//! The events that the relay publishes: their targets, the queue of events whose target was busy, and a recount of the transitions that must be events.
//!
//! ```text
//! relay ─┬─▶ FIFO target                                  requests fail, are taken in part, lose their response or arrive late
//!        └─▶ standard target ─ busy ─▶ queue ─▶ invalidator ─▶ standard target
//! ```

pub(crate) mod damage;
mod order;
pub(crate) mod queue;
pub(crate) mod state;
pub(crate) mod targets;
mod transitions;

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use self::state::{EventTargetKind, TakenEvent};
use self::transitions::{ExpectedTransition, TransitionKey, transitions};
use super::coverage::FaultCoverage;
use super::stream::StreamSet;

/// Compares the events that the targets took with the transitions of all records.
pub(crate) fn check_events(
    streams: &StreamSet,
    taken: &[TakenEvent],
    coverage: &mut FaultCoverage,
) -> Vec<String> {
    let expected: BTreeMap<TransitionKey, ExpectedTransition> =
        streams.records.iter().flat_map(transitions).collect();
    expected.values().for_each(|transition| coverage.record(transition.coverage()));
    let mut problems = Vec::new();
    let mut ids: BTreeMap<TransitionKey, BTreeSet<&str>> = BTreeMap::new();
    for event in taken {
        match told_transition(event, &expected) {
            Ok(transition) => drop(ids.entry(transition).or_default().insert(&event.id)),
            Err(problem) => problems.push(problem),
        }
    }
    for key in expected.keys().filter(|key| !ids.contains_key(key)) {
        problems.push(format!("no event tells of {key}"));
    }
    for (key, of_transition) in ids.iter().filter(|(_, ids)| ids.len() > 1) {
        problems.push(format!("{key} has the ids {of_transition:?}"));
    }
    let distinct: BTreeSet<&&str> = ids.values().flatten().collect();
    if distinct.len() < ids.len() {
        problems.push("two transitions have one id".to_owned());
    }
    let of_fifo = taken.iter().filter(|event| event.target == EventTargetKind::Fifo);
    problems.extend(order::check_order(of_fifo));
    problems
}

/// The transition that an event tells of, if the event is as the recount has it.
fn told_transition(
    event: &TakenEvent,
    expected: &BTreeMap<TransitionKey, ExpectedTransition>,
) -> Result<TransitionKey, String> {
    let body: Value = serde_json::from_str(&event.body).map_err(|error| error.to_string())?;
    let key = TransitionKey::of_message(&body);
    let Some(transition) = expected.get(&key) else {
        return Err(format!("an event tells of a transition that never happened: {}", event.body));
    };
    let wanted = transition.message(&key, &body["id"]);
    if transition.target() != event.target || body != wanted {
        return Err(format!("an event at {:?} is {body}, not {wanted}", event.target));
    }
    Ok(key)
}
