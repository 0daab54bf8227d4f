//! Requests to a console, as a browser or another site sends them.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use afterwrite_tests::development::Development;
use serde_json::Value;

/// A response.
#[derive(Debug)]
pub(super) struct PageResponse {
    /// The status.
    pub(super) status: u16,
    /// The head, as it was received.
    pub(super) head: String,
    /// The body.
    pub(super) body: String,
}

/// The console of a running `dev`.
pub(super) struct ConsoleClient {
    /// `127.0.0.1:PORT`.
    pub(super) host: String,
}

impl ConsoleClient {
    pub(super) fn of(development: &Development) -> Self {
        Self::at(development.announced["console"].as_str().expect("an address"))
    }

    pub(super) fn at(url: &str) -> Self {
        let host = url.trim_start_matches("http://").split('/').next().unwrap_or_default();
        Self { host: host.to_owned() }
    }

    /// A page, as its own reader asks for it.
    pub(super) fn get(&self, path: &str) -> PageResponse {
        self.request("GET", path, &[("Host", &self.host)], "")
    }

    /// The tables of a page.
    pub(super) fn json(&self, path: &str) -> Value {
        let separator = if path.contains('?') { '&' } else { '?' };
        let response = self.get(&format!("{path}{separator}format=json"));
        assert_eq!(response.status, 200, "{path}: {}", response.body);
        serde_json::from_str(&response.body)
            .unwrap_or_else(|error| panic!("{path}: {error}: {}", response.body))
    }

    /// The token of the session: a form of this page has it.
    pub(super) fn token(&self, path: &str) -> String {
        let page = self.get(path).body;
        let (_, rest) =
            page.split_once(r#"name="token" value=""#).unwrap_or_else(|| panic!("no form: {page}"));
        rest.split('"').next().unwrap_or_default().to_owned()
    }

    /// Sends a form, as a page of the console does.
    pub(super) fn post(&self, path: &str, form: &str) -> PageResponse {
        let origin = format!("http://{}", self.host);
        let headers = [("Host", self.host.as_str()), ("Origin", &origin), ("Sec-Fetch-Site", "same-origin")];
        self.request("POST", path, &headers, form)
    }

    /// A request with exactly these headers.
    pub(super) fn request(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> PageResponse {
        let mut stream = TcpStream::connect(&self.host).expect("a connection");
        stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a time limit");
        let headers: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        let length = body.len();
        let kind = "Content-Type: application/x-www-form-urlencoded";
        write!(
            stream,
            "{method} {path} HTTP/1.1\r\n{headers}Connection: close\r\n{kind}\r\nContent-Length: {length}\r\n\r\n{body}"
        )
        .expect("a request");
        let mut response = Vec::new();
        stream.read_to_end(&mut response).expect("a response");
        let response = String::from_utf8_lossy(&response).into_owned();
        let (head, body) = response.split_once("\r\n\r\n").expect("a head");
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
        PageResponse { status, head: head.to_owned(), body: body.to_owned() }
    }
}

/// A value in an address.
pub(super) fn encoded(value: &str) -> String {
    value.bytes().map(|byte| format!("%{byte:02X}")).collect()
}
