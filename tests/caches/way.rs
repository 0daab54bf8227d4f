//! A way to a server that leads elsewhere, or breaks off, when the test says so.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, copy};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::time::timeout;

/// An address that leads to one server after another, as a name does that is resolved anew. It can be told to pass so many bytes and no
/// more: then it is broken, and refuses every connection until it is mended.
pub(crate) struct Way {
    /// Its address.
    pub(crate) url: String,
    ends: Arc<Ends>,
}

struct Ends {
    port: AtomicU16,
    bytes_left: AtomicUsize,
    broken: Notify,
}

impl Way {
    /// A way to the server on this port.
    pub(crate) async fn to(port: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("redis://{}", listener.local_addr().unwrap());
        let ends = Ends {
            port: AtomicU16::new(port),
            bytes_left: AtomicUsize::new(usize::MAX),
            broken: Notify::new(),
        };
        let ends = Arc::new(ends);
        let shared = Arc::clone(&ends);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(pass(client, Arc::clone(&shared)));
            }
        });
        Self { url, ends }
    }

    /// Leads the connections from now on to the server on this port.
    pub(crate) fn lead_to(&self, port: u16) {
        self.ends.port.store(port, Ordering::SeqCst);
    }

    /// Breaks after so many more bytes to the server.
    pub(crate) fn break_after(&self, bytes: usize) {
        self.ends.bytes_left.store(bytes, Ordering::SeqCst);
    }

    /// Waits until it is broken.
    pub(crate) async fn broken(&self) {
        let broken = self.ends.broken.notified();
        timeout(Duration::from_secs(10), broken).await.expect("so much is never sent");
    }

    /// Passes everything again.
    pub(crate) fn mend(&self) {
        self.ends.bytes_left.store(usize::MAX, Ordering::SeqCst);
    }
}

/// Passes what either side says until one of them closes.
async fn pass(mut client: TcpStream, ends: Arc<Ends>) -> io::Result<()> {
    if ends.bytes_left.load(Ordering::SeqCst) == 0 {
        return Ok(());
    }
    let mut server = TcpStream::connect(("127.0.0.1", ends.port.load(Ordering::SeqCst))).await?;
    let (mut from_client, mut to_client) = client.split();
    let (mut from_server, mut to_server) = server.split();
    let commands = async {
        let mut buffer = [0; 4096];
        loop {
            let read = from_client.read(&mut buffer).await?;
            let left = ends.bytes_left.load(Ordering::SeqCst);
            let passed = read.min(left);
            to_server.write_all(&buffer[..passed]).await?;
            ends.bytes_left.store(left - passed, Ordering::SeqCst);
            if left == passed {
                ends.broken.notify_one();
                // The connection ends with the server.
                return std::future::pending().await;
            }
            if read == 0 {
                return Ok(());
            }
        }
    };
    tokio::select! {
        ended = commands => ended,
        ended = copy(&mut from_server, &mut to_client) => ended.map(drop),
    }
}
