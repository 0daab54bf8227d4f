//! A deployment in use: functions, mappings, queues and schedules with the settings of an applied state.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use afterwrite_mapping::{ShardPosition, StreamSource as _};
use afterwrite_tests::cached_keys::{keys_in, keys_of_all, with_neighbours};
use afterwrite_tests::programs::program;
use afterwrite_tests::recorded_items::key;
use afterwrite_tests::redis_server::RedisCluster;
use futures::future::join_all;
use serde_json::Value;
use tokio::process::Command;

use super::applied::{AppliedState, FAILURES, text};
use super::cloud::LocalCloud;
use super::delivery::{StreamDelivery, depth, drain_queue, forward_notifications, run_schedule};
use super::exam::{ExamPlatform, scan};
use super::lambda::LocalFunction;
use super::metrics_store::{MetricName, MetricStore};

/// A deployment that has been used.
pub(crate) struct UsedDeployment<'s> {
    pub(crate) state: &'s AppliedState,
    pub(crate) cloud: LocalCloud,
    pub(crate) functions: BTreeMap<String, LocalFunction>,
    pub(crate) deliveries: Vec<StreamDelivery<'s>>,
    /// How long the messages that are left in queues have waited, and what is left in the delivery stream.
    pub(crate) waited: Duration,
    pub(crate) is_undelivered: bool,
}

impl<'s> UsedDeployment<'s> {
    /// Starts the servers and the functions. Nothing is delivered yet. The secret of the cache has the address of `cache`.
    pub(crate) async fn start(state: &'s AppliedState, cache: Option<&RedisCluster>) -> Self {
        let cloud = LocalCloud::start(state, cache.map(RedisCluster::url)).await;
        let functions = cloud.functions(state, "healthy", None);
        let deliveries = StreamDelivery::all(state);
        Self { state, cloud, functions, deliveries, waited: Duration::ZERO, is_undelivered: false }
    }

    /// Begins another run: new processes of all functions, and mappings that go on where they ended.
    pub(crate) fn begin(&mut self, run: &str, limit: Option<Duration>) {
        self.functions = self.cloud.functions(self.state, run, limit);
        self.deliveries =
            std::mem::take(&mut self.deliveries).into_iter().map(StreamDelivery::renewed).collect();
    }

    /// Ends a run and its faults; returns its metrics.
    pub(crate) async fn end(&self) -> MetricStore {
        self.cloud.recorder.set_faults(Vec::new());
        self.metrics().await
    }

    /// The metrics of the run: the functions' own, and those that AWS adds.
    pub(crate) async fn metrics(&self) -> MetricStore {
        let mut metrics = MetricStore::default();
        self.functions.values().for_each(|function| metrics.extend(function.metrics()));
        for delivery in &self.deliveries {
            metrics.extend(delivery.metrics(&self.functions[delivery.reader]));
        }
        let queues = self.state.queues();
        let depths = join_all(queues.iter().map(|queue| depth(&self.cloud, queue))).await;
        for (queue, depth) in queues.into_iter().zip(depths) {
            let name = |metric| MetricName::new("AWS/SQS", metric, &[("QueueName", queue)]);
            let count = f64::from(u32::try_from(depth).expect("a small number"));
            metrics.add(name("ApproximateNumberOfMessagesVisible"), count);
            let age = if depth > 0 { self.waited.as_secs_f64() } else { 0.0 };
            metrics.add(name("ApproximateAgeOfOldestMessage"), age);
        }
        let stream =
            self.state.one("aws_kinesis_firehose_delivery_stream", "archive").expect("a delivery stream");
        let stream = MetricName::new(
            "AWS/Firehose",
            "DeliveryToS3.DataFreshness",
            &[("DeliveryStreamName", text(&stream["name"]))],
        );
        // A stream that may not write keeps its records for hours.
        metrics.add(stream, if self.is_undelivered { 3.0 * 3_600.0 } else { 0.0 });
        metrics
    }

    /// The newest record of the source table's stream.
    pub(crate) async fn newest_record(&self) -> Value {
        let stream = self.cloud.dynamodb.stream(&self.state.source_table()).await.expect("a stream");
        let shard = stream.describe(None).await.expect("shards").shards.remove(0);
        let mut next =
            Some(stream.iterator(&shard.id, &ShardPosition::TrimHorizon).await.expect("an iterator"));
        let mut newest = None;
        while let Some(iterator) = next {
            let mut page = stream.read(&iterator).await.expect("records");
            newest = page.records.pop().or(newest);
            next = page.next.filter(|_| !page.is_at_end);
        }
        serde_json::from_str(&newest.expect("a record").json).expect("a record")
    }

    /// The key of a rollup that counts attempts.
    pub(crate) async fn any_rollup(&self) -> (String, String) {
        let state_table = self.state.variable("aggregator", "AFTERWRITE_STATE_TABLE").expect("a state table");
        let items = scan(&self.cloud, &state_table).await;
        let mut rollups = items.iter().filter(|item| item.contains_key("attempts"));
        key(rollups.next().expect("a rollup of attempts"))
    }

    /// Redrives parked items, and failed records if the deployment names who may read them, with the permissions of the policy for
    /// redrive.
    pub(crate) async fn redrive(&self) {
        let mut command = Command::new(program("afterwrite"));
        command.args(["redrive", "--parked", "--yes", "--without-recovery"]);
        let readers = self.deliveries.iter().map(|delivery| delivery.reader);
        let hosted: Vec<String> =
            readers.filter_map(|reader| self.state.variable(reader, "AFTERWRITE_PROJECTIONS")).collect();
        if self.state.allows_redrive() {
            let objects = format!("s3://{FAILURES}/aws/lambda/");
            command.args([&objects, "--only", &hosted.join(",")]);
        }
        for delivery in &self.deliveries {
            command.envs(self.state.variables(delivery.reader));
        }
        command.envs(self.cloud.credentials("redrive")).env("AFTERWRITE_MODEL", "exambuddy");
        let done = command.output().await.expect("a process");
        // 1: a parked item still does not fit the model.
        let code = done.status.code();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        assert!(matches!(code, Some(0 | 1)), "{code:?}: {}{}", text(&done.stdout), text(&done.stderr));
    }

    /// Delivers the stream to all readers while `writes` runs, until everything is delivered; what the aggregator writes, too.
    pub(crate) async fn deliver_during(&self, writes: impl Future<Output = ()>) {
        let counting =
            self.deliveries.iter().find(|delivery| delivery.reader == "aggregator").expect("a reader");
        let others = || self.deliveries.iter().filter(|delivery| delivery.reader != "aggregator");
        let count = async {
            counting.run(&self.cloud, &self.functions[counting.reader]).await;
            others().for_each(|delivery| delivery.control.drain());
        };
        let write = async {
            writes.await;
            counting.control.drain();
        };
        let deliver =
            join_all(others().map(|delivery| delivery.run(&self.cloud, &self.functions[delivery.reader])));
        futures::future::join3(write, count, deliver).await;
    }

    /// Exports what is archived, and invalidates what is stale.
    pub(crate) async fn drain_queues(&self) {
        self.cloud.firehose.flush().await.expect("objects of the archive");
        forward_notifications(self.state, &self.cloud).await;
        for function in ["exporter", "invalidator"] {
            if let Some(deployed) = self.functions.get(function) {
                drain_queue(self.state, &self.cloud, function, deployed).await;
            }
        }
    }

    /// Runs a schedule, which must succeed.
    pub(crate) async fn run_schedule(&self, name: &str) {
        let run = run_schedule(self.state, &self.cloud, &self.functions, name).await;
        run.unwrap_or_else(|error| panic!("the schedule {name}: {error}"));
    }

    /// Uses the deployment as an exam platform does, and compares everything that must follow.
    pub(crate) async fn use_and_compare(&self, cache: Option<&RedisCluster>) {
        let platform = ExamPlatform::recorded();
        let stale = keys_of_all(platform.records());
        let cached = with_neighbours(&stale);
        if let Some(cache) = cache {
            cache.fill(&cached).await;
        }
        let table = self.state.source_table();
        self.run_schedule("heartbeat").await;
        Box::pin(self.deliver_during(platform.play(&self.cloud, &table))).await;
        self.drain_queues().await;
        self.run_schedule("compaction").await;
        self.run_schedule("verification").await;

        for delivery in &self.deliveries {
            let skipped = delivery.progress.skipped();
            assert!(skipped.is_empty(), "{}: {skipped:?}", delivery.reader);
        }
        let state_table = self.state.variable("aggregator", "AFTERWRITE_STATE_TABLE").expect("a state table");
        platform.assert_counted(&self.cloud, &table, &state_table).await;
        platform.assert_datasets(&self.cloud).await;
        if let Some(cache) = cache {
            let left: BTreeSet<String> = cached.difference(&stale).cloned().collect();
            assert_eq!(keys_of_cluster(cache).await, left, "exactly the stale keys are deleted");
            let requests = self.cloud.cloudfront.requests();
            let paths: BTreeSet<String> = requests.into_iter().flat_map(|request| request.paths).collect();
            assert_eq!(paths, platform.stale_paths());
        }
    }
}

async fn keys_of_cluster(cache: &RedisCluster) -> BTreeSet<String> {
    let mut keys = BTreeSet::new();
    for master in &cache.masters {
        keys.extend(keys_in(master).await);
    }
    keys
}

/// The time after which a test gives up.
pub(crate) const LIMIT: Duration = Duration::from_secs(300);
