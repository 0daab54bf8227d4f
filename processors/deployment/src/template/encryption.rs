//! Permissions for the deployment's own key and for the keys of encrypted source tables. They follow from the other permissions of a role.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::conditions::{Condition, has_source_key};
use super::intrinsics::{reference, substituted, when};
use super::permissions::allow;
use super::{DeployedShape, source_key_parameter};

/// The actions for which a service decrypts with the permissions of the caller: of an encrypted table (and its stream), object, queue or
/// secret. The sender of a message also decrypts: SQS reuses a data key.
const DECRYPTING: [&str; 11] = [
    "dynamodb:BatchGetItem",
    "dynamodb:GetRecords",
    "dynamodb:PutItem",
    "dynamodb:Query",
    "dynamodb:Scan",
    "dynamodb:UpdateItem",
    "s3:GetObject",
    "secretsmanager:GetSecretValue",
    "sns:Publish",
    "sqs:ReceiveMessage",
    "sqs:SendMessage",
];
/// The actions for which a service makes a data key with the permissions of the caller.
const ENCRYPTING: [&str; 6] = [
    "dynamodb:PutItem",
    "dynamodb:UpdateItem",
    "firehose:PutRecordBatch",
    "s3:PutObject",
    "sns:Publish",
    "sqs:SendMessage",
];

/// Who has the permissions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KeyUser {
    /// A function, whose environment is encrypted, too.
    Function,
    /// A person or program with the policy of redrive.
    Operator,
}

/// The permissions for keys that the user of these statements needs, each if there is such a key.
pub(super) fn statements(shape: &DeployedShape<'_>, of: &[Value], user: KeyUser) -> Vec<Value> {
    let actions = actions(of);
    let mut decrypting = services(&actions, &DECRYPTING);
    let encrypting = services(&actions, &ENCRYPTING);
    let key_actions = [("kms:Decrypt", &decrypting), ("kms:GenerateDataKey", &encrypting)];
    let of_tables = key_actions.into_iter().filter(|(_, services)| services.contains("dynamodb"));
    let of_tables: Vec<&str> = of_tables.map(|(action, _)| action).collect();
    let reads_source_tables = match user {
        KeyUser::Function => {
            ["dynamodb:GetRecords", "dynamodb:Scan"].iter().any(|action| actions.contains(*action))
        }
        KeyUser::Operator => true,
    };
    if user == KeyUser::Function {
        decrypting.insert("lambda");
    }
    let mut statements = Vec::new();
    for (sid, services) in [("Decrypt", decrypting), ("GenerateDataKey", encrypting)] {
        if !services.is_empty() {
            let statement = allow(sid, &[&format!("kms:{sid}")], vec![reference("KmsKeyArn")]);
            statements.push(when(Condition::HasKey, through(statement, services)));
        }
    }
    if reads_source_tables && !of_tables.is_empty() {
        let statement = allow("SourceTableKeys", &of_tables, source_table_keys(shape));
        let statement = through(statement, BTreeSet::from(["dynamodb"]));
        statements.push(when(Condition::HasSourceTableKey, statement));
    }
    statements
}

/// The keys of the source tables that have one of their own.
fn source_table_keys(shape: &DeployedShape<'_>) -> Vec<Value> {
    let tables = shape.model.application_tables();
    tables
        .map(|(_, table)| {
            let (condition, key) =
                (has_source_key(&table.name), reference(&source_key_parameter(&table.name)));
            json!({ "Fn::If": [condition, key, reference("AWS::NoValue")] })
        })
        .collect()
}

/// A role that a service takes uses the key itself, or through these services.
pub(super) fn of_service<'s>(services: impl IntoIterator<Item = &'s str>) -> Value {
    let statement =
        allow("Encryption", &["kms:Decrypt", "kms:GenerateDataKey"], vec![reference("KmsKeyArn")]);
    when(Condition::HasKey, through(statement, services.into_iter().collect()))
}

/// Limited to the use of a key through these services, if there are any.
fn through(mut statement: Value, services: BTreeSet<&str>) -> Value {
    let services = services.into_iter();
    let services: Vec<Value> = services
        .map(|service| substituted(format!("{service}.${{AWS::Region}}.${{AWS::URLSuffix}}")))
        .collect();
    if let Some(statement) = statement.as_object_mut().filter(|_| !services.is_empty()) {
        let condition = json!({ "StringEquals": { "kms:ViaService": services } });
        statement.insert("Condition".to_owned(), condition);
    }
    statement
}

/// The services whose actions use a key.
fn services<'a>(actions: &'a BTreeSet<String>, uses: &[&str]) -> BTreeSet<&'a str> {
    let using = actions.iter().filter(|action| uses.contains(&action.as_str()));
    using.filter_map(|action| action.split_once(':')).map(|(service, _)| service).collect()
}

/// The actions of statements, also of conditional statements.
fn actions(statements: &[Value]) -> BTreeSet<String> {
    let unconditional =
        statements.iter().map(|statement| statement.pointer("/Fn::If/1").unwrap_or(statement));
    let actions = unconditional.filter_map(|statement| statement.get("Action")?.as_array()).flatten();
    actions.filter_map(|action| action.as_str().map(str::to_owned)).collect()
}

#[cfg(test)]
mod tests {
    use afterwrite_model::table::Model;

    use crate::cost::Observability;

    use super::*;

    #[test]
    fn a_key_is_used_through_the_services_that_the_statements_name() {
        let reading = allow("Objects", &["s3:GetObject", "s3:ListBucket"], Vec::new());
        let sending = when(Condition::HasDistribution, allow("Paths", &["sqs:SendMessage"], Vec::new()));
        let model = Model::load("exambuddy").unwrap();
        let observability = Observability::Full;
        let shape = DeployedShape { model: &model, code: "dist", is_single: false, nested: 0, observability };
        let statements = statements(&shape, &[reading, sending], KeyUser::Function).into_iter();
        let statements: Vec<Value> =
            statements.map(|mut statement| statement.pointer_mut("/Fn::If/1").unwrap().take()).collect();
        let services = |statement: &Value| {
            let services =
                statement["Condition"]["StringEquals"]["kms:ViaService"].as_array().unwrap().iter();
            let name =
                |service: &Value| service["Fn::Sub"].as_str().unwrap().split('.').next().map(str::to_owned);
            services.filter_map(name).collect::<Vec<_>>()
        };
        let [decrypting, encrypting] = &statements[..] else { panic!("{statements:?}") };
        assert_eq!(services(decrypting), ["lambda", "s3", "sqs"]);
        assert_eq!(services(encrypting), ["sqs"]);
    }
}
