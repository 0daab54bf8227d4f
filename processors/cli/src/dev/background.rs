//! The functions behind a queue or a timer, on a thread of their own: an export must not hold up the streams.

use std::sync::Arc;
use std::time::Duration;

use afterwrite_console::board::DevBoard;
use afterwrite_console::recount_when_asked;
use afterwrite_datasets::export::missing::{ArchiveRange, archive_objects};
use afterwrite_lambda::BatchResponse;
use afterwrite_local::s3::CreatedObject;
use afterwrite_local::sqs::QueueMessage;
use afterwrite_mapping::{EventHandler as _, MappingControl};
use afterwrite_model::Result;
use afterwrite_model::clock::{Clock as _, SystemClock};
use afterwrite_operations::DeploymentContext;
use afterwrite_services::dynamodb::DynamoDb;
use serde_json::json;
use tokio::runtime::Handle;
use tokio::task::JoinHandle;

use super::events::show_events;
use super::functions::{COMPACTOR, DevFunction, EXPORTER, INVALIDATOR, QueueFunctions};
use super::servers::{ARCHIVE_QUEUE, BUCKET, DevServers, PATH_QUEUE, STATE_TABLE};
use super::state_watch::{report_parked, warn_of_newer_generation};

/// The functions' timeout.
const TIMEOUT: Duration = Duration::from_secs(300);
/// The most messages of an invocation, and how often one is delivered.
const BATCH_MESSAGES: usize = 10;
const MAX_RECEIVES: u32 = 5;
/// The time after which a message of a failed invocation is visible again.
const VISIBLE_AFTER: Duration = Duration::from_secs(2);
const SWEEP_EVERY: Duration = Duration::from_secs(5);
const ARCHIVE_PREFIX: &str = "archive/";

/// The functions behind a queue or a timer.
pub(super) struct BackgroundFunctions {
    pub(super) servers: Arc<DevServers>,
    pub(super) functions: QueueFunctions,
    pub(super) compact_every: Duration,
    /// The model and the tables.
    pub(super) deployment: DeploymentContext<Arc<DynamoDb>, SystemClock>,
    pub(super) board: Arc<DevBoard>,
    pub(super) control: Arc<MappingControl>,
    /// Whether the state table may have entries of another model.
    pub(super) has_earlier_data: bool,
}

impl BackgroundFunctions {
    /// Runs them on a thread of their own until the control stops them.
    pub(super) fn spawn(self) -> JoinHandle<Result<()>> {
        let handle = Handle::current();
        tokio::task::spawn_blocking(move || handle.block_on(self.run()))
    }

    async fn run(self) -> Result<()> {
        let QueueFunctions { exporter, compactor, invalidator } = &self.functions;
        self.enqueue_missing().await?;
        tokio::select! {
            () = self.control.stopped() => {}
            () = self.forward_notifications() => {}
            () = self.drain_queue(ARCHIVE_QUEUE, (EXPORTER, exporter)) => {}
            () = self.drain_queue(PATH_QUEUE, (INVALIDATOR, invalidator)) => {}
            () = self.compact(compactor) => {}
            () = self.sweep() => {}
            () = self.report_paths() => {}
            () = show_events(&self.servers.eventbridge) => {}
            () = self.watch_state() => {}
            () = Box::pin(recount_when_asked(&self.deployment, &self.board)) => {}
        }
        Ok(())
    }

    /// Notifies about archive objects that an earlier run has not exported.
    async fn enqueue_missing(&self) -> Result<()> {
        let range = ArchiveRange { from: None, to: None };
        for key in archive_objects(&self.servers.bucket(), &self.deployment.model, &range, true).await? {
            self.notify(&CreatedObject { bucket: BUCKET.to_owned(), key });
        }
        Ok(())
    }

    /// Notifies the queue of each archive object, as a bucket's notification does.
    async fn forward_notifications(&self) {
        let mut created = self.servers.created.lock().await;
        while let Some(object) = created.recv().await {
            if object.bucket == BUCKET && object.key.starts_with(ARCHIVE_PREFIX) {
                self.board.meters.add_archived(SystemClock.now());
                self.notify(&object);
            }
        }
    }

    fn notify(&self, object: &CreatedObject) {
        let record = json!({
            "eventVersion": "2.1",
            "eventSource": "aws:s3",
            "eventName": "ObjectCreated:Put",
            "s3": { "bucket": { "name": object.bucket }, "object": { "key": object.key } },
        });
        self.servers.sqs.send(ARCHIVE_QUEUE, json!({ "Records": [record] }).to_string());
    }

    /// Delivers a queue's messages as an event source mapping with `ReportBatchItemFailures` does.
    async fn drain_queue(&self, queue: &str, (name, function): (&str, &DevFunction)) {
        let arn = format!("arn:aws:sqs:us-east-1:000000000000:{queue}");
        loop {
            let messages = self.servers.sqs.receive(queue, BATCH_MESSAGES).await;
            let event = QueueMessage::event(&arn, &messages).to_string().into_bytes();
            let failed = match function.handle(event, TIMEOUT).await {
                Ok(response) => failed_messages(&response, messages),
                Err(error) => {
                    self.board.meters.add_failure(name);
                    eprintln!("afterwrite: {queue}: {}", error.report());
                    messages
                }
            };
            let is_retried = !failed.is_empty();
            for message in failed {
                if message.receives < MAX_RECEIVES {
                    self.servers.sqs.put_back(queue, message);
                } else {
                    eprintln!(
                        "afterwrite: {queue}: message {} failed {MAX_RECEIVES} times and is dropped",
                        message.id
                    );
                }
            }
            if is_retried {
                tokio::time::sleep(VISIBLE_AFTER).await;
            }
        }
    }

    async fn compact(&self, compactor: &DevFunction) {
        loop {
            tokio::time::sleep(self.compact_every).await;
            if self.deployment.model.datasets.is_empty() {
                continue;
            }
            if let Err(error) = compactor.handle(b"{}".to_vec(), TIMEOUT).await {
                self.board.meters.add_failure(COMPACTOR);
                eprintln!("afterwrite: compactor: {}", error.report());
            }
        }
    }

    /// Deletes items whose time to live has passed.
    async fn sweep(&self) {
        loop {
            tokio::time::sleep(SWEEP_EVERY).await;
            if let Err(error) = self.servers.dynamodb.sweep_expired().await {
                eprintln!("afterwrite: time to live: {}", error.report());
            }
        }
    }

    /// Reports parked items and entries of a newer model in the state table.
    async fn watch_state(&self) {
        let client = self.servers.dynamodb.client();
        if self.has_earlier_data {
            report_error(warn_of_newer_generation(&client, self.deployment.model.generation).await);
        }
        loop {
            report_error(report_parked(&client, &self.deployment).await);
            tokio::time::sleep(SWEEP_EVERY).await;
            // That the application has deleted the table is reported once.
            while self.servers.dynamodb.has_table(STATE_TABLE).await.is_ok_and(|is_there| !is_there) {
                tokio::time::sleep(SWEEP_EVERY).await;
            }
        }
    }

    /// Reports how many paths were invalidated; paths contain keys of items, so they are not shown.
    async fn report_paths(&self) {
        loop {
            tokio::time::sleep(Duration::from_secs(1)).await;
            let paths = self.servers.cloudfront.take_paths();
            if !paths.is_empty() {
                eprintln!("afterwrite: CloudFront: {} paths invalidated", paths.len());
            }
        }
    }
}

fn report_error(outcome: Result<()>) {
    if let Err(error) = outcome {
        eprintln!("afterwrite: state table: {}", error.report());
    }
}

/// The messages that a partial response names as failed. A response of another form names no message.
fn failed_messages(response: &[u8], messages: Vec<QueueMessage>) -> Vec<QueueMessage> {
    let response = BatchResponse::read(response);
    messages.into_iter().filter(|message| response.has_failed(&message.id)).collect()
}
