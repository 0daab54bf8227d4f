//! Firehose's operations `PutRecord` and `PutRecordBatch`: JSON over HTTP, with the service's limits and errors.

use afterwrite_mapping::http::service_response;
use afterwrite_services::firehose::{MAX_BATCH_BYTES, MAX_BATCH_RECORDS, MAX_RECORD_BYTES};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::{Request, Response, StatusCode};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::signature::{self, SignatureCheck};

/// An error response of the service.
#[derive(Debug, PartialEq, Eq)]
struct ServiceError {
    status: StatusCode,
    code: &'static str,
    message: String,
}

impl ServiceError {
    fn new(code: &'static str, message: impl Into<String>) -> Self {
        Self { status: StatusCode::BAD_REQUEST, code, message: message.into() }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct RecordData {
    data: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct PutRecord {
    delivery_stream_name: String,
    record: RecordData,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct PutRecordBatch {
    delivery_stream_name: String,
    records: Vec<RecordData>,
}

/// Responds to one request to the delivery stream `stream`, if it is signed as it must be. `accept` takes all records of a request, or returns `false` if
/// the stream is unavailable.
pub(super) async fn respond(
    request: Request<Incoming>,
    (stream, signatures): (&str, &SignatureCheck),
    accept: impl FnOnce(&[Vec<u8>]) -> bool,
) -> Response<Full<Bytes>> {
    let (head, body) = request.into_parts();
    let target = head.headers.get("x-amz-target").and_then(|target| target.to_str().ok());
    let result = match body.collect().await.map(|body| body.to_bytes()) {
        Ok(body) if !signatures.accepts(&head, &body) => {
            Err(ServiceError::new("UnrecognizedClientException", signature::REFUSAL))
        }
        Ok(body) => put(target.unwrap_or_default(), &body, stream, accept),
        Err(_) => Err(ServiceError::new("SerializationException", "The body is incomplete.")),
    };
    match result {
        Ok(result) => response(StatusCode::OK, &result),
        Err(ServiceError { status, code, message }) => {
            response(status, &json!({ "__type": code, "message": message }))
        }
    }
}

fn put(
    target: &str,
    body: &[u8],
    stream: &str,
    accept: impl FnOnce(&[Vec<u8>]) -> bool,
) -> Result<Value, ServiceError> {
    let operation = target.strip_prefix("Firehose_20150804.").unwrap_or_default();
    let (name, records) = match operation {
        "PutRecord" => {
            let put: PutRecord = parse(body)?;
            (put.delivery_stream_name, vec![put.record])
        }
        "PutRecordBatch" => {
            let put: PutRecordBatch = parse(body)?;
            (put.delivery_stream_name, put.records)
        }
        _ => {
            let message = "Only PutRecord and PutRecordBatch are supported.";
            return Err(ServiceError::new("UnknownOperationException", message));
        }
    };
    if name != stream {
        let message = format!("Firehose {name} under account 000000000000 not found.");
        return Err(ServiceError::new("ResourceNotFoundException", message));
    }
    if !accept(&decode(&records)?) {
        let unavailable = ServiceError::new("ServiceUnavailableException", "Slow down.");
        return Err(ServiceError { status: StatusCode::SERVICE_UNAVAILABLE, ..unavailable });
    }
    let new_id = || Uuid::new_v4().to_string();
    if operation == "PutRecord" {
        return Ok(json!({ "RecordId": new_id(), "Encrypted": false }));
    }
    let responses: Value = records.iter().map(|_| json!({ "RecordId": new_id() })).collect();
    Ok(json!({ "FailedPutCount": 0, "Encrypted": false, "RequestResponses": responses }))
}

fn parse<T: DeserializeOwned>(body: &[u8]) -> Result<T, ServiceError> {
    serde_json::from_slice(body).map_err(|_| {
        ServiceError::new("SerializationException", "The body is not a request of this operation.")
    })
}

/// Decodes the data of records, and checks them against the service's limits.
fn decode(records: &[RecordData]) -> Result<Vec<Vec<u8>>, ServiceError> {
    if records.is_empty() {
        return Err(length_error("records", "greater than or equal to 1"));
    }
    if records.len() > MAX_BATCH_RECORDS {
        return Err(length_error("records", &format!("less than or equal to {MAX_BATCH_RECORDS}")));
    }
    let mut decoded = Vec::with_capacity(records.len());
    for record in records {
        let data = STANDARD
            .decode(&record.data)
            .map_err(|_| ServiceError::new("SerializationException", "Data is not base64."))?;
        if data.len() > MAX_RECORD_BYTES {
            return Err(length_error("record.data", &format!("less than or equal to {MAX_RECORD_BYTES}")));
        }
        decoded.push(data);
    }
    if decoded.iter().map(Vec::len).sum::<usize>() > MAX_BATCH_BYTES {
        return Err(ServiceError::new("InvalidArgumentException", "Records size exceeds 4 MB limit"));
    }
    Ok(decoded)
}

fn length_error(field: &str, bound: &str) -> ServiceError {
    let message = format!(
        "1 validation error detected: Value at '{field}' failed to satisfy constraint: Member must have length {bound}"
    );
    ServiceError::new("ValidationException", message)
}

fn response(status: StatusCode, body: &Value) -> Response<Full<Bytes>> {
    service_response(status, "application/x-amz-json-1.1", body.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn records(sizes: &[usize]) -> Vec<RecordData> {
        sizes.iter().map(|size| RecordData { data: STANDARD.encode(vec![b'x'; *size]) }).collect()
    }

    fn code(sizes: &[usize]) -> Option<&'static str> {
        decode(&records(sizes)).err().map(|error| error.code)
    }

    #[test]
    fn the_limits_are_those_of_the_service() {
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
    fn an_invalid_body_is_a_serialization_error() {
        let error = parse::<PutRecord>(b"{}").err().unwrap();
        assert_eq!(error.code, "SerializationException");
        let garbage = [RecordData { data: "not base64!".to_owned() }];
        assert_eq!(decode(&garbage).err().unwrap().code, "SerializationException");
    }
}
