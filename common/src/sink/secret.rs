//! Secrets in AWS Secrets Manager.

use aws_sdk_secretsmanager::Client;

use super::request::ServiceRequest;
use crate::{Error, ErrorKind, Result};

/// A secret, through the AWS SDK. Its text is never part of an error.
#[derive(Clone, Debug)]
pub struct ManagedSecret<'s> {
    client: Client,
    arn: &'s str,
    setting: &'static str,
}

impl<'s> ManagedSecret<'s> {
    /// The secret with this ARN; `setting` is the variable that names it.
    #[must_use]
    pub fn new(client: Client, arn: &'s str, setting: &'static str) -> Self {
        Self { client, arn, setting }
    }

    fn request(&self) -> ServiceRequest<'_> {
        ServiceRequest {
            service: "Secrets Manager",
            action: "GetSecretValue",
            permission: "secretsmanager:GetSecretValue",
            resource: "secret",
            name: self.arn,
            setting: self.setting,
        }
    }

    /// Reads the text of the current version.
    ///
    /// # Errors
    /// [`ErrorKind::Configuration`] if the secret does not exist, may not be read, or has no text; [`ErrorKind::Unavailable`] if a retry can
    /// help.
    pub async fn text(&self) -> Result<String> {
        let request = self.client.get_secret_value().secret_id(self.arn);
        let response = Box::pin(request.send()).await.map_err(|error| self.request().error(&error))?;
        response.secret_string.ok_or_else(|| self.without_text())
    }

    fn without_text(&self) -> Error {
        self.request()
            .new_error(ErrorKind::Configuration, "its current version has no text")
            .hint("Store the value as text (SecretString), not as binary")
    }
}
