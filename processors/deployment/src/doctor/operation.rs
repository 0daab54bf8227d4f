//! The bucket with its archive, and freshness.

use std::time::Duration;

use super::facts::{ArchiveFacts, BucketFacts, DeploymentFacts, LookedAge, QueueFacts, age_text};
use super::{HealthFinding, on_part};

/// The prefix of the archive.
const ARCHIVE: &str = "archive/";
const LAYOUT: &str = "archive/dt=<day>/hh=<hour>/";
const FIREHOSE_PREFIX: &str = "archive/dt=!{timestamp:yyyy-MM-dd}/hh=!{timestamp:HH}/";
/// A heartbeat is written every minute.
const OLDEST_HEARTBEAT: Duration = Duration::from_secs(5 * 60);
/// Firehose collects for 15 minutes, the compactor runs every hour.
const OLDEST_ROWS: Duration = Duration::from_secs(3 * 60 * 60);
/// The first heartbeat of a deployment, whose functions start when its mappings are enabled.
const FIRST_HEARTBEAT: Duration = Duration::from_secs(15 * 60);
/// The first object of the archive: a heartbeat, which Firehose collects for 15 minutes.
const FIRST_OBJECT: Duration = Duration::from_secs(45 * 60);

pub(super) fn judge_operation(facts: &DeploymentFacts) -> Vec<HealthFinding> {
    let mut findings = Vec::new();
    let advice = "Create the bucket, or name another one in AFTERWRITE_BUCKET";
    on_part(&mut findings, "bucket", "bucket", &facts.bucket, advice, |bucket, findings| {
        judge_bucket(bucket, facts, findings);
    });
    findings
}

pub(super) fn judge_freshness(facts: &DeploymentFacts) -> Vec<HealthFinding> {
    let mut findings = Vec::new();
    for (table, age) in &facts.freshness.heartbeats {
        findings.push(judge_age(
            "heartbeat",
            table,
            age,
            (OLDEST_HEARTBEAT, FIRST_HEARTBEAT, facts.unchanged_for),
            "Schedule `afterwrite heartbeat`, or the schedule of the module, every minute: freshness is not measured without it",
        ));
    }
    for (dataset, age) in &facts.freshness.datasets {
        findings.push(judge_age(
            "dataset freshness",
            dataset,
            age,
            (OLDEST_ROWS, OLDEST_ROWS, facts.unchanged_for),
            "See the logs of exporter and compactor; `afterwrite export` and `afterwrite compact` do their work from here",
        ));
    }
    findings
}

fn judge_bucket(bucket: &BucketFacts, facts: &DeploymentFacts, findings: &mut Vec<HealthFinding>) {
    let queue: Option<&QueueFacts> = facts.queue.found();
    let name = bucket.name.as_str();
    match &bucket.archive {
        None => findings.push(HealthFinding::unchecked(
            "archive",
            name,
            "the permission s3:ListBucket is missing",
        )),
        Some(archive) => judge_archive(name, archive, facts.unchanged_for, findings),
    }
    let Some(notifications) = &bucket.notifications else {
        findings.push(HealthFinding::unchecked(
            "notification",
            name,
            "the permission s3:GetBucketNotification is missing",
        ));
        return;
    };
    let matching = notifications.iter().find(|(_, prefix)| prefix == ARCHIVE);
    let is_wired = matching.is_some_and(|(arn, _)| queue.is_none_or(|queue| queue.arn == *arn));
    let found: Vec<String> =
        notifications.iter().map(|(arn, prefix)| format!("`{prefix}` to {arn}")).collect();
    findings.push(HealthFinding::new(
        "notification",
        name,
        is_wired && notifications.len() == 1,
        if found.is_empty() { "none".to_owned() } else { found.join(", ") },
        "Notify the exporter's queue of created objects under archive/, and of nothing else: datasets/ would feed the exporter with its own files",
    ));
}

/// The archive has objects, all under `archive/dt=<day>/hh=<hour>/`.
fn judge_archive(
    bucket: &str,
    archive: &ArchiveFacts,
    unchanged_for: Option<Duration>,
    findings: &mut Vec<HealthFinding>,
) {
    const ADVICE: &str =
        "See the relay's log, and the prefix of the delivery stream: it must begin with archive/dt=";
    let newest = archive.newest.as_deref();
    match newest {
        Some(hour) => {
            let found = format!("newest hour {hour}");
            findings.push(HealthFinding::new("archive", bucket, true, found, ADVICE));
        }
        None if archive.foreign.is_empty() => findings.push(HealthFinding::expected(
            "archive",
            bucket,
            (FIRST_OBJECT, unchanged_for),
            "no object under archive/",
            ADVICE,
        )),
        None => {}
    }
    if newest.is_some() || !archive.foreign.is_empty() {
        findings.push(HealthFinding::new(
            "archive prefix",
            bucket,
            archive.foreign.is_empty(),
            if archive.foreign.is_empty() { LAYOUT.to_owned() } else { archive.foreign.join(", ") },
            format!("Set the delivery stream's prefix to {FIREHOSE_PREFIX}, and move these objects: `replay --from` finds objects by the day in their keys"),
        ));
    }
}

/// Judges an age against the greatest one of a healthy deployment. A new deployment has its first value after a time.
fn judge_age(
    check: &'static str,
    subject: &str,
    age: &LookedAge,
    (oldest, first, unchanged_for): (Duration, Duration, Option<Duration>),
    advice: &str,
) -> HealthFinding {
    match age {
        LookedAge::Known(age) => {
            HealthFinding::new(check, subject, *age <= oldest, format!("{} old", age_text(*age)), advice)
        }
        LookedAge::Never => HealthFinding::expected(check, subject, (first, unchanged_for), "never", advice),
        LookedAge::NotRead(reason) => HealthFinding::unchecked(check, subject, reason),
    }
}
