//! A CloudFront inside this process that takes invalidations and remembers their paths.

use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};

use afterwrite_mapping::http::{HttpServer, service_response};
use afterwrite_model::Result;
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};

use crate::signature::{self, SignatureCheck};

/// Paths that are remembered.
const MAX_PATHS: usize = 10_000;
const RESPONSE: &str = "<Invalidation><Id>I1</Id><Status>InProgress</Status><CreateTime>2026-01-01T00:00:00Z</CreateTime>\
     <InvalidationBatch><Paths><Quantity>0</Quantity></Paths><CallerReference>r</CallerReference></InvalidationBatch></Invalidation>";

/// A running CloudFront.
#[derive(Debug)]
pub struct EmbeddedCloudFront {
    server: HttpServer,
    signatures: SignatureCheck,
    paths: Arc<Mutex<Vec<String>>>,
}

impl EmbeddedCloudFront {
    /// Starts a server on a port of 127.0.0.1; 0 is any free one. It takes invalidations of any distribution.
    ///
    /// # Errors
    /// `Configuration` if the port is in use.
    pub async fn start(port: u16) -> Result<Self> {
        let paths = Arc::new(Mutex::new(Vec::new()));
        let (noted, signatures) = (Arc::clone(&paths), SignatureCheck::default());
        let checked = signatures.clone();
        let service = service_fn(move |request: Request<Incoming>| {
            let (noted, checked) = (Arc::clone(&noted), checked.clone());
            async move { Ok::<_, Infallible>(respond(request, &checked, &noted).await) }
        });
        let server = HttpServer::start_at("embedded CloudFront", port, service).await?;
        Ok(Self { server, signatures, paths })
    }

    /// From now on, requests must be signed with the credentials of the embedded services.
    pub fn require_signatures(&self) {
        self.signatures.require();
    }

    /// The server's URL: `http://127.0.0.1:<port>`.
    #[must_use]
    pub fn endpoint(&self) -> String {
        self.server.endpoint()
    }

    /// Takes the paths that were invalidated since the last call.
    #[must_use]
    pub fn take_paths(&self) -> Vec<String> {
        std::mem::take(&mut *self.paths.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

async fn respond(
    request: Request<Incoming>,
    signatures: &SignatureCheck,
    noted: &Mutex<Vec<String>>,
) -> Response<Full<Bytes>> {
    let (head, body) = request.into_parts();
    let body = body.collect().await.map(|body| body.to_bytes()).unwrap_or_default();
    if !signatures.accepts(&head, &body) {
        let error = format!(
            "<ErrorResponse><Error><Code>UnrecognizedClientException</Code><Message>{}</Message></Error></ErrorResponse>",
            signature::REFUSAL
        );
        return service_response(StatusCode::FORBIDDEN, "text/xml", error);
    }
    let body = String::from_utf8_lossy(&body).into_owned();
    let mut noted = noted.lock().unwrap_or_else(PoisonError::into_inner);
    let room = MAX_PATHS.saturating_sub(noted.len());
    noted.extend(paths(&body).take(room).map(str::to_owned));
    service_response(StatusCode::CREATED, "text/xml", RESPONSE)
}

/// The texts of the elements `Path`.
fn paths(body: &str) -> impl Iterator<Item = &str> {
    body.split("<Path>").skip(1).filter_map(|rest| rest.split("</Path>").next())
}
