//! The queue of stale paths, and of events whose target is out of service, read as Lambda reads it: one invocation of the invalidator at a time.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use afterwrite_functions::QueueInvalidator;
use afterwrite_memory::MemoryQueue;
use afterwrite_model::clock::Clock as _;
use afterwrite_model::record::Timestamp;
use afterwrite_relay::notify::{QueuedEventPublisher, TargetName};
use afterwrite_tests::sqs::queue_event;

use super::stand_ins::TIMEOUT;
use super::timed_targets::{PausedClock, TimedTargets};

/// The batching window of the event source mapping.
const WINDOW: Duration = Duration::from_secs(20);
/// The messages of an invocation. Lambda takes as many as fit in 6 MB, about 90 that are full of events; these have the events of one batch.
const MESSAGES: usize = 20;
/// The visibility timeout: a message that the function returned reappears after it.
const HIDDEN: Duration = Duration::from_secs(90);
/// The time of an invocation without waiting, and of one poll.
const INVOCATION: Duration = Duration::from_millis(300);

/// A message, and when it can be received.
struct TimedMessage {
    body: String,
    visible_at: Timestamp,
}

/// The queue with its one reader.
pub(crate) struct TimedQueue {
    clock: PausedClock,
    queue: Arc<MemoryQueue>,
    invalidator: QueueInvalidator<TimedTargets, PausedClock, TimedTargets>,
}

impl TimedQueue {
    pub(crate) fn new(
        clock: &PausedClock,
        queue: &Arc<MemoryQueue>,
        distribution: &TimedTargets,
        events: BTreeMap<TargetName, TimedTargets>,
    ) -> Self {
        let publisher = QueuedEventPublisher::new(events, clock.clone());
        let invalidator = QueueInvalidator::new(Some(distribution.clone()), clock.clone());
        let invalidator = invalidator.publishing(publisher);
        Self { clock: clock.clone(), queue: Arc::clone(queue), invalidator }
    }

    /// Reads the queue until it is empty and `is_done`.
    pub(crate) async fn drain(&self, is_done: impl Fn() -> bool) {
        let (mut received, mut waiting): (usize, Vec<TimedMessage>) = (0, Vec::new());
        let mut opened: Option<Timestamp> = None;
        loop {
            let (is_last, now) = (is_done(), self.clock.now());
            let sent = self.queue.messages();
            let arrived = sent.iter().skip(received);
            waiting.extend(arrived.map(|body| TimedMessage { body: body.clone(), visible_at: now }));
            received = sent.len();
            if is_last && waiting.is_empty() {
                return;
            }
            let visible = waiting.iter().filter(|message| message.visible_at <= now).count();
            if visible > 0 && (visible >= MESSAGES || *opened.get_or_insert(now) <= now.minus(WINDOW)) {
                opened = None;
                self.invoke(&mut waiting).await;
            }
            self.clock.sleep(INVOCATION).await;
        }
    }

    /// Invokes the function with the messages that are visible for the longest time.
    async fn invoke(&self, waiting: &mut Vec<TimedMessage>) {
        let now = self.clock.now();
        waiting.sort_by_key(|message| message.visible_at);
        let visible = waiting.iter().take_while(|message| message.visible_at <= now).count();
        let batch: Vec<TimedMessage> = waiting.drain(..visible.min(MESSAGES)).collect();
        let bodies: Vec<String> = batch.iter().map(|message| message.body.clone()).collect();
        let handled = self.invalidator.handle(&queue_event(&bodies), now.plus(TIMEOUT)).await.unwrap();
        let failed: Vec<usize> =
            handled.failures.iter().map(|failed| failed.message_id[1..].parse().unwrap()).collect();
        let stays = batch.into_iter().enumerate().filter(|(index, _)| failed.contains(index));
        let hidden = |(_, message)| TimedMessage { visible_at: now.plus(HIDDEN), ..message };
        waiting.extend(stays.map(hidden));
    }
}
