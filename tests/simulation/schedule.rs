//! Who is next: the run's course from its first write to its last question.

use std::collections::BTreeMap;
use std::time::Duration;

use super::check;
use super::oracle::{Kind, kind};
use super::run::{Job, Run};
use super::state::State;
use super::store::{STATE, Store};
use super::stream::TABLES;

/// Steps after which a run that is not quiet will never be.
const TOO_MANY: u32 = 200_000;
const DAY: u64 = 86_400;

impl<S: Store + 'static> Run<S> {
    /// The whole run; gives its trace's hash.
    pub(crate) fn go(&mut self) -> u64 {
        self.world.begin(self.tables.inner());
        self.collect(0);
        let mut writes = self.options.writes;
        let mut steps = 0;
        while self.problems.is_empty() && (writes > 0 || !self.is_quiet()) && steps < 20_000 {
            steps += 1;
            self.step(&mut writes);
            if self.random.chance(300) {
                self.relay.step(&self.streams, true);
            }
        }
        self.finish();
        self.judge();
        for table in [STATE].into_iter().chain(TABLES) {
            let items = format!("{:?}", self.tables.inner().scan(table));
            self.trace.take_in(items.as_bytes());
        }
        self.evils.injected(self.tables.injected());
        self.evils.take_in(&self.relay.evils());
        self.trace.hash()
    }

    fn judge(&mut self) {
        if self.problems.is_empty() {
            self.problems = check::all(self);
        }
        if self.problems.is_empty() {
            self.drain_relay();
            self.problems = self.relay.check(&self.streams);
        }
    }

    /// The second reader goes on until it has read everything, without faults from now on.
    fn drain_relay(&mut self) {
        let mut steps = 0;
        while !self.relay.is_quiet(&self.streams) && self.relay.problems.is_empty() {
            steps += 1;
            if steps > TOO_MANY {
                return self.problems.push("the relay never becomes quiet".to_owned());
            }
            self.pass(Duration::from_millis(20));
            self.relay.step(&self.streams, false);
        }
    }

    fn is_quiet(&self) -> bool {
        self.streams.is_drained() && self.tasks.is_empty()
    }

    fn step(&mut self, writes: &mut u32) {
        let passed = if self.random.chance(40) { self.random.below(30_000) } else { self.random.below(100) };
        self.pass(Duration::from_millis(passed));
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
                self.pass(Duration::from_secs(2));
                let (table, now) = (TABLES[self.below(2)], self.time.now());
                self.evils.happened("stream created anew");
                self.note(&[20], || format!("the stream of {table} is created anew"));
                self.undelivered_may_be_unseen();
                self.streams.recreate(table, now, &mut self.random);
            }
            244..247 if self.options.time_flies => self.fly(),
            247..252 => self.sweep(),
            252..262 if self.options.crashes && !self.tasks.is_empty() => {
                let place = self.below(self.tasks.len());
                self.evils.happened("consumer crashed");
                self.end_task(place, "crashed");
            }
            262..266 if self.options.crashes => self.give_up_waiting(),
            266..270 => check::at_any_moment(self),
            _ if self.tasks.is_empty() => self.deliver_some(),
            _ => {
                let place = self.below(self.tasks.len());
                self.poll(place);
            }
        }
    }

    /// Mostly an item that has just been written: its records are on their way, or being counted.
    fn reconcile_some(&mut self) {
        let among = self.streams.records.len().min(if self.random.chance(700) { 8 } else { usize::MAX });
        if among == 0 {
            return;
        }
        let record = self.streams.records.len() - 1 - self.below(among);
        let of = &self.streams.records[record];
        if kind(of.table, &of.partition, of.sort.as_deref()) != Kind::Other {
            self.evils.happened("item reconciled");
            self.reconcile(record);
        }
    }

    fn write(&mut self) {
        let now = self.time.now();
        let what = self.world.act(self.tables.inner(), now);
        let kind = what.split(' ').next().unwrap_or_default();
        self.evils.happened(&format!("application: {kind}"));
        self.note(&[21], || format!("application: {what}"));
        self.collect(0);
    }

    fn deliver_some(&mut self) {
        let now = self.time.now();
        let is_waiting = |shard: &super::stream::Shard| {
            shard.in_flight.is_none()
                && shard.checkpoint < shard.records.len()
                && shard.delayed_until.is_none_or(|until| until <= now)
        };
        let waiting: Vec<usize> = self
            .streams
            .shards
            .iter()
            .enumerate()
            .filter(|(_, shard)| is_waiting(shard))
            .map(|(at, _)| at)
            .collect();
        if waiting.is_empty() {
            // What is delayed must come some time.
            self.pass(Duration::from_secs(20));
            return;
        }
        let shard = waiting[self.below(waiting.len())];
        self.deliver(shard);
    }

    /// A shard stands still for a while.
    fn delay(&mut self) {
        let shard = self.below(self.streams.shards.len());
        let until = self.time.now().plus(Duration::from_secs(1 + self.random.below(600)));
        self.streams.shards[shard].delayed_until = Some(until);
        self.evils.happened("shard delayed");
        self.note(&[22], || format!("shard {shard} is delayed until {until}"));
    }

    /// Records that were delivered before, once more: some in a row, or a few alone.
    fn replay(&mut self) {
        let shard = self.below(self.streams.shards.len());
        let source = &self.streams.shards[shard];
        if source.checkpoint == 0 {
            return;
        }
        let past = source.records[..source.checkpoint].to_vec();
        let from = self.below(past.len());
        let until = past.len().min(from + 1 + self.below(8));
        let is_in_a_row = self.random.chance(600);
        let mut kept = |_: &usize| is_in_a_row || self.random.chance(400);
        let records: Vec<usize> = past[from..until].iter().copied().filter(|record| kept(record)).collect();
        if !records.is_empty() {
            self.evils.happened("batch delivered once more");
            self.invoke(Job::Replay, records);
        }
    }

    fn redrive_one(&mut self) {
        if self.dead.is_empty() {
            return;
        }
        let place = self.below(self.dead.len());
        let records = self.dead.swap_remove(place);
        self.evils.happened("batch redriven from the on-failure bucket");
        self.invoke(Job::Redrive, records);
    }

    /// Days pass; before the longest of them all is mostly delivered.
    fn fly(&mut self) {
        let days = self.random.pick(&[1, 3, 10, 36, 80]).copied().unwrap_or(1);
        if days > 30 && self.random.chance(700) {
            self.drain();
        }
        self.undelivered_may_be_unseen();
        let seconds = days * DAY + self.random.below(DAY);
        self.evils.happened("days passed");
        self.note(&[23, days], || format!("{days} days pass"));
        self.pass(Duration::from_secs(seconds));
        if self.random.chance(700) {
            self.sweep();
        }
    }

    fn sweep(&mut self) {
        self.evils.happened("state table swept");
        self.note(&[24], || "TTL sweeps the state table".to_owned());
        self.tables.inner().sweep(STATE);
        self.collect(0);
    }

    /// The mapping takes an invocation for lost that still goes on, and delivers its batch again.
    fn give_up_waiting(&mut self) {
        let shard = self.below(self.streams.shards.len());
        if self.streams.shards[shard].in_flight.take().is_some() {
            self.evils.happened("invocation overtaken by a second delivery");
            self.note(&[25], || format!("shard {shard} waits no longer"));
        }
    }

    /// Delivers until nothing is left.
    pub(crate) fn drain(&mut self) {
        let mut steps = 0;
        while !self.is_quiet() && self.problems.is_empty() {
            steps += 1;
            if steps > TOO_MANY {
                self.problems.push("it never becomes quiet".to_owned());
            }
            let passed = self.random.below(50);
            self.pass(Duration::from_millis(passed));
            for shard in 0..self.streams.shards.len() {
                if self.tasks.len() < 6 {
                    self.deliver(shard);
                }
            }
            if !self.tasks.is_empty() {
                let place = self.below(self.tasks.len());
                self.poll(place);
            }
        }
    }

    /// From the last write to the last answer.
    fn finish(&mut self) {
        self.note(&[26], || "the end begins".to_owned());
        self.drain();
        self.repair();
        if self.options.generations {
            self.upgrade_all();
        }
        self.be_kind_after_redrive();
        if self.options.generations {
            self.backfill();
        }
        // Old records may heal what is wrong, so it is judged before they come, and again after.
        self.drain();
        self.sweep();
        self.judge();
        self.last_of_all();
        self.drain();
    }

    fn repair(&mut self) {
        let now = self.time.now();
        self.world.repair(self.tables.inner(), now);
        self.collect(0);
    }

    /// Redrives the on-failure bucket, oldest first, until it is empty: first with faults, then without.
    fn be_kind_after_redrive(&mut self) {
        self.drain();
        self.redrive_all();
        self.tables.set_rates(afterwrite_tests::faults::FaultRates::NONE);
        (self.options.retries, self.options.malformed) = (None, 0);
        for _ in 0..6 {
            self.drain();
            self.redrive_all();
        }
        self.drain();
        if !self.dead.is_empty() && self.problems.is_empty() {
            let first = &self.streams.records[self.dead[0][0]];
            self.problems.push(format!(
                "never counted: {} {:?} {}",
                first.partition,
                first.sort,
                first.position()
            ));
        }
        self.be_kind();
    }

    fn redrive_all(&mut self) {
        let mut dead = std::mem::take(&mut self.dead);
        dead.sort();
        for records in dead {
            self.invoke(Job::Redrive, records);
            self.finish_tasks();
        }
    }

    fn finish_tasks(&mut self) {
        while !self.tasks.is_empty() && self.problems.is_empty() {
            let place = self.below(self.tasks.len());
            self.poll(place);
        }
    }

    /// Reconciles what the old generation counted, as a backfill does.
    fn backfill(&mut self) {
        let state = match State::read(self.tables.inner().scan(STATE)) {
            Ok(state) => state,
            Err(problem) => return self.problems.push(problem),
        };
        let mut newest: BTreeMap<(String, String), usize> = BTreeMap::new();
        for (at, record) in self.streams.records.iter().enumerate() {
            let key = (
                format!("LEDGER#{}#{}", record.table, record.partition),
                record.sort.clone().unwrap_or_else(|| "-".to_owned()),
            );
            newest.insert(key, at);
        }
        for (key, record) in newest {
            if state.entries.get(&key).is_some_and(|entry| entry.generation < 2) {
                self.reconcile(record);
                self.finish_tasks();
            }
        }
        self.drain();
    }

    /// Old records once more, each alone, after everything else.
    fn last_of_all(&mut self) {
        if self.options.time_flies && self.random.chance(600) {
            self.pass(Duration::from_secs(40 * DAY));
            self.sweep();
        }
        for _ in 0..15 {
            let record = self.below(self.streams.records.len());
            self.evils.happened("old record alone, last of all");
            self.invoke(Job::Replay, vec![record]);
            if self.random.chance(500) {
                self.finish_tasks();
            }
        }
        self.finish_tasks();
        self.drain();
        self.sweep();
    }
}
