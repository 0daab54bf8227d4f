//! The queue of the exporter and the queue of stale paths: their readers, time limits and dead-letter queues.

use super::facts::{DeploymentFacts, QueueConsumer, QueueFacts};
use super::{HealthFinding, on_part};

const DEAD_LETTERS: &str = "Set a redrive policy to a queue that exists: a message that cannot be processed is received again until it expires otherwise";

/// The purpose of a queue, which decides the settings that it needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum QueuePurpose {
    Export,
    Paths,
}

impl QueuePurpose {
    fn reader(self) -> &'static str {
        match self {
            Self::Export => "exporter",
            Self::Paths => "invalidator",
        }
    }

    /// The shortest visibility timeout for a function with this timeout. Messages that the invalidator returns wait for CloudFront, so they
    /// must only outlast the invocation.
    fn least_visibility(self, timeout: u64) -> u64 {
        match self {
            Self::Export => 6 * timeout,
            Self::Paths => timeout + 1,
        }
    }

    fn recovery(self) -> &'static str {
        match self {
            Self::Export => {
                "Mend the cause in the exporter's log, then `afterwrite export` exports the objects that were missed"
            }
            Self::Paths => {
                "Mend the cause in the invalidator's log, then return the messages: `aws sqs start-message-move-task`"
            }
        }
    }
}

pub(super) fn judge_queues(facts: &DeploymentFacts) -> Vec<HealthFinding> {
    let mut findings = Vec::new();
    let advice =
        "Create a queue that the bucket notifies of new objects, and a mapping from it to the exporter";
    on_part(&mut findings, "queue", "queue of the exporter", &facts.queue, advice, |queue, findings| {
        judge_queue(QueuePurpose::Export, queue, findings);
    });
    let advice = "AFTERWRITE_CDN_QUEUE of a function names it: create it, with a mapping to the invalidator";
    for (url, queue) in &facts.path_queues {
        let name = url.rsplit('/').next().unwrap_or(url);
        on_part(&mut findings, "queue", name, queue, advice, |queue, findings| {
            judge_queue(QueuePurpose::Paths, queue, findings);
        });
    }
    findings
}

fn judge_queue(purpose: QueuePurpose, queue: &QueueFacts, findings: &mut Vec<HealthFinding>) {
    let name = queue.arn.rsplit(':').next().unwrap_or_default();
    match &queue.consumer {
        None => {
            findings.push(HealthFinding::new("queue consumer", name, false, "none", consumer_advice(purpose)))
        }
        Some(looked) => {
            let advice = "The mapping names a function that does not exist: remove the mapping";
            on_part(findings, "queue consumer", name, looked, advice, |consumer, findings| {
                findings.push(judge_consumer(purpose, name, consumer));
                findings.push(judge_visibility(purpose, name, queue.visibility, consumer.timeout));
            });
        }
    }
    let has_dead_letters = queue.dead_letters.is_some();
    findings.push(HealthFinding::new(
        "dead-letter queue",
        name,
        has_dead_letters,
        if has_dead_letters { "named" } else { "none" },
        DEAD_LETTERS,
    ));
    if let Some(letters) = &queue.dead_letters {
        on_part(findings, "dead letters", name, letters, DEAD_LETTERS, |letters, findings| {
            let found = format!("{letters} messages");
            findings.push(HealthFinding::new("dead letters", name, *letters == 0, found, purpose.recovery()));
        });
    }
}

fn judge_consumer(purpose: QueuePurpose, queue: &str, consumer: &QueueConsumer) -> HealthFinding {
    let QueueConsumer { function, state, reports_item_failures, .. } = consumer;
    let is_right = state == "Enabled" && *reports_item_failures;
    let found = match (state.as_str(), reports_item_failures) {
        ("Enabled", true) => function.clone(),
        ("Enabled", false) => format!("{function}, without ReportBatchItemFailures"),
        (state, _) => format!("{function}, {state}"),
    };
    HealthFinding::new("queue consumer", queue, is_right, found, consumer_advice(purpose))
}

fn consumer_advice(purpose: QueuePurpose) -> String {
    format!(
        "Enable an event source mapping from the queue to the {}, with ReportBatchItemFailures",
        purpose.reader()
    )
}

fn judge_visibility(purpose: QueuePurpose, queue: &str, seconds: u64, timeout: u64) -> HealthFinding {
    let least = purpose.least_visibility(timeout);
    HealthFinding::new(
        "queue visibility",
        queue,
        seconds >= least,
        format!("{seconds} s, the function runs up to {timeout} s"),
        format!(
            "Set the visibility timeout to {least} s or more: messages reappear while they are processed otherwise"
        ),
    )
}
