//! A bucket as the traits of object stores.

use afterwrite_model::record::Timestamp;
use afterwrite_model::{Error, ErrorKind};
use aws_sdk_s3::primitives::ByteStream;
use aws_sdk_s3::types::{Delete, ObjectIdentifier};

use super::{ObjectRange, S3Bucket};
use crate::{Bucket, ListedObject, ObjectBody, ObjectChunks, ObjectStore, PutOutcome};

/// How often a conditional write is sent while S3 reports another write to the same key (409).
const MAX_CONFLICT_ATTEMPTS: usize = 4;

/// DeleteObjects' limit on the keys of one request.
const MAX_DELETE_KEYS: usize = 1000;

impl ObjectStore for S3Bucket {
    async fn put(&self, key: &str, body: Vec<u8>) -> Result<(), Error> {
        let request = self.request("PutObject", "s3:PutObject");
        // The SDK's futures are too large to be part of the caller's.
        let limit = Self::attempt_limit(u64::try_from(body.len()).unwrap_or(u64::MAX));
        let put = self.put_object(key, ByteStream::from(body)).customize().config_override(limit);
        let put = Box::pin(put.send());
        put.await.map(drop).map_err(|error| request.error(&error))
    }
}

impl Bucket for S3Bucket {
    async fn get(&self, key: &str) -> Result<Option<ObjectChunks>, Error> {
        Ok(self.get_part(key, &ObjectRange::Whole).await?.map(|object| object.body))
    }

    async fn get_tagged(&self, key: &str, etag: Option<&str>) -> Result<Option<ObjectChunks>, Error> {
        self.get_matching(key, etag).await
    }

    async fn put_new(&self, key: &str, body: ObjectBody) -> Result<PutOutcome, Error> {
        let request = self.request("PutObject", "s3:PutObject");
        for attempt in 1.. {
            let body = match &body {
                ObjectBody::Bytes(bytes) => ByteStream::from(bytes.clone()),
                ObjectBody::File(path) => ByteStream::from_path(path).await.map_err(|error| {
                    Error::new(ErrorKind::Configuration, "a temporary file cannot be read").caused_by(error)
                })?,
            };
            let limit = Self::attempt_limit(body.size_hint().1.unwrap_or_default());
            let put = self.put_object(key, body).if_none_match("*").customize().config_override(limit);
            let put = Box::pin(put.send());
            let Err(error) = put.await else { return Ok(PutOutcome::Written) };
            match error.raw_response().map(|response| response.status().as_u16()) {
                Some(412) => return Ok(PutOutcome::AlreadyExists),
                Some(409) if attempt < MAX_CONFLICT_ATTEMPTS => {}
                Some(409) => {
                    let message = "other requests were writing the object";
                    return Err(request.new_error(ErrorKind::Conflict, message).caused_by(error));
                }
                Some(_) | None => return Err(request.error(&error)),
            }
        }
        Ok(PutOutcome::AlreadyExists)
    }

    async fn list(&self, prefix: &str) -> Result<Vec<ListedObject>, Error> {
        let mut listed = Vec::new();
        let mut after = None;
        loop {
            let page = self.client.list_objects_v2().bucket(&*self.bucket).prefix(prefix);
            let page = page.set_continuation_token(after).customize().config_override(Self::attempt_limit(0));
            let page = Box::pin(page.send())
                .await
                .map_err(|error| self.request("ListObjectsV2", "s3:ListBucket").error(&error))?;
            listed.extend(page.contents().iter().filter_map(|object| {
                Some(ListedObject {
                    key: object.key()?.to_owned(),
                    size: u64::try_from(object.size()?).ok()?,
                    modified: Timestamp::from_epoch_ms(object.last_modified()?.to_millis().ok()?),
                    etag: object.e_tag().map(str::to_owned),
                })
            }));
            after = page.next_continuation_token().map(str::to_owned);
            if after.is_none() {
                return Ok(listed);
            }
        }
    }

    async fn delete(&self, keys: &[String]) -> Result<(), Error> {
        let request = self.request("DeleteObjects", "s3:DeleteObject");
        let unbuilt =
            |error| request.new_error(ErrorKind::Rejected, "the request could not be built").caused_by(error);
        for keys in keys.chunks(MAX_DELETE_KEYS) {
            let objects = keys.iter().map(|key| ObjectIdentifier::builder().key(key).build());
            let objects = objects.collect::<Result<Vec<_>, _>>().map_err(unbuilt)?;
            let delete = Delete::builder().set_objects(Some(objects)).quiet(true).build().map_err(unbuilt)?;
            let sent = self.client.delete_objects().bucket(&*self.bucket).delete(delete).customize();
            let sent = sent.config_override(Self::attempt_limit(0)).send();
            let response = Box::pin(sent).await.map_err(|error| request.error(&error))?;
            if let Some(failed) = response.errors().first() {
                return Err(request
                    .new_error(ErrorKind::Unavailable, "an object was not deleted")
                    .with("code", failed.code().unwrap_or("unknown"))
                    .hint("Allow s3:DeleteObject on the bucket if it is missing; the next run deletes the remaining objects"));
            }
        }
        Ok(())
    }
}
