//! The heartbeat on its way to the datasets: the exporter stores the time of the newest one that it has exported; the compactor
//! reads it before it starts, so that everything exported up to that time is in the current tables when it ends.

use afterwrite_model::Result;
use afterwrite_model::record::Timestamp;
use afterwrite_services::Bucket;
use futures::TryStreamExt as _;

use crate::paths::EXPORTED_HEARTBEAT;

/// Stores when the newest exported heartbeat was written. An older time may follow a newer one if two exporters run at once; the
/// next heartbeat corrects it.
pub(crate) async fn store_exported(bucket: &impl Bucket, written: Timestamp) -> Result<()> {
    bucket.put(EXPORTED_HEARTBEAT, written.epoch_ms().to_string().into_bytes()).await
}

/// When the newest exported heartbeat was written; `None` if none was exported.
pub(crate) async fn exported_heartbeat(bucket: &impl Bucket) -> Result<Option<Timestamp>> {
    let Some(chunks) = bucket.get(EXPORTED_HEARTBEAT).await? else { return Ok(None) };
    let text = chunks.try_collect::<Vec<_>>().await?.concat();
    let ms = std::str::from_utf8(&text).ok().and_then(|text| text.trim().parse().ok());
    Ok(ms.map(Timestamp::from_epoch_ms))
}
