//! The error that a caller gets for a failed request to DynamoDB.

use afterwrite_ledger::tables::THROTTLE_HINT;
use afterwrite_model::effect::{ItemKey, WriteRefusal};
use afterwrite_model::record::Item;
use afterwrite_model::{Error, ErrorKind};
use aws_sdk_dynamodb::config::http::HttpResponse;
use aws_sdk_dynamodb::error::{ProvideErrorMetadata, SdkError};

use super::setup::{TABLE_SETTINGS, key_schema_mismatch, missing_table};
use crate::request::{NamedBy, ServiceRequest};

/// A request to DynamoDB, as its errors describe it.
#[derive(Clone, Copy)]
pub(super) struct TableRequest<'r> {
    /// The API action.
    pub(super) action: &'static str,
    /// The IAM actions that it needs.
    pub(super) permission: &'static str,
    /// One of the keys in the request.
    pub(super) key: Option<&'r ItemKey>,
    /// The tables in the request, comma-separated.
    pub(super) tables: &'r str,
}

/// Why a request failed, as far as callers distinguish it.
#[derive(Debug)]
pub(super) enum RequestFault {
    /// The request was throttled and had no effect.
    Throttled(Error),
    /// Another request was writing the item; this one had no effect.
    Conflict,
    /// The request can never succeed and had no effect. The text contains nothing of the item.
    Invalid(String),
    /// Any other error.
    Failed(Error),
}

impl RequestFault {
    /// The fault as an error, for requests whose parts cannot be refused one by one.
    pub(super) fn into_error(self, request: TableRequest<'_>) -> Error {
        match self {
            Self::Throttled(error) | Self::Failed(error) => error,
            Self::Conflict => {
                request.new_error(ErrorKind::Unavailable, "another request was writing an item")
            }
            Self::Invalid(reason) => request
                .new_error(ErrorKind::Rejected, "DynamoDB refused the request as invalid")
                .with("reason", reason),
        }
    }
}

impl TableRequest<'_> {
    pub(super) fn new_error(self, kind: ErrorKind, message: &str) -> Error {
        self.service_request().new_error(kind, message)
    }

    fn service_request(&self) -> ServiceRequest<'_> {
        ServiceRequest {
            service: "DynamoDB",
            action: self.action,
            permission: self.permission,
            resource: "table",
            name: self.tables,
            named_by: NamedBy::Setting(TABLE_SETTINGS),
        }
    }

    /// Classifies an error of the SDK.
    pub(super) fn fault<E>(self, error: &SdkError<E, HttpResponse>) -> RequestFault
    where
        E: ProvideErrorMetadata + std::error::Error + 'static,
    {
        let metadata = error.as_service_error().map(ProvideErrorMetadata::meta);
        let code = metadata.and_then(|metadata| metadata.code()).unwrap_or_default();
        match code {
            "ProvisionedThroughputExceededException"
            | "ThrottlingException"
            | "ThrottlingError"
            | "RequestLimitExceeded" => RequestFault::Throttled(self.throttled(code)),
            "TransactionConflictException" | "ReplicatedWriteConflictException" => RequestFault::Conflict,
            "TransactionInProgressException" => RequestFault::Failed(
                self.new_error(ErrorKind::Unavailable, "the transaction is in progress").with("code", code),
            ),
            "ResourceNotFoundException" => RequestFault::Failed(missing_table(self.tables)),
            "ItemCollectionSizeLimitExceededException" => RequestFault::Invalid(code.to_owned()),
            "ValidationException" => {
                let message = metadata.and_then(|metadata| metadata.message()).unwrap_or_default();
                self.validation_fault(message)
            }
            _ => RequestFault::Failed(self.unknown_fault(code, self.service_request().error(error))),
        }
    }

    /// The error for a code that is not known to concern an item. A record must not be given up because of it: it may be
    /// the signature's clock, or a code that DynamoDB did not have when this was written.
    fn unknown_fault(self, code: &str, error: Error) -> Error {
        if error.kind() == ErrorKind::Rejected {
            self.new_error(ErrorKind::Unavailable, "DynamoDB refused the request").with("code", code)
        } else {
            error
        }
    }

    /// The error for a request that DynamoDB throttled.
    pub(super) fn throttled(self, code: &str) -> Error {
        self.new_error(ErrorKind::Unavailable, "DynamoDB throttled the request")
            .with("code", code)
            .hint(THROTTLE_HINT)
    }

    fn validation_fault(self, message: &str) -> RequestFault {
        match self.key {
            Some(key) if is_key_mismatch(message) => RequestFault::Failed(key_schema_mismatch(key)),
            _ => RequestFault::Invalid(plain_reason(message)),
        }
    }
}

/// The error for a scan of an index that failed.
#[must_use]
pub fn index_scan_error<E>(table: &str, index: &str, error: &SdkError<E, HttpResponse>) -> Error
where
    E: ProvideErrorMetadata + std::error::Error + 'static,
{
    let permission = "dynamodb:Scan (for its indexes, too)";
    let request = TableRequest { action: "Scan", permission, key: None, tables: table };
    request.fault(error).into_error(request).with("index", index)
}

/// The refusal of one write of a cancelled transaction; `None` if that write was not at fault.
///
/// # Errors
/// The reason concerns the table and not the write, or is unknown.
pub(super) fn cancellation_refusal(
    request: TableRequest<'_>,
    code: &str,
    message: &str,
    key: &ItemKey,
    item: Option<Item>,
) -> Result<Option<WriteRefusal>, Error> {
    Ok(Some(match code {
        "None" => return Ok(None),
        "ConditionalCheckFailed" => WriteRefusal::Condition(item),
        "TransactionConflict" => WriteRefusal::Conflict,
        "ProvisionedThroughputExceeded" | "ThrottlingError" => WriteRefusal::Throttled,
        "ValidationError" if is_key_mismatch(message) => return Err(key_schema_mismatch(key)),
        "ValidationError" => WriteRefusal::Invalid(plain_reason(message)),
        "ItemCollectionSizeLimitExceeded" => WriteRefusal::Invalid(code.to_owned()),
        _ => return Err(request.service_request().partial_error(code)),
    }))
}

fn is_key_mismatch(message: &str) -> bool {
    [
        "does not match the schema",
        "Missing the key",
        "Type mismatch for key",
        "number of conditions on the keys is invalid",
    ]
    .iter()
    .any(|fragment| message.contains(fragment))
}

/// The reason in a validation message, without the names and values that the message may quote.
fn plain_reason(message: &str) -> String {
    /// A fragment of DynamoDB's message, and the reason that is reported for it.
    const REASONS: [(&str, &str); 12] = [
        ("document path", "the document path of an update does not lead through maps that are there"),
        ("paths overlap", "two paths of one update overlap"),
        ("part of the key", "an update of an attribute that is part of the key"),
        ("incorrect data type", "an operand of a wrong type for what is stored"),
        ("operand type", "an operand of a wrong type"),
        ("Index Key", "an index's key attribute of a wrong type, or empty"),
        ("index key", "an index's key attribute of a wrong type, or empty"),
        ("empty string value", "a key attribute with an empty value"),
        ("Item size", "an item of more than 400 KB"),
        ("4MB limit", "a transaction of more than 4 MB"),
        ("multiple operations on one item", "a transaction with two actions on one item"),
        ("significant digits", "a number of more than 38 digits"),
    ];
    let reason = REASONS.iter().find(|(fragment, _)| message.contains(fragment)).map(|(_, reason)| *reason);
    reason.map_or_else(|| "ValidationException".to_owned(), |reason| format!("ValidationException: {reason}"))
}
