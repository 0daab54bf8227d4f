//! A role for each function: exact actions on exact resources; and the roles of the delivery stream and the schedules.

use std::collections::BTreeSet;

use afterwrite::entity::HEARTBEAT_KEY;
use afterwrite::table::{KeyType, Template, TemplatePiece};
use serde_json::{Map, Value, json};

use super::queues::with_condition;
use super::{DeployedShape, attribute, logical, reference, substituted, table_arn};

pub(super) fn resources(shape: &DeployedShape<'_>) -> Map<String, Value> {
    let mut resources = Map::new();
    let mut add = |name: &str, resource: Value| {
        resources.insert(name.to_owned(), resource);
    };
    for reader in shape.readers() {
        add(&role_id(reader), role(reader, reader_statements(shape, reader), None));
    }
    add("InvalidatorRole", role("invalidator", invalidator_statements(), Some("HasDistribution")));
    if shape.has_datasets() {
        add("ExporterRole", role("exporter", exporter_statements(shape), None));
        add("CompactorRole", role("compactor", compactor_statements(), None));
    }
    add("DeliveryRole", service_role("firehose.amazonaws.com", "delivery", &delivery_statements()));
    add("SchedulerRole", service_role("scheduler.amazonaws.com", "schedules", &schedule_statements(shape)));
    resources
}

pub(super) fn role_id(function: &str) -> String {
    format!("{}Role", logical(function))
}

fn allow(sid: &str, actions: &[&str], resources: Vec<Value>) -> Value {
    json!({ "Sid": sid, "Effect": "Allow", "Action": actions, "Resource": resources })
}

/// Narrowed to items whose partition key matches one of these patterns, unless one of them matches every key.
fn on_keys(mut statement: Value, patterns: &BTreeSet<String>) -> Value {
    let is_narrow = !patterns.contains("*");
    if let Some(statement) = statement.as_object_mut().filter(|_| is_narrow) {
        let keys = json!({ "ForAllValues:StringLike": { "dynamodb:LeadingKeys": patterns } });
        statement.insert("Condition".to_owned(), keys);
    }
    statement
}

/// The texts that a template can write, as a pattern of IAM.
fn pattern(template: &Template) -> String {
    match template.pieces.as_slice() {
        [TemplatePiece::Literal(text)] => text.to_string(),
        [TemplatePiece::Literal(text), ..] => format!("{text}*"),
        _ => "*".to_owned(),
    }
}

fn reader_statements(shape: &DeployedShape<'_>, reader: &str) -> Vec<Value> {
    let streams = shape.model.tables.iter().map(|table| reference(&super::stream_parameter(&table.name)));
    let stream = [
        "dynamodb:DescribeStream",
        "dynamodb:GetRecords",
        "dynamodb:GetShardIterator",
        "dynamodb:ListStreams",
    ];
    let mut statements = vec![
        allow("Stream", &stream, streams.collect()),
        allow("FailedRecords", &["s3:PutObject"], vec![substituted("${FailuresBucket.Arn}/aws/lambda/*")]),
        allow("FailedRecordsBucket", &["s3:ListBucket"], vec![attribute("FailuresBucket", "Arn")]),
    ];
    if reader == "aggregator" && shape.has_aggregate() {
        statements.extend(counting_statements(shape));
    }
    if reader == shape.relaying() {
        statements.push(allow(
            "Archive",
            &["firehose:PutRecordBatch"],
            vec![attribute("DeliveryStream", "Arn")],
        ));
        statements.push(allow(
            "LongLines",
            &["s3:PutObject"],
            vec![substituted("${ArchiveBucket.Arn}/archive/*")],
        ));
        let address =
            allow("CacheAddress", &["secretsmanager:GetSecretValue"], vec![reference("CacheSecretArn")]);
        statements.push(json!({ "Fn::If": ["HasCacheSecret", address, reference("AWS::NoValue")] }));
        let paths = allow("StalePaths", &["sqs:SendMessage"], vec![attribute("CdnQueue", "Arn")]);
        statements.push(json!({ "Fn::If": ["HasDistribution", paths, reference("AWS::NoValue")] }));
    }
    statements
}

fn counting_statements(shape: &DeployedShape<'_>) -> Vec<Value> {
    let model = shape.model;
    let mut counted = BTreeSet::from(["LEDGER#*", "LOOKUP#*"].map(str::to_owned));
    for rollup in &model.rollups {
        let partition = pattern(&rollup.partition);
        let is_sharded = rollup.shards > 1 && !partition.ends_with('*');
        counted.insert(if is_sharded { format!("{partition}#SHARD#*") } else { partition });
    }
    let ledger = ["dynamodb:BatchGetItem", "dynamodb:PutItem", "dynamodb:UpdateItem"];
    let sources = model.tables.iter().map(|table| table_arn(&table.name)).collect();
    let mut statements = vec![
        on_keys(allow("LedgerAndRollups", &ledger, vec![attribute("StateTable", "Arn")]), &counted),
        allow("SourceItems", &["dynamodb:BatchGetItem"], sources),
    ];
    let lookups: Vec<Value> = model
        .lookups
        .iter()
        .filter_map(|lookup| {
            let table = model.tables.get(model.entities.get(lookup.of)?.table)?;
            let index = lookup.index()?;
            Some(json!({ "Fn::Join": ["", [table_arn(&table.name), format!("/index/{index}")]] }))
        })
        .collect();
    if !lookups.is_empty() {
        statements.push(allow("Lookups", &["dynamodb:Query"], lookups));
    }
    for (index, table) in model.tables.iter().enumerate() {
        let mirrored =
            model.entities.iter().filter(|entity| entity.table == index && !entity.mirrors.is_empty());
        let mut written: BTreeSet<String> = mirrored.map(|entity| pattern(&entity.key.partition)).collect();
        written.insert(match table.partition_key.key_type {
            KeyType::Text => HEARTBEAT_KEY.to_owned(),
            KeyType::Number | KeyType::Binary => "*".to_owned(),
        });
        let sid = format!("Mirrors{index}");
        statements
            .push(on_keys(allow(&sid, &["dynamodb:UpdateItem"], vec![table_arn(&table.name)]), &written));
    }
    statements
}

fn queue_statement(queue: &str) -> Value {
    let receiving = ["sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:GetQueueAttributes"];
    allow("Queue", &receiving, vec![attribute(queue, "Arn")])
}

fn invalidator_statements() -> Vec<Value> {
    let distribution = "arn:${AWS::Partition}:cloudfront::${AWS::AccountId}:distribution/${DistributionId}";
    vec![
        allow("Invalidations", &["cloudfront:CreateInvalidation"], vec![substituted(distribution)]),
        queue_statement("CdnQueue"),
    ]
}

fn in_bucket(prefixes: &[&str]) -> Vec<Value> {
    prefixes.iter().map(|prefix| substituted(format!("${{ArchiveBucket.Arn}}/{prefix}/*"))).collect()
}

fn exporter_statements(shape: &DeployedShape<'_>) -> Vec<Value> {
    let mut statements = vec![
        allow("Archive", &["s3:GetObject"], in_bucket(&["archive", "datasets"])),
        allow("Datasets", &["s3:PutObject"], in_bucket(&["datasets", "exported", "heartbeat", "rejected"])),
        allow("Bucket", &["s3:ListBucket"], vec![attribute("ArchiveBucket", "Arn")]),
        queue_statement("ExportQueue"),
    ];
    if shape.has_aggregate() {
        let looking =
            allow("RememberedLookups", &["dynamodb:BatchGetItem"], vec![attribute("StateTable", "Arn")]);
        statements.push(on_keys(looking, &BTreeSet::from(["LOOKUP#*".to_owned()])));
    }
    statements
}

fn compactor_statements() -> Vec<Value> {
    vec![
        allow("Datasets", &["s3:GetObject", "s3:PutObject", "s3:DeleteObject"], in_bucket(&["datasets"])),
        allow("Heartbeat", &["s3:GetObject"], in_bucket(&["heartbeat"])),
        allow("Bucket", &["s3:ListBucket"], vec![attribute("ArchiveBucket", "Arn")]),
    ]
}

fn delivery_statements() -> Vec<Value> {
    let objects = ["s3:AbortMultipartUpload", "s3:GetObject", "s3:PutObject"];
    let bucket = ["s3:GetBucketLocation", "s3:ListBucket", "s3:ListBucketMultipartUploads"];
    vec![
        allow("Objects", &objects, in_bucket(&["archive", "archive-errors"])),
        allow("Bucket", &bucket, vec![attribute("ArchiveBucket", "Arn")]),
        allow("Logs", &["logs:PutLogEvents"], vec![attribute("DeliveryLogGroup", "Arn")]),
    ]
}

fn schedule_statements(shape: &DeployedShape<'_>) -> Vec<Value> {
    let mut scheduled: Vec<Value> = Vec::new();
    if shape.has_aggregate() {
        scheduled.push(reference("AggregatorFunction.Alias"));
    }
    if shape.has_datasets() {
        scheduled.push(reference("CompactorFunction.Alias"));
    }
    let mut statements =
        vec![allow("DeadLetters", &["sqs:SendMessage"], vec![attribute("ScheduleDeadLetters", "Arn")])];
    if !scheduled.is_empty() {
        statements.push(allow("Functions", &["lambda:InvokeFunction"], scheduled));
    }
    statements
}

/// The role of a function, with its logs and traces.
fn role(function: &str, mut statements: Vec<Value>, condition: Option<&str>) -> Value {
    let logs = substituted(format!(
        "arn:${{AWS::Partition}}:logs:${{AWS::Region}}:${{AWS::AccountId}}:log-group:/aws/lambda/${{Name}}-{function}:*"
    ));
    statements.push(allow("Logs", &["logs:CreateLogStream", "logs:PutLogEvents"], vec![logs]));
    // X-Ray has no resources.
    statements.push(allow(
        "Tracing",
        &["xray:PutTraceSegments", "xray:PutTelemetryRecords"],
        vec![json!("*")],
    ));
    with_condition(
        "AWS::IAM::Role",
        role_properties("lambda.amazonaws.com", function, &statements, false),
        condition,
    )
}

fn service_role(service: &str, name: &str, statements: &[Value]) -> Value {
    with_condition("AWS::IAM::Role", role_properties(service, name, statements, true), None)
}

fn role_properties(service: &str, name: &str, statements: &[Value], is_of_account: bool) -> Value {
    let mut trust =
        json!({ "Effect": "Allow", "Action": "sts:AssumeRole", "Principal": { "Service": service } });
    if let Some(trust) = trust.as_object_mut().filter(|_| is_of_account) {
        let account = json!({ "StringEquals": { "aws:SourceAccount": reference("AWS::AccountId") } });
        trust.insert("Condition".to_owned(), account);
    }
    json!({
        "AssumeRolePolicyDocument": { "Version": "2012-10-17", "Statement": [trust] },
        "Policies": [{
            "PolicyName": name,
            "PolicyDocument": { "Version": "2012-10-17", "Statement": statements },
        }],
    })
}
