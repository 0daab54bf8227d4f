//! The HTTP/1.1 server of the Runtime API and of the embedded services, on 127.0.0.1. It answers programs, not web pages (`guard`).

use std::net::{Ipv4Addr, SocketAddr};
use std::pin::pin;

use afterwrite_model::{Error, ErrorKind, Result};
use http_body_util::{Either, Full};
use hyper::body::{Body, Bytes, Incoming};
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

use crate::guard;

type Cause = Box<dyn std::error::Error + Send + Sync>;

/// A running server. Dropping it stops it as [`HttpServer::stop`] does, without waiting.
#[derive(Debug)]
pub struct HttpServer {
    address: SocketAddr,
    stop: watch::Sender<()>,
    accepting: JoinHandle<()>,
}

impl HttpServer {
    /// Starts to serve on a free port, on the current Tokio runtime.
    ///
    /// # Errors
    /// `Configuration` if there is no free port.
    pub async fn start<S, B>(name: &str, service: S) -> Result<Self>
    where
        S: Service<Request<Incoming>, Response = Response<B>> + Clone + Send + 'static,
        S::Future: Send + 'static,
        S::Error: Into<Cause>,
        B: Body<Data = Bytes> + Send + 'static,
        B::Error: Into<Cause>,
    {
        Self::start_at(name, 0, service).await
    }

    /// Starts to serve on this port, or on a free one if it is 0.
    ///
    /// # Errors
    /// `Configuration` if the port is in use.
    pub async fn start_at<S, B>(name: &str, port: u16, service: S) -> Result<Self>
    where
        S: Service<Request<Incoming>, Response = Response<B>> + Clone + Send + 'static,
        S::Future: Send + 'static,
        S::Error: Into<Cause>,
        B: Body<Data = Bytes> + Send + 'static,
        B::Error: Into<Cause>,
    {
        let cannot_listen = |error| {
            Error::new(ErrorKind::Configuration, format!("the {name} cannot listen on 127.0.0.1"))
                .with("port", port.to_string())
                .caused_by(error)
        };
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await.map_err(cannot_listen)?;
        let address = listener.local_addr().map_err(cannot_listen)?;
        let (stop, stopped) = watch::channel(());
        Ok(Self { address, stop, accepting: tokio::spawn(accept(listener, service, stopped)) })
    }

    /// The server's URL: `http://127.0.0.1:<port>`.
    #[must_use]
    pub fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The server's address.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Stops: no new connections, requests under way finish.
    ///
    /// # Errors
    /// `Unavailable` if the server failed before.
    pub async fn stop(self) -> Result<()> {
        drop(self.stop);
        self.accepting
            .await
            .map_err(|error| Error::new(ErrorKind::Unavailable, "an embedded server failed").caused_by(error))
    }
}

/// A response of a service.
#[must_use]
pub fn service_response(
    status: StatusCode,
    content_type: &'static str,
    body: impl Into<Bytes>,
) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body.into()));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

/// Accepts connections until the sender of `stopped` is dropped, then waits for the open connections.
async fn accept<S, B>(listener: TcpListener, service: S, mut stopped: watch::Receiver<()>)
where
    S: Service<Request<Incoming>, Response = Response<B>> + Clone + Send + 'static,
    S::Future: Send + 'static,
    S::Error: Into<Cause>,
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Cause>,
{
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            _ = stopped.changed() => break,
            // The client notices a connection that fails before it begins.
            accepted = listener.accept() => if let Ok((socket, _)) = accepted {
                connections.spawn(serve_connection(socket, service.clone(), stopped.clone()));
            },
            Some(_) = connections.join_next() => {}
        }
    }
    drop(listener);
    while connections.join_next().await.is_some() {}
}

/// Serves the requests of one connection until either side closes it.
async fn serve_connection<S, B>(socket: TcpStream, service: S, mut stopped: watch::Receiver<()>)
where
    S: Service<Request<Incoming>, Response = Response<B>> + Send,
    S::Future: Send,
    S::Error: Into<Cause>,
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Cause>,
{
    // Responses are small: waiting to fill a packet would only slow them.
    let _ = socket.set_nodelay(true);
    let guarded = service_fn(move |request: Request<Incoming>| {
        let response = match guard::refusal(&request) {
            Some(refusal) => Err(refusal),
            None => Ok(service.call(request)),
        };
        async move {
            let mut response = match response {
                Err(refusal) => return Ok::<_, S::Error>(refusal.map(Either::Left)),
                Ok(response) => response.await?,
            };
            guard::remove_grants(response.headers_mut());
            Ok(response.map(Either::Right))
        }
    });
    let mut connection = pin!(http1::Builder::new().serve_connection(TokioIo::new(socket), guarded));
    // An error here means that the client closed the connection.
    tokio::select! {
        _ = connection.as_mut() => {}
        _ = stopped.changed() => {
            connection.as_mut().graceful_shutdown();
            let _ = connection.await;
        }
    }
}
