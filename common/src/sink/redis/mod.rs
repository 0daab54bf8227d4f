//! The [`Cache`] that is Redis or Valkey, one node or a cluster.
//!
//! # What each remedy does, and which race it closes
//!
//! A reader that finds nothing cached reads the item and stores what it read. If the item is changed between the two, and the change is
//! invalidated before the reader stores, the cache holds the old value until its time to live is over: the *stale-set race*.
//!
//! | remedy | sent | closes the race | what readers must do |
//! |---|---|---|---|
//! | `delete` | `UNLINK key` | no: what was cached before the change goes, what a slow reader stores after it stays | nothing |
//! | `tombstone = "5s"` | `SET key afterwrite:tombstone PX 5000` | against readers that take less than the tombstone's time from reading to storing | store with `SET key value NX` and a time to live; take [`TOMBSTONE`] for nothing cached |
//! | `generation` | `SET key:generation <ms> NX`, `INCR key:generation` | against any reader, however slow | get `key:generation` *before* reading the item; read and store under `key:<generation>:…`, with a time to live; if there is no generation, set one as here (`NX`) and get it again |
//!
//! Every remedy is complete once its command is carried out: nothing is left to be done later by a function that may be frozen the instant it
//! has answered. A tombstone replaces what was cached in the same command that forbids storing, so there is no moment in between; a key
//! with a tombstone must hold a string, or its readers take a wrong type for nothing cached. A generation begins at the milliseconds since 1970, so
//! that one that was evicted never comes back with a number it has had. Doing any of this twice costs a miss and nothing else.
//!
//! Afterwards the keys are published on [`CHANNEL`], as JSON arrays of strings, for caches inside processes. Redis delivers that at most
//! once: such a cache needs a time to live as well.
//!
//! # Clusters
//!
//! Every command names one key, hence one slot, so that a slot may be anywhere in its migration: `MOVED` and `ASK` are followed, and a
//! node that is gone fails its own keys only.

mod cluster;
mod fault;
mod single;
mod slots;

use std::borrow::Cow;
use std::fmt;
use std::sync::Once;
use std::time::Duration;

use ::redis::{Cmd, TlsCertificates};

use self::fault::{fault, is_replica};
use super::{Cache, InvalidatedKeys};
use crate::projection::StaleKey;
use crate::record::Timestamp;
use crate::table::CacheRemedy;
use crate::{Error, ErrorKind, Result};

/// The channel on which invalidated keys are published.
pub const CHANNEL: &str = "afterwrite:invalidated";
/// What a key with a tombstone holds.
pub const TOMBSTONE: &str = "afterwrite:tombstone";
/// What is appended to a key to name its generation.
pub const GENERATION_SUFFIX: &str = ":generation";

/// How long a connection may take to be made.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);
/// How long an answer may take.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(1);
/// The most keys, and bytes of keys, in one published message.
const MESSAGE_KEYS: usize = 256;
const MESSAGE_BYTES: usize = 64 * 1024;

/// Whether a cache is one node or a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheTopology {
    /// One node, or one primary behind an address.
    Single,
    /// Cluster mode, as ElastiCache Serverless always is.
    Cluster,
}

/// Redis or Valkey. Connects when first used, and again after a connection was lost.
pub struct RedisCache {
    node: RedisNode,
}

enum RedisNode {
    Single(single::SingleNode),
    Cluster(cluster::RedisCluster),
}

impl fmt::Debug for RedisCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The address may hold a password.
        f.debug_struct("Redis").finish_non_exhaustive()
    }
}

impl RedisCache {
    /// A cache at an address, `redis://` or `rediss://` (TLS, certificates verified). `certificate_authority` is a PEM certificate to
    /// trust in place of the machine's own.
    ///
    /// # Errors
    /// [`ErrorKind::Configuration`] if the address is none, or a cluster's with the number of a database; it is not repeated.
    pub fn new(url: &str, topology: CacheTopology, certificate_authority: Option<Vec<u8>>) -> Result<Self> {
        install_cryptography();
        let is_known = ["redis://", "rediss://"].iter().any(|scheme| url.starts_with(scheme));
        if !is_known || (certificate_authority.is_some() && !url.starts_with("rediss://")) {
            return Err(Error::new(
                ErrorKind::Configuration,
                "the address of the cache is neither redis:// nor rediss://",
            ));
        }
        let certificates = certificate_authority
            .map(|authority| TlsCertificates { client_tls: None, root_cert: Some(authority) });
        let node = match topology {
            CacheTopology::Single => single::SingleNode::new(url, certificates).map(RedisNode::Single),
            CacheTopology::Cluster => cluster::RedisCluster::new(url, certificates).map(RedisNode::Cluster),
        };
        // The cause may quote the address.
        let node = node
            .map_err(|_| Error::new(ErrorKind::Configuration, "the address of the cache cannot be read"))?;
        if let RedisNode::Cluster(cluster) = &node
            && cluster.database() != 0
        {
            let message = "the address of the cache names a database, and a cluster has none but 0";
            return Err(Error::new(ErrorKind::Configuration, message)
                .with("database", cluster.database().to_string())
                .hint("Take it off the end of the address"));
        }
        Ok(Self { node })
    }
}

impl Cache for RedisCache {
    async fn invalidate(&self, keys: &[StaleKey], now: Timestamp, limit: Duration) -> InvalidatedKeys {
        match &self.node {
            RedisNode::Single(single) => Box::pin(single.invalidate(keys, now, limit)).await,
            RedisNode::Cluster(cluster) => Box::pin(cluster.invalidate(keys, now, limit)).await,
        }
    }
}

fn too_late() -> Error {
    Error::new(ErrorKind::Unavailable, "the cache did not answer in time")
}

/// The key that the commands of a remedy name.
fn named_key(stale: &StaleKey) -> Cow<'_, str> {
    match stale.remedy {
        CacheRemedy::Delete | CacheRemedy::Tombstone(_) => Cow::Borrowed(&stale.key),
        CacheRemedy::Generation => Cow::Owned(format!("{}{GENERATION_SUFFIX}", stale.key)),
    }
}

/// The commands that carry out the remedy of a key, in order.
fn commands(stale: &StaleKey, now: Timestamp) -> Vec<Cmd> {
    let key = stale.key.as_str();
    let command = |name: &str| {
        let mut command = Cmd::new();
        command.arg(name);
        command
    };
    match stale.remedy {
        CacheRemedy::Delete => vec![command("UNLINK").arg(key).clone()],
        CacheRemedy::Tombstone(time) => {
            let ms = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
            vec![command("SET").arg(key).arg(TOMBSTONE).arg("PX").arg(ms).clone()]
        }
        CacheRemedy::Generation => {
            let generation = named_key(stale);
            let begin = command("SET").arg(&*generation).arg(now.epoch_ms()).arg("NX").clone();
            vec![begin, command("INCR").arg(&*generation).clone()]
        }
    }
}

/// What is published of these keys (given by their indexes): messages, each with the keys it is of.
fn messages(keys: &[StaleKey], of: impl IntoIterator<Item = usize>) -> Vec<(Cmd, Vec<usize>)> {
    let mut groups: Vec<(Vec<usize>, usize)> = Vec::new();
    for index in of {
        let size = keys.get(index).map_or(0, |stale| stale.key.len());
        match groups.last_mut() {
            Some((group, bytes)) if group.len() < MESSAGE_KEYS && *bytes + size <= MESSAGE_BYTES => {
                group.push(index);
                *bytes += size;
            }
            _ => groups.push((vec![index], size)),
        }
    }
    let message = |(group, _): (Vec<usize>, usize)| {
        let names: Vec<&str> =
            group.iter().filter_map(|index| keys.get(*index)).map(|stale| stale.key.as_str()).collect();
        let mut publish = Cmd::new();
        publish.arg("PUBLISH").arg(CHANNEL).arg(serde_json::json!(names).to_string());
        (publish, group)
    };
    groups.into_iter().map(message).collect()
}

/// Fails these keys, but for those that have failed already.
fn fail(answers: &mut [Result<()>], of: &[usize], error: &Error) {
    for index in of {
        if let Some(answer @ Ok(())) = answers.get_mut(*index) {
            *answer = Err(error.restated());
        }
    }
}

/// TLS takes the process's cryptography: *ring*, as the AWS clients do. One that is installed already stays.
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
    fn a_key_is_sent_with_its_length_whatever_it_holds() {
        for key in ["*", "a b", "x\r\nFLUSHALL\r\n", "試験", "\0", "[a-z]?"] {
            let [command] =
                commands(&stale(key, CacheRemedy::Delete), Timestamp::from_epoch_ms(0)).try_into().unwrap();
            let expected = format!("*2\r\n$6\r\nUNLINK\r\n${}\r\n{key}\r\n", key.len());
            assert_eq!(command.get_packed_command(), expected.as_bytes());
        }
    }

    #[test]
    fn a_remedy_is_whole_in_its_commands() {
        let packed = |remedy| -> Vec<String> {
            let commands = commands(&stale("k", remedy), Timestamp::from_epoch_ms(1_700));
            let words = |command: &Cmd| {
                let packed = String::from_utf8(command.get_packed_command()).unwrap();
                packed.lines().filter(|line| !line.starts_with(['*', '$'])).collect::<Vec<_>>().join(" ")
            };
            commands.iter().map(words).collect()
        };
        assert_eq!(
            packed(CacheRemedy::Tombstone(Duration::from_secs(5))),
            ["SET k afterwrite:tombstone PX 5000"]
        );
        assert_eq!(packed(CacheRemedy::Generation), ["SET k:generation 1700 NX", "INCR k:generation"]);
    }

    #[test]
    fn messages_are_of_bounded_size_and_name_every_key() {
        let keys: Vec<StaleKey> =
            (0..600).map(|id| stale(&format!("{id}:{}", "x".repeat(id)), CacheRemedy::Delete)).collect();
        let messages = messages(&keys, 0..keys.len());
        let named: Vec<usize> = messages.iter().flat_map(|(_, group)| group.clone()).collect();
        assert_eq!(named, (0..600).collect::<Vec<_>>());
        for (_, group) in &messages {
            let bytes: usize = group.iter().map(|index| keys[*index].key.len()).sum();
            assert!(group.len() <= MESSAGE_KEYS && bytes <= MESSAGE_BYTES);
        }
    }
}
