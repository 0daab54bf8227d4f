//! Queries of the functions' logs, saved in CloudWatch Logs Insights. docs/RUNBOOK.md names them.

use serde_json::{Map, Value, json};

use super::functions::{TemplateFunction, log_group_id};
use super::intrinsics::{reference, substituted, when};
use super::{DeployedShape, logical};

/// The names and texts of the queries. A failed invocation has the `errorType` of Lambda's own line.
const QUERIES: [(&str, &str); 2] = [
    (
        "errors",
        r#"fields @timestamp, @log, level, errorType, @message | filter level in ["ERROR", "WARN"] or ispresent(errorType) | sort @timestamp desc | limit 200"#,
    ),
    (
        "runs",
        r#"filter type = "platform.report" | stats count() as runs, max(record.metrics.durationMs) as longest_ms, max(record.metrics.maxMemoryUsedMB) as memory_mb by @log, bin(5m)"#,
    ),
];

pub(super) fn resources(shape: &DeployedShape<'_>) -> Map<String, Value> {
    let log_group = |function: TemplateFunction| {
        let name = reference(&log_group_id(function.name));
        function.condition.map_or(name.clone(), |condition| when(condition, name))
    };
    let log_groups: Vec<Value> = shape.deployed().into_iter().map(log_group).collect();
    let query = |(name, text): (&str, &str)| {
        let properties = json!({
            "Name": substituted(format!("${{Name}}/{name}")), "LogGroupNames": log_groups, "QueryString": text,
        });
        let resource = json!({ "Type": "AWS::Logs::QueryDefinition", "Properties": properties });
        (format!("LogQuery{}", logical(name)), resource)
    };
    QUERIES.into_iter().map(query).collect()
}
