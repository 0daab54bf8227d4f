//! The events of a trial: each batch's events go through the notifier of the function `relay` to targets that count what a service bills.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use afterwrite_model::table::Model;
use afterwrite_model::{Error, Result};
use afterwrite_preview::tables::SourceItems;
use afterwrite_preview::trace::RecordTracer;
use afterwrite_relay::notify::{EventNotifier, RecordEvents, TargetName};
use afterwrite_services::events::{AwsEventTarget, EventArn, eventbridge};
use afterwrite_services::sqs::{BILLED_BYTES, SqsQueue};
use afterwrite_services::{EventEntry, EventLimits, EventOrder, EventTarget};
use aws_config::{BehaviorVersion, SdkConfig};
use serde::Serialize;

use super::trial_clock::TrialClock;

/// A kind of target, as its service bills it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum EventTargetKind {
    /// An EventBridge bus.
    #[default]
    Bus,
    /// A standard SQS queue.
    Queue,
    /// A FIFO queue of SQS.
    FifoQueue,
    /// A standard SNS topic.
    Topic,
    /// A FIFO topic of SNS.
    FifoTopic,
}

impl EventTargetKind {
    /// All kinds.
    pub const ALL: [Self; 5] = [Self::Bus, Self::Queue, Self::FifoQueue, Self::Topic, Self::FifoTopic];

    /// The word for it in arguments and JSON.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Bus => "bus",
            Self::Queue => "queue",
            Self::FifoQueue => "fifo-queue",
            Self::Topic => "topic",
            Self::FifoTopic => "fifo-topic",
        }
    }

    /// The ARN of a target of this kind. Nothing is sent to it.
    const fn arn(self) -> &'static str {
        match self {
            Self::Bus => "arn:aws:events:us-east-1:000000000000:event-bus/events",
            Self::Queue => "arn:aws:sqs:us-east-1:000000000000:events",
            Self::FifoQueue => "arn:aws:sqs:us-east-1:000000000000:events.fifo",
            Self::Topic => "arn:aws:sns:us-east-1:000000000000:events",
            Self::FifoTopic => "arn:aws:sns:us-east-1:000000000000:events.fifo",
        }
    }

    /// The units that a request with entries of these sizes is billed as.
    fn billed(self, entry_bytes: &[usize]) -> usize {
        match self {
            Self::Bus => entry_bytes.iter().map(|bytes| bytes.div_ceil(eventbridge::BILLED_BYTES)).sum(),
            Self::Queue | Self::FifoQueue | Self::Topic => {
                entry_bytes.iter().sum::<usize>().div_ceil(BILLED_BYTES)
            }
            Self::FifoTopic => entry_bytes.len(),
        }
    }
}

impl fmt::Display for EventTargetKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Bus => "EventBridge bus",
            Self::Queue => "SQS queue",
            Self::FifoQueue => "SQS FIFO queue",
            Self::Topic => "SNS topic",
            Self::FifoTopic => "SNS FIFO topic",
        })
    }
}

/// The events of one target.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EventUsage {
    /// The kind of the target.
    pub kind: EventTargetKind,
    /// Events.
    pub events: u64,
    /// Requests to the target.
    pub requests: u64,
    /// The units that the service bills: events of a bus and requests to a queue or a topic, in steps of 64 KB; messages of a FIFO topic.
    pub billed: u64,
    /// The bytes of all events.
    pub bytes: u64,
}

/// A target that counts.
#[derive(Debug)]
struct MeteredTarget {
    target: AwsEventTarget,
    usage: Mutex<EventUsage>,
}

impl MeteredTarget {
    fn new(kind: EventTargetKind, source: &str) -> Result<Arc<Self>> {
        let sdk = SdkConfig::builder().behavior_version(BehaviorVersion::latest()).build();
        let target = AwsEventTarget::new(sdk, EventArn::parse(kind.arn(), "--events")?, source);
        Ok(Arc::new(Self { target, usage: Mutex::new(EventUsage { kind, ..EventUsage::default() }) }))
    }

    fn usage(&self) -> EventUsage {
        self.usage.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl EventTarget for MeteredTarget {
    fn limits(&self) -> EventLimits {
        self.target.limits()
    }

    fn order(&self) -> EventOrder {
        self.target.order()
    }

    fn entry_bytes(&self, entry: &EventEntry<'_>) -> usize {
        self.target.entry_bytes(entry)
    }

    async fn publish(
        &self,
        entries: &[EventEntry<'_>],
        _limit: Duration,
    ) -> Result<Vec<Result<(), Error>>, Error> {
        let sizes: Vec<usize> = entries.iter().map(|entry| self.entry_bytes(entry)).collect();
        let mut usage = self.usage.lock().unwrap_or_else(PoisonError::into_inner);
        usage.events += count(sizes.len());
        usage.requests += 1;
        usage.billed += count(usage.kind.billed(&sizes));
        usage.bytes += count(sizes.iter().sum());
        Ok(sizes.into_iter().map(|_| Ok(())).collect())
    }
}

/// The targets of a trial's events.
pub(super) struct TrialEvents {
    notifier: EventNotifier<Arc<MeteredTarget>, SqsQueue, TrialClock>,
    targets: BTreeMap<TargetName, Arc<MeteredTarget>>,
    clock: TrialClock,
}

impl TrialEvents {
    /// Targets of these kinds; every other target of the model is a bus.
    pub(super) fn new(
        model: &Model,
        kinds: &BTreeMap<TargetName, EventTargetKind>,
        clock: TrialClock,
    ) -> Result<Self> {
        let source = format!("afterwrite.{}", model.name);
        let target = |name: TargetName| {
            let kind = kinds.get(&name).copied().unwrap_or_default();
            Ok((name, MeteredTarget::new(kind, &source)?))
        };
        let names = model.event_targets().into_iter();
        let targets: BTreeMap<TargetName, Arc<MeteredTarget>> = names.map(target).collect::<Result<_>>()?;
        Ok(Self { notifier: EventNotifier::new(targets.clone(), None, clock), targets, clock })
    }

    /// Publishes the events of a batch.
    pub(super) async fn publish(
        &self,
        batch: &[impl AsRef<str>],
        tracer: &RecordTracer<SourceItems>,
    ) -> Result<()> {
        if self.targets.is_empty() {
            return Ok(());
        }
        let events = batch.iter().enumerate().map(|(record, json)| {
            Ok(RecordEvents { record, is_behind: false, events: tracer.events(json.as_ref())? })
        });
        let events: Vec<RecordEvents> = events.collect::<Result<_>>()?;
        let outcome = self.notifier.notify(&events, self.clock.deadline()).await;
        outcome.failures.into_values().next().map_or(Ok(()), Err)
    }

    /// The events of each target.
    pub(super) fn usage(&self) -> BTreeMap<TargetName, EventUsage> {
        self.targets.iter().map(|(name, target)| (name.clone(), target.usage())).collect()
    }
}

fn count(number: usize) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_service_bills_a_request_by_its_own_rule() {
        let sizes = [1_000, 65_536, 65_537];
        let billed = |kind: EventTargetKind| kind.billed(&sizes);
        assert_eq!(EventTargetKind::ALL.map(billed), [4, 3, 3, 3, 3]);
        let small = [1_000; 10];
        assert_eq!(EventTargetKind::ALL.map(|kind| kind.billed(&small)), [10, 1, 1, 1, 10]);
    }

    #[test]
    fn each_kind_has_an_arn_of_its_order_and_a_word_for_arguments() {
        for kind in EventTargetKind::ALL {
            let target = MeteredTarget::new(kind, "afterwrite.shop").unwrap();
            let is_fifo = target.order() == EventOrder::Fifo;
            assert_eq!(is_fifo, kind.word().starts_with("fifo"), "{kind}");
            assert_eq!(serde_json::to_value(kind).unwrap(), kind.word());
        }
    }
}
