//! The check of a deployment: judges the facts that were read against the model, and names the change that mends each fault.
//!
//! ```text
//! look (requests that only read) ─▶ DeploymentFacts ─▶ judge ─▶ findings: healthy, change, not checked
//! ```
//!
//! Judging is pure. A part that may not be looked at is not checked; it is never a fault.

mod delivery;
mod drift;
mod events;
mod facts;
mod incident;
mod look;
mod operation;
mod queues;
mod reader;
mod source;

use std::time::Duration;

use afterwrite_model::table::Model;
use serde::Serialize;

use self::facts::wait_text;
pub use self::facts::{
    ArchiveFacts, BucketFacts, DeploymentFacts, DriftCounts, DriftFacts, DriftReport, DryCall,
    EventTargetFacts, FAILED_RECORDS, FailureFacts, FreshnessFacts, FunctionFacts, IndexFacts, Looked,
    LookedAge, MappingFacts, ParkedFacts, QueueConsumer, QueueFacts, REPORTS, TableFacts, age_text,
    count_text, or_more,
};
pub use self::incident::redrive_of;
pub use self::look::deployment_facts;
pub use self::reader::ReaderSigns;

/// The judgement on one property.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum HealthVerdict {
    /// As it must be.
    Healthy,
    /// Something is to be changed.
    Change,
    /// A new deployment does not have it yet.
    NotYet,
    /// A look was not allowed, or was not possible without a setting.
    NotChecked,
}

impl HealthVerdict {
    /// The verdict, in words.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Healthy => "healthy",
            Self::Change => "CHANGE",
            Self::NotYet => "not yet",
            Self::NotChecked => "not checked",
        }
    }
}

/// A property of a deployment, judged.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct HealthFinding {
    /// The check, the same in every run.
    pub check: &'static str,
    /// The table, function, mapping, queue or bucket.
    pub subject: String,
    /// The judgement.
    pub verdict: HealthVerdict,
    /// The property as it is.
    pub found: String,
    /// The change that mends it, why it was not checked, or when it is expected.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub advice: Option<String>,
}

impl HealthFinding {
    /// A property with its advice in case it is not `is_healthy`.
    pub(crate) fn new(
        check: &'static str,
        subject: &str,
        is_healthy: bool,
        found: impl Into<String>,
        advice: impl Into<String>,
    ) -> Self {
        let verdict = if is_healthy { HealthVerdict::Healthy } else { HealthVerdict::Change };
        let advice = (!is_healthy).then(|| advice.into());
        Self { check, subject: subject.to_owned(), verdict, found: found.into(), advice }
    }

    /// Something that a deployment has `after` this time. It is missing if the deployment is older, or if its age is unknown.
    pub(crate) fn expected(
        check: &'static str,
        subject: &str,
        (after, unchanged_for): (Duration, Option<Duration>),
        found: impl Into<String>,
        advice: impl Into<String>,
    ) -> Self {
        let left = unchanged_for.and_then(|age| after.checked_sub(age)).filter(|left| !left.is_zero());
        let finding = Self::new(check, subject, false, found, advice);
        match left {
            None => finding,
            Some(left) => Self {
                verdict: HealthVerdict::NotYet,
                advice: Some(format!(
                    "the deployment is new: expected within {}; then run `afterwrite doctor` again",
                    wait_text(left)
                )),
                ..finding
            },
        }
    }

    /// A property that was not checked.
    pub(crate) fn unchecked(check: &'static str, subject: &str, why: impl Into<String>) -> Self {
        Self {
            check,
            subject: subject.to_owned(),
            verdict: HealthVerdict::NotChecked,
            found: String::new(),
            advice: Some(why.into()),
        }
    }
}

/// Judges a deployment.
#[must_use]
pub fn judge(model: &Model, facts: &DeploymentFacts) -> Vec<HealthFinding> {
    let mut findings = source::judge_tables(model, facts);
    findings.extend(delivery::judge_delivery(model, facts));
    findings.extend(operation::judge_operation(facts));
    findings.extend(queues::judge_queues(facts));
    findings.extend(events::judge_events(model, facts));
    findings.extend(incident::judge_incidents(model, facts));
    findings.extend(operation::judge_freshness(facts));
    findings.extend(drift::judge_drift(facts));
    findings
}

/// Adds the findings on a part that was found; or that it is missing, or was not checked.
pub(crate) fn on_part<T>(
    findings: &mut Vec<HealthFinding>,
    check: &'static str,
    subject: &str,
    part: &Looked<T>,
    advice: &str,
    mut judge: impl FnMut(&T, &mut Vec<HealthFinding>),
) {
    match part {
        Looked::Found(part) => judge(part, findings),
        Looked::Missing => findings.push(HealthFinding::new(check, subject, false, "does not exist", advice)),
        Looked::NotAllowed(permission) => {
            findings.push(HealthFinding::unchecked(
                check,
                subject,
                format!("the permission {permission} is missing"),
            ));
        }
        Looked::NotNamed(setting) => {
            findings.push(HealthFinding::unchecked(check, subject, format!("name it with {setting}")));
        }
        Looked::NotRead(reason) => findings.push(HealthFinding::unchecked(check, subject, reason)),
    }
}

#[cfg(test)]
mod tests;
