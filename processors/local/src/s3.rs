//! An S3 inside this process. AWS SDK clients reach it over loopback HTTP.
//!
//! It is [s3s-fs](https://docs.rs/s3s-fs) over a temporary folder that is deleted with the server. Its differences from AWS:
//!
//! | s3s-fs | here |
//! |---|---|
//! | two writers of one key with `If-None-Match` can both succeed | conditional writes run one after the other |
//! | putting an object into a missing bucket creates the bucket | the response is `NoSuchBucket` |
//! | an object `z` next to an object `z/y` cannot be written | kept: keys are files, and Afterwrite never uses such keys |

use std::path::PathBuf;
use std::sync::Arc;

use afterwrite::{Error, ErrorKind, Result};
use afterwrite_mapping::http::HttpServer;
use aws_config::SdkConfig;
use hyper::body::Incoming;
use hyper::header::{CONTENT_TYPE, HeaderValue, IF_MATCH, IF_NONE_MATCH};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use s3s::auth::SimpleAuth;
use s3s::service::{S3Service, S3ServiceBuilder};
use s3s_fs::FileSystem;
use tempfile::TempDir;
use tokio::sync::Mutex;

use crate::sdk::{CREDENTIAL, sdk_config};

/// A running S3. [`EmbeddedS3::stop`] waits for open requests; dropping it stops it too. Its objects are deleted with it.
#[derive(Debug)]
pub struct EmbeddedS3 {
    server: HttpServer,
    folder: TempDir,
}

impl EmbeddedS3 {
    /// Starts a server without buckets, on the current Tokio runtime.
    ///
    /// # Errors
    /// `Configuration` if it cannot listen or there is no temporary directory.
    pub async fn start() -> Result<Self> {
        let folder = tempfile::tempdir().map_err(no_folder)?;
        let files = FileSystem::new(folder.path())
            .map_err(|error| no_folder(std::io::Error::other(format!("{error:?}"))))?;
        let mut builder = S3ServiceBuilder::new(files);
        builder.set_auth(SimpleAuth::from_single(CREDENTIAL, CREDENTIAL));
        let buckets = Arc::new(BucketService {
            service: builder.build(),
            folder: folder.path().to_owned(),
            conditional_write: Mutex::new(()),
        });
        let service = service_fn(move |request| Arc::clone(&buckets).respond(request));
        Ok(Self { server: HttpServer::start("embedded S3", service).await?, folder })
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

    /// Stops: no new connections, open requests finish, all objects are deleted.
    ///
    /// # Errors
    /// `Unavailable` if the server failed before, or its folder cannot be deleted.
    pub async fn stop(self) -> Result<()> {
        self.server.stop().await?;
        self.folder.close().map_err(|error| {
            Error::new(ErrorKind::Unavailable, "the folder of the embedded S3 cannot be deleted")
                .caused_by(error)
        })
    }
}

struct BucketService {
    service: S3Service,
    /// It has a folder for each bucket.
    folder: PathBuf,
    /// Held during a conditional write.
    conditional_write: Mutex<()>,
}

impl BucketService {
    async fn respond(
        self: Arc<Self>,
        request: Request<Incoming>,
    ) -> Result<s3s::HttpResponse, s3s::HttpError> {
        if self.lacks_bucket(&request) {
            return Ok(no_such_bucket());
        }
        let is_conditional =
            [IF_NONE_MATCH, IF_MATCH].iter().any(|header| request.headers().contains_key(header));
        let _turn = if is_conditional { Some(self.conditional_write.lock().await) } else { None };
        self.service.call(request.map(s3s::Body::from)).await
    }

    /// Whether the request writes an object into a missing bucket. (The name of a bucket needs no decoding.)
    fn lacks_bucket(&self, request: &Request<Incoming>) -> bool {
        let path = request.uri().path().trim_start_matches('/');
        let bucket = path.split_once('/').filter(|(_, key)| !key.is_empty()).map(|(bucket, _)| bucket);
        let is_write = [Method::PUT, Method::POST].contains(request.method());
        is_write && bucket.is_some_and(|bucket| !self.folder.join(bucket).is_dir())
    }
}

fn no_such_bucket() -> s3s::HttpResponse {
    let body =
        "<Error><Code>NoSuchBucket</Code><Message>The specified bucket does not exist</Message></Error>";
    let mut response = Response::new(s3s::Body::from(body.to_owned()));
    *response.status_mut() = StatusCode::NOT_FOUND;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/xml"));
    response
}

fn no_folder(error: std::io::Error) -> Error {
    Error::new(ErrorKind::Configuration, "there is no temporary directory for the embedded S3")
        .hint("Make the system's temporary directory writable")
        .caused_by(error)
}
