//! What the embedded servers share: HTTP/1.1 on 127.0.0.1, and how the AWS SDK is told of it.

use std::net::{Ipv4Addr, SocketAddr};
use std::pin::pin;

use afterwrite::{Error, ErrorKind, Result};
use aws_config::{BehaviorVersion, Region, SdkConfig};
use aws_sdk_s3::config::{Credentials, SharedCredentialsProvider};
use hyper::body::{Body, Incoming};
use hyper::server::conn::http1;
use hyper::service::Service;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

/// The region that the embedded servers say they are in.
pub(super) const REGION: &str = "us-east-1";
/// Both halves of the credentials that go with them.
pub const CREDENTIAL: &str = "embedded";

type Cause = Box<dyn std::error::Error + Send + Sync>;

/// A running server. Dropping it ends it as [`HttpServer::stop`] does, without waiting.
#[derive(Debug)]
pub(super) struct HttpServer {
    address: SocketAddr,
    stop: watch::Sender<()>,
    accepting: JoinHandle<()>,
}

impl HttpServer {
    /// Serves on a port of 127.0.0.1, 0 for one that is free, on the current Tokio runtime.
    pub(super) async fn start<S, B>(name: &str, port: u16, service: S) -> Result<Self>
    where
        S: Service<Request<Incoming>, Response = Response<B>> + Clone + Send + 'static,
        S::Future: Send + 'static,
        S::Error: Into<Cause>,
        B: Body + Send + 'static,
        B::Data: Send,
        B::Error: Into<Cause>,
    {
        let cannot_listen = |error| {
            Error::new(ErrorKind::Configuration, format!("the {name} cannot listen"))
                .with("port", port.to_string())
                .hint("Stop what listens there, or choose another port")
                .caused_by(error)
        };
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await.map_err(cannot_listen)?;
        let address = listener.local_addr().map_err(cannot_listen)?;
        let (stop, stopped) = watch::channel(());
        Ok(Self { address, stop, accepting: tokio::spawn(accept(listener, service, stopped)) })
    }

    /// Where it listens: `http://127.0.0.1:<port>`.
    pub(super) fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Stops: no new connections, requests under way finish.
    pub(super) async fn stop(self) -> Result<()> {
        drop(self.stop);
        self.accepting
            .await
            .map_err(|error| Error::new(ErrorKind::Unavailable, "an embedded server failed").caused_by(error))
    }
}

/// A configuration for any AWS SDK client of an embedded server. It reads neither the environment nor a profile.
pub(super) fn sdk_config(endpoint: String) -> SdkConfig {
    SdkConfig::builder()
        .behavior_version(BehaviorVersion::latest())
        .region(Region::from_static(REGION))
        .endpoint_url(endpoint)
        .credentials_provider(SharedCredentialsProvider::new(Credentials::new(
            CREDENTIAL, CREDENTIAL, None, None, CREDENTIAL,
        )))
        .http_client(aws_smithy_http_client::Builder::new().build_http())
        .build()
}

/// Accepts connections until the sender of `stopped` is gone, and waits for those that are open.
async fn accept<S, B>(listener: TcpListener, service: S, mut stopped: watch::Receiver<()>)
where
    S: Service<Request<Incoming>, Response = Response<B>> + Clone + Send + 'static,
    S::Future: Send + 'static,
    S::Error: Into<Cause>,
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<Cause>,
{
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            _ = stopped.changed() => break,
            // A connection that fails before it begins is the client's to notice.
            accepted = listener.accept() => if let Ok((socket, _)) = accepted {
                connections.spawn(converse(socket, service.clone(), stopped.clone()));
            },
            Some(_) = connections.join_next() => {}
        }
    }
    drop(listener);
    while connections.join_next().await.is_some() {}
}

/// Answers the requests of one connection until either side closes it.
async fn converse<S, B>(socket: TcpStream, service: S, mut stopped: watch::Receiver<()>)
where
    S: Service<Request<Incoming>, Response = Response<B>> + Send,
    S::Future: Send,
    S::Error: Into<Cause>,
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<Cause>,
{
    // Answers are small: waiting to fill a packet would only slow them.
    let _ = socket.set_nodelay(true);
    let mut connection = pin!(http1::Builder::new().serve_connection(TokioIo::new(socket), service));
    // An error is a connection that the client closed; it knows.
    tokio::select! {
        _ = connection.as_mut() => {}
        _ = stopped.changed() => {
            connection.as_mut().graceful_shutdown();
            let _ = connection.await;
        }
    }
}
