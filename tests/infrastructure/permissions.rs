//! Least privilege, measured: every call of a run is allowed by the applied policies, with the calls that services make for it with the key
//! of the resource, and every permission that no call needed is listed in a file with its reason.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;

use afterwrite_tests::aws_call::AwsCall;

use super::applied::{AppliedState, text};
use super::key_usage::{EncryptedResources, KeyCall};
use super::policies::{
    GrantedPermission, JudgedCall, PolicyDecision, PolicyDocument, RequestContext, decide, policy_of,
};
use super::read;

/// A permission of a role.
type RolePermission = (String, GrantedPermission);

/// The roles of a state, with their policies.
struct AppliedRoles {
    roles: BTreeMap<String, PolicyDocument>,
    /// The policies of buckets, by the buckets' ARNs.
    buckets: BTreeMap<String, PolicyDocument>,
    account: String,
}

impl AppliedRoles {
    fn of(state: &AppliedState) -> Self {
        let functions = state.by_key("aws_iam_role_policy", "function").into_iter();
        let mut roles: BTreeMap<String, PolicyDocument> =
            functions.map(|(function, values)| (function.to_owned(), policy_of(values))).collect();
        for service in ["firehose", "scheduler"] {
            let policy = state.one("aws_iam_role_policy", service).expect("the role of a service");
            roles.insert(service.to_owned(), policy_of(policy));
        }
        let redrive = state.one("aws_iam_policy", "redrive").expect("the policy of redrive");
        roles.insert("redrive".to_owned(), policy_of(redrive));
        let buckets = state.all("aws_s3_bucket_policy");
        let arn = |bucket: &str| format!("arn:aws:s3:::{bucket}");
        Self {
            roles,
            buckets: buckets
                .map(|policy| (arn(text(&policy.values["bucket"])), policy_of(&policy.values)))
                .collect(),
            account: state.scope().account,
        }
    }

    fn role(&self, principal: &str) -> &PolicyDocument {
        self.roles.get(principal).unwrap_or_else(|| panic!("{principal} has no role"))
    }

    /// Judges a call by the policy of its caller and the policy of the bucket, if it concerns one.
    fn decide(&self, call: &AwsCall) -> PolicyDecision {
        let bucket = call.resource.split('/').next().and_then(|bucket| self.buckets.get(bucket));
        let one = |value: String| BTreeSet::from([value]);
        let mut context: RequestContext = BTreeMap::from([
            ("aws:SecureTransport", one("true".to_owned())),
            ("aws:PrincipalArn", one(format!("arn:aws:iam::{}:role/{}", self.account, call.principal))),
        ]);
        if !call.leading_keys.is_empty() {
            context.insert("dynamodb:LeadingKeys", call.leading_keys.clone());
        }
        let judged = JudgedCall { action: &call.action, resource: &call.resource, context };
        decide(&judged, self.role(&call.principal), bucket)
    }

    /// Judges the use of a key by the policy of the caller: the key's policy leaves it to that.
    fn decide_key(&self, call: &KeyCall) -> PolicyDecision {
        let context = BTreeMap::from([("kms:ViaService", BTreeSet::from([call.via.clone()]))]);
        let judged = JudgedCall { action: call.action, resource: &call.key, context };
        decide(&judged, self.role(&call.principal), None)
    }
}

/// The calls that a policy does not allow.
pub(crate) fn refusals(state: &AppliedState, calls: &BTreeSet<AwsCall>) -> Vec<String> {
    let roles = AppliedRoles::of(state);
    let refusal = |call: &AwsCall| match roles.decide(call) {
        PolicyDecision::Allowed(_) => None,
        decision @ (PolicyDecision::Denied(_) | PolicyDecision::NotAllowed) => {
            Some(format!("the applied policies refuse {call:?}: {decision:?}"))
        }
    };
    calls.iter().filter_map(refusal).collect()
}

/// The calls that a policy does not allow, and the differences of the list of permissions that no call needed.
pub(crate) fn problems(example: &str, state: &AppliedState, calls: &BTreeSet<AwsCall>) -> Vec<String> {
    let roles = AppliedRoles::of(state);
    let (mut problems, mut needed) = (Vec::new(), BTreeSet::<RolePermission>::new());
    let mut take = |principal: &str, decision: PolicyDecision, call: &dyn Debug| match decision {
        PolicyDecision::Allowed(permissions) => {
            needed.extend(permissions.into_iter().map(|permission| (principal.to_owned(), permission)));
        }
        PolicyDecision::Denied(_) | PolicyDecision::NotAllowed => {
            problems.push(format!("the applied policies refuse {call:?}: {decision:?}"));
        }
    };
    for call in calls {
        take(&call.principal, roles.decide(call), call);
    }
    for call in &EncryptedResources::of(state).calls(calls) {
        take(&call.principal, roles.decide_key(call), call);
    }
    let callers: BTreeSet<&String> = calls.iter().map(|call| &call.principal).collect();
    assert_eq!(callers, roles.roles.keys().collect::<BTreeSet<_>>(), "each role makes calls");

    let granted = roles.roles.iter();
    let granted =
        granted.flat_map(|(role, policy)| policy.grants().into_iter().map(|grant| (role.clone(), grant)));
    let unused = granted.filter(|permission| !needed.contains(permission));
    let unused: BTreeSet<String> = unused.map(|permission| line(&permission)).collect();
    let path = format!("tests/infrastructure/unused_permissions/{example}.txt");
    let listed = listed(&read(&path));
    let without_reason = listed.iter().filter(|(_, reason)| reason.len() < 20);
    problems.extend(without_reason.map(|(line, _)| format!("{path}: there is no reason for {line}")));
    let not_listed = unused.iter().filter(|permission| !listed.contains_key(*permission));
    problems.extend(
        not_listed.map(|permission| format!("{path}: no call needs, and it does not list: {permission}")),
    );
    let outdated = listed.keys().filter(|permission| !unused.contains(*permission));
    problems
        .extend(outdated.map(|permission| format!("{path}: a call needs, or nothing grants: {permission}")));
    problems
}

/// A permission as the file has it. The statement's name is left out: two statements may grant the same. So is the id of a key, which
/// is another one each time.
fn line((role, grant): &RolePermission) -> String {
    let resource = match grant.resource.split_once(":key/") {
        Some((account, _id)) => format!("{account}:key/ID"),
        None => grant.resource.clone(),
    };
    format!("{role}: {} on {resource}", grant.action)
}

/// The permissions of a file, with their reasons. A reason is a comment before the permissions that it concerns.
fn listed(file: &str) -> BTreeMap<String, String> {
    let (mut permissions, mut reason, mut is_reason) = (BTreeMap::new(), String::new(), false);
    for line in file.lines().filter(|line| !line.is_empty()) {
        match line.strip_prefix("# ") {
            Some(more) if is_reason => reason.push_str(more),
            Some(first) => reason = first.to_owned(),
            None => {
                permissions.insert(line.to_owned(), reason.clone());
            }
        }
        is_reason = line.starts_with('#');
    }
    permissions
}

#[test]
fn a_reason_concerns_the_permissions_after_it() {
    let listed = listed(
        "# The first reason,\n# on two lines.\na: b on c\na: d on c\n\n# Another reason.\ne: f on g\n",
    );
    let reasons: Vec<(&str, &str)> =
        listed.iter().map(|(line, reason)| (line.as_str(), reason.as_str())).collect();
    let first = "The first reason,on two lines.";
    assert_eq!(reasons, [("a: b on c", first), ("a: d on c", first), ("e: f on g", "Another reason.")]);
}
