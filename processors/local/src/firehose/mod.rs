//! A Firehose delivery stream inside this process. AWS SDK clients reach it over loopback HTTP.
//!
//! ```text
//! PutRecord(Batch) ──▶ api ──▶ buffer ── full, old enough, or flushed ──▶ gzip ──▶ PutObject archive/dt=…/hh=…/…
//! ```
//!
//! An acknowledged record is kept in memory until its object is written; a failed write is retried.

mod api;
mod buffer;

use std::convert::Infallible;
use std::io::Write as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use afterwrite_mapping::http::HttpServer;
use afterwrite_model::clock::{Clock as _, SystemClock};
use afterwrite_model::{Error, ErrorKind, Result};
use afterwrite_services::ObjectStore as _;
use afterwrite_services::s3::S3Bucket;
use aws_config::SdkConfig;
use flate2::Compression;
use flate2::write::GzEncoder;
use hyper::service::service_fn;
use tokio::sync::{Mutex as AsyncMutex, Notify};
use tokio::task::JoinSet;

use self::buffer::RecordBuffer;
use crate::sdk::sdk_config;
use crate::signature::SignatureCheck;

/// The pause before the next try to write an object.
const PAUSE_AFTER_FAILURE: Duration = Duration::from_secs(1);

/// The settings of a delivery stream.
#[derive(Clone, Debug)]
pub struct DeliveryStreamOptions {
    /// The delivery stream's name.
    pub stream: String,
    /// The bucket for the objects, which must exist.
    pub bucket: String,
    /// The size, before compression, at which an object is written. Firehose allows 1–128 MiB.
    pub buffer_bytes: usize,
    /// The age of its first record at which an object is written. Firehose allows 0–900 s.
    pub buffer_for: Duration,
}

impl DeliveryStreamOptions {
    /// Firehose's own defaults: 5 MiB, 300 s.
    #[must_use]
    pub fn new(stream: &str, bucket: &str) -> Self {
        Self {
            stream: stream.to_owned(),
            bucket: bucket.to_owned(),
            buffer_bytes: 5 * 1024 * 1024,
            buffer_for: Duration::from_secs(300),
        }
    }
}

/// A running delivery stream. [`EmbeddedFirehose::stop`] writes the buffered records; dropping it loses them, as a crash would.
#[derive(Debug)]
pub struct EmbeddedFirehose {
    server: HttpServer,
    stream: Arc<StreamState>,
    /// The task that writes due objects; dropped, it is aborted.
    _writer: JoinSet<()>,
}

#[derive(Debug)]
struct StreamState {
    name: String,
    bucket: S3Bucket,
    signatures: SignatureCheck,
    is_unavailable: AtomicBool,
    buffer: Mutex<RecordBuffer>,
    /// Records have arrived: an object may be due earlier.
    filled: Notify,
    /// Held while objects are written: one writer at a time.
    writing: AsyncMutex<()>,
}

impl EmbeddedFirehose {
    /// Starts a delivery stream that writes through `s3`, on the current Tokio runtime.
    ///
    /// # Errors
    /// `Configuration` if the server cannot listen.
    pub async fn start(options: DeliveryStreamOptions, s3: &aws_sdk_s3::Client) -> Result<Self> {
        Self::start_at(0, options, s3).await
    }

    /// Starts a delivery stream on this port, or on a free one if it is 0.
    ///
    /// # Errors
    /// `Configuration` if the port is in use.
    pub async fn start_at(
        port: u16,
        options: DeliveryStreamOptions,
        s3: &aws_sdk_s3::Client,
    ) -> Result<Self> {
        let stream = Arc::new(StreamState {
            name: options.stream.clone(),
            bucket: S3Bucket::new(s3, Arc::from(options.bucket.as_str())),
            signatures: SignatureCheck::default(),
            is_unavailable: AtomicBool::new(false),
            buffer: Mutex::new(RecordBuffer::new(options)),
            filled: Notify::new(),
            writing: AsyncMutex::new(()),
        });
        let serving = Arc::clone(&stream);
        let service = service_fn(move |request| {
            let stream = Arc::clone(&serving);
            async move {
                let accept = |records: &[Vec<u8>]| stream.accept(records);
                Ok::<_, Infallible>(api::respond(request, (&stream.name, &stream.signatures), accept).await)
            }
        });
        let server = HttpServer::start_at("embedded delivery stream", port, service).await?;
        let mut writer = JoinSet::new();
        writer.spawn(Arc::clone(&stream).write_due_objects());
        Ok(Self { server, stream, _writer: writer })
    }

    /// From now on, requests must be signed with the credentials of the embedded services.
    pub fn require_signatures(&self) {
        self.stream.signatures.require();
    }

    /// The server's URL: `http://127.0.0.1:<port>`.
    #[must_use]
    pub fn endpoint(&self) -> String {
        self.server.endpoint()
    }

    /// A configuration for an AWS SDK client of this delivery stream.
    #[must_use]
    pub fn sdk_config(&self) -> SdkConfig {
        sdk_config(self.endpoint())
    }

    /// A client of this delivery stream.
    #[must_use]
    pub fn client(&self) -> aws_sdk_firehose::Client {
        aws_sdk_firehose::Client::new(&self.sdk_config())
    }

    /// Sets whether every further request fails with `ServiceUnavailableException`.
    pub fn set_unavailable(&self, is_unavailable: bool) {
        self.stream.is_unavailable.store(is_unavailable, Ordering::Relaxed);
    }

    /// Writes everything that is buffered.
    ///
    /// # Errors
    /// As `PutObject`; an object that was not written stays buffered.
    pub async fn flush(&self) -> Result<()> {
        self.stream.write_objects(true).await
    }

    /// Stops: no new connections, open requests finish, everything that is buffered is written.
    ///
    /// # Errors
    /// As [`EmbeddedFirehose::flush`]: an object that was not written is lost.
    pub async fn stop(self) -> Result<()> {
        self.server.stop().await?;
        self.stream.write_objects(true).await
    }
}

impl StreamState {
    fn lock(&self) -> MutexGuard<'_, RecordBuffer> {
        self.buffer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Buffers all of these records, or returns `false` if the stream is unavailable.
    fn accept(&self, records: &[Vec<u8>]) -> bool {
        if self.is_unavailable.load(Ordering::Relaxed) || self.lock().is_overfull() {
            return false;
        }
        let now = SystemClock.now();
        let mut buffer = self.lock();
        for data in records {
            buffer.push(data, now);
        }
        self.filled.notify_one();
        true
    }

    /// Writes objects as they become due; never returns.
    async fn write_due_objects(self: Arc<Self>) {
        loop {
            let wait = self.lock().due_in(SystemClock.now());
            let due = async {
                match wait {
                    Some(wait) => tokio::time::sleep(wait).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = due => {
                    if self.write_objects(false).await.is_err() {
                        tokio::time::sleep(PAUSE_AFTER_FAILURE).await;
                    }
                }
                () = self.filled.notified() => {}
            }
        }
    }

    /// Writes the due objects, or all of them.
    async fn write_objects(&self, everything: bool) -> Result<()> {
        let _turn = self.writing.lock().await;
        self.lock().seal(SystemClock.now(), everything);
        loop {
            let first = self.lock().first().map(|object| (object.key.clone(), gzip(&object.data)));
            let Some((key, body)) = first else { return Ok(()) };
            self.bucket.put(&key, body?).await?;
            self.lock().remove_first();
        }
    }
}

fn gzip(data: &[u8]) -> Result<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::with_capacity(data.len() / 4), Compression::fast());
    let body = encoder.write_all(data).and_then(|()| encoder.finish());
    body.map_err(|error| {
        Error::new(ErrorKind::Unavailable, "an object cannot be compressed").caused_by(error)
    })
}
