//! A server of a service that only takes something: it notes the items of the requests.

use std::convert::Infallible;
use std::fmt::Debug;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use afterwrite_mapping::http::HttpServer;
use afterwrite_model::Result;
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::http::request::Parts;
use hyper::service::service_fn;
use hyper::{Request, Response};

use crate::signature::SignatureCheck;

/// Items that are noted.
const MAX_ITEMS: usize = 10_000;

/// A service by its requests.
pub(crate) trait NotedService: Send + 'static {
    /// The name in errors.
    const NAME: &'static str;
    /// The items that requests have.
    type Item: Clone + Debug + Send + 'static;

    /// The response to a request that is not signed with the credentials of the embedded services.
    fn refuse() -> Response<Full<Bytes>>;

    /// The items of a request, and its response.
    fn take(&self, request: NotedRequest<'_, Self::Item>) -> (Vec<Self::Item>, Response<Full<Bytes>>);
}

/// A request to a service.
pub(crate) struct NotedRequest<'r, T> {
    pub(crate) head: &'r Parts,
    pub(crate) body: &'r [u8],
    /// Whether the service must refuse it because there are too many requests.
    pub(crate) is_throttled: bool,
    /// The items of earlier requests.
    pub(crate) noted: &'r [T],
}

/// A running server.
#[derive(Debug)]
pub(crate) struct NotingServer<S: NotedService> {
    server: HttpServer,
    signatures: SignatureCheck,
    state: Arc<Mutex<ServiceState<S>>>,
}

#[derive(Debug)]
struct ServiceState<S: NotedService> {
    service: S,
    noted: Vec<S::Item>,
    /// How many of the next requests are throttled.
    throttled: usize,
}

impl<S: NotedService> NotingServer<S> {
    /// Starts a server of a service on a port of 127.0.0.1; 0 is any free one.
    ///
    /// # Errors
    /// `Configuration` if the port is in use.
    pub(crate) async fn start(port: u16, service: S) -> Result<Self> {
        let state = Arc::new(Mutex::new(ServiceState { service, noted: Vec::new(), throttled: 0 }));
        let (shared, signatures) = (Arc::clone(&state), SignatureCheck::default());
        let checked = signatures.clone();
        let service = service_fn(move |request: Request<Incoming>| {
            let (state, checked) = (Arc::clone(&shared), checked.clone());
            async move { Ok::<_, Infallible>(respond(request, &checked, &state).await) }
        });
        Ok(Self { server: HttpServer::start_at(S::NAME, port, service).await?, signatures, state })
    }

    /// From now on, requests must be signed with the credentials of the embedded services.
    pub(crate) fn require_signatures(&self) {
        self.signatures.require();
    }

    /// The server's URL: `http://127.0.0.1:<port>`.
    pub(crate) fn endpoint(&self) -> String {
        self.server.endpoint()
    }

    /// The items that arrived since they were last taken.
    pub(crate) fn noted(&self) -> Vec<S::Item> {
        locked(&self.state).noted.clone()
    }

    /// Takes the items that arrived since the last call.
    pub(crate) fn take(&self) -> Vec<S::Item> {
        std::mem::take(&mut locked(&self.state).noted)
    }

    /// Throttles this many of the next requests, in place of the requests that an earlier call would still throttle.
    pub(crate) fn throttle(&self, requests: usize) {
        locked(&self.state).throttled = requests;
    }

    /// Changes the service.
    pub(crate) fn change(&self, change: impl FnOnce(&mut S)) {
        change(&mut locked(&self.state).service);
    }
}

fn locked<S: NotedService>(state: &Mutex<ServiceState<S>>) -> MutexGuard<'_, ServiceState<S>> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn respond<S: NotedService>(
    request: Request<Incoming>,
    signatures: &SignatureCheck,
    state: &Mutex<ServiceState<S>>,
) -> Response<Full<Bytes>> {
    let (head, body) = request.into_parts();
    let body = body.collect().await.map(|body| body.to_bytes()).unwrap_or_default();
    if !signatures.accepts(&head, &body) {
        return S::refuse();
    }
    let mut state = locked(state);
    let ServiceState { service, noted, throttled } = &mut *state;
    let is_throttled = *throttled > 0;
    *throttled = throttled.saturating_sub(1);
    let request = NotedRequest { head: &head, body: &body, is_throttled, noted };
    let (items, response) = service.take(request);
    let room = MAX_ITEMS.saturating_sub(noted.len());
    noted.extend(items.into_iter().take(room));
    response
}
