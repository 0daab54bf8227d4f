//! The request of an invocation.

use afterwrite_lambda::EventSource;
use afterwrite_model::{Error, ErrorKind, Result};
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::verify::DEFAULT_TOLERANCE;

const FUNCTION: &str = "verifier";
const HINT: &str = "Invoke it on a schedule with {\"verify\": {\"sample\": 0.01}}; all fields are optional";

/// The extent of a verification. Absent fields have defaults.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct VerifierRequest {
    /// The share of items, rollups and rows that are judged, more than 0 and at most 1.
    pub sample: f64,
    /// The longest time that a record is in flight, in seconds.
    pub tolerance_seconds: u64,
    /// Whether datasets are compared with items, if a bucket is configured.
    pub datasets: bool,
}

impl Default for VerifierRequest {
    fn default() -> Self {
        Self { sample: 0.01, tolerance_seconds: DEFAULT_TOLERANCE.as_secs(), datasets: true }
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct VerifierPayload {
    verify: VerifierRequest,
}

impl VerifierRequest {
    /// Reads a payload. The event of a schedule has all defaults.
    ///
    /// # Errors
    /// [`ErrorKind::Event`] if the payload is not a request.
    pub fn read(payload: &str) -> Result<Self> {
        match EventSource::detect(payload.as_bytes()) {
            None => {}
            Some(EventSource::EventBridge) => return Ok(Self::default()),
            Some(source) => return Err(source.unexpected(FUNCTION, "verification requests", HINT)),
        }
        // A list without elements would be a request with all defaults, too.
        let object: Result<Map<String, Value>, _> = serde_json::from_str(payload);
        let request = object.and_then(|object| serde_json::from_value(Value::Object(object)));
        let VerifierPayload { verify } = request.map_err(|error| {
            Error::new(ErrorKind::Event, "the payload is not a verification request")
                .hint(HINT)
                .caused_by(error)
        })?;
        if verify.sample > 0.0 && verify.sample <= 1.0 {
            return Ok(verify);
        }
        Err(Error::new(ErrorKind::Event, "`sample` is not more than 0 and at most 1").hint(HINT))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absent_fields_have_defaults() {
        let default = VerifierRequest::default();
        for payload in ["{}", "{\"verify\":{}}", "{\"detail-type\":\"Scheduled Event\",\"detail\":{}}"] {
            assert_eq!(VerifierRequest::read(payload).unwrap(), default, "{payload}");
        }
        let read = VerifierRequest::read("{\"verify\":{\"sample\":0.5,\"datasets\":false}}").unwrap();
        assert_eq!(read, VerifierRequest { sample: 0.5, datasets: false, ..default });
    }

    #[test]
    fn another_payload_is_refused_with_an_example() {
        for payload in
            ["{\"verify\":{\"sample\":0}}", "{\"verify\":{\"share\":1}}", "{\"dataset\":\"a\"}", "[]"]
        {
            let error = VerifierRequest::read(payload).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Event, "{payload}");
            assert!(error.to_string().contains("sample"), "{error}");
        }
    }
}
