//! The permissions of each function: exact actions on exact resources, narrowed to the items that the model names.

use std::collections::BTreeSet;

use afterwrite_ledger::state::job::JOB_PREFIX;
use afterwrite_ledger::state::{LEDGER_PREFIX, LOOKUP_PREFIX};
use afterwrite_model::entity::HEARTBEAT_KEY;
use afterwrite_model::table::{KeyType, Template, TemplatePiece};
use afterwrite_services::events::EventService;
use serde_json::{Value, json};

use super::conditions::Condition;
use super::events::{targets, when_drained};
use super::intrinsics::{attribute, reference, substituted, when};
use super::mappings::mapped_streams;
use super::{DeployedShape, table_arn};

pub(super) fn allow(sid: &str, actions: &[&str], resources: Vec<Value>) -> Value {
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

/// The texts that a template can write, as a pattern of IAM. An asterisk of a text is any character.
fn pattern(template: &Template) -> String {
    let literal = |text: &str| text.replace('*', "?");
    match template.pieces.as_slice() {
        [TemplatePiece::Literal(text)] => literal(text),
        [TemplatePiece::Literal(text), ..] => format!("{}*", literal(text)),
        _ => "*".to_owned(),
    }
}

/// The statements of a function of a shape.
pub(super) fn statements(shape: &DeployedShape<'_>, function: &str) -> Vec<Value> {
    match function {
        "invalidator" => invalidator_statements(shape),
        "exporter" => exporter_statements(shape),
        "compactor" => compactor_statements(),
        "verifier" => verifier_statements(shape),
        reader => reader_statements(shape, reader),
    }
}

fn reader_statements(shape: &DeployedShape<'_>, reader: &str) -> Vec<Value> {
    let streams = mapped_streams(shape, reader).into_iter().map(|stream| stream.arn);
    let stream = [
        "dynamodb:DescribeStream",
        "dynamodb:GetRecords",
        "dynamodb:GetShardIterator",
        "dynamodb:ListStreams",
    ];
    let mut statements = vec![
        allow("Stream", &stream, streams.collect()),
        allow("FailedRecords", &["s3:PutObject"], in_failures("aws/lambda/*")),
        allow("FailedRecordsBucket", &["s3:ListBucket"], vec![attribute("FailuresBucket", "Arn")]),
    ];
    if reader == "aggregator" && shape.has_aggregate() {
        statements.push(ledger_statement(shape));
        if shape.has_levels() {
            // Whether its stream is as the model needs it.
            let table = vec![attribute("StateTable", "Arn")];
            statements.push(allow("StateTable", &["dynamodb:DescribeTable"], table));
        }
        statements.extend(reading_statements(shape));
        statements.extend(counting_statements(shape));
    }
    if reader == shape.relaying() {
        statements.extend(relaying_statements(shape));
    }
    statements
}

fn relaying_statements(shape: &DeployedShape<'_>) -> Vec<Value> {
    let address =
        allow("CacheAddress", &["secretsmanager:GetSecretValue"], vec![reference("CacheSecretArn")]);
    let paths = allow("StalePaths", &["sqs:SendMessage"], vec![attribute("CdnQueue", "Arn")]);
    let mut statements = vec![
        allow("Archive", &["firehose:PutRecordBatch"], vec![attribute("DeliveryStream", "Arn")]),
        // Lines that are too long for the delivery stream.
        allow("LongLines", &["s3:PutObject"], in_bucket(&["archive"])),
        when(Condition::HasCacheSecret, address),
        when_drained(shape, paths),
    ];
    statements.extend(event_statement(shape));
    statements
}

/// The aggregator also writes a heartbeat, if it reads the table's stream.
fn ledger_statement(shape: &DeployedShape<'_>) -> Value {
    let mut written = counted_partitions(shape);
    written.extend(shape.has_levels().then(|| HEARTBEAT_KEY.to_owned()));
    on_keys(ledger("LedgerAndRollups"), &written)
}

fn ledger(sid: &str) -> Value {
    let actions = ["dynamodb:BatchGetItem", "dynamodb:PutItem", "dynamodb:UpdateItem"];
    allow(sid, &actions, vec![attribute("StateTable", "Arn")])
}

/// The pattern of the keys that begin with a text.
fn any_after(prefix: &str) -> String {
    [prefix, "*"].concat()
}

/// The partition keys of ledger entries, remembered lookups and rollups.
fn counted_partitions(shape: &DeployedShape<'_>) -> BTreeSet<String> {
    let mut counted = BTreeSet::from([LEDGER_PREFIX, LOOKUP_PREFIX].map(any_after));
    for rollup in &shape.model.rollups {
        let partition = pattern(&rollup.partition);
        let is_sharded = rollup.shards > 1 && !partition.ends_with('*');
        counted.insert(if is_sharded { format!("{partition}#SHARD#*") } else { partition });
    }
    counted
}

/// An item whose ledger entry may be gone; copies before they are written; items that lookups read by their primary keys. All are items
/// of the model's entities.
fn reading_statements(shape: &DeployedShape<'_>) -> Vec<Value> {
    let model = shape.model;
    let tables = model.application_tables();
    let statements = tables.filter_map(|(index, table)| {
        let entities = model.entities.iter().filter(|entity| entity.table == index);
        let read: BTreeSet<String> = match table.partition_key.key_type {
            KeyType::Text => entities.map(|entity| pattern(&entity.key.partition)).collect(),
            KeyType::Number | KeyType::Binary => entities.map(|_| "*".to_owned()).collect(),
        };
        let sid = format!("SourceItems{index}");
        let statement = allow(&sid, &["dynamodb:BatchGetItem"], vec![table_arn(&table.name)]);
        (!read.is_empty()).then(|| on_keys(statement, &read))
    });
    statements.collect()
}

/// Counting searches the indexes of the application's tables, and writes copies onto their items.
fn counting_statements(shape: &DeployedShape<'_>) -> Vec<Value> {
    let model = shape.model;
    let mut statements = Vec::new();
    let lookups: BTreeSet<(&str, &str)> = model
        .lookups
        .iter()
        .filter_map(|lookup| {
            let table = model.tables.get(model.entities.get(lookup.of)?.table)?;
            Some((&*table.name, &**lookup.index()?))
        })
        .collect();
    if !lookups.is_empty() {
        let index = |(table, index): (&str, &str)| json!({ "Fn::Join": ["", [table_arn(table), format!("/index/{index}")]] });
        statements.push(allow("Lookups", &["dynamodb:Query"], lookups.into_iter().map(index).collect()));
    }
    for (index, table) in model.application_tables() {
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

fn source_tables(shape: &DeployedShape<'_>) -> Vec<Value> {
    shape.model.application_tables().map(|(_, table)| table_arn(&table.name)).collect()
}

fn state_and_source_tables(shape: &DeployedShape<'_>) -> Vec<Value> {
    std::iter::once(attribute("StateTable", "Arn")).chain(source_tables(shape)).collect()
}

/// The permission to publish to the targets of events. Each ARN is of one service, so only one of the actions applies to it.
fn event_statement(shape: &DeployedShape<'_>) -> Option<Value> {
    let arns: Vec<Value> = targets(shape).iter().map(|target| reference(&target.parameter)).collect();
    let actions = EventService::ALL.map(EventService::permission);
    (!arns.is_empty()).then(|| allow("Events", &actions, arns))
}

fn queue_statement(queue: &str) -> Value {
    let receiving = ["sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:GetQueueAttributes"];
    allow("Queue", &receiving, vec![attribute(queue, "Arn")])
}

fn invalidator_statements(shape: &DeployedShape<'_>) -> Vec<Value> {
    let distribution = "arn:${AWS::Partition}:cloudfront::${AWS::AccountId}:distribution/${DistributionId}";
    let invalidations =
        allow("Invalidations", &["cloudfront:CreateInvalidation"], vec![substituted(distribution)]);
    let publishing = event_statement(shape);
    let invalidations =
        if publishing.is_some() { when(Condition::HasDistribution, invalidations) } else { invalidations };
    let mut statements = vec![invalidations, queue_statement("CdnQueue")];
    statements.extend(publishing);
    statements
}

pub(super) fn in_bucket(prefixes: &[&str]) -> Vec<Value> {
    prefixes.iter().map(|prefix| substituted(format!("${{ArchiveBucket.Arn}}/{prefix}/*"))).collect()
}

fn in_failures(keys: &str) -> Vec<Value> {
    vec![substituted(format!("${{FailuresBucket.Arn}}/{keys}"))]
}

/// To distinguish an object that does not exist yet from a forbidden one.
fn bucket_statement() -> Value {
    allow("Bucket", &["s3:ListBucket"], vec![attribute("ArchiveBucket", "Arn")])
}

fn exporter_statements(shape: &DeployedShape<'_>) -> Vec<Value> {
    let mut statements = vec![
        allow("Archive", &["s3:GetObject"], in_bucket(&["archive", "datasets"])),
        allow("Datasets", &["s3:PutObject"], in_bucket(&["datasets", "exported", "heartbeat", "rejected"])),
        bucket_statement(),
        queue_statement("ExportQueue"),
    ];
    if shape.has_aggregate() {
        let looking =
            allow("RememberedLookups", &["dynamodb:BatchGetItem"], vec![attribute("StateTable", "Arn")]);
        statements.push(on_keys(looking, &BTreeSet::from([any_after(LOOKUP_PREFIX)])));
    }
    statements
}

fn compactor_statements() -> Vec<Value> {
    vec![
        allow("Datasets", &["s3:GetObject", "s3:PutObject", "s3:DeleteObject"], in_bucket(&["datasets"])),
        allow("Heartbeat", &["s3:GetObject"], in_bucket(&["heartbeat"])),
        bucket_statement(),
    ]
}

/// It reads everything, and writes only its reports and the number of the next sample.
fn verifier_statements(shape: &DeployedShape<'_>) -> Vec<Value> {
    let reading = [
        "dynamodb:BatchGetItem",
        "dynamodb:DescribeContinuousBackups",
        "dynamodb:DescribeTable",
        "dynamodb:Scan",
    ];
    vec![
        allow("Tables", &reading, state_and_source_tables(shape)),
        allow("Datasets", &["s3:GetObject"], in_bucket(&["datasets", "heartbeat"])),
        allow("Rotation", &["s3:GetObject"], vec![substituted("${ArchiveBucket.Arn}/reports/rotation.json")]),
        allow("Reports", &["s3:PutObject"], in_bucket(&["reports"])),
        bucket_statement(),
    ]
}

/// `afterwrite redrive` processes records with the caller's permissions: the functions' permissions, and permissions for a job in the state table.
pub(super) fn redrive_statements(shape: &DeployedShape<'_>) -> Vec<Value> {
    let mut statements = vec![
        allow("FailedRecords", &["s3:GetObject", "s3:DeleteObject"], in_failures("*")),
        allow("RedrivenRecords", &["s3:PutObject"], in_failures("redriven/*")),
        allow("FailedRecordsBucket", &["s3:ListBucket"], vec![attribute("FailuresBucket", "Arn")]),
    ];
    if shape.has_aggregate() {
        let mut written = counted_partitions(shape);
        written.insert(any_after(JOB_PREFIX));
        // The label of a stream, and whether a table can be restored.
        let tables = ["dynamodb:DescribeTable", "dynamodb:DescribeContinuousBackups"];
        let parked = vec![substituted("${StateTable.Arn}/index/parked")];
        statements.push(on_keys(ledger("JobsLedgerAndRollups"), &written));
        // Not narrowed: a parked item may be of an entity that the model has no longer.
        statements.push(allow("ParkedSourceItems", &["dynamodb:BatchGetItem"], source_tables(shape)));
        statements.push(allow("Tables", &tables, state_and_source_tables(shape)));
        statements.push(allow("ParkedItems", &["dynamodb:Scan"], parked));
        statements.extend(counting_statements(shape));
    }
    statements.extend(relaying_statements(shape));
    statements
}

pub(super) fn delivery_statements() -> Vec<Value> {
    let objects = ["s3:AbortMultipartUpload", "s3:GetObject", "s3:PutObject"];
    let bucket = ["s3:GetBucketLocation", "s3:ListBucket", "s3:ListBucketMultipartUploads"];
    vec![
        allow("Objects", &objects, in_bucket(&["archive", "archive-errors"])),
        allow("Bucket", &bucket, vec![attribute("ArchiveBucket", "Arn")]),
        allow("Logs", &["logs:PutLogEvents"], vec![attribute("DeliveryLogGroup", "Arn")]),
    ]
}
