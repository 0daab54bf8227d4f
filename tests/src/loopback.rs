//! A small HTTP/1.1 server on 127.0.0.1, on which the stand-ins of services in these tests are built.

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

/// A running server; dropping it closes the port and every connection.
pub(crate) struct Loopback {
    address: SocketAddr,
    accepting: JoinHandle<Infallible>,
}

/// What a handler returns to close the connection without an answer.
#[derive(Debug)]
pub(crate) struct NoAnswer;

impl fmt::Display for NoAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the connection is closed without an answer")
    }
}

impl std::error::Error for NoAnswer {}

/// What a handler returns: an answer with its whole body, or none.
pub(crate) type Answer = Result<Response<Full<Bytes>>, NoAnswer>;

/// An answer in JSON, without the checksum header, which clients check only where it is given. The version that it names no client reads.
pub(crate) fn json_answer(status: StatusCode, body: &Value) -> Response<Full<Bytes>> {
    let mut answer = Response::new(Full::new(Bytes::from(body.to_string())));
    *answer.status_mut() = status;
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/x-amz-json-1.0"));
    answer
}

impl Loopback {
    /// Serves every request, its body read whole, with `handler`.
    pub(crate) async fn serve<H, F>(handler: H) -> io::Result<Self>
    where
        H: Fn(Request<Bytes>) -> F + Clone + Send + Sync + 'static,
        F: Future<Output = Answer> + Send + 'static,
    {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        Ok(Self { address, accepting: tokio::spawn(accept(listener, handler)) })
    }

    /// Where it listens.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Loopback {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

/// Accepts connections until aborted; the connections end with this task, because their set is dropped with it.
async fn accept<H, F>(listener: TcpListener, handler: H) -> Infallible
where
    H: Fn(Request<Bytes>) -> F + Clone + Send + Sync + 'static,
    F: Future<Output = Answer> + Send + 'static,
{
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                if let Ok((stream, _)) = accepted {
                    connections.spawn(converse(stream, handler.clone()));
                }
            }
            Some(_) = connections.join_next() => {}
        }
    }
}

/// Answers the requests of one connection until either side closes it.
async fn converse<H, F>(stream: TcpStream, handler: H)
where
    H: Fn(Request<Bytes>) -> F + Clone + Send + Sync + 'static,
    F: Future<Output = Answer> + Send + 'static,
{
    let service = service_fn(move |request: Request<Incoming>| {
        let handler = handler.clone();
        async move {
            let (head, body) = request.into_parts();
            let body = body.collect().await.map_err(|_| NoAnswer)?.to_bytes();
            handler(Request::from_parts(head, body)).await
        }
    });
    // An error here is a connection that was closed, by the other side or by `NoAnswer`; both are part of the tests.
    let _closed = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
}
