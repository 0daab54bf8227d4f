//! A relay that publishes events, with targets whose failures the test decides.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use afterwrite_functions::{RelayedBatch, SourceTables, StreamRelay};
use afterwrite_memory::{MemoryCache, MemoryEvents, MemoryObjects, MemoryQueue, MemoryStream, TakenEvent};
use afterwrite_model::clock::Clock as _;
use afterwrite_model::record::Timestamp;
use afterwrite_model::table::Model;
use afterwrite_model::{Error, ErrorKind};
use afterwrite_relay::notify::{EventNotifier, TargetName};
use afterwrite_services::cloudfront::CloudFront;
use afterwrite_services::{EventEntry, EventLimits, EventOrder, EventTarget};
use serde_json::{Value, json};

use crate::caches::cloudfront::SharedClock;

/// Orders: every change has an event at the default target, and each payment one at `billing`.
pub(crate) const ORDERS: &str = include_str!("../../infra/tests/events.toml");

/// The start of the simulated time.
pub(crate) const BEGIN: Timestamp = Timestamp::from_epoch_seconds(1_770_000_000);
/// The time of an invocation.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(60);

/// Decides whether a target refuses an entry.
type Refusal = Box<dyn FnMut(&EventEntry<'_>, Timestamp) -> Option<ErrorKind> + Send>;

/// A target that refuses the entries that the test chooses.
pub(crate) struct FlakyTarget {
    pub(crate) inner: MemoryEvents,
    clock: SharedClock,
    refusal: Mutex<Refusal>,
    /// The time of a response.
    delay: Mutex<Duration>,
    /// The ids of the entries of each request, refused ones included.
    requests: Mutex<Vec<Vec<String>>>,
}

impl FlakyTarget {
    pub(crate) fn new(order: EventOrder, clock: &SharedClock) -> Arc<Self> {
        Arc::new(Self {
            inner: MemoryEvents::new(order),
            clock: clock.clone(),
            refusal: Mutex::new(Box::new(|_, _| None)),
            delay: Mutex::default(),
            requests: Mutex::default(),
        })
    }

    /// From now on, refuses the entries for which this function returns an error.
    pub(crate) fn refuse(
        &self,
        refusal: impl FnMut(&EventEntry<'_>, Timestamp) -> Option<ErrorKind> + Send + 'static,
    ) {
        *self.refusal.lock().unwrap() = Box::new(refusal);
    }

    pub(crate) fn recover(&self) {
        self.refuse(|_, _| None);
    }

    /// From now on, each response takes this long.
    pub(crate) fn respond_after(&self, delay: Duration) {
        *self.delay.lock().unwrap() = delay;
    }

    pub(crate) fn events(&self) -> Vec<TakenEvent> {
        self.inner.events()
    }

    /// The number of requests, refused ones included.
    pub(crate) fn requests(&self) -> Vec<Vec<String>> {
        self.requests.lock().unwrap().clone()
    }
}

impl EventTarget for FlakyTarget {
    fn limits(&self) -> EventLimits {
        self.inner.limits()
    }

    fn order(&self) -> EventOrder {
        self.inner.order()
    }

    fn entry_bytes(&self, entry: &EventEntry<'_>) -> usize {
        self.inner.entry_bytes(entry)
    }

    async fn publish(
        &self,
        entries: &[EventEntry<'_>],
        limit: Duration,
    ) -> Result<Vec<Result<(), Error>>, Error> {
        let ids = entries.iter().map(|entry| entry.id.to_owned()).collect();
        self.requests.lock().unwrap().push(ids);
        let delay = *self.delay.lock().unwrap();
        self.clock.sleep(delay).await;
        let now = self.clock.now();
        let refused: Vec<Option<ErrorKind>> = {
            let mut refusal = self.refusal.lock().unwrap();
            entries.iter().map(|entry| refusal(entry, now)).collect()
        };
        let with_refusal = entries.iter().zip(&refused);
        let taken: Vec<EventEntry<'_>> =
            with_refusal.filter(|(_, refused)| refused.is_none()).map(|(entry, _)| *entry).collect();
        if !taken.is_empty() {
            self.inner.publish(&taken, limit).await?;
        }
        let result = |kind: Option<ErrorKind>| kind.map_or(Ok(()), |kind| Err(Error::new(kind, "injected")));
        Ok(refused.into_iter().map(result).collect())
    }
}

type TestedRelay = StreamRelay<
    MemoryCache,
    CloudFront,
    Arc<MemoryQueue>,
    Arc<MemoryStream>,
    MemoryObjects,
    SharedClock,
    Arc<FlakyTarget>,
>;

/// A relay that publishes events and nothing else.
pub(crate) struct NotifySetup {
    pub(crate) relay: TestedRelay,
    /// The default target.
    pub(crate) bus: Arc<FlakyTarget>,
    pub(crate) billing: Arc<FlakyTarget>,
    pub(crate) queue: Arc<MemoryQueue>,
    pub(crate) clock: SharedClock,
}

impl NotifySetup {
    pub(crate) fn new(order: EventOrder, has_queue: bool) -> Self {
        let clock = SharedClock::at(BEGIN);
        let targets = [FlakyTarget::new(order, &clock), FlakyTarget::new(order, &clock)];
        let [bus, billing] = targets;
        let queue = Arc::<MemoryQueue>::default();
        let by_name = targets_of(&bus, &billing);
        let notifier = EventNotifier::new(by_name, has_queue.then(|| Arc::clone(&queue)), clock.clone());
        let relay = StreamRelay::new(tables(), None, None, clock.clone()).notifying(notifier);
        Self { relay, bus, billing, queue, clock }
    }

    pub(crate) async fn deliver(&self, records: &[Value]) -> RelayedBatch {
        let event = json!({ "Records": records }).to_string();
        self.relay.handle(event.as_bytes(), self.clock.now().plus(TIMEOUT)).await.unwrap()
    }
}

pub(crate) fn targets_of(
    bus: &Arc<FlakyTarget>,
    billing: &Arc<FlakyTarget>,
) -> BTreeMap<TargetName, Arc<FlakyTarget>> {
    BTreeMap::from([(None, Arc::clone(bus)), (Some(Arc::from("billing")), Arc::clone(billing))])
}

pub(crate) fn tables() -> SourceTables {
    let model = Arc::new(Model::parse(ORDERS, "orders.toml").unwrap());
    let names = model.tables.iter().map(|table| Arc::clone(&table.name)).collect();
    SourceTables::new(model, names)
}

/// Change number `number`: an order gets this status.
pub(crate) fn change(number: usize, order: &str, status: &str) -> Value {
    change_with_note(number, order, status, "")
}

pub(crate) fn change_with_note(number: usize, order: &str, status: &str, note: &str) -> Value {
    let keys = json!({ "PK": { "S": format!("ORDER#{order}") }, "SK": { "S": "ORDER" } });
    let mut new = keys.clone();
    new["status"] = json!({ "S": status });
    new["note"] = json!({ "S": note });
    let mut old = keys.clone();
    old["status"] = json!({ "S": "OPEN" });
    json!({
        "eventID": format!("event-{number}"),
        "eventName": "MODIFY",
        "eventSource": "aws:dynamodb",
        "awsRegion": "us-east-1",
        "eventSourceARN": "arn:aws:dynamodb:us-east-1:000000000000:table/Orders/stream/2026-02-06T10:00:00.000",
        "dynamodb": {
            "ApproximateCreationDateTime": 1_770_000_000,
            "Keys": keys,
            "NewImage": new,
            "OldImage": old,
            "SequenceNumber": sequence_number(number),
            "SizeBytes": 100,
            "StreamViewType": "NEW_AND_OLD_IMAGES",
        },
    })
}

pub(crate) fn sequence_number(number: usize) -> String {
    format!("{}", 1_000_000 + number)
}

/// The sequence number from which the records are delivered again.
pub(crate) fn checkpoint(relayed: &RelayedBatch) -> Option<&str> {
    relayed.response.batch_item_failures.first().map(|failure| &*failure.item_identifier)
}

/// The statuses that events state, in order of arrival.
pub(crate) fn statuses(events: &[TakenEvent]) -> Vec<String> {
    let status = |event: &TakenEvent| {
        let envelope: Value = serde_json::from_str(&event.body).unwrap();
        envelope["detail"]["status"].as_str().unwrap_or_default().to_owned()
    };
    events.iter().map(status).collect()
}
