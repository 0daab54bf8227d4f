//! Interruptions of consumers: crashes, and second deliveries of a batch that is still being handled.

use super::run::{SimulationRun, TaskKind};
use super::store::Store;

/// A batch is delivered twice only if one of so many records is an expiry.
const NEXT_RECORDS: usize = 8;
/// The turns that each of the invocations that run in step gets before anything else happens, at most.
const TURNS_IN_STEP: usize = 12;

impl<S: Store + 'static> SimulationRun<S> {
    /// A consumer crashes. Sometimes the one that its batch is delivered to next crashes as well.
    pub(crate) fn crash_some(&mut self) {
        let index = self.below(self.tasks.len());
        let kind = self.tasks[index].kind.clone();
        self.coverage.record("consumer crashed");
        self.end_task(index, "crashed");
        let TaskKind::Deliver { shard } = kind else { return };
        if self.random.chance(600) {
            return;
        }
        let Some(task) = self.deliver(shard) else { return };
        for _ in 0..self.random.below(40) {
            self.pass_time();
            if !self.poll_task(task) {
                return;
            }
        }
        if let Some(index) = self.tasks.iter().position(|other| other.id == task) {
            self.coverage.record("consumer crashed after a crash");
            self.end_task(index, "crashed after a crash");
        }
    }

    /// The event source mapping stops waiting for an invocation that is still running, and delivers its batch again.
    pub(crate) fn overtake(&mut self) {
        let shard = self.below(self.streams.shards.len());
        if self.streams.shards[shard].in_flight.take().is_some() {
            self.coverage.record("invocation overtaken by a second delivery");
            self.note(&[25], || format!("shard {shard} no longer waits"));
        }
    }

    /// Whether one of the shard's next records is an expiry.
    pub(crate) fn has_next_expiry(&self, shard: usize) -> bool {
        let shard = &self.streams.shards[shard];
        let mut next = shard.records[shard.checkpoint..].iter().take(NEXT_RECORDS);
        next.any(|record| self.streams.records[*record].is_expiry)
    }

    /// The event source mapping delivers a batch with an expiry, stops waiting, and delivers it again; both invocations
    /// run in step for a while, so that each reads what the other has not written yet.
    pub(crate) fn deliver_twice(&mut self, shard: usize) {
        self.coverage.record("batch with an expiry delivered twice at a time");
        self.note(&[28], || format!("shard {shard} delivers its next batch twice"));
        let first = self.deliver(shard);
        self.streams.shards[shard].in_flight = None;
        let both = [first, self.deliver(shard)];
        self.run_in_step(&both.into_iter().flatten().collect::<Vec<_>>());
    }

    /// Delivers the next batch of every shard; the invocations run in step for a while.
    pub(crate) fn deliver_in_step(&mut self) {
        self.coverage.record("batches of all shards delivered in step");
        let waiting = self.waiting_shards().into_iter();
        let tasks: Vec<u64> = waiting.filter_map(|shard| self.deliver(shard)).collect();
        self.run_in_step(&tasks);
    }

    fn run_in_step(&mut self, tasks: &[u64]) {
        for _ in 0..self.below(TURNS_IN_STEP) {
            for task in tasks {
                self.poll_task(*task);
            }
        }
    }

    /// Runs a task up to its next call; returns whether it still runs.
    fn poll_task(&mut self, task: u64) -> bool {
        let index = |run: &Self| run.tasks.iter().position(|other| other.id == task);
        if let Some(index) = index(self) {
            self.poll(index);
        }
        index(self).is_some()
    }
}
