//! The guard before every page: refuses requests that another site makes, and sets the headers that keep a page to itself.
//!
//! | request | refused because |
//! |---|---|
//! | a `Host` that is a foreign name | a name of another site may point to this machine (DNS rebinding) |
//! | a write whose `Origin` is another site, or that has no token of this session | another site may send forms |
//! | a page or a file that another site loads into itself | a page may cost reads, and would be clicked unseen |
//! | any request without the access token, if the console listens beyond this machine | everyone on the network may ask |

use std::net::IpAddr;
use std::sync::Arc;

use afterwrite_model::harmless::harmless;
use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::http::header::{self, HeaderMap, HeaderValue};
use axum::http::{Method, StatusCode};
use axum::middleware::Next;
use axum::response::{Html, IntoResponse, Response};
use maud::{DOCTYPE, Markup, html};

use crate::assets::asset_address;
use crate::query::PageQuery;
use crate::served::{Served, TOKEN};

/// The longest body of a form, in bytes: an item of DynamoDB, encoded.
const MAX_BODY: usize = 2 * 1024 * 1024;
const COOKIE: &str = "afterwrite_console";

const HEADERS: [(header::HeaderName, &str); 6] = [
    (
        header::CONTENT_SECURITY_POLICY,
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    ),
    (header::X_FRAME_OPTIONS, "DENY"),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "same-origin"),
    (header::HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    (header::HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
];

/// Lets requests of this console's own pages pass.
pub(crate) async fn guard(State(served): State<Arc<Served>>, request: Request, next: Next) -> Response {
    let mut response = match checked(&served, request).await {
        Ok(request) => next.run(request).await,
        Err(refusal) => refusal.into_response(),
    };
    let headers = response.headers_mut();
    for (name, value) in HEADERS {
        headers.insert(name, HeaderValue::from_static(value));
    }
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    response
}

async fn checked(served: &Served, request: Request) -> Result<Request, Refusal> {
    let host = text(request.headers(), &header::HOST).unwrap_or_default().to_owned();
    if !is_own_host(&host, &served.hosts) {
        return Err(Refusal::Because(
            StatusCode::FORBIDDEN,
            "This name is not one of the console's. Open the address that the command printed, or start the console with --allow-host",
        ));
    }
    check_access(served, &request)?;
    match *request.method() {
        Method::GET | Method::HEAD => check_site(&request).map(|()| request),
        Method::POST => checked_write(served, &host, request).await,
        _ => Err(Refusal::Because(StatusCode::METHOD_NOT_ALLOWED, "The console takes GET and POST")),
    }
}

/// Whether a `Host` is this console: an IP address, which no other site can own a name for, `localhost`, or a name that was allowed.
fn is_own_host(host: &str, allowed: &[String]) -> bool {
    let Some(name) = name_of(host) else { return false };
    name.parse::<IpAddr>().is_ok()
        || name.eq_ignore_ascii_case("localhost")
        || allowed.iter().any(|known| name.eq_ignore_ascii_case(known))
}

/// The name or the address of a `Host`; `None` if anything but a port follows it.
fn name_of(host: &str) -> Option<&str> {
    let (name, port) = match host.strip_prefix('[') {
        Some(rest) => rest.split_once(']')?,
        None => host.split_at(host.find(':').unwrap_or(host.len())),
    };
    let is_port = |port: &str| !port.is_empty() && port.bytes().all(|digit| digit.is_ascii_digit());
    (port.is_empty() || port.strip_prefix(':').is_some_and(is_port)).then_some(name)
}

/// Checks the access token: the cookie, or the parameter of the first address, which sets the cookie.
fn check_access(served: &Served, request: &Request) -> Result<(), Refusal> {
    let Some(token) = &served.tokens.access else { return Ok(()) };
    let cookies = text(request.headers(), &header::COOKIE).unwrap_or_default();
    let cookie = cookies.split(';').filter_map(|pair| pair.trim().split_once('='));
    let mut cookie = cookie.filter(|(name, _)| *name == COOKIE).map(|(_, value)| value);
    if cookie.any(|value| are_equal(value, token)) {
        return Ok(());
    }
    let query = PageQuery::parse(request.uri().query().unwrap_or_default());
    if query.get(TOKEN).is_some_and(|given| are_equal(given, token)) {
        let path = own_path(&query.address(request.uri().path(), [(TOKEN, None)]));
        let cookie = format!("{COOKIE}={token}; HttpOnly; SameSite=Strict; Path=/");
        return Err(Refusal::Redirect { path, cookie });
    }
    Err(Refusal::Because(
        StatusCode::UNAUTHORIZED,
        "Open the address that the command printed: it has the token of this session",
    ))
}

/// Checks that no other site loads a page. A reader who follows a link of another site clicks once more, so that a link alone costs nothing.
fn check_site(request: &Request) -> Result<(), Refusal> {
    let headers = request.headers();
    let fetched = |name| text(headers, &header::HeaderName::from_static(name));
    match fetched("sec-fetch-site") {
        None | Some("none" | "same-origin") => Ok(()),
        Some(_)
            if fetched("sec-fetch-mode") == Some("navigate")
                && fetched("sec-fetch-dest") == Some("document") =>
        {
            let path = request.uri().path_and_query().map_or("/", |path| path.as_str());
            Err(Refusal::AskFirst { path: own_path(path) })
        }
        Some(_) => {
            Err(Refusal::Because(StatusCode::FORBIDDEN, "Another site may not load pages of this console"))
        }
    }
}

/// Checks that a write comes from a page of this session.
async fn checked_write(served: &Served, host: &str, request: Request) -> Result<Request, Refusal> {
    if !served.context.options.allows_writes {
        return Err(Refusal::Because(
            StatusCode::FORBIDDEN,
            "The console is read-only. Start it with --allow-writes",
        ));
    }
    let headers = request.headers();
    let foreign_site = text(headers, &header::HeaderName::from_static("sec-fetch-site"))
        .is_some_and(|site| site != "same-origin");
    // A proxy that ends TLS passes the `Host` on, and the browser has an origin with `https`.
    let origin = text(headers, &header::ORIGIN).unwrap_or_default();
    let is_own = ["http://", "https://"].iter().any(|scheme| origin.strip_prefix(scheme) == Some(host));
    if foreign_site || !is_own {
        return Err(Refusal::Because(StatusCode::FORBIDDEN, "A write must come from a page of this console"));
    }
    let (parts, body) = request.into_parts();
    let bytes = to_bytes(body, MAX_BODY).await.map_err(|_| {
        Refusal::Because(StatusCode::PAYLOAD_TOO_LARGE, "The form is larger than an item of DynamoDB may be")
    })?;
    let form = PageQuery::parse(&String::from_utf8_lossy(&bytes));
    if !form.get(TOKEN).is_some_and(|given| are_equal(given, &served.tokens.writes)) {
        return Err(Refusal::Because(
            StatusCode::FORBIDDEN,
            "The form has no token of this session. Load the page again, and repeat what you did",
        ));
    }
    Ok(Request::from_parts(parts, Body::from(bytes)))
}

fn text<'h>(headers: &'h HeaderMap, name: &header::HeaderName) -> Option<&'h str> {
    headers.get(name)?.to_str().ok()
}

/// Whether two texts are equal; the time depends on their lengths alone.
fn are_equal(one: &str, other: &str) -> bool {
    let differences = one.bytes().zip(other.bytes()).fold(0, |found, (one, other)| found | (one ^ other));
    one.len() == other.len() && differences == 0
}

/// The answer in place of a page.
enum Refusal {
    /// The request is refused.
    Because(StatusCode, &'static str),
    /// Another site has opened the page: the reader decides.
    AskFirst { path: String },
    /// The reader has the token: the browser keeps it, and opens the page without it in the address.
    Redirect { path: String, cookie: String },
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        match self {
            Self::Because(status, reason) => (status, format!("{reason}.\n")).into_response(),
            Self::AskFirst { path } => Html(ask_first(&path).into_string()).into_response(),
            Self::Redirect { path, cookie } => {
                let headers = [(header::LOCATION, path), (header::SET_COOKIE, cookie)];
                (StatusCode::SEE_OTHER, headers).into_response()
            }
        }
    }
}

/// A path of this console: browsers take a path that begins with two slashes for the address of another site.
fn own_path(path: &str) -> String {
    format!("/{}", path.trim_start_matches(['/', '\\']))
}

/// A page with a link to the page that another site has opened.
fn ask_first(path: &str) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { "Afterwrite console" }
                link rel="stylesheet" href=(asset_address("console.css"));
            }
            body {
                main {
                    h1 { "A link of another site" }
                    p { "Another site has opened a page of this console: " code { (harmless(path)) } }
                    p { a href=(path) { "Open the page" } }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_and_known_names_are_hosts() {
        let allowed = ["ops.example".to_owned()];
        for own in ["127.0.0.1:8006", "localhost:1", "LOCALHOST", "[::1]:80", "10.0.0.7:80", "ops.example:80"]
        {
            assert!(is_own_host(own, &allowed), "{own}");
        }
        for foreign in [
            "",
            "evil.example:8006",
            "127.0.0.1.evil.example",
            "localhost.evil.example:80",
            "[evil]:1",
            "ops.example.evil",
            "localhost:8006.evil.example",
            "127.0.0.1:80:evil.example",
            "[::1].evil.example",
            "localhost:",
            "localhost:80@evil.example",
        ] {
            assert!(!is_own_host(foreign, &allowed), "{foreign}");
        }
    }

    #[test]
    fn a_path_leads_to_no_other_site() {
        for (path, expected) in [
            ("/rollups?name=a", "/rollups?name=a"),
            ("//evil.example/x", "/evil.example/x"),
            ("/\\evil.example", "/evil.example"),
            ("", "/"),
        ] {
            assert_eq!(own_path(path), expected);
        }
    }
}
