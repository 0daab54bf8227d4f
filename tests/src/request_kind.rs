//! The kinds of requests to DynamoDB.

use hyper::HeaderMap;

/// The kind of a request, which decides its faults and its latency.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RequestKind {
    /// `TransactWriteItems`.
    Transaction,
    /// `PutItem`, `UpdateItem`, `DeleteItem`.
    Write,
    /// `BatchWriteItem`.
    BatchWrite,
    /// `BatchGetItem`.
    BatchRead,
    /// `Query`.
    Query,
    /// `GetItem`, `TransactGetItems`, `Scan`.
    Read,
    /// All others, which are forwarded.
    Other,
}

impl RequestKind {
    /// From the header `X-Amz-Target`, for example `DynamoDB_20120810.PutItem`.
    pub(crate) fn of(headers: &HeaderMap) -> Self {
        let target = headers.get("x-amz-target").and_then(|target| target.to_str().ok()).unwrap_or_default();
        match target.strip_prefix("DynamoDB_20120810.").unwrap_or_default() {
            "TransactWriteItems" => Self::Transaction,
            "PutItem" | "UpdateItem" | "DeleteItem" => Self::Write,
            "BatchWriteItem" => Self::BatchWrite,
            "BatchGetItem" => Self::BatchRead,
            "Query" => Self::Query,
            "GetItem" | "TransactGetItems" | "Scan" => Self::Read,
            _ => Self::Other,
        }
    }

    /// Whether another transaction can conflict with it.
    pub(crate) fn conflicts(self) -> bool {
        matches!(self, Self::Transaction | Self::Write)
    }
}
