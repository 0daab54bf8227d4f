//! What a failed request to Firehose or S3 means for its caller.
//!
//! The service's own words are never passed on; its error codes are.

use aws_sdk_firehose::config::http::HttpResponse;
use aws_sdk_firehose::error::{ProvideErrorMetadata, SdkError};

use crate::{Error, ErrorKind};

/// What was being done, for the message of an error.
#[derive(Clone, Copy)]
pub(super) struct ServiceRequest<'r> {
    /// The service's name, for people.
    pub(super) service: &'static str,
    /// The API action.
    pub(super) action: &'static str,
    /// The IAM action that it takes.
    pub(super) permission: &'static str,
    /// What kind of thing it is done to.
    pub(super) kind: &'static str,
    /// Its name.
    pub(super) name: &'r str,
    /// The variable that names it.
    pub(super) variable: &'static str,
}

impl ServiceRequest<'_> {
    /// What the SDK's error means: `Unavailable` if the same request may succeed later, and may have taken effect;
    /// `Configuration` for the set-up; `Rejected` for what will be refused again.
    pub(super) fn error<E>(self, error: &SdkError<E, HttpResponse>) -> Error
    where
        E: ProvideErrorMetadata + std::error::Error + 'static,
    {
        match error {
            SdkError::ServiceError(service) => {
                let code = service.err().meta().code().unwrap_or_default();
                self.service_error(code, service.raw().status().as_u16())
            }
            SdkError::TimeoutError(_) => self.new_error(ErrorKind::Unavailable, "no answer in time"),
            SdkError::ResponseError(_) => {
                self.new_error(ErrorKind::Unavailable, "the answer broke off or was not the service's")
            }
            SdkError::ConstructionFailure(_) | SdkError::DispatchFailure(_) | _ => {
                self.unsent(&super::causes(error))
            }
        }
    }

    /// An error in which the service's own code stands.
    pub(super) fn coded(self, code: &str) -> Error {
        self.service_error(code, 503)
    }

    fn new_error(self, kind: ErrorKind, message: &str) -> Error {
        Error::new(kind, format!("{}: {message}", self.action)).with(self.kind, self.name)
    }

    fn service_error(self, code: &str, status: u16) -> Error {
        match code {
            "ResourceNotFoundException" | "NoSuchBucket" => {
                self.new_error(ErrorKind::Configuration, "it does not exist").hint(format!(
                    "Set {} to the name of a {} in this account and region, or create it",
                    self.variable, self.kind
                ))
            }
            "AccessDenied"
            | "AccessDeniedException"
            | "UnrecognizedClientException"
            | "InvalidAccessKeyId"
            | "SignatureDoesNotMatch"
            | "InvalidSignatureException"
            | "IncompleteSignatureException"
            | "MissingAuthenticationTokenException"
            | "ExpiredToken"
            | "ExpiredTokenException" => {
                self.new_error(ErrorKind::Configuration, "permission denied").with("code", code).hint(format!(
                    "Allow the role {} on the {}; if it is allowed, check the credentials, their account and AWS_REGION",
                    self.permission, self.kind
                ))
            }
            "InvalidKMSResourceException" => self
                .new_error(ErrorKind::Configuration, "its encryption key cannot be used")
                .hint(format!("Allow the role the key that encrypts the {}, and enable it", self.kind)),
            "ServiceUnavailableException" | "ThrottlingException" | "LimitExceededException" | "SlowDown"
            | "RequestTimeout" | "OperationAborted" | "InternalFailure" | "" => self
                .new_error(ErrorKind::Unavailable, "the service cannot take it now")
                .with("code", if code.is_empty() { "none" } else { code }),
            _ if status >= 500 || status == 429 => {
                self.new_error(ErrorKind::Unavailable, "the service had a fault of its own").with("code", code)
            }
            _ => self.new_error(ErrorKind::Rejected, "the service refused the request").with("code", code),
        }
    }

    /// A request that was not answered at all: for want of a setting, or of a network.
    fn unsent(self, cause: &str) -> Error {
        let lowered = cause.to_lowercase();
        if lowered.contains("credential") || lowered.contains("identity") {
            self.new_error(ErrorKind::Configuration, "no AWS credentials were found").with("cause", cause).hint(
                "Give the function an execution role, or set AWS_PROFILE or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
            )
        } else {
            self.new_error(ErrorKind::Unavailable, &format!("{} could not be reached", self.service))
                .with("cause", cause)
        }
    }
}
