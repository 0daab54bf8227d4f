//! The folder of a bucket, and the keys that the name of a file can have.

use std::ffi::OsStr;
use std::path::{Component, Path, PathBuf};

use s3s::dto::{DeleteObjectsInput, Error};
use s3s::{S3Result, s3_error};

/// The longest name of a file in bytes.
const LONGEST_NAME: usize = 255;

/// The folder of a bucket.
///
/// # Errors
/// `NoSuchBucket` if it does not exist.
pub(super) fn existing_bucket(folder: &Path, name: &str) -> S3Result<PathBuf> {
    let bucket = folder.join(name);
    let is_there = bucket.is_dir();
    is_there.then_some(bucket).ok_or_else(|| s3_error!(NoSuchBucket, "The specified bucket does not exist"))
}

/// Refuses a key that is no path of a file: another key, or another bucket, would have the same file.
pub(super) fn check_key(key: &str) -> S3Result<()> {
    if key.split('/').all(is_file_name) {
        return Ok(());
    }
    Err(s3_error!(
        InvalidArgument,
        "The embedded S3 keeps objects as files: no part of a key between slashes is empty, `.` or `..`, or longer than {LONGEST_NAME} bytes"
    ))
}

/// Takes the keys that are no paths of files out of a deletion, each as an error of the response.
pub(super) fn take_wrong_keys(input: &mut DeleteObjectsInput) -> Vec<Error> {
    let mut errors = Vec::new();
    input.delete.objects.retain(|object| match check_key(&object.key) {
        Ok(()) => true,
        Err(error) => {
            errors.push(Error {
                code: Some(error.code().as_str().to_owned()),
                key: Some(object.key.clone()),
                message: error.message().map(str::to_owned),
                version_id: object.version_id.clone(),
            });
            false
        }
    });
    errors
}

/// Whether a part of a key can be the name of a file or a folder.
pub(super) fn is_file_name(part: &str) -> bool {
    let only = Path::new(part).components().next();
    only == Some(Component::Normal(OsStr::new(part))) && part.len() <= LONGEST_NAME
}
