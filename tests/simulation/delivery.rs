//! The event source mapping: the records that it delivers, batches, and what their responses mean for the shards.
//!
//! All changes of the application's tables become records of their streams. Of the state table's stream, only the records that the filter of
//! the product's event source mapping passes are delivered.

use std::collections::BTreeMap;

use afterwrite_functions::AggregatedBatch;
use afterwrite_ledger::CommitOutcome;

use super::changes::{is_of_source, source_event, state_filter};
use super::options::LARGEST_BURST;
use super::run::{ConsumerTask, SimulationRun, TaskKind, TaskResult};
use super::single_changes;
use super::state_keys::{entry_key, marker_key};
use super::store::{STATE, Store, text};
use super::stream::{StreamRecord, StreamShard, TABLES};

impl<S: Store + 'static> SimulationRun<S> {
    /// Appends the changes of the tables to their streams, and checks the changes of the state table.
    pub(crate) fn collect_changes(&mut self, generation: u64) {
        for table in TABLES {
            let changes = self.tables.inner().take_changes(table);
            if generation > 0 {
                self.problems.extend(changes.iter().flat_map(single_changes::mirror_faults));
            }
            let first = self.streams.records.len();
            self.streams.append(table, changes, |_| true, &mut self.random);
            let appended = u64::try_from(self.streams.records.len() - first).unwrap();
            *(if generation == 0 { &mut self.application_writes } else { &mut self.own_writes }) += appended;
            self.note_records(first);
        }
        // A new function is deployed together with the filter of its model.
        let newest = self.newest_generation();
        let changes = self.tables.inner().take_changes(STATE);
        for change in &changes {
            self.watcher.observe(change, generation);
            self.watcher.source_changes += usize::from(is_of_source(change, newest));
            self.problems.extend(single_changes::lost_mark(change));
            if self.trace.is_shown() {
                println!("        state: {:?} -> {:?}", change.old, change.new);
            }
        }
        self.problems.append(&mut self.watcher.problems);
        let first = self.streams.records.len();
        let filter = state_filter(newest);
        let is_filtered = self.tables.inner().is_filtered();
        let passes = |record: &StreamRecord| !is_filtered || filter.accepts(&record.json);
        self.streams.append(STATE, changes, passes, &mut self.random);
        self.note_records(first);
    }

    /// Tells the others of the records from this number on.
    fn note_records(&mut self, first: usize) {
        for number in first..self.streams.records.len() {
            self.note_record(number);
            let record = &self.streams.records[number];
            if let Some(source) = record.source() {
                self.coverage.record(source_event(source, record));
            }
        }
    }

    fn note_record(&mut self, number: usize) {
        let record = &self.streams.records[number];
        if self.trace.is_shown() {
            println!("        record {number}: {record}");
        }
        let (table, partition, sort) = (record.table, &record.partition, record.sort.as_deref());
        if record.is_expiry {
            let position = record.position();
            let marker = marker_key(table, partition, sort, &position);
            if (partition.as_str(), sort) == ("USER#0", Some("SESSION#0")) {
                self.application.marker_like = Some(format!("0#EXPIRED#{position}"));
            }
            self.watcher.expiries.insert(marker, (entry_key(table, partition, sort), position));
        }
        if let Some(old) = &record.old
            && old.contains_key("GSI1PK")
        {
            self.tables.add_earlier_version(text(old, "GSI1PK"), old.clone());
        }
    }

    /// Records that a function whose model does not use a rollup as a source answered for the rollup's records.
    pub(crate) fn cover_old_model(&mut self, generation: u64, records: &[usize]) {
        let mut sources = records.iter().filter_map(|record| self.streams.records[*record].source());
        if sources.any(|source| source.first_generation() > generation) {
            self.coverage.record("new source read by an old model");
        }
    }

    /// Handles the result of a task.
    pub(crate) fn complete(&mut self, task: ConsumerTask, result: afterwrite_model::Result<TaskResult>) {
        let ConsumerTask { id, kind, records, left, .. } = task;
        let handled = match result {
            Ok(TaskResult::AggregatedBatch(handled)) => handled,
            Ok(TaskResult::Reconciled(outcome)) => {
                self.note(&[6, id], || format!("task {id} reconciled: {:?}", outcome.failures));
                return self.check_reconciliation(records.first().copied(), &outcome);
            }
            Err(error) => {
                self.problems.push(format!("an invocation failed as a whole: {error}"));
                return;
            }
        };
        let failed = self.first_failed(&records, &handled);
        if failed.is_some() {
            self.unrefreshed.extend(left);
        }
        self.note(&[7, id, u64::try_from(failed.unwrap_or(9999)).unwrap()], || {
            let errors: Vec<String> =
                handled.failures.iter().map(|failure| failure.error.to_string()).collect();
            format!("task {id} returns: first failed record {failed:?}: {errors:?}")
        });
        if !handled.unwritable_mirrors.is_empty() {
            self.coverage.record("mirror could not be written");
            // The application may write to the item between any two requests.
            if !self.options.breaks_mirrors && !self.may_fail {
                self.problems.push(format!("mirrors could not be written: {:?}", handled.unwritable_mirrors));
            }
        }
        let parked = self.parked_records(&records, &handled);
        let counted = records.get(..failed.unwrap_or(records.len())).unwrap_or_default();
        for record in counted.iter().filter(|record| !parked.contains(record)) {
            let now = self.time.now();
            self.streams.records[*record].first_counted_at.get_or_insert(now);
        }
        if !self.may_fail && failed.is_some() {
            let errors: Vec<String> =
                handled.failures.iter().map(|failure| failure.error.to_string()).collect();
            let labels: Vec<String> =
                records.iter().map(|record| self.streams.records[*record].position()).collect();
            self.problems.push(format!("records failed without faults ({kind:?} {labels:?}): {errors:?}"));
        }
        match (kind, failed) {
            (TaskKind::Deliver { shard }, failed) => self.complete_delivery(shard, id, failed, &records),
            (TaskKind::Redrive, Some(failed)) => self.failed_batches.push(records[failed..].to_vec()),
            (TaskKind::Redrive, None) | (TaskKind::RecordingReplay | TaskKind::Reconcile, _) => {}
        }
    }

    /// The records of a batch that were parked. Some are redriven later; the others must be healed by the item's next
    /// change or a reconciliation.
    fn parked_records(&mut self, records: &[usize], handled: &AggregatedBatch) -> Vec<usize> {
        let numbers = handled.parked.iter().filter_map(|parked| parked.sequence_number.as_deref());
        let numbers: Vec<&str> = numbers.collect();
        let is_parked =
            |record: &usize| numbers.contains(&self.streams.records[*record].sequence_number.as_str());
        let parked: Vec<usize> = records.iter().copied().filter(is_parked).collect();
        if parked.len() != numbers.len() {
            self.problems.push(format!(
                "{} records are parked, of which the batch has {}",
                numbers.len(),
                parked.len()
            ));
        }
        for record in parked.iter().map(|record| &self.streams.records[*record]) {
            if !single_changes::is_marked(self.tables.inner(), record) {
                self.problems.push(format!("{record} is parked, but not marked"));
            }
        }
        if !parked.is_empty() {
            self.coverage.record("record parked");
            self.note(&[9], || format!("parked: {parked:?}"));
            self.allow_unseen_images(parked.clone());
            self.parked_records.extend(&parked);
        }
        parked
    }

    /// Checks a reconciliation of a record's item, or of an item of a backfill.
    fn check_reconciliation(&mut self, record: Option<usize>, outcome: &CommitOutcome) {
        if outcome.failures.is_empty() {
            return;
        }
        self.reconcile_again.extend(record);
        if !self.may_fail {
            let position = record.map(|record| self.streams.records[record].position()).unwrap_or_default();
            self.problems
                .push(format!("reconciling {position} failed without faults: {:?}", outcome.failures));
        }
    }

    /// The index in the batch of the first record that is redelivered; checks the response.
    fn first_failed(&mut self, records: &[usize], handled: &AggregatedBatch) -> Option<usize> {
        let failures = &handled.response.batch_item_failures;
        if failures.len() > 1 || failures.is_empty() != handled.failures.is_empty() {
            self.problems.push(format!("a response with {} identifiers", failures.len()));
        }
        let identifier = &failures.first()?.item_identifier;
        if identifier.is_empty() {
            return Some(0);
        }
        let index =
            records.iter().position(|record| self.streams.records[*record].sequence_number == *identifier);
        if index.is_none() {
            self.problems.push(format!("the response names {identifier}, which is not in the batch"));
        }
        index
    }

    /// Handles a response: the shard advances to the first record that failed.
    fn complete_delivery(&mut self, shard: usize, task: u64, failed: Option<usize>, records: &[usize]) {
        if self.streams.shards[shard].in_flight != Some(task) {
            return; // The event source mapping no longer waits for this task.
        }
        match failed {
            Some(failed) => self.fail_delivery(shard, task, failed, records),
            None => {
                let shard = &mut self.streams.shards[shard];
                shard.checkpoint += records.len();
                (shard.in_flight, shard.attempts) = (None, 0);
            }
        }
    }

    pub(crate) fn fail_delivery(&mut self, shard: usize, task: u64, failed: usize, records: &[usize]) {
        let is_bisected = self.random.chance(600);
        let retries = self.options.retries;
        let shard = &mut self.streams.shards[shard];
        if shard.in_flight != Some(task) {
            return;
        }
        shard.in_flight = None;
        shard.checkpoint += failed;
        shard.attempts = if failed > 0 { 1 } else { shard.attempts + 1 };
        if retries.is_some_and(|retries| shard.attempts > retries) {
            let dropped = if is_bisected { &records[failed..=failed] } else { &records[failed..] };
            shard.checkpoint += dropped.len();
            shard.attempts = 0;
            self.failed_batches.push(dropped.to_vec());
            self.allow_unseen_images(dropped.to_vec());
            self.coverage.record("batch given up");
            self.note(&[8], || format!("to the on-failure bucket: {dropped:?}"));
        }
    }

    /// The shards whose next batch can be delivered.
    pub(crate) fn waiting_shards(&self) -> Vec<usize> {
        let now = self.time.now();
        let is_waiting = |(index, shard): &(usize, &StreamShard)| {
            shard.in_flight.is_none()
                && shard.checkpoint < shard.records.len()
                && shard.delayed_until.is_none_or(|until| until <= now)
                && self.streams.is_readable(*index, |parent| self.streams.shards[parent].checkpoint)
        };
        self.streams.shards.iter().enumerate().filter(is_waiting).map(|(index, _)| index).collect()
    }

    /// Starts the delivery of a shard's next batch, of a random size, if there is one; returns the task.
    pub(crate) fn deliver(&mut self, shard: usize) -> Option<u64> {
        let source = &self.streams.shards[shard];
        let (from, waiting) = (source.checkpoint, source.records.len() - source.checkpoint);
        let is_readable = || self.streams.is_readable(shard, |parent| self.streams.shards[parent].checkpoint);
        if source.in_flight.is_some() || waiting == 0 || !is_readable() {
            return None;
        }
        let size = self.batch_size(waiting).min(waiting);
        let records = self.streams.shards[shard].records[from..from + size].to_vec();
        self.cover_batch(&records);
        let task = self.invoke(TaskKind::Deliver { shard }, records);
        self.streams.shards[shard].in_flight = Some(task);
        Some(task)
    }

    /// A small batch, or all that wait if they are many.
    fn batch_size(&mut self, waiting: usize) -> usize {
        let largest = usize::try_from(LARGEST_BURST).unwrap();
        if waiting > 60 && self.random.chance(900) { largest } else { 1 + self.below(12) }
    }

    /// Records what is special of a batch.
    fn cover_batch(&mut self, records: &[usize]) {
        match records.len() {
            ..200 => {}
            200..1500 => self.coverage.record("batch of hundreds of records"),
            1500..10_000 => self.coverage.record("batch of thousands of records"),
            _ => self.coverage.record("batch of 10,000 records"),
        }
        let mut counts: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
        for record in records.iter().map(|record| &self.streams.records[*record]) {
            let (images, expiries) = counts.entry(&record.partition).or_default();
            *images += usize::from(record.new.is_some() && record.sort.as_deref() == Some("READING"));
            *expiries += usize::from(record.is_expiry && record.sort.as_deref() == Some("SESSION#0"));
        }
        let has = |is_many: fn(&(usize, usize)) -> bool| counts.values().any(is_many);
        if has(|(images, _)| *images > 99) {
            self.coverage.record("batch of more than 99 images of one item");
        }
        if has(|(_, expiries)| *expiries > 50) {
            self.coverage.record("batch of more than 50 expiries of one item");
        }
    }
}
