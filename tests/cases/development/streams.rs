//! Streams that are enabled again, and tables that are created again, while `dev` runs.

use std::time::Duration;

use aws_sdk_dynamodb::types::{
    AttributeDefinition, BillingMode, KeySchemaElement, KeyType, ScalarAttributeType, StreamSpecification,
    StreamViewType,
};

use afterwrite_tests::development::{Development, SHOP, model_file, number};

fn enabled(is_enabled: bool) -> StreamSpecification {
    let stream = StreamSpecification::builder().stream_enabled(is_enabled);
    let stream = if is_enabled { stream.stream_view_type(StreamViewType::NewAndOldImages) } else { stream };
    stream.build().unwrap()
}

/// Enables or disables the stream of the table.
async fn set_stream(development: &Development, is_enabled: bool) {
    let update = development.client.update_table().table_name("Corner");
    update.stream_specification(enabled(is_enabled)).send().await.unwrap();
}

/// Deletes the table, and creates it again.
async fn create_again(development: &Development) {
    let client = &development.client;
    client.delete_table().table_name("Corner").send().await.unwrap();
    let mut create = client.create_table().table_name("Corner").billing_mode(BillingMode::PayPerRequest);
    for (name, role) in [("PK", KeyType::Hash), ("SK", KeyType::Range)] {
        let key = KeySchemaElement::builder().attribute_name(name).key_type(role).build().unwrap();
        let attribute = AttributeDefinition::builder().attribute_name(name);
        let attribute = attribute.attribute_type(ScalarAttributeType::S).build().unwrap();
        create = create.key_schema(key).attribute_definitions(attribute);
    }
    create.stream_specification(enabled(true)).send().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the release binaries: run tests/run"]
async fn i3_changes_after_a_stream_is_enabled_again_are_no_duplicates_of_a_backfill() {
    let (_folder, model) = model_file(SHOP);
    let development = Development::start(&["--model", model.to_str().unwrap()]);
    development.put_order("1", number("10")).await;
    development.spent("10").await;

    // Written while there is no stream: only a backfill counts it.
    set_stream(&development, false).await;
    development.put_order("2", number("5")).await;
    development.put_order("1", number("20")).await;
    set_stream(&development, true).await;
    development.reports("the table has a new stream").await;
    development.succeed(&["backfill", "--all", "--yes"]);
    development.spent("25").await;

    development.put_order("1", number("30")).await;
    development.put_order("2", number("1")).await;
    development.spent("31").await;
    // Nothing is in flight.
    tokio::time::sleep(Duration::from_secs(2)).await;
    development.succeed(&["verify", "--tolerance", "1"]);
    development.stop();
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the release binaries: run tests/run"]
async fn i3_streams_that_follow_at_once_and_a_table_that_is_created_again_are_read() {
    let (_folder, model) = model_file(SHOP);
    let development = Development::start(&["--model", model.to_str().unwrap()]);
    for (round, spent) in ["3", "6", "9"].into_iter().enumerate() {
        development.put_order(&round.to_string(), number("3")).await;
        set_stream(&development, false).await;
        set_stream(&development, true).await;
        development.succeed(&["backfill", "--all", "--yes"]);
        development.spent(spent).await;
    }
    development.put_order("0", number("4")).await;
    development.spent("10").await;

    // DeleteTable writes no change records, as in AWS: what was counted stays until a backfill or repair.
    create_again(&development).await;
    development.put_order("0", number("5")).await;
    development.spent("11").await;
    development.stop();
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the release binaries: run tests/run"]
async fn i3_a_stream_that_is_enabled_cannot_be_enabled_again() {
    let (_folder, model) = model_file(SHOP);
    let development = Development::start(&["--model", model.to_str().unwrap()]);
    let update = development.client.update_table().table_name("Corner");
    let refused = update.stream_specification(enabled(true)).send().await.unwrap_err().into_service_error();
    assert_eq!(refused.meta().code(), Some("ValidationException"));
    development.put_order("1", number("10")).await;
    development.spent("10").await;
    development.stop();
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the release binaries: run tests/run"]
async fn i3_a_restart_delivers_the_rest_of_an_earlier_stream() {
    let (folder, model) = model_file(SHOP);
    let data = folder.path().join("data");
    let arguments = ["--model", model.to_str().unwrap(), "--data", data.to_str().unwrap()];
    let first = Development::start(&arguments);
    first.put_order("1", number("10")).await;
    first.spent("10").await;
    first.put_order("2", number("7")).await;
    set_stream(&first, false).await;
    set_stream(&first, true).await;
    first.put_order("3", number("100")).await;
    // Killed: the order of the earlier stream may not be counted.
    drop(first);
    let second = Development::start(&arguments);
    second.spent("117").await;
    second.put_order("2", number("8")).await;
    second.spent("118").await;
    second.stop();
}
