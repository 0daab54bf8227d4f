//! Secrets in AWS Secrets Manager.

use afterwrite_model::{Error, ErrorKind, Result};
use aws_config::SdkConfig;
use serde::Deserialize;
use serde_json::json;

use super::request::{NamedBy, ServiceRequest};
use super::service_api::{ApiRequest, AwsService, ServiceApi, parse_response};

/// Secrets Manager.
pub const SECRETS_MANAGER: AwsService =
    AwsService { id: "Secrets Manager", name: "secretsmanager", is_global: false };

/// A secret, through the AWS SDK. Its text is never part of an error.
#[derive(Clone, Debug)]
pub struct ManagedSecret<'s> {
    api: ServiceApi,
    arn: &'s str,
    setting: &'static str,
}

impl<'s> ManagedSecret<'s> {
    /// The secret with this ARN; `setting` is the variable that names it.
    #[must_use]
    pub fn new(sdk: SdkConfig, arn: &'s str, setting: &'static str) -> Self {
        Self { api: ServiceApi::new(&SECRETS_MANAGER, sdk), arn, setting }
    }

    fn request(&self) -> ServiceRequest<'_> {
        ServiceRequest {
            service: "Secrets Manager",
            action: "GetSecretValue",
            permission: "secretsmanager:GetSecretValue",
            resource: "secret",
            name: self.arn,
            named_by: NamedBy::Setting(self.setting),
        }
    }

    /// Reads the text of the current version.
    ///
    /// # Errors
    /// [`ErrorKind::Configuration`] if the secret does not exist, may not be read, or has no text; [`ErrorKind::Unavailable`] if a retry can
    /// help.
    pub async fn text(&self) -> Result<String> {
        let request =
            ApiRequest::json(SECRETS_MANAGER.name, "GetSecretValue", &json!({ "SecretId": self.arn }));
        let response = self.api.send(request).await.map_err(|error| self.request().error(&error))?;
        parse_response::<SecretValue>(&response)?.text.ok_or_else(|| self.without_text())
    }

    fn without_text(&self) -> Error {
        self.request()
            .new_error(ErrorKind::Configuration, "its current version has no text")
            .hint("Store the value as text (SecretString), not as binary")
    }
}

/// The response to `GetSecretValue`.
#[derive(Deserialize)]
struct SecretValue {
    #[serde(rename = "SecretString")]
    text: Option<String>,
}
