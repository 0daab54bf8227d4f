//! A stand-in for DynamoDB with scripted responses, independent of the requests, for errors that a real service returns too rarely to be
//! tested.

use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex};

use afterwrite_services::dynamodb::DynamoDb;
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::retry::RetryConfig;
use aws_sdk_dynamodb::config::{BehaviorVersion, Builder, Credentials, Region};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

/// The response to one request.
#[derive(Clone, Debug)]
pub(super) enum ScriptedResponse {
    /// A status, a body and optionally a date.
    Http { status: u16, body: String, date: Option<&'static str> },
    /// The connection is closed without a response: the request may have taken effect.
    HangUp,
    /// The connection stays open without a response.
    Hang,
}

impl ScriptedResponse {
    pub(super) fn ok(body: impl Into<String>) -> Self {
        Self::Http { status: 200, body: body.into(), date: None }
    }

    pub(super) fn at(self, time: &'static str) -> Self {
        match self {
            Self::Http { status, body, .. } => Self::Http { status, body, date: Some(time) },
            Self::HangUp | Self::Hang => self,
        }
    }

    /// An error in DynamoDB's format.
    pub(super) fn error(status: u16, code: &str, message: &str) -> Self {
        let body = format!(r#"{{"__type":"com.amazonaws.dynamodb.v20120810#{code}","message":"{message}"}}"#);
        Self::Http { status, body, date: None }
    }
}

/// The service and its requests.
pub(super) struct ScriptedService {
    endpoint: String,
    requests: Arc<Mutex<Vec<String>>>,
}

impl ScriptedService {
    /// Sends each of the `responses` once, then always the last one.
    pub(super) async fn start(responses: Vec<ScriptedResponse>) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        let requests = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&requests);
        tokio::spawn(async move {
            let mut hanging = Vec::new();
            while let Ok((connection, _)) = listener.accept().await {
                hanging.extend(respond(connection, &responses, &seen).await);
            }
        });
        Self { endpoint, requests }
    }

    /// The bodies of the requests so far.
    pub(super) fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }

    pub(super) fn tables(&self) -> DynamoDb {
        tables(self.configuration())
    }

    /// The tables with the SDK's retries.
    pub(super) fn retrying_tables(&self) -> DynamoDb {
        DynamoDb::retrying(Client::from_conf(self.configuration().build()))
    }

    fn configuration(&self) -> Builder {
        let region = Region::from_static("us-east-1");
        let credentials = Credentials::new("test", "test", None, None, "test");
        configuration().endpoint_url(&self.endpoint).region(region).credentials_provider(credentials)
    }
}

/// A configuration without region, credentials or endpoint, with short retry delays.
pub(super) fn configuration() -> Builder {
    aws_sdk_dynamodb::Config::builder()
        .behavior_version(BehaviorVersion::latest())
        .http_client(afterwrite_services::http_client())
        .retry_config(RetryConfig::standard().with_initial_backoff(std::time::Duration::from_millis(1)))
}

pub(super) fn tables(configuration: Builder) -> DynamoDb {
    DynamoDb::new(Client::from_conf(configuration.build()))
}

/// Reads one request, responds to it and closes the connection, or returns it to be kept open.
async fn respond(
    mut connection: TcpStream,
    responses: &[ScriptedResponse],
    requests: &Mutex<Vec<String>>,
) -> Option<TcpStream> {
    let mut request = Vec::new();
    let body = loop {
        let text = String::from_utf8_lossy(&request).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head
                .lines()
                .find_map(|line| line.to_lowercase().strip_prefix("content-length:")?.trim().parse().ok());
            if body.len() >= length.unwrap_or(0) {
                break body.to_owned();
            }
        }
        if connection.read_buf(&mut request).await.unwrap_or(0) == 0 {
            return None;
        }
    };
    let number = {
        let mut requests = requests.lock().unwrap();
        requests.push(body);
        requests.len() - 1
    };
    match responses.get(number).or(responses.last())? {
        ScriptedResponse::Hang => Some(connection),
        ScriptedResponse::HangUp => None,
        ScriptedResponse::Http { status, body, date } => {
            let date = date.map(|date| format!("date: {date}\r\n")).unwrap_or_default();
            let head = format!(
                "HTTP/1.1 {status} x\r\ncontent-type: application/x-amz-json-1.0\r\n{date}connection: close\r\n"
            );
            let text = format!("{head}content-length: {}\r\n\r\n{body}", body.len());
            // The client may be gone already.
            let _ = connection.write_all(text.as_bytes()).await;
            None
        }
    }
}
