//! How streams, queues and schedules of an applied state invoke the functions.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use afterwrite_local::dynamodb::EmbeddedStream;
use afterwrite_local::sqs::QueueMessage;
use afterwrite_mapping::{
    EventHandler as _, EventSourceMapping, MappingControl, MappingOptions, MappingPace, MappingProgress,
    MappingSettings, MemoryCheckpoints, RecordPage, ShardPage, ShardPosition, StreamReadError, StreamSource,
};
use afterwrite_model::clock::SystemClock;
use afterwrite_model::{Error, Result};
use serde_json::{Value, json};

use super::applied::{AppliedQueue, AppliedState, resource_name, text};
use super::cloud::LocalCloud;
use super::lambda::LocalFunction;
use super::metrics_store::{MetricName, MetricStore};

/// The time in which a message that was sent before can be received.
const RECEIVE_WAIT: Duration = Duration::from_millis(50);
const ARCHIVE_TIMEOUT: Duration = Duration::from_secs(900);

/// A stream whose reads are noted as those of the mapping, and whose records may be older than they are.
struct ObservedStream<'c> {
    stream: EmbeddedStream,
    cloud: &'c LocalCloud,
    reader: &'c str,
    arn: String,
    older_by: &'c AtomicU64,
}

impl ObservedStream<'_> {
    fn note(&self, operation: &str) {
        self.cloud.recorder.note(self.reader, &format!("dynamodb:{operation}"), self.arn.clone());
    }
}

impl StreamSource for ObservedStream<'_> {
    fn arn(&self) -> &str {
        self.stream.arn()
    }

    async fn describe(&self, after: Option<&str>) -> Result<ShardPage> {
        self.note("DescribeStream");
        self.stream.describe(after).await
    }

    async fn iterator(&self, shard: &str, position: &ShardPosition) -> Result<String, StreamReadError> {
        self.note("GetShardIterator");
        self.stream.iterator(shard, position).await
    }

    async fn read(&self, iterator: &str) -> Result<RecordPage, StreamReadError> {
        self.note("GetRecords");
        let mut page = self.stream.read(iterator).await?;
        let seconds = self.older_by.load(Ordering::Relaxed);
        for record in page.records.iter_mut().filter(|_| seconds > 0) {
            record.json = older(&record.json, seconds);
        }
        Ok(page)
    }
}

/// A record whose change was made earlier.
fn older(json: &str, seconds: u64) -> String {
    let mut record: Value = serde_json::from_str(json).expect("a record");
    let created = &mut record["dynamodb"]["ApproximateCreationDateTime"];
    #[expect(clippy::cast_precision_loss, reason = "times and ages of seconds are far below 2^53")]
    let earlier = created.as_f64().expect("a time") - seconds as f64;
    *created = json!(earlier);
    record.to_string()
}

/// The mapping of the source table's stream to a function.
pub(crate) struct StreamDelivery<'c> {
    pub(crate) reader: &'c str,
    pub(crate) settings: MappingSettings,
    pub(crate) progress: MappingProgress,
    pub(crate) control: MappingControl,
    checkpoints: MemoryCheckpoints,
    older_by: AtomicU64,
    arn: String,
    table: String,
    /// The id of the mapping.
    uuid: String,
}

impl<'c> StreamDelivery<'c> {
    /// The mappings of the state.
    pub(crate) fn all(state: &'c AppliedState) -> Vec<Self> {
        let mappings = state.by_key("aws_lambda_event_source_mapping", "stream");
        let uuid = |reader: &str| {
            let mut of_reader = mappings.iter().filter(|(key, _)| key.split('/').next() == Some(reader));
            text(&of_reader.next().expect("a mapping").1["uuid"]).to_owned()
        };
        let arn = text(&mappings.values().next().expect("a mapping")["event_source_arn"]).to_owned();
        let delivery = |(reader, settings)| Self {
            reader,
            uuid: uuid(reader),
            settings,
            progress: MappingProgress::default(),
            control: MappingControl::default(),
            checkpoints: MemoryCheckpoints::default(),
            older_by: AtomicU64::new(0),
            arn: arn.clone(),
            table: state.source_table(),
        };
        state.stream_mappings().into_iter().map(delivery).collect()
    }

    /// Goes on after its checkpoints with another control; what was observed before is forgotten.
    pub(crate) fn renewed(self) -> Self {
        Self {
            progress: MappingProgress::default(),
            control: MappingControl::default(),
            older_by: AtomicU64::new(0),
            ..self
        }
    }

    /// Makes the next records older: as if the mapping had stopped for so long.
    pub(crate) fn make_records_older(&self, by: Duration) {
        self.older_by.store(by.as_secs(), Ordering::Relaxed);
    }

    /// The metrics that Lambda adds for the mapping: where the records went that it gave up.
    pub(crate) fn metrics(&self, function: &LocalFunction) -> MetricStore {
        let counts = self.progress.counts();
        let (delivered, dropped) =
            if counts.lost_batches == 0 { (counts.skipped, 0) } else { (0, counts.skipped) };
        assert!(delivered == 0 || counts.on_failure_objects > 0, "{counts:?}");
        let mapping = |name| MetricName::new("AWS/Lambda", name, &[("EventSourceMappingUUID", &self.uuid)]);
        let lost =
            MetricName::new("AWS/Lambda", "DestinationDeliveryFailures", &[("FunctionName", &function.name)]);
        let mut metrics = MetricStore::default();
        for (metric, count) in [
            (mapping("OnFailureDestinationDeliveredEventCount"), delivered),
            (mapping("DroppedEventCount"), dropped),
            (lost, counts.lost_batches),
        ] {
            metrics.add(metric, f64::from(u32::try_from(count).expect("a small number")));
        }
        metrics
    }

    /// Delivers until the control ends it.
    pub(crate) async fn run(&self, cloud: &LocalCloud, function: &LocalFunction) {
        let stream = cloud.dynamodb.stream(&self.table).await.expect("a stream");
        let (reader, older_by) = (self.reader, &self.older_by);
        let stream = ObservedStream { stream, cloud, reader, arn: self.arn.clone(), older_by };
        let failures = cloud.failures_of(self.reader);
        assert_eq!(self.settings.on_failure_bucket.as_deref(), Some(cloud.failures.as_str()));
        let pace = MappingPace {
            // A batch that fails is given up within the test.
            first_backoff: Duration::from_millis(1),
            max_backoff: Duration::from_millis(20),
            invocation_timeout: ARCHIVE_TIMEOUT,
            ..MappingPace::local()
        };
        let options = MappingOptions {
            pace,
            on_failure: Some(&failures),
            ..MappingOptions::new(&self.progress, &self.checkpoints)
        };
        let mapping = EventSourceMapping::new(&stream, function, &SystemClock, &self.settings, options);
        mapping.run(&self.control).await.expect("a mapping");
    }
}

/// Sends a message about each object that the bucket's notification names.
pub(crate) async fn forward_notifications(state: &AppliedState, cloud: &LocalCloud) {
    let notification = state.one("aws_s3_bucket_notification", "archive").expect("a notification");
    let queue = &notification["queue"][0];
    assert_eq!(queue["events"], json!(["s3:ObjectCreated:*"]));
    let (name, prefix) = (resource_name(text(&queue["queue_arn"])), text(&queue["filter_prefix"]));
    let mut created = cloud.created.lock().await;
    while let Ok(object) = created.try_recv() {
        if object.bucket == text(&notification["bucket"]) && object.key.starts_with(prefix) {
            cloud.sqs.send(&name, notification_of(&object.bucket, &object.key));
        }
    }
}

/// The message about a created object.
fn notification_of(bucket: &str, key: &str) -> String {
    let record = json!({
        "eventSource": "aws:s3",
        "eventName": "ObjectCreated:Put",
        "s3": { "bucket": { "name": bucket }, "object": { "key": key } },
    });
    json!({ "Records": [record] }).to_string()
}

/// The event in which the exporter receives the message about an object of the archive.
pub(crate) fn sent_event(cloud: &LocalCloud, key: &str) -> Value {
    let body = notification_of(&cloud.bucket, key);
    QueueMessage::event(
        "arn:aws:sqs:eu-west-1:123456789012:export",
        &[QueueMessage { id: "m".to_owned(), body, attributes: Value::Null, receives: 1 }],
    )
}

/// Delivers the messages of a function's queue until it is empty. A message that failed too often goes to the dead-letter queue.
pub(crate) async fn drain_queue(
    state: &AppliedState,
    cloud: &LocalCloud,
    name: &str,
    function: &LocalFunction,
) {
    let Some(queue) = state.queue_of(name) else { return };
    let arn = state.scope().arn("sqs", &queue.name);
    loop {
        for action in ["sqs:ReceiveMessage", "sqs:GetQueueAttributes"] {
            cloud.recorder.note(name, action, arn.clone());
        }
        let receive = cloud.sqs.receive(&queue.name, queue.batch_size);
        let Ok(messages) = tokio::time::timeout(RECEIVE_WAIT, receive).await else { return };
        let event = QueueMessage::event(&arn, &messages).to_string().into_bytes();
        let failed = match function.handle(event, ARCHIVE_TIMEOUT).await {
            Ok(response) => failed_messages(&response, messages),
            Err(_) => messages,
        };
        cloud.recorder.note(name, "sqs:DeleteMessage", arn.clone());
        return_messages(cloud, &queue, failed);
    }
}

fn return_messages(cloud: &LocalCloud, queue: &AppliedQueue, failed: Vec<QueueMessage>) {
    for message in failed {
        if message.receives >= queue.max_receives {
            cloud.sqs.send(&queue.dead_letters, message.body);
        } else {
            cloud.sqs.put_back(&queue.name, message);
        }
    }
}

/// The number of messages in a queue.
pub(crate) async fn depth(cloud: &LocalCloud, queue: &str) -> usize {
    let receive = cloud.sqs.receive(queue, usize::MAX);
    let Ok(messages) = tokio::time::timeout(RECEIVE_WAIT, receive).await else { return 0 };
    let depth = messages.len();
    messages.into_iter().for_each(|message| cloud.sqs.put_back(queue, message));
    depth
}

/// The messages that a partial response names.
fn failed_messages(response: &[u8], messages: Vec<QueueMessage>) -> Vec<QueueMessage> {
    let response: Value = serde_json::from_slice(response).expect("a response");
    let failures = response["batchItemFailures"].as_array().expect("failures").clone();
    let failed: Vec<&str> = failures.iter().map(|failure| text(&failure["itemIdentifier"])).collect();
    messages.into_iter().filter(|message| failed.contains(&message.id.as_str())).collect()
}

/// Invokes what a schedule invokes, with its input. A schedule that cannot invoke goes to its dead-letter queue after its retries.
pub(crate) async fn run_schedule(
    state: &AppliedState,
    cloud: &LocalCloud,
    functions: &BTreeMap<String, LocalFunction>,
    schedule: &str,
) -> Result<Vec<u8>, Error> {
    let schedules = state.by_key("aws_scheduler_schedule", "schedule");
    let target =
        &schedules.get(schedule).unwrap_or_else(|| panic!("there is a schedule {schedule}"))["target"][0];
    cloud.recorder.note("scheduler", "lambda:InvokeFunction", text(&target["arn"]).to_owned());
    let arn = text(&target["arn"]);
    let name = arn.rsplit(':').nth(1).expect("the ARN of an alias");
    let function = functions.values().find(|function| function.name == name).expect("the function");
    let retries = target["retry_policy"][0]["maximum_retry_attempts"].as_u64().expect("a number");
    let mut handled = function.handle(text(&target["input"]).into(), ARCHIVE_TIMEOUT).await;
    for _ in 0..retries {
        if handled.is_err() {
            handled = function.handle(text(&target["input"]).into(), ARCHIVE_TIMEOUT).await;
        }
    }
    if handled.is_err() {
        let queue = text(&target["dead_letter_config"][0]["arn"]);
        cloud.recorder.note("scheduler", "sqs:SendMessage", queue.to_owned());
        cloud.sqs.send(&resource_name(queue), text(&target["input"]).to_owned());
    }
    handled
}
