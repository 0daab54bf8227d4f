//! A cluster, spoken to node by node.
//!
//! ```text
//! keys ─▶ slots ─▶ a pipeline per node ─┬─▶ done ─▶ published by any node that responded: the cluster forwards it to all nodes
//!                       ▲               ├─▶ redirected: sent again to the named node
//!                       └───────────────┘   no response: the keys of that pipeline fail
//! ```
//!
//! Nodes do not wait for each other, so a node that is gone affects its own keys only. The slot map is read once, from the configured
//! address. After a redirection or a failure it is read again from every known node, and the first response counts; without a response
//! the old map stays.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use afterwrite_model::projection::StaleKey;
use afterwrite_model::{Error, ErrorKind, Result};
use futures::StreamExt as _;
use futures::future::select_ok;
use futures::stream::FuturesUnordered;
use redis::{
    Cmd, ConnectionAddr, ConnectionInfo, ErrorKind as Kind, IntoConnectionInfo as _, RedisError, RedisResult,
    ServerErrorKind, TlsCertificates, Value,
};
use tokio::time::{Instant, timeout_at};

use super::single::{MAX_PIPELINE_KEYS, SingleNode};
use super::slots::{NodeAddress, SlotMap};
use super::{CacheTopology, cache_error, command, command_key, fail, messages, timeout_error};
use crate::InvalidatedKeys;

/// How many redirections a command follows before its key fails.
const MAX_REDIRECTIONS: u32 = 4;

pub(super) struct RedisCluster {
    /// The configured address of a node, with the connection settings of all nodes.
    configured: ConnectionInfo,
    certificates: Option<TlsCertificates>,
    nodes: Mutex<HashMap<NodeAddress, Arc<SingleNode>>>,
    known: Mutex<KnownSlots>,
}

/// The slot map as last read.
#[derive(Default)]
struct KnownSlots {
    slots: Option<Arc<SlotMap>>,
    /// A key was not on the node in the map, or a node did not respond.
    is_suspect: bool,
}

/// Keys (by index) that are sent to a node.
struct NodeBatch {
    node: NodeAddress,
    keys: Vec<usize>,
    /// Whether a temporary redirection, `ASK`, led here, so that the commands need `ASKING`.
    is_temporary: bool,
    /// How many redirections led here.
    redirections: u32,
}

/// A batch with its result for each key.
type NodeReply = (NodeBatch, Result<Vec<RedisResult<()>>>);

impl RedisCluster {
    pub(super) fn new(url: &str, certificates: Option<TlsCertificates>) -> RedisResult<Self> {
        let cluster = Self {
            configured: url.into_connection_info()?,
            certificates,
            nodes: Mutex::default(),
            known: Mutex::default(),
        };
        // Reports a malformed address or certificate at once.
        cluster.single_node(cluster.configured.addr().clone())?;
        Ok(cluster)
    }

    /// The database number in the configured address.
    pub(super) fn database(&self) -> i64 {
        self.configured.redis_settings().db()
    }

    pub(super) async fn invalidate(&self, keys: &[StaleKey], limit: Duration) -> InvalidatedKeys {
        let begun = Instant::now();
        let slots = timeout_at(begun + limit, self.slots()).await.unwrap_or_else(|_| Err(timeout_error()));
        let slots = match slots {
            Ok(slots) => slots,
            Err(error) => {
                let results = keys.iter().map(|_| Err(error.restated())).collect();
                return InvalidatedKeys { results, commands: 0 };
            }
        };
        let mut results: Vec<Result<()>> = keys.iter().map(|_| Ok(())).collect();
        let mut sent = 0;
        let mut responsive = Vec::new();
        // The second half of the time is for publishing.
        let until = begun + limit / 2;
        let batches = batches(keys, &slots, &mut results).into_iter();
        let mut pending: FuturesUnordered<_> = batches.map(|batch| self.send(batch, keys, until)).collect();
        while let Some((batch, reply)) = pending.next().await {
            sent += batch.keys.len();
            match reply {
                Ok(outcomes) => {
                    let redirected = redirected(&batch, outcomes, &mut results);
                    pending.extend(redirected.into_iter().map(|batch| self.send(batch, keys, until)));
                    responsive.push(batch.node);
                }
                Err(error) => fail(&mut results, &batch.keys, &error),
            }
        }
        sent += self.publish(keys, &responsive, begun + limit, &mut results).await;
        if results.iter().any(Result::is_err) {
            self.suspect();
        }
        InvalidatedKeys { results, commands: u64::try_from(sent).unwrap_or(u64::MAX) }
    }

    /// Sends the commands of a batch.
    async fn send(&self, batch: NodeBatch, keys: &[StaleKey], until: Instant) -> NodeReply {
        let mut pipeline = Vec::new();
        let mut commands_per_key = Vec::new();
        for stale in batch.keys.iter().filter_map(|index| keys.get(*index)) {
            let before = pipeline.len();
            if batch.is_temporary {
                pipeline.push(redis::cmd("ASKING"));
            }
            pipeline.push(command(stale));
            commands_per_key.push(pipeline.len() - before);
        }
        if batch.redirections > 0 {
            self.suspect();
        }
        let reply = self.request(&batch.node, &pipeline, until).await.map(|responses| {
            let mut responses = responses.into_iter();
            let of_key =
                |count: usize| responses.by_ref().take(count).try_for_each(|result| result.map(drop));
            commands_per_key.into_iter().map(of_key).collect()
        });
        (batch, reply)
    }

    /// Publishes the invalidated keys through a node that responded before.
    async fn publish(
        &self,
        keys: &[StaleKey],
        responsive: &[NodeAddress],
        until: Instant,
        results: &mut [Result<()>],
    ) -> usize {
        let invalidated = results.iter().enumerate().filter(|(_, result)| result.is_ok());
        let invalidated: Vec<usize> = invalidated.map(|(index, _)| index).collect();
        let (published, keys_of): (Vec<Cmd>, Vec<Vec<usize>>) =
            messages(keys, invalidated).into_iter().unzip();
        if published.is_empty() {
            return 0;
        }
        let mut failure = timeout_error();
        for node in responsive {
            match self.request(node, &published, until).await {
                Ok(responses) => {
                    for (keys, response) in keys_of.iter().zip(responses) {
                        if let Err(error) = response {
                            fail(results, keys, &cache_error(&error, CacheTopology::Cluster));
                        }
                    }
                    return published.len();
                }
                Err(error) => failure = error,
            }
        }
        keys_of.iter().for_each(|keys| fail(results, keys, &failure));
        published.len()
    }

    /// Sends commands to a node; its responses, if they arrive in time.
    async fn request(
        &self,
        address: &NodeAddress,
        commands: &[Cmd],
        until: Instant,
    ) -> Result<Vec<RedisResult<Value>>> {
        let responses = self.request_unchecked(address, commands, until).await;
        responses.inspect_err(|_| self.suspect())
    }

    async fn request_unchecked(
        &self,
        address: &NodeAddress,
        commands: &[Cmd],
        until: Instant,
    ) -> Result<Vec<RedisResult<Value>>> {
        let node = self.node(address).map_err(|error| cache_error(&error, CacheTopology::Cluster))?;
        match timeout_at(until, Box::pin(node.send(commands))).await {
            Ok(responses) => responses.map_err(|error| cache_error(&error, CacheTopology::Cluster)),
            Err(_) => {
                node.disconnect().await;
                Err(timeout_error())
            }
        }
    }

    /// The slot map; it is read again if it is suspect.
    async fn slots(&self) -> Result<Arc<SlotMap>> {
        let known = {
            let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
            match &known.slots {
                Some(slots) if !known.is_suspect => return Ok(Arc::clone(slots)),
                slots => slots.clone(),
            }
        };
        let configured = NodeAddress::of(self.configured.addr());
        let nodes = known.iter().flat_map(|slots| slots.nodes().cloned()).filter(|node| *node != configured);
        let reads = nodes.chain([configured.clone()]).map(|node| Box::pin(self.read_slots(node)));
        match select_ok(reads).await {
            Ok((slots, _)) => {
                let slots = Arc::new(slots);
                let mut nodes = self.nodes.lock().unwrap_or_else(PoisonError::into_inner);
                nodes.retain(|node, _| *node == configured || slots.nodes().any(|named| named == node));
                let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
                *known = KnownSlots { slots: Some(Arc::clone(&slots)), is_suspect: false };
                Ok(slots)
            }
            Err(error) => known.ok_or_else(|| cache_error(&error, CacheTopology::Cluster)),
        }
    }

    async fn read_slots(&self, node: NodeAddress) -> RedisResult<SlotMap> {
        let command = redis::cmd("CLUSTER").arg("SLOTS").clone();
        let mut responses = self.node(&node)?.send(&[command]).await?;
        SlotMap::parse(&responses.pop().unwrap_or(Ok(Value::Nil))?, &node.host)
    }

    fn suspect(&self) {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).is_suspect = true;
    }

    fn node(&self, address: &NodeAddress) -> RedisResult<Arc<SingleNode>> {
        let mut nodes = self.nodes.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(node) = nodes.get(address) {
            return Ok(Arc::clone(node));
        }
        let node = Arc::new(self.single_node(address.with_tls_of(self.configured.addr()))?);
        nodes.insert(address.clone(), Arc::clone(&node));
        Ok(node)
    }

    fn single_node(&self, address: ConnectionAddr) -> RedisResult<SingleNode> {
        SingleNode::new(self.configured.clone().set_addr(address), self.certificates.clone())
    }
}

/// The keys by node, in batches; a key whose slot has no node fails.
fn batches(keys: &[StaleKey], slots: &SlotMap, results: &mut [Result<()>]) -> Vec<NodeBatch> {
    let mut by_node: BTreeMap<&NodeAddress, Vec<usize>> = BTreeMap::new();
    for (index, stale) in keys.iter().enumerate() {
        match slots.node_of(&command_key(stale)) {
            Some(node) => by_node.entry(node).or_default().push(index),
            None => {
                let message = "no node of the cache has the key's slot at the moment";
                fail(results, &[index], &Error::new(ErrorKind::Unavailable, message));
            }
        }
    }
    let mut batches = Vec::new();
    for (node, keys) in by_node {
        batches.extend(keys.chunks(MAX_PIPELINE_KEYS).map(|chunk| NodeBatch {
            node: node.clone(),
            keys: chunk.to_vec(),
            is_temporary: false,
            redirections: 0,
        }));
    }
    batches
}

/// The batches for redirected keys; all other keys with an error fail.
fn redirected(
    batch: &NodeBatch,
    outcomes: Vec<RedisResult<()>>,
    results: &mut [Result<()>],
) -> Vec<NodeBatch> {
    let mut by_node: BTreeMap<(NodeAddress, bool), Vec<usize>> = BTreeMap::new();
    for (index, outcome) in batch.keys.iter().zip(outcomes) {
        let Err(error) = outcome else { continue };
        match redirection(&error, &batch.node).filter(|_| batch.redirections < MAX_REDIRECTIONS) {
            Some(redirection) => by_node.entry(redirection).or_default().push(*index),
            None => fail(results, &[*index], &cache_error(&error, CacheTopology::Cluster)),
        }
    }
    let redirections = batch.redirections + 1;
    let batch = |((node, is_temporary), keys)| NodeBatch { node, keys, is_temporary, redirections };
    by_node.into_iter().map(batch).collect()
}

/// The node that an error redirects to, and whether only temporarily, by `ASK`. An address without a host
/// means the host of the responding node.
fn redirection(error: &RedisError, from: &NodeAddress) -> Option<(NodeAddress, bool)> {
    let (address, _) = error.redirect_node()?;
    let (host, port) = address.rsplit_once(':')?;
    let host = if host.is_empty() { &from.host } else { host };
    let is_temporary = error.kind() == Kind::Server(ServerErrorKind::Ask);
    Some((NodeAddress { host: host.to_owned(), port: port.parse().ok()? }, is_temporary))
}
