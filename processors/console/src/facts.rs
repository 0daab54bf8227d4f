//! The newest look at a deployed part, as `afterwrite doctor` looks at it. It asks AWS dozens of requests, so pages share it for a while.

use std::sync::Arc;
use std::time::Duration;

use afterwrite_deployment::doctor::{DeploymentFacts, DriftFacts, Looked, deployment_facts};
use afterwrite_model::Result;
use afterwrite_model::clock::{Clock as _, SystemClock};
use afterwrite_model::record::Timestamp;
use tokio::sync::Mutex;

use crate::context::ConsoleContext;

/// How long pages share a look.
const SHARED_FOR: Duration = Duration::from_secs(20);

/// The newest look. Readers that come while it is made wait for it.
#[derive(Debug, Default)]
pub(crate) struct FactsCache(Mutex<Option<(Timestamp, Arc<DeploymentFacts>)>>);

impl FactsCache {
    /// The facts, and the time of the look.
    ///
    /// # Errors
    /// As [`deployment_facts`].
    pub(crate) async fn read(&self, context: &ConsoleContext) -> Result<(Timestamp, Arc<DeploymentFacts>)> {
        let mut newest = self.0.lock().await;
        let now = SystemClock.now();
        if let Some((at, facts)) = newest.as_ref().filter(|(at, _)| now.since(*at) < SHARED_FOR) {
            return Ok((*at, Arc::clone(facts)));
        }
        let drift = DriftFacts::Bucket(Looked::NotNamed("--bucket or AFTERWRITE_BUCKET"));
        let bucket = context.bucket_name.clone();
        let looked = deployment_facts(&context.config, Arc::clone(&context.state_table), bucket, drift);
        let facts = Arc::new(Box::pin(looked).await?);
        *newest = Some((now, Arc::clone(&facts)));
        Ok((now, facts))
    }
}
