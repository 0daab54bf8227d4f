//! Pages of a scan, and descriptions of tables.

use std::sync::Arc;

use afterwrite_ledger::tables::{
    IndexProjection, RecoveryState, ScanPage, ScanRequest, TableIndex, TableSummary,
};
use afterwrite_model::Error;
use afterwrite_model::clock::{Clock as _, SystemClock};
use afterwrite_model::record::Timestamp;
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::{
    GlobalSecondaryIndexDescription, KeySchemaElement, PointInTimeRecoveryStatus, Projection, ProjectionType,
    ReturnConsumedCapacity, TableDescription,
};

use super::fault::TableRequest;
use super::value::{item_from_sdk, item_to_sdk};

/// A page of a segment.
pub(super) async fn scan(client: &Client, scan: &ScanRequest) -> Result<ScanPage, Error> {
    let request =
        TableRequest { action: "Scan", permission: "dynamodb:Scan", key: None, tables: &scan.table };
    let count = |number: u32| i32::try_from(number).unwrap_or(i32::MAX);
    let call = client
        .scan()
        .table_name(&*scan.table)
        .segment(count(scan.segment))
        .total_segments(count(scan.segments))
        .consistent_read(scan.is_consistent)
        .set_limit(scan.page_items.map(count))
        .set_exclusive_start_key(scan.start_after.as_ref().map(item_to_sdk))
        .return_consumed_capacity(ReturnConsumedCapacity::Total);
    let page = Box::pin(call.send()).await.map_err(|error| request.fault(&error).into_error(request))?;
    let units = page.consumed_capacity.and_then(|capacity| capacity.capacity_units).unwrap_or(0.0);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a page consumes at most some hundred units"
    )]
    let read_units = units.ceil() as u64;
    let next = page.last_evaluated_key.filter(|key| !key.is_empty()).map(item_from_sdk).transpose()?;
    let items = page.items.unwrap_or_default().into_iter().map(item_from_sdk).collect::<Result<_, _>>()?;
    Ok(ScanPage { items, read_units, next })
}

/// The account in the ARNs of emulators. No account of AWS has this number.
const EMULATED_ACCOUNT: &str = ":000000000000:";

/// Describes a table.
pub(super) async fn describe(client: &Client, table: &str) -> Result<TableSummary, Error> {
    let request = TableRequest {
        action: "DescribeTable",
        permission: "dynamodb:DescribeTable",
        key: None,
        tables: table,
    };
    let described_at = SystemClock.now();
    let call = client.describe_table().table_name(table);
    let described = Box::pin(call.send()).await;
    let described = described.map_err(|error| request.fault(&error).into_error(request))?.table;
    let arn = described.as_ref().and_then(|table| table.table_arn()).unwrap_or_default();
    let recovery =
        if arn.contains(EMULATED_ACCOUNT) { RecoveryState::Emulated } else { recovery(client, table).await };
    let size = |number: Option<i64>| number.and_then(|number| u64::try_from(number).ok()).unwrap_or(0);
    Ok(TableSummary {
        id: described.as_ref().and_then(|table| table.table_id.clone()),
        arn: described.as_ref().and_then(table_arn),
        created_at: described
            .as_ref()
            .and_then(|table| table.creation_date_time().map(|at| Timestamp::from_epoch_seconds(at.secs()))),
        items: size(described.as_ref().and_then(|table| table.item_count)),
        bytes: size(described.as_ref().and_then(|table| table.table_size_bytes)),
        indexes: described.as_ref().map(table_indexes).unwrap_or_default(),
        stream_label: described.and_then(|table| table.latest_stream_label),
        recovery,
        described_at,
    })
}

/// The view type of a table's stream; `None` if it has none.
pub(super) async fn stream_view(client: &Client, table: &str) -> Result<Option<String>, Error> {
    let request = TableRequest {
        action: "DescribeTable",
        permission: "dynamodb:DescribeTable",
        key: None,
        tables: table,
    };
    let described = Box::pin(client.describe_table().table_name(table).send()).await;
    let described = described.map_err(|error| request.fault(&error).into_error(request))?.table;
    let stream = described.and_then(|table| table.stream_specification);
    let view = stream.filter(|stream| stream.stream_enabled).and_then(|stream| stream.stream_view_type);
    Ok(view.map(|view| view.as_str().to_owned()))
}

/// The ARN. An emulator may name another region here than in the ARNs of its streams, which change records have.
fn table_arn(table: &TableDescription) -> Option<String> {
    let of_stream = table.latest_stream_arn().and_then(|arn| arn.split_once("/stream/"));
    of_stream.map(|(arn, _)| arn).or(table.table_arn()).map(str::to_owned)
}

/// The global secondary indexes.
fn table_indexes(table: &TableDescription) -> Vec<TableIndex> {
    let names = |keys: &[KeySchemaElement]| -> Vec<Arc<str>> {
        keys.iter().map(|key| Arc::from(key.attribute_name())).collect()
    };
    let table_keys = names(table.key_schema());
    let index = |index: &GlobalSecondaryIndexDescription| {
        let keys = names(index.key_schema());
        let projection = index.projection();
        let copied = projection.map_or(&[][..], Projection::non_key_attributes).iter();
        let attributes = || {
            let copied = copied.map(|name| Arc::from(name.as_str()));
            IndexProjection::Attributes(copied.chain(table_keys.iter().chain(&keys).cloned()).collect())
        };
        let projection = match projection.and_then(Projection::projection_type) {
            Some(ProjectionType::Include | ProjectionType::KeysOnly) => attributes(),
            Some(_) | None => IndexProjection::All,
        };
        TableIndex { keys, projection }
    };
    table.global_secondary_indexes().iter().map(index).collect()
}

/// Any error leaves it unknown: the permission `dynamodb:DescribeContinuousBackups` is optional, and emulators lack the request.
async fn recovery(client: &Client, table: &str) -> RecoveryState {
    let call = client.describe_continuous_backups().table_name(table);
    let Ok(described) = Box::pin(call.send()).await else { return RecoveryState::Unknown };
    let description = described.continuous_backups_description;
    let recovery = description.and_then(|backups| backups.point_in_time_recovery_description);
    match recovery.and_then(|recovery| recovery.point_in_time_recovery_status) {
        Some(PointInTimeRecoveryStatus::Enabled) => RecoveryState::Enabled,
        Some(PointInTimeRecoveryStatus::Disabled) => RecoveryState::Disabled,
        Some(_) | None => RecoveryState::Unknown,
    }
}
