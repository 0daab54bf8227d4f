//! The targets of events: whether they exist, and keep order where their names promise it.

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
    assert!(finding.advice.as_ref().unwrap().contains("AFTERWRITE_EVENTS of a function"), "{finding:?}");
}
