//! The settings of events, and their targets: whether they exist, and keep order where their names promise it.

use super::*;

fn named(arn: &str, target: Looked<EventTargetFacts>) -> DeploymentFacts {
    let mut facts = healthy();
    facts.event_targets.insert(("AFTERWRITE_EVENTS".to_owned(), arn.to_owned()), target);
    facts
}

fn found(is_fifo: bool) -> Looked<EventTargetFacts> {
    Looked::Found(EventTargetFacts { is_fifo })
}

#[test]
fn each_fault_of_a_target_is_found() {
    let (bus, queue) = ("arn:aws:events:eu-west-1:1:event-bus/b", "arn:aws:sqs:eu-west-1:1:q.fifo");
    for (arn, target, expected) in [
        (bus, found(false), None),
        (queue, found(true), None),
        (bus, Looked::Missing, Some("event target of b")),
        (queue, found(false), Some("event target of q.fifo")),
        (queue, Looked::NotAllowed("sqs:GetQueueAttributes"), None),
    ] {
        assert_eq!(
            faults_of(&model(), &named(arn, target.clone())),
            Vec::from_iter(expected),
            "{arn}: {target:?}"
        );
    }
}

#[test]
fn a_missing_target_is_named_with_its_variable() {
    let findings = judge(&model(), &named("arn:aws:sns:eu-west-1:1:t", Looked::Missing));
    let finding = findings.iter().find(|finding| finding.check == "event target").unwrap();
    assert!(finding.advice.as_ref().unwrap().contains("AFTERWRITE_EVENTS names it"), "{finding:?}");
}

/// The finding about the setting of the events of a model, whose relay publishes them to one target, and which this process knows by another or none.
fn setting_found(relay: Option<&str>, own: Option<&str>) -> HealthFinding {
    let model = Model::load("leaderboard").unwrap();
    let mut facts = healthy();
    let named = |arn: &str| ("AFTERWRITE_EVENTS".to_owned(), arn.to_owned());
    let mut host = function("notify", &[]);
    host.environment.extend(relay.map(named));
    facts.functions.insert("boards-relay".to_owned(), Looked::Found(host));
    facts.own_event_settings.extend(own.map(named));
    let finding = judge(&model, &facts).into_iter().find(|finding| finding.check == "events").unwrap();
    assert_eq!(finding.subject, "AFTERWRITE_EVENTS");
    finding
}

#[test]
fn the_setting_of_events_is_compared_in_every_place_that_publishes() {
    let (one, other) = ("arn:aws:sqs:eu-west-1:1:one", "arn:aws:sqs:eu-west-1:1:other");
    for (relay, own, verdict, found) in [
        (Some(one), None, HealthVerdict::Healthy, "one in boards-relay"),
        (Some(one), Some(one), HealthVerdict::Healthy, "one in boards-relay, one in this environment"),
        (Some(one), Some(other), HealthVerdict::Change, "one in boards-relay, other in this environment"),
        (None, Some(one), HealthVerdict::Change, "nothing in boards-relay, one in this environment"),
    ] {
        let finding = setting_found(relay, own);
        assert_eq!((finding.verdict, finding.found.as_str()), (verdict, found));
    }
}

#[test]
fn events_that_no_place_names_are_not_checked_and_a_model_without_events_has_no_line() {
    let mut facts = healthy();
    let of_events = |model: &Model, facts: &DeploymentFacts| {
        judge(model, facts).into_iter().find(|finding| finding.check == "events")
    };
    assert!(of_events(&model(), &facts).is_none());
    let finding = of_events(&Model::load("leaderboard").unwrap(), &facts).unwrap();
    assert_eq!(finding.verdict, HealthVerdict::NotChecked);
    assert!(finding.advice.unwrap().contains("name their target in AFTERWRITE_EVENTS"));
    facts.own_event_settings.insert("AFTERWRITE_EVENTS".to_owned(), "arn:aws:sqs:eu-west-1:1:q".to_owned());
    let finding = of_events(&Model::load("leaderboard").unwrap(), &facts).unwrap();
    assert_eq!(finding.verdict, HealthVerdict::Healthy);
}
