//! A cluster: one key a command, many commands under way at once, which each node's connection sends in one stream.

use futures::StreamExt as _;
use futures::stream;
use redis::cluster::{ClusterClient, ClusterClientBuilder};
use redis::cluster_async::ClusterConnection;
use redis::{Cmd, RedisResult, TlsCertificates, Value};
use tokio::sync::Mutex;

use super::{CONNECT_TIMEOUT, RESPONSE_TIMEOUT, commands, fail, fault, messages};
use crate::Result;
use crate::projection::StaleKey;
use crate::record::Timestamp;
use crate::sink::Invalidated;

/// Commands under way at once.
const CONCURRENCY: usize = 256;
/// How often a command follows the cluster's directions, or asks again, before it is left to the next try.
const RETRIES: u32 = 4;

pub(super) struct Cluster {
    client: ClusterClient,
    connection: Mutex<Option<ClusterConnection>>,
}

impl Cluster {
    pub(super) fn new(url: &str, certificates: Option<TlsCertificates>) -> RedisResult<Self> {
        let mut builder = ClusterClientBuilder::new([url])
            .connection_timeout(CONNECT_TIMEOUT)
            .response_timeout(RESPONSE_TIMEOUT)
            .retries(RETRIES)
            .min_retry_wait(10)
            .max_retry_wait(200);
        if let Some(certificates) = certificates {
            builder = builder.certs(certificates);
        }
        Ok(Self { client: builder.build()?, connection: Mutex::new(None) })
    }

    pub(super) async fn disconnect(&self) {
        *self.connection.lock().await = None;
    }

    async fn connection(&self) -> RedisResult<ClusterConnection> {
        let mut connection = self.connection.lock().await;
        if let Some(connection) = &*connection {
            return Ok(connection.clone());
        }
        let made = Box::pin(self.client.get_async_connection()).await?;
        Ok(connection.insert(made).clone())
    }

    pub(super) async fn invalidate(&self, keys: &[StaleKey], now: Timestamp) -> Invalidated {
        let mut answers: Vec<Result<()>> = keys.iter().map(|_| Ok(())).collect();
        let all: Vec<usize> = (0..keys.len()).collect();
        let connection = match self.connection().await {
            Ok(connection) => connection,
            Err(error) => {
                fail(&mut answers, &all, &fault(&error));
                return Invalidated { answers, commands: 0 };
            }
        };
        let remedies = keys.iter().enumerate().map(|(index, stale)| (commands(stale, now), vec![index]));
        let mut sent = send(&connection, remedies.collect(), &mut answers).await;
        let gone = answers.iter().enumerate().filter(|(_, answer)| answer.is_ok()).map(|(index, _)| index);
        let published = messages(keys, gone.collect::<Vec<_>>());
        let published = published.into_iter().map(|(message, of)| (vec![message], of)).collect();
        sent += send(&connection, published, &mut answers).await;
        if answers.iter().any(|answer| answer.as_ref().is_err_and(crate::Error::is_retryable)) {
            // The next try asks anew which nodes there are.
            self.disconnect().await;
        }
        Invalidated { answers, commands: sent }
    }
}

/// Sends sequences of commands, each sequence in order; what fails, fails the keys it is for. Says how many commands it were.
async fn send(
    connection: &ClusterConnection,
    sequences: Vec<(Vec<Cmd>, Vec<usize>)>,
    answers: &mut [Result<()>],
) -> u64 {
    let sent = sequences.iter().map(|(commands, _)| commands.len()).sum::<usize>();
    let one = |(commands, of): (Vec<Cmd>, Vec<usize>)| {
        let mut connection = connection.clone();
        async move {
            for command in commands {
                let answer: RedisResult<Value> = Box::pin(command.query_async(&mut connection)).await;
                if let Err(error) = answer {
                    return Some((error, of));
                }
            }
            None
        }
    };
    let mut failed = stream::iter(sequences).map(one).buffer_unordered(CONCURRENCY);
    while let Some(outcome) = failed.next().await {
        if let Some((error, of)) = outcome {
            fail(answers, &of, &fault(&error));
        }
    }
    u64::try_from(sent).unwrap_or(u64::MAX)
}
