//! Reading whole objects.

use afterwrite_model::Result;
use afterwrite_services::Bucket;
use bytes::{Bytes, BytesMut};
use futures::TryStreamExt as _;

/// The content of an object; `None` if it does not exist.
pub(crate) async fn read_object<B: Bucket>(bucket: &B, key: &str) -> Result<Option<Bytes>> {
    let Some(mut chunks) = bucket.get(key).await? else { return Ok(None) };
    let mut content = BytesMut::new();
    while let Some(chunk) = chunks.try_next().await? {
        content.extend_from_slice(&chunk);
    }
    Ok(Some(content.freeze()))
}
