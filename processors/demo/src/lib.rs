//! `afterwrite demo`: an application of one of the built-in models' designs, counted while it writes, and counted again to see
//! whether it is right.
//!
//! ```text
//! workload ──script──▶ writer ──AWS SDK──▶ embedded DynamoDB ──streams──▶ pollers ──▶ aggregator ──▶ rollups, mirrors
//!    │                                        │                └────▶ pollers ──▶ relay ──▶ delivery stream ──▶ embedded S3
//!    │                                        │                    archive ─▶ exporter ─▶ Parquet ◀──────┤
//!    └── recount ◀── what is there, what expired ────── compare ◀── rollups, mirrored attributes ────────┘
//! ```
//!
//! On the way some batches are delivered twice, and in the end a random subset of all old records once more. What is played
//! and what must come of it is the [`workloads`]' business; nothing else here knows a model.

pub mod archive;
pub mod chart;
pub mod exact;
pub mod item;
pub mod lake;
pub mod recount;
pub mod report;
pub mod rollups;
pub mod script;
mod stage;
mod subject;
pub mod verdict;
pub mod workloads;
mod writer;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use afterwrite::Result;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use afterwrite_local::poller::PollerProgress;
use recount::Outcome;
use report::{Played, Report};
use rollups::Rollups;
use script::Script;
use stage::Stage;
use verdict::{Verdict, compare};
use workloads::Workload;

/// What the demo is asked to do.
#[derive(Clone, Debug)]
pub struct Demo {
    /// What is played.
    pub workload: &'static dyn Workload,
    /// What all that is random follows.
    pub seed: u64,
    /// How much of it: attempts, orders, whatever [`Workload::unit`] says.
    pub size: u64,
    /// The folder that the datasets are left in; what was there of an earlier demo goes.
    pub datasets: PathBuf,
}

/// A workload that was played to its end, and what was derived of it.
#[derive(Debug)]
struct Judged {
    outcome: Outcome,
    rollups: Rollups,
    verdict: Verdict,
}

impl Demo {
    /// Plays the workload and judges it.
    ///
    /// # Errors
    /// The embedded server, the writers or the aggregator could not go on. Wrong numbers are no error but in the report.
    pub async fn run(self) -> Result<Report> {
        lake::prepare(&self.datasets)?;
        let begun = Instant::now();
        let stage = Box::pin(Stage::set(self.workload)).await?;
        let [counting, archiving, again] = [(); 3].map(|()| PollerProgress::default());
        let now = jiff::Timestamp::now().as_second();
        let script = self.workload.script(self.seed, self.size, now);
        let images = script.images(&self.workload.tables(), now);
        let mut outcome = Outcome { now, images, ..Outcome::default() };

        outcome.expired = Box::pin(self.play(&stage, &script, [&counting, &archiving])).await?;
        let archived = Box::pin(stage.archive.read_back(stage.changes().await?)).await?;
        let first = self.judge(&stage, outcome).await?;
        let counted = begun.elapsed();
        let cost = report::Cost::new(stage.writer.written(), &stage.subject, &counting);
        stage.deliver_some_again(self.seed, &again).await?;
        let last = self.judge(&stage, first.outcome).await?;
        let lake = Box::pin(lake::fill(&stage, self.workload, &self.datasets)).await?;

        let report = Report::new(Played {
            demo: &self,
            charts: self.workload.charts(&last.outcome, &last.rollups),
            subject: &stage.subject,
            cost,
            archived,
            invalidated: stage.archive.invalidated(),
            lake,
            verdicts: [first.verdict, last.verdict],
            progress: [&counting, &archiving, &again],
            counted,
        });
        stage.strike().await?;
        Ok(report)
    }

    /// Writes the script while it is counted and archived; gives the items that time to live took.
    async fn play(
        &self,
        stage: &Stage,
        script: &Script,
        progress: [&PollerProgress; 2],
    ) -> Result<Vec<item::Placed>> {
        let work = Box::pin(stage.play(script, self.seed, progress));
        let bar = progress_bar(script.writes());
        let [counting, _] = progress;
        let show = async {
            loop {
                tokio::time::sleep(Duration::from_millis(100)).await;
                bar.set_position(stage.writer.written());
                bar.set_message(format!("{} records counted", counting.counts().accepted));
            }
        };
        let done = tokio::select! {
            done = work => done,
            never = show => never,
        };
        bar.finish_and_clear();
        done
    }

    /// Compares what is stored with a recount of what is there.
    async fn judge(&self, stage: &Stage, mut outcome: Outcome) -> Result<Judged> {
        let (items, state) = futures::future::try_join(stage.writer.items(), stage.state()).await?;
        outcome.items = items;
        let rollups = Rollups::of(&state);
        let verdict = compare(&self.workload.recount(&outcome), &rollups);
        Ok(Judged { outcome, rollups, verdict })
    }
}

/// A bar on a terminal, nothing anywhere else.
fn progress_bar(writes: u64) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(Some(writes), ProgressDrawTarget::stderr());
    let template = "{elapsed:>3} {wide_bar} {pos}/{len} writes, {msg}";
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style.progress_chars("█▉▊▋▌▍▎▏ "));
    }
    bar
}

#[cfg(test)]
mod tests {
    use super::*;
    use afterwrite_local::dynamodb::EmbeddedDynamoDb;

    /// Adds one to some sum of the first rollup that has one.
    async fn falsify(server: &EmbeddedDynamoDb, rollups: &Rollups) {
        let measures = |key| rollups.get(key).into_iter().flatten();
        let is_sum = |name: &str| !name.starts_with("settled_") && name != "expires_at";
        let mut sums =
            rollups.keys().flat_map(|key| measures(key).map(move |(name, value)| (key, name, value)));
        let (key, name, _) = sums
            .find(|(_, name, value)| is_sum(name) && value.number() > exact::Exact::ZERO)
            .expect("something was counted");
        server
            .client()
            .update_item()
            .table_name(stage::STATE_TABLE)
            .key("PK", item::text(&key.0))
            .key("SK", item::text(&key.1))
            .update_expression("ADD #name :one SET EntityType = :rollup")
            .expression_attribute_names("#name", name)
            .expression_attribute_values(":one", item::whole(1))
            .expression_attribute_values(":rollup", item::text("ROLLUP"))
            .send()
            .await
            .unwrap();
    }

    #[tokio::test]
    async fn every_workload_is_right_and_one_wrong_digit_is_found() {
        for workload in workloads::ALL {
            let demo = Demo { workload, seed: 3, size: 16, datasets: PathBuf::new() };
            let stage = Stage::set(workload).await.unwrap();
            let now = jiff::Timestamp::now().as_second();
            let script = workload.script(demo.seed, demo.size, now);
            let images = script.images(&workload.tables(), now);
            let progress = [(); 2].map(|()| PollerProgress::default());
            let expired = Box::pin(demo.play(&stage, &script, [&progress[0], &progress[1]])).await.unwrap();
            let changes = stage.changes().await.unwrap();
            assert!(stage.archive.read_back(changes).await.unwrap().is_whole());
            assert!(
                !stage.archive.read_back(changes + 1).await.unwrap().is_whole(),
                "a missing change is found"
            );

            let outcome = Outcome { now, expired, images, ..Outcome::default() };
            let judged = demo.judge(&stage, outcome).await.unwrap();
            assert_eq!(judged.verdict.differences, [], "{}", workload.model());
            falsify(&stage.server, &judged.rollups).await;
            let verdict = demo.judge(&stage, judged.outcome).await.unwrap().verdict;
            assert_eq!(verdict.differences.len(), 1, "{}: {:?}", workload.model(), verdict.differences);
            assert!(!verdict.is_equal());
            stage.strike().await.unwrap();
        }
    }
}
