//! A trial: sample records at given rates, through the functions' own code, on tables in memory that charge by DynamoDB's rules.
//!
//! ```text
//! sample ─▶ records of each entity ─ rates ─▶ one stream in time ─ shards, window, batch size ─▶ batches ─▶ aggregator ─▶ OverlayTables
//!                                                                     ▲                              ├────▶ events, lines, paths, rows
//!                                                                     └─ state table's stream ───────┘
//! ```
//!
//! If rollups are sources, their writes are records of the state table's stream, which is delivered in the same way, at the time of the batch that
//! wrote them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use afterwrite_functions::StreamAggregator;
use afterwrite_ledger::Ledger;
use afterwrite_ledger::tables::{TableIndex, item_bytes};
use afterwrite_model::record::{Item, RecordDecoder, Timestamp};
use afterwrite_model::table::{Model, Table};
use afterwrite_model::{Error, ErrorKind, Result};
use afterwrite_operations::jobs::approximate;
use afterwrite_preview::recording::RecordCutter;
use afterwrite_preview::tables::{OverlayTables, SourceItems, images_of};
use afterwrite_preview::trace::{RecordTracer, TraceLookups};
use afterwrite_relay::notify::TargetName;

use super::batches::{DeliveredBatch, DeliverySettings, OpenBatches, TimedRecord};
use super::event_usage::{EventTargetKind, EventUsage, TrialEvents};
use super::figures::PATH_WINDOW_SECONDS;
use super::level_stream::{LevelStream, LevelTotals};
use super::paced::{EntityRate, PacedSample, RecordSource, paced};
use super::sampled_change::SampledChange;
use super::trial_clock::TrialClock;

/// The state table of a trial.
const STATE_TABLE: &str = "state";
/// Firehose bills each record up to the next 5 KB, and a record holds up to 1,000 KiB.
const FIREHOSE_STEP: usize = 5 * 1024;
const FIREHOSE_RECORD: usize = 1_000 * 1024;

/// Everything that a trial needs.
#[derive(Debug)]
pub struct CostTrial<'t> {
    /// The model.
    pub model: Arc<Model>,
    /// Change records as Lambda delivers them, in any order.
    pub records: &'t [String],
    /// The rates of entities; entities without a rate do not change.
    pub rates: &'t [EntityRate],
    /// How records are delivered.
    pub delivery: DeliverySettings,
    /// The indexes of source tables, by the table's name in the model.
    pub indexes: BTreeMap<String, Vec<TableIndex>>,
    /// The kinds of the targets of events, by the name that rules give them; other targets are buses.
    pub events: BTreeMap<TargetName, EventTargetKind>,
}

/// The measures of a trial.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TrialTotals {
    /// The time that the trial stands for.
    pub seconds: f64,
    /// Records that were delivered.
    pub records: u64,
    /// Invocations of each stream function by the source tables' streams.
    pub batches: u64,
    /// Invocations by the state table's stream, of each function that reads it.
    pub level_batches: u64,
    /// The levels above the first, if rollups are sources. Their write units are part of the total.
    pub levels: Vec<LevelTotals>,
    /// Write units.
    pub write_units: u64,
    /// Read units.
    pub read_units: u64,
    /// Bytes that the functions' writes added to the state table, and by mirrors to source tables.
    pub state_bytes: u64,
    /// Bytes that the indexes of ranks grew by.
    pub rank_bytes: u64,
    /// The busiest partition of an index of a rank, if the model has ranks.
    pub busiest_rank: Option<BusyRank>,
    /// Items that the functions created.
    pub state_items: u64,
    /// Bytes that the source tables grew by through the records.
    pub source_bytes: u64,
    /// Items that the records inserted, less items that they removed.
    pub source_items: u64,
    /// Bytes of the archived lines.
    pub line_bytes: u64,
    /// Steps of 5 KB that Firehose bills.
    pub firehose_steps: u64,
    /// CloudFront paths, each once in a window of 20 s.
    pub paths: u64,
    /// The events of each target that the model's rules name.
    pub events: BTreeMap<TargetName, EventUsage>,
    /// Rows of datasets.
    pub rows: u64,
    /// Rows of items that did not exist before.
    pub new_rows: u64,
    /// Records of the sample whose items match no entity, if no rate is given for them: they are not part of the trial.
    pub unmatched: u64,
    /// Entities whose changes are too rare for a trial of this length: they are not part of it.
    pub rare: Vec<String>,
}

/// The partition of a rank's index with the most write units.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BusyRank {
    /// The index.
    pub index: Arc<str>,
    /// Its write units.
    pub write_units: u64,
}

impl CostTrial<'_> {
    /// Runs the trial.
    ///
    /// # Errors
    /// `Configuration` for a rate of an entity that the model or the sample does not have, or records that cannot be counted.
    pub async fn run(&self) -> Result<TrialTotals> {
        let PacedSample { stream, seconds, unmatched, rare } = self.stream()?;
        let (names, now) = (self.table_names(), self.newest());
        let mut items = SourceItems::new(Arc::clone(&self.model), names.clone(), STATE_TABLE.into(), now);
        for record in self.records {
            items.add_images(record)?;
        }
        let tables = OverlayTables::new(items).with_indexes(self.all_indexes());
        let tables = Arc::new(tables.logging(STATE_TABLE.into()));
        let mut run = TrialRun {
            of_tables: self.aggregator(&tables, now),
            of_state: self.aggregator(&tables, now),
            levels: LevelStream::new(&self.model, &STATE_TABLE.into()),
            derived: DerivedTotals::new(&self.model, &names),
            events: TrialEvents::new(&self.model, &self.events, TrialClock(now))?,
            totals: TrialTotals { seconds, unmatched, rare, ..TrialTotals::default() },
            batches: OpenBatches::new(self.delivery),
            tables: Arc::clone(&tables),
            now,
        };
        for record in stream {
            run.derived.add_images(&record.json);
            run.derived.add_effects(&record, &mut run.totals).await?;
            Box::pin(run.deliver_until(record.at)).await?;
            run.batches.add(record);
        }
        Box::pin(run.deliver_until(f64::INFINITY)).await?;
        let TrialRun { derived, events, mut totals, .. } = run;
        totals.events = events.usage();
        self.add_tables(&tables, &mut totals);
        (totals.source_bytes, totals.source_items) = derived.source_growth();
        totals.paths = count(derived.paths.len());
        Ok(totals)
    }

    /// The indexes of the source tables, and the indexes of ranks.
    fn all_indexes(&self) -> BTreeMap<String, Vec<TableIndex>> {
        let mut indexes = self.indexes.clone();
        indexes.insert(STATE_TABLE.to_owned(), TableIndex::of_ranks(&self.model));
        indexes
    }

    /// Adds what the tables have charged.
    fn add_tables(&self, tables: &OverlayTables<SourceItems>, totals: &mut TrialTotals) {
        let units = tables.units();
        (totals.write_units, totals.read_units) = (units.writes, units.reads);
        totals.state_bytes = tables.growth();
        totals.rank_bytes = tables.index_growth(STATE_TABLE);
        totals.busiest_rank = self.busiest_rank(tables);
        let created = tables.differences();
        totals.state_items = count(created.iter().filter(|item| item.before.is_none()).count());
    }

    fn busiest_rank(&self, tables: &OverlayTables<SourceItems>) -> Option<BusyRank> {
        let ranks = self.model.rank_indexes().into_iter().map(|index| BusyRank {
            write_units: tables.busiest_partition(&index.attribute),
            index: index.attribute,
        });
        ranks.max_by_key(|rank| rank.write_units)
    }

    /// The names of the model's tables in the trial.
    fn table_names(&self) -> Vec<Arc<str>> {
        let name =
            |table: &Table| if table.is_state() { STATE_TABLE.into() } else { Arc::clone(&table.name) };
        self.model.tables.iter().map(name).collect()
    }

    fn aggregator(&self, tables: &TrialTables, now: Timestamp) -> TrialAggregator {
        let (model, state) = (Arc::clone(&self.model), STATE_TABLE.into());
        let ledger = Ledger::new(model, self.table_names(), state, Arc::clone(tables), TrialClock(now));
        StreamAggregator::new(ledger)
    }

    /// The records at their rates, in the order of time. A second copy of a record is left out: the trial would take it for a duplicate.
    fn stream(&self) -> Result<PacedSample<'_>> {
        let mut records: Vec<(SampledChange, &String)> = self
            .records
            .iter()
            .filter_map(|json| Some((SampledChange::of(&self.model, json)?, json)))
            .collect();
        records.sort_by(|(one, _), (other, _)| one.order().cmp(&other.order()));
        records.dedup_by(|(one, _), (other, _)| one.is_copy_of(other));
        let mut by_source: BTreeMap<RecordSource, Vec<TimedRecord<'_>>> = BTreeMap::new();
        let total = approximate(count(records.len()));
        for ((change, json), number) in records.into_iter().zip(0_u64..) {
            let SampledChange { source, table, key, .. } = change;
            // The share of the sample's time that has passed.
            let at = (approximate(number) + 0.5) / total;
            let json = json.as_str().into();
            by_source.entry(source).or_default().push(TimedRecord { json, table, key, at });
        }
        paced(&self.model, by_source, self.rates)
    }

    fn newest(&self) -> Timestamp {
        let mut decoder = RecordDecoder::new(&self.model.attributes);
        let times = self.records.iter().filter_map(|json| decoder.record(json.as_bytes()).ok()?.created_at);
        times.max().unwrap_or_else(|| Timestamp::from_epoch_ms(0))
    }
}

type TrialTables = Arc<OverlayTables<SourceItems>>;
type TrialAggregator = StreamAggregator<TrialTables, TrialClock>;

/// A trial under way.
struct TrialRun<'r> {
    /// Each stream has its own handler: records of a sample may name a region.
    of_tables: TrialAggregator,
    of_state: TrialAggregator,
    /// `None` if no rollup is a source.
    levels: Option<LevelStream>,
    derived: DerivedTotals,
    events: TrialEvents,
    totals: TrialTotals,
    batches: OpenBatches<'r>,
    tables: TrialTables,
    now: Timestamp,
}

impl TrialRun<'_> {
    /// Delivers the batches that are due at this time, and batches of rollups that follow from them.
    async fn deliver_until(&mut self, time: f64) -> Result<()> {
        while let Some(batch) = self.batches.next_due(time) {
            Box::pin(self.deliver(batch)).await?;
        }
        Ok(())
    }

    async fn deliver(&mut self, batch: DeliveredBatch<'_>) -> Result<()> {
        let level = self.levels.as_ref().filter(|levels| levels.table == batch.table);
        let aggregator = if level.is_some() { &self.of_state } else { &self.of_tables };
        let before = self.tables.units().writes;
        let event = format!("{{\"Records\":[{}]}}", batch.records.join(","));
        let deadline = TrialClock(self.now).deadline();
        let handled = Box::pin(aggregator.handle(event.as_bytes(), deadline)).await?;
        if let Some(failed) = handled.failures.into_iter().chain(handled.parked).next() {
            let message = "a record of the sample cannot be counted";
            return Err(Error::new(ErrorKind::Configuration, message).caused_by(failed.error));
        }
        Box::pin(self.events.publish(&batch.records, &self.derived.tracer)).await?;
        match level {
            Some(levels) => {
                self.totals.level_batches += 1;
                let units = self.tables.units().writes - before;
                levels.add(&mut self.totals.levels, &batch.records, units);
                self.derived.add_lines(&levels.archived(&batch.records), &mut self.totals)?;
            }
            None => {
                self.totals.batches += 1;
                self.totals.records += count(batch.records.len());
                self.derived.add_lines(&batch.records, &mut self.totals)?;
            }
        }
        self.follow(batch.at).await
    }

    /// Adds the changes of rollups that a batch has written.
    async fn follow(&mut self, at: f64) -> Result<()> {
        let writes = self.tables.take_writes();
        let Some(levels) = &mut self.levels else { return Ok(()) };
        let changes = levels.records(writes, at, self.now);
        for record in changes {
            self.derived.add_effects(&record, &mut self.totals).await?;
            self.batches.add(record);
        }
        Ok(())
    }
}

/// The effects of records outside the tables.
struct DerivedTotals {
    cutter: RecordCutter,
    tracer: RecordTracer<SourceItems>,
    paths: BTreeSet<(u64, String)>,
    /// The growth of the source tables: bytes and items, negative if they shrank.
    source_growth: (i64, i64),
}

impl DerivedTotals {
    fn new(model: &Arc<Model>, names: &[Arc<str>]) -> Self {
        let lookups = TraceLookups::new(model, None);
        Self {
            cutter: RecordCutter::new(Arc::clone(model), names.to_vec()),
            tracer: RecordTracer::new(Arc::clone(model), names.to_vec(), lookups),
            paths: BTreeSet::new(),
            source_growth: (0, 0),
        }
    }

    fn source_growth(&self) -> (u64, u64) {
        let (bytes, items) = self.source_growth;
        (u64::try_from(bytes).unwrap_or(0), u64::try_from(items).unwrap_or(0))
    }

    fn add_images(&mut self, json: &str) {
        let (old, new) = images_of(json).unwrap_or_default();
        let bytes = |image: &Option<Item>| {
            image.as_ref().map_or(0, |item| i64::try_from(item_bytes(item)).unwrap_or(i64::MAX))
        };
        self.source_growth.0 += bytes(&new) - bytes(&old);
        self.source_growth.1 += i64::from(new.is_some()) - i64::from(old.is_some());
    }

    /// Adds the lines of a batch, which share Firehose records.
    fn add_lines(&self, batch: &[impl AsRef<str>], totals: &mut TrialTotals) -> Result<()> {
        let mut bytes = 0;
        for json in batch {
            bytes += self.cutter.line(json.as_ref())?.len();
        }
        let (full, rest) = (bytes / FIREHOSE_RECORD, bytes % FIREHOSE_RECORD);
        let steps = full * (FIREHOSE_RECORD / FIREHOSE_STEP) + rest.div_ceil(FIREHOSE_STEP);
        totals.firehose_steps += count(steps);
        totals.line_bytes += count(bytes);
        Ok(())
    }

    async fn add_effects(&mut self, record: &TimedRecord<'_>, totals: &mut TrialTotals) -> Result<()> {
        let trace = self.tracer.trace(&record.json).await?;
        totals.rows += count(trace.rows.len());
        if trace.operation == "INSERT" {
            totals.new_rows += count(trace.rows.len());
        }
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "the time of a record is positive and at most some hours"
        )]
        let window = (record.at / PATH_WINDOW_SECONDS) as u64;
        self.paths.extend(trace.paths.into_iter().map(|path| (window, path)));
        Ok(())
    }
}

fn count(number: usize) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}
