//! Provisioned capacity of the state table, with auto scaling, if the parameters name its bounds.

use serde_json::{Map, Value, json};

use super::conditions::Condition;
use super::intrinsics::{reference, resource, substituted, when};

/// The fixed capacity of the sparse index of parked items.
const INDEX_UNITS: u32 = 5;
/// The use in percent that auto scaling aims at.
const TARGET_PERCENT: u32 = 70;
/// The dimensions that are scaled, by name.
const SCALED: [&str; 2] = ["Write", "Read"];

/// The capacity that the table is created with.
pub(super) fn of_table() -> Value {
    let units = json!({
        "WriteCapacityUnits": reference("StateWriteUnitsMin"), "ReadCapacityUnits": reference("StateReadUnitsMin"),
    });
    when(Condition::IsProvisioned, units)
}

/// The capacity of the index of parked items.
pub(super) fn of_index() -> Value {
    when(
        Condition::IsProvisioned,
        json!({ "WriteCapacityUnits": INDEX_UNITS, "ReadCapacityUnits": INDEX_UNITS }),
    )
}

/// The capacity of an index that ranks rollups. Its writes are a multiple of the table's, and a throttled index throttles the table: it has the
/// most that the table may have.
pub(super) fn of_rank() -> Value {
    let units = json!({
        "WriteCapacityUnits": reference("StateWriteUnitsMax"), "ReadCapacityUnits": reference("StateReadUnitsMax"),
    });
    when(Condition::IsProvisioned, units)
}

/// Auto scaling of writes and reads. Throttled writes are retried within a function's time, and its records are redelivered: nothing is lost.
pub(super) fn scaling() -> Map<String, Value> {
    SCALED.into_iter().flat_map(scaled).collect()
}

fn scaled(dimension: &'static str) -> [(String, Value); 2] {
    let target = format!("State{dimension}Target");
    let scalable = json!({
        "ServiceNamespace": "dynamodb",
        "ResourceId": substituted("table/${StateTable}"),
        "ScalableDimension": format!("dynamodb:table:{dimension}CapacityUnits"),
        "MinCapacity": reference(&format!("State{dimension}UnitsMin")),
        "MaxCapacity": reference(&format!("State{dimension}UnitsMax")),
    });
    let policy = json!({
        "PolicyName": substituted(format!("${{Name}}-state-{}", dimension.to_lowercase())),
        "PolicyType": "TargetTrackingScaling",
        "ScalingTargetId": reference(&target),
        "TargetTrackingScalingPolicyConfiguration": {
            "TargetValue": TARGET_PERCENT,
            "PredefinedMetricSpecification": {
                "PredefinedMetricType": format!("DynamoDB{dimension}CapacityUtilization"),
            },
        },
    });
    let resource = |kind: &str, properties| resource(kind, properties, Some(Condition::IsProvisioned));
    [
        (target, resource("AWS::ApplicationAutoScaling::ScalableTarget", scalable)),
        (format!("State{dimension}Policy"), resource("AWS::ApplicationAutoScaling::ScalingPolicy", policy)),
    ]
}
