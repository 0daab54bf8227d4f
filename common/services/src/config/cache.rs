//! The cache whose keys are invalidated.

use afterwrite_model::Result;

use super::{CACHE_CLUSTER, CACHE_SECRET, CACHE_URL, EnvironmentSettings, boolean, invalid};
use crate::redis::{CacheTopology, RedisCache};

impl EnvironmentSettings {
    /// The cache whose keys are invalidated, if one is set. Reads the secret that has its address; connects to nothing else yet.
    ///
    /// # Errors
    /// [`ErrorKind::Configuration`](afterwrite_model::ErrorKind::Configuration) if `AFTERWRITE_CACHE_URL`, `AFTERWRITE_CACHE_SECRET` or `AFTERWRITE_CACHE_CLUSTER` is not valid, or the
    /// secret may not be read; [`ErrorKind::Unavailable`](afterwrite_model::ErrorKind::Unavailable) if Secrets Manager cannot be reached.
    pub async fn cache(&self) -> Result<Option<RedisCache>> {
        let hint =
            "Set it to `true` if the cache is a cluster (ElastiCache Serverless is); otherwise remove it";
        let is_cluster = boolean(self.cache_cluster.as_deref(), CACHE_CLUSTER, hint)?;
        let topology = if is_cluster { CacheTopology::Cluster } else { CacheTopology::Single };
        match (self.cache_url.as_deref(), self.cache_secret.as_deref()) {
            (None, None) => Ok(None),
            (Some(url), None) => redis_cache(url, topology, CACHE_URL).map(Some),
            (None, Some(arn)) => {
                let secret = self.secret(arn, CACHE_SECRET).await?;
                let url = secret.text().await?;
                redis_cache(url.trim(), topology, "the text of the secret that AFTERWRITE_CACHE_SECRET names")
                    .map(Some)
            }
            (Some(_), Some(_)) => Err(invalid(format!("{CACHE_URL} and {CACHE_SECRET} are both set"))
                .hint("Remove one of them; an address with a password belongs into the secret")),
        }
    }
}

/// A cache by its address, which comes from `source`. The address may hold a password, so the error does not repeat it.
fn redis_cache(url: &str, topology: CacheTopology, source: &str) -> Result<RedisCache> {
    RedisCache::new(url, topology, None).map_err(|error| {
        invalid(format!("{source} is not a cache address"))
            .hint(
                "Write redis://host:6379, or rediss://host:6379 for TLS; user:password@ may precede the host",
            )
            .caused_by(error)
    })
}
