//! An S3 inside this process, for the ordinary AWS SDK to talk to over loopback HTTP.
//!
//! It is [s3s-fs](https://docs.rs/s3s-fs) over a temporary folder that goes with the server. What it does otherwise than AWS:
//!
//! | s3s-fs | here |
//! |---|---|
//! | two writers of one key with `If-None-Match` can both win | conditional writes go one after the other |
//! | an object put into a bucket that is not there makes the bucket | it is answered with `NoSuchBucket` |
//! | an object `z` beside an object `z/y` cannot be written | remains so: keys are files; Afterwrite names no two objects so |

use std::path::PathBuf;
use std::sync::Arc;

use afterwrite::{Error, ErrorKind, Result};
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

pub use super::http::CREDENTIAL;
use super::http::{HttpServer, sdk_config};

/// How an embedded server starts.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// The port on 127.0.0.1; 0 takes one that is free.
    pub port: u16,
}

/// A running S3. [`EmbeddedS3::stop`] ends it in good order; dropping it ends it too. Its objects go with it.
#[derive(Debug)]
pub struct EmbeddedS3 {
    server: HttpServer,
    folder: TempDir,
}

impl EmbeddedS3 {
    /// Starts a server without buckets, on the current Tokio runtime.
    ///
    /// # Errors
    /// `Configuration` if the port is taken or there is no room for temporary files.
    pub async fn start(options: Options) -> Result<Self> {
        let folder = tempfile::tempdir().map_err(no_folder)?;
        let files = FileSystem::new(folder.path())
            .map_err(|error| no_folder(std::io::Error::other(format!("{error:?}"))))?;
        let mut builder = S3ServiceBuilder::new(files);
        builder.set_auth(SimpleAuth::from_single(CREDENTIAL, CREDENTIAL));
        let shared = Arc::new(Shared {
            service: builder.build(),
            buckets: folder.path().to_owned(),
            one_at_a_time: Mutex::new(()),
        });
        let answer = service_fn(move |request| Arc::clone(&shared).answer(request));
        Ok(Self { server: HttpServer::start("embedded S3", options.port, answer).await?, folder })
    }

    /// Where it listens: `http://127.0.0.1:<port>`.
    #[must_use]
    pub fn endpoint(&self) -> String {
        self.server.endpoint()
    }

    /// A configuration for any AWS SDK client of this server; buckets must be part of the path.
    #[must_use]
    pub fn sdk_config(&self) -> SdkConfig {
        sdk_config(self.endpoint())
    }

    /// A client of it.
    #[must_use]
    pub fn client(&self) -> aws_sdk_s3::Client {
        let config = aws_sdk_s3::config::Builder::from(&self.sdk_config()).force_path_style(true).build();
        aws_sdk_s3::Client::from_conf(config)
    }

    /// Creates a bucket.
    ///
    /// # Errors
    /// `Unavailable` if it cannot be created, or is there already.
    pub async fn create_bucket(&self, name: &str) -> Result<()> {
        let created = Box::pin(self.client().create_bucket().bucket(name).send()).await;
        created.map(drop).map_err(|error| {
            Error::new(ErrorKind::Unavailable, "a bucket cannot be created")
                .with("bucket", name)
                .caused_by(error)
        })
    }

    /// Stops: no new connections, requests under way finish, all objects are deleted.
    ///
    /// # Errors
    /// `Unavailable` if the server had failed before, or its folder cannot be deleted.
    pub async fn stop(self) -> Result<()> {
        self.server.stop().await?;
        self.folder.close().map_err(|error| {
            Error::new(ErrorKind::Unavailable, "the embedded S3 leaves files behind").caused_by(error)
        })
    }
}

struct Shared {
    service: S3Service,
    /// Each bucket is a folder in here.
    buckets: PathBuf,
    /// Held by whoever writes on a condition.
    one_at_a_time: Mutex<()>,
}

impl Shared {
    async fn answer(
        self: Arc<Self>,
        request: Request<Incoming>,
    ) -> Result<s3s::HttpResponse, s3s::HttpError> {
        if self.is_put_into_nothing(&request) {
            return Ok(no_such_bucket());
        }
        let is_conditional =
            [IF_NONE_MATCH, IF_MATCH].iter().any(|header| request.headers().contains_key(header));
        let _turn = if is_conditional { Some(self.one_at_a_time.lock().await) } else { None };
        self.service.call(request.map(s3s::Body::from)).await
    }

    /// Whether an object is to be written into a bucket that is not there. (The name of a bucket needs no decoding.)
    fn is_put_into_nothing(&self, request: &Request<Incoming>) -> bool {
        let path = request.uri().path().trim_start_matches('/');
        let bucket = path.split_once('/').filter(|(_, key)| !key.is_empty()).map(|(bucket, _)| bucket);
        let is_write = [Method::PUT, Method::POST].contains(request.method());
        is_write && bucket.is_some_and(|bucket| !self.buckets.join(bucket).is_dir())
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
    Error::new(ErrorKind::Configuration, "the embedded S3 has no folder to keep objects in")
        .hint("Make the system's temporary directory writable")
        .caused_by(error)
}
