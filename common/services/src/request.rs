//! The error that a caller gets for a failed request to an AWS service.
//!
//! A service's message may quote keys and values, so it is never passed on; its error code is.

use afterwrite_model::{Error, ErrorKind};
use aws_sdk_firehose::config::http::HttpResponse;
use aws_sdk_firehose::error::{ProvideErrorMetadata, SdkError};

use crate::clock_check::ClockDifference;

/// The status of a refusal.
const FORBIDDEN: u16 = 403;

/// A request to an AWS service, as its errors describe it.
#[derive(Clone, Copy)]
pub(super) struct ServiceRequest<'r> {
    /// The service's name, for people.
    pub(super) service: &'static str,
    /// The API action.
    pub(super) action: &'static str,
    /// The IAM actions that it needs.
    pub(super) permission: &'static str,
    /// The kind of resource, for people.
    pub(super) resource: &'static str,
    /// The resource's name.
    pub(super) name: &'r str,
    /// The source of the resource's name.
    pub(super) named_by: NamedBy<'r>,
}

/// The source of the name of a request's resource. It decides what the error of a wrong or forbidden resource advises.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NamedBy<'r> {
    /// A setting, usually an environment variable.
    Setting(&'r str),
    /// A setting that holds the resource's ARN.
    ArnSetting(&'r str),
    /// An argument of a command.
    Argument,
    /// An argument of a command, and the resource is a deployment's bucket of failed records, whose policy denies reading to all but some roles.
    FailuresArgument,
}

impl NamedBy<'_> {
    /// The advice if the resource does not exist.
    fn missing_hint(self, resource: &str) -> String {
        match self {
            Self::Setting(setting) => {
                format!("Set {setting} to the name of a {resource} in this account and region, or create it")
            }
            Self::ArnSetting(setting) => {
                format!("Set {setting} to the ARN of a {resource} that exists, or create it")
            }
            Self::Argument => format!("Name a {resource} of this account and region in the command"),
            Self::FailuresArgument => format!(
                "Name the {resource} of failed records in the command: the output failures_bucket_name of the Terraform module, FailuresBucketName of the SAM template"
            ),
        }
    }

    /// The advice if the caller lacks the permission.
    fn denied_hint(self, resource: &str, permission: &str) -> String {
        let wrong = match self {
            Self::Setting(setting) | Self::ArnSetting(setting) => format!("set {setting} to the right one"),
            Self::Argument | Self::FailuresArgument => "name the right one in the command".to_owned(),
        };
        let allow = match self {
            Self::Setting(_) | Self::ArnSetting(_) | Self::Argument => {
                format!("Allow the role {permission} on the {resource}")
            }
            Self::FailuresArgument => format!(
                "Its policy lets only the roles in redrive_principal_arns of the Terraform module (RedrivePrincipalArn of the SAM template) read failed records: \
                 add this role there, and attach the policy of the output redrive_policy_arn (RedrivePolicyArn) to it, which allows {permission}"
            ),
        };
        format!(
            "{allow}; if it is allowed, check the credentials, their account and AWS_REGION. If it is the wrong {resource}, {wrong}"
        )
    }
}

impl ServiceRequest<'_> {
    /// Classifies an error of the SDK: `Unavailable` if the same request may succeed later, and may have taken effect;
    /// `Configuration` for a missing resource, permission or setting; `Rejected` for a request that would be refused again.
    pub(super) fn error<E>(self, error: &SdkError<E, HttpResponse>) -> Error
    where
        E: ProvideErrorMetadata + std::error::Error + 'static,
    {
        if let Some(difference) = ClockDifference::of_error(error) {
            let message = difference.to_string();
            return self.new_error(ErrorKind::Configuration, &message).hint(ClockDifference::HINT);
        }
        match error {
            SdkError::ServiceError(service) => {
                let code = service.err().meta().code().unwrap_or_default();
                self.service_error(code, service.raw().status().as_u16())
            }
            SdkError::TimeoutError(_) => self.timeout(),
            SdkError::ResponseError(_) => {
                self.new_error(ErrorKind::Unavailable, "the response was incomplete or unreadable")
            }
            SdkError::ConstructionFailure(_) | SdkError::DispatchFailure(_) | _ => {
                self.unsent_error(&error_chain(error))
            }
        }
    }

    /// The error for a code that a response reports for a part of the request.
    pub(super) fn partial_error(self, code: &str) -> Error {
        self.service_error(code, 503)
    }

    /// The error for a code that a response reports for an entry of the request, and whether the request is at fault.
    pub(super) fn entry_error(self, code: &str, is_sender_fault: bool) -> Error {
        self.service_error(code, if is_sender_fault { 400 } else { 503 })
    }

    /// The error for a request without a response in time.
    pub(super) fn timeout(self) -> Error {
        self.new_error(ErrorKind::Unavailable, "no response in time")
    }

    /// An error of this request.
    pub(super) fn new_error(self, kind: ErrorKind, message: &str) -> Error {
        Error::new(kind, format!("{}: {message}", self.action)).with(self.resource, self.name)
    }

    fn service_error(self, code: &str, status: u16) -> Error {
        match code {
            "ResourceNotFoundException"
            | "NoSuchBucket"
            | "NoSuchDistribution"
            | "QueueDoesNotExist"
            | "AWS.SimpleQueueService.NonExistentQueue"
            | "NotFound" => self
                .new_error(ErrorKind::Configuration, "it does not exist")
                .hint(self.named_by.missing_hint(self.resource)),
            "AccessDenied"
            | "AccessDeniedException"
            | "NotAuthorizedForSourceException"
            | "AuthorizationError"
            | "UnrecognizedClientException"
            | "InvalidAccessKeyId"
            | "InvalidClientTokenId"
            | "SignatureDoesNotMatch"
            | "InvalidSignatureException"
            | "IncompleteSignatureException"
            | "MissingAuthenticationTokenException"
            | "SubscriptionRequiredException"
            | "OptInRequired"
            | "ExpiredToken"
            | "ExpiredTokenException" => self.denied_error(code),
            // The response of a HEAD request has no body, and so no code.
            "" if status == FORBIDDEN => self.denied_error("403"),
            "DecryptionFailure"
            | "InvalidKMSResourceException"
            | "KmsAccessDenied"
            | "KmsDisabled"
            | "KmsNotFound"
            | "KMSAccessDeniedException"
            | "KMSDisabledException"
            | "KMSInvalidStateException"
            | "KMSNotFoundException"
            | "InaccessibleEncryptionCredentialsException" => self
                .new_error(ErrorKind::Configuration, "its encryption key cannot be used")
                .hint(format!("Allow the role the key that encrypts the {}, and enable it", self.resource)),
            "ServiceUnavailableException"
            | "LimitExceededException"
            | "RequestLimitExceeded"
            | "SlowDown"
            | "RequestTimeout"
            | "OperationAborted"
            | "InternalFailure"
            | "" => self.busy_error(code),
            _ if code.contains("Throttl") => self.busy_error(code),
            _ if status >= 500 || status == 429 => {
                self.new_error(ErrorKind::Unavailable, "the service had an internal error").with("code", code)
            }
            _ => self.new_error(ErrorKind::Rejected, "the service refused the request").with("code", code),
        }
    }

    fn busy_error(self, code: &str) -> Error {
        let code = if code.is_empty() { "none" } else { code };
        self.new_error(ErrorKind::Unavailable, "the service cannot take the request now").with("code", code)
    }

    fn denied_error(self, code: &str) -> Error {
        self.new_error(ErrorKind::Configuration, "permission denied")
            .with("code", code)
            .hint(self.named_by.denied_hint(self.resource, self.permission))
    }

    /// The error for a request that was not sent or got no response: a setting is missing, or the network failed.
    fn unsent_error(self, cause: &str) -> Error {
        let lowercase = cause.to_lowercase();
        if lowercase.contains("region") {
            self.new_error(ErrorKind::Configuration, "no AWS region is set")
                .hint("Set AWS_REGION (Lambda sets it by itself)")
        } else if lowercase.contains("credential") || lowercase.contains("identity") {
            self.new_error(ErrorKind::Configuration, "no AWS credentials were found").with("cause", cause).hint(
                "Give the function an execution role, or set AWS_PROFILE or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
            )
        } else {
            self.new_error(ErrorKind::Unavailable, &format!("{} could not be reached", self.service))
                .with("cause", cause)
        }
    }
}

/// The messages of an error and its causes. A message with a value as Rust writes it for debugging is left out: it may be the request, with
/// keys and contents of items.
fn error_chain(error: &dyn std::error::Error) -> String {
    let mut causes = Vec::new();
    let mut cause = Some(error);
    while let Some(error) = cause {
        let message = error.to_string();
        let may_quote = message.contains('{');
        causes.push(if may_quote {
            "a message that may quote the request is left out".to_owned()
        } else {
            message
        });
        cause = error.source();
    }
    causes.dedup();
    causes.join(": ")
}

#[cfg(test)]
mod tests {
    use std::fmt;

    use super::*;

    /// An error with a cause.
    #[derive(Debug)]
    struct Failed(&'static str, Option<Box<Failed>>);

    impl fmt::Display for Failed {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str(self.0)
        }
    }

    impl std::error::Error for Failed {
        fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
            self.1.as_deref().map(|cause| cause as _)
        }
    }

    #[test]
    fn a_cause_never_quotes_the_request_and_its_contents_do_not_choose_the_error() {
        let quoting =
            Failed("failed to apply the endpoint to Request { body: \"awsRegion of PRIVATE\" }", None);
        let chain = Failed("dispatch failure", Some(Box::new(quoting)));
        let text = error_chain(&chain);
        assert_eq!(text, "dispatch failure: a message that may quote the request is left out");
        let request = ServiceRequest {
            service: "SQS",
            action: "SendMessageBatch",
            permission: "sqs:SendMessage",
            resource: "queue",
            name: "events",
            named_by: NamedBy::Setting("AFTERWRITE_EVENTS"),
        };
        assert_eq!(request.unsent_error(&text).kind(), ErrorKind::Unavailable);
        let refused =
            Failed("tcp connect error", Some(Box::new(Failed("Connection refused (os error 111)", None))));
        assert_eq!(error_chain(&refused), "tcp connect error: Connection refused (os error 111)");
    }
}
