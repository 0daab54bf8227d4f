//! Every alarm of an applied state fires in the run whose fault it is for, and in no healthy run; every metric that it looks at was emitted.

use std::collections::BTreeSet;

use super::alarm_rules::{AlarmRule, shown_metrics};
use super::applied::AppliedState;
use super::faults::{NOTHING_REPORTS, ProvokedFaults, faults_of};
use super::metrics_store::{MetricName, MetricStore};
use super::read;

/// Words of the runbook in the form of a metric that are something else.
const OTHER_WORDS: [&str; 4] =
    ["ConfigurationError", "RecordAgeExceeded", "RetryAttemptsExhausted", "StreamError"];

/// The alarms that stay silent in their fault, or fire without one, and the metrics that no run emitted.
pub(crate) fn problems(state: &AppliedState, healthy: &MetricStore, faults: &ProvokedFaults) -> Vec<String> {
    let mut problems = Vec::new();
    for rule in AlarmRule::all(state) {
        if rule.fires(&[healthy]) {
            problems.push(format!("{} fires in a healthy run: {}", rule.name, rule.value(healthy)));
        }
        for fault in faults_of(&rule.kind) {
            let run = faults
                .get(fault)
                .unwrap_or_else(|| panic!("{}: the fault `{fault}` was not injected", rule.name));
            problems.extend(problems_of(&rule, healthy, (fault, run)));
        }
    }
    problems.extend(unknown_metrics(state, healthy, faults));
    problems
}

/// The mistakes of an alarm in a fault that it is for.
pub(crate) fn problems_of(
    rule: &AlarmRule,
    healthy: &MetricStore,
    (fault, run): (&str, &MetricStore),
) -> Vec<String> {
    let mut problems = Vec::new();
    if !rule.fires(&[run]) {
        problems.push(format!("{} is silent although {fault}: {}", rule.name, rule.value(run)));
    }
    // An alarm on missing data must not stand for the alarm on a value.
    if fault != NOTHING_REPORTS && !rule.is_measured(run) {
        problems.push(format!("{}: there is no value although {fault}", rule.name));
    }
    if rule.waits() && rule.fires(&[healthy, run]) {
        problems.push(format!("{} fires after one period of several", rule.name));
    }
    problems
}

/// The metrics of alarms and of the dashboard, with their dimensions, that no run emitted; and those that the runbook names.
fn unknown_metrics(state: &AppliedState, healthy: &MetricStore, faults: &ProvokedFaults) -> Vec<String> {
    let runs = std::iter::once(healthy).chain(faults.values());
    let emitted: BTreeSet<&MetricName> = runs.flat_map(MetricStore::names).collect();
    let rules = AlarmRule::all(state);
    let shown = shown_metrics(state);
    assert!(shown.len() > 40, "the dashboard shows {} metrics", shown.len());
    let named: BTreeSet<&MetricName> = rules.iter().flat_map(AlarmRule::metrics).chain(&shown).collect();
    let missing = named.difference(&emitted).map(|metric| format!("no run emitted {metric:?}"));

    let names: BTreeSet<&str> = emitted.iter().map(|metric| metric.name.as_str()).collect();
    let runbook = read("docs/RUNBOOK.md");
    // Every second piece is between two backticks.
    let spans = runbook.split('`').skip(1).step_by(2).filter(|span| is_like_a_metric(span));
    // Only a deployment with CloudFront invalidates paths.
    let has_cdn = state.functions().contains_key("invalidator");
    let is_expected = |span: &&str| !OTHER_WORDS.contains(span) && (has_cdn || !span.starts_with("Paths"));
    let unknown: BTreeSet<&str> = spans.filter(|span| is_expected(span) && !names.contains(span)).collect();
    let unknown = unknown.into_iter().map(|span| format!("the runbook names {span}, which no run emitted"));
    missing.chain(unknown).collect()
}

/// `UndecidedTargets` or `Errors`: words that begin with capital letters, without anything between them.
fn is_like_a_metric(span: &str) -> bool {
    let is_word = span.chars().all(|letter| letter.is_ascii_alphabetic())
        && span.chars().any(|letter| letter.is_ascii_lowercase());
    is_word && span.starts_with(|letter: char| letter.is_ascii_uppercase())
}

#[test]
fn metrics_of_one_word_are_recognized_and_placeholders_are_not() {
    assert!(["Errors", "UndecidedTargets"].into_iter().all(is_like_a_metric));
    assert!(
        !["NAME", "relay", "afterwrite redrive", "stream_mapping", "S3"].into_iter().any(is_like_a_metric)
    );
}
