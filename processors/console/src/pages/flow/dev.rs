//! The flow inside `afterwrite dev`: the meters of its streams and functions.

use std::sync::Arc;
use std::time::Duration;

use afterwrite_deployment::doctor::{age_text, count_text};
use afterwrite_mapping::FaultPlan;
use afterwrite_model::Result;
use afterwrite_model::clock::{Clock as _, SystemClock};
use afterwrite_model::record::Timestamp;

use super::picture::{Lane, Stage, failed_advice};
use crate::board::{DevBoard, FunctionMeter, StreamMeter, WaitingBatch};
use crate::context::ConsoleContext;
use crate::incidents::{FailedBatches, parked_items, prefix_of, waiting_item};
use crate::pages::health::failures::redrive_command;
use crate::table::Verdict;
use crate::units::million_records;

const AGGREGATOR: &str = "aggregator";
const RELAY: &str = "relay";
const EXPORTER: &str = "exporter";
const COMPACTOR: &str = "compactor";
const INVALIDATOR: &str = "invalidator";

/// The most records that a stage names while it waits for them.
const SHOWN_WAITING: usize = 5;
/// A delay within which a stage is up to date: DynamoDB states the time of a change in whole seconds.
const UP_TO_DATE: Duration = Duration::from_secs(5);

/// The meters of a function that reads streams, over all tables.
struct StreamTotals {
    streams: Vec<Arc<StreamMeter>>,
    /// The batches that it did not take, and that were not processed again.
    failed: usize,
    /// The batches that are delivered to it again.
    waiting: Vec<WaitingBatch>,
    now: Timestamp,
}

/// The stages of `dev`.
///
/// # Errors
/// The bucket or the state table cannot be read.
pub(super) async fn lanes(context: &ConsoleContext, board: &DevBoard) -> Result<Vec<Lane>> {
    let now = SystemClock.now();
    let (failed, parked) = (FailedBatches::read(context).await?, parked_items(context).await?);
    let flow = DevFlow { context, board, failed, parked: parked.unwrap_or(0), now };
    Ok(vec![
        Lane { name: "Changes", stages: flow.changes() },
        Lane { name: "Counting", stages: flow.counting() },
        Lane { name: "Caches and events", stages: flow.relaying() },
        Lane { name: "Datasets", stages: flow.datasets() },
    ])
}

struct DevFlow<'d> {
    context: &'d ConsoleContext,
    board: &'d DevBoard,
    failed: FailedBatches,
    parked: usize,
    now: Timestamp,
}

impl DevFlow<'_> {
    fn changes(&self) -> Vec<Stage> {
        let totals = self.totals(AGGREGATOR);
        let tables = self.context.model().application_tables().count();
        let faults = self.board.faults.current();
        let are_off = faults == FaultPlan { seed: faults.seed, ..FaultPlan::default() };
        let database = Stage::new("DynamoDB", "keeps the items").linked("/item").fact("tables", tables);
        vec![
            Stage::new("application", "writes items")
                .linked("/play")
                .fact("counted changes", self.board.changes.newest()),
            if are_off {
                database.judged(Verdict::Good, "no faults")
            } else {
                database.judged(Verdict::Warning, "faults are on")
            },
            Stage::new("streams", "deliver each change")
                .linked("/play")
                .fact("read", totals.read())
                .fact("in flight", totals.in_flight()),
        ]
    }

    fn counting(&self) -> Vec<Stage> {
        let meter = self.board.meters.function(AGGREGATOR);
        let units = |number: u64| self.metric(AGGREGATOR, number);
        let (written, records) = (meter.metric("WriteUnits"), meter.metric("Records"));
        let aggregator = self
            .stream_stage(AGGREGATOR, "reads the streams, and counts each change once")
            .fact("write units", units(written))
            .fact("units a record", self.metric(AGGREGATOR, ratio(written, records)))
            .fact("a million on AWS", self.metric(AGGREGATOR, million_records(written, records)));
        let rollups = Stage::new("rollups and mirrors", "the totals, and their copies on items")
            .linked(if self.parked > 0 { "/health" } else { "/rollups" })
            .fact("rollups of the model", self.context.model().rollups.len())
            .fact("transactions", units(meter.metric("Transactions")))
            .fact("conflicts", units(meter.metric("Conflicts")))
            .fact("mirrors refreshed", units(meter.metric("Mirrors")));
        let rollups = match self.parked {
            0 => rollups.judged(Verdict::Good, "no item is parked"),
            1 => rollups.judged(Verdict::Warning, "1 item is parked"),
            parked => rollups.judged(Verdict::Warning, format!("{parked} items are parked")),
        };
        vec![aggregator, rollups]
    }

    fn relaying(&self) -> Vec<Stage> {
        let relay = self.board.meters.function(RELAY);
        let drained = self.board.meters.function(INVALIDATOR);
        let of = |name: &str, number: u64| self.metric(name, number);
        let events = Stage::new("events", "tell other systems")
            .linked("/play")
            .fact("rules of the model", self.context.model().events.len())
            .fact("sent", of(RELAY, relay.metric("Events") + drained.metric("Events")))
            .fact("failed", of(RELAY, relay.metric("EventsFailed") + drained.metric("EventsFailed")));
        vec![
            self.stream_stage(RELAY, "reads the streams, and passes each change on"),
            self.cache_stage(&relay),
            self.queue_stage("paths", "invalidated in CloudFront", INVALIDATOR, &drained)
                .fact("paths", of(INVALIDATOR, drained.metric("PathsInvalidated"))),
            events,
        ]
    }

    /// The cache keys. Without a Redis, none is removed, and each change still states its keys.
    fn cache_stage(&self, relay: &FunctionMeter) -> Stage {
        let stage = Stage::new("cache keys", "removed from Redis")
            .linked("/play")
            .fact("keys that changes made stale", self.board.changes.stale_keys());
        if self.board.has_cache {
            return stage.fact("keys removed", self.metric(RELAY, relay.metric("KeysInvalidated")));
        }
        stage.judged(Verdict::Unknown, "no Redis here: no key is removed, Play shows the keys of each change")
    }

    fn datasets(&self) -> Vec<Stage> {
        let meters = &self.board.meters;
        let (relay, exported) = (meters.function(RELAY), meters.function(EXPORTER));
        let (compacted, archived) = (meters.function(COMPACTOR), meters.archived());
        let archive = Stage::new("archive", "lines of the relay, in S3")
            .linked("/health")
            .fact("lines", self.metric(RELAY, relay.metric("LinesArchived")))
            .fact("objects", archived.total())
            .fact("objects a second", a_second(archived.recent(self.now)));
        let exporter = self
            .queue_stage("exporter", "makes rows of the archive", EXPORTER, &exported)
            .fact("rows", self.metric(EXPORTER, exported.metric("Rows")))
            .fact("files", self.metric(EXPORTER, exported.metric("Files")))
            .fact("rejected lines", self.metric(EXPORTER, exported.metric("RejectedLines")));
        let datasets = Stage::new("datasets", "Delta tables")
            .linked("/health")
            .fact("datasets of the model", self.context.model().datasets.len())
            .fact("newest export", self.age(exported.at));
        let compactor = self
            .queue_stage("compactor", "packs files and derives current rows", COMPACTOR, &compacted)
            .fact("rows written", self.metric(COMPACTOR, compacted.metric("RowsWritten")));
        vec![archive, exporter, datasets, compactor]
    }

    /// A function that reads streams.
    fn stream_stage(&self, function: &str, about: &str) -> Stage {
        let totals = self.totals(function);
        let (verdict, text) = totals.verdict();
        let page = match (totals.failed, totals.waiting.len()) {
            (0, 0) => "/play",
            (0, _) => "/health",
            (_, _) => "/health/failures",
        };
        let waiting = totals.waiting.iter();
        let waiting = waiting.map(|batch| (waiting_item(self.context, batch), batch.reason.clone()));
        Stage::new(function, about)
            .linked(page)
            .judged(verdict, text)
            .advised(self.failed_advice(function, &totals.streams))
            .waits_for(waiting.take(SHOWN_WAITING).collect())
            .fact("records a second", totals.rate())
            .fact("records", totals.delivered())
            .fact("delay of the newest", totals.lag().map_or_else(|| "–".to_owned(), shown_lag))
            .fact("in flight", totals.in_flight())
            .fact("delivered again after they were taken", totals.redelivered())
            .fact("records that are retried", totals.waiting.iter().map(|batch| batch.records).sum::<u64>())
            .fact("failed invocations", totals.failures())
    }

    /// A function behind a queue or a timer.
    fn queue_stage(&self, name: &str, about: &str, function: &str, meter: &FunctionMeter) -> Stage {
        let stage = Stage::new(name, about).linked("/health");
        let stage = match meter.failures {
            0 => stage.judged(Verdict::Good, "no failure"),
            failures => stage.judged(Verdict::Warning, count_text(failures, "failure")),
        };
        stage.fact("newest run", self.metric(function, self.age(meter.at)))
    }

    /// The commands for batches that a function did not take, one for each table.
    fn failed_advice(&self, function: &str, streams: &[Arc<StreamMeter>]) -> Option<String> {
        let failed = streams.iter().filter(|stream| self.failed.of(function, &stream.table) > 0);
        let commands = failed.filter_map(|stream| {
            redrive_command(self.context, &prefix_of(function, &stream.table))
                .map(|command| format!("`{command}`"))
        });
        let commands: Vec<String> = commands.collect();
        (!commands.is_empty()).then(|| failed_advice(&commands.join(" and ")))
    }

    fn totals(&self, function: &str) -> StreamTotals {
        let meters = &self.board.meters;
        let streams = meters.streams_of(function);
        StreamTotals {
            failed: streams.iter().map(|stream| self.failed.of(function, &stream.table)).sum(),
            streams,
            waiting: meters.waiting(function),
            now: self.now,
        }
    }

    /// A metric; unknown if the function is a program of its own.
    fn metric(&self, function: &str, value: impl ToString) -> String {
        if self.board.programs.contains(function) { "unknown".to_owned() } else { value.to_string() }
    }

    fn age(&self, at: Option<Timestamp>) -> String {
        at.map_or_else(|| "–".to_owned(), |at| format!("{} ago", age_text(self.now.since(at))))
    }
}

impl StreamTotals {
    fn sum(&self, number: impl Fn(&StreamMeter) -> u64) -> u64 {
        self.streams.iter().map(|stream| number(stream)).sum()
    }

    fn read(&self) -> u64 {
        self.sum(|stream| stream.progress.counts().read)
    }

    fn in_flight(&self) -> u64 {
        self.sum(StreamMeter::in_flight)
    }

    fn delivered(&self) -> u64 {
        self.sum(|stream| stream.delivered().total())
    }

    /// Records of retries, and records that were delivered although they had been accepted.
    fn redelivered(&self) -> u64 {
        self.sum(|stream| stream.progress.counts().redelivered)
    }

    /// Invocations that did not take their whole batch.
    fn failures(&self) -> u64 {
        self.sum(|stream| stream.progress.counts().failed)
    }

    fn rate(&self) -> String {
        a_second(self.sum(|stream| stream.delivered().recent(self.now)))
    }

    fn lag(&self) -> Option<Duration> {
        self.streams.iter().filter_map(|stream| stream.lag()).max()
    }

    /// How the stage stands: lost records first, then waiting ones.
    fn verdict(&self) -> (Verdict, String) {
        if self.failed > 0 {
            return (Verdict::Bad, count_text(self.failed, "failed batch"));
        }
        match self.waiting.len() {
            0 => {}
            1 => return (Verdict::Warning, "a batch is retried".to_owned()),
            batches => return (Verdict::Warning, format!("{batches} batches are retried")),
        }
        let is_late = self.in_flight() > 0 && self.lag().is_some_and(|lag| lag > UP_TO_DATE);
        if is_late { (Verdict::Warning, "late".to_owned()) } else { (Verdict::Good, "up to date".to_owned()) }
    }
}

/// The mean of a number of the last ten seconds.
fn a_second(recent: u64) -> String {
    ratio(recent, 10)
}

/// A delay. Changes of the embedded database have a time in whole seconds.
fn shown_lag(lag: Duration) -> String {
    if lag < Duration::from_secs(1) { "under 1 s".to_owned() } else { age_text(lag) }
}

/// A quotient with one decimal; a dash if there is nothing to divide by.
fn ratio(number: u64, by: u64) -> String {
    if by == 0 {
        return "–".to_owned();
    }
    let tenths = (number.saturating_mul(10) + by / 2) / by;
    format!("{}.{}", tenths / 10, tenths % 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotients_are_rounded_to_a_tenth() {
        assert_eq!([ratio(27, 10), ratio(8, 3), ratio(0, 3), ratio(5, 0)], ["2.7", "2.7", "0.0", "–"]);
        assert_eq!(shown_lag(Duration::from_millis(999)), "under 1 s");
    }
}
