//! The functions as Lambda runs them: processes that speak the Runtime API, with a time limit, and with the metrics that Lambda adds.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use afterwrite_mapping::EventHandler;
use afterwrite_mapping::runtime::{FunctionPool, FunctionProgram};
use afterwrite_model::{Error, ErrorKind, Result};
use jiff::Timestamp;
use serde_json::Value;

use super::metrics_store::{MetricName, MetricStore};

const NAMESPACE: &str = "AWS/Lambda";

/// A deployed function.
pub(crate) struct LocalFunction {
    /// Its deployed name.
    pub(crate) name: String,
    pool: FunctionPool,
    log: PathBuf,
    limit: Duration,
    /// How much longer everything takes on AWS: the ratio of the deployed time limit and this one.
    scale: f64,
    is_throttled: AtomicBool,
    metrics: Mutex<MetricStore>,
}

/// How a function runs.
pub(crate) struct FunctionSetup<'s> {
    pub(crate) name: &'s str,
    pub(crate) program: &'s Path,
    /// The place of its log.
    pub(crate) folder: &'s Path,
    pub(crate) variables: Vec<(String, String)>,
    pub(crate) timeout: Duration,
    /// The time limit of this run; a shorter one stands for the deployed one.
    pub(crate) limit: Duration,
}

impl LocalFunction {
    pub(crate) fn new(setup: FunctionSetup<'_>) -> Self {
        let FunctionSetup { name, program, folder, variables, timeout, limit } = setup;
        let log = folder.join(format!("{name}.log"));
        let path = launcher(name, program, folder, &log);
        Self {
            name: name.to_owned(),
            pool: FunctionPool::new(FunctionProgram { name: name.to_owned(), path, variables }),
            log,
            limit,
            scale: timeout.as_secs_f64() / limit.as_secs_f64(),
            is_throttled: AtomicBool::new(false),
            metrics: Mutex::default(),
        }
    }

    /// Sets whether the function has no concurrency left.
    pub(crate) fn throttle(&self, is_throttled: bool) {
        self.is_throttled.store(is_throttled, Ordering::Relaxed);
    }

    /// The metrics of the run so far: Lambda's and the function's own.
    pub(crate) fn metrics(&self) -> MetricStore {
        let mut metrics = self.metrics.lock().unwrap_or_else(PoisonError::into_inner).clone();
        metrics.read_log(&self.log);
        metrics
    }

    fn add(&self, metric: &str, value: f64) {
        let name = MetricName::new(NAMESPACE, metric, &[("FunctionName", &self.name)]);
        self.metrics.lock().unwrap_or_else(PoisonError::into_inner).add(name, value);
    }
}

impl EventHandler for LocalFunction {
    async fn handle(&self, event: Vec<u8>, remaining: Duration) -> Result<Vec<u8>> {
        if let Some(age_ms) = iterator_age_ms(&event) {
            self.add("IteratorAge", age_ms);
        }
        let is_throttled = self.is_throttled.load(Ordering::Relaxed);
        self.add("Throttles", f64::from(u8::from(is_throttled)));
        if is_throttled {
            return Err(Error::new(ErrorKind::Unavailable, "the function has no concurrency left"));
        }
        let (limit, started) = (remaining.min(self.limit), Instant::now());
        let handled = tokio::time::timeout(limit, self.pool.handle(event, limit)).await;
        self.add("Duration", started.elapsed().min(limit).as_secs_f64() * 1_000.0 * self.scale);
        let handled =
            handled.unwrap_or_else(|_| Err(Error::new(ErrorKind::Unavailable, "the function has timed out")));
        self.add("Errors", f64::from(u8::from(handled.is_err())));
        handled
    }
}

/// The age of the newest record of a stream's batch.
fn iterator_age_ms(event: &[u8]) -> Option<f64> {
    let event: Value = serde_json::from_slice(event).ok()?;
    let created = event["Records"].as_array()?.last()?["dynamodb"]["ApproximateCreationDateTime"].as_f64()?;
    #[expect(clippy::cast_precision_loss, reason = "epoch milliseconds are far below 2^53")]
    let now = Timestamp::now().as_millisecond() as f64;
    Some((now - created * 1_000.0).max(0.0))
}

/// A program that starts the function with its output in a log, as Lambda keeps it.
fn launcher(name: &str, program: &Path, folder: &Path, log: &Path) -> PathBuf {
    use std::os::unix::fs::PermissionsExt as _;
    let path = folder.join(format!("{name}.sh"));
    let script = format!("#!/bin/sh\nexec '{}' >>'{}' 2>&1\n", program.display(), log.display());
    std::fs::write(&path, script).expect("a program");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).expect("an executable program");
    path
}
