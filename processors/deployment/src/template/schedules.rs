//! The schedules of the compactor, the heartbeat and the verifier.

use afterwrite_functions::HEARTBEAT_REQUEST;
use serde_json::{Map, Value, json};

use super::alias;
use super::intrinsics::{attribute, key_if_given, resource, substituted};
use super::{DeployedShape, logical};

/// When a function is invoked, and with which payload.
pub(super) struct FunctionSchedule {
    name: &'static str,
    pub(super) function: &'static str,
    expression: &'static str,
    payload: &'static str,
}

pub(super) fn schedules(shape: &DeployedShape<'_>) -> Vec<FunctionSchedule> {
    let mut schedules = Vec::new();
    if shape.has_datasets() {
        schedules.push(FunctionSchedule {
            name: "compaction",
            function: "compactor",
            expression: "rate(1 hour)",
            payload: "{}",
        });
    }
    if shape.has_aggregate() {
        schedules.push(FunctionSchedule {
            name: "heartbeat",
            function: "aggregator",
            expression: "rate(1 minute)",
            payload: HEARTBEAT_REQUEST,
        });
        schedules.push(FunctionSchedule {
            name: "verification",
            function: "verifier",
            expression: "rate(1 day)",
            payload: r#"{"verify":{"sample":0.01}}"#,
        });
    }
    schedules
}

pub(super) fn resources(shape: &DeployedShape<'_>) -> Map<String, Value> {
    let schedules = schedules(shape);
    schedules.iter().map(|schedule| (schedule.id(), schedule.resource())).collect()
}

impl FunctionSchedule {
    fn id(&self) -> String {
        format!("{}Schedule", logical(self.name))
    }

    fn resource(&self) -> Value {
        let properties = json!({
            "Name": substituted(format!("${{Name}}-{}", self.name)),
            "Description": format!("Invokes {}", self.function),
            "ScheduleExpression": self.expression,
            "FlexibleTimeWindow": { "Mode": "OFF" },
            "KmsKeyArn": key_if_given(),
            "Target": {
                "Arn": alias(self.function),
                "RoleArn": attribute("SchedulerRole", "Arn"),
                "Input": self.payload,
                "RetryPolicy": { "MaximumEventAgeInSeconds": 300, "MaximumRetryAttempts": 3 },
                "DeadLetterConfig": { "Arn": attribute("ScheduleDeadLetters", "Arn") },
            },
        });
        resource("AWS::Scheduler::Schedule", properties, None)
    }
}
