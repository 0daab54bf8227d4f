//! An index whose keys have several attributes, through the server in front of the embedded DynamoDB.

#![expect(clippy::unwrap_used, reason = "a test that meets the unexpected must fail at once")]

use afterwrite_local::dynamodb::{EmbeddedDynamoDb, KeyDefinition, TableDefinition};
use afterwrite_local::stream_api::StreamServer;
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::error::{DisplayErrorContext, ProvideErrorMetadata as _};
use aws_sdk_dynamodb::types::AttributeValue;

fn text(value: &str) -> AttributeValue {
    AttributeValue::S(value.to_owned())
}

fn definition() -> TableDefinition {
    let names = |names: [&str; 2]| names.map(str::to_owned).to_vec();
    let key = KeyDefinition::of_several(names(["tenant", "region"]), names(["day", "kind"]));
    TableDefinition {
        name: "orders".to_owned(),
        key: KeyDefinition::partition_only("id"),
        indexes: vec![("ByTenant".to_owned(), key)],
        ..TableDefinition::default()
    }
}

async fn put(client: &Client, id: &str, attributes: &[(&str, &str)]) {
    let mut put = client.put_item().table_name("orders").item("id", text(id));
    for (name, value) in attributes {
        put = put.item(*name, text(value));
    }
    put.send().await.unwrap();
}

/// The items that the index has for these values, by id; the message of a refusal.
async fn found(client: &Client, key: &[(&str, &str)]) -> Result<Vec<String>, String> {
    let conditions: Vec<String> = (0..key.len()).map(|place| format!("#k{place} = :v{place}")).collect();
    let mut query = client
        .query()
        .table_name("orders")
        .index_name("ByTenant")
        .key_condition_expression(conditions.join(" AND "));
    for (place, (name, value)) in key.iter().enumerate() {
        query = query
            .expression_attribute_names(format!("#k{place}"), *name)
            .expression_attribute_values(format!(":v{place}"), text(value));
    }
    let page = query.send().await.map_err(|error| {
        error.message().map_or_else(|| DisplayErrorContext(&error).to_string(), str::to_owned)
    })?;
    let ids = page.items().iter().filter_map(|item| item.get("id")?.as_s().ok().cloned());
    let mut ids: Vec<String> = ids.collect();
    ids.sort();
    Ok(ids)
}

#[tokio::test]
async fn a_query_states_the_partition_key_and_the_sort_key_from_the_left() {
    let server = EmbeddedDynamoDb::start().await.unwrap();
    let front = StreamServer::start(&server, 0).await.unwrap();
    server.ensure_table(&definition()).await.unwrap();
    assert!(server.needs_front());
    let client = front.client();
    let place = |region: &'static str, day: &'static str, kind: &'static str| {
        [("tenant", "a"), ("region", region), ("day", day), ("kind", kind)]
    };
    put(&client, "1", &place("eu", "1", "x")).await;
    put(&client, "2", &place("eu", "1", "y")).await;
    put(&client, "3", &place("eu", "2", "x")).await;
    put(&client, "4", &place("us", "1", "x")).await;
    // It lacks a key attribute, so it is not in the index.
    put(&client, "5", &[("tenant", "a"), ("region", "eu"), ("day", "1")]).await;

    let ids = |ids: &[&str]| Ok(ids.iter().map(|id| (*id).to_owned()).collect::<Vec<_>>());
    let whole = place("eu", "1", "x");
    assert_eq!(found(&client, &whole[..2]).await, ids(&["1", "2", "3"]));
    assert_eq!(found(&client, &whole[..3]).await, ids(&["1", "2"]));
    assert_eq!(found(&client, &whole).await, ids(&["1"]));
    let refused = found(&client, &whole[..1]).await;
    assert_eq!(refused, Err("Query condition missed key schema element: region".to_owned()));

    let described = client.describe_table().table_name("orders").send().await.unwrap();
    let index = &described.table().unwrap().global_secondary_indexes()[0];
    let keys: Vec<String> = index
        .key_schema()
        .iter()
        .map(|key| format!("{} {}", key.attribute_name(), key.key_type().as_str()))
        .collect();
    assert_eq!(keys, ["tenant HASH", "region HASH", "day RANGE", "kind RANGE"]);
}
