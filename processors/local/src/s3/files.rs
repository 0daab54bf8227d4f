//! The operations of S3 over a folder. s3s-fs carries out every operation but lists, and a write into a missing bucket is refused before.

use std::path::{Path, PathBuf};

use async_trait::async_trait;
use s3s::{S3, S3Error, S3Request, S3Response, S3Result, dto};
use s3s_fs::FileSystem;

use super::list;
use super::paths::{check_key, check_object, check_place, existing_bucket, take_wrong_keys};

/// A folder with a folder for each bucket.
#[derive(Debug)]
pub(super) struct BucketFiles {
    files: FileSystem,
    folder: PathBuf,
}

impl BucketFiles {
    pub(super) fn new(files: FileSystem, folder: PathBuf) -> Self {
        Self { files, folder }
    }

    /// Reads the folder on a thread that may block.
    async fn read<T: Send + 'static>(
        &self,
        read: impl FnOnce(&Path) -> S3Result<T> + Send + 'static,
    ) -> S3Result<S3Response<T>> {
        let folder = self.folder.clone();
        let output =
            tokio::task::spawn_blocking(move || read(&folder)).await.map_err(S3Error::internal_error)??;
        Ok(S3Response::new(output))
    }
}

/// Implements the operations. s3s-fs carries out an operation under `passed`, `keyed` or `written`. An operation under `keyed` or `written` demands a key
/// that the name of a file can have, as `DeleteObjects` does of each key; one under `written` also demands that the bucket exists, because s3s-fs creates
/// the bucket of an object that is written.
macro_rules! operations {
    (
        passed { $($operation:ident($input:ident) -> $output:ident,)* }
        keyed { $($keyed:ident($keyed_input:ident) -> $keyed_output:ident,)* }
        written { $($write:ident($write_input:ident) -> $write_output:ident,)* }
        listed { $($list:ident($list_input:ident) -> $list_output:ident,)* }
    ) => {
        #[async_trait]
        impl S3 for BucketFiles {
            $(
                async fn $operation(
                    &self,
                    request: S3Request<dto::$input>,
                ) -> S3Result<S3Response<dto::$output>> {
                    self.files.$operation(request).await
                }
            )*

            $(
                async fn $keyed(
                    &self,
                    request: S3Request<dto::$keyed_input>,
                ) -> S3Result<S3Response<dto::$keyed_output>> {
                    check_key(&request.input.key)?;
                    check_object(&self.folder.join(&request.input.bucket), &request.input.key)?;
                    self.files.$keyed(request).await
                }
            )*

            $(
                async fn $write(
                    &self,
                    request: S3Request<dto::$write_input>,
                ) -> S3Result<S3Response<dto::$write_output>> {
                    let bucket = existing_bucket(&self.folder, &request.input.bucket)?;
                    check_key(&request.input.key)?;
                    check_place(&bucket, &request.input.key)?;
                    self.files.$write(request).await
                }
            )*

            $(
                async fn $list(
                    &self,
                    request: S3Request<dto::$list_input>,
                ) -> S3Result<S3Response<dto::$list_output>> {
                    self.read(move |folder| list::$list(folder, request.input)).await
                }
            )*

            async fn delete_objects(
                &self,
                mut request: S3Request<dto::DeleteObjectsInput>,
            ) -> S3Result<S3Response<dto::DeleteObjectsOutput>> {
                let bucket = existing_bucket(&self.folder, &request.input.bucket)?;
                let errors = take_wrong_keys(&bucket, &mut request.input)?;
                let is_quiet = request.input.delete.quiet == Some(true);
                let mut response = self.files.delete_objects(request).await?;
                response.output.errors.get_or_insert_default().extend(errors);
                response.output.deleted.take_if(|_| is_quiet);
                Ok(response)
            }
        }
    };
}

operations! {
    passed {
        abort_multipart_upload(AbortMultipartUploadInput) -> AbortMultipartUploadOutput,
        create_bucket(CreateBucketInput) -> CreateBucketOutput,
        delete_bucket(DeleteBucketInput) -> DeleteBucketOutput,
        get_bucket_location(GetBucketLocationInput) -> GetBucketLocationOutput,
        head_bucket(HeadBucketInput) -> HeadBucketOutput,
        list_buckets(ListBucketsInput) -> ListBucketsOutput,
        list_parts(ListPartsInput) -> ListPartsOutput,
    }
    keyed {
        delete_object(DeleteObjectInput) -> DeleteObjectOutput,
        get_object(GetObjectInput) -> GetObjectOutput,
        head_object(HeadObjectInput) -> HeadObjectOutput,
    }
    written {
        complete_multipart_upload(CompleteMultipartUploadInput) -> CompleteMultipartUploadOutput,
        copy_object(CopyObjectInput) -> CopyObjectOutput,
        create_multipart_upload(CreateMultipartUploadInput) -> CreateMultipartUploadOutput,
        put_object(PutObjectInput) -> PutObjectOutput,
        upload_part(UploadPartInput) -> UploadPartOutput,
        upload_part_copy(UploadPartCopyInput) -> UploadPartCopyOutput,
    }
    listed {
        list_objects(ListObjectsInput) -> ListObjectsOutput,
        list_objects_v2(ListObjectsV2Input) -> ListObjectsV2Output,
    }
}
