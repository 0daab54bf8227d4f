//! The mapping of one stream to one function: its shards, parents before children.

use std::collections::{BTreeMap, BTreeSet};
use std::pin::pin;

use afterwrite_model::Result;
use afterwrite_model::clock::Clock;
use futures::StreamExt as _;
use futures::future::{Either, LocalBoxFuture, select};
use futures::stream::FuturesUnordered;
use uuid::Uuid;

use crate::checkpoint::{CheckpointStore, ShardCheckpoint, StoredCheckpoints};
use crate::context::MappingContext;
use crate::control::{MappingControl, RunMode};
use crate::faults::FaultSwitch;
use crate::gap::StreamGap;
use crate::handler::EventHandler;
use crate::on_failure::FailureDestination;
use crate::progress::{MappingProgress, length};
use crate::retry::retrying;
use crate::settings::{MappingPace, MappingSettings, StartingPosition};
use crate::shard::{ShardEnd, ShardTask};
use crate::stream::{STREAM_RETENTION, ShardPosition, StreamShard, StreamSource};

/// An event source mapping.
pub struct EventSourceMapping<'a, Source, Function, C> {
    source: &'a Source,
    function: &'a Function,
    clock: &'a C,
    settings: &'a MappingSettings,
    options: MappingOptions<'a>,
}

/// The surroundings of a mapping.
#[derive(Clone)]
pub struct MappingOptions<'a> {
    /// The mapping's id, which on-failure objects name.
    pub id: Uuid,
    /// How fast it polls and retries.
    pub pace: MappingPace,
    /// Faults to inject.
    pub faults: FaultSwitch,
    /// Where it counts.
    pub progress: &'a MappingProgress,
    /// Where it keeps its checkpoints.
    pub checkpoints: &'a dyn CheckpointStore,
    /// Where discarded batches go.
    pub on_failure: Option<&'a dyn FailureDestination>,
    /// Its action where records are missing.
    pub gaps: GapPolicy,
}

impl<'a> MappingOptions<'a> {
    /// Lambda's pace, without faults and without an on-failure destination.
    #[must_use]
    pub fn new(progress: &'a MappingProgress, checkpoints: &'a dyn CheckpointStore) -> Self {
        Self {
            id: Uuid::nil(),
            pace: MappingPace::default(),
            faults: FaultSwitch::default(),
            progress,
            checkpoints,
            on_failure: None,
            gaps: GapPolicy::default(),
        }
    }
}

/// The action if records between its checkpoint and the stream's oldest record are missing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GapPolicy {
    /// It goes on with the oldest record, as Lambda does.
    #[default]
    GoOn,
    /// It ends with [`MappingEnd::Gap`].
    Stop,
}

/// How a mapping ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MappingEnd {
    /// [`MappingControl::drain`]: everything is delivered.
    Drained,
    /// [`MappingControl::stop`].
    Stopped,
    /// Records are missing, and [`GapPolicy::Stop`] is set.
    Gap(StreamGap),
}

/// A shard that has been started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ShardState {
    Running,
    Paused,
    Finished {
        /// Whether the shard is known to have had no record. Its records may have been trimmed before this mapping began, and with them
        /// the first ones of its children.
        is_empty: bool,
    },
}

/// The shards of a mapping.
#[derive(Default)]
struct ShardLineage {
    started: BTreeMap<String, ShardState>,
    /// Positions of shards from stored checkpoints.
    stored: BTreeMap<String, ShardCheckpoint>,
    /// Shards that an earlier run has started and not delivered to their end.
    begun: BTreeSet<String>,
    /// Shards that were listed when a mapping without checkpoints began. Nothing that precedes them belongs to the mapping. Empty if an
    /// earlier run left checkpoints.
    first_listing: Option<BTreeSet<String>>,
}

type RunningShards<'r> = FuturesUnordered<LocalBoxFuture<'r, (String, Result<ShardEnd>)>>;

impl<'a, Source: StreamSource, Function: EventHandler, C: Clock> EventSourceMapping<'a, Source, Function, C> {
    /// A mapping of `source` to `function`.
    #[must_use]
    pub fn new(
        source: &'a Source,
        function: &'a Function,
        clock: &'a C,
        settings: &'a MappingSettings,
        options: MappingOptions<'a>,
    ) -> Self {
        Self { source, function, clock, settings, options }
    }

    /// Delivers the stream until `control` ends it.
    ///
    /// # Errors
    /// The stream's error once retries do not help; the function's error if redelivery cannot help (a missing table, a stream that
    /// the model does not know); an error of the checkpoints.
    pub async fn run(&self, control: &MappingControl) -> Result<MappingEnd> {
        let context = self.context(control);
        let stored = self.options.checkpoints.load().await?;
        let mut lineage = match self.resume(stored) {
            Ok(lineage) => lineage,
            Err(gap) => return Ok(MappingEnd::Gap(gap)),
        };
        let mut running = RunningShards::new();
        loop {
            let mode = control.mode();
            if mode == RunMode::Stopping && running.is_empty() {
                return Ok(MappingEnd::Stopped);
            }
            let shards =
                if mode == RunMode::Stopping { Vec::new() } else { self.list_shards(&context).await? };
            if mode < RunMode::Stopping
                && let Some(gap) = self.find_trimmed(&mut lineage, &shards)
            {
                return Ok(MappingEnd::Gap(gap));
            }
            self.start_shards(context, &shards, &mut lineage, &mut running).await?;
            if running.is_empty() {
                if mode >= RunMode::Draining {
                    return Ok(MappingEnd::Drained);
                }
                select(pin!(self.clock.sleep(self.options.pace.poll_interval)), pin!(control.stopped()))
                    .await;
                continue;
            }
            let next_listing = self.clock.sleep(self.options.pace.describe_interval);
            match select(running.next(), pin!(next_listing)).await {
                Either::Left((Some((shard, end)), _)) => {
                    if let Some(gap) = lineage.end_shard(shard, end?) {
                        return Ok(MappingEnd::Gap(gap));
                    }
                }
                Either::Left((None, _)) | Either::Right(_) => {}
            }
        }
    }

    fn context<'r>(&'r self, control: &'r MappingControl) -> MappingContext<'r, Function, C> {
        let MappingOptions { id, pace, ref faults, progress, on_failure, .. } = self.options;
        MappingContext {
            id,
            function: self.function,
            clock: self.clock,
            settings: self.settings,
            pace,
            faults,
            progress,
            control,
            on_failure,
            stream_arn: self.source.arn(),
        }
    }

    /// The shards as the checkpoints leave them.
    fn resume(&self, stored: StoredCheckpoints) -> Result<ShardLineage, StreamGap> {
        let StoredCheckpoints { stream_arn: Some(from), mut shards } = stored else {
            return Ok(ShardLineage { first_listing: None, ..ShardLineage::default() });
        };
        let kept_since = self.clock.now().minus(STREAM_RETENTION);
        for checkpoint in shards.values_mut() {
            // Read at that time, the shard would begin with its oldest record that is kept, without an error.
            if let ShardCheckpoint::At(time) = checkpoint
                && *time < kept_since
            {
                *checkpoint = ShardCheckpoint::Oldest;
            }
        }
        let to = self.source.arn();
        if from != to {
            return match self.options.gaps {
                GapPolicy::Stop => Err(StreamGap::Recreated { from, to: to.to_owned() }),
                GapPolicy::GoOn => {
                    self.options.progress.count(|counts| counts.gaps += 1);
                    Ok(ShardLineage::default())
                }
            };
        }
        let finished = shards.iter().filter(|(_, checkpoint)| **checkpoint == ShardCheckpoint::Finished);
        let finished = finished.map(|(shard, _)| (shard.clone(), ShardState::Finished { is_empty: false }));
        let started = finished.collect();
        let is_begun = |checkpoint: &ShardCheckpoint| *checkpoint != ShardCheckpoint::Finished;
        let begun = shards.iter().filter(|(_, checkpoint)| is_begun(checkpoint));
        let begun = begun.map(|(shard, _)| shard.clone()).collect();
        // Shards without a checkpoint are newer than the mapping: they begin with their oldest record.
        Ok(ShardLineage { started, stored: shards, begun, first_listing: Some(BTreeSet::new()) })
    }

    /// All pages of the stream's shards.
    async fn list_shards(&self, context: &MappingContext<'_, Function, C>) -> Result<Vec<StreamShard>> {
        let (mut shards, mut after) = (Vec::new(), None::<String>);
        loop {
            let page = retrying(context, || self.source.describe(after.as_deref())).await?;
            shards.extend(page.shards);
            match page.next {
                Some(next) => after = Some(next),
                None => return Ok(shards),
            }
        }
    }

    /// A shard that is not listed any more, although it was not delivered to its end.
    fn find_trimmed(&self, lineage: &mut ShardLineage, shards: &[StreamShard]) -> Option<StreamGap> {
        let lost = lineage.lost(shards);
        let shard = lost.first()?.clone();
        if self.options.gaps == GapPolicy::Stop {
            let after = match lineage.stored.get(&shard) {
                Some(ShardCheckpoint::After(number)) => Some(number.clone()),
                Some(
                    ShardCheckpoint::Oldest
                    | ShardCheckpoint::Latest
                    | ShardCheckpoint::At(_)
                    | ShardCheckpoint::Finished,
                )
                | None => None,
            };
            return Some(StreamGap::Trimmed { shard, after });
        }
        self.options.progress.count(|counts| counts.gaps += length(&lost));
        lineage
            .started
            .extend(lost.into_iter().map(|shard| (shard, ShardState::Finished { is_empty: false })));
        None
    }

    /// Starts the shards that can be read now: those whose parent is delivered to its end, or is not listed any more.
    async fn start_shards<'r>(
        &'r self,
        context: MappingContext<'r, Function, C>,
        shards: &[StreamShard],
        lineage: &mut ShardLineage,
        running: &mut RunningShards<'r>,
    ) -> Result<()> {
        if shards.is_empty() {
            return Ok(());
        }
        if lineage.first_listing.is_none() {
            self.note_first_listing(shards, lineage).await?;
        }
        for shard in
            shards.iter().filter(|shard| lineage.is_ready(shard, shards)).cloned().collect::<Vec<_>>()
        {
            let is_owed = lineage.is_owed(&shard);
            if !lineage.stored.contains_key(&shard.id) {
                let started = ShardCheckpoint::Oldest;
                self.options.checkpoints.save(self.source.arn(), &shard.id, &started).await?;
                lineage.stored.insert(shard.id.clone(), started);
            }
            let position = lineage.position(&shard);
            lineage.started.insert(shard.id.clone(), ShardState::Running);
            running.push(Box::pin(self.run_shard(context, shard, (position, is_owed))));
        }
        Ok(())
    }

    /// A mapping without checkpoints starts: with `LATEST`, shards that others
    /// continue are left out, and the last ones begin at their newest records. With a time, all of them begin at this time.
    async fn note_first_listing(&self, shards: &[StreamShard], lineage: &mut ShardLineage) -> Result<()> {
        lineage.first_listing = Some(shards.iter().map(|shard| shard.id.clone()).collect());
        for shard in shards {
            let is_continued = shards.iter().any(|other| other.parent.as_ref() == Some(&shard.id));
            let checkpoint = match self.settings.starting_position {
                StartingPosition::TrimHorizon => return Ok(()),
                StartingPosition::At(time) => ShardCheckpoint::At(time),
                StartingPosition::Latest if is_continued => {
                    lineage.started.insert(shard.id.clone(), ShardState::Finished { is_empty: false });
                    ShardCheckpoint::Finished
                }
                StartingPosition::Latest => ShardCheckpoint::Latest,
            };
            self.options.checkpoints.save(self.source.arn(), &shard.id, &checkpoint).await?;
            lineage.stored.insert(shard.id.clone(), checkpoint);
        }
        Ok(())
    }

    async fn run_shard(
        &self,
        context: MappingContext<'_, Function, C>,
        shard: StreamShard,
        (position, is_owed): (ShardPosition, bool),
    ) -> (String, Result<ShardEnd>) {
        let task = ShardTask {
            context,
            source: self.source,
            checkpoints: self.options.checkpoints,
            shard: &shard,
            position,
            is_owed,
            stops_at_gaps: self.options.gaps == GapPolicy::Stop,
        };
        let end = task.run().await;
        (shard.id, end)
    }
}

impl ShardLineage {
    fn is_ready(&self, shard: &StreamShard, shards: &[StreamShard]) -> bool {
        let is_behind = |parent: &String| match self.started.get(parent) {
            Some(ShardState::Finished { .. }) => true,
            Some(ShardState::Running | ShardState::Paused) => false,
            None => !shards.iter().any(|other| other.id == *parent),
        };
        !self.started.contains_key(&shard.id) && shard.parent.as_ref().is_none_or(is_behind)
    }

    /// The shards that are not listed any more, although they were not delivered to their ends: shards with a checkpoint, and the parents
    /// of listed shards that this mapping has never seen.
    fn lost(&self, shards: &[StreamShard]) -> Vec<String> {
        let listed: BTreeSet<&str> = shards.iter().map(|shard| shard.id.as_str()).collect();
        let is_gone = |shard: &String| !listed.contains(shard.as_str()) && !self.started.contains_key(shard);
        let begun = self.stored.iter().filter(|(_, checkpoint)| **checkpoint != ShardCheckpoint::Finished);
        let begun = begun.map(|(shard, _)| shard);
        let is_new = |shard: &&StreamShard| {
            !self.stored.contains_key(&shard.id)
                && self.first_listing.as_ref().is_some_and(|first| !first.contains(&shard.id))
        };
        let parents = shards.iter().filter(is_new).filter_map(|shard| shard.parent.as_ref());
        let lost: BTreeSet<&String> = begun.chain(parents).filter(|shard| is_gone(shard)).collect();
        lost.into_iter().cloned().collect()
    }

    /// Whether all records of a shard, or all after its checkpoint, belong to this mapping: an earlier run has begun the shard, or the
    /// mapping has delivered its parent.
    fn is_owed(&self, shard: &StreamShard) -> bool {
        let parent = shard.parent.as_ref().and_then(|parent| self.started.get(parent));
        self.begun.contains(&shard.id) || matches!(parent, Some(ShardState::Finished { is_empty: false }))
    }

    /// Where a shard is read from.
    fn position(&self, shard: &StreamShard) -> ShardPosition {
        match self.stored.get(&shard.id) {
            Some(ShardCheckpoint::After(number)) => ShardPosition::After(number.clone()),
            Some(ShardCheckpoint::Latest) if !self.begun.contains(&shard.id) => ShardPosition::Latest,
            Some(ShardCheckpoint::At(time)) => ShardPosition::At(*time),
            _ if self.is_owed(shard) => shard.beginning(),
            _ => ShardPosition::TrimHorizon,
        }
    }

    /// Notes how a shard ended; returns the gap at which it did.
    fn end_shard(&mut self, shard: String, end: ShardEnd) -> Option<StreamGap> {
        let state = match end {
            ShardEnd::Finished { is_empty } => ShardState::Finished { is_empty },
            ShardEnd::Paused => ShardState::Paused,
            ShardEnd::Gap(position) => {
                let after = match position {
                    ShardPosition::After(number) => Some(number),
                    ShardPosition::TrimHorizon
                    | ShardPosition::First(_)
                    | ShardPosition::Latest
                    | ShardPosition::At(_) => None,
                };
                return Some(StreamGap::Trimmed { shard, after });
            }
        };
        self.started.insert(shard, state);
        None
    }
}
