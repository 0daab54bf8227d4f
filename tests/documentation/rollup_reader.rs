//! Reads rollups of the state table.

use std::collections::HashMap;

use aws_sdk_dynamodb::types::{AttributeValue, KeysAndAttributes};
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

/// A count; 0 if it is absent. For measures with decimals, parse a decimal type instead.
fn number(rollup: &Rollup, measure: &str) -> i128 {
    let digits = rollup.get(measure).and_then(|value| value.as_n().ok());
    digits.and_then(|digits| digits.parse().ok()).unwrap_or(0)
}

fn text(value: &str) -> AttributeValue {
    AttributeValue::S(value.to_owned())
}
