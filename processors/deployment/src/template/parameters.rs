//! The parameters of a template: what differs between deployments of one model.

use serde_json::{Map, Value, json};

use super::events;
use super::intrinsics::reference;
use super::{DeployedShape, source_key_parameter, stream_parameter};

/// The days for which CloudWatch Logs can keep logs.
const RETENTION_DAYS: [u32; 22] =
    [1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731, 1096, 1827, 2192, 2557, 2922, 3288, 3653];

/// The parameters for names, streams and the processor of the deployment.
fn add_deployed(shape: &DeployedShape<'_>, add: &mut impl FnMut(&str, Value)) {
    add(
        "Name",
        json!({
            "Type": "String", "Default": "afterwrite", "AllowedPattern": "^[a-z][a-z0-9-]{1,29}$",
            "Description": "The prefix of all names, and the dimension `service` of all metrics",
        }),
    );
    for (_, table) in shape.model.application_tables() {
        add(
            &stream_parameter(&table.name),
            json!({
                "Type": "String", "AllowedPattern": "^arn:[a-z-]+:dynamodb:[a-z0-9-]+:[0-9]{12}:table/[^/]+/stream/[^/]+$",
                "Description": format!("The stream of {}, with the view type NEW_AND_OLD_IMAGES", table.name),
            }),
        );
    }
    add("FormerTableNames", former_table_names());
    add(
        "Architecture",
        json!({
            "Type": "String", "Default": "arm64", "AllowedValues": ["arm64", "x86_64"],
            "Description": "The instruction set for which the zips are built",
        }),
    );
}

pub(super) fn parameters(shape: &DeployedShape<'_>) -> Map<String, Value> {
    let mut parameters = Map::new();
    let mut add = |name: &str, parameter: Value| {
        parameters.insert(name.to_owned(), parameter);
    };
    add_deployed(shape, &mut add);
    add("CacheUrl", cache_url());
    add(
        "CacheSecretArn",
        optional(
            "arn:[a-z-]+:secretsmanager:[a-z0-9-]+:[0-9]{12}:secret:.+",
            "A secret whose text is the cache's address, in place of CacheUrl: for an address with a password",
        ),
    );
    add("CacheCluster", cache_cluster());
    add(
        "VpcSubnetIds",
        json!({
            "Type": "CommaDelimitedList", "Default": "",
            "Description": "The subnets of the function that removes cache keys, with routes to Firehose, S3, SQS, DynamoDB and Secrets Manager; empty: no VPC",
        }),
    );
    add(
        "VpcSecurityGroupIds",
        json!({
            "Type": "CommaDelimitedList", "Default": "",
            "Description": "The security groups of that function, which the cache's group admits",
        }),
    );
    add(
        "DistributionId",
        optional("[A-Z0-9]+", "A CloudFront distribution; empty: no paths are invalidated"),
    );
    for target in events::targets(shape) {
        add(&target.parameter, target.value());
    }
    add(
        "KmsKeyArn",
        optional(
            "arn:[a-z-]+:kms:[a-z0-9-]+:[0-9]{12}:key/.+",
            "The key that encrypts table, buckets, queues, logs, filters and environments. Its policy must admit CloudWatch Logs, Lambda and S3; empty: keys that AWS owns",
        ),
    );
    for (_, table) in shape.model.application_tables() {
        add(
            &source_key_parameter(&table.name),
            optional(
                "arn:[a-z-]+:kms:[a-z0-9-]+:[0-9]{12}:key/.+",
                &format!(
                    "The key that encrypts {}, if it is not KmsKeyArn; empty: a key that AWS owns",
                    table.name
                ),
            ),
        );
    }
    add("AlarmTopicArn", optional("arn:.+", "An SNS topic that alarms notify; empty: none"));
    add(
        "RedrivePrincipalArn",
        optional(
            "arn:.+",
            "The role that may read failed records: attach the policy of the output RedrivePolicyArn to it; empty: none",
        ),
    );
    for (name, what) in [("StateWriteUnitsMax", "write"), ("StateReadUnitsMax", "read")] {
        add(
            name,
            optional(
                "[1-9][0-9]{0,6}",
                &format!(
                    "The most {what} units a second of the state table, if its capacity is provisioned, with auto scaling; empty: on demand"
                ),
            ),
        );
    }
    for (name, what) in [("StateWriteUnitsMin", "write"), ("StateReadUnitsMin", "read")] {
        add(
            name,
            json!({
                "Type": "Number", "Default": 5, "MinValue": 1,
                "Description": format!("The least {what} units a second of the state table, if its capacity is provisioned"),
            }),
        );
    }
    add(
        "Revision",
        json!({
            "Type": "String", "Default": "1", "AllowedPattern": "^[A-Za-z0-9._-]{1,64}$",
            "Description": "Change it together with other parameters: without a new zip, SAM publishes a version of the functions only then",
        }),
    );
    add(
        "LogRetentionDays",
        json!({
            "Type": "Number", "Default": 90, "AllowedValues": RETENTION_DAYS, "Description": "How long logs are kept",
        }),
    );
    parameters
}

/// A text that may be empty.
fn optional(pattern: &str, description: &str) -> Value {
    json!({
        "Type": "String", "Default": "", "AllowedPattern": format!("^({pattern})?$"), "Description": description,
    })
}

fn former_table_names() -> Value {
    optional(
        "[^=,]+=[^=,]+(,[^=,]+=[^=,]+)*",
        "Names that tables had before they were restored or replaced, as NAME=FORMER, separated by commas; NAME is the model's. Change records of these names are read; empty: none",
    )
}

fn cache_cluster() -> Value {
    json!({
        "Type": "String", "Default": "false", "AllowedValues": ["true", "false"],
        "Description": "Whether the cache is in cluster mode. ElastiCache Serverless is",
    })
}

fn cache_url() -> Value {
    json!({
        "Type": "String", "Default": "", "NoEcho": true, "AllowedPattern": "^(rediss?://[^@]+)?$",
        "Description": "redis:// or rediss://, without a password; empty: no cache keys are removed",
    })
}

/// The rules that CloudFormation checks before it changes anything.
pub(super) fn rules() -> Value {
    let is_empty = |parameter: &str| json!({ "Fn::Equals": [reference(parameter), ""] });
    let is_set = |parameter: &str| json!({ "Fn::Not": [is_empty(parameter)] });
    let both = |of: &dyn Fn(&str) -> Value| json!({ "Fn::And": [of("StateWriteUnitsMax"), of("StateReadUnitsMax")] });
    json!({
        "OneCacheAddress": {
            "Assertions": [{
                "Assert": { "Fn::Or": [is_empty("CacheUrl"), is_empty("CacheSecretArn")] },
                "AssertDescription": "Set CacheUrl or CacheSecretArn, not both",
            }],
        },
        "WholeCapacity": {
            "Assertions": [{
                "Assert": { "Fn::Or": [both(&is_empty), both(&is_set)] },
                "AssertDescription": "Set both StateWriteUnitsMax and StateReadUnitsMax for provisioned capacity, or neither",
            }],
        },
    })
}
