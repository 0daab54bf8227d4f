//! One node: everything in pipelines.

use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, Cmd, Pipeline, RedisResult, TlsCertificates, Value};
use tokio::sync::Mutex;
use tokio::time::timeout;

use super::{
    CONNECT_TIMEOUT, CacheTopology, RESPONSE_TIMEOUT, commands, fail, fault, is_replica, messages, too_late,
};
use crate::Result;
use crate::projection::StaleKey;
use crate::record::Timestamp;
use crate::sink::InvalidatedKeys;
use crate::table::CacheRemedy;

/// Keys in one pipeline: a round trip each.
pub(super) const PIPELINE: usize = 1_000;
/// Keys in one `UNLINK`, lest one command hold up the server.
const UNLINK: usize = 128;

pub(super) struct SingleNode {
    client: Client,
    connection: Mutex<Option<MultiplexedConnection>>,
}

impl SingleNode {
    pub(super) fn new(url: &str, certificates: Option<TlsCertificates>) -> RedisResult<Self> {
        let client = match certificates {
            Some(certificates) => Client::build_with_tls(url, certificates)?,
            None => Client::open(url)?,
        };
        Ok(Self::of(client))
    }

    pub(super) fn of(client: Client) -> Self {
        Self { client, connection: Mutex::new(None) }
    }

    pub(super) async fn disconnect(&self) {
        *self.connection.lock().await = None;
    }

    async fn connection(&self) -> RedisResult<MultiplexedConnection> {
        let mut connection = self.connection.lock().await;
        if let Some(connection) = &*connection {
            return Ok(connection.clone());
        }
        let settings = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(CONNECT_TIMEOUT))
            .set_response_timeout(Some(RESPONSE_TIMEOUT));
        let made = Box::pin(self.client.get_multiplexed_async_connection_with_config(&settings)).await?;
        Ok(connection.insert(made).clone())
    }

    pub(super) async fn invalidate(
        &self,
        keys: &[StaleKey],
        now: Timestamp,
        limit: Duration,
    ) -> InvalidatedKeys {
        match timeout(limit, self.invalidate_all(keys, now)).await {
            Ok(invalidated) => invalidated,
            Err(_) => {
                // Nobody knows the connection's state.
                self.disconnect().await;
                InvalidatedKeys { answers: keys.iter().map(|_| Err(too_late())).collect(), commands: 0 }
            }
        }
    }

    async fn invalidate_all(&self, keys: &[StaleKey], now: Timestamp) -> InvalidatedKeys {
        let mut answers: Vec<Result<()>> = keys.iter().map(|_| Ok(())).collect();
        let mut sent = 0;
        let all: Vec<usize> = (0..keys.len()).collect();
        let mut chunks = all.chunks(PIPELINE);
        while let Some(chunk) = chunks.next() {
            let (batch, of) = batch(keys, chunk, now);
            sent += u64::try_from(batch.len()).unwrap_or(u64::MAX);
            match self.send(&batch).await {
                Ok(results) => {
                    for (of, result) in of.iter().zip(results) {
                        if let Err(error) = result {
                            fail(&mut answers, of, &fault(&error, CacheTopology::Single));
                        }
                    }
                }
                Err(error) => {
                    let error = fault(&error, CacheTopology::Single);
                    // What was to follow would only wait for the same connection.
                    std::iter::once(chunk)
                        .chain(chunks.by_ref())
                        .for_each(|of| fail(&mut answers, of, &error));
                }
            }
        }
        InvalidatedKeys { answers, commands: sent }
    }

    /// Sends commands in one pipeline; the answers align with them. A connection that fails is not used again, nor is one to a node
    /// that a failover has made a replica: the address may lead to its successor by now.
    pub(super) async fn send(&self, batch: &[Cmd]) -> RedisResult<Vec<RedisResult<Value>>> {
        let mut pipeline = Pipeline::with_capacity(batch.len());
        for command in batch {
            pipeline.add_command(command.clone());
        }
        let mut connection = self.connection().await?;
        let answer: RedisResult<Vec<RedisResult<Value>>> =
            Box::pin(pipeline.ignore_errors().query_async(&mut connection)).await;
        let is_over = match &answer {
            Ok(answers) => answers.iter().filter_map(|answer| answer.as_ref().err()).any(is_replica),
            Err(_) => true,
        };
        if is_over {
            self.disconnect().await;
        }
        answer
    }
}

/// The commands for these keys (given by their indexes), and for each the keys it is for; last of all what is published of them.
fn batch(keys: &[StaleKey], chunk: &[usize], now: Timestamp) -> (Vec<Cmd>, Vec<Vec<usize>>) {
    let stale = |index: &usize| keys.get(*index);
    let is_deleted = |index: &usize| stale(index).is_some_and(|stale| stale.remedy == CacheRemedy::Delete);
    let (deleted, other): (Vec<usize>, Vec<usize>) = chunk.iter().copied().partition(is_deleted);
    let mut batch = Vec::new();
    for group in deleted.chunks(UNLINK) {
        let mut unlink = Cmd::new();
        unlink.arg("UNLINK");
        for stale in group.iter().filter_map(stale) {
            unlink.arg(stale.key.as_str());
        }
        batch.push((unlink, group.to_vec()));
    }
    for index in other {
        let commands = stale(&index).map(|stale| commands(stale, now)).unwrap_or_default();
        batch.extend(commands.into_iter().map(|command| (command, vec![index])));
    }
    batch.extend(messages(keys, chunk.iter().copied()));
    batch.into_iter().unzip()
}
