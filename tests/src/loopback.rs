//! The HTTP server of the embedded services as the base of the tests' stand-ins: a handler takes whole requests, and can close the connection.

use std::fmt;
use std::future::Future;
use std::io;
use std::net::SocketAddr;

use afterwrite_mapping::http::{HttpServer, service_response};
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use serde_json::Value;

/// A running server; dropping it closes the port.
pub struct LoopbackServer(HttpServer);

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
    service_response(status, "application/x-amz-json-1.0", body.to_string())
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
        let service = service_fn(move |request: Request<Incoming>| {
            let handler = handler.clone();
            async move {
                let (head, body) = request.into_parts();
                let body = body.collect().await.map_err(|_| ConnectionClosed)?.to_bytes();
                handler(Request::from_parts(head, body)).await
            }
        });
        HttpServer::start("stand-in", service).await.map(Self).map_err(io::Error::other)
    }

    /// The address it listens on.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.0.address()
    }

    /// Its endpoint, `http://host:port`.
    #[must_use]
    pub fn endpoint(&self) -> String {
        self.0.endpoint()
    }
}
