//! A stand-in of CloudFront's `CreateInvalidation` that remembers what it was asked, and refuses what it is told to.

use std::sync::{Arc, Mutex};

use afterwrite::sink::cloudfront::CloudFront;
use aws_sdk_cloudfront::Client;
use aws_sdk_cloudfront::config::{BehaviorVersion, Credentials, Region};
use bytes::Bytes;
use http_body_util::Full;
use hyper::Response;

use crate::loopback::Loopback;

/// An invalidation that was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    /// Its paths, in the order sent.
    pub paths: Vec<String>,
    /// Its caller reference.
    pub reference: String,
    /// Whether it was begun.
    pub begun: bool,
}

#[derive(Default)]
struct State {
    asked: Vec<Asked>,
    busy: usize,
    poison: Option<String>,
}

/// The stand-in, serving until dropped.
pub struct FakeCloudFront {
    server: Loopback,
    state: Arc<Mutex<State>>,
}

impl FakeCloudFront {
    /// Begins to serve.
    ///
    /// # Panics
    /// If no port can be had.
    pub async fn start() -> Self {
        let state = Arc::new(Mutex::new(State::default()));
        let shared = Arc::clone(&state);
        let server = Loopback::serve(move |request: hyper::Request<Bytes>| {
            let answer = answer(&mut shared.lock().expect("a state"), request.body());
            async move { Ok(answer) }
        });
        Self { server: server.await.expect("a port"), state }
    }

    /// Refuses the next requests as too many.
    ///
    /// # Panics
    /// Never, but for a poisoned lock.
    pub fn busy_for(&self, requests: usize) {
        self.state.lock().expect("a state").busy = requests;
    }

    /// Refuses every request with this path as invalid.
    ///
    /// # Panics
    /// Never, but for a poisoned lock.
    pub fn refuse(&self, path: &str) {
        self.state.lock().expect("a state").poison = Some(path.to_owned());
    }

    /// What it was asked so far.
    ///
    /// # Panics
    /// Never, but for a poisoned lock.
    #[must_use]
    pub fn asked(&self) -> Vec<Asked> {
        self.state.lock().expect("a state").asked.clone()
    }

    /// A distribution of it.
    #[must_use]
    pub fn distribution(&self) -> CloudFront {
        CloudFront::new(client(&format!("http://{}", self.server.address())), "EDFDVBD6EXAMPLE")
    }
}

/// A client of an endpoint.
#[must_use]
pub fn client(endpoint: &str) -> Client {
    let configuration = aws_sdk_cloudfront::Config::builder()
        .behavior_version(BehaviorVersion::latest())
        .http_client(afterwrite::sink::http_client())
        .region(Region::from_static("us-east-1"))
        .credentials_provider(Credentials::new("test", "test", None, None, "test"))
        .endpoint_url(endpoint);
    Client::from_conf(configuration.build())
}

fn answer(state: &mut State, body: &Bytes) -> Response<Full<Bytes>> {
    let body = String::from_utf8_lossy(body);
    let paths: Vec<String> = elements(&body, "Path");
    let reference = elements(&body, "CallerReference").pop().unwrap_or_default();
    let is_busy = state.busy > 0;
    state.busy = state.busy.saturating_sub(1);
    let is_poisoned = state.poison.as_ref().is_some_and(|poison| paths.contains(poison));
    let begun = !is_busy && !is_poisoned;
    state.asked.push(Asked { paths, reference, begun });
    let (status, text) = if is_busy {
        (400, error("TooManyInvalidationsInProgress"))
    } else if is_poisoned {
        (400, error("InvalidArgument"))
    } else {
        (201, "<Invalidation><Id>I1</Id><Status>InProgress</Status><CreateTime>2026-02-06T10:00:00Z</CreateTime>\
              <InvalidationBatch><Paths><Quantity>0</Quantity></Paths><CallerReference>r</CallerReference></InvalidationBatch></Invalidation>"
            .to_owned())
    };
    let response = Response::builder().status(status).header("content-type", "text/xml");
    response.body(Full::from(text)).expect("an answer")
}

fn error(code: &str) -> String {
    format!(
        "<ErrorResponse><Error><Type>Sender</Type><Code>{code}</Code><Message>m</Message></Error><RequestId>r</RequestId></ErrorResponse>"
    )
}

/// The texts of all elements of a name.
fn elements(xml: &str, name: &str) -> Vec<String> {
    let (open, close) = (format!("<{name}>"), format!("</{name}>"));
    xml.split(&open).skip(1).filter_map(|rest| rest.split(&close).next()).map(str::to_owned).collect()
}
