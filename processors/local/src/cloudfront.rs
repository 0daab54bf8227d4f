//! A CloudFront inside this process that takes invalidations and remembers their paths.

use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};

use afterwrite::Result;
use afterwrite_mapping::http::HttpServer;
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};

/// Paths that are remembered.
const MAX_PATHS: usize = 10_000;
const RESPONSE: &str = "<Invalidation><Id>I1</Id><Status>InProgress</Status><CreateTime>2026-01-01T00:00:00Z</CreateTime>\
     <InvalidationBatch><Paths><Quantity>0</Quantity></Paths><CallerReference>r</CallerReference></InvalidationBatch></Invalidation>";

/// A running CloudFront.
#[derive(Debug)]
pub struct EmbeddedCloudFront {
    server: HttpServer,
    paths: Arc<Mutex<Vec<String>>>,
}

impl EmbeddedCloudFront {
    /// Starts a server on a port of 127.0.0.1; 0 is any free one. It takes invalidations of any distribution.
    ///
    /// # Errors
    /// `Configuration` if the port is in use.
    pub async fn start(port: u16) -> Result<Self> {
        let paths = Arc::new(Mutex::new(Vec::new()));
        let noted = Arc::clone(&paths);
        let service = service_fn(move |request: Request<Incoming>| {
            let noted = Arc::clone(&noted);
            async move { Ok::<_, Infallible>(respond(request, &noted).await) }
        });
        Ok(Self { server: HttpServer::start_at("embedded CloudFront", port, service).await?, paths })
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

async fn respond(request: Request<Incoming>, noted: &Mutex<Vec<String>>) -> Response<Full<Bytes>> {
    let body = match request.into_body().collect().await {
        Ok(body) => String::from_utf8_lossy(&body.to_bytes()).into_owned(),
        Err(_) => String::new(),
    };
    let mut noted = noted.lock().unwrap_or_else(PoisonError::into_inner);
    let room = MAX_PATHS.saturating_sub(noted.len());
    noted.extend(paths(&body).take(room).map(str::to_owned));
    let mut response = Response::new(Full::new(Bytes::from_static(RESPONSE.as_bytes())));
    *response.status_mut() = StatusCode::CREATED;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/xml"));
    response
}

/// The texts of the elements `Path`.
fn paths(body: &str) -> impl Iterator<Item = &str> {
    body.split("<Path>").skip(1).filter_map(|rest| rest.split("</Path>").next())
}
