//! Reads rollups of the state table.

use std::collections::HashMap;

use aws_sdk_dynamodb::operation::query::builders::QueryFluentBuilder;
use aws_sdk_dynamodb::types::{AttributeValue, KeysAndAttributes, Select};
use aws_sdk_dynamodb::{Client, Error};

type Rollup = HashMap<String, AttributeValue>;

/// The sum of a measure of a sharded rollup.
pub async fn read_sharded(
    client: &Client,
    table: &str,
    (pk, sk): (&str, &str),
    shards: usize,
    measure: &str,
) -> Result<i128, Error> {
    let key =
        |n| Rollup::from([("PK".to_owned(), text(&format!("{pk}#SHARD#{n}"))), ("SK".to_owned(), text(sk))]);
    let mut keys: Vec<Rollup> = (0..shards).map(key).collect();
    let mut sum = 0;
    while !keys.is_empty() {
        let rest = keys.split_off(keys.len().min(100));
        let request = KeysAndAttributes::builder().set_keys(Some(keys)).consistent_read(true).build()?;
        let answer = client.batch_get_item().request_items(table, request).send().await?;
        let items = answer.responses().and_then(|tables| tables.get(table));
        sum += items.into_iter().flatten().map(|item| number(item, measure)).sum::<i128>();
        keys = rest;
        let unprocessed = answer.unprocessed_keys().and_then(|tables| tables.get(table));
        keys.extend(unprocessed.into_iter().flat_map(|request| request.keys().to_vec()));
    }
    Ok(sum)
}

/// The rollups of a partition from one sort key to another, in order.
pub async fn read_buckets(
    client: &Client,
    table: &str,
    pk: &str,
    (first, last): (&str, &str),
) -> Result<Vec<Rollup>, Error> {
    let query = client.query().table_name(table);
    let query = query.key_condition_expression("PK = :pk AND SK BETWEEN :first AND :last");
    let query = query.expression_attribute_values(":pk", text(pk));
    let query = query.expression_attribute_values(":first", text(first));
    let query = query.expression_attribute_values(":last", text(last));
    let items: Result<Vec<Rollup>, _> = query.into_paginator().items().send().collect().await;
    Ok(items?)
}

/// The rollups of a partition with the largest values of a measure.
pub async fn read_ranked(
    client: &Client,
    table: &str,
    (pk, prefix): (&str, &str),
    measure: &str,
    count: usize,
) -> Result<Vec<Rollup>, Error> {
    let last = format!("{prefix}\u{10ffff}");
    let mut rollups = read_buckets(client, table, pk, (prefix, &last)).await?;
    rollups.sort_by_key(|rollup| std::cmp::Reverse(number(rollup, measure)));
    rollups.truncate(count);
    Ok(rollups)
}

/// A group of a rank: a part of the index `rank_<measure>`, in the order of the measure.
pub struct RankedGroup<'g> {
    pub table: &'g str,
    /// `<rollup>#<within>`, without the shard.
    pub group: &'g str,
    pub measure: &'g str,
    pub shards: usize,
}

/// One side of a value: `>` or `<=`.
type ValueBound = (&'static str, i128);

impl RankedGroup<'_> {
    /// The rollups with the largest values.
    pub async fn top(&self, client: &Client, count: i32) -> Result<Vec<Rollup>, Error> {
        self.order(client, None, count).await
    }

    /// A page around a value, in descending order: the nearest rollups above it, and those with the value or less.
    pub async fn around(&self, client: &Client, value: i128, count: i32) -> Result<Vec<Rollup>, Error> {
        let mut page = self.order(client, Some((">", value)), count).await?;
        page.reverse();
        page.extend(self.order(client, Some(("<=", value)), count).await?);
        Ok(page)
    }

    /// One more than the number of rollups with larger values.
    pub async fn rank(&self, client: &Client, value: i128) -> Result<i64, Error> {
        let mut rank = 1;
        for shard in 0..self.shards {
            let query = self.query(client, shard, Some((">", value))).select(Select::Count);
            let mut pages = query.into_paginator().send();
            while let Some(page) = pages.next().await {
                rank += i64::from(page?.count());
            }
        }
        Ok(rank)
    }

    /// The first rollups of each shard, merged: in descending order, or ascending from a value.
    async fn order(
        &self,
        client: &Client,
        bound: Option<ValueBound>,
        count: i32,
    ) -> Result<Vec<Rollup>, Error> {
        let is_ascending = bound.is_some_and(|(operator, _)| operator == ">");
        let mut rollups = Vec::new();
        for shard in 0..self.shards {
            let query = self.query(client, shard, bound).scan_index_forward(is_ascending);
            rollups.extend(query.limit(count).send().await?.items.unwrap_or_default());
        }
        rollups.sort_by_key(|rollup| number(rollup, self.measure));
        if !is_ascending {
            rollups.reverse();
        }
        rollups.truncate(usize::try_from(count).unwrap_or(0));
        Ok(rollups)
    }

    fn query(&self, client: &Client, shard: usize, bound: Option<ValueBound>) -> QueryFluentBuilder {
        let index = format!("rank_{}", self.measure);
        let group = if self.shards > 1 { format!("{}#{shard}", self.group) } else { self.group.to_owned() };
        let query = client.query().table_name(self.table).index_name(&index);
        let query = query.expression_attribute_names("#group", index);
        let query = query.expression_attribute_values(":group", text(&group));
        let Some((operator, value)) = bound else {
            return query.key_condition_expression("#group = :group");
        };
        let query = query.expression_attribute_names("#measure", self.measure);
        let query = query.expression_attribute_values(":value", AttributeValue::N(value.to_string()));
        query.key_condition_expression(format!("#group = :group AND #measure {operator} :value"))
    }
}

/// A count; 0 if it is absent. For measures with decimals, parse a decimal type instead.
fn number(rollup: &Rollup, measure: &str) -> i128 {
    let digits = rollup.get(measure).and_then(|value| value.as_n().ok());
    digits.and_then(|digits| digits.parse().ok()).unwrap_or(0)
}

fn text(value: &str) -> AttributeValue {
    AttributeValue::S(value.to_owned())
}
