//! The turns of the tasks: each runs up to its next call, and between two turns anything else can happen, until the task ends, or its process
//! crashes or times out.

use std::task::{Context, Poll, Waker};
use std::time::Duration;

use super::run::{SimulationRun, TaskKind};
use super::store::{STATE, Store};
use super::stream::StreamShard;

/// A run that is not idle after this many steps never becomes idle.
pub(crate) const MAX_STEPS: u32 = 200_000;
/// How often a task may be continued after its deadline: a sleep may end after it, but no call begins.
const POLLS_AFTER_DEADLINE: u32 = 3;
/// How often a consumer crashes when one of its items has left a rollup, per thousand.
const CRASHES_AFTER_LEAVING: u64 = 400;

impl<S: Store + 'static> SimulationRun<S> {
    /// Advances the time.
    pub(crate) fn advance(&mut self, by: Duration) {
        if by > Duration::from_secs(300) {
            // No invocation takes that long.
            self.end_tasks();
        }
        self.time.advance(by);
        self.tables.inner().set_time(self.time.now());
    }

    /// Ends all tasks and the requests that they sent.
    pub(crate) fn end_tasks(&mut self) {
        while !self.tasks.is_empty() {
            self.end_task(0, "timed out");
        }
        self.land_requests();
    }

    /// Lets a moment pass; while calls may hang, sometimes a longer one.
    pub(crate) fn pass_time(&mut self) {
        let is_long = self.has_faults && self.random.chance(20);
        let passed = self.random.below(if is_long { 30_000 } else { 50 });
        self.advance(Duration::from_millis(passed));
    }

    /// Runs one task up to its next call.
    pub(crate) fn poll(&mut self, index: usize) {
        let now = self.time.now();
        let (id, generation) = (self.tasks[index].id, self.tasks[index].generation);
        if now > self.tasks[index].deadline.plus(Duration::from_secs(5)) {
            self.end_task(index, "timed out");
            return;
        }
        if self.tasks[index].pause > 0 {
            self.tasks[index].pause -= 1;
            return;
        }
        if self.may_fail && self.random.chance(80) {
            self.tasks[index].pause = self.random.below(40);
        }
        self.note(&[3, id], || format!("task {id}"));
        self.tables.set_author(generation);
        self.watcher.left.clear();
        let task = &mut self.tasks[index];
        task.polls_after_deadline += u32::from(now >= task.deadline);
        if task.polls_after_deadline > POLLS_AFTER_DEADLINE {
            self.problems.push(format!("task {id} did not answer after its deadline"));
        }
        let poll = self.tasks[index].future.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        self.tables.inner().set_time(self.time.now());
        self.collect_changes(generation);
        if let Poll::Ready(result) = poll {
            let mut task = self.tasks.swap_remove(index);
            task.left.append(&mut self.watcher.left);
            if task.polls_after_deadline > 0 {
                self.coverage.record("invocation answered after its deadline passed in a call");
            }
            if self.overwritten.is_some() || task.rejected_before < self.tables.injected().rejected {
                // The images of a rejected write are passed over.
                self.allow_unseen_images(task.records.clone());
            }
            self.cover_old_model(task.generation, &task.records);
            self.complete(task, result);
        } else {
            self.note_left_rollups(index);
        }
    }

    /// Notes the rollups that items have left in the last turn of a task. Sometimes its process crashes then: it has not
    /// refreshed any mirror of them yet.
    pub(crate) fn note_left_rollups(&mut self, index: usize) {
        let left = std::mem::take(&mut self.watcher.left);
        let may_crash = !left.is_empty() && self.options.crashes && self.has_faults;
        self.tasks[index].left.extend(left);
        if may_crash && self.random.chance(CRASHES_AFTER_LEAVING) {
            self.coverage.record("consumer crashed after an item left a rollup");
            self.end_task(index, "crashed after an item left a rollup");
        }
    }

    /// Ends a task without a result: its process crashed or timed out.
    pub(crate) fn end_task(&mut self, index: usize, reason: &str) {
        let task = self.tasks.swap_remove(index);
        self.note(&[4, task.id], || format!("task {} {reason}", task.id));
        self.cover_levels();
        self.unrefreshed.extend(task.left);
        self.restart(task.consumer, task.generation);
        match task.kind {
            TaskKind::Deliver { shard } => self.fail_delivery(shard, task.id, 0, &task.records),
            TaskKind::Redrive => self.failed_batches.push(task.records),
            TaskKind::Reconcile => self.reconcile_again.extend(task.records),
            TaskKind::RecordingReplay => {}
        }
    }

    /// Records that a consumer stopped while a level waits for the records of the level below.
    pub(crate) fn cover_levels(&mut self) {
        let waits = |shard: &StreamShard| {
            let next = shard.records.get(shard.checkpoint).map(|record| &self.streams.records[*record]);
            next.is_some_and(|record| record.table == STATE)
        };
        if self.streams.shards.iter().any(waits) {
            self.coverage.record("consumer stopped between two levels");
        }
    }

    pub(crate) fn finish_tasks(&mut self) {
        while !self.tasks.is_empty() && self.problems.is_empty() {
            self.pass_time();
            let index = self.below(self.tasks.len());
            self.poll(index);
        }
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.streams.is_drained() && self.tasks.is_empty()
    }

    /// Delivers all records.
    pub(crate) fn drain(&mut self) {
        let mut steps = 0;
        while !self.is_idle() && self.problems.is_empty() {
            steps += 1;
            if steps > MAX_STEPS {
                self.problems.push("the run never becomes idle".to_owned());
            }
            self.pass_time();
            if self.tables.has_late_requests() && self.random.chance(30) {
                self.land_request();
            }
            for shard in 0..self.streams.shards.len() {
                if self.tasks.len() < 6 {
                    self.deliver(shard);
                }
            }
            if !self.tasks.is_empty() {
                let index = self.below(self.tasks.len());
                self.poll(index);
            }
        }
    }

    /// Repeats the reconciliations that were not completed.
    pub(crate) fn reconcile_again(&mut self) {
        for record in std::mem::take(&mut self.reconcile_again) {
            self.reconcile(record);
            self.finish_tasks();
        }
    }
}
