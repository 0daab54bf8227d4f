//! A server of a service that only takes something: it remembers the items of the requests.

use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};

use afterwrite_mapping::http::HttpServer;
use afterwrite_model::Result;
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::http::request::Parts;
use hyper::service::service_fn;
use hyper::{Request, Response};

use crate::signature::SignatureCheck;

/// Items that are remembered.
const MAX_ITEMS: usize = 10_000;

/// A service by its requests.
pub(crate) trait NotedService {
    /// The name in errors.
    const NAME: &'static str;
    /// The items that requests have.
    type Item: Send + 'static;

    /// The response to a request that is not signed with the credentials of the embedded services.
    fn refuse() -> Response<Full<Bytes>>;

    /// The items of a request, and its response.
    fn take(head: &Parts, body: &[u8]) -> (Vec<Self::Item>, Response<Full<Bytes>>);
}

/// A running server.
#[derive(Debug)]
pub(crate) struct NotingServer<T> {
    server: HttpServer,
    signatures: SignatureCheck,
    noted: Arc<Mutex<Vec<T>>>,
}

impl<T: Send + 'static> NotingServer<T> {
    /// Starts a server of a service on a port of 127.0.0.1; 0 is any free one.
    ///
    /// # Errors
    /// `Configuration` if the port is in use.
    pub(crate) async fn start<S: NotedService<Item = T> + 'static>(port: u16) -> Result<Self> {
        let noted = Arc::new(Mutex::new(Vec::new()));
        let (notes, signatures) = (Arc::clone(&noted), SignatureCheck::default());
        let checked = signatures.clone();
        let service = service_fn(move |request: Request<Incoming>| {
            let (notes, checked) = (Arc::clone(&notes), checked.clone());
            async move { Ok::<_, Infallible>(respond::<S>(request, &checked, &notes).await) }
        });
        Ok(Self { server: HttpServer::start_at(S::NAME, port, service).await?, signatures, noted })
    }

    /// From now on, requests must be signed with the credentials of the embedded services.
    pub(crate) fn require_signatures(&self) {
        self.signatures.require();
    }

    /// The server's URL: `http://127.0.0.1:<port>`.
    pub(crate) fn endpoint(&self) -> String {
        self.server.endpoint()
    }

    /// Takes the items that arrived since the last call.
    pub(crate) fn take(&self) -> Vec<T> {
        std::mem::take(&mut *self.noted.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

async fn respond<S: NotedService>(
    request: Request<Incoming>,
    signatures: &SignatureCheck,
    noted: &Mutex<Vec<S::Item>>,
) -> Response<Full<Bytes>> {
    let (head, body) = request.into_parts();
    let body = body.collect().await.map(|body| body.to_bytes()).unwrap_or_default();
    if !signatures.accepts(&head, &body) {
        return S::refuse();
    }
    let (items, response) = S::take(&head, &body);
    let mut noted = noted.lock().unwrap_or_else(PoisonError::into_inner);
    let room = MAX_ITEMS.saturating_sub(noted.len());
    noted.extend(items.into_iter().take(room));
    response
}
