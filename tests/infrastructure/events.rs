//! A deployment whose model has events: they reach the queue of the applied state, and the alarm `events-failed` fires if they do not.

use afterwrite_tests::call_recorder::CallFault;
use serde_json::{Value, json};

use super::alarm_rules::AlarmRule;
use super::applied::{AppliedState, resource_name, text};
use super::usage::UsedDeployment;
use super::{alarms, permissions, read};

const FAULT: &str = "the queue of events is unavailable";

/// Sends an event, then fails to send one, and judges the alarm and the permissions.
pub(crate) async fn use_and_judge(state: &AppliedState) {
    let mut used = UsedDeployment::start(state, None).await;
    let rule = read("tests/infrastructure/events.toml");
    used.cloud.extend_model(&rule);
    let target = state.variable("relay", "AFTERWRITE_EVENTS").expect("a target of events");
    let queue = resource_name(&target);

    used.begin("events are taken", None);
    complete(&used, "first").await;
    let healthy = used.end().await;
    let taken = used.cloud.sqs.receive(&queue, 10).await;
    let events: Vec<Value> =
        taken.iter().map(|message| serde_json::from_str(&message.body).expect("an envelope")).collect();
    assert_eq!(events.len(), 1, "{events:?}");
    assert_eq!(text(&events[0]["name"]), "attempt_completed");
    assert_eq!(events[0]["detail"]["attempt_id"], json!("first"));

    used.begin(FAULT, None);
    used.fail("relay", "sqs:SendMessage", &queue, CallFault::Unavailable);
    complete(&used, "second").await;
    let failed = used.end().await;

    let rules = AlarmRule::all(state).into_iter();
    let rules: Vec<AlarmRule> = rules.filter(|rule| rule.kind == "events-failed").collect();
    let [rule] = &rules[..] else { panic!("{} alarms are for events that failed", rules.len()) };
    let mut problems = alarms::problems_of(rule, &healthy, (FAULT, &failed));
    if rule.fires(&[&healthy]) || !rule.is_measured(&healthy) {
        problems.push(format!("{} without a fault: {}", rule.name, rule.value(&healthy)));
    }
    let calls = used.cloud.recorder.calls();
    assert!(calls.iter().any(|call| call.principal == "relay" && call.resource == target), "{calls:?}");
    problems.extend(permissions::refusals(state, &calls));
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

/// Completes an attempt, and passes the change to `relay`.
async fn complete(used: &UsedDeployment<'_>, attempt: &str) {
    let sort = format!("ATTEMPT#{attempt}");
    let item = [("PK", "CANDIDATE#c1"), ("SK", &*sort), ("attempt_id", attempt), ("status", "COMPLETED")];
    used.invoke_with("relay", &item).await;
}
