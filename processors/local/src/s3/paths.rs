//! The folder of a bucket, and the keys that the name of a file can have.

use std::ffi::OsStr;
use std::path::{Component, Path, PathBuf};

use s3s::dto::{DeleteObjectsInput, Error};
use s3s::{S3Result, s3_error};

/// The limit of DeleteObjects.
const MOST_DELETED: usize = 1_000;
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
        "The embedded S3 keeps objects as files: no part of a key between slashes is empty, `.` or `..`, longer than {LONGEST_NAME} bytes, or has control characters"
    ))
}

/// Refuses to write an object where a folder of other objects is, or below another object.
pub(super) fn check_place(bucket: &Path, key: &str) -> S3Result<()> {
    if has_place(bucket, key) {
        return Ok(());
    }
    Err(s3_error!(
        InvalidArgument,
        "The embedded S3 keeps objects as files: an object cannot have the key of a folder of other objects, nor a key below another object"
    ))
}

/// Refuses to read or delete an object that cannot be there.
///
/// # Errors
/// `NoSuchKey`.
pub(super) fn check_object(bucket: &Path, key: &str) -> S3Result<()> {
    let is_possible = has_place(bucket, key);
    is_possible.then_some(()).ok_or_else(|| s3_error!(NoSuchKey, "The specified key does not exist"))
}

/// Whether an object of this key is or could be a file.
fn has_place(bucket: &Path, key: &str) -> bool {
    let parents = key.match_indices('/').filter_map(|(end, _)| key.get(..end));
    !bucket.join(key).is_dir() && parents.map(|parent| bucket.join(parent)).all(|parent| !parent.is_file())
}

/// Takes the keys that are no paths of files out of a deletion, each as an error of the response.
///
/// # Errors
/// `MalformedXML` for more than 1,000 keys, or a key that a response cannot name.
pub(super) fn take_wrong_keys(bucket: &Path, input: &mut DeleteObjectsInput) -> S3Result<Vec<Error>> {
    if input.delete.objects.iter().any(|object| object.key.contains(char::is_control)) {
        return Err(s3_error!(MalformedXML, "A key has control characters"));
    }
    if input.delete.objects.len() > MOST_DELETED {
        return Err(s3_error!(MalformedXML, "A request deletes at most {MOST_DELETED} objects"));
    }
    let mut errors = Vec::new();
    input.delete.objects.retain(|object| {
        match check_key(&object.key).and_then(|()| check_place(bucket, &object.key)) {
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
        }
    });
    Ok(errors)
}

/// Whether a part of a key can be the name of a file or a folder.
pub(super) fn is_file_name(part: &str) -> bool {
    let only = Path::new(part).components().next();
    only == Some(Component::Normal(OsStr::new(part)))
        && part.len() <= LONGEST_NAME
        && !part.contains(char::is_control)
}
