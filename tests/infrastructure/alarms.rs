//! Every alarm of an applied state fires in the run whose fault it is for, and in no healthy run; every metric that it looks at was emitted.

use std::collections::BTreeSet;

use super::alarm_rules::{AlarmRule, shown_metrics};
use super::applied::AppliedState;
use super::faults::{ProvokedFaults, fault_of};
use super::metrics_store::{MetricName, MetricStore};
use super::read;

/// Words of the runbook in the form of a metric that are something else, or that AWS counts for resources that are not emulated.
const OTHER_WORDS: [&str; 6] = [
    "ConcurrentExecutions",
    "ConfigurationError",
    "RecordAgeExceeded",
    "RetryAttemptsExhausted",
    "StreamError",
    "ThrottledRequests",
];

/// Fails with all alarms that stay silent in their fault, or fire without one.
pub(crate) fn assert_provoked(state: &AppliedState, healthy: &MetricStore, faults: &ProvokedFaults) {
    let mut problems = Vec::new();
    for rule in AlarmRule::all(state) {
        let fault = fault_of(&rule.kind);
        let run = faults
            .get(fault)
            .unwrap_or_else(|| panic!("{}: the fault `{fault}` was not injected", rule.name));
        if !rule.fires(&[run]) {
            problems.push(format!("{} is silent although {fault}: {}", rule.name, rule.value(run)));
        }
        if rule.fires(&[healthy]) {
            problems.push(format!("{} fires in a healthy run: {}", rule.name, rule.value(healthy)));
        }
        if rule.waits() && rule.fires(&[healthy, run]) {
            problems.push(format!("{} fires after one period of several", rule.name));
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
    assert_emitted(state, healthy, faults);
}

/// Each metric of an alarm or of the dashboard, with its dimensions, was emitted by a run; and each that the runbook names.
fn assert_emitted(state: &AppliedState, healthy: &MetricStore, faults: &ProvokedFaults) {
    let runs = std::iter::once(healthy).chain(faults.values());
    let emitted: BTreeSet<&MetricName> = runs.flat_map(MetricStore::names).collect();
    let rules = AlarmRule::all(state);
    let shown = shown_metrics(state);
    assert!(shown.len() > 40, "the dashboard shows {} metrics", shown.len());
    let named: BTreeSet<&MetricName> = rules.iter().flat_map(AlarmRule::metrics).chain(&shown).collect();
    let missing: Vec<_> = named.difference(&emitted).collect();
    assert!(missing.is_empty(), "no run emitted {missing:#?}");

    let names: BTreeSet<&str> = emitted.iter().map(|metric| metric.name.as_str()).collect();
    let runbook = read("docs/RUNBOOK.md");
    // Every second piece is between two backticks.
    let spans = runbook.split('`').skip(1).step_by(2).filter(|span| is_like_a_metric(span));
    let unknown: BTreeSet<&str> =
        spans.filter(|span| !names.contains(span) && !OTHER_WORDS.contains(span)).collect();
    // Only a deployment with CloudFront has these.
    let has_cdn = state.functions().contains_key("invalidator");
    let of_cdn = |span: &&&str| !has_cdn && span.starts_with("Paths");
    let unknown: Vec<_> = unknown.iter().filter(|span| !of_cdn(span)).collect();
    assert!(unknown.is_empty(), "the runbook names {unknown:?}, which no run emitted");
}

/// `UndecidedTargets`: words that begin with capital letters, without anything between them.
fn is_like_a_metric(span: &str) -> bool {
    let has_two_words = span.chars().skip(1).any(|letter| letter.is_ascii_uppercase());
    let is_word = span.chars().all(|letter| letter.is_ascii_alphabetic())
        && span.chars().any(|letter| letter.is_ascii_lowercase());
    has_two_words && is_word && span.starts_with(|letter: char| letter.is_ascii_uppercase())
}
