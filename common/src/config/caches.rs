//! Which caches hold copies of items.

use super::{EnvironmentSettings, sdk_config};
use crate::sink::cloudfront::CloudFront;
use crate::sink::redis::{CacheTopology, RedisCache};
use crate::{Error, ErrorKind, Result};

pub(super) const CACHE_URL: &str = "AFTERWRITE_CACHE_URL";
pub(super) const CACHE_CLUSTER: &str = "AFTERWRITE_CACHE_CLUSTER";
pub(super) const DISTRIBUTION: &str = "AFTERWRITE_CLOUDFRONT_DISTRIBUTION";

/// What the settings of cache invalidation come to; nothing is connected yet. Where a setting is unset, nothing is invalidated there.
///
/// # Errors
/// [`ErrorKind::Configuration`], naming the variable and what it should hold.
pub fn cache(settings: &EnvironmentSettings) -> Result<Option<RedisCache>> {
    let topology = match settings.cache_cluster.as_deref() {
        None | Some("false") => CacheTopology::Single,
        Some("true") => CacheTopology::Cluster,
        Some(_) => {
            return Err(Error::new(
                ErrorKind::Configuration,
                format!("{CACHE_CLUSTER} is neither `true` nor `false`"),
            )
            .hint(
                "Set it to `true` if the cache is a cluster (ElastiCache Serverless is), else leave it out",
            ));
        }
    };
    let Some(url) = settings.cache_url.as_deref() else { return Ok(None) };
    // The address may hold a password, so no error repeats it.
    let redis = RedisCache::new(url, topology, None).map_err(|error| {
        Error::new(ErrorKind::Configuration, format!("{CACHE_URL} is no address of a cache"))
            .hint("Write redis://host:6379, or rediss://host:6379 for TLS; user:password@ may stand before the host")
            .caused_by(error)
    })?;
    Ok(Some(redis))
}

/// The CloudFront distribution whose paths are invalidated, if one is set; configured as the AWS SDK configures itself.
///
/// # Errors
/// [`ErrorKind::Configuration`] if no region is set anywhere.
pub async fn distribution(settings: &EnvironmentSettings) -> Result<Option<CloudFront>> {
    let Some(id) = settings.distribution.as_deref() else { return Ok(None) };
    Ok(Some(CloudFront::new(aws_sdk_cloudfront::Client::new(&sdk_config().await?), id)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cache_is_optional_and_its_address_is_never_repeated() {
        assert!(cache(&EnvironmentSettings::default()).expect("unset").is_none());
        let with = |url: &str, cluster: Option<&str>| {
            let (cache_url, cache_cluster) = (Some(url.to_owned()), cluster.map(str::to_owned));
            cache(&EnvironmentSettings { cache_url, cache_cluster, ..EnvironmentSettings::default() })
        };
        for url in ["redis://127.0.0.1:6379", "rediss://user:secret@cache.example:6379"] {
            assert!(with(url, Some("true")).expect("an address").is_some());
        }
        for url in ["http://user:secret@cache.example", "secret", "redis://user:secret@"] {
            let error = with(url, None).expect_err("no address").to_string();
            assert!(error.contains("AFTERWRITE_CACHE_URL") && !error.contains("secret"), "{error}");
        }
        let error = with("redis://127.0.0.1", Some("yes")).expect_err("neither").to_string();
        assert!(error.contains("AFTERWRITE_CACHE_CLUSTER"), "{error}");
    }
}
