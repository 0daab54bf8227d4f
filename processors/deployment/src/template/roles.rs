//! A role for each function, the roles of the delivery stream and of the schedules, and the policy of those who redrive.

use serde_json::{Map, Value, json};

use super::conditions::Condition;
use super::encryption::{self, KeyUser};
use super::functions::TemplateFunction;
use super::intrinsics::{attribute, reference, resource, substituted, when};
use super::permissions::{self, allow};
use super::schedules::{self, FunctionSchedule};
use super::{DeployedShape, alias, role_id};

pub(super) fn resources(shape: &DeployedShape<'_>) -> Map<String, Value> {
    let mut resources = Map::new();
    for function in shape.deployed() {
        resources.insert(role_id(function.name), function_role(shape, &function));
    }
    resources.insert("RedrivePolicy".to_owned(), redrive_policy(shape));
    // Firehose encrypts the objects that it writes.
    let mut delivering = permissions::delivery_statements();
    delivering.push(encryption::of_service(["s3"]));
    let delivery = service_role("firehose.amazonaws.com", "firehose", delivering);
    resources.insert("DeliveryRole".to_owned(), delivery);
    let schedules = schedules::schedules(shape);
    if !schedules.is_empty() {
        let role = service_role("scheduler.amazonaws.com", "scheduler", schedule_statements(&schedules));
        resources.insert("SchedulerRole".to_owned(), role);
    }
    resources
}

fn schedule_statements(schedules: &[FunctionSchedule]) -> Vec<Value> {
    let functions = schedules.iter().map(|schedule| alias(schedule.function)).collect();
    vec![
        allow("Functions", &["lambda:InvokeFunction"], functions),
        allow("DeadLetters", &["sqs:SendMessage"], vec![attribute("ScheduleDeadLetters", "Arn")]),
        encryption::of_service([]),
    ]
}

/// The role of a function, with permissions for its work, logs, traces and network, and for the keys that encrypt its data.
fn function_role(shape: &DeployedShape<'_>, function: &TemplateFunction) -> Value {
    let name = function.name;
    let logs = substituted(format!(
        "arn:${{AWS::Partition}}:logs:${{AWS::Region}}:${{AWS::AccountId}}:log-group:/aws/lambda/${{Name}}-{name}:*"
    ));
    let mut statements = permissions::statements(shape, name);
    statements.push(allow("Logs", &["logs:CreateLogStream", "logs:PutLogEvents"], vec![logs]));
    // X-Ray has no resources.
    statements.push(allow(
        "Tracing",
        &["xray:PutTraceSegments", "xray:PutTelemetryRecords"],
        vec![json!("*")],
    ));
    if name == shape.relaying() {
        statements.push(network_statement());
    }
    statements.extend(encryption::statements(shape, &statements, KeyUser::Function));
    let trust = trust("lambda.amazonaws.com");
    resource("AWS::IAM::Role", role(trust, name, statements), function.condition)
}

/// Lambda calls these, and they have no resources that are known beforehand.
fn network_statement() -> Value {
    let interfaces = [
        "ec2:CreateNetworkInterface",
        "ec2:DescribeNetworkInterfaces",
        "ec2:DescribeSubnets",
        "ec2:DeleteNetworkInterface",
        "ec2:AssignPrivateIpAddresses",
        "ec2:UnassignPrivateIpAddresses",
    ];
    when(Condition::HasNetwork, allow("Network", &interfaces, vec![json!("*")]))
}

/// The policy for the role that `RedrivePrincipalArn` names.
fn redrive_policy(shape: &DeployedShape<'_>) -> Value {
    let mut statements = permissions::redrive_statements(shape);
    statements.extend(encryption::statements(shape, &statements, KeyUser::Operator));
    let properties = json!({
        "Description": "Processes records that the functions could not process",
        "PolicyDocument": { "Version": "2012-10-17", "Statement": statements },
    });
    resource("AWS::IAM::ManagedPolicy", properties, None)
}

fn service_role(service: &str, name: &str, statements: Vec<Value>) -> Value {
    let mut trust = trust(service);
    if let Some(trust) = trust.as_object_mut() {
        let account = json!({ "StringEquals": { "aws:SourceAccount": reference("AWS::AccountId") } });
        trust.insert("Condition".to_owned(), account);
    }
    resource("AWS::IAM::Role", role(trust, name, statements), None)
}

fn trust(service: &str) -> Value {
    json!({ "Effect": "Allow", "Action": "sts:AssumeRole", "Principal": { "Service": service } })
}

fn role(trust: Value, name: &str, statements: Vec<Value>) -> Value {
    json!({
        "AssumeRolePolicyDocument": { "Version": "2012-10-17", "Statement": [trust] },
        "Policies": [{
            "PolicyName": name,
            "PolicyDocument": { "Version": "2012-10-17", "Statement": statements },
        }],
    })
}
