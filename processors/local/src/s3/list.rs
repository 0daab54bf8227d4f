//! Lists of the objects of a bucket, checked, ordered and encoded as S3 does.
//!
//! A list reads the folder of its prefix, up to the last slash, and the folders within it. s3s-fs keeps its own files outside the buckets.

use std::io;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use s3s::dto::{
    CommonPrefix, EncodingType, ListObjectsInput, ListObjectsOutput, ListObjectsV2Input, ListObjectsV2Output,
    Object, Timestamp,
};
use s3s::{S3Error, S3Result, s3_error};

use super::paths::{existing_bucket, is_file_name};

/// The names on the largest page.
const LARGEST_PAGE: i32 = 1_000;

/// A continuation token begins with it, and has the last name of the page after it.
const TOKEN_MARK: &str = "after:";

/// A version 2 list of a bucket in this folder.
pub(super) fn list_objects_v2(folder: &Path, input: ListObjectsV2Input) -> S3Result<ListObjectsV2Output> {
    let encoding = NameEncoding::read(input.encoding_type.as_ref())?;
    let after = match &input.continuation_token {
        Some(token) => name_of_token(token)?,
        None => input.start_after.clone().unwrap_or_default(),
    };
    let query = ListQuery::new(input.prefix, input.delimiter, after, input.max_keys, encoding)?;
    let page = query.page(&existing_bucket(folder, &input.bucket)?).map_err(S3Error::internal_error)?;
    Ok(ListObjectsV2Output {
        name: Some(input.bucket),
        prefix: Some(encoding.encode(&query.prefix)),
        max_keys: Some(query.max_keys),
        key_count: Some(page.length()),
        continuation_token: input.continuation_token,
        is_truncated: Some(page.next.is_some()),
        next_continuation_token: page.next.as_deref().map(token),
        contents: Some(page.objects),
        common_prefixes: Some(page.common_prefixes),
        delimiter: query.delimiter.map(|delimiter| encoding.encode(&delimiter)),
        encoding_type: input.encoding_type,
        start_after: input.start_after.map(|name| encoding.encode(&name)),
        ..ListObjectsV2Output::default()
    })
}

/// A version 1 list of a bucket in this folder.
pub(super) fn list_objects(folder: &Path, input: ListObjectsInput) -> S3Result<ListObjectsOutput> {
    let after = input.marker.unwrap_or_default();
    let encoding = NameEncoding::read(input.encoding_type.as_ref())?;
    let query = ListQuery::new(input.prefix, input.delimiter, after, input.max_keys, encoding)?;
    let page = query.page(&existing_bucket(folder, &input.bucket)?).map_err(S3Error::internal_error)?;
    Ok(ListObjectsOutput {
        name: Some(input.bucket),
        prefix: Some(encoding.encode(&query.prefix)),
        marker: Some(encoding.encode(&query.after)),
        max_keys: Some(query.max_keys),
        is_truncated: Some(page.next.is_some()),
        // Without a delimiter, the next marker is the last key.
        next_marker: page.next.filter(|_| query.delimiter.is_some()).map(|name| encoding.encode(&name)),
        contents: Some(page.objects),
        common_prefixes: Some(page.common_prefixes),
        delimiter: query.delimiter.map(|delimiter| encoding.encode(&delimiter)),
        encoding_type: input.encoding_type,
        ..ListObjectsOutput::default()
    })
}

/// The encoding of names in a response.
#[derive(Clone, Copy, Debug)]
enum NameEncoding {
    Plain,
    Url,
}

/// The parameters of a list, checked.
#[derive(Debug)]
struct ListQuery {
    prefix: String,
    /// The keys that have it after the prefix are grouped by the text up to it.
    delimiter: Option<String>,
    /// Only names after it are listed.
    after: String,
    max_keys: i32,
    encoding: NameEncoding,
}

/// A page of a list. Its names are encoded.
#[derive(Debug, Default)]
struct ListPage {
    objects: Vec<Object>,
    common_prefixes: Vec<CommonPrefix>,
    /// The last name of the page, not encoded, if more names follow.
    next: Option<String>,
}

impl NameEncoding {
    fn read(encoding: Option<&EncodingType>) -> S3Result<Self> {
        match encoding.map(EncodingType::as_str) {
            None => Ok(Self::Plain),
            Some(EncodingType::URL) => Ok(Self::Url),
            Some(_) => Err(s3_error!(InvalidArgument, "Invalid Encoding Method specified in Request")),
        }
    }

    fn encode(self, name: &str) -> String {
        /// S3 does not encode slashes.
        const ENCODED: &AsciiSet =
            &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b'*').remove(b'/');
        match self {
            Self::Plain => name.to_owned(),
            Self::Url => utf8_percent_encode(name, ENCODED).to_string(),
        }
    }
}

impl ListQuery {
    /// # Errors
    /// `InvalidArgument` for a negative number of keys.
    fn new(
        prefix: Option<String>,
        delimiter: Option<String>,
        after: String,
        max_keys: Option<i32>,
        encoding: NameEncoding,
    ) -> S3Result<Self> {
        let delimiter = delimiter.filter(|delimiter| !delimiter.is_empty());
        let max_keys = page_size(max_keys)?;
        Ok(Self { prefix: prefix.unwrap_or_default(), delimiter, after, max_keys, encoding })
    }

    fn page(&self, bucket: &Path) -> io::Result<ListPage> {
        let mut page = ListPage::default();
        let mut last: Option<String> = None;
        for key in keys_with_prefix(bucket, &self.prefix)? {
            let common_prefix = self.common_prefix(&key);
            let name = common_prefix.unwrap_or(&key);
            if name <= self.after.as_str() || last.as_deref() == Some(name) {
                continue;
            }
            if page.length() == self.max_keys {
                page.next = last;
                break;
            }
            if let Some(prefix) = common_prefix {
                let prefix = Some(self.encoding.encode(prefix));
                page.common_prefixes.push(CommonPrefix { prefix });
            } else {
                let Some(object) = self.object(bucket, &key)? else { continue };
                page.objects.push(object);
            }
            last = Some(name.to_owned());
        }
        Ok(page)
    }

    /// The key up to the first delimiter after the prefix.
    fn common_prefix<'k>(&self, key: &'k str) -> Option<&'k str> {
        let delimiter = self.delimiter.as_deref()?;
        let position = key.get(self.prefix.len()..)?.find(delimiter)?;
        key.get(..self.prefix.len() + position + delimiter.len())
    }

    /// `None` if it was deleted meanwhile.
    fn object(&self, bucket: &Path, key: &str) -> io::Result<Option<Object>> {
        let metadata = unless_missing(std::fs::symlink_metadata(bucket.join(key)))?;
        let Some(metadata) = metadata else { return Ok(None) };
        Ok(Some(Object {
            key: Some(self.encoding.encode(key)),
            last_modified: Some(Timestamp::from(metadata.modified()?)),
            size: i64::try_from(metadata.len()).ok(),
            ..Object::default()
        }))
    }
}

impl ListPage {
    fn length(&self) -> i32 {
        i32::try_from(self.objects.len() + self.common_prefixes.len()).unwrap_or(i32::MAX)
    }
}

/// The keys of a bucket that have the prefix, in the order of their bytes. Folders have another order: `a-b` is before `a/b`, `a` is not.
fn keys_with_prefix(bucket: &Path, prefix: &str) -> io::Result<Vec<String>> {
    let mut keys = Vec::new();
    let mut folders: Vec<String> = prefix_folder(prefix).into_iter().collect();
    while let Some(folder) = folders.pop() {
        let Some(entries) = unless_missing(std::fs::read_dir(bucket.join(&folder)))? else { continue };
        for entry in entries {
            let entry = entry?;
            // A name that is no UTF-8 is not from an object.
            let Ok(name) = entry.file_name().into_string() else { continue };
            let key = format!("{folder}{name}");
            if !key.starts_with(prefix) {
                continue;
            }
            match unless_missing(entry.file_type())? {
                Some(kind) if kind.is_dir() => folders.push(format!("{key}/")),
                Some(_) => keys.push(key),
                None => {}
            }
        }
    }
    keys.sort_unstable();
    Ok(keys)
}

/// The prefix up to its last slash, as a folder within the bucket. `None` if no object can be there: a part of it is empty, `.` or `..`.
fn prefix_folder(prefix: &str) -> Option<String> {
    let (folder, _) = prefix.split_at(prefix.rfind('/').map_or(0, |position| position + 1));
    folder.split_terminator('/').all(is_file_name).then(|| folder.to_owned())
}

/// `None` if there is no such file or folder, because of its name or because it was deleted meanwhile.
fn unless_missing<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    const MISSING: [io::ErrorKind; 4] = [
        io::ErrorKind::NotFound,
        io::ErrorKind::NotADirectory,
        io::ErrorKind::InvalidFilename,
        io::ErrorKind::InvalidInput,
    ];
    match result {
        Ok(found) => Ok(Some(found)),
        Err(error) if MISSING.contains(&error.kind()) => Ok(None),
        Err(error) => Err(error),
    }
}

fn page_size(max_keys: Option<i32>) -> S3Result<i32> {
    let max_keys = max_keys.unwrap_or(LARGEST_PAGE);
    if max_keys < 0 {
        return Err(s3_error!(
            InvalidArgument,
            "Argument max-keys must be an integer between 0 and 2147483647"
        ));
    }
    Ok(max_keys.min(LARGEST_PAGE))
}

fn token(name: &str) -> String {
    STANDARD.encode(format!("{TOKEN_MARK}{name}"))
}

fn name_of_token(token: &str) -> S3Result<String> {
    let text = STANDARD.decode(token).ok().and_then(|bytes| String::from_utf8(bytes).ok());
    let name = text.as_deref().and_then(|text| text.strip_prefix(TOKEN_MARK));
    name.map(str::to_owned)
        .ok_or_else(|| s3_error!(InvalidArgument, "The continuation token provided is incorrect"))
}
