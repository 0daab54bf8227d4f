//! Checkpoints in the state table, and the lease by which one process at a time writes them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use afterwrite_ledger::state::SORT_KEY;
use afterwrite_ledger::state::checkpoint::{ConsumerCheckpoints, StoredCheckpoint};
use afterwrite_model::clock::{Clock as _, SystemClock};
use afterwrite_model::effect::{KeyAttribute, Write, WriteAction};
use afterwrite_model::record::{AttributeValue, Item, Timestamp};
use afterwrite_model::{Error, ErrorKind, Result};
use afterwrite_services::dynamodb::{ServerClock, WriteExpressions, item_from_sdk, item_to_sdk, key_to_sdk};
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::operation::query::builders::QueryFluentBuilder;
use aws_sdk_dynamodb::types::ReturnValue;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use tokio::sync::OnceCell;
use uuid::Uuid;

use super::request::{request_error, unless_condition_failed};
use crate::checkpoint::{CheckpointStore, ShardCheckpoint, StoredCheckpoints};

/// How long a lease is valid without a renewal.
const LEASE: Duration = Duration::from_secs(30);
const RENEW_EVERY: Duration = Duration::from_secs(10);

/// Sets what all kinds of writes have in common; in the SDK each kind has a builder of its own.
macro_rules! with_condition {
    ($builder:expr, $expressions:expr) => {
        $builder
            .set_condition_expression($expressions.condition)
            .set_expression_attribute_names($expressions.names)
            .set_expression_attribute_values($expressions.values)
    };
}

/// The checkpoints of one consumer of one table, in the state table.
#[derive(Debug)]
pub struct TableCheckpoints {
    client: Client,
    state_table: String,
    stored: ConsumerCheckpoints,
    owner: String,
    /// Set once the lease is taken.
    epoch: OnceCell<u64>,
}

/// The outcome of an attempt to take the lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaseOutcome {
    /// This process has it.
    Taken,
    /// Another process has it, and renews it.
    HeldByAnother,
}

impl TableCheckpoints {
    /// The checkpoints of the consumer `name` for a source table.
    #[must_use]
    pub fn new(client: Client, state_table: &str, name: &str, table: &str) -> Self {
        Self {
            client,
            state_table: state_table.to_owned(),
            stored: ConsumerCheckpoints::new(Arc::from(state_table), name, table),
            owner: Uuid::new_v4().to_string(),
            epoch: OnceCell::new(),
        }
    }

    /// Takes the lease if it is free, or has expired.
    ///
    /// # Errors
    /// `Unavailable` if the table cannot be reached, `Configuration` if it does not exist.
    pub async fn take_lease(&self) -> Result<LeaseOutcome> {
        let now = self.server_time().await?;
        self.take_lease_if(Some(now), now).await
    }

    /// Takes the lease from any other process, for a state table that belongs to this process alone.
    ///
    /// # Errors
    /// As [`TableCheckpoints::take_lease`].
    pub async fn seize_lease(&self) -> Result<()> {
        let now = self.server_time().await?;
        self.take_lease_if(None, now).await.map(drop)
    }

    async fn take_lease_if(&self, free_at: Option<Timestamp>, now: Timestamp) -> Result<LeaseOutcome> {
        let taking = self.stored.taking(&self.owner, free_at, now.plus(LEASE));
        let Some(lease) = self.write(&taking).await? else { return Ok(LeaseOutcome::HeldByAnother) };
        let epoch = self.stored.epoch(&lease)?;
        // A second call of the same process keeps the first epoch.
        self.epoch.get_or_init(|| async { epoch }).await;
        Ok(LeaseOutcome::Taken)
    }

    /// Renews the lease until another process has taken it, or it cannot be renewed in time; returns why.
    pub async fn keep_lease(&self) -> Error {
        let mut renewed_at = SystemClock.now();
        loop {
            SystemClock.sleep(RENEW_EVERY).await;
            match self.renew_lease().await {
                Ok(()) => renewed_at = SystemClock.now(),
                Err(error) if error.is_retryable() && SystemClock.now().since(renewed_at) < LEASE => {}
                Err(error) => return error,
            }
        }
    }

    async fn renew_lease(&self) -> Result<()> {
        let until = self.server_time().await?.plus(LEASE);
        self.set_lease(until).await
    }

    /// The time of a response of DynamoDB: the clocks of two machines may differ by more than a lease lasts.
    async fn server_time(&self) -> Result<Timestamp> {
        let clock = ServerClock::default();
        let key = self.stored.lease_key();
        let request = self.query(key.attributes());
        let sent = Box::pin(request.customize().interceptor(clock.clone()).send()).await;
        sent.map_err(|error| request_error("Query", ("table", &self.state_table), &error))?;
        Ok(clock.time())
    }

    /// Ends the lease, so that another process need not wait for its end.
    ///
    /// # Errors
    /// As [`TableCheckpoints::take_lease`].
    pub async fn release_lease(&self) -> Result<()> {
        self.set_lease(Timestamp::from_epoch_ms(0)).await
    }

    async fn set_lease(&self, until: Timestamp) -> Result<()> {
        self.write_own(&self.stored.holding(&self.owner, until)).await
    }

    /// Forgets all checkpoints.
    ///
    /// # Errors
    /// As [`TableCheckpoints::take_lease`].
    pub async fn forget(&self) -> Result<()> {
        for item in self.items().await? {
            let Some(shard) = item.get(SORT_KEY).and_then(AttributeValue::as_text) else { continue };
            if let Some(deletion) = self.stored.forgetting(shard) {
                self.write(&deletion).await?;
            }
        }
        Ok(())
    }

    /// When the checkpoint was written that has stayed longest, of the shards that are not delivered to their ends; `None` without any.
    ///
    /// # Errors
    /// As [`TableCheckpoints::take_lease`].
    pub async fn oldest_update(&self) -> Result<Option<Timestamp>> {
        let items = self.items().await?;
        let checkpoints = items.iter().filter_map(|item| self.stored.decode(item).ok().flatten());
        let open = checkpoints.filter(|stored| stored.checkpoint != ShardCheckpoint::Finished);
        Ok(open.filter_map(|stored| stored.updated_at).min())
    }

    async fn items(&self) -> Result<Vec<Item>> {
        let (mut items, mut start) = (Vec::new(), None);
        let key = self.stored.lease_key();
        loop {
            let request = self.query(std::iter::once(&key.partition)).consistent_read(true);
            let page = Box::pin(request.set_exclusive_start_key(start).send())
                .await
                .map_err(|error| request_error("Query", ("table", &self.state_table), &error))?;
            for item in page.items.unwrap_or_default() {
                items.push(item_from_sdk(item)?);
            }
            start = page.last_evaluated_key;
            if start.is_none() {
                return Ok(items);
            }
        }
    }

    async fn load_all(&self) -> Result<StoredCheckpoints> {
        let epoch = self.current_epoch()?;
        let mut by_stream: BTreeMap<String, BTreeMap<String, ShardCheckpoint>> = BTreeMap::new();
        for item in self.items().await? {
            let Some(stored) = self.stored.decode(&item)? else { continue };
            let StoredCheckpoint { shard, stream_arn, checkpoint, .. } = stored;
            // An earlier owner cannot write it any more.
            self.write_own(&self.stored.stamping(&shard, epoch)).await?;
            by_stream.entry(stream_arn).or_default().insert(shard, checkpoint);
        }
        // The label at the end of an ARN is a time: the last stream is the newest.
        let newest = by_stream.pop_last();
        let (stream_arn, shards) =
            newest.map_or((None, BTreeMap::new()), |(arn, shards)| (Some(arn), shards));
        Ok(StoredCheckpoints { stream_arn, shards })
    }

    async fn put(&self, stream_arn: &str, shard: &str, checkpoint: &ShardCheckpoint) -> Result<()> {
        let (epoch, now) = (self.current_epoch()?, SystemClock.now());
        self.write_own(&self.stored.writing((stream_arn, shard), checkpoint, epoch, now)).await
    }

    fn query<'k>(&self, keys: impl Iterator<Item = &'k KeyAttribute>) -> QueryFluentBuilder {
        let keys: Vec<_> = keys.map(|key| (&*key.name, &key.value)).collect();
        let expressions = WriteExpressions::of_keys(&keys);
        self.client
            .query()
            .table_name(&self.state_table)
            .set_key_condition_expression(expressions.condition)
            .set_expression_attribute_names(expressions.names)
            .set_expression_attribute_values(expressions.values)
    }

    /// A write that only another owner can prevent.
    async fn write_own(&self, write: &Write) -> Result<()> {
        self.write(write).await?.map(drop).ok_or_else(|| self.taken_over())
    }

    /// Carries out a write; returns the item that an update leaves, and `None` if the condition does not hold.
    async fn write(&self, write: &Write) -> Result<Option<Item>> {
        let (client, table, resource) = (&self.client, &self.state_table, ("table", &*self.state_table));
        let expressions = WriteExpressions::of(write);
        let key = Some(key_to_sdk(&write.key));
        let left = match &write.action {
            WriteAction::Put(item) => {
                let item = Some(item_to_sdk(&write.key.keyed(item.clone())));
                let request = client.put_item().table_name(table).set_item(item);
                let sent = Box::pin(with_condition!(request, expressions).send()).await;
                unless_condition_failed("PutItem", resource, sent)?.map(|_| None)
            }
            WriteAction::Update(_) => {
                let request = client.update_item().table_name(table).set_key(key);
                let request = request.set_update_expression(expressions.update);
                let request = request.return_values(ReturnValue::AllNew);
                let sent = Box::pin(with_condition!(request, expressions).send()).await;
                unless_condition_failed("UpdateItem", resource, sent)?.map(|response| response.attributes)
            }
            WriteAction::Delete => {
                let request = client.delete_item().table_name(table).set_key(key);
                let sent = Box::pin(with_condition!(request, expressions).send()).await;
                unless_condition_failed("DeleteItem", resource, sent)?.map(|_| None)
            }
        };
        left.map(|item| item_from_sdk(item.unwrap_or_default())).transpose()
    }

    fn current_epoch(&self) -> Result<u64> {
        self.epoch.get().copied().ok_or_else(|| {
            Error::new(ErrorKind::State, "checkpoints were used before their lease was taken")
                .with("key", self.stored.partition())
        })
    }

    fn taken_over(&self) -> Error {
        Error::new(ErrorKind::State, "another process with the same name has taken over")
            .with("key", self.stored.partition())
            .hint("Give each consumer a --name of its own; or let this one end, if the other replaces it")
    }
}

impl CheckpointStore for TableCheckpoints {
    fn load(&self) -> BoxFuture<'_, Result<StoredCheckpoints>> {
        self.load_all().boxed()
    }

    fn save<'a>(
        &'a self,
        stream_arn: &'a str,
        shard: &'a str,
        checkpoint: &'a ShardCheckpoint,
    ) -> BoxFuture<'a, Result<()>> {
        self.put(stream_arn, shard, checkpoint).boxed()
    }
}
