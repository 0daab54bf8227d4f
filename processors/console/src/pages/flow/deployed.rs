//! The stages of a deployed part, as `afterwrite doctor` finds them. Nothing here is measured: what may not be read is unknown, and a number that
//! CloudWatch alone has is named.

use afterwrite_deployment::doctor::{
    DeploymentFacts, DriftFacts, FailureFacts, HealthFinding, HealthVerdict, Looked, LookedAge, MappingFacts,
    ParkedFacts, QueueFacts, ReaderSigns, age_text, count_text, judge, or_more, redrive_of,
};
use afterwrite_model::Result;
use afterwrite_model::table::Model;

use super::picture::{Lane, Stage, failed_advice};
use crate::query::address;
use crate::served::Served;
use crate::table::Verdict;
use crate::units::planned_texts;

/// The stages, of the newest look at the deployment.
///
/// # Errors
/// As [`afterwrite_deployment::doctor::deployment_facts`].
pub(super) async fn lanes(served: &Served) -> Result<Vec<Lane>> {
    let model = served.context.model();
    let (_, facts) = Box::pin(served.facts.read(&served.context)).await?;
    let planned = planned_texts(Box::pin(served.planned.read(model)).await);
    Ok(DeployedFlow::new(model, &facts, planned).lanes())
}

/// The write units of the state table.
const PLANNED: &str = "Planned, by the prices of the command `cost`: each new item alone in its batch. Batches fold, so most changes need less; the metrics `WriteUnits` and `Records` of `aggregator` measure it.";

/// The facts with their judgement.
struct DeployedFlow<'f> {
    model: &'f Model,
    facts: &'f DeploymentFacts,
    findings: Vec<HealthFinding>,
    /// The write units of a change, and the price of a million changes.
    planned: [String; 2],
}

impl<'f> DeployedFlow<'f> {
    fn new(model: &'f Model, facts: &'f DeploymentFacts, planned: [String; 2]) -> Self {
        Self { model, facts, findings: judge(model, facts), planned }
    }

    fn lanes(&self) -> Vec<Lane> {
        vec![
            Lane { name: "Tables", stages: self.tables() },
            Lane { name: "Functions that read the streams", stages: self.functions() },
            Lane { name: "Rollups", stages: vec![self.state_table()] },
            Lane { name: "Archive and datasets", stages: self.datasets() },
            Lane { name: "Paths and events", stages: self.targets() },
            Lane { name: "Proof", stages: self.proof() },
        ]
    }

    fn tables(&self) -> Vec<Stage> {
        let heartbeats = &self.facts.freshness.heartbeats;
        let stages = self.facts.tables.iter().map(|(name, table)| {
            let stream =
                looked(table, |table| table.stream_view.clone().unwrap_or_else(|| "none".to_owned()));
            let age = heartbeats.iter().find(|(table, _)| table == name);
            let age = age.map_or_else(|| "no heartbeat".to_owned(), |(_, age)| looked_age(age));
            let stage = Stage::new(name, "source table").fact("stream", stream).fact("heartbeat", age);
            self.judged(stage, |finding| finding.subject == *name)
        });
        stages.collect()
    }

    fn functions(&self) -> Vec<Stage> {
        let tables = self.facts.tables.iter().zip(&self.facts.mappings);
        let stages = tables.flat_map(|((table, _), mappings)| match mappings {
            Looked::Found(mappings) => mappings.iter().map(|mapping| self.mapping(table, mapping)).collect(),
            Looked::Missing | Looked::NotAllowed(_) | Looked::NotNamed(_) | Looked::NotRead(_) => {
                let stage = Stage::new(format!("readers of {table}"), "event source mappings");
                vec![stage.judged(Verdict::Unknown, looked(mappings, |_| String::new()))]
            }
        });
        stages.collect()
    }

    fn mapping(&self, table: &str, mapping: &MappingFacts) -> Stage {
        let problem = mapping.problem.as_deref().unwrap_or("none");
        let signs = ReaderSigns::of(mapping, self.facts);
        let number = |name: &str| match signs.are_metrics {
            true => format!("unknown here: metric {name} in CloudWatch"),
            false => format!("unknown here: number {name} in the log"),
        };
        let stage = Stage::new(&mapping.function, format!("reads the stream of {table}"))
            .fact("mapping", &mapping.state)
            .fact("last problem", problem)
            .fact("records a second", number(signs.records))
            .fact("delay of the newest", number(signs.record_age))
            .advised(Some(retried_advice(&signs)));
        let stage = self.judged(stage, |finding| {
            finding.subject == mapping.function || finding.subject.contains(&mapping.id)
        });
        self.failed_batches(stage, mapping)
    }

    /// The stage with the batches that Lambda gave up.
    fn failed_batches(&self, stage: Stage, mapping: &MappingFacts) -> Stage {
        const FACT: &str = "failed batches";
        let Some((bucket, failures)) =
            mapping.failure_bucket().and_then(|bucket| self.facts.failures.get_key_value(bucket))
        else {
            return stage.fact(FACT, "unknown: the mapping names no bucket for them");
        };
        let number = |failures: &FailureFacts| failures.objects.get(&mapping.id).copied().unwrap_or(0);
        let text = |failures: &FailureFacts| or_more(number(failures), failures.has_more);
        let stage = stage.fact(FACT, looked(failures, text));
        match failures.found().map(number) {
            None | Some(0) => stage,
            Some(failed) => {
                let command = redrive_of(bucket, &mapping.id, (self.model, self.facts));
                stage
                    .judged(Verdict::Bad, count_text(failed, "failed batch"))
                    .linked(address("/health/findings", [("check", "failed records")]))
                    .advised(Some(failed_advice(&command)))
            }
        }
    }

    fn state_table(&self) -> Stage {
        let (name, table) = &self.facts.state_table;
        let [units, dollars] = &self.planned;
        let recovery = looked(table, |table| match table.is_recoverable {
            Some(true) => "to a point in time".to_owned(),
            Some(false) => "none".to_owned(),
            None => "unknown".to_owned(),
        });
        let stage = Stage::new(name, "rollups and the ledger")
            .fact("parked items", looked(&self.facts.parked, ParkedFacts::number_text))
            .fact("recovery", recovery)
            .fact("units of a new item", units)
            .fact("a million new items", dollars)
            .advised(Some(PLANNED.to_owned()));
        let stage = self.judged(stage, |finding| finding.subject == *name);
        Stage { link: Some("/rollups".to_owned()), ..stage }
    }

    fn datasets(&self) -> Vec<Stage> {
        let bucket = looked(&self.facts.bucket, |bucket| bucket.name.clone());
        let newest = looked(&self.facts.bucket, |bucket| match &bucket.archive {
            Some(archive) => archive.newest.clone().unwrap_or_else(|| "empty".to_owned()),
            None => "unknown".to_owned(),
        });
        let archive = Stage::new("archive", "every change, in the bucket")
            .fact("bucket", &bucket)
            .fact("newest hour", newest);
        let archive = self.judged(archive, |finding| {
            ["archive", "archive prefix", "notification"].contains(&finding.check)
                && finding.subject == bucket
        });
        let queue = self.queue("exporter", "queue of archive objects", &self.facts.queue);
        let datasets = self.facts.freshness.datasets.iter().map(|(name, age)| {
            let stage = Stage::new(name, "dataset").fact("current rows", looked_age(age));
            self.judged(stage, |finding| finding.subject == *name)
        });
        [archive, queue].into_iter().chain(datasets).collect()
    }

    fn queue(&self, name: &str, about: &str, queue: &Looked<QueueFacts>) -> Stage {
        let waiting = looked(queue, |queue| queue.waiting.to_string());
        let dead = looked(queue, |queue| match &queue.dead_letters {
            Some(letters) => looked(letters, u64::to_string),
            None => "no queue for them".to_owned(),
        });
        let stage = Stage::new(name, about).fact("waiting", waiting).fact("dead letters", dead);
        match queue.found() {
            Some(found) => {
                let own = found.arn.rsplit(':').next().unwrap_or_default().to_owned();
                self.judged(stage, |finding| finding.subject == own || finding.subject == found.arn)
            }
            None => stage.judged(Verdict::Unknown, "not checked"),
        }
    }

    fn targets(&self) -> Vec<Stage> {
        let queues = self.facts.path_queues.iter().map(|(url, queue)| {
            let name = url.rsplit('/').next().unwrap_or(url);
            self.queue(name, "queue of stale paths, read by the invalidator", queue)
        });
        let targets = self.facts.event_targets.iter().map(|((setting, arn), target)| {
            let order = looked(target, |target| if target.is_fifo { "kept" } else { "not kept" }.to_owned());
            let name = arn.rsplit([':', '/']).next().unwrap_or(arn);
            let stage = Stage::new(name, format!("events, {setting}")).fact("order", order);
            self.judged(stage, |finding| {
                finding.subject.contains(arn.as_str()) || finding.subject == *setting
            })
        });
        let stages: Vec<Stage> = queues.chain(targets).collect();
        if !stages.is_empty() {
            return stages;
        }
        // A function that could not be read may name one.
        let mappings = self.facts.mappings.iter().all(|mappings| mappings.found().is_some());
        if !mappings || self.facts.functions.values().any(|function| function.found().is_none()) {
            let stage = Stage::new("targets", "queues of paths and targets of events, which functions name");
            return vec![stage.judged(Verdict::Unknown, "unknown: not every function could be read")];
        }
        vec![Stage::new("none", "no function names a queue of paths or a target of events")]
    }

    fn proof(&self) -> Vec<Stage> {
        let (judged, age) = match &self.facts.drift {
            DriftFacts::File(differences) => (format!("{differences} differences"), "unknown".to_owned()),
            DriftFacts::Bucket(Looked::Missing) => ("none yet".to_owned(), "none yet".to_owned()),
            DriftFacts::Bucket(report) => (
                looked(report, |report| {
                    let counts = &report.counts;
                    format!(
                        "{} wrong, {} undecided of {}",
                        counts.drifted_targets, counts.undecided_targets, counts.checked_targets
                    )
                }),
                looked(report, |report| age_text(report.age)),
            ),
        };
        let verifier = Stage::new("verifier", "compares what is derived with the items")
            .fact("newest report", judged)
            .fact("age", age);
        let mut verifier = self.judged(verifier, |finding| finding.subject == "verifier");
        verifier.link = Some("/health".to_owned());
        let failures = self.facts.failures.iter().map(|(bucket, failures)| {
            let objects =
                looked(failures, |failures| or_more(failures.objects.values().sum(), failures.has_more));
            let stage = Stage::new(bucket, "batches that Lambda gave up").fact("objects", objects);
            self.judged(stage, |finding| finding.check == "failed records" && finding.subject == *bucket)
        });
        std::iter::once(verifier).chain(failures).collect()
    }

    /// A stage with the worst verdict of these findings; without findings, it is unknown. It is a link to the first finding that is not healthy.
    fn judged(&self, stage: Stage, is_of: impl Fn(&HealthFinding) -> bool) -> Stage {
        let findings: Vec<&HealthFinding> = self.findings.iter().filter(|finding| is_of(finding)).collect();
        let worst = |wanted: HealthVerdict| findings.iter().find(|finding| finding.verdict == wanted);
        for (verdict, kind) in [
            (HealthVerdict::Change, Verdict::Bad),
            (HealthVerdict::NotYet, Verdict::Warning),
            (HealthVerdict::NotChecked, Verdict::Unknown),
        ] {
            if let Some(finding) = worst(verdict) {
                let to = address("/health/findings", [("check", finding.check)]);
                return stage
                    .judged(kind, format!("{}: {}", finding.check, verdict.name().to_lowercase()))
                    .linked(to);
            }
        }
        match findings.as_slice() {
            [] => stage.judged(Verdict::Unknown, "not checked"),
            [_, ..] => stage.judged(Verdict::Good, "healthy").linked("/health/findings"),
        }
    }
}

/// Where a record is named that the function does not take.
fn retried_advice(signs: &ReaderSigns) -> String {
    let ReaderSigns { log_group, message, .. } = signs;
    format!(
        "Which record waits is unknown here: the log names its sequence number and the reason. Run `aws logs tail {log_group} --since 1h --filter-pattern '\"{message}\"'`."
    )
}

/// A part that was found, in words; or why it was not.
fn looked<T>(part: &Looked<T>, found: impl FnOnce(&T) -> String) -> String {
    match part {
        Looked::Found(part) => found(part),
        Looked::Missing => "does not exist".to_owned(),
        Looked::NotAllowed(permission) => format!("unknown: the permission {permission} is missing"),
        Looked::NotNamed(setting) => format!("unknown: name it with {setting}"),
        Looked::NotRead(reason) => format!("unknown: {reason}"),
    }
}

fn looked_age(age: &LookedAge) -> String {
    match age {
        LookedAge::Known(age) => format!("{} old", age_text(*age)),
        LookedAge::Never => "none yet".to_owned(),
        LookedAge::NotRead(reason) => format!("unknown: {reason}"),
    }
}

#[cfg(test)]
mod tests;
