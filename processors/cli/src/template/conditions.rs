//! The conditions of a template: what the parameters decide.

use serde_json::{Map, Value, json};

/// A decision that the deployment's parameters make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Condition {
    HasCacheUrl,
    HasCacheSecret,
    HasCache,
    HasCacheCluster,
    /// The function that removes cache keys is in a VPC.
    HasNetwork,
    HasDistribution,
    /// Cache keys or paths are invalidated.
    Invalidates,
    HasKey,
    /// The source tables are encrypted with another key.
    HasSourceTableKey,
    HasAlarmTopic,
    HasRedrive,
}

impl Condition {
    const ALL: [Self; 11] = [
        Self::HasCacheUrl,
        Self::HasCacheSecret,
        Self::HasCache,
        Self::HasCacheCluster,
        Self::HasNetwork,
        Self::HasDistribution,
        Self::Invalidates,
        Self::HasKey,
        Self::HasSourceTableKey,
        Self::HasAlarmTopic,
        Self::HasRedrive,
    ];

    /// The section `Conditions`.
    pub(super) fn section() -> Map<String, Value> {
        Self::ALL.iter().map(|condition| (condition.name().to_owned(), condition.definition())).collect()
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::HasCacheUrl => "HasCacheUrl",
            Self::HasCacheSecret => "HasCacheSecret",
            Self::HasCache => "HasCache",
            Self::HasCacheCluster => "HasCacheCluster",
            Self::HasNetwork => "HasNetwork",
            Self::HasDistribution => "HasDistribution",
            Self::Invalidates => "Invalidates",
            Self::HasKey => "HasKey",
            Self::HasSourceTableKey => "HasSourceTableKey",
            Self::HasAlarmTopic => "HasAlarmTopic",
            Self::HasRedrive => "HasRedrive",
        }
    }

    fn definition(self) -> Value {
        match self {
            Self::HasCacheUrl => is_set(reference("CacheUrl")),
            Self::HasCacheSecret => is_set(reference("CacheSecretArn")),
            Self::HasCache => json!({ "Fn::Or": [Self::HasCacheUrl.used(), Self::HasCacheSecret.used()] }),
            Self::HasCacheCluster => json!({
                "Fn::And": [Self::HasCache.used(), { "Fn::Equals": [reference("CacheCluster"), "true"] }],
            }),
            Self::HasNetwork => {
                let subnets = json!({ "Fn::Join": ["", reference("VpcSubnetIds")] });
                json!({ "Fn::And": [Self::HasCache.used(), is_set(subnets)] })
            }
            Self::HasDistribution => is_set(reference("DistributionId")),
            Self::Invalidates => {
                json!({ "Fn::Or": [Self::HasCache.used(), Self::HasDistribution.used()] })
            }
            Self::HasKey => is_set(reference("KmsKeyArn")),
            Self::HasSourceTableKey => is_set(reference("SourceTableKeyArn")),
            Self::HasAlarmTopic => is_set(reference("AlarmTopicArn")),
            Self::HasRedrive => is_set(reference("RedrivePrincipalArn")),
        }
    }

    /// The condition within another one.
    fn used(self) -> Value {
        json!({ "Condition": self.name() })
    }
}

fn is_set(text: Value) -> Value {
    json!({ "Fn::Not": [{ "Fn::Equals": [text, ""] }] })
}

fn reference(parameter: &str) -> Value {
    json!({ "Ref": parameter })
}
