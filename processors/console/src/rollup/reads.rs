//! Reads of rollups: by key, and by parts of a partition. Each is bounded.

use std::collections::BTreeMap;
use std::sync::Arc;

use afterwrite_ledger::StateItems;
use afterwrite_ledger::state::{PARTITION_KEY, SORT_KEY};
use afterwrite_ledger::tables::Tables as _;
use afterwrite_model::effect::KeyAttribute;
use afterwrite_model::record::{AttributeValue, Item};
use afterwrite_model::{Error, ErrorKind, Result};
use afterwrite_services::dynamodb::{PartitionPage, PartitionPart, PartitionQuery};
use futures::future::try_join_all;

use super::asked::AskedBuckets;
use super::shape::RollupShape;
use crate::context::ConsoleContext;

/// The items of one request.
const REQUEST_ITEMS: u16 = 1_000;
/// The requests for one shard of a page of buckets. Rollups with other names in the same partition are read, too.
const MAX_REQUESTS: usize = 5;

/// Reads the rollups of the state table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RollupReads<'c>(pub(crate) &'c ConsoleContext);

/// A rollup with its stored items: one, or those of its shards that exist.
#[derive(Clone, Debug)]
pub(crate) struct StoredRollup {
    /// The `PK`, without a shard.
    pub(crate) partition: String,
    /// The `SK`.
    pub(crate) sort: String,
    /// The items, with their `PK`.
    pub(crate) items: Vec<(String, Item)>,
}

impl StoredRollup {
    /// The items alone.
    pub(crate) fn stored(&self) -> Vec<&Item> {
        self.items.iter().map(|(_, item)| item).collect()
    }
}

/// A key attribute of the state table.
fn key_attribute(name: &str, value: &str) -> KeyAttribute {
    KeyAttribute { name: Arc::from(name), value: AttributeValue::text(value.to_owned()) }
}

/// The text of a key attribute of an item.
pub(crate) fn key_text<'i>(item: &'i Item, name: &str) -> &'i str {
    item.get(name).and_then(AttributeValue::as_text).unwrap_or_default()
}

impl RollupReads<'_> {
    /// The items with these keys, strongly consistent.
    pub(crate) async fn stored(&self, keys: &[(String, String)]) -> Result<Vec<Option<Item>>> {
        let context = self.0;
        let state = StateItems::new(
            Arc::clone(context.model()),
            context.config.table_names.clone(),
            Arc::clone(&context.state_table),
        );
        let keys: Vec<_> = keys.iter().map(|(partition, sort)| state.key(partition, sort)).collect();
        if keys.is_empty() {
            return Ok(Vec::new());
        }
        Ok(context.tables.read(&keys).await?.items)
    }

    /// The rollups with these keys, without shards.
    pub(crate) async fn rollups(
        &self,
        shape: &RollupShape<'_>,
        keys: Vec<(String, String)>,
    ) -> Result<Vec<StoredRollup>> {
        let shards = |(partition, sort): &(String, String)| {
            let sort = sort.clone();
            let partitions = shape.stored_partitions(partition).into_iter();
            partitions.map(move |partition| (partition, sort.clone()))
        };
        let stored_keys: Vec<(String, String)> = keys.iter().flat_map(shards).collect();
        let mut items = stored_keys.iter().zip(self.stored(&stored_keys).await?);
        let each = usize::try_from(shape.rollup.shards.max(1)).unwrap_or(1);
        let rollups = keys.into_iter().map(|(partition, sort)| {
            let of_rollup = items.by_ref().take(each);
            let found = of_rollup.filter_map(|((stored, _), item)| Some((stored.clone(), item?)));
            let items = found.filter(|(_, item)| shape.is_counted_in(item)).collect();
            StoredRollup { partition, sort, items }
        });
        Ok(rollups.collect())
    }

    /// The rollups of these buckets that exist, by bucket. `buckets` are all of them, in order.
    pub(crate) async fn buckets(
        &self,
        shape: &RollupShape<'_>,
        asked: &AskedBuckets,
        buckets: &[String],
    ) -> Result<Vec<(String, StoredRollup)>> {
        let keys = buckets.iter().map(|bucket| shape.checked_key(&asked.values_of(bucket)));
        let keys = keys.collect::<Result<Vec<_>>>()?;
        let found = if shape.is_ordered_by(asked.bucket) {
            self.range(shape, &keys).await?
        } else {
            self.rollups(shape, keys).await?
        };
        let by_bucket = found.into_iter().filter(|rollup| !rollup.items.is_empty()).filter_map(|rollup| {
            let values = shape.rollup.values(&rollup.partition, &rollup.sort)?;
            let bucket = values.get(asked.bucket)?.to_string();
            Some((bucket, rollup))
        });
        Ok(by_bucket.collect())
    }

    /// The rollups from the first to the last of these keys, which are of one partition.
    async fn range(&self, shape: &RollupShape<'_>, keys: &[(String, String)]) -> Result<Vec<StoredRollup>> {
        let (Some((partition, first)), Some((_, last))) = (keys.first(), keys.last()) else {
            return Ok(Vec::new());
        };
        let part = PartitionPart::Between(key_attribute(SORT_KEY, first), AttributeValue::text(last.clone()));
        let partitions = shape.stored_partitions(partition);
        let reads = partitions.iter().map(|stored| self.whole_part(stored, &part));
        let pages = try_join_all(reads).await?;
        let items = partitions
            .iter()
            .zip(pages)
            .flat_map(|(stored, items)| items.into_iter().map(move |item| (stored, item)));
        Ok(grouped(shape, partition, items))
    }

    async fn whole_part(&self, partition: &str, part: &PartitionPart) -> Result<Vec<Item>> {
        let (mut items, mut after) = (Vec::new(), None);
        for _ in 0..MAX_REQUESTS {
            let page = self.page(partition, part.clone(), REQUEST_ITEMS, after).await?;
            items.extend(page.items);
            after = page.next;
            if after.is_none() {
                return Ok(items);
            }
        }
        Err(Error::new(
            ErrorKind::Configuration,
            "there are too many items between the first and the last bucket",
        )
        .hint("Choose fewer buckets"))
    }

    /// The first rollups of a partition after a sort key, at most so many, and whether others follow.
    pub(crate) async fn listed(
        &self,
        shape: &RollupShape<'_>,
        (partition, beginning): (&str, &str),
        after: Option<&str>,
        most: u16,
    ) -> Result<(Vec<StoredRollup>, Option<String>)> {
        let part = match beginning {
            "" => PartitionPart::Whole,
            beginning => PartitionPart::Beginning(key_attribute(SORT_KEY, beginning)),
        };
        let partitions = shape.stored_partitions(partition);
        let reads = partitions.iter().map(|stored| {
            let after = after.map(|after| {
                let key = [(PARTITION_KEY, stored.as_str()), (SORT_KEY, after)];
                key.into_iter()
                    .map(|(name, value)| (name.into(), AttributeValue::text(value.to_owned())))
                    .collect()
            });
            self.page(stored, part.clone(), most, after)
        });
        let pages = try_join_all(reads).await?;
        // Beyond the last item of a page that others follow, rollups of this shard may be missing.
        let ends = pages.iter().filter(|page| page.next.is_some());
        let end =
            ends.filter_map(|page| page.items.last()).map(|item| key_text(item, SORT_KEY).to_owned()).min();
        let items = partitions
            .iter()
            .zip(pages)
            .flat_map(|(stored, page)| page.items.into_iter().map(move |item| (stored, item)));
        let items =
            items.filter(|(_, item)| end.as_deref().is_none_or(|end| key_text(item, SORT_KEY) <= end));
        Ok((grouped(shape, partition, items), end))
    }

    async fn page(
        &self,
        partition: &str,
        part: PartitionPart,
        page_items: u16,
        start_after: Option<Item>,
    ) -> Result<PartitionPage> {
        let query = PartitionQuery {
            table: Arc::clone(&self.0.state_table),
            index: None,
            partition: key_attribute(PARTITION_KEY, partition),
            part,
            is_ascending: true,
            page_items,
            counts_only: false,
            start_after,
        };
        self.0.tables.query_partition(&query).await
    }
}

/// The items that are of a rollup, by sort key.
fn grouped<'p>(
    shape: &RollupShape<'_>,
    partition: &str,
    items: impl Iterator<Item = (&'p String, Item)>,
) -> Vec<StoredRollup> {
    let mut by_sort: BTreeMap<String, Vec<(String, Item)>> = BTreeMap::new();
    for (stored, item) in items {
        let sort = key_text(&item, SORT_KEY).to_owned();
        if shape.rollup.has_key(partition, &sort) && shape.is_counted_in(&item) {
            by_sort.entry(sort).or_default().push((stored.clone(), item));
        }
    }
    let rollups = by_sort.into_iter();
    rollups.map(|(sort, items)| StoredRollup { partition: partition.to_owned(), sort, items }).collect()
}
