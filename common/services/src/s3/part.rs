//! Parts of objects, for readers that need a few ranges: a Parquet file's footer first, then the requested columns.

use std::ops::Range;
use std::sync::Arc;

use afterwrite_model::record::Timestamp;
use afterwrite_model::{Error, ErrorKind};
use aws_sdk_s3::operation::get_object::GetObjectOutput;
use aws_sdk_s3::operation::get_object::builders::GetObjectFluentBuilder;
use aws_sdk_s3::primitives::{ByteStream, DateTime};
use futures::stream::{StreamExt as _, try_unfold};

use super::S3Bucket;
use crate::ObjectChunks;

/// A range of an object's bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ObjectRange {
    /// The whole object.
    Whole,
    /// These bytes, as far as they exist.
    Bytes(Range<u64>),
    /// All bytes from this position.
    From(u64),
    /// This many bytes at the end.
    Last(u64),
}

/// A part of an object, with the metadata of the whole.
pub struct ObjectPart {
    /// The whole object's size in bytes.
    pub size: u64,
    /// When it was written.
    pub modified: Timestamp,
    /// Identifies this content among all contents that the key has had.
    pub e_tag: Option<String>,
    /// The position of the bytes in the object.
    pub range: Range<u64>,
    /// The bytes.
    pub body: ObjectChunks,
}

impl S3Bucket {
    /// Reads a part of an object; `None` if the object does not exist.
    ///
    /// # Errors
    /// As [`ObjectStore::put`](crate::ObjectStore::put); `Rejected` for a range beyond the end.
    pub async fn get_part(&self, key: &str, part: &ObjectRange) -> Result<Option<ObjectPart>, Error> {
        let range = match part {
            ObjectRange::Whole => None,
            // The last byte of an HTTP range is inclusive.
            ObjectRange::Bytes(range) => {
                Some(format!("bytes={}-{}", range.start, range.end.saturating_sub(1)))
            }
            ObjectRange::From(start) => Some(format!("bytes={start}-")),
            ObjectRange::Last(bytes) => Some(format!("bytes=-{bytes}")),
        };
        let Some(object) = self.object(self.client.get_object().key(key).set_range(range)).await? else {
            return Ok(None);
        };
        let length = object.content_length().and_then(|length| u64::try_from(length).ok()).unwrap_or(0);
        let (start, size) = match object.content_range() {
            None => (0, length),
            Some(header) => parse_content_range(header).ok_or_else(|| {
                let request = self.request("GetObject", "s3:GetObject");
                request.new_error(ErrorKind::Unavailable, "the response has an unreadable Content-Range")
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

    /// Reads an object if it has this entity tag; `None` if it has another, or does not exist.
    pub(super) async fn get_matching(
        &self,
        key: &str,
        etag: Option<&str>,
    ) -> Result<Option<ObjectChunks>, Error> {
        let get = self.client.get_object().key(key).set_if_match(etag.map(str::to_owned));
        Ok(self.object(get).await?.map(|object| self.chunks(object.body)))
    }

    /// The response to a request for an object of this bucket; `None` if the object does not exist, or has another entity tag than the request
    /// demands (412).
    async fn object(&self, get: GetObjectFluentBuilder) -> Result<Option<GetObjectOutput>, Error> {
        match Box::pin(get.bucket(&*self.bucket).send()).await {
            Ok(object) => Ok(Some(object)),
            Err(error) if error.as_service_error().is_some_and(|error| error.is_no_such_key()) => Ok(None),
            Err(error) if error.raw_response().is_some_and(|response| response.status().as_u16() == 412) => {
                Ok(None)
            }
            Err(error) => Err(self.request("GetObject", "s3:GetObject").error(&error)),
        }
    }

    /// Reads an object's metadata: as [`S3Bucket::get_part`], without bytes.
    ///
    /// # Errors
    /// As [`ObjectStore::put`](crate::ObjectStore::put).
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

    /// A body's chunks as they arrive.
    fn chunks(&self, body: ByteStream) -> ObjectChunks {
        let bucket = Arc::clone(&self.bucket);
        let chunks = try_unfold(body, move |mut body| {
            let bucket = Arc::clone(&bucket);
            async move {
                match body.try_next().await {
                    Ok(chunk) => Ok(chunk.map(|chunk| (chunk, body))),
                    Err(error) => Err(Error::new(ErrorKind::Unavailable, "an object's body ended early")
                        .with("bucket", &*bucket)
                        .caused_by(error)),
                }
            }
        });
        chunks.boxed()
    }
}

fn modified(time: Option<&DateTime>) -> Timestamp {
    Timestamp::from_epoch_ms(time.and_then(|time| time.to_millis().ok()).unwrap_or(0))
}

/// The first byte and the object's size in `bytes 0-99/1234`.
fn parse_content_range(header: &str) -> Option<(u64, u64)> {
    let (range, size) = header.strip_prefix("bytes ")?.split_once('/')?;
    Some((range.split_once('-')?.0.parse().ok()?, size.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_content_range_has_a_start_and_a_size() {
        assert_eq!(parse_content_range("bytes 10-99/1234"), Some((10, 1234)));
        for malformed in ["bytes 10-99/*", "bytes */1234", "items 1-2/3", ""] {
            assert_eq!(parse_content_range(malformed), None, "{malformed}");
        }
    }
}
