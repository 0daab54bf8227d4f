//! The function that drains the queue of events whose target was busy. Its process crashes, and the queue delivers messages again.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use afterwrite_functions::{InvalidatedMessages, QueueInvalidator};
use afterwrite_model::record::Timestamp;
use afterwrite_relay::notify::QueuedEventPublisher;
use afterwrite_tests::random::SeededRandom;
use serde_json::{Value, json};

use super::super::clock::{PatientClock, SimulatedTime};
use super::super::relay_services::ExternalServices;
use super::state::{EventBypass, QueuedText};
use super::targets::SimulatedTarget;

/// The time limit of an invocation.
const TIMEOUT: Duration = Duration::from_secs(60);
/// The messages of an invocation at most.
const MOST_MESSAGES: usize = 10;

type DrainProcess = QueueInvalidator<ExternalServices, PatientClock, SimulatedTarget>;

/// An invocation.
struct DrainTask {
    messages: Vec<u64>,
    deadline: Timestamp,
    future: Pin<Box<dyn Future<Output = afterwrite_model::Result<InvalidatedMessages>>>>,
}

/// The function with its queue.
pub(crate) struct QueueDrain {
    random: SeededRandom,
    services: ExternalServices,
    time: Arc<SimulatedTime>,
    process: Arc<DrainProcess>,
    task: Option<DrainTask>,
    pub(crate) problems: Vec<String>,
}

impl QueueDrain {
    pub(crate) fn new(random: SeededRandom, services: &ExternalServices, time: &Arc<SimulatedTime>) -> Self {
        let (services, time) = (services.clone(), Arc::clone(time));
        let process = process(&services, &time);
        Self { random, services, time, process, task: None, problems: Vec::new() }
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.task.is_none() && self.services.lock().events.is_idle()
    }

    /// Takes a step, unless the relay takes it: returns whether it has taken one.
    pub(crate) fn step(&mut self, may_fail: bool) -> bool {
        if self.services.lock().events.has_late_requests() && self.random.chance(20) {
            self.services.lock().events.land();
            return true;
        }
        match self.random.below(100) {
            0..20 => match self.task.take() {
                None => self.start(),
                Some(task) => {
                    self.poll(task, may_fail);
                    true
                }
            },
            20..21 if may_fail && self.task.is_some() => {
                self.services.lock().coverage.record("event: invalidator crashed");
                self.task = None;
                self.process = process(&self.services, &self.time);
                true
            }
            _ => false,
        }
    }

    fn start(&mut self) -> bool {
        let waiting: Vec<QueuedText> = self.services.lock().events.messages.clone();
        if waiting.is_empty() {
            return false;
        }
        let most = waiting.len().min(MOST_MESSAGES);
        let count = 1 + usize::try_from(self.random.below(u64::try_from(most).unwrap())).unwrap();
        let records: Vec<Value> = waiting.iter().take(count).map(record).collect();
        let event = json!({ "Records": records }).to_string();
        let (process, deadline) = (Arc::clone(&self.process), self.time.now().plus(TIMEOUT));
        let future = Box::pin(async move { process.handle(&event, deadline).await });
        let messages = waiting.iter().take(count).map(|message| message.id).collect();
        self.task = Some(DrainTask { messages, deadline, future });
        true
    }

    fn poll(&mut self, mut task: DrainTask, may_fail: bool) {
        if self.time.now() > task.deadline.plus(Duration::from_secs(1)) {
            return; // The messages stay in the queue.
        }
        match task.future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Pending => self.task = Some(task),
            Poll::Ready(Err(error)) => self.problems.push(format!("the invalidator failed: {error}")),
            Poll::Ready(Ok(handled)) => self.complete(&task.messages, &handled, may_fail),
        }
    }

    /// The messages that the response does not name leave the queue, unless the queue delivers them again.
    fn complete(&mut self, messages: &[u64], handled: &InvalidatedMessages, may_fail: bool) {
        let failed: Vec<&str> =
            handled.response.batch_item_failures.iter().map(|failure| &*failure.item_identifier).collect();
        let mut outside = self.services.lock();
        let drops = outside.events.bypass == Some(EventBypass::DropFailedMessages);
        for message in messages {
            let is_failed = failed.contains(&message.to_string().as_str());
            if is_failed && !drops {
                outside.coverage.record("event: message stays in the queue");
            } else if may_fail && self.random.chance(30) {
                outside.coverage.record("event: message delivered again");
            } else {
                outside.events.messages.retain(|queued| queued.id != *message);
            }
        }
    }
}

fn record(message: &QueuedText) -> Value {
    json!({ "messageId": message.id.to_string(), "body": message.text, "eventSource": "aws:sqs" })
}

fn process(services: &ExternalServices, time: &Arc<SimulatedTime>) -> Arc<DrainProcess> {
    let clock = PatientClock(Arc::clone(time));
    let publisher = QueuedEventPublisher::new(SimulatedTarget::all(services, None), clock.clone());
    Arc::new(QueueInvalidator::new(None::<ExternalServices>, clock).publishing(publisher))
}
