//! The traces of an incident: objects in the buckets of failed records, and parked items. Each has the command that mends it.

use std::collections::BTreeSet;

use afterwrite_model::table::Model;
use afterwrite_services::config::ProjectionKind;

use super::delivery::projections;
use super::facts::{DeploymentFacts, FAILED_RECORDS, FailureFacts, Looked, age_text, count_text};
use super::{HealthFinding, on_part};

const PARKED: &str = "`afterwrite redrive --dry-run` shows why each of them is parked. Correct the items or the model; then `afterwrite redrive --yes` counts them";
const NO_INDEX: &str = "the state table has no index `parked`: `afterwrite redrive --dry-run` reads the whole table and lists parked items";

pub(super) fn judge_incidents(model: &Model, facts: &DeploymentFacts) -> Vec<HealthFinding> {
    let mut findings = Vec::new();
    let advice = "A mapping names it as its on-failure destination: apply the deployment again, which creates it. Failed records are lost until then";
    for (bucket, looked) in &facts.failures {
        on_part(&mut findings, "failed records", bucket, looked, advice, |failures, findings| {
            findings.push(judge_failures(bucket, failures, (model, facts)));
        });
    }
    let table = facts.state_table.0.as_str();
    match &facts.parked {
        Looked::Missing => findings.push(HealthFinding::unchecked("parked items", table, NO_INDEX)),
        looked @ (Looked::Found(_) | Looked::NotAllowed(_) | Looked::NotNamed(_) | Looked::NotRead(_)) => {
            on_part(&mut findings, "parked items", table, looked, "", |parked, findings| {
                let found = match parked.has_more {
                    true => format!("{} items", parked.number_text()),
                    false => count_text(parked.items, "item"),
                };
                findings.push(HealthFinding::new("parked items", table, parked.items == 0, found, PARKED));
            })
        }
    }
    findings
}

fn judge_failures(
    bucket: &str,
    failures: &FailureFacts,
    deployment: (&Model, &DeploymentFacts),
) -> HealthFinding {
    let objects: u64 = failures.objects.values().sum();
    let found = match (objects, failures.has_more) {
        (0, _) => "no objects".to_owned(),
        (1, false) => format!("1 object, {} old", age_text(failures.oldest)),
        (objects, false) => format!("{objects} objects, the oldest {} old", age_text(failures.oldest)),
        (objects, true) => {
            format!("more than {objects} objects, one of them {} old", age_text(failures.oldest))
        }
    };
    let commands = failures.objects.keys().map(|mapping| redrive_of(bucket, mapping, deployment));
    let advice = format!(
        "Lambda gave up their records, which are neither counted nor archived. Remove the cause (docs/RUNBOOK.md#on-failure); then run {}, and again with --yes in place of --dry-run",
        commands.collect::<Vec<_>>().join(" and ")
    );
    HealthFinding::new("failed records", bucket, objects == 0, found, advice)
}

/// The command that processes the objects of a mapping, by what its function hosts. It is between backquotes, and shows its effect first.
#[must_use]
pub fn redrive_of(bucket: &str, mapping: &str, (model, facts): (&Model, &DeploymentFacts)) -> String {
    let mut mappings = facts.mappings.iter().filter_map(Looked::found).flatten();
    let known = mappings.find(|known| known.id == mapping);
    let function = known.and_then(|known| Some((known, facts.functions.get(&known.function)?.found()?)));
    let hosted: BTreeSet<ProjectionKind> = match function {
        Some((known, function)) => projections(&known.function, function),
        // A mapping that was replaced, or whose function may not be looked at: everything that the deployment hosts.
        None => {
            let functions = facts.functions.iter().filter_map(|(name, looked)| Some((name, looked.found()?)));
            functions.flat_map(|(name, function)| projections(name, function)).collect()
        }
    };
    // Of unknown functions, nothing may be left out.
    let hosted = if hosted.is_empty() { ProjectionKind::ALL.into_iter().collect() } else { hosted };
    let needed = hosted.iter().filter(|kind| **kind != ProjectionKind::Notify || !model.events.is_empty());
    let hosted = needed.map(|kind| kind.name()).collect::<Vec<_>>().join(",");
    let only = format!(" --only {hosted}");
    format!("`afterwrite redrive s3://{bucket}/{FAILED_RECORDS}{mapping}/{only} --dry-run`")
}
