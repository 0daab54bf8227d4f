//! The tables of a run without one guard: every call of the product passes through the guard's [`GuardBypass`].
//!
//! The application, TTL and the checks use the tables as they are.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use afterwrite_ledger::tables::{
    ConsumedUnits, IndexPage, IndexQuery, ReadSnapshot, Tables, TransactError, WriteError,
};
use afterwrite_memory::ItemChange;
use afterwrite_model::Error;
use afterwrite_model::effect::{ItemKey, Write, WriteRefusal};
use afterwrite_model::record::{Item, Timestamp};
use afterwrite_model::table::Model;

use super::super::events::state::EventBypass;
use super::super::model::parsed;
use super::super::store::{EVENTS, Store, key, text};
use super::bypass::{GuardBypass, ItemClass, item_class, written_class};

/// For so long after a write, an eventually consistent read returns what was there before it.
const STALENESS: Duration = Duration::from_secs(5);

/// A table's name, and the partition and sort key as text.
type TextKey = (String, String, String);

/// Tables that lack one guard.
pub(crate) struct UnguardedStore<S> {
    tables: S,
    bypass: &'static GuardBypass,
    history: Mutex<WriteHistory>,
}

/// The state of each item before its last write, kept only for stale reads.
struct WriteHistory {
    now: Timestamp,
    before: BTreeMap<TextKey, (Timestamp, Option<Item>)>,
}

impl<S: Store> UnguardedStore<S> {
    pub(crate) fn new(tables: S, bypass: &'static GuardBypass) -> Self {
        let history = WriteHistory { now: Timestamp::from_epoch_ms(0), before: BTreeMap::new() };
        Self { tables, bypass, history: Mutex::new(history) }
    }

    fn lock(&self) -> MutexGuard<'_, WriteHistory> {
        self.history.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The class of items whose reads are stale.
    fn stale_class(&self) -> Option<ItemClass> {
        match self.bypass {
            GuardBypass::ReadStale(class) => Some(*class),
            _ => None,
        }
    }

    /// Keeps the item's state before a write.
    fn keep_state(&self, key: &ItemKey) {
        if self.stale_class().is_none() {
            return;
        }
        let stored = self.tables.get(key);
        let mut history = self.lock();
        let now = history.now;
        history.before.insert(text_key(key), (now, stored));
    }

    /// The item as the product sees it.
    fn seen(&self, key: &ItemKey, stored: Option<Item>) -> Option<Item> {
        match self.bypass {
            GuardBypass::Hide(class) if class.includes(item_class(key, stored.as_ref())) => None,
            GuardBypass::Read(class, change) if class.includes(item_class(key, stored.as_ref())) => {
                let mut item = stored?;
                change(&mut item);
                Some(item)
            }
            _ => stored,
        }
    }

    /// The item as an eventually consistent read returns it.
    fn read_stale(&self, key: &ItemKey, stored: Option<Item>) -> Option<Item> {
        let class = item_class(key, stored.as_ref());
        if !self.stale_class().is_some_and(|stale| stale.includes(class)) {
            return stored;
        }
        let history = self.lock();
        match history.before.get(&text_key(key)) {
            Some((at, before)) if at.plus(STALENESS) > history.now => before.clone(),
            Some(_) | None => stored,
        }
    }

    /// The write as it reaches the tables; `None` if it does not.
    fn sent(&self, write: &Write, is_single: bool) -> Option<Write> {
        let class = written_class(write);
        match self.bypass {
            GuardBypass::Write(of, change) if of.includes(class) => {
                let mut write = write.clone();
                change(&mut write);
                Some(write)
            }
            GuardBypass::OmitSingle(of, is_omitted)
                if of.includes(class) && is_single && is_omitted(write) =>
            {
                None
            }
            GuardBypass::OmitAction(of) if of.includes(class) && !is_single => None,
            _ => Some(write.clone()),
        }
    }

    fn seen_refusal(&self, key: &ItemKey, refusal: WriteRefusal) -> WriteRefusal {
        match (self.bypass, refusal) {
            // A refusal returns an item that `Hide` hides from reads.
            (GuardBypass::Read(..), WriteRefusal::Condition(stored)) => {
                WriteRefusal::Condition(self.seen(key, stored))
            }
            (_, refusal) => refusal,
        }
    }

    async fn write_sent(&self, write: &Write) -> Result<ConsumedUnits, WriteError> {
        self.keep_state(&write.key);
        self.tables.write(write).await.map_err(|error| match error {
            WriteError::Refused(refusal) => WriteError::Refused(self.seen_refusal(&write.key, refusal)),
            WriteError::Failed(error) => WriteError::Failed(error),
        })
    }

    /// Carries out the writes one after the other, up to the first that is refused. Those before it remain.
    async fn transact_piecemeal(&self, writes: &[Write]) -> Result<ConsumedUnits, TransactError> {
        for (index, write) in writes.iter().enumerate() {
            match self.write_sent(write).await {
                Ok(_) => {}
                Err(WriteError::Failed(error)) => return Err(TransactError::Failed(error)),
                Err(WriteError::Refused(refusal)) => {
                    let mut reasons: Vec<Option<WriteRefusal>> = writes.iter().map(|_| None).collect();
                    reasons[index] = Some(refusal);
                    return Err(TransactError::Cancelled(reasons));
                }
            }
        }
        Ok(ConsumedUnits::default())
    }

    /// Carries out the writes that are sent, and aligns the reasons with all writes.
    async fn transact_sent(&self, writes: &[Write]) -> Result<ConsumedUnits, TransactError> {
        let all: Vec<Option<Write>> = writes.iter().map(|write| self.sent(write, false)).collect();
        let sent: Vec<Write> = all.iter().flatten().cloned().collect();
        for write in &sent {
            self.keep_state(&write.key);
        }
        let result = self.tables.transact(&sent).await;
        let Err(TransactError::Cancelled(reasons)) = result else { return result };
        let mut reasons = reasons.into_iter();
        let aligned = all.iter().map(|write| {
            let write = write.as_ref()?;
            let refusal = reasons.next().flatten()?;
            Some(self.seen_refusal(&write.key, refusal))
        });
        Err(TransactError::Cancelled(aligned.collect()))
    }
}

impl<S: Store> Tables for UnguardedStore<S> {
    async fn read(&self, keys: &[ItemKey]) -> Result<ReadSnapshot, Error> {
        let ReadSnapshot { items, mut server_time } = self.tables.read(keys).await?;
        let seen = keys.iter().zip(items).map(|(key, item)| self.seen(key, self.read_stale(key, item)));
        let items = seen.collect();
        if let GuardBypass::ServerAhead(ahead) = self.bypass {
            server_time = server_time.plus(*ahead);
        }
        Ok(ReadSnapshot { items, server_time })
    }

    async fn write(&self, write: &Write) -> Result<ConsumedUnits, WriteError> {
        match self.sent(write, true) {
            Some(write) => self.write_sent(&write).await,
            None => Ok(ConsumedUnits::default()),
        }
    }

    async fn transact(&self, writes: &[Write]) -> Result<ConsumedUnits, TransactError> {
        match self.bypass {
            GuardBypass::TransactPiecemeal => self.transact_piecemeal(writes).await,
            _ => self.transact_sent(writes).await,
        }
    }

    async fn query_index(&self, query: &IndexQuery) -> Result<IndexPage, Error> {
        self.tables.query_index(query).await
    }
}

impl<S: Store> Store for UnguardedStore<S> {
    fn set_time(&self, now: Timestamp) {
        self.lock().now = now;
        self.tables.set_time(now);
    }

    fn put(&self, table: &str, item: Item) {
        let key = match table {
            EVENTS => key(table, text(&item, "id"), None),
            _ => key(table, text(&item, "PK"), Some(text(&item, "SK"))),
        };
        self.keep_state(&key);
        self.tables.put(table, item);
    }

    fn delete(&self, key: &ItemKey) {
        self.keep_state(key);
        self.tables.delete(key);
    }

    fn expire(&self, key: &ItemKey) {
        self.keep_state(key);
        self.tables.expire(key);
    }

    fn get(&self, key: &ItemKey) -> Option<Item> {
        self.tables.get(key)
    }

    fn scan(&self, table: &str) -> Vec<Item> {
        self.tables.scan(table)
    }

    fn take_changes(&self, table: &str) -> Vec<ItemChange> {
        self.tables.take_changes(table)
    }

    fn sweep(&self, table: &str) {
        self.tables.sweep(table);
    }

    fn model(&self, generation: u64) -> Arc<Model> {
        match self.bypass {
            GuardBypass::Model(change) => {
                let mut model = parsed(generation);
                change(&mut model);
                Arc::new(model)
            }
            _ => self.tables.model(generation),
        }
    }

    fn is_filtered(&self) -> bool {
        match self.bypass {
            GuardBypass::Unfiltered => false,
            _ => self.tables.is_filtered(),
        }
    }

    fn event_bypass(&self) -> Option<EventBypass> {
        match self.bypass {
            GuardBypass::Events(bypass) => Some(*bypass),
            _ => self.tables.event_bypass(),
        }
    }
}

fn text_key(key: &ItemKey) -> TextKey {
    (key.table.to_string(), format!("{:?}", key.partition.value), format!("{:?}", key.sort))
}
