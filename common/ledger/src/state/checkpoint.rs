//! The checkpoints of a consumer of a table, and the lease by which one process at a time writes them.
//!
//! All items of a consumer and a table have the same `PK`:
//!
//! | `SK` | attributes |
//! |---|---|
//! | `-` | the lease: `owner`, `lease_until` (epoch ms, by DynamoDB's time), `epoch` |
//! | a shard's id | `stream_arn`; `position`: `OLDEST`, `LATEST`, `AFTER` (with `sequence_number`) or `FINISHED`; `epoch`; `updated_at` |
//!
//! A process that takes over an expired lease raises `epoch`, and stamps each checkpoint with it. A checkpoint is written on condition that its
//! `epoch` is not newer, so a process that has lost its lease cannot move a checkpoint back. Finished shards expire after 30 days
//! (`expires_at`).

use std::sync::Arc;
use std::time::Duration;

use afterwrite_model::effect::{AttributeChange, ItemKey, Write, WriteAction, WriteCondition};
use afterwrite_model::record::{AttributePath, AttributeValue, Decimal, Item, Timestamp};
use afterwrite_model::{Error, ErrorKind, Result};

use super::{
    ENTITY_TYPE, EXPIRES_AT, NO_SORT_KEY, SORT_KEY, StateKeys, UPDATED_AT, item_of_type, number_value, set,
    time_value,
};

const PREFIX: &str = "AFTERWRITE#CHECKPOINT#";
const CHECKPOINT_TYPE: &str = "CHECKPOINT";
const FINISHED_LIFE: Duration = Duration::from_secs(30 * 24 * 60 * 60);

const OWNER: &str = "owner";
const LEASE_UNTIL: &str = "lease_until";
const EPOCH: &str = "epoch";
const STREAM_ARN: &str = "stream_arn";
const POSITION: &str = "position";
const SEQUENCE_NUMBER: &str = "sequence_number";
const START_TIME: &str = "start_time";

/// How far a shard has been delivered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ShardCheckpoint {
    /// Started at its oldest record; nothing has been delivered.
    Oldest,
    /// Started at its newest record; nothing has been delivered since. A later run reads the shard from its first record: it cannot know
    /// which records were written after the start, and an older record that is counted again changes nothing.
    Latest,
    /// Started at the first record of this time or later; nothing has been delivered. A later run starts there again.
    At(Timestamp),
    /// Up to the record with this sequence number.
    After(String),
    /// To its end.
    Finished,
}

/// A stored checkpoint of a shard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredCheckpoint {
    /// The shard's id.
    pub shard: String,
    /// The ARN of the shard's stream.
    pub stream_arn: String,
    /// How far the shard has been delivered.
    pub checkpoint: ShardCheckpoint,
    /// When it was written, to the second.
    pub updated_at: Option<Timestamp>,
}

/// The items of one consumer of one table.
#[derive(Clone, Debug)]
pub struct ConsumerCheckpoints {
    keys: StateKeys,
    partition: String,
}

impl ConsumerCheckpoints {
    /// The items of the consumer `name` of a source table.
    #[must_use]
    pub fn new(state_table: Arc<str>, name: &str, table: &str) -> Self {
        Self { keys: StateKeys::new(state_table), partition: [PREFIX, name, "#", table].concat() }
    }

    /// The partition key.
    #[must_use]
    pub fn partition(&self) -> &str {
        &self.partition
    }

    /// The key of the lease.
    #[must_use]
    pub fn lease_key(&self) -> ItemKey {
        self.keys.item(&self.partition, NO_SORT_KEY)
    }

    fn key(&self, shard: &str) -> ItemKey {
        self.keys.item(&self.partition, shard)
    }

    /// The write that takes the lease: if the lease is free for this process at this time of DynamoDB, or from any other process.
    #[must_use]
    pub fn taking(&self, owner: &str, free_at: Option<Timestamp>, until: Timestamp) -> Write {
        let is_free = |now| {
            let has_ended = WriteCondition::Less(AttributePath::from(LEASE_UNTIL), time_value(now));
            WriteCondition::Any(vec![WriteCondition::ItemAbsent, has_ended, is_owned_by(owner)])
        };
        let changes = vec![
            set(ENTITY_TYPE, CHECKPOINT_TYPE.into()),
            set(OWNER, AttributeValue::text(owner.to_owned())),
            set(LEASE_UNTIL, time_value(until)),
            AttributeChange::Add(AttributePath::from(EPOCH), Decimal::ONE),
        ];
        let condition = free_at.map_or(WriteCondition::Always, is_free);
        Write { key: self.lease_key(), condition, action: WriteAction::Update(changes) }
    }

    /// The write that sets the end of the lease of this process.
    #[must_use]
    pub fn holding(&self, owner: &str, until: Timestamp) -> Write {
        let changes = vec![set(LEASE_UNTIL, time_value(until))];
        Write { key: self.lease_key(), condition: is_owned_by(owner), action: WriteAction::Update(changes) }
    }

    /// The epoch of a lease.
    ///
    /// # Errors
    /// [`ErrorKind::State`] if it cannot be read.
    pub fn epoch(&self, lease: &Item) -> Result<u64> {
        let epoch = lease.get(EPOCH).and_then(AttributeValue::as_number).and_then(Decimal::to_i64);
        epoch.and_then(|epoch| u64::try_from(epoch).ok()).ok_or_else(|| self.unreadable(EPOCH))
    }

    /// The write that marks a checkpoint as written in this epoch: a process of an earlier epoch cannot write it any more.
    #[must_use]
    pub fn stamping(&self, shard: &str, epoch: u64) -> Write {
        let action = WriteAction::Update(vec![set(EPOCH, number_value(epoch))]);
        Write { key: self.key(shard), condition: is_not_newer_than(epoch), action }
    }

    /// The write of the checkpoint of a shard in this epoch.
    #[must_use]
    pub fn writing(
        &self,
        (stream_arn, shard): (&str, &str),
        checkpoint: &ShardCheckpoint,
        epoch: u64,
        now: Timestamp,
    ) -> Write {
        let text = |text: &str| AttributeValue::text(text.to_owned());
        let position = match checkpoint {
            ShardCheckpoint::Oldest => "OLDEST",
            ShardCheckpoint::Latest => "LATEST",
            ShardCheckpoint::At(_) => "AT",
            ShardCheckpoint::After(_) => "AFTER",
            ShardCheckpoint::Finished => "FINISHED",
        };
        let mut item = item_of_type(CHECKPOINT_TYPE);
        item.insert(STREAM_ARN.into(), text(stream_arn));
        item.insert(POSITION.into(), text(position));
        item.insert(EPOCH.into(), number_value(epoch));
        item.insert(UPDATED_AT.into(), AttributeValue::text(now.to_string()));
        match checkpoint {
            ShardCheckpoint::At(time) => drop(item.insert(START_TIME.into(), text(&time.to_string()))),
            ShardCheckpoint::After(number) => drop(item.insert(SEQUENCE_NUMBER.into(), text(number))),
            ShardCheckpoint::Finished => {
                let expires_at = Decimal::from(now.plus(FINISHED_LIFE).epoch_seconds());
                item.insert(EXPIRES_AT.into(), expires_at.into());
            }
            ShardCheckpoint::Oldest | ShardCheckpoint::Latest => {}
        }
        let condition = WriteCondition::Any(vec![WriteCondition::ItemAbsent, is_not_newer_than(epoch)]);
        Write { key: self.key(shard), condition, action: WriteAction::Put(item) }
    }

    /// The write that forgets the item with this `SK`; `None` if the item is the lease.
    #[must_use]
    pub fn forgetting(&self, sort: &str) -> Option<Write> {
        let (condition, action) = (WriteCondition::Always, WriteAction::Delete);
        (sort != NO_SORT_KEY).then(|| Write { key: self.key(sort), condition, action })
    }

    /// The checkpoint in an item; `None` if the item is the lease.
    ///
    /// # Errors
    /// [`ErrorKind::State`] if it cannot be read.
    pub fn decode(&self, item: &Item) -> Result<Option<StoredCheckpoint>> {
        let text = |name: &'static str| item.get(name).and_then(AttributeValue::as_text);
        let required = |name: &'static str| text(name).ok_or_else(|| self.unreadable(name));
        let shard = required(SORT_KEY)?;
        if shard == NO_SORT_KEY {
            return Ok(None);
        }
        let checkpoint = match required(POSITION)? {
            "OLDEST" => ShardCheckpoint::Oldest,
            "LATEST" => ShardCheckpoint::Latest,
            "FINISHED" => ShardCheckpoint::Finished,
            "AFTER" => ShardCheckpoint::After(required(SEQUENCE_NUMBER)?.to_owned()),
            "AT" => {
                let time = Timestamp::parse(required(START_TIME)?);
                ShardCheckpoint::At(time.ok_or_else(|| self.unreadable(START_TIME))?)
            }
            _ => return Err(self.unreadable(POSITION)),
        };
        Ok(Some(StoredCheckpoint {
            shard: shard.to_owned(),
            stream_arn: required(STREAM_ARN)?.to_owned(),
            checkpoint,
            updated_at: text(UPDATED_AT).and_then(Timestamp::parse),
        }))
    }

    fn unreadable(&self, attribute: &'static str) -> Error {
        Error::new(ErrorKind::State, "a checkpoint cannot be read")
            .with("key", &*self.partition)
            .with("attribute", attribute)
            .hint("Delete the item, or start with --reset")
    }
}

fn is_owned_by(owner: &str) -> WriteCondition {
    WriteCondition::Equals(AttributePath::from(OWNER), AttributeValue::text(owner.to_owned()))
}

fn is_not_newer_than(epoch: u64) -> WriteCondition {
    WriteCondition::Less(AttributePath::from(EPOCH), number_value(epoch.saturating_add(1)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn checkpoint() -> impl Strategy<Value = ShardCheckpoint> {
        prop_oneof![
            Just(ShardCheckpoint::Oldest),
            Just(ShardCheckpoint::Latest),
            (0_i64..4_000_000_000)
                .prop_map(|seconds| ShardCheckpoint::At(Timestamp::from_epoch_seconds(seconds))),
            "[0-9]{1,40}".prop_map(ShardCheckpoint::After),
            Just(ShardCheckpoint::Finished),
        ]
    }

    proptest! {
        #[test]
        fn a_written_checkpoint_reads_as_what_was_written(
            (stream_arn, shard) in (".{0,12}", "shard.{0,12}"), checkpoint in checkpoint(),
            epoch in 0..u64::from(u32::MAX), seconds in 0..4_000_000_000_i64,
        ) {
            let consumer = ConsumerCheckpoints::new(Arc::from("state"), "a", "b");
            let now = Timestamp::from_epoch_seconds(seconds);
            let write = consumer.writing((&stream_arn, &shard), &checkpoint, epoch, now);
            let stored = write.applied(None).unwrap().unwrap();
            prop_assert_eq!(stored.contains_key(EXPIRES_AT), checkpoint == ShardCheckpoint::Finished);
            let expected = StoredCheckpoint { shard: shard.clone(), stream_arn, checkpoint, updated_at: Some(now) };
            prop_assert_eq!(consumer.decode(&stored).unwrap(), Some(expected));
            // A process of a later epoch takes over.
            let stamped = consumer.stamping(&shard, epoch + 1).applied(Some(&stored)).unwrap();
            prop_assert!(write.applied(stamped.as_ref()).is_err());
        }

        #[test]
        fn a_lease_is_taken_after_its_end_only(until in 0..1000_i64, now in 0..1000_i64) {
            let consumer = ConsumerCheckpoints::new(Arc::from("state"), "a", "b");
            let [until, now] = [until, now].map(Timestamp::from_epoch_ms);
            let first = consumer.taking("one", Some(now), until).applied(None).unwrap().unwrap();
            prop_assert_eq!((consumer.epoch(&first).unwrap(), consumer.decode(&first).unwrap()), (1, None));
            let second = consumer.taking("two", Some(now), now).applied(Some(&first));
            prop_assert_eq!(second.is_ok(), until < now);
            let seized = consumer.taking("two", None, now).applied(Some(&first)).unwrap().unwrap();
            prop_assert_eq!(consumer.epoch(&seized).unwrap(), 2);
            prop_assert!(consumer.holding("one", now).applied(Some(&seized)).is_err());
            prop_assert!(consumer.holding("two", now).applied(Some(&seized)).is_ok());
        }
    }
}
