//! A stand-in for `GetSecretValue` of Secrets Manager.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use hyper::{Request, StatusCode};
use serde_json::{Value, json};

use crate::loopback::{LoopbackServer, json_response};

/// The stand-in, which serves until it is dropped.
pub struct FakeSecrets {
    server: LoopbackServer,
}

impl FakeSecrets {
    /// Serves these texts, by the ARNs of their secrets.
    ///
    /// # Panics
    /// If no port is available.
    pub async fn start(texts: BTreeMap<String, String>) -> Self {
        let texts = Arc::new(texts);
        let server = LoopbackServer::serve(move |request: Request<Bytes>| {
            let body: Value = serde_json::from_slice(request.body()).unwrap_or_default();
            let arn = body["SecretId"].as_str().unwrap_or_default();
            let response = match texts.get(arn) {
                Some(text) => json_response(
                    StatusCode::OK,
                    &json!({ "ARN": arn, "Name": "cache", "SecretString": text }),
                ),
                None => {
                    json_response(StatusCode::BAD_REQUEST, &json!({ "__type": "ResourceNotFoundException" }))
                }
            };
            async move { Ok(response) }
        });
        Self { server: server.await.expect("a port") }
    }

    /// Its URL.
    #[must_use]
    pub fn endpoint(&self) -> String {
        self.server.endpoint()
    }
}
