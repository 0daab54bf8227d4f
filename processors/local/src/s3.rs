//! An S3 inside this process. AWS SDK clients reach it over loopback HTTP.
//!
//! It is [s3s-fs](https://docs.rs/s3s-fs) over a folder: a temporary one, which is deleted with the server, or one that stays. Its
//! differences from AWS:
//!
//! | s3s-fs | here |
//! |---|---|
//! | two writers of one key with `If-None-Match` can both succeed | conditional writes run one after the other |
//! | a conditional write that fails is answered before its body is read, and the client sees a broken connection | the body is read first |
//! | a list walks through all folders of the bucket | it reads the folder of its prefix and the folders within it (`list`) |
//! | names in a list are not encoded, although the response states it (`encoding-type=url`) | they are encoded |
//! | a list of the prefix `/a` is that of `a` | it is empty: no key begins with a slash |
//! | a list takes a negative number of keys, and a continuation token that no list has returned | the response is `InvalidArgument` |
//! | objects in a list have no ETag and no storage class | kept |
//! | an object whose key ends with a slash is in no list | kept |
//! | putting an object into a missing bucket creates the bucket | the response is `NoSuchBucket` |
//! | an object cannot be written if the names of bucket and key have more than about 165 bytes together | kept: a file has both names |
//! | an object `z` next to an object `z/y` cannot be written | kept: keys are files, and Afterwrite never uses such keys |

mod files;
mod list;
mod paths;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use afterwrite_mapping::http::HttpServer;
use afterwrite_model::{Error, ErrorKind, Result};
use aws_config::SdkConfig;
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use hyper::header::{IF_MATCH, IF_NONE_MATCH};
use hyper::service::service_fn;
use hyper::{Method, Request};
use s3s::auth::SimpleAuth;
use s3s::service::{S3Service, S3ServiceBuilder};
use s3s_fs::FileSystem;
use tempfile::TempDir;
use tokio::sync::{Mutex, mpsc};

use self::files::BucketFiles;
use crate::sdk::{CREDENTIAL, sdk_config};

/// A running S3. [`EmbeddedS3::stop`] waits for open requests; dropping it stops it too. Its objects are deleted with it.
#[derive(Debug)]
pub struct EmbeddedS3 {
    server: HttpServer,
    /// `None` if the folder stays.
    folder: Option<TempDir>,
}

/// An object that was created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreatedObject {
    /// Its bucket.
    pub bucket: String,
    /// Its key, URL-encoded, as in a notification.
    pub key: String,
}

/// Where and how an embedded S3 runs.
#[derive(Debug, Default)]
pub struct S3Options {
    /// The folder of its objects, which stays; without it, a temporary one.
    pub folder: Option<PathBuf>,
    /// Its port on 127.0.0.1; 0 is any free one.
    pub port: u16,
    /// Takes each object that is created.
    pub created: Option<mpsc::UnboundedSender<CreatedObject>>,
}

impl EmbeddedS3 {
    /// Starts a server without buckets, on the current Tokio runtime.
    ///
    /// # Errors
    /// `Configuration` if it cannot listen or there is no temporary directory.
    pub async fn start() -> Result<Self> {
        Self::open(S3Options::default()).await
    }

    /// Starts a server with the buckets that are in its folder.
    ///
    /// # Errors
    /// `Configuration` if it cannot listen, or the folder cannot be used.
    pub async fn open(options: S3Options) -> Result<Self> {
        let S3Options { folder, port, created } = options;
        let temporary = match &folder {
            None => Some(tempfile::tempdir().map_err(no_folder)?),
            Some(folder) => {
                std::fs::create_dir_all(folder).map_err(|error| unusable_folder(folder, error))?;
                None
            }
        };
        let path = folder.or_else(|| temporary.as_ref().map(|folder| folder.path().to_owned()));
        let path = path.unwrap_or_default();
        let files =
            FileSystem::new(&path).map_err(|error| no_folder(std::io::Error::other(format!("{error:?}"))))?;
        let mut builder = S3ServiceBuilder::new(BucketFiles::new(files, path));
        builder.set_auth(SimpleAuth::from_single(CREDENTIAL, CREDENTIAL));
        let buckets =
            Arc::new(BucketService { service: builder.build(), conditional_write: Mutex::new(()), created });
        let service = service_fn(move |request| Arc::clone(&buckets).respond(request));
        let server = HttpServer::start_at("embedded S3", port, service).await?;
        Ok(Self { server, folder: temporary })
    }

    /// The server's URL: `http://127.0.0.1:<port>`.
    #[must_use]
    pub fn endpoint(&self) -> String {
        self.server.endpoint()
    }

    /// A configuration for an AWS SDK client of this server; the bucket must be part of the path.
    #[must_use]
    pub fn sdk_config(&self) -> SdkConfig {
        sdk_config(self.endpoint())
    }

    /// A client of this server.
    #[must_use]
    pub fn client(&self) -> aws_sdk_s3::Client {
        let config = aws_sdk_s3::config::Builder::from(&self.sdk_config()).force_path_style(true).build();
        aws_sdk_s3::Client::from_conf(config)
    }

    /// Creates a bucket.
    ///
    /// # Errors
    /// `Unavailable` if it exists already or cannot be created.
    pub async fn create_bucket(&self, name: &str) -> Result<()> {
        let created = Box::pin(self.client().create_bucket().bucket(name).send()).await;
        created.map(drop).map_err(|error| {
            Error::new(ErrorKind::Unavailable, "a bucket cannot be created")
                .with("bucket", name)
                .caused_by(error)
        })
    }

    /// Creates a bucket unless there is one of its name.
    ///
    /// # Errors
    /// As [`EmbeddedS3::create_bucket`].
    pub async fn ensure_bucket(&self, name: &str) -> Result<()> {
        let there = Box::pin(self.client().head_bucket().bucket(name).send()).await;
        if there.is_ok() { Ok(()) } else { self.create_bucket(name).await }
    }

    /// Stops: no new connections, open requests finish, the objects of a temporary folder are deleted.
    ///
    /// # Errors
    /// `Unavailable` if the server failed before, or its folder cannot be deleted.
    pub async fn stop(self) -> Result<()> {
        self.server.stop().await?;
        let Some(folder) = self.folder else { return Ok(()) };
        folder.close().map_err(|error| {
            Error::new(ErrorKind::Unavailable, "the folder of the embedded S3 cannot be deleted")
                .caused_by(error)
        })
    }
}

struct BucketService {
    service: S3Service,
    /// Held during a conditional write.
    conditional_write: Mutex<()>,
    created: Option<mpsc::UnboundedSender<CreatedObject>>,
}

impl BucketService {
    async fn respond(
        self: Arc<Self>,
        request: Request<Incoming>,
    ) -> Result<s3s::HttpResponse, s3s::HttpError> {
        let is_conditional =
            [IF_NONE_MATCH, IF_MATCH].iter().any(|header| request.headers().contains_key(header));
        let _turn = if is_conditional { Some(self.conditional_write.lock().await) } else { None };
        let created = self.created_by(&request);
        let request = if is_conditional { received(request).await? } else { request.map(s3s::Body::from) };
        let response = self.service.call(request).await?;
        if let Some((sender, created)) =
            self.created.as_ref().zip(created).filter(|_| response.status().is_success())
        {
            // Nobody reads notifications while the process ends.
            let _ = sender.send(created);
        }
        Ok(response)
    }

    /// The object that a request creates: a whole object, or the last step of one in parts.
    fn created_by(&self, request: &Request<Incoming>) -> Option<CreatedObject> {
        let (bucket, key) = request.uri().path().trim_start_matches('/').split_once('/')?;
        let query = request.uri().query().unwrap_or_default();
        let is_put = request.method() == Method::PUT && !query.contains("uploadId=");
        let is_completed = request.method() == Method::POST && query.contains("uploadId=");
        let is_created = (is_put || is_completed) && !key.is_empty();
        is_created.then(|| CreatedObject { bucket: bucket.to_owned(), key: key.to_owned() })
    }
}

/// The request with its whole body.
async fn received(request: Request<Incoming>) -> Result<Request<s3s::Body>, s3s::HttpError> {
    let (head, body) = request.into_parts();
    let body = body.collect().await.map_err(|error| s3s::HttpError::new(Box::new(error)))?;
    Ok(Request::from_parts(head, s3s::Body::from(body.to_bytes())))
}

fn unusable_folder(folder: &Path, error: std::io::Error) -> Error {
    Error::new(ErrorKind::Configuration, "the folder of the embedded S3 cannot be created")
        .with("folder", folder.display().to_string())
        .hint("Name a folder that can be written")
        .caused_by(error)
}

fn no_folder(error: std::io::Error) -> Error {
    Error::new(ErrorKind::Configuration, "there is no temporary directory for the embedded S3")
        .hint("Make the system's temporary directory writable")
        .caused_by(error)
}
