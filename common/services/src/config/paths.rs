//! Where stale paths are sent: the queue that `invalidator` drains, or the distribution.

use std::sync::Arc;

use afterwrite_model::Result;

use super::{CDN_QUEUE, DISTRIBUTION, EnvironmentSettings, invalid, required};
use crate::PathTarget;
use crate::cloudfront::CloudFront;
use crate::sqs::SqsQueue;

impl EnvironmentSettings {
    /// Where `relay` sends stale paths: to the queue if one is set, else to the distribution; `None` if neither is set.
    ///
    /// # Errors
    /// [`ErrorKind::Configuration`](afterwrite_model::ErrorKind::Configuration) if `AFTERWRITE_CDN_QUEUE` is not a URL, or no region is set.
    pub async fn path_target(&self) -> Result<Option<PathTarget<CloudFront, SqsQueue>>> {
        if let Some(queue) = self.path_queue().await? {
            return Ok(Some(PathTarget::Queue(queue)));
        }
        let Some(id) = self.distribution.as_deref() else { return Ok(None) };
        Ok(Some(PathTarget::Distribution(self.distribution(id).await?)))
    }

    /// The queue of stale paths, and of events whose target is busy; `None` if it is not set.
    ///
    /// # Errors
    /// [`ErrorKind::Configuration`](afterwrite_model::ErrorKind::Configuration) if `AFTERWRITE_CDN_QUEUE` is not a URL, or no region is set.
    pub async fn path_queue(&self) -> Result<Option<SqsQueue>> {
        let Some(url) = self.cdn_queue()? else { return Ok(None) };
        let client = self.sqs_client().await?;
        Ok(Some(SqsQueue::new(&client, Arc::from(url))))
    }

    /// The URL of the queue of stale paths, if one is set.
    pub(super) fn cdn_queue(&self) -> Result<Option<&str>> {
        let Some(url) = self.cdn_queue.as_deref() else { return Ok(None) };
        if !url.starts_with("https://") && !url.starts_with("http://") {
            return Err(invalid(format!("{CDN_QUEUE} is not the URL of a queue")).hint(
                "Set it to the queue's URL, https://sqs.<region>.amazonaws.com/<account>/<name>; its name or ARN is not enough",
            ));
        }
        Ok(Some(url))
    }

    /// The CloudFront distribution whose paths `invalidator` invalidates.
    ///
    /// # Errors
    /// [`ErrorKind::Configuration`](afterwrite_model::ErrorKind::Configuration) if `AFTERWRITE_CLOUDFRONT_DISTRIBUTION` is unset, or no region is
    /// set.
    pub async fn required_distribution(&self) -> Result<CloudFront> {
        let hint = "Set it to the id of the CloudFront distribution whose paths are invalidated";
        let id = required(self.distribution.as_deref(), DISTRIBUTION, hint)?;
        self.distribution(id).await
    }
}
