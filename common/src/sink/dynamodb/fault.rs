//! What a failed request means for its caller.
//!
//! The service's own words may quote keys and values, so they are read but never passed on.

use aws_sdk_dynamodb::config::http::HttpResponse;
use aws_sdk_dynamodb::error::{ProvideErrorMetadata, SdkError};

use crate::effect::{ItemKey, WriteRefusal};
use crate::sink::{causes, configuration};
use crate::{Error, ErrorKind};

/// What was being done, for the message of an error.
#[derive(Clone, Copy)]
pub(super) struct TableRequest<'r> {
    /// The API action, which is also the IAM permission's name unless `permissions` says otherwise.
    pub(super) action: &'static str,
    /// The IAM actions that it takes.
    pub(super) permissions: &'static str,
    /// One of the keys concerned.
    pub(super) key: Option<&'r ItemKey>,
    /// The tables concerned, comma-separated.
    pub(super) tables: &'r str,
}

/// Why a request failed, as far as it decides what follows.
#[derive(Debug)]
pub(super) enum RequestFault {
    /// Refused for the time being, without effect.
    Throttled(Error),
    /// Another request was writing the item; without effect.
    Conflict,
    /// The request can never succeed, in words fit to be shown; without effect.
    Invalid(String),
    /// Anything else.
    Failed(Error),
}

impl RequestFault {
    /// The fault as an error, for requests of which no part can be refused by itself.
    pub(super) fn into_error(self, request: TableRequest<'_>) -> Error {
        match self {
            Self::Throttled(error) | Self::Failed(error) => error,
            Self::Conflict => request.error(ErrorKind::Unavailable, "another request was writing an item"),
            Self::Invalid(words) => request
                .error(ErrorKind::Rejected, "DynamoDB refused the request as invalid")
                .with("reason", words),
        }
    }
}

impl TableRequest<'_> {
    fn error(self, kind: ErrorKind, message: &str) -> Error {
        Error::new(kind, format!("{}: {message}", self.action)).with("table", self.tables)
    }

    /// What the SDK's error means.
    pub(super) fn fault<E>(self, error: &SdkError<E, HttpResponse>) -> RequestFault
    where
        E: ProvideErrorMetadata + std::error::Error + 'static,
    {
        match error {
            SdkError::ServiceError(service) => {
                let metadata = service.err().meta();
                let code = metadata.code().unwrap_or_default();
                self.service_fault(
                    code,
                    metadata.message().unwrap_or_default(),
                    service.raw().status().as_u16(),
                )
            }
            SdkError::TimeoutError(_) => {
                RequestFault::Failed(self.error(ErrorKind::Unavailable, "no answer in time"))
            }
            SdkError::ResponseError(_) => RequestFault::Failed(self.unreadable()),
            // Neither holds anything of the request but its address.
            SdkError::ConstructionFailure(_) | SdkError::DispatchFailure(_) | _ => {
                RequestFault::Failed(self.unsent(&causes(error)))
            }
        }
    }

    fn unreadable(self) -> Error {
        self.error(ErrorKind::Unavailable, "the answer broke off or was none of DynamoDB's")
    }

    /// A request that was not answered at all: for want of a setting, or of a network.
    fn unsent(self, cause: &str) -> Error {
        let lowered = cause.to_lowercase();
        if lowered.contains("region") {
            self.error(ErrorKind::Configuration, "no AWS region is set")
                .hint("Set AWS_REGION (Lambda does so by itself)")
        } else if lowered.contains("credential") || lowered.contains("identity") {
            self.error(ErrorKind::Configuration, "no AWS credentials were found")
                .with("cause", cause)
                .hint("Give the function an execution role, or set AWS_PROFILE or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY")
        } else {
            self.error(ErrorKind::Unavailable, "DynamoDB could not be reached").with("cause", cause)
        }
    }

    fn service_fault(self, code: &str, message: &str, status: u16) -> RequestFault {
        match code {
            "ProvisionedThroughputExceededException"
            | "ThrottlingException"
            | "ThrottlingError"
            | "RequestLimitExceeded" => RequestFault::Throttled(
                self.error(ErrorKind::Unavailable, "DynamoDB throttled the request").with("code", code),
            ),
            "TransactionConflictException" | "ReplicatedWriteConflictException" => RequestFault::Conflict,
            "ResourceNotFoundException" => RequestFault::Failed(configuration::missing_table(self.tables)),
            "ValidationException" => self.validation_fault(message),
            "ItemCollectionSizeLimitExceededException" => RequestFault::Invalid(code.to_owned()),
            "AccessDeniedException"
            | "UnrecognizedClientException"
            | "InvalidSignatureException"
            | "IncompleteSignatureException"
            | "MissingAuthenticationTokenException"
            | "ExpiredTokenException" => RequestFault::Failed(self.denied(code)),
            "" => RequestFault::Failed(self.unreadable()),
            _ if status >= 500 || code == "TransactionInProgressException" => RequestFault::Failed(
                self.error(ErrorKind::Unavailable, "DynamoDB had a fault of its own").with("code", code),
            ),
            _ => RequestFault::Failed(
                self.error(ErrorKind::Rejected, "DynamoDB refused the request").with("code", code),
            ),
        }
    }

    fn denied(self, code: &str) -> Error {
        self.error(ErrorKind::Configuration, "permission denied").with("code", code).hint(format!(
            "Allow the role {} on the table and its indexes; if it is allowed, check the credentials, their account and AWS_REGION. If it is the wrong table: {}",
            self.permissions,
            configuration::TABLE_VARIABLES
        ))
    }

    fn validation_fault(self, message: &str) -> RequestFault {
        match self.key {
            Some(key) if is_key_mismatch(message) => RequestFault::Failed(configuration::wrong_keys(key)),
            _ => RequestFault::Invalid(plain_words(message)),
        }
    }
}

/// The reason of one write of a cancelled transaction; `None` if that write was fine, an error if the reason concerns the
/// set-up and not the write.
pub(super) fn reason(
    code: &str,
    message: &str,
    key: &ItemKey,
    item: Option<crate::record::Item>,
) -> Result<Option<WriteRefusal>, Error> {
    Ok(Some(match code {
        "None" => return Ok(None),
        "ConditionalCheckFailed" => WriteRefusal::Condition(item),
        "TransactionConflict" => WriteRefusal::Conflict,
        "ProvisionedThroughputExceeded" | "ThrottlingError" => WriteRefusal::Throttled,
        "ValidationError" if is_key_mismatch(message) => return Err(configuration::wrong_keys(key)),
        "ValidationError" => WriteRefusal::Invalid(plain_words(message)),
        _ => WriteRefusal::Invalid(code.to_owned()),
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
    .any(|words| message.contains(words))
}

/// What a validation message says, in words of ours that hold no name or value of the item's.
fn plain_words(message: &str) -> String {
    const WORDS: [(&str, &str); 12] = [
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
    let words = WORDS.iter().find(|(theirs, _)| message.contains(theirs)).map(|(_, ours)| *ours);
    words.map_or_else(|| "ValidationException".to_owned(), |words| format!("ValidationException: {words}"))
}
