//! Errors of requests to DynamoDB and DynamoDB Streams. A service's message may quote keys, so only its code is passed on.

use afterwrite_model::{Error, ErrorKind, Result};
use afterwrite_services::ClockDifference;
use aws_sdk_dynamodb::error::{ProvideErrorMetadata, SdkError};

/// An error of a request, `action`, to a resource.
pub(super) fn request_error<E, R>(
    action: &'static str,
    resource: (&'static str, &str),
    error: &SdkError<E, R>,
) -> Error
where
    E: ProvideErrorMetadata + std::error::Error + 'static,
    R: std::fmt::Debug + 'static,
{
    let code = error.as_service_error().and_then(|error| error.meta().code());
    let (name, value) = resource;
    let failed = |kind, message: &str| Error::new(kind, format!("{action}: {message}")).with(name, value);
    if let Some(difference) = ClockDifference::of_error(error) {
        return failed(ErrorKind::Configuration, &difference.to_string()).hint(ClockDifference::HINT);
    }
    match (code, error) {
        (Some("ResourceNotFoundException"), _) => failed(ErrorKind::Configuration, "it does not exist")
            .hint("Check its name, the account and AWS_REGION"),
        (Some("AccessDeniedException" | "UnrecognizedClientException" | "ExpiredTokenException"), _) => {
            failed(ErrorKind::Configuration, "permission denied")
                .hint(format!("Allow the role dynamodb:{action}, and check the credentials"))
        }
        (Some("ValidationException"), _) => failed(ErrorKind::Rejected, "the service refused the request"),
        (Some(code), _) => {
            failed(ErrorKind::Unavailable, "the service cannot take the request now").with("code", code)
        }
        (None, SdkError::ConstructionFailure(_) | SdkError::DispatchFailure(_)) => {
            failed(ErrorKind::Unavailable, "the service could not be reached")
                .hint("Check the network, the credentials and AWS_REGION")
        }
        (None, _) => failed(ErrorKind::Unavailable, "no complete response in time"),
    }
}

/// The response of a conditional write; `None` if its condition is false.
pub(super) fn unless_condition_failed<T, E, R>(
    action: &'static str,
    resource: (&'static str, &str),
    sent: Result<T, SdkError<E, R>>,
) -> Result<Option<T>>
where
    E: ProvideErrorMetadata + std::error::Error + 'static,
    R: std::fmt::Debug + 'static,
{
    match sent {
        Ok(response) => Ok(Some(response)),
        Err(error) if error.code() == Some("ConditionalCheckFailedException") => Ok(None),
        Err(error) => Err(request_error(action, resource, &error)),
    }
}
