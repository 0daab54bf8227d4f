//! One node: commands in pipelines.

use std::time::Duration;

use afterwrite_model::Result;
use afterwrite_model::projection::StaleKey;
use afterwrite_model::table::CacheRemedy;
use redis::aio::MultiplexedConnection;
use redis::{
    AsyncConnectionConfig, Client, Cmd, IntoConnectionInfo, Pipeline, RedisResult, TlsCertificates, Value,
};
use tokio::sync::Mutex;
use tokio::time::timeout;

use super::{
    CONNECT_TIMEOUT, CacheTopology, RESPONSE_TIMEOUT, cache_error, command, fail, is_replica, messages,
    timeout_error,
};
use crate::InvalidatedKeys;

/// The maximum number of keys in one pipeline, which is one round trip.
pub(super) const MAX_PIPELINE_KEYS: usize = 1_000;
/// The maximum number of keys in one `UNLINK`, so that a single command does not block the server.
const MAX_UNLINK_KEYS: usize = 128;

pub(super) struct SingleNode {
    client: Client,
    connection: Mutex<Option<MultiplexedConnection>>,
}

impl SingleNode {
    /// A malformed address or certificate is an error; the node is connected later.
    pub(super) fn new(
        address: impl IntoConnectionInfo,
        certificates: Option<TlsCertificates>,
    ) -> RedisResult<Self> {
        let client = match certificates {
            Some(certificates) => Client::build_with_tls(address, certificates)?,
            None => Client::open(address)?,
        };
        Ok(Self { client, connection: Mutex::new(None) })
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

    pub(super) async fn invalidate(&self, keys: &[StaleKey], limit: Duration) -> InvalidatedKeys {
        match timeout(limit, self.invalidate_all(keys)).await {
            Ok(invalidated) => invalidated,
            Err(_) => {
                // The connection's state is unknown.
                self.disconnect().await;
                InvalidatedKeys { results: keys.iter().map(|_| Err(timeout_error())).collect(), commands: 0 }
            }
        }
    }

    async fn invalidate_all(&self, keys: &[StaleKey]) -> InvalidatedKeys {
        let mut results: Vec<Result<()>> = keys.iter().map(|_| Ok(())).collect();
        let mut sent = 0;
        let all: Vec<usize> = (0..keys.len()).collect();
        let mut chunks = all.chunks(MAX_PIPELINE_KEYS);
        while let Some(chunk) = chunks.next() {
            let (batch, keys_of) = batch(keys, chunk);
            sent += u64::try_from(batch.len()).unwrap_or(u64::MAX);
            match self.send(&batch).await {
                Ok(responses) => {
                    for (keys, response) in keys_of.iter().zip(responses) {
                        if let Err(error) = response {
                            fail(&mut results, keys, &cache_error(&error, CacheTopology::Single));
                        }
                    }
                }
                Err(error) => {
                    let error = cache_error(&error, CacheTopology::Single);
                    // The next chunks would only wait for the same connection.
                    let unsent = std::iter::once(chunk).chain(chunks.by_ref());
                    unsent.for_each(|keys| fail(&mut results, keys, &error));
                }
            }
        }
        InvalidatedKeys { results, commands: sent }
    }

    /// Sends commands in one pipeline; the responses align with them. A connection is not used again after it failed, or after a
    /// failover made its node a replica: the address may now lead to the new primary.
    pub(super) async fn send(&self, batch: &[Cmd]) -> RedisResult<Vec<RedisResult<Value>>> {
        let mut pipeline = Pipeline::with_capacity(batch.len());
        for command in batch {
            pipeline.add_command(command.clone());
        }
        let mut connection = self.connection().await?;
        let responses: RedisResult<Vec<RedisResult<Value>>> =
            Box::pin(pipeline.ignore_errors().query_async(&mut connection)).await;
        let is_unusable = match &responses {
            Ok(responses) => responses.iter().filter_map(|response| response.as_ref().err()).any(is_replica),
            Err(_) => true,
        };
        if is_unusable {
            self.disconnect().await;
        }
        responses
    }
}

/// The commands for these keys (by index), each with the keys it concerns; the last ones publish the keys.
fn batch(keys: &[StaleKey], chunk: &[usize]) -> (Vec<Cmd>, Vec<Vec<usize>>) {
    let stale = |index: &usize| keys.get(*index);
    let is_deleted = |index: &usize| stale(index).is_some_and(|stale| stale.remedy == CacheRemedy::Delete);
    let (deleted, other): (Vec<usize>, Vec<usize>) = chunk.iter().copied().partition(is_deleted);
    let mut batch = Vec::new();
    for group in deleted.chunks(MAX_UNLINK_KEYS) {
        let mut unlink = redis::cmd("UNLINK");
        for stale in group.iter().filter_map(stale) {
            unlink.arg(stale.key.as_str());
        }
        batch.push((unlink, group.to_vec()));
    }
    batch.extend(other.iter().filter_map(|index| Some((command(stale(index)?), vec![*index]))));
    batch.extend(messages(keys, chunk.iter().copied()));
    batch.into_iter().unzip()
}
