//! A small HTTP/1.1 server on 127.0.0.1, the base of the tests' stand-ins for services.

use std::convert::Infallible;
use std::fmt;
use std::future::Future;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};

/// A running server; dropping it closes the port and all connections.
pub struct LoopbackServer {
    address: SocketAddr,
    accepting: JoinHandle<Infallible>,
}

/// Returned by a handler to close the connection without a response.
#[derive(Debug)]
pub struct ConnectionClosed;

impl fmt::Display for ConnectionClosed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the connection is closed without a response")
    }
}

impl std::error::Error for ConnectionClosed {}

/// The result of a handler: a response with its whole body, or a closed connection.
pub type HandlerResult = Result<Response<Full<Bytes>>, ConnectionClosed>;

/// A response in JSON. It has no checksum header: clients verify the checksum only if there is one, and ignore the protocol version.
#[must_use]
pub fn json_response(status: StatusCode, body: &Value) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(body.to_string())));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/x-amz-json-1.0"));
    response
}

impl LoopbackServer {
    /// Serves every request with `handler`, after reading its whole body.
    ///
    /// # Errors
    /// No port is available.
    pub async fn serve<H, F>(handler: H) -> io::Result<Self>
    where
        H: Fn(Request<Bytes>) -> F + Clone + Send + Sync + 'static,
        F: Future<Output = HandlerResult> + Send + 'static,
    {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        Ok(Self { address, accepting: tokio::spawn(accept(listener, handler)) })
    }

    /// The address it listens on.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its endpoint, `http://host:port`.
    #[must_use]
    pub fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }
}

impl Drop for LoopbackServer {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

/// Accepts connections until aborted. The connections end with this task, because it owns their set.
async fn accept<H, F>(listener: TcpListener, handler: H) -> Infallible
where
    H: Fn(Request<Bytes>) -> F + Clone + Send + Sync + 'static,
    F: Future<Output = HandlerResult> + Send + 'static,
{
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                if let Ok((stream, _)) = accepted {
                    connections.spawn(serve_connection(stream, handler.clone()));
                }
            }
            Some(_) = connections.join_next() => {}
        }
    }
}

/// Serves the requests of one connection until either side closes it.
async fn serve_connection<H, F>(stream: TcpStream, handler: H)
where
    H: Fn(Request<Bytes>) -> F + Clone + Send + Sync + 'static,
    F: Future<Output = HandlerResult> + Send + 'static,
{
    let service = service_fn(move |request: Request<Incoming>| {
        let handler = handler.clone();
        async move {
            let (head, body) = request.into_parts();
            let body = body.collect().await.map_err(|_| ConnectionClosed)?.to_bytes();
            handler(Request::from_parts(head, body)).await
        }
    });
    // An error means that the connection was closed, by the other side or by `ConnectionClosed`; tests cause both.
    let _closed = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
}
