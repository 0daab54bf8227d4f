//! Redis or Valkey, one node or a cluster, as a [`Cache`]: the trait documents the commands, the races and what readers must do.
//!
//! Every command names one key and therefore one slot, so a slot may be at any point of its migration: `MOVED` and `ASK` are followed,
//! and a node that fails affects its own keys only.

mod cluster;
mod fault;
mod single;
mod slots;

use std::borrow::Cow;
use std::fmt;
use std::sync::Once;
use std::time::Duration;

use ::redis::{Cmd, TlsCertificates};

use afterwrite_model::projection::StaleKey;
use afterwrite_model::table::CacheRemedy;
use afterwrite_model::{Error, ErrorKind, Result};

use self::fault::{cache_error, is_replica, timeout_error};
use super::{Cache, GENERATION_LIFE, GENERATION_SUFFIX, INVALIDATION_CHANNEL, InvalidatedKeys, TOMBSTONE};

/// The time limit of a connection attempt.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);
/// The time limit of a response.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(1);
/// The maximum number of keys in a published message.
const MAX_MESSAGE_KEYS: usize = 256;
/// The maximum total length of the keys in a published message.
const MAX_MESSAGE_BYTES: usize = 64 * 1024;

/// Moves a generation on, if there is one, and renews its life. `EXPIRE` comes first because it shows whether the key exists and is a
/// write: a replica refuses it even for a missing key. A value that cannot be incremented is deleted, which moves it on as well.
const NEXT_GENERATION: &str = "\
if redis.call('EXPIRE', KEYS[1], ARGV[1]) == 0 then return 0 end \
local next = redis.pcall('INCR', KEYS[1]) \
if type(next) == 'table' then redis.call('UNLINK', KEYS[1]) return 0 end \
return next";

/// Whether a cache is one node or a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheTopology {
    /// One node, or one primary behind an address.
    Single,
    /// Cluster mode; ElastiCache Serverless always uses it.
    Cluster,
}

/// A Redis or Valkey cache. It connects on first use, and again after a connection is lost.
pub struct RedisCache {
    node: RedisNode,
}

enum RedisNode {
    Single(single::SingleNode),
    Cluster(cluster::RedisCluster),
}

impl fmt::Debug for RedisCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The address may contain a password.
        f.debug_struct("Redis").finish_non_exhaustive()
    }
}

impl RedisCache {
    /// A cache at an address, `redis://` or `rediss://` (TLS, certificates verified). `certificate_authority` is a PEM certificate to
    /// trust instead of the machine's authorities.
    ///
    /// # Errors
    /// [`ErrorKind::Configuration`] if the address is malformed, or is a cluster's and has a database number. The error does not
    /// contain the address.
    pub fn new(url: &str, topology: CacheTopology, certificate_authority: Option<Vec<u8>>) -> Result<Self> {
        install_cryptography();
        let is_redis = ["redis://", "rediss://"].iter().any(|scheme| url.starts_with(scheme));
        if !is_redis || (certificate_authority.is_some() && !url.starts_with("rediss://")) {
            return Err(Error::new(
                ErrorKind::Configuration,
                "the address of the cache must start with redis:// or rediss://, and with rediss:// if a certificate authority is set",
            ));
        }
        let certificates = certificate_authority
            .map(|authority| TlsCertificates { client_tls: None, root_cert: Some(authority) });
        let node = match topology {
            CacheTopology::Single => single::SingleNode::new(url, certificates).map(RedisNode::Single),
            CacheTopology::Cluster => cluster::RedisCluster::new(url, certificates).map(RedisNode::Cluster),
        };
        // The cause may quote the address.
        let node =
            node.map_err(|_| Error::new(ErrorKind::Configuration, "the address of the cache is malformed"))?;
        if let RedisNode::Cluster(cluster) = &node
            && cluster.database() != 0
        {
            let message = "the address of the cache has a database number, and a cluster has only database 0";
            return Err(Error::new(ErrorKind::Configuration, message)
                .with("database", cluster.database().to_string())
                .hint("Remove the number from the end of the address"));
        }
        Ok(Self { node })
    }
}

impl Cache for RedisCache {
    async fn invalidate(&self, keys: &[StaleKey], limit: Duration) -> InvalidatedKeys {
        match &self.node {
            RedisNode::Single(single) => Box::pin(single.invalidate(keys, limit)).await,
            RedisNode::Cluster(cluster) => Box::pin(cluster.invalidate(keys, limit)).await,
        }
    }
}

/// The key in the command of a remedy.
fn command_key(stale: &StaleKey) -> Cow<'_, str> {
    match stale.remedy {
        CacheRemedy::Delete | CacheRemedy::Tombstone(_) => Cow::Borrowed(&stale.key),
        CacheRemedy::Generation => Cow::Owned(format!("{}{GENERATION_SUFFIX}", stale.key)),
    }
}

/// The command of a key's remedy.
fn command(stale: &StaleKey) -> Cmd {
    let (key, command) = (stale.key.as_str(), ::redis::cmd);
    match stale.remedy {
        CacheRemedy::Delete => command("UNLINK").arg(key).clone(),
        CacheRemedy::Tombstone(time) => {
            let ms = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
            command("SET").arg(key).arg(TOMBSTONE).arg("PX").arg(ms).clone()
        }
        CacheRemedy::Generation => {
            let (generation, life) = (command_key(stale), GENERATION_LIFE.as_secs());
            command("EVAL").arg(NEXT_GENERATION).arg(1).arg(&*generation).arg(life).clone()
        }
    }
}

/// The messages that publish these keys (by index), each with the keys it contains.
fn messages(keys: &[StaleKey], published: impl IntoIterator<Item = usize>) -> Vec<(Cmd, Vec<usize>)> {
    let mut groups: Vec<(Vec<usize>, usize)> = Vec::new();
    for index in published {
        let size = keys.get(index).map_or(0, |stale| stale.key.len());
        match groups.last_mut() {
            Some((group, bytes)) if group.len() < MAX_MESSAGE_KEYS && *bytes + size <= MAX_MESSAGE_BYTES => {
                group.push(index);
                *bytes += size;
            }
            _ => groups.push((vec![index], size)),
        }
    }
    groups.into_iter().map(|(group, _)| (publish_command(keys, &group), group)).collect()
}

fn publish_command(keys: &[StaleKey], group: &[usize]) -> Cmd {
    let names: Vec<&str> =
        group.iter().filter_map(|index| keys.get(*index)).map(|stale| stale.key.as_str()).collect();
    let mut publish = ::redis::cmd("PUBLISH");
    publish.arg(INVALIDATION_CHANNEL).arg(serde_json::json!(names).to_string());
    publish
}

/// Marks these keys as failed; a key keeps its first error.
fn fail(results: &mut [Result<()>], failed: &[usize], error: &Error) {
    for index in failed {
        if let Some(result @ Ok(())) = results.get_mut(*index) {
            *result = Err(error.restated());
        }
    }
}

/// TLS uses the cryptography provider of the process: *ring*, as for the AWS clients. An installed provider stays.
fn install_cryptography() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let _installed = rustls::crypto::ring::default_provider().install_default();
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stale(key: &str, remedy: CacheRemedy) -> StaleKey {
        StaleKey { key: key.to_owned(), remedy, records: vec![0], rule: 0 }
    }

    #[test]
    fn a_key_is_sent_verbatim_whatever_its_characters() {
        for key in ["*", "a b", "x\r\nFLUSHALL\r\n", "試験", "\0", "[a-z]?"] {
            let command = command(&stale(key, CacheRemedy::Delete));
            let expected = format!("*2\r\n$6\r\nUNLINK\r\n${}\r\n{key}\r\n", key.len());
            assert_eq!(command.get_packed_command(), expected.as_bytes());
        }
    }

    fn words(command: &Cmd) -> String {
        let packed = String::from_utf8(command.get_packed_command()).unwrap();
        packed.lines().filter(|line| !line.starts_with(['*', '$'])).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn each_remedy_is_one_command() {
        let packed = |remedy| words(&command(&stale("k", remedy)));
        assert_eq!(packed(CacheRemedy::Delete), "UNLINK k");
        assert_eq!(
            packed(CacheRemedy::Tombstone(Duration::from_secs(5))),
            "SET k afterwrite:tombstone PX 5000"
        );
        let generation = packed(CacheRemedy::Generation);
        assert!(generation.starts_with("EVAL if redis.call('EXPIRE'"), "{generation}");
        assert!(generation.ends_with("return next 1 k:generation 86400"), "{generation}");
    }

    #[test]
    fn messages_have_a_bounded_size_and_contain_every_key() {
        let keys: Vec<StaleKey> =
            (0..600).map(|id| stale(&format!("{id}:{}", "x".repeat(id)), CacheRemedy::Delete)).collect();
        let messages = messages(&keys, 0..keys.len());
        let named: Vec<usize> = messages.iter().flat_map(|(_, group)| group.clone()).collect();
        assert_eq!(named, (0..600).collect::<Vec<_>>());
        for (_, group) in &messages {
            let bytes: usize = group.iter().map(|index| keys[*index].key.len()).sum();
            assert!(group.len() <= MAX_MESSAGE_KEYS && bytes <= MAX_MESSAGE_BYTES);
        }
    }
}
