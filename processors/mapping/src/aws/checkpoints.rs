//! Checkpoints in the state table, and the lease by which one process at a time writes them.
//!
//! All items of a consumer and a table have `PK` = `AFTERWRITE#CHECKPOINT#<name>#<table>` and `EntityType` = `CHECKPOINT`:
//!
//! | `SK` | attributes |
//! |---|---|
//! | `-` | the lease: `owner`, `lease_until` (epoch ms, by DynamoDB's time), `epoch` |
//! | a shard's id | `stream_arn`; `position`: `OLDEST`, `LATEST`, `AFTER` (with `sequence_number`) or `FINISHED`; `epoch`; `updated_at` |
//!
//! A process that takes over an expired lease raises `epoch`, and stamps each checkpoint with it. A checkpoint is written on condition that its
//! `epoch` is not newer, so a process that has lost its lease cannot move a checkpoint back. Finished shards expire after 30 days
//! (`expires_at`).

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use afterwrite_model::clock::{Clock as _, SystemClock};
use afterwrite_model::record::Timestamp;
use afterwrite_model::{Error, ErrorKind, Result};
use afterwrite_services::dynamodb::ServerClock;
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::{AttributeValue, ReturnValue};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use tokio::sync::OnceCell;
use uuid::Uuid;

use super::request::{request_error, unless_condition_failed};
use crate::checkpoint::{CheckpointStore, ShardCheckpoint, StoredCheckpoints};

/// How long a lease is valid without a renewal.
const LEASE: Duration = Duration::from_secs(30);
const RENEW_EVERY: Duration = Duration::from_secs(10);
const FINISHED_LIFE: Duration = Duration::from_secs(30 * 24 * 60 * 60);
const LEASE_KEY: &str = "-";
const ENTITY_TYPE: &str = "CHECKPOINT";

/// The checkpoints of one consumer of one table, in the state table.
#[derive(Debug)]
pub struct TableCheckpoints {
    client: Client,
    state_table: String,
    partition: String,
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
            partition: format!("AFTERWRITE#CHECKPOINT#{name}#{table}"),
            owner: Uuid::new_v4().to_string(),
            epoch: OnceCell::new(),
        }
    }

    /// Takes the lease if it is free, or has expired.
    ///
    /// # Errors
    /// `Unavailable` if the table cannot be reached, `Configuration` if it does not exist.
    pub async fn take_lease(&self) -> Result<LeaseOutcome> {
        let is_free = "attribute_not_exists(PK) OR lease_until < :now OR #owner = :owner";
        self.take_lease_if(is_free).await
    }

    /// Takes the lease from any other process, for a state table that belongs to this process alone.
    ///
    /// # Errors
    /// As [`TableCheckpoints::take_lease`].
    pub async fn seize_lease(&self) -> Result<()> {
        self.take_lease_if("attribute_not_exists(PK) OR lease_until <= :now OR lease_until > :now")
            .await
            .map(drop)
    }

    async fn take_lease_if(&self, condition: &str) -> Result<LeaseOutcome> {
        let now = self.server_time().await?;
        let request = self.update(LEASE_KEY)
            .update_expression(
                "SET #owner = :owner, lease_until = :until, EntityType = :type, epoch = if_not_exists(epoch, :zero) + :one",
            )
            .condition_expression(condition)
            .expression_attribute_names("#owner", "owner")
            .expression_attribute_values(":owner", text(&self.owner))
            .expression_attribute_values(":type", text(ENTITY_TYPE))
            .expression_attribute_values(":until", number(now.plus(LEASE).epoch_ms()))
            .expression_attribute_values(":now", number(now.epoch_ms()))
            .expression_attribute_values(":zero", number(0))
            .expression_attribute_values(":one", number(1))
            .return_values(ReturnValue::AllNew);
        let sent = Box::pin(request.send()).await;
        let Some(updated) = unless_condition_failed("UpdateItem", ("table", &self.state_table), sent)? else {
            return Ok(LeaseOutcome::HeldByAnother);
        };
        let epoch = updated.attributes().and_then(|item| item.get("epoch")).and_then(unsigned);
        let epoch = epoch.ok_or_else(|| self.unreadable("epoch"))?;
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
        self.set_lease(until.epoch_ms()).await
    }

    /// The time of a response of DynamoDB: the clocks of two machines may differ by more than a lease lasts.
    async fn server_time(&self) -> Result<Timestamp> {
        let clock = ServerClock::default();
        let request = self
            .client
            .query()
            .table_name(&self.state_table)
            .key_condition_expression("PK = :partition AND SK = :lease")
            .expression_attribute_values(":partition", text(&self.partition))
            .expression_attribute_values(":lease", text(LEASE_KEY));
        let sent = Box::pin(request.customize().interceptor(clock.clone()).send()).await;
        sent.map_err(|error| request_error("Query", ("table", &self.state_table), &error))?;
        Ok(clock.time())
    }

    /// Ends the lease, so that another process need not wait for its end.
    ///
    /// # Errors
    /// As [`TableCheckpoints::take_lease`].
    pub async fn release_lease(&self) -> Result<()> {
        self.set_lease(0).await
    }

    async fn set_lease(&self, until: i64) -> Result<()> {
        let request = self
            .update(LEASE_KEY)
            .update_expression("SET lease_until = :until")
            .condition_expression("#owner = :owner")
            .expression_attribute_names("#owner", "owner")
            .expression_attribute_values(":owner", text(&self.owner))
            .expression_attribute_values(":until", number(until));
        let sent = Box::pin(request.send()).await;
        let written = unless_condition_failed("UpdateItem", ("table", &self.state_table), sent)?;
        written.map(drop).ok_or_else(|| self.taken_over())
    }

    /// Forgets all checkpoints.
    ///
    /// # Errors
    /// As [`TableCheckpoints::take_lease`].
    pub async fn forget(&self) -> Result<()> {
        for item in self.items().await? {
            let Some(shard) = item.get("SK").filter(|key| **key != text(LEASE_KEY)) else { continue };
            let request = self.client.delete_item().table_name(&self.state_table);
            let request = request.key("PK", text(&self.partition)).key("SK", shard.clone());
            Box::pin(request.send())
                .await
                .map_err(|error| request_error("DeleteItem", ("table", &self.state_table), &error))?;
        }
        Ok(())
    }

    /// When the checkpoint was written that has stayed longest, of the shards that are not delivered to their ends; `None` without any.
    ///
    /// # Errors
    /// As [`TableCheckpoints::take_lease`].
    pub async fn oldest_update(&self) -> Result<Option<Timestamp>> {
        let times = self.items().await?.into_iter().filter_map(|item| {
            let attribute = |name: &str| item.get(name).and_then(|value| value.as_s().ok());
            let is_open = attribute("position").is_some_and(|position| position != "FINISHED");
            attribute("updated_at").filter(|_| is_open).and_then(|time| Timestamp::parse(time))
        });
        Ok(times.min())
    }

    async fn items(&self) -> Result<Vec<HashMap<String, AttributeValue>>> {
        let (mut items, mut start) = (Vec::new(), None);
        loop {
            let request = self
                .client
                .query()
                .table_name(&self.state_table)
                .key_condition_expression("PK = :partition")
                .expression_attribute_values(":partition", text(&self.partition))
                .consistent_read(true)
                .set_exclusive_start_key(start);
            let page = Box::pin(request.send())
                .await
                .map_err(|error| request_error("Query", ("table", &self.state_table), &error))?;
            items.extend(page.items.unwrap_or_default());
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
            let attribute = |name: &str| item.get(name).and_then(|value| value.as_s().ok()).cloned();
            let shard = attribute("SK").ok_or_else(|| self.unreadable("SK"))?;
            if shard == LEASE_KEY {
                continue;
            }
            let checkpoint = match (attribute("position").as_deref(), attribute("sequence_number")) {
                (Some("OLDEST"), _) => ShardCheckpoint::Oldest,
                (Some("LATEST"), _) => ShardCheckpoint::Latest,
                (Some("FINISHED"), _) => ShardCheckpoint::Finished,
                (Some("AFTER"), Some(number)) => ShardCheckpoint::After(number),
                _ => return Err(self.unreadable("position")),
            };
            self.stamp(&shard, epoch).await?;
            let stream = attribute("stream_arn").ok_or_else(|| self.unreadable("stream_arn"))?;
            by_stream.entry(stream).or_default().insert(shard, checkpoint);
        }
        // The label at the end of an ARN is a time: the last stream is the newest.
        let newest = by_stream.pop_last();
        let (stream_arn, shards) =
            newest.map_or((None, BTreeMap::new()), |(arn, shards)| (Some(arn), shards));
        Ok(StoredCheckpoints { stream_arn, shards })
    }

    /// Marks a checkpoint as this process's: an earlier owner cannot write it any more.
    async fn stamp(&self, shard: &str, epoch: u64) -> Result<()> {
        let request = self
            .update(shard)
            .update_expression("SET epoch = :epoch")
            .condition_expression("epoch <= :epoch")
            .expression_attribute_values(":epoch", AttributeValue::N(epoch.to_string()));
        let sent = Box::pin(request.send()).await;
        let written = unless_condition_failed("UpdateItem", ("table", &self.state_table), sent)?;
        written.map(drop).ok_or_else(|| self.taken_over())
    }

    async fn put(&self, stream_arn: &str, shard: &str, checkpoint: &ShardCheckpoint) -> Result<()> {
        let now = SystemClock.now();
        let (position, sequence_number, expires_at) = match checkpoint {
            ShardCheckpoint::Oldest => ("OLDEST", None, None),
            ShardCheckpoint::Latest => ("LATEST", None, None),
            ShardCheckpoint::After(number) => ("AFTER", Some(text(number)), None),
            ShardCheckpoint::Finished => {
                ("FINISHED", None, Some(number(now.plus(FINISHED_LIFE).epoch_ms() / 1000)))
            }
        };
        let mut item = HashMap::from([
            ("PK".to_owned(), text(&self.partition)),
            ("SK".to_owned(), text(shard)),
            ("EntityType".to_owned(), text(ENTITY_TYPE)),
            ("stream_arn".to_owned(), text(stream_arn)),
            ("position".to_owned(), text(position)),
            ("epoch".to_owned(), AttributeValue::N(self.current_epoch()?.to_string())),
            ("updated_at".to_owned(), text(&now.to_string())),
        ]);
        item.extend(sequence_number.map(|number| ("sequence_number".to_owned(), number)));
        item.extend(expires_at.map(|expires| ("expires_at".to_owned(), expires)));
        let request = self
            .client
            .put_item()
            .table_name(&self.state_table)
            .set_item(Some(item))
            .condition_expression("attribute_not_exists(PK) OR epoch <= :epoch")
            .expression_attribute_values(":epoch", AttributeValue::N(self.current_epoch()?.to_string()));
        let sent = Box::pin(request.send()).await;
        let written = unless_condition_failed("PutItem", ("table", &self.state_table), sent)?;
        written.map(drop).ok_or_else(|| self.taken_over())
    }

    fn update(
        &self,
        sort: &str,
    ) -> aws_sdk_dynamodb::operation::update_item::builders::UpdateItemFluentBuilder {
        let request = self.client.update_item().table_name(&self.state_table);
        request.key("PK", text(&self.partition)).key("SK", text(sort))
    }

    fn current_epoch(&self) -> Result<u64> {
        self.epoch.get().copied().ok_or_else(|| {
            Error::new(ErrorKind::State, "checkpoints were used before their lease was taken")
                .with("key", &self.partition)
        })
    }

    fn taken_over(&self) -> Error {
        Error::new(ErrorKind::State, "another process with the same name has taken over")
            .with("key", &self.partition)
            .hint("Give each consumer a --name of its own; or let this one end, if the other replaces it")
    }

    fn unreadable(&self, attribute: &'static str) -> Error {
        Error::new(ErrorKind::State, "a checkpoint cannot be read")
            .with("key", &self.partition)
            .with("attribute", attribute)
            .hint("Delete the item, or start with --reset")
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

fn text(value: &str) -> AttributeValue {
    AttributeValue::S(value.to_owned())
}

fn number(value: i64) -> AttributeValue {
    AttributeValue::N(value.to_string())
}

fn unsigned(value: &AttributeValue) -> Option<u64> {
    value.as_n().ok()?.parse().ok()
}
