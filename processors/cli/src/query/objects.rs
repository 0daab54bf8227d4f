//! A read-only bucket for DataFusion, through the AWS SDK: with the same credentials, endpoints and retries as the rest of the
//! project.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use afterwrite_model::Error;
use afterwrite_model::record::Timestamp;
use afterwrite_services::Bucket as _;
use afterwrite_services::config::s3_client;
use afterwrite_services::s3::{ObjectPart, ObjectRange, S3Bucket};
use async_trait::async_trait;
use aws_sdk_s3::Client;
use futures::stream::{self, BoxStream, StreamExt as _, TryStreamExt as _};
use object_store::path::Path;
use object_store::{
    Attributes, CopyOptions, GetOptions, GetRange, GetResult, GetResultPayload, ListResult, MultipartUpload,
    ObjectMeta, ObjectStore, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};

/// An S3 bucket that can only be read.
#[derive(Clone, Debug)]
pub(super) struct ReadOnlyBucket {
    bucket: S3Bucket,
    name: Arc<str>,
}

impl ReadOnlyBucket {
    pub(super) async fn open(name: &str) -> Result<Self, Error> {
        Ok(Self::over(s3_client().await?, name))
    }

    pub(super) fn over(client: Client, name: &str) -> Self {
        let name: Arc<str> = Arc::from(name);
        Self { bucket: S3Bucket::retrying(client, Arc::clone(&name)), name }
    }

    async fn listed(self, prefix: Option<Path>) -> Result<Vec<ObjectMeta>> {
        // A prefix ends at a `/`: `datasets/a` does not match `datasets/ab/…`.
        let prefix = prefix.filter(|prefix| !prefix.as_ref().is_empty());
        let prefix = prefix.map(|prefix| format!("{prefix}/")).unwrap_or_default();
        let listed = self.bucket.list(&prefix).await.map_err(failed)?;
        let listed = listed.into_iter().map(|object| {
            Ok(ObjectMeta {
                location: Path::parse(&object.key)?,
                last_modified: time(object.modified).into(),
                size: object.size,
                e_tag: None,
                version: None,
            })
        });
        listed.collect()
    }
}

impl fmt::Display for ReadOnlyBucket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "s3://{}", self.name)
    }
}

#[async_trait]
impl ObjectStore for ReadOnlyBucket {
    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        let part = match &options.range {
            None => ObjectRange::Whole,
            Some(GetRange::Bounded(range)) => ObjectRange::Bytes(range.clone()),
            Some(GetRange::Offset(start)) => ObjectRange::From(*start),
            Some(GetRange::Suffix(bytes)) => ObjectRange::Last(*bytes),
        };
        let key = location.as_ref();
        let found = if options.head {
            self.bucket.head(key).await
        } else {
            Box::pin(self.bucket.get_part(key, &part)).await
        };
        let found = found.map_err(failed)?.ok_or_else(|| object_store::Error::NotFound {
            path: key.to_owned(),
            source: "the bucket has no such object".into(),
        })?;
        let ObjectPart { size, modified, e_tag, range, body } = found;
        let last_modified = time(modified).into();
        let meta = ObjectMeta { location: location.clone(), last_modified, size, e_tag, version: None };
        options.check_preconditions(&meta)?;
        let payload = GetResultPayload::Stream(body.map_err(failed).boxed());
        Ok(GetResult { payload, meta, range, attributes: Attributes::default() })
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        let listed = self.clone().listed(prefix.cloned());
        stream::once(listed).map_ok(|listed| stream::iter(listed).map(Ok)).try_flatten().boxed()
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        let root = prefix.cloned().unwrap_or_default();
        let (mut objects, mut folders) = (Vec::new(), BTreeSet::new());
        for object in Box::pin(self.clone().listed(prefix.cloned())).await? {
            let mut parts = object.location.prefix_match(&root).into_iter().flatten();
            match (parts.next(), parts.next()) {
                (Some(folder), Some(_)) => {
                    folders.insert(root.clone().join(folder));
                }
                (Some(_) | None, _) => {
                    drop(parts);
                    objects.push(object);
                }
            }
        }
        Ok(ListResult { common_prefixes: folders.into_iter().collect(), objects })
    }

    async fn put_opts(&self, _: &Path, _: PutPayload, _: PutOptions) -> Result<PutResult> {
        Err(read_only("put"))
    }

    async fn put_multipart_opts(&self, _: &Path, _: PutMultipartOptions) -> Result<Box<dyn MultipartUpload>> {
        Err(read_only("put_multipart"))
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        locations.and_then(|_| async { Err(read_only("delete")) }).boxed()
    }

    async fn copy_opts(&self, _: &Path, _: &Path, _: CopyOptions) -> Result<()> {
        Err(read_only("copy"))
    }
}

fn failed(error: Error) -> object_store::Error {
    object_store::Error::Generic { store: "S3", source: Box::new(error) }
}

fn read_only(operation: &str) -> object_store::Error {
    let implementer = "a read-only bucket".to_owned();
    object_store::Error::NotImplemented { operation: operation.to_owned(), implementer }
}

fn time(time: Timestamp) -> SystemTime {
    // No object is older than S3.
    SystemTime::UNIX_EPOCH + Duration::from_millis(u64::try_from(time.epoch_ms()).unwrap_or(0))
}
