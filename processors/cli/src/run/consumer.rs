//! The consumer of one table's stream.
//!
//! A stream that is disabled is delivered to its end. Once the table has another stream, changes may be missing: the changes between the two streams.

use std::time::Duration;

use afterwrite_mapping::aws::{DeployedStream, LeaseOutcome, TableCheckpoints};
use afterwrite_mapping::{
    CheckpointStore as _, EventHandler, EventSourceMapping, GapPolicy, MappingControl, MappingCounts,
    MappingEnd, MappingOptions, MappingPace, MappingProgress, MappingSettings, StartingPosition, StreamGap,
    StreamSource as _, until_replaced,
};
use afterwrite_model::clock::Clock as _;
use afterwrite_model::clock::SystemClock;
use afterwrite_model::record::Timestamp;
use afterwrite_model::{Error, ErrorKind, Result};
use afterwrite_services::config::dynamodb_client_of;
use serde::Serialize;

use super::recovery::GapRecovery;
use crate::arguments::stream_start;

/// How often the lease of another process is looked at.
const LEASE_POLL: Duration = Duration::from_secs(2);
const CHECKPOINT_EVERY: Duration = Duration::from_secs(5);
/// How often a consumer looks whether its table has another stream.
const STREAM_POLL: Duration = Duration::from_secs(5);

/// One table's stream, and the checkpoints of this consumer in it.
pub(super) struct TableConsumer {
    table: String,
    dynamodb: aws_sdk_dynamodb::Client,
    streams: aws_sdk_dynamodbstreams::Client,
    stream: DeployedStream,
    checkpoints: TableCheckpoints,
}

/// How the streams are consumed.
pub(super) struct ConsumptionPlan<'p> {
    pub(super) settings: &'p MappingSettings,
    /// Whether the checkpoints are forgotten first.
    pub(super) reset: bool,
    /// The recovery if changes are missing; without it, the consumer stops.
    pub(super) recovery: Option<&'p GapRecovery>,
}

/// The counts of a consumed table.
#[derive(Debug, Serialize)]
pub(super) struct ConsumedTable {
    pub(super) table: String,
    #[serde(flatten)]
    pub(super) counts: MappingCounts,
}

impl TableConsumer {
    pub(super) async fn connect(
        sdk: &aws_config::SdkConfig,
        state_table: &str,
        name: &str,
        table: &str,
    ) -> Result<Self> {
        let dynamodb = dynamodb_client_of(sdk);
        let streams = aws_sdk_dynamodbstreams::Client::new(sdk);
        let stream = DeployedStream::of_table(&dynamodb, streams.clone(), table).await?;
        let checkpoints = TableCheckpoints::new(dynamodb.clone(), state_table, name, table);
        Ok(Self { table: table.to_owned(), dynamodb, streams, stream, checkpoints })
    }

    /// Consumes the stream until `control` ends it.
    pub(super) async fn consume(
        &self,
        function: &impl EventHandler,
        plan: &ConsumptionPlan<'_>,
        control: &MappingControl,
    ) -> Result<ConsumedTable> {
        let progress = MappingProgress::default();
        if self.wait_for_lease(control).await? {
            let consumed = tokio::select! {
                consumed = self.consume_leased(function, plan, control, &progress) => consumed,
                lost = self.checkpoints.keep_lease() => return Err(lost),
            };
            if let Err(error) = self.checkpoints.release_lease().await {
                // It ends by itself.
                eprintln!("afterwrite: {}: the lease was not released: {error}", self.table);
            }
            consumed?;
        }
        Ok(ConsumedTable { table: self.table.clone(), counts: progress.counts() })
    }

    /// Whether this process has the lease; otherwise it was stopped before.
    async fn wait_for_lease(&self, control: &MappingControl) -> Result<bool> {
        let mut is_reported = false;
        while self.checkpoints.take_lease().await? == LeaseOutcome::HeldByAnother {
            if !is_reported {
                eprintln!("afterwrite: {}: another process with this name consumes it; waiting", self.table);
                is_reported = true;
            }
            tokio::select! {
                () = tokio::time::sleep(LEASE_POLL) => {}
                () = control.stopped() => return Ok(false),
            }
        }
        Ok(true)
    }

    async fn consume_leased(
        &self,
        function: &impl EventHandler,
        plan: &ConsumptionPlan<'_>,
        control: &MappingControl,
        progress: &MappingProgress,
    ) -> Result<()> {
        // Stamps the checkpoints with this lease.
        let stored = self.checkpoints.load().await?;
        if plan.reset {
            self.checkpoints.forget().await?;
        }
        if let StartingPosition::At(time) = plan.settings.starting_position {
            self.check_start(time, !plan.reset && stored.stream_arn.is_some()).await?;
        }
        let pace = MappingPace { checkpoint_interval: CHECKPOINT_EVERY, ..MappingPace::default() };
        let options = MappingOptions {
            pace,
            gaps: GapPolicy::Stop,
            ..MappingOptions::new(progress, &self.checkpoints)
        };
        let mut settings = plan.settings.clone();
        let mut stream = self.stream.clone();
        loop {
            let mapping =
                EventSourceMapping::new(&stream, function, &SystemClock, &settings, options.clone());
            let run = async |current: &MappingControl| mapping.run(current).await;
            let delivery = until_replaced(run, self.next_stream(&stream), control);
            let (ended, next) = Box::pin(delivery).await?;
            let gap = match (ended, next) {
                (MappingEnd::Gap(gap), _) => gap,
                (MappingEnd::Drained, Some(next)) => {
                    let gap =
                        StreamGap::Recreated { from: stream.arn().to_owned(), to: next.arn().to_owned() };
                    stream = next;
                    gap
                }
                (MappingEnd::Drained | MappingEnd::Stopped, _) => return Ok(()),
            };
            let Some(recovery) = plan.recovery else { return Err(self.gap_error(gap)) };
            self.recover(&gap, recovery).await?;
            settings.starting_position = StartingPosition::TrimHorizon;
        }
    }

    /// Waits until the table has another stream. A table that cannot be described, or has none, is described again.
    async fn next_stream(&self, stream: &DeployedStream) -> Result<DeployedStream> {
        loop {
            tokio::time::sleep(STREAM_POLL).await;
            let newest = DeployedStream::of_table(&self.dynamodb, self.streams.clone(), &self.table).await;
            if let Some(newest) = newest.ok().filter(|newest| newest.arn() != stream.arn()) {
                eprintln!(
                    "afterwrite: {}: the table has another stream; this one is delivered to its end",
                    self.table
                );
                return Ok(newest);
            }
        }
    }

    /// Recovers the missing changes, and forgets the checkpoints: the stream is then consumed from its oldest record.
    async fn recover(&self, gap: &StreamGap, recovery: &GapRecovery) -> Result<()> {
        let checkpoint_at = self.checkpoints.oldest_update().await?;
        let recovered = Box::pin(recovery.recover(&self.table, gap, checkpoint_at)).await;
        recovered.map_err(|error| error.with("table", &self.table))?;
        self.checkpoints.forget().await
    }

    /// Refuses a start that would leave changes out unnoticed; tells which changes it leaves out.
    async fn check_start(&self, time: Timestamp, has_checkpoints: bool) -> Result<()> {
        if !has_checkpoints {
            stream_start(time, SystemClock.now(), self.stream.enabled_later())
                .map_err(|error| error.with("table", &self.table))?;
            eprintln!("afterwrite: {}: changes before {time} are left out", self.table);
            return Ok(());
        }
        // Checkpoints that this start has made are written later. They state their time to the second.
        let is_before = |written: &Timestamp| written.epoch_seconds() < time.epoch_seconds();
        if let Some(checkpoint) = self.checkpoints.oldest_update().await?.filter(is_before) {
            let message = "the checkpoints of this consumer lie before --from: the changes between them would be left out";
            return Err(Error::new(ErrorKind::Configuration, message)
                .with("table", &self.table)
                .with("checkpoint", checkpoint.to_string())
                .hint("Leave --from out to continue at the checkpoints, or add --reset to forget them"));
        }
        eprintln!("afterwrite: {}: it continues at its checkpoints, not at --from", self.table);
        Ok(())
    }

    fn gap_error(&self, gap: StreamGap) -> Error {
        gap.into_error().with("table", &self.table).hint(
            "Use --on-expired replay-archive or backfill. Or run `afterwrite backfill --all`, then this command with --reset, which begins with \
             the oldest record of the stream",
        )
    }
}
