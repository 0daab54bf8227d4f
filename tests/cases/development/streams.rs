//! Streams that are enabled again, and tables that are created again, while `dev` runs.

use std::time::Duration;

use aws_sdk_dynamodb::types::{
    AttributeDefinition, BillingMode, KeySchemaElement, KeyType, ScalarAttributeType, StreamSpecification,
    StreamViewType,
};

use afterwrite_tests::development::{Development, SHOP, STATE, model_file, number};

const COMPLETE: Option<StreamViewType> = Some(StreamViewType::NewAndOldImages);

/// The totals of the shop, and their sum.
const LEVELS: &str = r##"
[rollups.all]
key = { PK = "ALL", SK = "TOTAL" }
[[aggregates]]
name = "all"
of = "customer"
into = "all"
measures.spent = { sum = "spent" }
"##;

fn specification(view: Option<StreamViewType>) -> StreamSpecification {
    StreamSpecification::builder().stream_enabled(view.is_some()).set_stream_view_type(view).build().unwrap()
}

/// Enables a stream of the table, or disables it.
async fn set_view(development: &Development, table: &str, view: Option<StreamViewType>) {
    let update = development.client.update_table().table_name(table);
    update.stream_specification(specification(view)).send().await.unwrap();
}

/// Enables or disables the stream of the table.
async fn set_stream(development: &Development, is_enabled: bool) {
    set_view(development, "Corner", COMPLETE.filter(|_| is_enabled)).await;
}

/// Deletes the table, and creates it again.
async fn create_again(development: &Development) {
    development.client.delete_table().table_name("Corner").send().await.unwrap();
    create(development, "Corner", COMPLETE).await;
}

async fn create(development: &Development, table: &str, view: Option<StreamViewType>) {
    let mut create =
        development.client.create_table().table_name(table).billing_mode(BillingMode::PayPerRequest);
    for (name, role) in [("PK", KeyType::Hash), ("SK", KeyType::Range)] {
        let key = KeySchemaElement::builder().attribute_name(name).key_type(role).build().unwrap();
        let attribute = AttributeDefinition::builder().attribute_name(name);
        let attribute = attribute.attribute_type(ScalarAttributeType::S).build().unwrap();
        create = create.key_schema(key).attribute_definitions(attribute);
    }
    create.stream_specification(specification(view)).send().await.unwrap();
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
    let refused =
        update.stream_specification(specification(COMPLETE)).send().await.unwrap_err().into_service_error();
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

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the release binaries: run tests/run"]
async fn k16_a_stream_without_images_is_reported_until_there_is_a_right_one() {
    for view in [StreamViewType::KeysOnly, StreamViewType::OldImage] {
        let (_folder, model) = model_file(SHOP);
        let development = Development::start(&["--model", model.to_str().unwrap()]);
        development.put_order("1", number("10")).await;
        development.spent("10").await;
        set_stream(&development, false).await;
        set_view(&development, "Corner", Some(view)).await;
        development.put_order("2", number("5")).await;
        development
            .reports("Corner: aggregator waits for a stream with the view type NEW_AND_OLD_IMAGES")
            .await;
        set_stream(&development, false).await;
        set_stream(&development, true).await;
        development.put_order("3", number("1")).await;
        development.spent("11").await;
        development.succeed(&["backfill", "--all", "--yes"]);
        development.spent("16").await;
        development.stop();
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the release binaries: run tests/run"]
async fn k16_a_stream_of_the_state_table_without_images_is_reported() {
    let (_folder, model) = model_file(&format!("{SHOP}{LEVELS}"));
    let development = Development::start(&["--model", model.to_str().unwrap()]);
    set_view(&development, STATE, None).await;
    set_view(&development, STATE, Some(StreamViewType::KeysOnly)).await;
    development.put_order("1", number("10")).await;
    development.reports("AfterwriteState: aggregator waits for a stream").await;
    // The source table is counted meanwhile.
    development.put_order("2", number("5")).await;
    development.spent("15").await;
    // A wait ends by Ctrl-C.
    development.stop();
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the release binaries: run tests/run"]
async fn k16_a_state_table_that_is_deleted_is_waited_for() {
    let (_folder, model) = model_file(SHOP);
    let development = Development::start(&["--model", model.to_str().unwrap()]);
    development.put_order("1", number("10")).await;
    development.spent("10").await;
    development.client.delete_table().table_name(STATE).send().await.unwrap();
    development.put_order("2", number("5")).await;
    development
        .reports("AfterwriteState: the table does not exist. aggregator gets no changes of Corner")
        .await;
    development.put_order("3", number("1")).await;
    create(&development, STATE, None).await;
    // The table's stream is delivered from its first change.
    development.spent("16").await;
    development.put_order("3", number("2")).await;
    development.spent("17").await;
    development.stop();
}
