//! The conditions of a template: decisions that follow from its parameters.

use serde_json::{Map, Value, json};

use super::{DeployedShape, logical, source_key_parameter};

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
    /// A source table is encrypted with another key.
    HasSourceTableKey,
    HasAlarmTopic,
    HasRedrive,
    /// A source table was restored under another name: records name the former one too.
    HasFormerTableNames,
    /// The state table has provisioned capacity.
    IsProvisioned,
}

impl Condition {
    const ALL: [Self; 13] = [
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
        Self::HasFormerTableNames,
        Self::IsProvisioned,
    ];

    /// The section `Conditions`.
    pub(super) fn section(shape: &DeployedShape<'_>) -> Map<String, Value> {
        let fixed =
            Self::ALL.iter().map(|condition| (condition.name().to_owned(), condition.definition(shape)));
        let of_tables = shape.model.application_tables().map(|(_, table)| {
            (has_source_key(&table.name), is_set(reference(&source_key_parameter(&table.name))))
        });
        fixed.chain(of_tables).collect()
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
            Self::HasFormerTableNames => "HasFormerTableNames",
            Self::IsProvisioned => "IsProvisioned",
        }
    }

    fn definition(self, shape: &DeployedShape<'_>) -> Value {
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
            Self::HasSourceTableKey => {
                let tables = shape.model.application_tables();
                let keys: Vec<Value> =
                    tables.map(|(_, table)| reference(&source_key_parameter(&table.name))).collect();
                is_set(json!({ "Fn::Join": ["", keys] }))
            }
            Self::HasAlarmTopic => is_set(reference("AlarmTopicArn")),
            Self::HasRedrive => is_set(reference("RedrivePrincipalArn")),
            Self::HasFormerTableNames => is_set(reference("FormerTableNames")),
            // Both, although a rule refuses one without the other: an index that ranks rollups has both as its capacity.
            Self::IsProvisioned => json!({
                "Fn::And": [is_set(reference("StateWriteUnitsMax")), is_set(reference("StateReadUnitsMax"))],
            }),
        }
    }

    /// The condition within another condition.
    fn used(self) -> Value {
        json!({ "Condition": self.name() })
    }
}

/// The name of the condition that a source table has a key of its own.
pub(super) fn has_source_key(table: &str) -> String {
    format!("Has{}SourceKey", logical(table))
}

fn is_set(text: Value) -> Value {
    json!({ "Fn::Not": [{ "Fn::Equals": [text, ""] }] })
}

fn reference(parameter: &str) -> Value {
    json!({ "Ref": parameter })
}
