//! Strongly consistent reads of any number of items.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::interceptors::BeforeDeserializationInterceptorContextRef;
use aws_sdk_dynamodb::config::{ConfigBag, Intercept, RuntimeComponents};
use aws_sdk_dynamodb::error::BoxError;
use aws_sdk_dynamodb::primitives::{DateTime, DateTimeFormat};
use aws_sdk_dynamodb::types::{AttributeValue as Sdk, KeysAndAttributes};
use futures::future::try_join_all;

use super::fault::TableRequest;
use super::tables_of;
use super::value::{item_from_sdk, key_to_sdk};
use crate::effect::ItemKey;
use crate::record::{Item, Timestamp};
use crate::sink::ReadSnapshot;
use crate::{Error, ErrorKind};

/// BatchGetItem's limit.
const MAX_BATCH_KEYS: usize = 100;
/// How often in a row a batch may be answered with nothing, before it counts as throttled.
const MAX_EMPTY_ANSWERS: u32 = 8;
const FIRST_PAUSE: Duration = Duration::from_millis(25);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// The items under `keys`, aligned with them.
pub(super) async fn read(client: &Client, keys: &[ItemKey]) -> Result<ReadSnapshot, Error> {
    let clock = ServerClock::default();
    let distinct = DistinctKeys::of(keys);
    let batches = distinct.keys.chunks(MAX_BATCH_KEYS).map(|batch| read_batch(client, batch, &clock));
    let found: Vec<Option<Item>> = try_join_all(batches).await?.into_iter().flatten().collect();
    let items = distinct.places.iter().map(|place| found.get(*place).cloned().flatten()).collect();
    Ok(ReadSnapshot { items, server_time: clock.time() })
}

/// The keys without repetitions, which BatchGetItem refuses, and where each key asked for is among them.
struct DistinctKeys<'k> {
    keys: Vec<&'k ItemKey>,
    places: Vec<usize>,
}

impl<'k> DistinctKeys<'k> {
    fn of(keys: &'k [ItemKey]) -> Self {
        let mut known: HashMap<KeyText, usize> = HashMap::with_capacity(keys.len());
        let mut distinct =
            Self { keys: Vec::with_capacity(keys.len()), places: Vec::with_capacity(keys.len()) };
        for key in keys {
            let place = *known.entry(KeyText::of(key)).or_insert_with(|| {
                distinct.keys.push(key);
                distinct.keys.len() - 1
            });
            distinct.places.push(place);
        }
        distinct
    }
}

/// A key in a form that can be looked up: the types and values of its attributes as they are written.
#[derive(PartialEq, Eq, Hash)]
struct KeyText(String);

impl KeyText {
    fn of(key: &ItemKey) -> Self {
        let attributes = [Some(&key.partition), key.sort.as_ref()].into_iter().flatten();
        Self(format!("{:?}{:?}", key.table, attributes.map(|attribute| &attribute.value).collect::<Vec<_>>()))
    }

    /// Of an item's own key, whose attributes are named as `like`'s are.
    fn of_item(item: &Item, like: &ItemKey) -> Self {
        let attributes = [Some(&like.partition), like.sort.as_ref()].into_iter().flatten();
        let values = attributes.filter_map(|attribute| item.get(&*attribute.name));
        Self(format!("{:?}{:?}", like.table, values.collect::<Vec<_>>()))
    }
}

/// The items of at most 100 different keys, aligned with them.
async fn read_batch(
    client: &Client,
    keys: &[&ItemKey],
    clock: &ServerClock,
) -> Result<Vec<Option<Item>>, Error> {
    let tables = tables_of(keys.iter().copied());
    let request = TableRequest {
        action: "BatchGetItem",
        permissions: "dynamodb:BatchGetItem",
        key: keys.first().copied(),
        tables: &tables,
    };
    let mut found = HashMap::with_capacity(keys.len());
    let mut wanted = wanted(keys, request)?;
    let mut empty_answers = 0;
    while !wanted.is_empty() {
        let call =
            client.batch_get_item().set_request_items(Some(wanted)).customize().interceptor(clock.clone());
        let answer =
            Box::pin(call.send()).await.map_err(|error| request.fault(&error).into_error(request))?;
        let mut is_empty = true;
        for (table, items) in answer.responses.unwrap_or_default() {
            let Some(like) = keys.iter().find(|key| *key.table == *table) else { continue };
            for item in items {
                let item = item_from_sdk(item)?;
                found.insert(KeyText::of_item(&item, like), item);
                is_empty = false;
            }
        }
        wanted = answer.unprocessed_keys.unwrap_or_default();
        if wanted.is_empty() {
            break;
        }
        // What is left over was throttled, or went beyond the 16 MB of one answer.
        empty_answers = if is_empty { empty_answers + 1 } else { 0 };
        if empty_answers >= MAX_EMPTY_ANSWERS {
            return Err(Error::new(ErrorKind::Unavailable, "BatchGetItem: DynamoDB throttled the request")
                .with("table", tables));
        }
        tokio::time::sleep(pause(empty_answers)).await;
    }
    Ok(keys.iter().map(|key| found.remove(&KeyText::of(key))).collect())
}

fn wanted(keys: &[&ItemKey], request: TableRequest<'_>) -> Result<HashMap<String, KeysAndAttributes>, Error> {
    let mut by_table: HashMap<String, Vec<HashMap<String, Sdk>>> = HashMap::new();
    for key in keys {
        by_table.entry(key.table.to_string()).or_default().push(key_to_sdk(key));
    }
    let build = |(table, keys)| {
        let keys = KeysAndAttributes::builder().set_keys(Some(keys)).consistent_read(true).build();
        let keys = keys.map_err(|error| {
            Error::new(ErrorKind::Rejected, "a read could not be built")
                .with("table", request.tables)
                .caused_by(error)
        })?;
        Ok((table, keys))
    };
    by_table.into_iter().map(build).collect()
}

/// A random part of a time that doubles with each empty answer.
fn pause(empty_answers: u32) -> Duration {
    FIRST_PAUSE.saturating_mul(1 << empty_answers.min(10)).min(LONGEST_PAUSE).mul_f64(fastrand::f64())
}

/// The earliest time that the server put on an answer.
///
/// An answer without the header (a proxy may drop it) counts as given when its request was begun, by our own clock: that
/// is earlier than the answer, and early is the safe side for whoever asks what a read has seen.
#[derive(Clone, Debug)]
struct ServerClock {
    begun: Timestamp,
    earliest: Arc<Mutex<Option<Timestamp>>>,
}

impl Default for ServerClock {
    fn default() -> Self {
        let begun = Timestamp::from_epoch_ms(jiff::Timestamp::now().as_millisecond());
        Self { begun, earliest: Arc::default() }
    }
}

impl ServerClock {
    fn time(&self) -> Timestamp {
        self.earliest.lock().unwrap_or_else(PoisonError::into_inner).unwrap_or(self.begun)
    }
}

impl Intercept for ServerClock {
    fn name(&self) -> &'static str {
        "ServerClock"
    }

    fn read_after_transmit(
        &self,
        context: &BeforeDeserializationInterceptorContextRef<'_>,
        _components: &RuntimeComponents,
        _configuration: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        let date = context.response().headers().get("date");
        let date = date.and_then(|date| DateTime::from_str(date, DateTimeFormat::HttpDate).ok());
        let time = date.map_or(self.begun, |date| Timestamp::from_epoch_seconds(date.secs()));
        let mut earliest = self.earliest.lock().unwrap_or_else(PoisonError::into_inner);
        *earliest = Some(earliest.map_or(time, |earliest| earliest.min(time)));
        Ok(())
    }
}
