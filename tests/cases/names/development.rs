//! Case E5: web pages at the servers of `dev`.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use afterwrite_local::cloudfront::EmbeddedCloudFront;
use afterwrite_local::dynamodb::EmbeddedDynamoDb;
use afterwrite_local::s3::EmbeddedS3;
use afterwrite_local::sqs::EmbeddedSqs;
use afterwrite_local::stream_api::StreamServer;
use afterwrite_tests::programs::program;
use serde_json::Value;

/// The response to a request as a web page or a program sends it.
fn response(endpoint: &str, method: &str, headers: &[(&str, &str)]) -> String {
    let authority = endpoint.strip_prefix("http://").unwrap();
    let mut request = format!("{method} / HTTP/1.1\r\nConnection: close\r\nContent-Length: 2\r\n");
    if !headers.iter().any(|(name, _)| *name == "Host") {
        request.push_str(&format!("Host: {authority}\r\n"));
    }
    headers.iter().for_each(|(name, value)| request.push_str(&format!("{name}: {value}\r\n")));
    let mut socket = TcpStream::connect(authority).unwrap();
    socket.write_all(format!("{request}\r\n{{}}").as_bytes()).unwrap();
    let mut response = String::new();
    socket.read_to_string(&mut response).unwrap();
    response.to_ascii_lowercase()
}

/// Asserts that a server answers no web page.
fn assert_guarded(endpoint: &str) {
    let target = ("X-Amz-Target", "DynamoDB_20120810.ListTables");
    let foreign = ("Origin", "https://evil.example");
    for (method, headers) in [
        ("OPTIONS", &[foreign, ("Access-Control-Request-Method", "POST")][..]),
        ("POST", &[foreign, target, ("Content-Type", "application/x-amz-json-1.0")]),
        ("POST", &[("Host", "evil.example"), target]),
        ("POST", &[("Host", "127.0.0.1.evil.example:8000"), target]),
        ("GET", &[("Sec-Fetch-Site", "cross-site")]),
        ("POST", &[("Origin", "null"), ("Content-Type", "text/plain")]),
    ] {
        let response = response(endpoint, method, headers);
        assert!(response.starts_with("http/1.1 403"), "{endpoint} {headers:?}: {response}");
        assert!(!response.contains("access-control"), "{endpoint}: {response}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn e5_no_embedded_server_answers_a_web_page() {
    let dynamodb = EmbeddedDynamoDb::start().await.unwrap();
    let streams = StreamServer::start(&dynamodb, 0).await.unwrap();
    let s3 = EmbeddedS3::start().await.unwrap();
    let sqs = EmbeddedSqs::start(0, &["q"]).await.unwrap();
    let cloudfront = EmbeddedCloudFront::start(0, "dev").await.unwrap();
    let endpoints = [streams.endpoint(), s3.endpoint(), sqs.endpoint(), cloudfront.endpoint()];
    tokio::task::spawn_blocking(move || endpoints.iter().for_each(|endpoint| assert_guarded(endpoint)))
        .await
        .unwrap();
    assert!(streams.client().list_tables().send().await.is_ok(), "a program is answered");
}

#[tokio::test(flavor = "multi_thread")]
async fn e5_signatures_are_checked_once_they_are_required() {
    let dynamodb = EmbeddedDynamoDb::start().await.unwrap();
    let streams = StreamServer::start(&dynamodb, 0).await.unwrap();
    streams.require_signatures();
    let own = streams.client();
    assert!(own.list_tables().send().await.is_ok(), "signed with the credentials of the server");
    let credentials = aws_sdk_dynamodb::config::Credentials::new("embedded", "other", None, None, "test");
    let other = own.config().to_builder().credentials_provider(credentials).build();
    let refused = aws_sdk_dynamodb::Client::from_conf(other).list_tables().send().await.unwrap_err();
    assert!(format!("{refused:?}").contains("UnrecognizedClientException"), "{refused:?}");
}

/// A running `afterwrite dev`.
struct Development {
    process: Child,
    endpoints: Value,
}

impl Development {
    fn start(more: &[&str]) -> Self {
        let mut command = Command::new(program("afterwrite"));
        command.args(["dev", "--json", "--port", "0", "--model", "exambuddy"]).args(more);
        let mut process = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let started: Value = serde_json::from_str(&line).unwrap();
        Self { process, endpoints: started["endpoints"].clone() }
    }
}

impl Drop for Development {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
#[ignore = "needs the release binaries: run tests/run"]
fn e5_all_servers_of_dev_refuse_web_pages_and_unsigned_requests() {
    let development = Development::start(&[]);
    let endpoints = development.endpoints.as_object().unwrap();
    assert_eq!(endpoints.len(), 5);
    for (service, endpoint) in endpoints {
        let endpoint = endpoint.as_str().unwrap();
        assert_guarded(endpoint);
        // S3 has no action for a POST without a bucket; GET lists the buckets.
        let method = if service == "s3" { "GET" } else { "POST" };
        let scope = format!(
            "AWS4-HMAC-SHA256 Credential=embedded/20260206/us-east-1/{service}/aws4_request, SignedHeaders=host, Signature=0"
        );
        for headers in [
            &[("X-Amz-Target", "DynamoDB_20120810.ListTables")][..],
            &[("Authorization", &*scope), ("X-Amz-Date", "20260206T000000Z")],
        ] {
            let response = response(endpoint, method, headers);
            assert!(response.starts_with("http/1.1 4"), "{endpoint}: {response}");
        }
    }
}

#[test]
#[ignore = "needs the release binaries: run tests/run"]
fn e5_the_runtime_api_answers_no_web_page() {
    let folder = tempfile::tempdir().unwrap();
    let (bootstrap, named) = (folder.path().join("bootstrap"), folder.path().join("endpoint"));
    let script =
        format!("#!/bin/sh\necho \"$AWS_LAMBDA_RUNTIME_API\" >'{}'\nexec sleep 20\n", named.display());
    std::fs::write(&bootstrap, script).unwrap();
    std::fs::set_permissions(&bootstrap, std::fs::Permissions::from_mode(0o755)).unwrap();
    let function = format!("search={}", bootstrap.display());
    let _development = Development::start(&["--function", &function]);
    let started = Instant::now();
    let endpoint = loop {
        let endpoint = std::fs::read_to_string(&named).unwrap_or_default();
        if endpoint.ends_with('\n') {
            break endpoint;
        }
        assert!(started.elapsed() < Duration::from_secs(30), "the function was not started");
        std::thread::sleep(Duration::from_millis(50));
    };
    assert_guarded(&format!("http://{}", endpoint.trim()));
}
