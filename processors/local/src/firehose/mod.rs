//! A delivery stream inside this process, for the ordinary AWS SDK to talk to over loopback HTTP, as Firehose answers it.
//!
//! ```text
//! PutRecord(Batch) ──▶ api ──▶ buffer ── full, old enough, or flushed ──▶ gzip ──▶ PutObject archive/dt=…/hh=…/…
//! ```
//!
//! A record that was acknowledged is in memory until its object is written; what cannot be written is kept and tried again.

mod api;
mod buffer;

use std::convert::Infallible;
use std::io::Write as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use afterwrite::clock::{Clock as _, SystemClock};
use afterwrite::sink::ObjectStore as _;
use afterwrite::sink::s3::S3Bucket;
use afterwrite::{Error, ErrorKind, Result};
use aws_config::SdkConfig;
use flate2::Compression;
use flate2::write::GzEncoder;
use hyper::service::service_fn;
use tokio::sync::{Mutex as AsyncMutex, Notify};
use tokio::task::JoinHandle;

use self::buffer::Buffer;
use super::http::{HttpServer, sdk_config};

/// How long to wait before an object that could not be written is tried again.
const PAUSE_AFTER_FAILURE: Duration = Duration::from_secs(1);

/// How a delivery stream starts.
#[derive(Clone, Debug)]
pub struct Options {
    /// The port on 127.0.0.1; 0 takes one that is free.
    pub port: u16,
    /// The delivery stream's name.
    pub stream: String,
    /// The bucket that it writes to, which must be there.
    pub bucket: String,
    /// An object is written when so many bytes have come together, before compression. Firehose allows 1–128 MiB.
    pub buffer_bytes: usize,
    /// Or when its first record has waited so long. Firehose allows 0–900 s.
    pub buffer_for: Duration,
}

impl Options {
    /// Firehose's own defaults: 5 MiB, 300 s.
    #[must_use]
    pub fn new(stream: &str, bucket: &str) -> Self {
        Self {
            port: 0,
            stream: stream.to_owned(),
            bucket: bucket.to_owned(),
            buffer_bytes: 5 * 1024 * 1024,
            buffer_for: Duration::from_secs(300),
        }
    }
}

/// A running delivery stream. [`EmbeddedFirehose::stop`] writes what is buffered; dropping it loses that, as a crash would.
#[derive(Debug)]
pub struct EmbeddedFirehose {
    server: HttpServer,
    shared: Arc<Shared>,
    _courier: Courier,
}

/// The task that writes what is due; it ends with its stream.
#[derive(Debug)]
struct Courier(JoinHandle<()>);

#[derive(Debug)]
struct Shared {
    stream: String,
    bucket: S3Bucket,
    is_unavailable: AtomicBool,
    buffer: Mutex<Buffer>,
    /// Something may have become due sooner than was known.
    filled: Notify,
    /// Held while objects are written: one writer at a time.
    delivering: AsyncMutex<()>,
}

impl EmbeddedFirehose {
    /// Starts a delivery stream that writes through `s3`, on the current Tokio runtime.
    ///
    /// # Errors
    /// `Configuration` if the port is taken.
    pub async fn start(options: Options, s3: &aws_sdk_s3::Client) -> Result<Self> {
        let shared = Arc::new(Shared {
            bucket: S3Bucket::new(s3, Arc::from(options.bucket)),
            buffer: Mutex::new(Buffer::new(&options.stream, options.buffer_bytes, options.buffer_for)),
            stream: options.stream,
            is_unavailable: AtomicBool::new(false),
            filled: Notify::new(),
            delivering: AsyncMutex::new(()),
        });
        let serving = Arc::clone(&shared);
        let answer = service_fn(move |request| {
            let shared = Arc::clone(&serving);
            async move { Ok::<_, Infallible>(shared.answer(request).await) }
        });
        let server = HttpServer::start("embedded delivery stream", options.port, answer).await?;
        let courier = Courier(tokio::spawn(Arc::clone(&shared).deliver_what_is_due()));
        Ok(Self { server, shared, _courier: courier })
    }

    /// Where it listens: `http://127.0.0.1:<port>`.
    #[must_use]
    pub fn endpoint(&self) -> String {
        self.server.endpoint()
    }

    /// A configuration for an AWS SDK client of this delivery stream.
    #[must_use]
    pub fn sdk_config(&self) -> SdkConfig {
        sdk_config(self.endpoint())
    }

    /// A client of it.
    #[must_use]
    pub fn client(&self) -> aws_sdk_firehose::Client {
        aws_sdk_firehose::Client::new(&self.sdk_config())
    }

    /// From now on, answers every request with `ServiceUnavailableException`; or no longer.
    pub fn set_unavailable(&self, is_unavailable: bool) {
        self.shared.is_unavailable.store(is_unavailable, Ordering::Relaxed);
    }

    /// Writes everything that is buffered, and says how many objects that made.
    ///
    /// # Errors
    /// As `PutObject`; what was not written stays buffered.
    pub async fn flush(&self) -> Result<usize> {
        self.shared.deliver(true).await
    }

    /// Stops: no new connections, requests under way finish, everything that is buffered is written.
    ///
    /// # Errors
    /// As [`EmbeddedFirehose::flush`]: what was not written is lost.
    pub async fn stop(self) -> Result<()> {
        self.server.stop().await?;
        self.shared.deliver(true).await.map(drop)
    }
}

impl Drop for Courier {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Buffer> {
        self.buffer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes records, all or none.
    fn take(&self, records: &[Vec<u8>]) -> Result<(), api::Refusal> {
        if self.is_unavailable.load(Ordering::Relaxed) || self.lock().is_overfull() {
            return Err(api::Refusal::unavailable());
        }
        let now = SystemClock.now();
        let mut buffer = self.lock();
        for data in records {
            buffer.push(data, now);
        }
        self.filled.notify_one();
        Ok(())
    }

    /// Writes objects as they become due, for ever.
    async fn deliver_what_is_due(self: Arc<Self>) {
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
                    if self.deliver(false).await.is_err() {
                        tokio::time::sleep(PAUSE_AFTER_FAILURE).await;
                    }
                }
                () = self.filled.notified() => {}
            }
        }
    }

    /// Writes what is due, or everything, and says how many objects that made.
    async fn deliver(&self, everything: bool) -> Result<usize> {
        let _turn = self.delivering.lock().await;
        self.lock().seal(SystemClock.now(), everything);
        let mut written = 0;
        loop {
            let Some((key, body)) =
                self.lock().first().map(|object| (object.key.clone(), gzip(&object.data)))
            else {
                return Ok(written);
            };
            self.bucket.put(&key, body?).await?;
            self.lock().remove_first();
            written += 1;
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
