//! The targets of the model's events, which are parameters: consumers own them.

use serde_json::{Value, json};

use super::conditions::Condition;
use super::intrinsics::when;
use super::{DeployedShape, logical};

const PATTERN: &str =
    "^arn:[a-z-]+:(events:[a-z0-9-]+:[0-9]{12}:event-bus/.+|s[qn]s:[a-z0-9-]+:[0-9]{12}:[^:]+)$";

/// A target that event rules name.
pub(super) struct EventTargetParameter {
    /// The parameter that holds its ARN.
    pub(super) parameter: String,
    /// The variable of the functions.
    pub(super) setting: String,
    description: String,
}

/// The targets that the model's rules name; none for a model without events.
pub(super) fn targets(shape: &DeployedShape<'_>) -> Vec<EventTargetParameter> {
    let target = |to: Option<std::sync::Arc<str>>| {
        let rules = to
            .as_ref()
            .map_or_else(|| "rules without `to`".to_owned(), |to| format!("rules with to = \"{to}\""));
        EventTargetParameter {
            parameter: format!("EventsArn{}", to.as_deref().map(logical).unwrap_or_default()),
            setting: afterwrite_services::config::event_setting(to.as_deref()),
            description: format!(
                "The EventBridge bus, SQS queue or SNS topic that takes the events of {rules}"
            ),
        }
    };
    shape.model.event_targets().into_iter().map(target).collect()
}

impl EventTargetParameter {
    /// The parameter. A model with events needs all of its targets.
    pub(super) fn value(&self) -> Value {
        json!({ "Type": "String", "AllowedPattern": PATTERN, "Description": self.description })
    }
}

/// The condition under which the queue of stale paths and its function exist. With events they always do: the queue also takes events whose
/// target is busy.
pub(super) fn drain_condition(shape: &DeployedShape<'_>) -> Option<Condition> {
    shape.model.events.is_empty().then_some(Condition::HasDistribution)
}

/// A value that is absent without the queue.
pub(super) fn when_drained(shape: &DeployedShape<'_>, value: Value) -> Value {
    match drain_condition(shape) {
        Some(condition) => when(condition, value),
        None => value,
    }
}

#[cfg(test)]
mod tests {
    use afterwrite_model::table::Model;
    use afterwrite_services::events::EventService;

    use crate::cost::Observability;

    use super::*;

    fn template(source: &str, is_single: bool) -> Value {
        let model = Model::parse(source, "events.toml").unwrap();
        let observability = Observability::Full;
        DeployedShape { model: &model, code: "dist", is_single, nested: 0, observability }.template()
    }

    #[test]
    fn both_functions_know_the_targets_and_may_publish_to_them() {
        let template = template(include_str!("../../../../infra/tests/events.toml"), false);
        for parameter in ["EventsArn", "EventsArnBilling"] {
            assert!(template["Parameters"][parameter].get("Default").is_none(), "{parameter} is required");
        }
        for function in ["Relay", "Invalidator"] {
            let resource = |kind: &str| &template["Resources"][format!("{function}{kind}")];
            let variables = &resource("Function")["Properties"]["Environment"]["Variables"];
            assert_eq!(variables["AFTERWRITE_EVENTS"], json!({ "Ref": "EventsArn" }));
            assert_eq!(variables["AFTERWRITE_EVENTS_BILLING"], json!({ "Ref": "EventsArnBilling" }));
            let policy = &resource("Role")["Properties"]["Policies"][0]["PolicyDocument"]["Statement"];
            let mut statements = policy.as_array().unwrap().iter();
            let events = statements.find(|statement| statement["Sid"] == "Events").unwrap();
            assert_eq!(events["Resource"], json!([{ "Ref": "EventsArn" }, { "Ref": "EventsArnBilling" }]));
        }
        for resource in
            ["CdnQueue", "CdnDeadLetters", "CdnMapping", "InvalidatorFunction", "EventsFailedAlarm"]
        {
            let resource = &template["Resources"][resource];
            assert!(resource.is_object() && resource.get("Condition").is_none(), "{resource}");
        }
        let projections = &template["Resources"]["RelayFunction"]["Properties"]["Environment"]["Variables"]["AFTERWRITE_PROJECTIONS"];
        assert!(projections.to_string().contains("archive,notify"), "{projections}");
    }

    #[test]
    fn the_module_accepts_the_same_targets_and_may_publish_to_them() {
        let module = include_str!("../../../../infra/events.tf");
        assert_eq!(module.matches(PATTERN).count(), 2, "the patterns of both variables");
        for permission in EventService::ALL.map(EventService::permission) {
            assert!(module.contains(&format!("\"{permission}\"")), "{permission}");
        }
    }

    #[test]
    fn a_model_without_events_has_the_queue_only_with_a_distribution() {
        let template = template(include_str!("../../../../infra/tests/levels.toml"), true);
        assert_eq!(template["Resources"]["CdnQueue"]["Condition"], "HasDistribution");
        assert!(template["Parameters"].get("EventsArn").is_none());
        assert!(template["Resources"].get("EventsFailedAlarm").is_none());
    }
}
