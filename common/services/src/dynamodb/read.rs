//! Strongly consistent reads of any number of items.

use std::cell::LazyCell;
use std::collections::{HashMap, HashSet};

use afterwrite_ledger::tables::{
    MAX_READ_KEYS, PartialRead, ReadItem, ReadSnapshot, Unprocessed, misaligned_read,
};
use afterwrite_model::effect::ItemKey;
use afterwrite_model::record::Item;
use afterwrite_model::{Error, ErrorKind};
use aws_sdk_dynamodb::types::{AttributeValue as Sdk, KeysAndAttributes};
use futures::future::join_all;

use super::fault::TableRequest;
use super::server_clock::ServerClock;
use super::value::{item_from_sdk, key_to_sdk};
use super::{DynamoDb, table_names};

/// Where BatchGetItem reports that it throttled keys.
const UNPROCESSED: &str = "UnprocessedKeys";

/// The items with these keys, aligned with them.
pub(super) async fn read(tables: &DynamoDb, keys: &[ItemKey]) -> Result<ReadSnapshot, Error> {
    let PartialRead { items, server_time } = read_some(tables, keys).await?;
    let items = items.into_iter().collect::<Result<_, Unprocessed>>();
    Ok(ReadSnapshot { items: items?, server_time })
}

/// As [`read`], except that keys may be unprocessed.
pub(super) async fn read_some(tables: &DynamoDb, keys: &[ItemKey]) -> Result<PartialRead, Error> {
    let clock = ServerClock::default();
    let distinct = DistinctKeys::of(keys);
    let batches = distinct.keys.chunks(MAX_READ_KEYS);
    let results = join_all(batches.clone().map(|batch| read_batch(tables, batch, &clock))).await;
    let mut read = Vec::with_capacity(distinct.keys.len());
    for (batch, result) in batches.zip(results) {
        match result {
            Ok(items) => read.extend(items),
            Err(error) if error.is_retryable() => {
                read.extend(vec![Err(Unprocessed::from(error)); batch.len()]);
            }
            Err(error) => return Err(error),
        }
    }
    let item = |position: &usize| read.get(*position).cloned().ok_or_else(misaligned_read);
    let items = distinct.positions.iter().map(item).collect::<Result<_, _>>()?;
    Ok(PartialRead { items, server_time: clock.time() })
}

/// A BatchGetItem request, as its errors describe it.
fn request<'r>(names: &'r str, key: Option<&'r ItemKey>) -> TableRequest<'r> {
    TableRequest { action: "BatchGetItem", permission: "dynamodb:BatchGetItem", key, tables: names }
}

/// The keys without duplicates, which BatchGetItem refuses.
struct DistinctKeys<'k> {
    keys: Vec<&'k ItemKey>,
    /// For each requested key, its position in `keys`.
    positions: Vec<usize>,
}

impl<'k> DistinctKeys<'k> {
    fn of(keys: &'k [ItemKey]) -> Self {
        let mut known: HashMap<KeyText, usize> = HashMap::with_capacity(keys.len());
        let mut distinct =
            Self { keys: Vec::with_capacity(keys.len()), positions: Vec::with_capacity(keys.len()) };
        for key in keys {
            let position = *known.entry(KeyText::of(key)).or_insert_with(|| {
                distinct.keys.push(key);
                distinct.keys.len() - 1
            });
            distinct.positions.push(position);
        }
        distinct
    }
}

/// A key in hashable form: the text of its attributes' types and values.
#[derive(PartialEq, Eq, Hash)]
struct KeyText(String);

impl KeyText {
    fn of(key: &ItemKey) -> Self {
        let values = key.attributes().map(|attribute| &attribute.value);
        Self(format!("{:?}{:?}", key.table, values.collect::<Vec<_>>()))
    }

    /// The key of an item of the same table as `template`.
    fn of_item(item: &Item, template: &ItemKey) -> Self {
        let values = template.attributes().filter_map(|attribute| item.get(&*attribute.name));
        Self(format!("{:?}{:?}", template.table, values.collect::<Vec<_>>()))
    }
}

/// The items with these keys, at most 100 and all different, aligned with them.
///
/// A response may leave keys unprocessed, because it has at most 16 MB, or because a partition is throttled. They are requested again as
/// long as responses process some of the keys.
///
/// # Errors
/// As [`read_some`]: the request failed before any key was processed.
async fn read_batch(
    tables: &DynamoDb,
    keys: &[&ItemKey],
    clock: &ServerClock,
) -> Result<Vec<ReadItem>, Error> {
    let names = table_names(keys.iter().copied());
    let request = request(&names, keys.first().copied());
    let mut items = HashMap::with_capacity(keys.len());
    let mut pending = keys_by_table(keys, request)?;
    let mut unprocessed = HashSet::new();
    loop {
        let call = tables.client.batch_get_item().set_request_items(Some(pending));
        let slot = tables.slot().await;
        let response = Box::pin(call.customize().interceptor(clock.clone()).send()).await;
        drop(slot);
        let response = match response.map_err(|error| request.fault(&error).into_error(request)) {
            Ok(response) => response,
            Err(error) if error.is_retryable() && !unprocessed.is_empty() => break,
            Err(error) => return Err(error),
        };
        for (table, found) in response.responses.unwrap_or_default() {
            let Some(template) = keys.iter().find(|key| *key.table == *table) else { continue };
            for item in found.into_iter().map(item_from_sdk) {
                let item = item?;
                items.insert(KeyText::of_item(&item, template), item);
            }
        }
        pending = response.unprocessed_keys.unwrap_or_default();
        let before = std::mem::replace(&mut unprocessed, key_texts(&pending, keys)?);
        if unprocessed.len() >= keys.len() {
            return Err(request.throttled(UNPROCESSED));
        }
        let has_stalled = !before.is_empty() && unprocessed.len() >= before.len();
        if unprocessed.is_empty() || has_stalled {
            break;
        }
    }
    let throttled = LazyCell::new(|| Unprocessed::from(request.throttled(UNPROCESSED)));
    let item = |key: &&ItemKey| {
        let text = KeyText::of(key);
        if unprocessed.contains(&text) {
            Err(LazyCell::force(&throttled).clone())
        } else {
            Ok(items.remove(&text))
        }
    };
    Ok(keys.iter().map(item).collect())
}

/// The texts of the keys that a response left unprocessed.
fn key_texts(
    unprocessed: &HashMap<String, KeysAndAttributes>,
    keys: &[&ItemKey],
) -> Result<HashSet<KeyText>, Error> {
    let mut texts = HashSet::new();
    for (table, unprocessed) in unprocessed {
        let Some(template) = keys.iter().find(|key| *key.table == **table) else { continue };
        for key in &unprocessed.keys {
            texts.insert(KeyText::of_item(&item_from_sdk(key.clone())?, template));
        }
    }
    Ok(texts)
}

fn keys_by_table(
    keys: &[&ItemKey],
    request: TableRequest<'_>,
) -> Result<HashMap<String, KeysAndAttributes>, Error> {
    let mut by_table: HashMap<String, Vec<HashMap<String, Sdk>>> = HashMap::new();
    for key in keys {
        by_table.entry(key.table.to_string()).or_default().push(key_to_sdk(key));
    }
    let mut requested = HashMap::with_capacity(by_table.len());
    for (table, keys) in by_table {
        let keys = KeysAndAttributes::builder().set_keys(Some(keys)).consistent_read(true).build();
        let keys = keys.map_err(|error| {
            request.new_error(ErrorKind::Rejected, "the request could not be built").caused_by(error)
        })?;
        requested.insert(table, keys);
    }
    Ok(requested)
}
