//! The outcome of a request that only reads: the part, or that it does not exist, or that it may not be read.

use afterwrite::{Error, ErrorKind, Result};
use afterwrite_operations::doctor::Looked;
use aws_sdk_dynamodb::config::http::HttpResponse;
use aws_sdk_dynamodb::error::{ProvideErrorMetadata, SdkError};

/// The codes of parts that do not exist.
const MISSING: [&str; 7] = [
    "ResourceNotFoundException",
    "NoSuchBucket",
    "NoSuchKey",
    "NotFound",
    "QueueDoesNotExist",
    "AWS.SimpleQueueService.NonExistentQueue",
    "ResourceNotFound",
];
/// The codes of requests that are not allowed, or that an emulator does not know.
const NOT_ALLOWED: [&str; 9] = [
    "AccessDenied",
    "AccessDeniedException",
    "KMSAccessDeniedException",
    "KmsAccessDenied",
    "Forbidden",
    "UnauthorizedOperation",
    "AuthorizationError",
    "UnknownOperationException",
    "NotImplemented",
];

/// The status of a refusal. Not every refusal has a code.
const FORBIDDEN: u16 = 403;

/// Sorts the outcome of a request that needs a permission.
///
/// # Errors
/// Any other failure: the service cannot be reached, or rejects the credentials.
pub(super) fn looked<T, E>(
    outcome: std::result::Result<T, SdkError<E, HttpResponse>>,
    permission: &'static str,
    subject: &str,
) -> Result<Looked<T>>
where
    E: ProvideErrorMetadata + std::error::Error + Send + Sync + 'static,
{
    let error = match outcome {
        Ok(part) => return Ok(Looked::Found(part)),
        Err(error) => error,
    };
    let code = error.as_service_error().and_then(ProvideErrorMetadata::code).unwrap_or_default();
    if MISSING.contains(&code) {
        return Ok(Looked::Missing);
    }
    let is_forbidden =
        || error.raw_response().is_some_and(|response| response.status().as_u16() == FORBIDDEN);
    if NOT_ALLOWED.contains(&code) || code.is_empty() && is_forbidden() {
        return Ok(Looked::NotAllowed(permission));
    }
    Err(Error::new(ErrorKind::Unavailable, "a part of the deployment cannot be read")
        .with("permission", permission)
        .with("of", subject)
        .caused_by(error)
        .hint("Check the region, the credentials and the network"))
}

/// Replaces a found part.
pub(super) fn mapped<T, U>(looked: Looked<T>, map: impl FnOnce(T) -> U) -> Looked<U> {
    match looked {
        Looked::Found(part) => Looked::Found(map(part)),
        Looked::Missing => Looked::Missing,
        Looked::NotAllowed(permission) => Looked::NotAllowed(permission),
        Looked::NotNamed(setting) => Looked::NotNamed(setting),
    }
}

/// Replaces a found part by what can be read from it.
pub(super) fn try_mapped<T, U>(looked: Looked<T>, map: impl FnOnce(T) -> Result<U>) -> Result<Looked<U>> {
    Ok(match looked {
        Looked::Found(part) => Looked::Found(map(part)?),
        Looked::Missing => Looked::Missing,
        Looked::NotAllowed(permission) => Looked::NotAllowed(permission),
        Looked::NotNamed(setting) => Looked::NotNamed(setting),
    })
}
