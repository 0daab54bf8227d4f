//! The signatures of requests to the embedded services, as AWS checks them ([Signature Version 4]).
//!
//! The embedded S3 always checks them. The other servers do so once [`SignatureCheck::require`] was called, so that all servers of
//! `afterwrite dev` take only the same credentials. Neither the age nor the region of a signature is checked.
//!
//! [Signature Version 4]: https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv.html

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use afterwrite_model::hex;
use hyper::header::AUTHORIZATION;
use hyper::http::request::Parts;
use sha2::{Digest as _, Sha256};

use crate::sdk::CREDENTIAL;

/// The bytes of a block of SHA-256.
const BLOCK_BYTES: usize = 64;

/// Whether a server checks signatures.
#[derive(Clone, Debug, Default)]
pub(crate) struct SignatureCheck(Arc<AtomicBool>);

/// The message to a client whose request has another signature.
pub(crate) const REFUSAL: &str = "The request is not signed with the credentials of this server. Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY to `embedded`.";

impl SignatureCheck {
    /// From now on, requests must be signed.
    pub(crate) fn require(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether a request may be answered.
    pub(crate) fn accepts(&self, head: &Parts, body: &[u8]) -> bool {
        !self.0.load(Ordering::Relaxed) || is_signed(head, body).unwrap_or(false)
    }
}

/// The parts of the header `Authorization`.
struct Authorization<'h> {
    /// Date, region, service and `aws4_request`, with slashes between them.
    scope: &'h str,
    signed_headers: &'h str,
    signature: &'h str,
}

impl<'h> Authorization<'h> {
    /// `None` if it is not a signature with the access key of the embedded services.
    fn read(header: &'h str) -> Option<Self> {
        let fields: BTreeMap<&str, &str> = header
            .strip_prefix("AWS4-HMAC-SHA256 ")?
            .split(',')
            .filter_map(|field| field.trim().split_once('='))
            .collect();
        let (access_key, scope) = fields.get("Credential")?.split_once('/')?;
        (access_key == CREDENTIAL).then_some(())?;
        let (signed_headers, signature) = (*fields.get("SignedHeaders")?, *fields.get("Signature")?);
        Some(Self { scope, signed_headers, signature })
    }
}

/// Whether the signature is that of the request; `None` if it has none that can be read.
fn is_signed(head: &Parts, body: &[u8]) -> Option<bool> {
    let authorization = Authorization::read(head.headers.get(AUTHORIZATION)?.to_str().ok()?)?;
    let Authorization { scope, signed_headers, signature } = authorization;
    let mut request = format!("{}\n{}\n{}\n", head.method, canonical_path(head), canonical_query(head));
    for name in signed_headers.split(';') {
        let values = head.headers.get_all(name).iter().map(|value| value.to_str().ok());
        let values: Vec<&str> = values.collect::<Option<_>>()?;
        let values: Vec<String> = values.into_iter().map(single_spaces).collect();
        let _ = writeln!(request, "{name}:{}", values.join(","));
    }
    let hash = hex(&Sha256::digest(body), 32);
    let _ = write!(request, "\n{signed_headers}\n{hash}");
    let date = head.headers.get("x-amz-date")?.to_str().ok()?;
    let hash = hex(&Sha256::digest(request.as_bytes()), 32);
    let text = format!("AWS4-HMAC-SHA256\n{date}\n{scope}\n{hash}");
    let first = format!("AWS4{CREDENTIAL}").into_bytes();
    let key = scope.split('/').fold(first, |key, part| hmac(&key, part.as_bytes()));
    Some(hex(&hmac(&key, text.as_bytes()), 32) == signature)
}

/// The path, escaped once more than it is sent.
fn canonical_path(head: &Parts) -> String {
    let mut path = String::new();
    for byte in head.uri.path().bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.~/".contains(&byte) {
            path.push(char::from(byte));
        } else {
            let _ = write!(path, "%{byte:02X}");
        }
    }
    path
}

/// The parameters in order.
fn canonical_query(head: &Parts) -> String {
    let query = head.uri.query().unwrap_or_default();
    let mut parameters: Vec<String> = query
        .split('&')
        .filter(|parameter| !parameter.is_empty())
        .map(|parameter| if parameter.contains('=') { parameter.to_owned() } else { format!("{parameter}=") })
        .collect();
    parameters.sort_unstable();
    parameters.join("&")
}

fn single_spaces(value: &str) -> String {
    value.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// HMAC-SHA-256 (RFC 2104).
fn hmac(key: &[u8], message: &[u8]) -> Vec<u8> {
    let mut block = if key.len() > BLOCK_BYTES { Sha256::digest(key).to_vec() } else { key.to_vec() };
    block.resize(BLOCK_BYTES, 0);
    let padded = |padding: u8| block.iter().map(|byte| byte ^ padding).collect::<Vec<u8>>();
    let inner = Sha256::new().chain_update(padded(0x36)).chain_update(message).finalize();
    Sha256::new().chain_update(padded(0x5c)).chain_update(inner).finalize().to_vec()
}

#[cfg(test)]
mod tests {
    use hyper::Request;

    use super::*;

    #[test]
    fn hmac_has_the_values_of_rfc_4231() {
        let data = b"what do ya want for nothing?";
        let expected = "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843";
        assert_eq!(hex(&hmac(b"Jefe", data), 32), expected);
        let long = hex(&hmac(&[0xaa; 131], b"Test Using Larger Than Block-Size Key - Hash Key First"), 32);
        assert_eq!(long, "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
    }

    #[test]
    fn a_request_needs_no_signature_until_it_is_required() {
        let (head, ()) = Request::builder().uri("/").body(()).unwrap().into_parts();
        let check = SignatureCheck::default();
        assert!(check.accepts(&head, b"{}"));
        check.require();
        assert!(!check.accepts(&head, b"{}"));
    }
}
