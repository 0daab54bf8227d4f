//! A stand-in for DynamoDB that answers each request with the next of its answers, whatever was asked: for what a real one
//! does too seldom to be tested.

use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex};

use afterwrite::sink::dynamodb::DynamoDb;
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::retry::RetryConfig;
use aws_sdk_dynamodb::config::{BehaviorVersion, Builder, Credentials, Region};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

/// How one request is answered.
#[derive(Clone, Debug)]
pub(super) enum ScriptedResponse {
    /// A status, a body and, for some, a date.
    Http { status: u16, body: String, date: Option<&'static str> },
    /// The connection is closed without a word: the request may have taken effect.
    HangUp,
}

impl ScriptedResponse {
    pub(super) fn ok(body: impl Into<String>) -> Self {
        Self::Http { status: 200, body: body.into(), date: None }
    }

    pub(super) fn at(self, time: &'static str) -> Self {
        match self {
            Self::Http { status, body, .. } => Self::Http { status, body, date: Some(time) },
            Self::HangUp => Self::HangUp,
        }
    }

    /// An error as DynamoDB writes it.
    pub(super) fn error(status: u16, code: &str, message: &str) -> Self {
        let body = format!(r#"{{"__type":"com.amazonaws.dynamodb.v20120810#{code}","message":"{message}"}}"#);
        Self::Http { status, body, date: None }
    }
}

/// The service and what it was asked.
pub(super) struct ScriptedService {
    endpoint: String,
    requests: Arc<Mutex<Vec<String>>>,
}

impl ScriptedService {
    /// Answers with each of `answers` once, then with the last one for ever.
    pub(super) async fn start(answers: Vec<ScriptedResponse>) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        let requests = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&requests);
        tokio::spawn(async move {
            loop {
                let Ok((connection, _)) = listener.accept().await else { return };
                answer(connection, &answers, &seen).await;
            }
        });
        Self { endpoint, requests }
    }

    /// The bodies of the requests so far.
    pub(super) fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }

    pub(super) fn tables(&self) -> DynamoDb {
        let region = Region::from_static("us-east-1");
        let credentials = Credentials::new("test", "test", None, None, "test");
        tables(configuration().endpoint_url(&self.endpoint).region(region).credentials_provider(credentials))
    }
}

/// A configuration without region, credentials or endpoint; retries hardly wait.
pub(super) fn configuration() -> Builder {
    aws_sdk_dynamodb::Config::builder()
        .behavior_version(BehaviorVersion::latest())
        .http_client(afterwrite::sink::http_client())
        .retry_config(RetryConfig::standard().with_initial_backoff(std::time::Duration::from_millis(1)))
}

pub(super) fn tables(configuration: Builder) -> DynamoDb {
    DynamoDb::new(Client::from_conf(configuration.build()))
}

/// Reads one request, answers it and closes the connection.
async fn answer(mut connection: TcpStream, answers: &[ScriptedResponse], requests: &Mutex<Vec<String>>) {
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
            return;
        }
    };
    let number = {
        let mut requests = requests.lock().unwrap();
        requests.push(body);
        requests.len() - 1
    };
    if let Some(ScriptedResponse::Http { status, body, date }) = answers.get(number).or(answers.last()) {
        let date = date.map(|date| format!("date: {date}\r\n")).unwrap_or_default();
        let head = format!(
            "HTTP/1.1 {status} x\r\ncontent-type: application/x-amz-json-1.0\r\n{date}connection: close\r\n"
        );
        let text = format!("{head}content-length: {}\r\n\r\n{body}", body.len());
        // A client that is gone does not want its answer.
        let _ = connection.write_all(text.as_bytes()).await;
    }
}
