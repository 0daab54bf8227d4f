//! Evaluates policies of IAM as AWS does: an explicit denial wins, and a call needs a statement that allows it.
//!
//! It knows the parts of the policy language that the module uses. An operator that it does not know fails the test: to ignore a condition
//! would allow too much.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use serde_json::Value;

/// A policy of a role, or of a bucket.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct PolicyDocument {
    #[serde(rename = "Statement")]
    pub(crate) statements: Vec<PolicyStatement>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct PolicyStatement {
    pub(crate) sid: String,
    effect: PolicyEffect,
    action: OneOrMany,
    resource: OneOrMany,
    #[serde(default)]
    condition: BTreeMap<String, BTreeMap<String, OneOrMany>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub(crate) enum PolicyEffect {
    Allow,
    Deny,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
enum OneOrMany {
    One(String),
    Many(Vec<String>),
}

/// The facts of a request that conditions look at, by the name of the condition's key. Keys that a request does not have are absent.
pub(crate) type RequestContext = BTreeMap<&'static str, BTreeSet<String>>;

/// A call as policies judge it.
#[derive(Clone, Debug)]
pub(crate) struct JudgedCall<'c> {
    pub(crate) action: &'c str,
    pub(crate) resource: &'c str,
    pub(crate) context: RequestContext,
}

/// A permission that a statement grants: one of its actions on one of its resources.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct GrantedPermission {
    pub(crate) statement: String,
    pub(crate) action: String,
    pub(crate) resource: String,
}

/// The judgement of a call.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum PolicyDecision {
    /// Allowed by these permissions.
    Allowed(Vec<GrantedPermission>),
    /// Denied by the statement with this identifier.
    Denied(String),
    /// No statement allows it.
    NotAllowed,
}

impl PolicyDocument {
    /// Reads a policy.
    pub(crate) fn parse(json: &str) -> Self {
        serde_json::from_str(json)
            .unwrap_or_else(|error| panic!("a policy that cannot be read: {error}: {json}"))
    }

    /// All permissions that it grants.
    pub(crate) fn grants(&self) -> BTreeSet<GrantedPermission> {
        let mut permissions = BTreeSet::new();
        for statement in self.statements.iter().filter(|statement| statement.effect == PolicyEffect::Allow) {
            for action in statement.action.iter() {
                permissions
                    .extend(statement.resource.iter().map(|resource| statement.permission(action, resource)));
            }
        }
        permissions
    }
}

/// Judges a call by the policy of the caller's role and the policy of the resource, if it has one. Both are of one account: an allowance
/// of either is enough, and a denial of either wins. Only the role's allowances are returned.
pub(crate) fn decide(
    call: &JudgedCall<'_>,
    role: &PolicyDocument,
    of_resource: Option<&PolicyDocument>,
) -> PolicyDecision {
    let documents = std::iter::once(role).chain(of_resource);
    let mut denials = documents.flat_map(|document| &document.statements).filter(|statement| {
        statement.effect == PolicyEffect::Deny && statement.matching(call).next().is_some()
    });
    if let Some(denial) = denials.next() {
        return PolicyDecision::Denied(denial.sid.clone());
    }
    let allowing = role.statements.iter().filter(|statement| statement.effect == PolicyEffect::Allow);
    let permissions: Vec<GrantedPermission> =
        allowing.flat_map(|statement| statement.matching(call)).collect();
    if permissions.is_empty() { PolicyDecision::NotAllowed } else { PolicyDecision::Allowed(permissions) }
}

impl PolicyStatement {
    /// The pairs of an action and a resource that match a call; none if a condition does not hold.
    fn matching(&self, call: &JudgedCall<'_>) -> impl Iterator<Item = GrantedPermission> {
        let holds = self.condition.iter().all(|(operator, keys)| {
            keys.iter()
                .all(|(key, patterns)| condition_holds(operator, call.context.get(key.as_str()), patterns))
        });
        let actions = self.action.iter().filter(move |action| holds && matches_action(action, call.action));
        actions.flat_map(|action| {
            let resources = self.resource.iter().filter(|resource| matches_pattern(resource, call.resource));
            resources.map(|resource| self.permission(action, resource))
        })
    }

    fn permission(&self, action: &str, resource: &str) -> GrantedPermission {
        let (action, resource) = (action.to_owned(), resource.to_owned());
        GrantedPermission { statement: self.sid.clone(), action, resource }
    }
}

impl OneOrMany {
    fn iter(&self) -> impl Iterator<Item = &String> {
        match self {
            Self::One(text) => std::slice::from_ref(text).iter(),
            Self::Many(texts) => texts.iter(),
        }
    }
}

/// Whether a condition holds. Without the key in the request, a positive operator does not hold, and a negated one or `ForAllValues` does.
fn condition_holds(operator: &str, values: Option<&BTreeSet<String>>, patterns: &OneOrMany) -> bool {
    let matches = |matches: fn(&str, &str) -> bool, value: &String| {
        patterns.iter().any(|pattern| matches(pattern, value))
    };
    let is_one = |compare: fn(&str, &str) -> bool| {
        values.is_some_and(|values| values.iter().any(|value| matches(compare, value)))
    };
    match operator {
        "ForAllValues:StringLike" => {
            values.into_iter().flatten().all(|value| matches(matches_pattern, value))
        }
        "StringEquals" | "Bool" => is_one(is_equal),
        "ArnLike" | "ArnEquals" | "StringLike" => is_one(matches_pattern),
        "ArnNotLike" => !is_one(matches_pattern),
        _ => panic!("the evaluator does not know the operator {operator}"),
    }
}

fn is_equal(pattern: &str, value: &str) -> bool {
    pattern == value
}

/// Actions are compared without case.
fn matches_action(pattern: &str, action: &str) -> bool {
    matches_pattern(&pattern.to_ascii_lowercase(), &action.to_ascii_lowercase())
}

/// `*` stands for any characters, `?` for one.
pub(crate) fn matches_pattern(pattern: &str, text: &str) -> bool {
    let Some((first, rest)) = split_first(pattern) else { return text.is_empty() };
    match (first, split_first(text)) {
        ('*', None) => matches_pattern(rest, text),
        ('*', Some((_, tail))) => matches_pattern(rest, text) || matches_pattern(pattern, tail),
        (_, None) => false,
        (first, Some((character, tail))) => {
            (first == '?' || first == character) && matches_pattern(rest, tail)
        }
    }
}

fn split_first(text: &str) -> Option<(char, &str)> {
    let mut characters = text.chars();
    Some((characters.next()?, characters.as_str()))
}

/// The policy of a resource of the applied state.
pub(crate) fn policy_of(values: &Value) -> PolicyDocument {
    PolicyDocument::parse(values["policy"].as_str().expect("a policy"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROLE: &str = r#"{"Version": "2012-10-17", "Statement": [
        {"Sid": "Ledger", "Effect": "Allow", "Action": ["dynamodb:PutItem", "dynamodb:Batch*"], "Resource": ["arn:t/state"],
         "Condition": {"ForAllValues:StringLike": {"dynamodb:LeadingKeys": ["LEDGER#*", "ADMIN#?"]}}},
        {"Sid": "Objects", "Effect": "Allow", "Action": "s3:GetObject", "Resource": "arn:b/*"},
        {"Sid": "Key", "Effect": "Allow", "Action": "kms:Decrypt", "Resource": "*",
         "Condition": {"StringEquals": {"kms:ViaService": ["s3.amazonaws.com"]}}}]}"#;
    const BUCKET: &str = r#"{"Statement": [
        {"Sid": "Tls", "Effect": "Deny", "Principal": "*", "Action": "s3:*", "Resource": "arn:b/*",
         "Condition": {"Bool": {"aws:SecureTransport": "false"}}},
        {"Sid": "RedriveAlone", "Effect": "Deny", "Principal": "*", "Action": "s3:GetObject", "Resource": "arn:b/failed/*",
         "Condition": {"ArnNotLike": {"aws:PrincipalArn": ["arn:role/redrive"]}}}]}"#;

    fn call<'c>(action: &'c str, resource: &'c str, context: &[(&'static str, &[&str])]) -> JudgedCall<'c> {
        let values = |values: &[&str]| values.iter().map(|value| (*value).to_owned()).collect();
        let context = context.iter().map(|(key, texts)| (*key, values(texts))).collect();
        JudgedCall { action, resource, context }
    }

    fn decision(call: &JudgedCall<'_>) -> String {
        let (role, bucket) = (PolicyDocument::parse(ROLE), PolicyDocument::parse(BUCKET));
        match decide(call, &role, Some(&bucket)) {
            PolicyDecision::Allowed(permissions) => permissions[0].statement.clone(),
            PolicyDecision::Denied(statement) => format!("denied by {statement}"),
            PolicyDecision::NotAllowed => "not allowed".to_owned(),
        }
    }

    #[test]
    fn an_action_and_a_resource_must_match_one_statement() {
        assert_eq!(decision(&call("dynamodb:PutItem", "arn:t/state", &[])), "Ledger");
        assert_eq!(decision(&call("dynamodb:BatchGetItem", "arn:t/state", &[])), "Ledger");
        assert_eq!(decision(&call("dynamodb:DeleteItem", "arn:t/state", &[])), "not allowed");
        assert_eq!(decision(&call("dynamodb:PutItem", "arn:t/state2", &[])), "not allowed");
        assert_eq!(decision(&call("S3:getobject", "arn:b/x/y", &[])), "Objects");
    }

    #[test]
    fn all_leading_keys_must_match() {
        let put = |keys: &[&str]| {
            decision(&call("dynamodb:PutItem", "arn:t/state", &[("dynamodb:LeadingKeys", keys)]))
        };
        assert_eq!(put(&["LEDGER#a", "ADMIN#1"]), "Ledger");
        assert_eq!(put(&["LEDGER#a", "ADMIN#12"]), "not allowed");
        assert_eq!(put(&["OTHER#a"]), "not allowed");
    }

    #[test]
    fn a_condition_on_a_key_that_the_request_lacks_does_not_hold() {
        assert_eq!(decision(&call("kms:Decrypt", "arn:key", &[])), "not allowed");
        let via = call("kms:Decrypt", "arn:key", &[("kms:ViaService", &["s3.amazonaws.com"])]);
        assert_eq!(decision(&via), "Key");
        let other = call("kms:Decrypt", "arn:key", &[("kms:ViaService", &["dynamodb.amazonaws.com"])]);
        assert_eq!(decision(&other), "not allowed");
    }

    #[test]
    fn a_denial_wins_over_an_allowance() {
        let get = |resource, principal: &str, tls: &str| {
            let context = [("aws:PrincipalArn", [principal]), ("aws:SecureTransport", [tls])];
            let context = context.each_ref().map(|(key, values)| (*key, values.as_slice()));
            decision(&call("s3:GetObject", resource, &context))
        };
        assert_eq!(get("arn:b/failed/1", "arn:role/exporter", "true"), "denied by RedriveAlone");
        assert_eq!(get("arn:b/failed/1", "arn:role/redrive", "true"), "Objects");
        assert_eq!(get("arn:b/other/1", "arn:role/exporter", "true"), "Objects");
        assert_eq!(get("arn:b/other/1", "arn:role/exporter", "false"), "denied by Tls");
    }

    #[test]
    fn a_statement_grants_each_action_on_each_resource() {
        let grants = PolicyDocument::parse(ROLE).grants();
        let actions: Vec<&str> = grants.iter().map(|grant| grant.action.as_str()).collect();
        assert_eq!(actions, ["kms:Decrypt", "dynamodb:Batch*", "dynamodb:PutItem", "s3:GetObject"]);
    }

    #[test]
    #[should_panic(expected = "does not know the operator NumericLessThan")]
    fn an_operator_that_is_not_known_fails() {
        let policy = ROLE.replace("StringEquals", "NumericLessThan");
        let _decision = decide(&call("kms:Decrypt", "arn:key", &[]), &PolicyDocument::parse(&policy), None);
    }
}
