//! A cluster: which node has which key, and each node by itself.
//!
//! ```text
//! keys ─▶ slots ─▶ a pipeline for each node ─┬─▶ gone ─▶ published by any node that answered: a cluster passes it on to all
//!                        ▲                   ├─▶ MOVED, ASK: once more, where it is directed
//!                        └───────────────────┘   no answer: the keys of that pipeline alone have failed
//! ```
//!
//! Nodes do not wait for one another, so one that is gone costs its own keys and no more. The map of slots is asked for once, of the given
//! address; after a direction or a failure it is asked for anew, of every node known, and the first answer counts. If nobody
//! answers, the old map stays.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::StreamExt as _;
use futures::future::select_ok;
use futures::stream::FuturesUnordered;
use redis::{
    Client, Cmd, ConnectionAddr, ConnectionInfo, ErrorKind as Kind, IntoConnectionInfo as _, RedisError,
    RedisResult, ServerErrorKind, TlsCertificates, Value,
};
use tokio::time::{Instant, timeout_at};

use super::single::{PIPELINE, SingleNode};
use super::slots::{NodeAddress, SlotMap};
use super::{CacheTopology, commands, fail, fault, messages, named_key, too_late};
use crate::projection::StaleKey;
use crate::record::Timestamp;
use crate::sink::InvalidatedKeys;
use crate::{Error, ErrorKind, Result};

/// How often a command follows a direction before it is left to the next try.
const DIRECTIONS: u32 = 4;

pub(super) struct RedisCluster {
    /// How nodes are spoken to, and the address of the one to ask first.
    given: ConnectionInfo,
    certificates: Option<TlsCertificates>,
    nodes: Mutex<HashMap<NodeAddress, Arc<SingleNode>>>,
    known: Mutex<KnownSlots>,
}

/// What is known of the slots.
#[derive(Default)]
struct KnownSlots {
    slots: Option<Arc<SlotMap>>,
    /// Something was not where the slots say, or did not answer.
    is_suspect: bool,
}

/// Keys (given by their indexes) on their way to a node.
struct NodeBatch {
    to: NodeAddress,
    keys: Vec<usize>,
    /// Whether the node is told that it was `ASK` that led there.
    is_asking: bool,
    /// How many directions led there.
    directions: u32,
}

/// What a node answered to a batch: for each key whether it is gone.
type NodeReply = (NodeBatch, Result<Vec<RedisResult<()>>>);

impl RedisCluster {
    pub(super) fn new(url: &str, certificates: Option<TlsCertificates>) -> RedisResult<Self> {
        let cluster = Self {
            given: url.into_connection_info()?,
            certificates,
            nodes: Mutex::default(),
            known: Mutex::default(),
        };
        // A wrong address, or a wrong certificate, is told now.
        cluster.client(cluster.given.addr().clone())?;
        Ok(cluster)
    }

    /// The database that the given address names.
    pub(super) fn database(&self) -> i64 {
        self.given.redis_settings().db()
    }

    pub(super) async fn invalidate(
        &self,
        keys: &[StaleKey],
        now: Timestamp,
        limit: Duration,
    ) -> InvalidatedKeys {
        let begun = Instant::now();
        let mut answers: Vec<Result<()>> = keys.iter().map(|_| Ok(())).collect();
        let all: Vec<usize> = (0..keys.len()).collect();
        let slots = timeout_at(begun + limit, self.slots()).await.unwrap_or_else(|_| Err(too_late()));
        let slots = match slots {
            Ok(slots) => slots,
            Err(error) => {
                fail(&mut answers, &all, &error);
                return InvalidatedKeys { answers, commands: 0 };
            }
        };
        let mut sent = 0;
        let mut reached = Vec::new();
        // The other half of the time is for telling which keys went.
        let until = begun + limit / 2;
        let mut under_way = FuturesUnordered::new();
        for batch in batches(keys, &slots, &mut answers) {
            under_way.push(self.send(batch, keys, now, until));
        }
        while let Some((batch, answer)) = under_way.next().await {
            sent += batch.keys.len();
            let outcomes = match answer {
                Ok(outcomes) => outcomes,
                Err(error) => {
                    fail(&mut answers, &batch.keys, &error);
                    continue;
                }
            };
            for directed in directed(&batch, outcomes, &mut answers) {
                under_way.push(self.send(directed, keys, now, until));
            }
            reached.push(batch.to);
        }
        sent += self.publish(keys, &reached, begun + limit, &mut answers).await;
        if answers.iter().any(Result::is_err) {
            self.suspect();
        }
        InvalidatedKeys { answers, commands: u64::try_from(sent).unwrap_or(u64::MAX) }
    }

    /// Sends a batch's commands.
    async fn send(&self, batch: NodeBatch, keys: &[StaleKey], now: Timestamp, until: Instant) -> NodeReply {
        let mut pipeline = Vec::new();
        // Which commands are whose; the answer to `ASKING` itself says nothing.
        let mut counts = Vec::new();
        for stale in batch.keys.iter().filter_map(|index| keys.get(*index)) {
            let before = pipeline.len();
            for command in commands(stale, now) {
                if batch.is_asking {
                    pipeline.push(asking());
                }
                pipeline.push(command);
            }
            counts.push(pipeline.len() - before);
        }
        if batch.directions > 0 {
            self.suspect();
        }
        let answer = self.ask(&batch.to, &pipeline, until).await.map(|results| {
            let mut results = results.into_iter();
            let of_key = |count: usize| results.by_ref().take(count).try_for_each(|result| result.map(drop));
            counts.into_iter().map(of_key).collect()
        });
        (batch, answer)
    }

    /// Publishes which keys went; a node that answered just now is there.
    async fn publish(
        &self,
        keys: &[StaleKey],
        reached: &[NodeAddress],
        until: Instant,
        answers: &mut [Result<()>],
    ) -> usize {
        let gone = answers.iter().enumerate().filter(|(_, answer)| answer.is_ok()).map(|(index, _)| index);
        let (published, of): (Vec<Cmd>, Vec<Vec<usize>>) =
            messages(keys, gone.collect::<Vec<_>>()).into_iter().unzip();
        if published.is_empty() {
            return 0;
        }
        let mut failure = too_late();
        for node in reached {
            match self.ask(node, &published, until).await {
                Ok(results) => {
                    for (of, result) in of.iter().zip(results) {
                        if let Err(error) = result {
                            fail(answers, of, &fault(&error, CacheTopology::Cluster));
                        }
                    }
                    return published.len();
                }
                Err(error) => failure = error,
            }
        }
        of.iter().for_each(|of| fail(answers, of, &failure));
        published.len()
    }

    /// What a node answers to these commands in time.
    async fn ask(
        &self,
        node: &NodeAddress,
        commands: &[Cmd],
        until: Instant,
    ) -> Result<Vec<RedisResult<Value>>> {
        let answer = async {
            let single = self.node(node).map_err(|error| fault(&error, CacheTopology::Cluster))?;
            let answer = timeout_at(until, Box::pin(single.send(commands))).await;
            if answer.is_err() {
                single.disconnect().await;
            }
            answer.map_err(|_| too_late())?.map_err(|error| fault(&error, CacheTopology::Cluster))
        };
        answer.await.inspect_err(|_| self.suspect())
    }

    /// Which node has which slot.
    async fn slots(&self) -> Result<Arc<SlotMap>> {
        let known = {
            let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
            match &known.slots {
                Some(slots) if !known.is_suspect => return Ok(Arc::clone(slots)),
                held => held.clone(),
            }
        };
        let given = NodeAddress::of(self.given.addr());
        let nodes = known.iter().flat_map(|slots| slots.nodes().cloned()).filter(|node| *node != given);
        let asked = nodes.chain([given.clone()]).map(|node| {
            Box::pin(async move {
                let mut answer = self.node(&node)?.send(&[cluster_slots()]).await?;
                let answer = answer.pop().unwrap_or(Ok(Value::Nil))?;
                SlotMap::read(&answer, &node.host)
            })
        });
        match select_ok(asked).await {
            Ok((slots, _)) => {
                let slots = Arc::new(slots);
                let mut nodes = self.nodes.lock().unwrap_or_else(PoisonError::into_inner);
                nodes.retain(|node, _| *node == given || slots.nodes().any(|named| named == node));
                let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
                *known = KnownSlots { slots: Some(Arc::clone(&slots)), is_suspect: false };
                Ok(slots)
            }
            Err(error) => known.ok_or_else(|| fault(&error, CacheTopology::Cluster)),
        }
    }

    fn suspect(&self) {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).is_suspect = true;
    }

    fn node(&self, address: &NodeAddress) -> RedisResult<Arc<SingleNode>> {
        let mut nodes = self.nodes.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(node) = nodes.get(address) {
            return Ok(Arc::clone(node));
        }
        let node = Arc::new(SingleNode::of(self.client(address.like(self.given.addr()))?));
        nodes.insert(address.clone(), Arc::clone(&node));
        Ok(node)
    }

    fn client(&self, address: ConnectionAddr) -> RedisResult<Client> {
        let info = self.given.clone().set_addr(address);
        match &self.certificates {
            Some(certificates) => Client::build_with_tls(info, certificates.clone()),
            None => Client::open(info),
        }
    }
}

/// The keys by the nodes that have them; those that no node has fail.
fn batches(keys: &[StaleKey], slots: &SlotMap, answers: &mut [Result<()>]) -> Vec<NodeBatch> {
    let mut by_node: BTreeMap<&NodeAddress, Vec<usize>> = BTreeMap::new();
    for (index, stale) in keys.iter().enumerate() {
        match slots.home(&named_key(stale)) {
            Some(node) => by_node.entry(node).or_default().push(index),
            None => fail(answers, &[index], &no_home()),
        }
    }
    let batch = |(node, keys): (&NodeAddress, &[usize])| NodeBatch {
        to: node.clone(),
        keys: keys.to_vec(),
        is_asking: false,
        directions: 0,
    };
    let chunks =
        by_node.iter().flat_map(|(node, keys)| keys.chunks(PIPELINE).map(move |chunk| (*node, chunk)));
    chunks.map(batch).collect()
}

/// Fails the keys that are not gone, but for those that are directed elsewhere: they go there.
fn directed(batch: &NodeBatch, outcomes: Vec<RedisResult<()>>, answers: &mut [Result<()>]) -> Vec<NodeBatch> {
    let mut elsewhere: BTreeMap<(NodeAddress, bool), Vec<usize>> = BTreeMap::new();
    for (index, outcome) in batch.keys.iter().zip(outcomes) {
        let Err(error) = outcome else { continue };
        match direction(&error, &batch.to).filter(|_| batch.directions < DIRECTIONS) {
            Some(direction) => elsewhere.entry(direction).or_default().push(*index),
            None => fail(answers, &[*index], &fault(&error, CacheTopology::Cluster)),
        }
    }
    let batch = |((to, is_asking), keys)| NodeBatch { to, keys, is_asking, directions: batch.directions + 1 };
    elsewhere.into_iter().map(batch).collect()
}

/// Where an answer directs to, and whether by `ASK`. An address without a host is on that of the node that answered.
fn direction(error: &RedisError, from: &NodeAddress) -> Option<(NodeAddress, bool)> {
    let (to, _) = error.redirect_node()?;
    let (host, port) = to.rsplit_once(':')?;
    let host = if host.is_empty() { &from.host } else { host };
    let is_asking = error.kind() == Kind::Server(ServerErrorKind::Ask);
    Some((NodeAddress { host: host.to_owned(), port: port.parse().ok()? }, is_asking))
}

fn asking() -> Cmd {
    redis::cmd("ASKING")
}

fn cluster_slots() -> Cmd {
    redis::cmd("CLUSTER").arg("SLOTS").clone()
}

fn no_home() -> Error {
    Error::new(ErrorKind::Unavailable, "no node of the cache has the key's slot for now")
}
