//! The order of a run's steps, from the first write to the last check.

use std::collections::BTreeSet;
use std::time::Duration;

use super::check;
use super::oracle::{ItemKind, item_kind};
use super::run::{SimulationRun, TaskKind};
use super::second_reader::RelayFaults;
use super::store::{STATE, Store, text};
use super::stream::{STREAMED, StreamRecord};
use super::turns::MAX_STEPS;

/// Shards are not split beyond this number.
const MAX_SHARDS: usize = 40;
/// The steps of the second reader, after everything was written, in which its calls fail: most events are published then.
const RELAY_STEPS_WITH_FAULTS: u32 = 1500;
const DAY: u64 = 86_400;
/// How often a batch with an expiry is delivered twice at a time, per thousand.
const DOUBLE_DELIVERIES: u64 = 600;

impl<S: Store + 'static> SimulationRun<S> {
    /// Runs the simulation; returns the hash of its trace.
    pub(crate) fn run(&mut self) -> u64 {
        self.application.begin(self.tables.inner());
        self.collect_changes(0);
        let mut writes = self.options.writes;
        let mut steps = 0;
        while self.problems.is_empty() && (writes > 0 || !self.is_idle()) && steps < 20_000 {
            steps += 1;
            self.step(&mut writes);
            if self.random.chance(300) {
                self.relay.step(&self.streams, RelayFaults::All);
            }
        }
        self.finish();
        self.check();
        for table in STREAMED {
            let items = format!("{:?}", self.tables.inner().scan(table));
            self.trace.add_bytes(items.as_bytes());
        }
        self.coverage.record_injected(self.tables.injected());
        self.coverage.merge(&self.watcher.coverage);
        self.coverage.merge(&self.relay.coverage());
        self.trace.hash()
    }

    fn check(&mut self) {
        if self.problems.is_empty() {
            self.problems = check::check_all(self);
        }
        if self.problems.is_empty() {
            self.drain_relay();
            self.problems.extend(self.relay.check(&self.streams));
        }
    }

    /// Runs the second reader until it has read everything: with events, first with faults, then without.
    fn drain_relay(&mut self) {
        let with_faults = if self.options.events.is_some() { RELAY_STEPS_WITH_FAULTS } else { 0 };
        let mut steps = 0;
        while !self.relay.is_idle(&self.streams) && self.relay.problems.is_empty() {
            steps += 1;
            if steps > MAX_STEPS {
                return self.problems.push("the relay never becomes idle".to_owned());
            }
            self.advance(Duration::from_millis(20));
            let faults = if steps <= with_faults { RelayFaults::WithoutReplays } else { RelayFaults::None };
            self.relay.step(&self.streams, faults);
        }
    }

    fn step(&mut self, writes: &mut u32) {
        let passed = if self.random.chance(40) { self.random.below(30_000) } else { self.random.below(100) };
        self.advance(Duration::from_millis(passed));
        if self.random.chance(self.options.reconciles) {
            self.reconcile_some();
        }
        match self.random.below(1000) {
            0..80 if *writes > 0 => {
                *writes -= 1;
                self.write();
            }
            80..200 => self.deliver_some(),
            200..204 => self.delay(),
            204..214 => self.replay(),
            214..224 => self.redrive_one(),
            236..240 if self.options.generations => self.upgrade_one(),
            240..244 if self.options.recreates_streams => {
                self.advance(Duration::from_secs(2));
                let (table, now) = (STREAMED[self.below(STREAMED.len())], self.time.now());
                self.coverage.record("stream created again");
                self.note(&[20], || format!("the stream of {table} is created again"));
                self.allow_unseen_undelivered_images();
                self.streams.recreate(table, now, &mut self.random);
            }
            244..247 if self.options.time_flies => self.skip_days(),
            247..252 => self.sweep(),
            252..262 if self.options.crashes && !self.tasks.is_empty() => self.crash_some(),
            262..266 if self.options.crashes => self.overtake(),
            266..270 => check::check_sums(self),
            270..276 if self.options.splits && self.streams.shards.len() < MAX_SHARDS => {
                let table = STREAMED[self.below(STREAMED.len())];
                self.coverage.record("shard split");
                self.note(&[27], || format!("a shard of {table} is split"));
                self.streams.split(table, &mut self.random);
            }
            276..282 if self.options.tampers => self.overwrite_or_mend(),
            282..312 if self.tables.has_late_requests() => self.land_request(),
            _ if self.tasks.is_empty() => self.deliver_some(),
            _ => {
                let index = self.below(self.tasks.len());
                self.poll(index);
            }
        }
    }

    /// Reconciles an item, usually one that has just been written, so that its records are undelivered or in progress.
    fn reconcile_some(&mut self) {
        let candidates = self.streams.records.len().min(if self.random.chance(700) { 8 } else { usize::MAX });
        if candidates == 0 {
            return;
        }
        let record = self.streams.records.len() - 1 - self.below(candidates);
        let StreamRecord { table, partition, sort, .. } = &self.streams.records[record];
        if item_kind(table, partition, sort.as_deref()) != ItemKind::Other {
            self.coverage.record("item reconciled");
            self.reconcile(record);
        }
    }

    fn write(&mut self) {
        let now = self.time.now();
        let action = self.application.act(self.tables.inner(), now);
        let verb = action.split(' ').next().unwrap_or_default();
        self.coverage.record(&format!("application: {verb}"));
        self.note(&[21], || format!("application: {action}"));
        self.collect_changes(0);
        if verb == "meet" {
            self.deliver_in_step();
        }
    }

    fn deliver_some(&mut self) {
        let waiting = self.waiting_shards();
        if waiting.is_empty() {
            // Lets the delays pass.
            self.advance(Duration::from_secs(20));
            return;
        }
        let shard = waiting[self.below(waiting.len())];
        if self.options.doubles && self.has_next_expiry(shard) && self.random.chance(DOUBLE_DELIVERIES) {
            return self.deliver_twice(shard);
        }
        self.deliver(shard);
    }

    /// Delays a shard.
    fn delay(&mut self) {
        let shard = self.below(self.streams.shards.len());
        let until = self.time.now().plus(Duration::from_secs(1 + self.random.below(600)));
        self.streams.shards[shard].delayed_until = Some(until);
        self.coverage.record("shard delayed");
        self.note(&[22], || format!("shard {shard} is delayed until {until}"));
    }

    /// Delivers earlier records again: a sequence, or some of it.
    fn replay(&mut self) {
        let shard = self.below(self.streams.shards.len());
        let source = &self.streams.shards[shard];
        if source.checkpoint == 0 {
            return;
        }
        let past = source.records[..source.checkpoint].to_vec();
        let from = self.below(past.len());
        let until = past.len().min(from + 1 + self.below(8));
        let is_sequence = self.random.chance(600);
        let mut is_included = |_: &usize| is_sequence || self.random.chance(400);
        let records: Vec<usize> =
            past[from..until].iter().copied().filter(|record| is_included(record)).collect();
        if !records.is_empty() {
            self.coverage.record("batch delivered again");
            self.invoke(TaskKind::RecordingReplay, records);
        }
    }

    fn redrive_one(&mut self) {
        if self.failed_batches.is_empty() {
            return;
        }
        let index = self.below(self.failed_batches.len());
        let records = self.failed_batches.swap_remove(index);
        self.coverage.record("batch redriven from the on-failure bucket");
        self.invoke(TaskKind::Redrive, records);
    }

    /// Skips days. Before more than 30 days, most runs deliver everything.
    fn skip_days(&mut self) {
        let days = self.random.pick(&[1, 3, 10, 36, 80]).copied().unwrap_or(1);
        if days > 30 && self.random.chance(700) {
            self.mend_measure();
            self.drain();
        }
        if days >= 10 {
            self.reconcile_before_tombstones_expire();
        }
        if days > 1 && self.options.mixed_decoders {
            // Every process has the corrected decoder by now. An earlier decoder cannot know how old a malformed expiry is, so it
            // would park one that was settled so long ago that its marker is gone.
            self.options.malformed = 0;
        }
        self.allow_unseen_undelivered_images();
        let seconds = days * DAY + self.random.below(DAY);
        self.coverage.record("days passed");
        self.note(&[23, days], || format!("{days} days pass"));
        self.advance(Duration::from_secs(seconds));
        if self.random.chance(700) {
            self.sweep();
        }
    }

    fn sweep(&mut self) {
        self.coverage.record("state table swept");
        self.note(&[24], || "TTL deletes expired items of the state table".to_owned());
        self.tables.inner().sweep(STATE);
        self.collect_changes(0);
    }

    /// Delivers all records, lets TTL delete what has expired, and delivers the records of that.
    fn settle(&mut self) {
        self.drain();
        self.sweep();
        self.drain();
    }

    /// Finishes the run after the last write.
    fn finish(&mut self) {
        self.note(&[26], || "the application has finished".to_owned());
        self.mend_measure();
        self.drain();
        self.repair();
        if self.options.generations {
            self.upgrade_all();
        }
        self.redrive_without_faults();
        if self.options.generations {
            self.backfill();
        }
        // Old records may repair a wrong state, so it is checked before and after they are replayed.
        self.settle();
        self.check();
        self.replay_old_records();
        self.drain();
    }

    fn repair(&mut self) {
        let now = self.time.now();
        self.application.repair(self.tables.inner(), now);
        self.collect_changes(0);
    }

    /// Redrives the on-failure bucket, oldest first, until it is empty: once with faults, then without.
    fn redrive_without_faults(&mut self) {
        self.drain();
        self.redrive_all();
        self.land_requests();
        self.tables.set_rates(afterwrite_tests::faults::FaultRates::NONE);
        self.has_faults = false;
        (self.options.retries, self.options.malformed) = (None, 0);
        self.heal_parked_records(500);
        for _ in 0..6 {
            self.drain();
            self.redrive_all();
            self.reconcile_again();
        }
        self.drain();
        if !self.failed_batches.is_empty() && self.problems.is_empty() {
            let first = &self.streams.records[self.failed_batches[0][0]];
            self.problems.push(format!(
                "never counted: {} {:?} {}",
                first.partition,
                first.sort,
                first.position()
            ));
        }
        self.end_faults();
    }

    /// Heals parked items: some by redriving what was parked, with this chance, the others by reconciling the item. The
    /// application's repair has healed others by their next change. A reconciliation cannot know the
    /// contribution of an expiry, or the outputs of a lookup, that only the record shows. So these are redriven.
    fn heal_parked_records(&mut self, redrives: u64) {
        self.find_marked_records();
        for record in std::mem::take(&mut self.parked_records) {
            let StreamRecord { is_expiry, table, partition, sort, .. } = &self.streams.records[record];
            let kind = item_kind(table, partition, sort.as_deref());
            let (is_kept, is_looked_up) = (*is_expiry && kind.is_kept(), kind.is_looked_up());
            let is_redriven = is_kept || is_looked_up || self.random.chance(redrives);
            if is_redriven {
                self.coverage.record("parked record redriven");
                self.invoke(TaskKind::Redrive, vec![record]);
                self.finish_tasks();
            }
            if is_looked_up || !is_redriven {
                self.coverage.record("parked item reconciled");
                self.reconcile(record);
                self.finish_tasks();
            }
        }
    }

    /// Finds the parked records that no response has named, because the process that marked them stopped: the state table lists them. A
    /// reconciliation may have removed the mark of a looked-up item without its outputs, which only its records show: the archive has these.
    fn find_marked_records(&mut self) {
        let marks = self.tables.inner().scan(STATE);
        let marks = marks.iter().filter_map(|item| text(item, "behind").split(' ').next());
        let marks: BTreeSet<&str> = marks.filter(|position| !position.is_empty()).collect();
        // Records of several shards may have one position, also records of items that are never counted.
        let is_marked = |record: &StreamRecord| {
            let StreamRecord { table, partition, sort, malformed, .. } = record;
            let kind = item_kind(table, partition, sort.as_deref());
            let is_marked = kind != ItemKind::Other && marks.contains(record.position().as_str());
            is_marked || kind.is_looked_up() && malformed.is_some()
        };
        let records = self.streams.records.iter().enumerate();
        let marked = records.filter(|(_, record)| is_marked(record));
        self.parked_records.extend(marked.map(|(record, _)| record));
    }

    fn redrive_all(&mut self) {
        let mut batches = std::mem::take(&mut self.failed_batches);
        batches.sort();
        for records in batches {
            self.invoke(TaskKind::Redrive, records);
            self.finish_tasks();
        }
    }

    /// Replays old records, each alone, after everything else.
    fn replay_old_records(&mut self) {
        if self.options.time_flies && self.random.chance(600) {
            self.advance(Duration::from_secs(40 * DAY));
            self.sweep();
        }
        let mut replayed = Vec::new();
        for _ in 0..15 {
            let record = self.below(self.streams.records.len());
            self.coverage.record("old record replayed at the end");
            self.invoke(TaskKind::RecordingReplay, vec![record]);
            replayed.push(record);
            if self.random.chance(500) {
                self.finish_tasks();
            }
        }
        self.finish_tasks();
        // An old record that cannot be counted may mark an item again that a reconciliation has healed.
        for record in std::mem::take(&mut self.parked_records) {
            self.reconcile(record);
            self.finish_tasks();
        }
        self.drain();
        self.replay_again(replayed);
        // A record that can still not be read is parked again, unless its entry is known to be newer.
        self.heal_parked_records(0);
        self.settle();
    }

    /// Replays records that have just been replayed. The first time may have brought a mirror's revision up to date; now
    /// nothing is left to write.
    fn replay_again(&mut self, records: Vec<usize>) {
        let own_writes = self.own_writes;
        for record in records {
            self.invoke(TaskKind::RecordingReplay, vec![record]);
        }
        self.finish_tasks();
        if self.own_writes > own_writes {
            self.problems.push("records replayed twice wrote to the application's items".to_owned());
        }
    }
}
