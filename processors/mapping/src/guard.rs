//! The requests that a server on this machine answers: requests of programs, not of web pages.
//!
//! A page can send requests to 127.0.0.1 from the browser of its visitor. It may name the server directly, or by a name of its own that
//! resolves to 127.0.0.1 (DNS rebinding). So a server answers only requests whose `Host` is a name of this machine, and none that a browser
//! sends for a page of another origin; and no response permits a page to read it.

use http_body_util::Full;
use hyper::body::Bytes;
use hyper::header::{CONTENT_TYPE, HOST, HeaderMap, HeaderName, HeaderValue, ORIGIN};
use hyper::{Request, Response, StatusCode};

/// Where a browser states which page has caused a request.
const FETCH_SITE: &str = "sec-fetch-site";

/// Names of this machine in its containers.
const CONTAINER_HOSTS: [&str; 2] = ["host.docker.internal", "host.containers.internal"];

/// The refusal of a request; `None` if the server answers it.
pub(crate) fn refusal<B>(request: &Request<B>) -> Option<Response<Full<Bytes>>> {
    let headers = request.headers();
    let mut hosts = headers.get_all(HOST).iter().map(|host| host.to_str().unwrap_or_default());
    let host = headers.get(HOST).and_then(|host| host.to_str().ok());
    let target = request.uri().authority().map(|authority| authority.as_str());
    let is_local =
        host.or(target).is_some() && hosts.all(is_of_this_machine) && target.is_none_or(is_of_this_machine);
    if !is_local {
        let message = "The Host header names another machine. Use http://127.0.0.1 or http://localhost.";
        return Some(forbidden(message));
    }
    let origin = headers.get(ORIGIN).map(|origin| origin.to_str().unwrap_or_default());
    let is_own = |origin: &str| {
        origin.split_once("://").is_some_and(|(_, authority)| host.or(target) == Some(authority))
    };
    let site = headers.get(FETCH_SITE).map(|site| site.to_str().unwrap_or_default());
    let is_foreign = origin.is_some_and(|origin| !is_own(origin))
        || site.is_some_and(|site| !["same-origin", "none"].contains(&site));
    is_foreign.then(|| forbidden("This server answers programs, not web pages of other origins."))
}

/// Removes every header that permits a page of another origin to read the response.
pub(crate) fn remove_grants(headers: &mut HeaderMap) {
    let is_grant = |name: &&HeaderName| name.as_str().starts_with("access-control-");
    let grants: Vec<HeaderName> = headers.keys().filter(is_grant).cloned().collect();
    grants.iter().for_each(|name| drop(headers.remove(name)));
}

/// Whether `host` or `host:port` is this machine.
fn is_of_this_machine(authority: &str) -> bool {
    let Ok(authority) = authority.parse::<hyper::http::uri::Authority>() else { return false };
    // No program names a user here, and programs differ in which part they take for the host.
    if authority.as_str().contains('@') {
        return false;
    }
    let host = authority.host().trim_start_matches('[').trim_end_matches(']');
    if let Ok(address) = host.parse::<std::net::IpAddr>() {
        return address.is_loopback();
    }
    let host = host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase();
    host == "localhost" || host.ends_with(".localhost") || CONTAINER_HOSTS.contains(&&*host)
}

fn forbidden(message: &str) -> Response<Full<Bytes>> {
    let body = serde_json::json!({ "__type": "AccessDeniedException", "message": message });
    let mut response = Response::new(Full::new(Bytes::from(body.to_string())));
    *response.status_mut() = StatusCode::FORBIDDEN;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/x-amz-json-1.0"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_refused(headers: &[(&str, &str)]) -> bool {
        let request = headers
            .iter()
            .fold(Request::builder().uri("/"), |request, (name, value)| request.header(*name, *value));
        refusal(&request.body(()).unwrap()).is_some()
    }

    #[test]
    fn only_names_of_this_machine_are_answered() {
        let own = [
            "127.0.0.1:8000",
            "localhost",
            "LOCALHOST.:80",
            "bucket.localhost:8001",
            "[::1]:8000",
            "127.9.8.7",
        ];
        for host in own.into_iter().chain(["host.docker.internal:8000"]) {
            assert!(!is_refused(&[("host", host)]), "{host}");
        }
        for host in
            ["evil.example", "127.0.0.1.evil.example:8000", "localhost.evil.example", "10.0.0.1", "", "a b"]
        {
            assert!(is_refused(&[("host", host)]), "{host}");
            assert!(is_refused(&[("host", "localhost"), ("host", host)]), "{host} behind localhost");
        }
        for host in ["evil.example@127.0.0.1:8000", "127.0.0.1@evil.example:8000"] {
            assert!(is_refused(&[("host", host)]), "{host}");
        }
        assert!(is_refused(&[]), "no host");
    }

    #[test]
    fn no_page_of_another_origin_is_answered() {
        let host = ("host", "127.0.0.1:8000");
        for origin in ["https://evil.example", "http://localhost:3000", "null", "http://127.0.0.1:8001"] {
            assert!(is_refused(&[host, ("origin", origin)]), "{origin}");
        }
        assert!(is_refused(&[host, ("sec-fetch-site", "cross-site")]));
        assert!(!is_refused(&[host, ("origin", "http://127.0.0.1:8000"), ("sec-fetch-site", "same-origin")]));
        assert!(!is_refused(&[host, ("sec-fetch-site", "none")]), "an address that a person typed");
    }
}
