//! Parts of objects, for readers that look for what they need: a Parquet file's footer first, then the columns that are asked for.

use std::ops::Range;
use std::sync::Arc;

use aws_sdk_s3::primitives::{ByteStream, DateTime};
use futures::stream::{StreamExt as _, try_unfold};

use super::{ObjectChunks, S3Bucket};
use crate::record::Timestamp;
use crate::{Error, ErrorKind};

/// Which bytes of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ObjectRange {
    /// All of them.
    Whole,
    /// These; what lies beyond the end is left out.
    Bytes(Range<u64>),
    /// All from here on.
    From(u64),
    /// So many at the end.
    Last(u64),
}

/// A part of an object, and what the bucket knows of the whole.
pub struct ObjectPart {
    /// The whole object's size in bytes.
    pub size: u64,
    /// When it was written.
    pub modified: Timestamp,
    /// What tells this content from any other that the key has had.
    pub e_tag: Option<String>,
    /// Which bytes these are.
    pub range: Range<u64>,
    /// The bytes.
    pub body: ObjectChunks,
}

impl S3Bucket {
    /// Reads a part of an object; `None` if there is no such object.
    ///
    /// # Errors
    /// As [`super::ObjectStore::put`]; `Rejected` for a part that lies beyond the end.
    pub async fn get_part(&self, key: &str, part: &ObjectRange) -> Result<Option<ObjectPart>, Error> {
        let range = match part {
            ObjectRange::Whole => None,
            // A range's last byte is named, and belongs to it.
            ObjectRange::Bytes(range) => {
                Some(format!("bytes={}-{}", range.start, range.end.saturating_sub(1)))
            }
            ObjectRange::From(start) => Some(format!("bytes={start}-")),
            ObjectRange::Last(bytes) => Some(format!("bytes=-{bytes}")),
        };
        let get = self.client.get_object().bucket(&*self.bucket).key(key).set_range(range);
        let object = match Box::pin(get.send()).await {
            Ok(object) => object,
            Err(error) if error.as_service_error().is_some_and(|error| error.is_no_such_key()) => {
                return Ok(None);
            }
            Err(error) => return Err(self.request("GetObject", "s3:GetObject").error(&error)),
        };
        let length = object.content_length().and_then(|length| u64::try_from(length).ok()).unwrap_or(0);
        let (start, size) = match object.content_range() {
            None => (0, length),
            Some(told) => range_told(told).ok_or_else(|| {
                Error::new(ErrorKind::Unavailable, "the bucket did not say which part of an object it sent")
                    .with("bucket", &*self.bucket)
            })?,
        };
        Ok(Some(ObjectPart {
            size,
            modified: modified(object.last_modified()),
            e_tag: object.e_tag().map(str::to_owned),
            range: start..start + length,
            body: self.chunks(object.body),
        }))
    }

    /// What the bucket knows of an object: as [`S3Bucket::get_part`] tells it, and no bytes.
    ///
    /// # Errors
    /// As [`super::ObjectStore::put`].
    pub async fn head(&self, key: &str) -> Result<Option<ObjectPart>, Error> {
        let head = self.client.head_object().bucket(&*self.bucket).key(key);
        let object = match Box::pin(head.send()).await {
            Ok(object) => object,
            Err(error) if error.as_service_error().is_some_and(|error| error.is_not_found()) => {
                return Ok(None);
            }
            Err(error) => return Err(self.request("HeadObject", "s3:GetObject").error(&error)),
        };
        Ok(Some(ObjectPart {
            size: object.content_length().and_then(|length| u64::try_from(length).ok()).unwrap_or(0),
            modified: modified(object.last_modified()),
            e_tag: object.e_tag().map(str::to_owned),
            range: 0..0,
            body: futures::stream::empty().boxed(),
        }))
    }

    /// A body as it arrives.
    pub(super) fn chunks(&self, body: ByteStream) -> ObjectChunks {
        let bucket = Arc::clone(&self.bucket);
        let chunks = try_unfold(body, move |mut body| {
            let bucket = Arc::clone(&bucket);
            async move {
                match body.try_next().await {
                    Ok(chunk) => Ok(chunk.map(|chunk| (chunk, body))),
                    Err(error) => Err(Error::new(ErrorKind::Unavailable, "reading an object broke off")
                        .with("bucket", &*bucket)
                        .caused_by(error)),
                }
            }
        });
        chunks.boxed()
    }
}

fn modified(told: Option<&DateTime>) -> Timestamp {
    Timestamp::from_epoch_ms(told.and_then(|time| time.to_millis().ok()).unwrap_or(0))
}

/// The first byte and the whole size of `bytes 0-99/1234`.
fn range_told(told: &str) -> Option<(u64, u64)> {
    let (range, size) = told.strip_prefix("bytes ")?.split_once('/')?;
    Some((range.split_once('-')?.0.parse().ok()?, size.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_says_which_bytes_it_sent() {
        assert_eq!(range_told("bytes 10-99/1234"), Some((10, 1234)));
        for unfit in ["bytes 10-99/*", "bytes */1234", "items 1-2/3", ""] {
            assert_eq!(range_told(unfit), None, "{unfit}");
        }
    }
}
