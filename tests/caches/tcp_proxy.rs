//! A TCP proxy that can be redirected, and that breaks after a number of bytes.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, copy};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::time::timeout;

/// A proxy in front of one server after another, like a name that is resolved again. It can be limited to a number of bytes; then it
/// is broken, and refuses every connection until it is repaired.
pub(crate) struct TcpProxy {
    /// Its address.
    pub(crate) url: String,
    state: Arc<ProxyState>,
}

struct ProxyState {
    port: AtomicU16,
    bytes_left: AtomicUsize,
    broken: Notify,
}

impl TcpProxy {
    /// A proxy in front of the server on this port.
    pub(crate) async fn to(port: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("redis://{}", listener.local_addr().unwrap());
        let state = Arc::new(ProxyState {
            port: AtomicU16::new(port),
            bytes_left: AtomicUsize::new(usize::MAX),
            broken: Notify::new(),
        });
        let shared = Arc::clone(&state);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(forward(client, Arc::clone(&shared)));
            }
        });
        Self { url, state }
    }

    /// Forwards new connections to the server on this port.
    pub(crate) fn redirect_to(&self, port: u16) {
        self.state.port.store(port, Ordering::SeqCst);
    }

    /// Breaks after this many more bytes to the server.
    pub(crate) fn break_after(&self, bytes: usize) {
        self.state.bytes_left.store(bytes, Ordering::SeqCst);
    }

    /// Waits until the proxy is broken.
    pub(crate) async fn broken(&self) {
        let broken = self.state.broken.notified();
        timeout(Duration::from_secs(10), broken).await.expect("fewer bytes are sent");
    }

    /// Forwards everything again.
    pub(crate) fn repair(&self) {
        self.state.bytes_left.store(usize::MAX, Ordering::SeqCst);
    }
}

/// Forwards bytes in both directions until one side closes.
async fn forward(mut client: TcpStream, state: Arc<ProxyState>) -> io::Result<()> {
    if state.bytes_left.load(Ordering::SeqCst) == 0 {
        return Ok(());
    }
    let mut server = TcpStream::connect(("127.0.0.1", state.port.load(Ordering::SeqCst))).await?;
    let (mut from_client, mut to_client) = client.split();
    let (mut from_server, mut to_server) = server.split();
    let commands = async {
        let mut buffer = [0; 4096];
        loop {
            let read = from_client.read(&mut buffer).await?;
            let left = state.bytes_left.load(Ordering::SeqCst);
            let forwarded = read.min(left);
            to_server.write_all(&buffer[..forwarded]).await?;
            state.bytes_left.store(left - forwarded, Ordering::SeqCst);
            if left == forwarded {
                state.broken.notify_one();
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
