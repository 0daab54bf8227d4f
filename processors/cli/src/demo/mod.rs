//! `afterwrite demo`: a month of an exam platform, counted while it is written, and counted again to see whether it is
//! right.
//!
//! ```text
//! generator ──AWS SDK──▶ embedded DynamoDB ──stream──▶ poller ──▶ aggregator ──▶ rollups, mirrored counts
//!     │                        │                └───▶ poller ──▶ relay ──▶ delivery stream ──▶ embedded S3
//!     │                        │                    archive ─▶ exporter ─▶ Parquet ◀──────┤
//!     └─ what expired ─────────┴── scan ──▶ recount ─────────── compare ◀─────────────┘
//! ```
//!
//! On the way some batches are delivered twice, and in the end a random subset of all old records once more.

mod archive;
mod candidate;
mod editor;
mod generator;
mod lake;
mod platform;
mod recount;
mod report;
mod subject;
mod verdict;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use afterwrite::Result;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::local::dynamodb::{EmbeddedDynamoDb, Options};
use crate::local::poller::{Faults, Poller, Settings};
use crate::local::progress::Progress;
use crate::local::sample::Sample;
use crate::local::stream::StreamSource;
use crate::local::table::{KeyDefinition, TableDefinition, create_table};
use archive::Archive;
use generator::Month;
use recount::{History, recount};
use report::Played;
pub use report::Report;
use subject::Subject;
use verdict::{Verdict, compare};

/// Where the aggregator keeps rollups and ledger.
const STATE_TABLE: &str = "AfterwriteState";
/// Of a thousand batches, those that are delivered once more.
const REDELIVERED_PER_MILLE: u32 = 100;
/// Of a thousand old records, those that come once more in the end.
const SAMPLED_PER_MILLE: u32 = 200;

/// What the demo is asked to do.
#[derive(Clone, Debug)]
pub struct Demo {
    /// What all that is random follows.
    pub seed: u64,
    /// How many attempts at exams the month has.
    pub attempts: u64,
    /// The folder that the datasets are left in; what was there of an earlier demo goes.
    pub datasets: PathBuf,
}

/// The two readers that a stream allows, and how far each has come.
#[derive(Clone, Copy)]
struct Readers<'r> {
    subject: &'r Subject,
    counting: &'r Progress,
    archive: &'r Archive,
    archiving: &'r Progress,
}

impl Demo {
    /// Plays the month and judges it.
    ///
    /// # Errors
    /// The embedded server, the writers or the aggregator could not go on. Wrong numbers are no error but in the report.
    pub async fn run(self) -> Result<Report> {
        lake::prepare(&self.datasets)?;
        let begun = Instant::now();
        let server = EmbeddedDynamoDb::start(Options::default()).await?;
        let client = server.client();
        create_table(&client, &platform::table()).await?;
        create_table(&client, &state_table()).await?;
        let stream = server.stream(platform::TABLE).await?;
        let subject = Subject::new(client.clone(), STATE_TABLE)?;
        let archive = Box::pin(Archive::start()).await?;
        let (progress, archiving) = (Progress::default(), Progress::default());
        let mut month = Month::plan(client.clone(), self.seed, self.attempts, jiff::Timestamp::now());

        let readers =
            Readers { subject: &subject, counting: &progress, archive: &archive, archiving: &archiving };
        let history = Box::pin(self.count_while_writing(&mut month, &server, &stream, readers)).await?;
        let archived = Box::pin(archive.read_back(progress.counts().read)).await?;
        let first = judge(&client, &history).await?;
        let counted = begun.elapsed();
        let cost = report::Cost::new(&month, &subject, &progress);
        let again = Progress::default();
        self.deliver_some_again(&stream, &subject, &again).await?;
        let last = judge(&client, &history).await?;
        let invalidated = archive.invalidated();
        let lake = Box::pin(lake::fill(&archive.bucket(), &client, &self.datasets)).await?;

        let played = Played {
            demo: &self,
            month: &month,
            subject: &subject,
            cost,
            archived,
            invalidated,
            lake,
            verdicts: [first, last],
            progress: [&progress, &archiving, &again],
            counted,
        };
        let report = Report::new(&client, played).await?;
        archive.stop().await?;
        server.stop().await?;
        Ok(report)
    }

    async fn count_while_writing(
        &self,
        month: &mut Month,
        server: &EmbeddedDynamoDb,
        stream: &impl StreamSource,
        readers: Readers<'_>,
    ) -> Result<History> {
        let Readers { subject, counting: progress, archive, archiving } = readers;
        let faults = Faults { redeliver_per_mille: REDELIVERED_PER_MILLE, seed: self.seed };
        let settings = Settings { faults, ..settings() };
        let counting = Poller::new(stream, subject, &settings, progress);
        let archiving = Poller::new(stream, archive, &settings, archiving);
        let writers_done = AtomicBool::new(false);
        let attempts_done = Arc::clone(&month.world.attempts_done);
        let write = async {
            let history = month.write(server).await;
            writers_done.store(true, Ordering::SeqCst);
            history
        };
        // Counting writes too, mirrored counts: only when it is done has the stream an end.
        let counted = AtomicBool::new(false);
        let count = async {
            let done = counting.run_until_drained(&writers_done).await;
            counted.store(true, Ordering::SeqCst);
            done
        };
        let read = futures::future::try_join(count, archiving.run_until_drained(&counted));
        let work = futures::future::try_join(write, read);
        let bar = progress_bar(self.attempts);
        let show = async {
            loop {
                tokio::time::sleep(Duration::from_millis(100)).await;
                bar.set_position(attempts_done.load(Ordering::Relaxed));
                bar.set_message(format!("{} records counted", progress.counts().accepted));
            }
        };
        let done = tokio::select! {
            done = work => done,
            never = show => never,
        };
        bar.finish_and_clear();
        done.map(|(history, _)| history)
    }

    /// Delivers a random subset of all records once more, alone and long after newer ones.
    async fn deliver_some_again(
        &self,
        stream: &impl StreamSource,
        subject: &Subject,
        progress: &Progress,
    ) -> Result<()> {
        let sample = Sample::new(stream, SAMPLED_PER_MILLE, self.seed);
        let settings = settings();
        let poller = Poller::new(&sample, subject, &settings, progress);
        poller.run_until_drained(&AtomicBool::new(true)).await
    }
}

async fn judge(client: &aws_sdk_dynamodb::Client, history: &History) -> Result<Verdict> {
    let (items, state) = futures::future::try_join(
        platform::scan(client, platform::TABLE),
        platform::scan(client, STATE_TABLE),
    )
    .await?;
    Ok(compare(&recount(&items, history), &state, &items))
}

/// As Lambda would, but with little patience: nothing here mends itself in seconds.
fn settings() -> Settings {
    Settings { max_attempts: 4, max_backoff: Duration::from_millis(500), ..Settings::default() }
}

fn state_table() -> TableDefinition {
    TableDefinition {
        name: STATE_TABLE.to_owned(),
        key: KeyDefinition::new("PK", "SK"),
        indexes: Vec::new(),
        stream: false,
        ttl_attribute: Some("expires_at".to_owned()),
    }
}

/// A bar on a terminal, nothing anywhere else.
fn progress_bar(attempts: u64) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(Some(attempts), ProgressDrawTarget::stderr());
    let template = "{elapsed:>3} {wide_bar} {pos}/{len} attempts, {msg}";
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style.progress_chars("█▉▊▋▌▍▎▏ "));
    }
    bar
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn one_wrong_digit_is_found() {
        let server = EmbeddedDynamoDb::start(Options::default()).await.unwrap();
        let client = server.client();
        create_table(&client, &platform::table()).await.unwrap();
        create_table(&client, &state_table()).await.unwrap();
        let stream = server.stream(platform::TABLE).await.unwrap();
        let subject = Subject::new(client.clone(), STATE_TABLE).unwrap();
        let archive = Archive::start().await.unwrap();
        let (progress, archiving) = (Progress::default(), Progress::default());
        let demo = Demo { seed: 3, attempts: 10, datasets: PathBuf::new() };
        let mut month = Month::plan(client.clone(), demo.seed, demo.attempts, jiff::Timestamp::now());
        let readers =
            Readers { subject: &subject, counting: &progress, archive: &archive, archiving: &archiving };
        let counted = Box::pin(demo.count_while_writing(&mut month, &server, &stream, readers));
        let history = counted.await.unwrap();
        let read = progress.counts().read;
        assert!(archive.read_back(read).await.unwrap().is_whole());
        assert!(!archive.read_back(read + 1).await.unwrap().is_whole(), "a missing change is found");
        assert_eq!(judge(&client, &history).await.unwrap().differences, []);

        client
            .update_item()
            .table_name(STATE_TABLE)
            .key("PK", platform::text(format!("ADMIN#{}", month.admins()[0])))
            .key("SK", platform::text("ROLLUP#TOTAL"))
            .update_expression("ADD questions :one")
            .expression_attribute_values(":one", platform::number(1))
            .send()
            .await
            .unwrap();
        let verdict = judge(&client, &history).await.unwrap();
        assert_eq!(verdict.differences.len(), 1);
        assert_eq!(verdict.differences[0].found, verdict.differences[0].expected + 1);
        assert!(!verdict.is_equal());
        server.stop().await.unwrap();
    }
}
