//! The time to live of a table.

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::TimeToLiveStatus;

/// The status of a table's time to live; `None` if it cannot be read, for example without the permission.
pub(crate) async fn time_to_live(client: &Client, table: &str) -> Option<TimeToLiveStatus> {
    let described = Box::pin(client.describe_time_to_live().table_name(table).send()).await.ok()?;
    let status = described.time_to_live_description.and_then(|description| description.time_to_live_status);
    Some(status.unwrap_or(TimeToLiveStatus::Disabled))
}
