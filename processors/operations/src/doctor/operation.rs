//! Archive, exporter, freshness and drift.

use std::time::Duration;

use super::facts::{BucketFacts, DeploymentFacts, LookedAge, QueueFacts};
use super::{HealthFinding, on_part};

/// The prefix of the archive.
const ARCHIVE: &str = "archive/";
/// A heartbeat is written every minute.
const OLDEST_HEARTBEAT: Duration = Duration::from_secs(5 * 60);
/// Firehose collects for 15 minutes, the compactor runs every hour.
const OLDEST_ROWS: Duration = Duration::from_secs(3 * 60 * 60);

pub(super) fn judge_operation(facts: &DeploymentFacts) -> Vec<HealthFinding> {
    let mut findings = Vec::new();
    let advice = "Create the bucket, or name another one in AFTERWRITE_BUCKET";
    on_part(&mut findings, "bucket", "bucket", &facts.bucket, advice, |bucket, findings| {
        judge_bucket(bucket, facts.queue.found(), findings);
    });
    let advice =
        "Create a queue that the bucket notifies of new objects, and a mapping from it to the exporter";
    on_part(&mut findings, "queue", "queue of the exporter", &facts.queue, advice, judge_queue);
    for (table, age) in &facts.freshness.heartbeats {
        findings.push(judge_age(
            "heartbeat",
            table,
            age,
            OLDEST_HEARTBEAT,
            "Schedule `afterwrite heartbeat`, or the schedule of the module, every minute: freshness is not measured without it",
        ));
    }
    for (dataset, age) in &facts.freshness.datasets {
        findings.push(judge_age(
            "dataset freshness",
            dataset,
            age,
            OLDEST_ROWS,
            "See the logs of exporter and compactor; `afterwrite export` and `afterwrite compact` do their work from here",
        ));
    }
    findings.push(match facts.drift {
        None => HealthFinding::unchecked(
            "drift",
            "report",
            "name a report of `afterwrite verify --report FILE` with --report",
        ),
        Some(differences) => HealthFinding::new(
            "drift",
            "report",
            differences == 0,
            format!("{differences} differences"),
            "Run `afterwrite repair` with the report, after `afterwrite repair --dry-run`",
        ),
    });
    findings
}

fn judge_bucket(bucket: &BucketFacts, queue: Option<&QueueFacts>, findings: &mut Vec<HealthFinding>) {
    let name = bucket.name.as_str();
    findings.push(match bucket.is_archived_to {
        None => HealthFinding::unchecked("archive", name, "the permission s3:ListBucket is missing"),
        Some(is_archived) => HealthFinding::new(
            "archive",
            name,
            is_archived,
            if is_archived { "has objects under archive/" } else { "no object under archive/" },
            "See the relay's log, and the prefix of the delivery stream: it must begin with archive/dt=",
        ),
    });
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

fn judge_queue(queue: &QueueFacts, findings: &mut Vec<HealthFinding>) {
    let name = queue.arn.rsplit(':').next().unwrap_or_default();
    match &queue.consumer {
        None => findings.push(HealthFinding::new(
            "queue consumer",
            name,
            false,
            "none",
            "Create an event source mapping from the queue to the exporter, with ReportBatchItemFailures",
        )),
        Some(looked) => {
            let advice = "The mapping names a function that does not exist: remove the mapping";
            on_part(findings, "queue consumer", name, looked, advice, |(function, timeout), findings| {
                findings.push(HealthFinding::new("queue consumer", name, true, function.as_str(), ""));
                let seconds = queue.visibility;
                findings.push(HealthFinding::new(
                    "queue visibility",
                    name,
                    seconds >= 6 * timeout,
                    format!("{seconds} s, the function runs up to {timeout} s"),
                    format!(
                        "Set the visibility timeout to {} s: six times the function's timeout",
                        6 * timeout
                    ),
                ));
            });
        }
    }
    findings.push(HealthFinding::new(
        "dead-letter queue",
        name,
        queue.has_dead_letters,
        if queue.has_dead_letters { "exists" } else { "none" },
        "Set a redrive policy: a message that cannot be processed is received again until it expires otherwise",
    ));
    findings.extend(queue.dead_letters.map(|letters| {
        HealthFinding::new(
            "dead letters",
            name,
            letters == 0,
            format!("{letters} messages"),
            "Mend the cause in the exporter's log, then `afterwrite export` exports the objects that were missed",
        )
    }));
}

fn judge_age(
    check: &'static str,
    subject: &str,
    age: &LookedAge,
    oldest: Duration,
    advice: &str,
) -> HealthFinding {
    match age {
        LookedAge::Known(age) => {
            HealthFinding::new(check, subject, *age <= oldest, format!("{} s old", age.as_secs()), advice)
        }
        LookedAge::Never => HealthFinding::new(check, subject, false, "never", advice),
        LookedAge::NotRead(reason) => HealthFinding::unchecked(check, subject, reason),
    }
}
