//! The state table, the buckets and the delivery stream.

use afterwrite_ledger::state::{BEHIND, EXPIRES_AT, PARTITION_KEY, SORT_KEY};
use afterwrite_model::record::StreamView;
use afterwrite_model::table::RankIndex;
use serde_json::{Map, Value, json};

use super::conditions::Condition;
use super::intrinsics::{attribute, either, key_if_given, reference, resource, substituted, when};
use super::{DeployedShape, capacity};

/// The name of the archive's bucket, which roles and settings need before it exists.
pub(super) const BUCKET: &str = "${Name}-${AWS::AccountId}-${AWS::Region}";
/// The name of the on-failure bucket.
const FAILURES: &str = "${Name}-failures-${AWS::AccountId}-${AWS::Region}";
/// How long the delivery stream collects for an object.
pub(super) const BUFFERING_SECONDS: u64 = 900;

pub(super) fn resources(shape: &DeployedShape<'_>) -> Map<String, Value> {
    let mut resources = Map::new();
    resources.insert("StateTable".to_owned(), state_table(shape));
    resources.extend(capacity::scaling());
    resources.insert("ArchiveBucket".to_owned(), archive_bucket(shape));
    resources.insert("ArchiveBucketPolicy".to_owned(), bucket_policy("ArchiveBucket", &[]));
    resources.insert("FailuresBucket".to_owned(), failures_bucket());
    resources.insert("FailuresBucketPolicy".to_owned(), bucket_policy("FailuresBucket", &[redrive_alone()]));
    let logs = json!({
        "LogGroupName": substituted("/aws/kinesisfirehose/${Name}-archive"),
        "RetentionInDays": reference("LogRetentionDays"),
        "KmsKeyId": key_if_given(),
    });
    resources.insert("DeliveryLogGroup".to_owned(), resource("AWS::Logs::LogGroup", logs, None));
    resources.insert(
        "DeliveryLogStream".to_owned(),
        json!({
            "Type": "AWS::Logs::LogStream",
            "Properties": { "LogGroupName": reference("DeliveryLogGroup"), "LogStreamName": "S3Delivery" },
        }),
    );
    resources.insert("DeliveryStream".to_owned(), delivery_stream());
    resources
}

/// Rollups, ledger, remembered lookups. It has a stream only if rollups are sources, and the filters of its mappings pass these rollups alone: the
/// functions must not read their own writes.
fn state_table(shape: &DeployedShape<'_>) -> Value {
    let (attributes, indexes) = state_indexes(shape);
    let encryption =
        json!({ "SSEEnabled": true, "SSEType": "KMS", "KMSMasterKeyId": reference("KmsKeyArn") });
    let stream = if shape.has_levels() {
        json!({ "StreamViewType": StreamView::NewAndOldImages.name() })
    } else {
        reference("AWS::NoValue")
    };
    let properties = json!({
        "TableName": substituted("${Name}-state"),
        "BillingMode": either(Condition::IsProvisioned, "PROVISIONED", "PAY_PER_REQUEST"),
        "ProvisionedThroughput": capacity::of_table(),
        "DeletionProtectionEnabled": true,
        "AttributeDefinitions": attributes,
        "KeySchema": [
            { "AttributeName": PARTITION_KEY, "KeyType": "HASH" }, { "AttributeName": SORT_KEY, "KeyType": "RANGE" },
        ],
        "GlobalSecondaryIndexes": indexes,
        "StreamSpecification": stream,
        "TimeToLiveSpecification": { "AttributeName": EXPIRES_AT, "Enabled": true },
        "PointInTimeRecoverySpecification": { "PointInTimeRecoveryEnabled": true },
        "SSESpecification": when(Condition::HasKey, encryption),
    });
    resource("AWS::DynamoDB::Table", properties, None)
}

/// The key attributes of the state table and its indexes, and the indexes.
fn state_indexes(shape: &DeployedShape<'_>) -> (Vec<Value>, Vec<Value>) {
    let attribute = |name: &str, kind: &str| json!({ "AttributeName": name, "AttributeType": kind });
    let mut attributes: Vec<Value> =
        [PARTITION_KEY, SORT_KEY, BEHIND].iter().map(|name| attribute(name, "S")).collect();
    let mut indexes = vec![json!({
        "IndexName": "parked",
        "KeySchema": [{ "AttributeName": BEHIND, "KeyType": "HASH" }],
        "Projection": { "ProjectionType": "KEYS_ONLY" },
        "ProvisionedThroughput": capacity::of_index(),
    })];
    for RankIndex { attribute: group, measure } in shape.model.rank_indexes() {
        attributes.extend([attribute(&group, "S"), attribute(&measure, "N")]);
        indexes.push(json!({
            "IndexName": *group,
            "KeySchema": [{ "AttributeName": *group, "KeyType": "HASH" }, { "AttributeName": *measure, "KeyType": "RANGE" }],
            "Projection": { "ProjectionType": "ALL" },
            "ProvisionedThroughput": capacity::of_rank(),
        }));
    }
    (attributes, indexes)
}

/// The properties that both buckets share.
fn private_bucket(name: &str, rules: &Value) -> Map<String, Value> {
    let encryption = json!({
        "BucketKeyEnabled": either(Condition::HasKey, true, false),
        "ServerSideEncryptionByDefault": {
            "SSEAlgorithm": either(Condition::HasKey, "aws:kms", "AES256"), "KMSMasterKeyID": key_if_given(),
        },
    });
    let private = json!({
        "BlockPublicAcls": true, "BlockPublicPolicy": true, "IgnorePublicAcls": true, "RestrictPublicBuckets": true,
    });
    Map::from_iter([
        ("BucketName".to_owned(), substituted(name)),
        ("BucketEncryption".to_owned(), json!({ "ServerSideEncryptionConfiguration": [encryption] })),
        ("PublicAccessBlockConfiguration".to_owned(), private),
        ("OwnershipControls".to_owned(), json!({ "Rules": [{ "ObjectOwnership": "BucketOwnerEnforced" }] })),
        ("LifecycleConfiguration".to_owned(), json!({ "Rules": rules })),
    ])
}

fn archive_bucket(shape: &DeployedShape<'_>) -> Value {
    // No rule has the prefix datasets/: the compactor removes superseded files itself.
    let rules = json!([
        {
            "Id": "aborted-uploads", "Status": "Enabled",
            "AbortIncompleteMultipartUpload": { "DaysAfterInitiation": 7 },
        },
        {
            "Id": "archive", "Status": "Enabled", "Prefix": "archive/",
            "Transitions": [{ "StorageClass": "GLACIER_IR", "TransitionInDays": 90 }],
        },
        { "Id": "query-results", "Status": "Enabled", "Prefix": "athena-results/", "ExpirationInDays": 30 },
    ]);
    let mut properties = private_bucket(BUCKET, &rules);
    if shape.has_datasets() {
        let prefix = json!({ "S3Key": { "Rules": [{ "Name": "prefix", "Value": "archive/" }] } });
        let queue = json!({
            "Event": "s3:ObjectCreated:*", "Queue": attribute("ExportQueue", "Arn"), "Filter": prefix,
        });
        properties.insert("NotificationConfiguration".to_owned(), json!({ "QueueConfigurations": [queue] }));
    }
    let mut bucket = resource("AWS::S3::Bucket", properties.into(), None);
    // S3 checks that it may send to the queue.
    if let Some(bucket) = bucket.as_object_mut().filter(|_| shape.has_datasets()) {
        bucket.insert("DependsOn".to_owned(), json!("ExportQueuePolicy"));
    }
    bucket
}

/// Whole items, encrypted, short-lived, readable by redrive alone.
fn failures_bucket() -> Value {
    let rules = json!([{
        "Id": "short-lived", "Status": "Enabled", "ExpirationInDays": 14,
        "AbortIncompleteMultipartUpload": { "DaysAfterInitiation": 1 },
    }]);
    resource("AWS::S3::Bucket", private_bucket(FAILURES, &rules).into(), None)
}

fn redrive_alone() -> Value {
    let nobody = substituted("arn:${AWS::Partition}:iam::${AWS::AccountId}:role/nobody");
    let reader = either(Condition::HasRedrive, reference("RedrivePrincipalArn"), nobody);
    json!({
        "Sid": "ReadableByRedriveAlone",
        "Effect": "Deny",
        "Principal": "*",
        "Action": ["s3:GetObject", "s3:GetObjectVersion"],
        "Resource": substituted("${FailuresBucket.Arn}/*"),
        "Condition": { "ArnNotLike": { "aws:PrincipalArn": reader } },
    })
}

fn bucket_policy(bucket: &str, more: &[Value]) -> Value {
    let tls = json!({
        "Sid": "TlsOnly", "Effect": "Deny", "Principal": "*", "Action": "s3:*",
        "Resource": [attribute(bucket, "Arn"), substituted(format!("${{{bucket}.Arn}}/*"))],
        "Condition": { "Bool": { "aws:SecureTransport": "false" } },
    });
    let statements: Vec<&Value> = std::iter::once(&tls).chain(more).collect();
    json!({
        "Type": "AWS::S3::BucketPolicy",
        "Properties": {
            "Bucket": reference(bucket),
            "PolicyDocument": { "Version": "2012-10-17", "Statement": statements },
        },
    })
}

fn delivery_stream() -> Value {
    let key_type = either(Condition::HasKey, "CUSTOMER_MANAGED_CMK", "AWS_OWNED_CMK");
    let encryption = json!({ "KMSEncryptionConfig": { "AWSKMSKeyARN": reference("KmsKeyArn") } });
    json!({
        "Type": "AWS::KinesisFirehose::DeliveryStream",
        "Properties": {
            "DeliveryStreamName": substituted("${Name}-archive"),
            "DeliveryStreamType": "DirectPut",
            "DeliveryStreamEncryptionConfigurationInput": { "KeyType": key_type, "KeyARN": key_if_given() },
            "ExtendedS3DestinationConfiguration": {
                "BucketARN": attribute("ArchiveBucket", "Arn"),
                "RoleARN": attribute("DeliveryRole", "Arn"),
                "Prefix": "archive/dt=!{timestamp:yyyy-MM-dd}/hh=!{timestamp:HH}/",
                "ErrorOutputPrefix": "archive-errors/!{firehose:error-output-type}/",
                "CompressionFormat": "GZIP",
                "BufferingHints": { "SizeInMBs": 128, "IntervalInSeconds": BUFFERING_SECONDS },
                "EncryptionConfiguration": when(Condition::HasKey, encryption),
                "CloudWatchLoggingOptions": {
                    "Enabled": true,
                    "LogGroupName": reference("DeliveryLogGroup"),
                    "LogStreamName": reference("DeliveryLogStream"),
                },
            },
        },
    })
}
