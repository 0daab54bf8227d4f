//! The demo: an application of a built-in model, counted while it writes, and recounted to prove the numbers.
//!
//! ```text
//! workload ──script──▶ writer ──AWS SDK──▶ embedded DynamoDB ──streams──▶ mapping ──▶ aggregator ──▶ rollups, mirrors
//!    │                                        │                └────▶ mapping ──▶ relay ──▶ delivery stream ──▶ embedded S3
//!    │                                        │                    archive ─▶ exporter ─▶ Parquet ◀──────┤
//!    └── recount ◀── items in the end, expired items ── compare ◀── rollups, mirrored attributes ────────┘
//! ```
//!
//! If rollups are sources, the state table has a stream, which is counted in the same way. Some batches are redelivered on the way, and a random
//! subset of all old records in the end. Only the [`workloads`] know models.

pub mod archiving;
pub mod chart;
mod counting;
pub mod datasets;
mod environment;
pub mod exact;
mod invocation;
pub mod item;
pub mod records;
pub mod recount;
pub mod report;
pub mod rollups;
pub mod script;
pub mod verdict;
pub mod workload;
pub mod workloads;
pub mod writer;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use afterwrite_mapping::{MappingProgress, SkippedRecord};
use afterwrite_model::Result;
use futures::future::try_join;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::environment::{DemoEnvironment, DemoProgress};
use crate::item::TableItem;
use crate::recount::WorkloadOutcome;
use crate::report::{CountingCost, DemoReport};
use crate::rollups::RollupSet;
use crate::script::Script;
use crate::verdict::{RecountVerdict, compare};
use crate::workload::Workload;

/// A demo to run.
#[derive(Clone, Debug)]
pub struct Demo {
    /// The workload.
    pub workload: &'static Workload,
    /// The random seed.
    pub seed: u64,
    /// The size, in [`Workload::unit`]s.
    pub size: u64,
    /// The folder for the datasets. An earlier demo's datasets in it are replaced.
    pub datasets: PathBuf,
}

impl Demo {
    /// Plays the workload and judges the result.
    ///
    /// # Errors
    /// An embedded server, the writer or a function failed. Wrong numbers are not an error: the report has them.
    pub async fn run(self) -> Result<DemoReport> {
        let Self { workload, seed, size, datasets } = &self;
        datasets::prepare(datasets)?;
        let begun = Instant::now();
        let environment = Box::pin(DemoEnvironment::start(workload)).await?;
        let (progress, again) = (DemoProgress::default(), MappingProgress::default());
        let now = jiff::Timestamp::now().as_second();
        let script = workload.script(*seed, *size, now);
        let images = script.images(&workload.tables(), now);
        let mut outcome = WorkloadOutcome { now, images, ..WorkloadOutcome::default() };

        outcome.expired = Box::pin(self.play(&environment, &script, &progress)).await?;
        let changes = usize::try_from(environment.changes(workload).await?).unwrap_or(usize::MAX);
        let archive = Box::pin(environment.archiving.read_back(changes)).await?;
        let (first, _) = judge(workload, &environment, &mut outcome).await?;
        let seconds = begun.elapsed().as_secs_f64();
        let written = environment.writer.written();
        let cost = CountingCost::new(written, &environment.counting.totals(), &progress.counting);
        environment.redeliver_some(*seed, &again).await?;
        let (last, rollups) = judge(workload, &environment, &mut outcome).await?;
        let datasets = Box::pin(datasets::export(&environment, workload, datasets)).await?;
        let skipped = skipped_records(&environment, &progress, &again);

        let is_whole = archive.is_whole() && datasets.is_whole();
        let report = DemoReport {
            right: first.is_equal() && last.is_equal() && skipped.is_empty() && is_whole,
            model: workload.model,
            about: workload.about,
            seed: *seed,
            size: *size,
            unit: workload.unit,
            seconds,
            charts: workload.charts(&outcome, &rollups),
            cost,
            archive,
            cache_keys: environment.archiving.invalidated(),
            datasets,
            delivered_again: again.counts().accepted,
            verdicts: [first, last],
            skipped,
        };
        environment.stop().await?;
        Ok(report)
    }

    /// Writes the script while it is counted and archived; returns the items that time to live deleted.
    async fn play(
        &self,
        environment: &DemoEnvironment,
        script: &Script,
        progress: &DemoProgress,
    ) -> Result<Vec<TableItem>> {
        let work = Box::pin(environment.play(script, self.seed, progress));
        let bar = progress_bar(script.writes());
        let show = async {
            loop {
                tokio::time::sleep(Duration::from_millis(100)).await;
                bar.set_position(u64::try_from(environment.writer.written()).unwrap_or(u64::MAX));
                bar.set_message(format!("{} records counted", progress.counting.counts().accepted));
            }
        };
        let done = tokio::select! {
            done = work => done,
            never = show => never,
        };
        bar.finish_and_clear();
        done
    }
}

/// Compares the stored rollups and items with a recount of the items.
async fn judge(
    workload: &Workload,
    environment: &DemoEnvironment,
    outcome: &mut WorkloadOutcome,
) -> Result<(RecountVerdict, RollupSet)> {
    let (items, state) = try_join(environment.writer.items(), environment.state()).await?;
    outcome.items = items;
    let rollups = RollupSet::of(&state);
    Ok((compare(&workload.recount(outcome), &rollups), rollups))
}

/// The skipped records, with the reasons that the aggregator gave.
fn skipped_records(
    environment: &DemoEnvironment,
    progress: &DemoProgress,
    again: &MappingProgress,
) -> Vec<SkippedRecord> {
    let all = [&progress.counting, &progress.levels, &progress.archiving, again];
    let mut skipped: Vec<SkippedRecord> = all.into_iter().flat_map(MappingProgress::skipped).collect();
    let reasons = &environment.counting.totals().reasons;
    for record in &mut skipped {
        if let Some(reason) = reasons.get(&record.sequence_number) {
            record.reason.clone_from(reason);
        }
    }
    skipped
}

/// A progress bar on a terminal, nothing anywhere else.
fn progress_bar(writes: usize) -> ProgressBar {
    let writes = u64::try_from(writes).unwrap_or(u64::MAX);
    let bar = ProgressBar::with_draw_target(Some(writes), ProgressDrawTarget::stderr());
    let template = "{elapsed:>3} {wide_bar} {pos}/{len} writes, {msg}";
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style.progress_chars("█▉▊▋▌▍▎▏ "));
    }
    bar
}

#[cfg(test)]
mod tests {
    use afterwrite_local::dynamodb::EmbeddedDynamoDb;
    use serde_json::json;

    use super::*;

    /// Adds one to a sum of the first rollup that has one.
    async fn falsify(server: &EmbeddedDynamoDb, rollups: &RollupSet) {
        let is_sum = |name: &str| !name.starts_with("settled_") && name != recount::EXPIRES_AT;
        let mut values = rollups
            .0
            .iter()
            .flat_map(|(key, measures)| measures.iter().map(move |(name, value)| (key, name, value)));
        let (key, name, _) = values
            .find(|(_, name, value)| is_sum(name) && value.number() > exact::ExactNumber::ZERO)
            .expect("something was counted");
        server
            .client()
            .update_item()
            .table_name(counting::STATE_TABLE)
            .set_key(Some(item::item(json!({ "PK": key.0, "SK": key.1 }))))
            .update_expression("ADD #name :one SET EntityType = :rollup")
            .expression_attribute_names("#name", name)
            .set_expression_attribute_values(Some(item::item(json!({ ":one": 1, ":rollup": "ROLLUP" }))))
            .send()
            .await
            .unwrap();
    }

    #[tokio::test]
    async fn every_workload_is_right_and_one_wrong_digit_is_found() {
        for workload in workloads::ALL {
            let demo = Demo { workload, seed: 3, size: 16, datasets: PathBuf::new() };
            let environment = DemoEnvironment::start(workload).await.unwrap();
            let now = jiff::Timestamp::now().as_second();
            let script = workload.script(demo.seed, demo.size, now);
            let images = script.images(&workload.tables(), now);
            let progress = DemoProgress::default();
            let played = Box::pin(demo.play(&environment, &script, &progress));
            let expired = played.await.unwrap();
            let skipped = skipped_records(&environment, &progress, &MappingProgress::default());
            assert_eq!(skipped, [], "{}", workload.model);
            let changes = usize::try_from(environment.changes(workload).await.unwrap()).unwrap();
            let archive = |expected| environment.archiving.read_back(expected);
            assert!(archive(changes).await.unwrap().is_whole());
            assert!(!archive(changes + 1).await.unwrap().is_whole(), "a missing change is found");

            let mut outcome = WorkloadOutcome { now, expired, images, ..WorkloadOutcome::default() };
            let (verdict, rollups) = judge(workload, &environment, &mut outcome).await.unwrap();
            assert_eq!(verdict.differences, [], "{}", workload.model);
            falsify(&environment.server, &rollups).await;
            let (verdict, _) = judge(workload, &environment, &mut outcome).await.unwrap();
            assert_eq!(verdict.differences.len(), 1, "{}: {:?}", workload.model, verdict.differences);
            assert!(!verdict.is_equal());
            environment.stop().await.unwrap();
        }
    }
}
