//! The calls to AWS KMS that services make with the permissions of their callers, as the applied state encrypts their resources.
//!
//! Keys are not emulated. A call on an encrypted table, bucket, queue, delivery stream or secret implies calls with the resource's key, which
//! policies judge with the service as `kms:ViaService`.

use std::collections::{BTreeMap, BTreeSet};

use afterwrite_tests::aws_call::AwsCall;
use serde_json::Value;

use super::applied::{AppliedState, text};

/// A call to KMS.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct KeyCall {
    pub(crate) principal: String,
    pub(crate) action: &'static str,
    /// The key's ARN.
    pub(crate) key: String,
    /// The service that makes the call, such as `dynamodb.eu-west-1.amazonaws.com`.
    pub(crate) via: String,
}

/// The keys of a state's resources.
pub(crate) struct EncryptedResources {
    /// By the beginnings of the resources' ARNs.
    keys: BTreeMap<String, String>,
    /// The keys of the functions' environments.
    environments: BTreeMap<String, String>,
    region: String,
}

impl EncryptedResources {
    pub(crate) fn of(state: &AppliedState) -> Self {
        let mut keys = BTreeMap::new();
        let mut add = |resource: String, key: &Value| {
            if !text(key).is_empty() {
                keys.insert(resource, text(key).to_owned());
            }
        };
        for table in state.all("aws_dynamodb_table").map(|table| &table.values) {
            add(text(&table["arn"]).to_owned(), &table["server_side_encryption"][0]["kms_key_arn"]);
        }
        for bucket in state.all("aws_s3_bucket_server_side_encryption_configuration") {
            let rule = &bucket.values["rule"][0]["apply_server_side_encryption_by_default"][0];
            add(format!("arn:aws:s3:::{}", text(&bucket.values["bucket"])), &rule["kms_master_key_id"]);
        }
        for queue in state.all("aws_sqs_queue").map(|queue| &queue.values) {
            add(text(&queue["arn"]).to_owned(), &queue["kms_master_key_id"]);
        }
        for stream in state.all("aws_kinesis_firehose_delivery_stream").map(|stream| &stream.values) {
            add(text(&stream["arn"]).to_owned(), &stream["server_side_encryption"][0]["key_arn"]);
        }
        let functions = state.functions();
        for function in functions.values() {
            // The secret of the example has the deployment's key.
            let secret = &function["environment"][0]["variables"]["AFTERWRITE_CACHE_SECRET"];
            if !text(secret).is_empty() {
                add(text(secret).to_owned(), &function["kms_key_arn"]);
            }
        }
        let environments = functions.iter().filter(|(_, values)| !text(&values["kms_key_arn"]).is_empty());
        let environments = environments
            .map(|(function, values)| ((*function).to_owned(), text(&values["kms_key_arn"]).to_owned()));
        Self { keys, environments: environments.collect(), region: state.scope().region }
    }

    /// The calls with keys that these calls imply, and those with which Lambda starts the functions.
    pub(crate) fn calls(&self, calls: &BTreeSet<AwsCall>) -> BTreeSet<KeyCall> {
        let started = self.environments.iter();
        let started = started.map(|(function, key)| self.call(function, "kms:Decrypt", key, "lambda"));
        calls.iter().flat_map(|call| self.implied_by(call)).chain(started).collect()
    }

    fn implied_by(&self, call: &AwsCall) -> Vec<KeyCall> {
        let Some(key) = self.key_of(&call.resource) else { return Vec::new() };
        let service = call.action.split(':').next().unwrap_or_default();
        let actions = key_actions(&call.action).iter();
        actions.map(|action| self.call(&call.principal, action, key, service)).collect()
    }

    fn call(&self, principal: &str, action: &'static str, key: &str, service: &str) -> KeyCall {
        let via = format!("{service}.{}.amazonaws.com", self.region);
        KeyCall { principal: principal.to_owned(), action, key: key.to_owned(), via }
    }

    /// The key of a resource, or of the table, the bucket that it is a part of.
    fn key_of(&self, resource: &str) -> Option<&str> {
        let is_part = |whole: &str| {
            resource.strip_prefix(whole).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        self.keys.iter().find(|(whole, _)| is_part(whole)).map(|(_, key)| key.as_str())
    }
}

/// The calls of a service with the key of the resource: it decrypts what is read, and generates data keys for what is written.
fn key_actions(action: &str) -> &'static [&'static str] {
    match action {
        "dynamodb:BatchGetItem"
        | "dynamodb:ConditionCheckItem"
        | "dynamodb:GetRecords"
        | "dynamodb:Query"
        | "dynamodb:Scan" => &["kms:Decrypt"],
        "dynamodb:PutItem" | "dynamodb:UpdateItem" => &["kms:Decrypt", "kms:GenerateDataKey"],
        "s3:GetObject" | "secretsmanager:GetSecretValue" | "sqs:ReceiveMessage" => &["kms:Decrypt"],
        "s3:PutObject" | "firehose:PutRecordBatch" => &["kms:GenerateDataKey"],
        // A data key is reused for a while.
        "sqs:SendMessage" => &["kms:Decrypt", "kms:GenerateDataKey"],
        // These read or change no content.
        "dynamodb:DescribeContinuousBackups"
        | "dynamodb:DescribeStream"
        | "dynamodb:DescribeTable"
        | "dynamodb:GetShardIterator"
        | "dynamodb:ListStreams"
        | "s3:DeleteObject"
        | "s3:ListBucket"
        | "sqs:DeleteMessage"
        | "sqs:GetQueueAttributes" => &[],
        other => panic!("it is not known here what {other} does with the key of its resource"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn implied(action: &str, resource: &str) -> Vec<(&'static str, String)> {
        let keys = [("arn:t/state", "key/1"), ("arn:aws:s3:::bucket", "key/2")];
        let encrypted = EncryptedResources {
            keys: keys.map(|(resource, key)| (resource.to_owned(), key.to_owned())).into(),
            environments: BTreeMap::from([("relay".to_owned(), "key/1".to_owned())]),
            region: "eu-west-1".to_owned(),
        };
        let call = AwsCall {
            principal: "aggregator".to_owned(),
            action: action.to_owned(),
            resource: resource.to_owned(),
            leading_keys: BTreeSet::new(),
        };
        let calls = encrypted.calls(&BTreeSet::from([call])).into_iter();
        let calls = calls.filter(|call| call.principal == "aggregator");
        calls.map(|call| (call.action, format!("{} via {}", call.key, call.via))).collect()
    }

    #[test]
    fn a_write_generates_a_data_key_and_a_read_decrypts() {
        let via = |service: &str, key: &str| format!("{key} via {service}.eu-west-1.amazonaws.com");
        let table = via("dynamodb", "key/1");
        assert_eq!(implied("dynamodb:Scan", "arn:t/state/index/parked"), [("kms:Decrypt", table.clone())]);
        let write = [("kms:Decrypt", table.clone()), ("kms:GenerateDataKey", table)];
        assert_eq!(implied("dynamodb:UpdateItem", "arn:t/state"), write);
        let bucket = via("s3", "key/2");
        assert_eq!(implied("s3:PutObject", "arn:aws:s3:::bucket/a"), [("kms:GenerateDataKey", bucket)]);
    }

    #[test]
    fn other_resources_and_lists_need_no_key() {
        assert_eq!(implied("dynamodb:Scan", "arn:t/state2"), []);
        assert_eq!(implied("s3:ListBucket", "arn:aws:s3:::bucket"), []);
    }

    #[test]
    fn a_function_starts_with_its_environment() {
        let encrypted = EncryptedResources {
            keys: BTreeMap::new(),
            environments: BTreeMap::from([("relay".to_owned(), "key/1".to_owned())]),
            region: "eu-west-1".to_owned(),
        };
        let calls: Vec<KeyCall> = encrypted.calls(&BTreeSet::new()).into_iter().collect();
        assert_eq!((calls[0].action, &*calls[0].via), ("kms:Decrypt", "lambda.eu-west-1.amazonaws.com"));
    }
}
