//! Buckets.

mod bucket;
mod memory;
mod part;

use std::future::Future;
use std::sync::Arc;

use aws_sdk_s3::Client;
use aws_sdk_s3::config::retry::RetryConfig;
use aws_sdk_s3::operation::put_object::builders::PutObjectFluentBuilder;
use aws_sdk_s3::primitives::ByteStream;

pub use self::bucket::{Bucket, ListedObject, ObjectBody, ObjectChunks, PutOutcome};
pub use self::memory::MemoryObjects;
pub use self::part::{ObjectPart, ObjectRange};
use super::service::ServiceRequest;
use crate::record::Timestamp;
use crate::{Error, ErrorKind};

/// A bucket. Putting the same object twice is the same as once.
pub trait ObjectStore: Send + Sync {
    /// Writes an object, replacing what is there under this key. A request is sent once.
    ///
    /// # Errors
    /// `Unavailable` when throttled, unreachable or not answered (the object may have been written), `Configuration` for a missing
    /// bucket or permission, `Rejected` for a request that would be refused again.
    fn put(&self, key: &str, body: Vec<u8>) -> impl Future<Output = Result<(), Error>> + Send;
}

impl<S: ObjectStore> ObjectStore for Arc<S> {
    fn put(&self, key: &str, body: Vec<u8>) -> impl Future<Output = Result<(), Error>> + Send {
        (**self).put(key, body)
    }
}

/// A bucket of S3, spoken to through the AWS SDK.
#[derive(Clone, Debug)]
pub struct S3Bucket {
    client: Client,
    bucket: Arc<str>,
}

/// How often a conditional write is sent while another to the same key is under way (409).
const CONFLICTS_AT_MOST: usize = 4;

/// DeleteObjects' limit.
const DELETED_AT_ONCE: usize = 1000;

impl S3Bucket {
    /// The bucket of this name. Takes a client as it is configured, but for retries: it has none.
    #[must_use]
    pub fn new(client: &Client, bucket: Arc<str>) -> Self {
        let once = client.config().to_builder().retry_config(RetryConfig::disabled()).build();
        Self { client: Client::from_conf(once), bucket }
    }

    /// The bucket of this name, through a client as it is, its retries included: whoever has nobody to report to but the operator
    /// waits for a bucket that is busy.
    #[must_use]
    pub fn retrying(client: Client, bucket: Arc<str>) -> Self {
        Self { client, bucket }
    }

    fn request(&self, action: &'static str, permission: &'static str) -> ServiceRequest<'_> {
        let variable = "AFTERWRITE_BUCKET";
        ServiceRequest { service: "S3", action, permission, kind: "bucket", name: &self.bucket, variable }
    }

    fn put_object(&self, key: &str, body: ByteStream) -> PutObjectFluentBuilder {
        self.client.put_object().bucket(&*self.bucket).key(key).body(body)
    }
}

impl ObjectStore for S3Bucket {
    async fn put(&self, key: &str, body: Vec<u8>) -> Result<(), Error> {
        let request = self.request("PutObject", "s3:PutObject");
        // A future of the SDK is too large to lie in its caller's.
        let put = Box::pin(self.put_object(key, ByteStream::from(body)).send());
        put.await.map(drop).map_err(|error| request.error(&error))
    }
}

impl Bucket for S3Bucket {
    async fn get(&self, key: &str) -> Result<Option<ObjectChunks>, Error> {
        let get = self.client.get_object().bucket(&*self.bucket).key(key);
        let object = match Box::pin(get.send()).await {
            Ok(object) => object,
            Err(error) if error.as_service_error().is_some_and(|error| error.is_no_such_key()) => {
                return Ok(None);
            }
            Err(error) => return Err(self.request("GetObject", "s3:GetObject").error(&error)),
        };
        Ok(Some(self.chunks(object.body)))
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
            let put = Box::pin(self.put_object(key, body).if_none_match("*").send());
            let Err(error) = put.await else { return Ok(PutOutcome::Written) };
            match error.raw_response().map(|response| response.status().as_u16()) {
                Some(412) => return Ok(PutOutcome::AlreadyThere),
                Some(409) if attempt < CONFLICTS_AT_MOST => {}
                Some(_) | None => return Err(request.error(&error)),
            }
        }
        Ok(PutOutcome::AlreadyThere)
    }

    async fn list(&self, prefix: &str) -> Result<Vec<ListedObject>, Error> {
        let mut listed = Vec::new();
        let mut after = None;
        loop {
            let page = self.client.list_objects_v2().bucket(&*self.bucket).prefix(prefix);
            let page = Box::pin(page.set_continuation_token(after).send())
                .await
                .map_err(|error| self.request("ListObjectsV2", "s3:ListBucket").error(&error))?;
            listed.extend(page.contents().iter().filter_map(|object| {
                Some(ListedObject {
                    key: object.key()?.to_owned(),
                    size: u64::try_from(object.size()?).ok()?,
                    modified: Timestamp::from_epoch_ms(object.last_modified()?.to_millis().ok()?),
                })
            }));
            after = page.next_continuation_token().map(str::to_owned);
            if after.is_none() {
                return Ok(listed);
            }
        }
    }

    async fn delete(&self, keys: &[String]) -> Result<(), Error> {
        use aws_sdk_s3::types::{Delete, ObjectIdentifier};
        let request = self.request("DeleteObjects", "s3:DeleteObject");
        let unfit = |error| Error::new(ErrorKind::Rejected, "no request could be made").caused_by(error);
        for keys in keys.chunks(DELETED_AT_ONCE) {
            let objects = keys.iter().map(|key| ObjectIdentifier::builder().key(key).build());
            let objects = objects.collect::<Result<Vec<_>, _>>().map_err(unfit)?;
            let delete = Delete::builder().set_objects(Some(objects)).quiet(true).build().map_err(unfit)?;
            let sent = self.client.delete_objects().bucket(&*self.bucket).delete(delete).send();
            let answer = Box::pin(sent).await.map_err(|error| request.error(&error))?;
            if let Some(refused) = answer.errors().first() {
                return Err(Error::new(ErrorKind::Unavailable, "S3 did not remove an object")
                    .with("bucket", &*self.bucket)
                    .with("code", refused.code().unwrap_or("unknown"))
                    .hint("Allow s3:DeleteObject on the bucket, if that is what is missing; what is left is removed next time"));
            }
        }
        Ok(())
    }
}
