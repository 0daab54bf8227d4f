//! Firehose's API of `PutRecord` and `PutRecordBatch`: JSON over HTTP, its limits and its errors.

use afterwrite::sink::firehose::{MAX_BATCH_BYTES, MAX_BATCH_RECORDS, MAX_RECORD_BYTES};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::{Request, Response, StatusCode};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use uuid::Uuid;

use super::Shared;

/// An error as the service answers it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Refusal {
    status: StatusCode,
    code: &'static str,
    message: String,
}

impl Refusal {
    fn new(code: &'static str, message: impl Into<String>) -> Self {
        Self { status: StatusCode::BAD_REQUEST, code, message: message.into() }
    }

    pub(super) fn unavailable() -> Self {
        Self {
            status: StatusCode::SERVICE_UNAVAILABLE,
            code: "ServiceUnavailableException",
            message: "Slow down.".to_owned(),
        }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Record {
    data: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct PutRecord {
    delivery_stream_name: String,
    record: Record,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct PutRecordBatch {
    delivery_stream_name: String,
    records: Vec<Record>,
}

impl Shared {
    /// Answers one request.
    pub(super) async fn answer(&self, request: Request<Incoming>) -> Response<Full<Bytes>> {
        let (head, body) = request.into_parts();
        let target = head.headers.get("x-amz-target").and_then(|target| target.to_str().ok());
        let answer = match body.collect().await {
            Ok(body) => self.call(target.unwrap_or_default(), &body.to_bytes()),
            Err(_) => Err(Refusal::new("SerializationException", "The body broke off.")),
        };
        match answer {
            Ok(answer) => response(StatusCode::OK, &answer),
            Err(Refusal { status, code, message }) => {
                response(status, &json!({ "__type": code, "message": message }))
            }
        }
    }

    fn call(&self, target: &str, body: &[u8]) -> Result<Value, Refusal> {
        match target.strip_prefix("Firehose_20150804.").unwrap_or_default() {
            "PutRecord" => {
                let put: PutRecord = parsed(body)?;
                self.check_stream(&put.delivery_stream_name)?;
                self.take(&decoded(&[put.record])?)?;
                Ok(json!({ "RecordId": Uuid::new_v4().to_string(), "Encrypted": false }))
            }
            "PutRecordBatch" => {
                let put: PutRecordBatch = parsed(body)?;
                self.check_stream(&put.delivery_stream_name)?;
                let records = decoded(&put.records)?;
                self.take(&records)?;
                let responses: Vec<Value> =
                    records.iter().map(|_| json!({ "RecordId": Uuid::new_v4().to_string() })).collect();
                Ok(json!({ "FailedPutCount": 0, "Encrypted": false, "RequestResponses": responses }))
            }
            _ => {
                Err(Refusal::new("UnknownOperationException", "Only PutRecord and PutRecordBatch are here."))
            }
        }
    }

    fn check_stream(&self, name: &str) -> Result<(), Refusal> {
        if name == self.stream {
            return Ok(());
        }
        let message = format!("Firehose {name} under account 000000000000 not found.");
        Err(Refusal::new("ResourceNotFoundException", message))
    }
}

fn parsed<T: DeserializeOwned>(body: &[u8]) -> Result<T, Refusal> {
    serde_json::from_slice(body)
        .map_err(|_| Refusal::new("SerializationException", "The body is not what the operation takes."))
}

/// The data of records that are within the service's limits together.
fn decoded(records: &[Record]) -> Result<Vec<Vec<u8>>, Refusal> {
    let constraint = |what: &str, bound: String| {
        let message = format!(
            "1 validation error detected: Value at '{what}' failed to satisfy constraint: Member must have length {bound}"
        );
        Refusal::new("ValidationException", message)
    };
    if records.is_empty() {
        return Err(constraint("records", "greater than or equal to 1".to_owned()));
    }
    if records.len() > MAX_BATCH_RECORDS {
        return Err(constraint("records", format!("less than or equal to {MAX_BATCH_RECORDS}")));
    }
    let mut decoded = Vec::with_capacity(records.len());
    for record in records {
        let data = STANDARD
            .decode(&record.data)
            .map_err(|_| Refusal::new("SerializationException", "Data is not base64."))?;
        if data.len() > MAX_RECORD_BYTES {
            return Err(constraint("record.data", format!("less than or equal to {MAX_RECORD_BYTES}")));
        }
        decoded.push(data);
    }
    if decoded.iter().map(Vec::len).sum::<usize>() > MAX_BATCH_BYTES {
        return Err(Refusal::new("InvalidArgumentException", "Records size exceeds 4 MB limit"));
    }
    Ok(decoded)
}

fn response(status: StatusCode, body: &Value) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(body.to_string())));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/x-amz-json-1.1"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    fn records(sizes: &[usize]) -> Vec<Record> {
        sizes.iter().map(|size| Record { data: STANDARD.encode(vec![b'x'; *size]) }).collect()
    }

    fn code(sizes: &[usize]) -> Option<&'static str> {
        decoded(&records(sizes)).err().map(|refusal| refusal.code)
    }

    #[test]
    fn limits_are_the_services() {
        let rest = MAX_BATCH_BYTES - 4 * MAX_RECORD_BYTES;
        let full = |last| [[MAX_RECORD_BYTES; 4].as_slice(), &[last]].concat();
        assert_eq!(code(&[]), Some("ValidationException"));
        assert_eq!(code(&[1; 500]), None);
        assert_eq!(code(&[1; 501]), Some("ValidationException"));
        assert_eq!(code(&[MAX_RECORD_BYTES]), None);
        assert_eq!(code(&[MAX_RECORD_BYTES + 1]), Some("ValidationException"));
        assert_eq!(code(&full(rest)), None);
        assert_eq!(code(&full(rest + 1)), Some("InvalidArgumentException"));
    }

    #[test]
    fn a_body_that_is_none_is_a_serialization_fault() {
        let refusal = parsed::<PutRecord>(b"{}").err().unwrap();
        assert_eq!(refusal.code, "SerializationException");
        let garbage = [Record { data: "not base64!".to_owned() }];
        assert_eq!(decoded(&garbage).err().unwrap().code, "SerializationException");
    }
}
