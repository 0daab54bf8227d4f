//! The server: the routes, and the address at which it listens.

use std::net::SocketAddr;
use std::sync::Arc;

use afterwrite_model::{Error, ErrorKind, Result};
use axum::Router;
use axum::middleware::from_fn_with_state;
use axum::routing::{get, post};
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::assets::asset;
use crate::context::ConsoleContext;
use crate::guard::guard;
use crate::pages;
use crate::served::{Served, TOKEN, Tokens};

/// A console that is served until it is stopped.
#[derive(Debug)]
pub struct RunningConsole {
    /// The address to open, with the token of the session if one is needed.
    pub url: String,
    stop: oneshot::Sender<()>,
    serving: JoinHandle<Result<()>>,
}

/// A console that listens.
#[derive(Debug)]
pub struct Console {
    listener: TcpListener,
    address: SocketAddr,
    served: Arc<Served>,
}

impl Console {
    /// Listens at this address. `hosts` are the names by which a browser may reach it, beside its address and `localhost`. Beyond this
    /// machine, every request needs the token of [`RunningConsole::url`].
    ///
    /// # Errors
    /// `Configuration` if the address is in use or not of this machine.
    pub async fn listen(context: ConsoleContext, listen: SocketAddr, hosts: Vec<String>) -> Result<Self> {
        let failed = |error: std::io::Error| {
            Error::new(ErrorKind::Configuration, "the console cannot listen at this address")
                .with("address", listen.to_string())
                .hint("Name another port, or 0 for any that is free")
                .caused_by(error)
        };
        let listener = TcpListener::bind(listen).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let tokens = Tokens::new(!address.ip().is_loopback());
        Ok(Self { listener, address, served: Arc::new(Served::new(context, tokens, hosts)) })
    }

    /// The address to open, with the token of the session if one is needed.
    fn url(&self) -> String {
        let token = self.served.tokens.access.as_ref();
        let token = token.map_or_else(String::new, |token| format!("?{TOKEN}={token}"));
        format!("http://{}/{token}", self.address)
    }

    /// Serves the pages from now on.
    #[must_use]
    pub fn start(self) -> RunningConsole {
        let (url, router) = (self.url(), router(&self.served));
        let (stop, stopping) = oneshot::channel::<()>();
        let serving = tokio::spawn(async move {
            // A sender that is dropped stops the console, too.
            let stopped = async { stopping.await.unwrap_or_default() };
            axum::serve(self.listener, router).with_graceful_shutdown(stopped).await.map_err(|error| {
                Error::new(ErrorKind::State, "the console has stopped to listen").caused_by(error)
            })
        });
        RunningConsole { url, stop, serving }
    }
}

impl RunningConsole {
    /// Waits until the console ends by itself.
    ///
    /// # Errors
    /// `State` if the listener fails.
    pub async fn ended(&mut self) -> Result<()> {
        ended(&mut self.serving).await
    }

    /// Stops the console. Requests that are open are answered first.
    ///
    /// # Errors
    /// As [`RunningConsole::ended`].
    pub async fn stop(self) -> Result<()> {
        let Self { url: _, stop, mut serving } = self;
        drop(stop);
        ended(&mut serving).await
    }
}

async fn ended(serving: &mut JoinHandle<Result<()>>) -> Result<()> {
    serving.await.map_err(|error| {
        Error::new(ErrorKind::State, "the console has ended unexpectedly").caused_by(error)
    })?
}

fn router(served: &Arc<Served>) -> Router {
    Router::new()
        .route("/", get(pages::flow::flow))
        .route(pages::flow::PICTURE, get(pages::flow::flow_picture))
        .route("/rollups", get(pages::rollups::rollups))
        .route("/rollups/of", get(pages::rollups::of::of))
        .route("/rollups/of/{name}", get(pages::rollups::of::of_name))
        .route("/rollups/at", get(pages::rollups::at::at))
        .route("/rollups/rank", get(pages::rollups::rank::rank))
        .route("/rollups/contributors", get(pages::rollups::contributors::contributors))
        .route("/item", get(pages::item::item))
        .route("/health", get(pages::health::health))
        .route("/health/job", get(pages::health::job::job).post(pages::health::job::control))
        .route(pages::health::job::PROGRESS, get(pages::health::job::progress))
        .route(pages::health::RUNNING, get(pages::health::running))
        .route("/health/reports", get(pages::health::reports::reports))
        .route("/health/findings", get(pages::health::findings::findings))
        .route("/health/failures", get(pages::health::failures::failures))
        .route("/health/run", get(pages::health::run::planned).post(pages::health::run::start))
        .route(pages::play::PLAY, get(pages::play::play))
        .route(pages::play::changes::CHANGES, get(pages::play::changes::changes))
        .route(pages::play::recount::RECOUNT, get(pages::play::recount::recount))
        .route(pages::play::faults::FAULTS, post(pages::play::faults::set_faults))
        .route(pages::play::editor::WRITE, post(pages::play::editor::write))
        .route(pages::play::again::AGAIN, post(pages::play::again::again))
        .route("/assets/{name}", get(asset))
        .fallback(pages::no_page)
        .layer(from_fn_with_state(Arc::clone(served), guard))
        .with_state(Arc::clone(served))
}
