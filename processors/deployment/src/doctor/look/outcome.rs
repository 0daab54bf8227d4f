//! The outcome of a request that only reads: the part, or that it does not exist, or that it may not be read.

use afterwrite_model::{Error, ErrorKind, Result};
use aws_sdk_dynamodb::config::http::HttpResponse;
use aws_sdk_dynamodb::error::{ProvideErrorMetadata, SdkError};

use crate::doctor::Looked;

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
/// The codes of requests that are not allowed.
const NOT_ALLOWED: [&str; 7] = [
    "AccessDenied",
    "AccessDeniedException",
    "KMSAccessDeniedException",
    "KmsAccessDenied",
    "Forbidden",
    "UnauthorizedOperation",
    "AuthorizationError",
];

/// Why a response has no part.
const UNREADABLE: &str =
    "the response is not this service's: it may come from an emulator without the service, or from a proxy";
/// The status of a refusal. Not every refusal has a code.
const FORBIDDEN: u16 = 403;

/// Sorts the outcome of a request that needs a permission. A part that cannot be read for another reason is not checked: an emulator may lack the
/// service, or respond with a page.
pub(super) fn looked<T, E>(
    outcome: std::result::Result<T, SdkError<E, HttpResponse>>,
    permission: &'static str,
) -> Looked<T>
where
    E: ProvideErrorMetadata + std::error::Error + Send + Sync + 'static,
{
    let error = match outcome {
        Ok(part) => return Looked::Found(part),
        Err(error) => error,
    };
    let code = error.as_service_error().and_then(ProvideErrorMetadata::code).unwrap_or_default();
    if MISSING.contains(&code) {
        return Looked::Missing;
    }
    let is_forbidden =
        || error.raw_response().is_some_and(|response| response.status().as_u16() == FORBIDDEN);
    if NOT_ALLOWED.contains(&code) || code.is_empty() && is_forbidden() {
        return Looked::NotAllowed(permission);
    }
    let reason = match &error {
        SdkError::ServiceError(_) if code.is_empty() => "the service rejected the request".to_owned(),
        SdkError::ServiceError(_) => format!("the service responded with {code}"),
        SdkError::TimeoutError(_) => "the service did not respond in time".to_owned(),
        SdkError::ResponseError(_) => UNREADABLE.to_owned(),
        SdkError::ConstructionFailure(_) | SdkError::DispatchFailure(_) | _ => {
            "the service cannot be reached".to_owned()
        }
    };
    Looked::NotRead(format!("{reason} ({permission})"))
}

/// As [`looked`], for the part without which nothing can be judged.
///
/// # Errors
/// The service cannot be reached, or rejects the credentials.
pub(super) fn required<T, E>(
    outcome: std::result::Result<T, SdkError<E, HttpResponse>>,
    permission: &'static str,
    subject: &str,
) -> Result<Looked<T>>
where
    E: ProvideErrorMetadata + std::error::Error + Send + Sync + 'static,
{
    let looked = looked(outcome, permission);
    if let Looked::NotRead(reason) = &looked {
        return Err(Error::new(ErrorKind::Unavailable, "the deployment's tables cannot be read")
            .with("of", subject)
            .with("reason", reason)
            .hint("Check the region, the credentials and the network"));
    }
    Ok(looked)
}

/// Replaces a found part.
pub(super) fn mapped<T, U>(looked: Looked<T>, map: impl FnOnce(T) -> U) -> Looked<U> {
    try_mapped(looked, |part| Ok(map(part)))
}

/// Replaces a found part by what can be read from it. A response of another form does not come from the service.
pub(super) fn try_mapped<T, U>(looked: Looked<T>, map: impl FnOnce(T) -> Result<U>) -> Looked<U> {
    match looked {
        Looked::Found(part) => match map(part) {
            Ok(part) => Looked::Found(part),
            Err(_) => Looked::NotRead(UNREADABLE.to_owned()),
        },
        Looked::Missing => Looked::Missing,
        Looked::NotAllowed(permission) => Looked::NotAllowed(permission),
        Looked::NotNamed(setting) => Looked::NotNamed(setting),
        Looked::NotRead(reason) => Looked::NotRead(reason),
    }
}
