//! Requests to AWS services for which no SDK is linked: one to three operations of each are used.
//!
//! The SDK's crate of such a service takes up to two minutes to compile. A request here is built from the SDK's own lower layers:
//! credentials, signature (version 4), retries, clock correction, time limits and transport are the SDK's; only the bodies are ours.

use std::error::Error as StdError;
use std::fmt;

use afterwrite_model::{Error, ErrorKind, Result};
use aws_config::SdkConfig;
use aws_runtime::auth::SigV4OperationSigningConfig;
use aws_runtime::auth::sigv4::{SCHEME_ID, SigV4AuthScheme};
use aws_runtime::invocation_id::InvocationIdInterceptor;
use aws_runtime::recursion_detection::RecursionDetectionInterceptor;
use aws_runtime::request_info::RequestInfoInterceptor;
use aws_runtime::retries::classifiers::AwsErrorCodeClassifier;
use aws_runtime::service_clock_skew::ServiceClockSkewInterceptor;
use aws_runtime::user_agent::{ApiMetadata, UserAgentInterceptor};
use aws_sdk_firehose::config::endpoint::{DefaultResolver, Params, ResolveEndpoint as _};
use aws_sdk_firehose::config::http::{HttpRequest, HttpResponse};
use aws_sdk_firehose::error::{BoxError, ErrorMetadata, ProvideErrorMetadata, SdkError};
use aws_smithy_runtime::client::identity::IdentityCache;
use aws_smithy_runtime::client::orchestrator::operation::Operation;
use aws_smithy_runtime::client::retries::classifiers::{HttpStatusCodeClassifier, TransientErrorClassifier};
use aws_smithy_runtime_api::client::auth::AuthSchemeOptionResolverParams;
use aws_smithy_runtime_api::client::auth::static_resolver::StaticAuthSchemeOptionResolver;
use aws_smithy_runtime_api::client::identity::SharedIdentityCache;
use aws_smithy_runtime_api::client::orchestrator::{OrchestratorError, SensitiveOutput};
use aws_smithy_runtime_api::client::runtime_components::RuntimeComponentsBuilder;
use aws_smithy_runtime_api::client::runtime_plugin::StaticRuntimePlugin;
use aws_smithy_types::body::SdkBody;
use aws_smithy_types::config_bag::Layer;
use aws_types::SigningName;
use aws_types::region::{Region, SigningRegion};
use aws_types::service_config::ServiceConfigKey;
use bytes::Bytes;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

/// The name in signatures and host names of the service whose endpoints the SDK's rules give for every region.
const SERVICE_WITH_RULES: &str = "firehose";

/// An AWS service.
#[derive(Debug, PartialEq, Eq)]
pub struct AwsService {
    /// Its id. `CloudFront` is configured by `AWS_ENDPOINT_URL_CLOUDFRONT`.
    pub id: &'static str,
    /// Its name in signatures, and the first label of its host names.
    pub name: &'static str,
    /// Whether all regions of a partition share one endpoint.
    pub is_global: bool,
}

/// A request.
#[derive(Clone, Debug)]
pub struct ApiRequest {
    /// The API action.
    pub action: &'static str,
    /// The HTTP method.
    pub method: &'static str,
    /// The path and the query, percent-encoded, with a leading `/`.
    pub path: String,
    /// Further headers, apart from the host, the signature and the length.
    pub headers: Vec<(&'static str, String)>,
    /// The body.
    pub body: String,
}

impl ApiRequest {
    /// A request of the protocol AWS JSON 1.1 to an action. The header `x-amz-target` names both the service's `prefix` and the action.
    #[must_use]
    pub fn json(prefix: &str, action: &'static str, body: &serde_json::Value) -> Self {
        let target = format!("{prefix}.{action}");
        Self {
            action,
            method: "POST",
            path: "/".to_owned(),
            headers: vec![
                ("content-type", "application/x-amz-json-1.1".to_owned()),
                ("x-amz-target", target),
            ],
            body: body.to_string(),
        }
    }
}

/// A response that reports a failure. The service's message may quote keys and values, so only its code is kept.
#[derive(Debug)]
pub struct ApiError {
    metadata: ErrorMetadata,
}

/// Sends requests to one service.
#[derive(Clone, Debug)]
pub struct ServiceApi {
    service: &'static AwsService,
    sdk: SdkConfig,
    /// Credentials, for as long as they are valid.
    identities: SharedIdentityCache,
}

impl ServiceApi {
    /// The service, with the settings of an SDK configuration.
    #[must_use]
    pub fn new(service: &'static AwsService, sdk: SdkConfig) -> Self {
        let identities = sdk.identity_cache().unwrap_or_else(|| IdentityCache::lazy().build());
        Self { service, sdk, identities }
    }

    /// Sends a request, again if it fails and a retry can help; returns the body of the response.
    ///
    /// # Errors
    /// The SDK's error; a failure that the service reports as [`ApiError`].
    pub async fn send(&self, request: ApiRequest) -> Result<Bytes, SdkError<ApiError, HttpResponse>> {
        let endpoint = match self.endpoint().await {
            Ok(endpoint) => endpoint,
            Err(error) => return Err(SdkError::construction_failure(error)),
        };
        let operation = Operation::builder()
            .service_name(self.service.id)
            .operation_name(request.action)
            .endpoint_url(&endpoint.url)
            .runtime_plugin(self.plugin(&endpoint))
            .serializer(http_request)
            .deserializer(output)
            .build();
        Box::pin(operation.invoke(request)).await
    }

    /// The endpoint of the service: the configured endpoint, for this service or for all services, or else the region's.
    async fn endpoint(&self) -> Result<ServiceEndpoint, BoxError> {
        let Self { service, sdk, .. } = self;
        let region = sdk.region().ok_or("no region is set")?;
        let is_china = region.as_ref().starts_with("cn-");
        let signing_region = match (service.is_global, is_china) {
            (false, _) => region.clone(),
            (true, false) => Region::from_static("us-east-1"),
            (true, true) => Region::from_static("cn-northwest-1"),
        };
        if let Some(url) = configured_endpoint(service.id, sdk) {
            return Ok(ServiceEndpoint { url, signing_region });
        }
        let parameters = Params::builder()
            .region(signing_region.as_ref())
            .use_fips(sdk.use_fips().unwrap_or(false))
            .use_dual_stack(sdk.use_dual_stack().unwrap_or(false))
            .build()?;
        let regional = DefaultResolver::new().resolve_endpoint(&parameters).await?;
        let mut url = regional.url().replacen(SERVICE_WITH_RULES, service.name, 1);
        if service.is_global && !is_china {
            url = url.replacen(&format!(".{signing_region}."), ".", 1);
        }
        Ok(ServiceEndpoint { url, signing_region })
    }

    /// The settings that the SDK's own clients pass on in the same way.
    fn plugin(&self, endpoint: &ServiceEndpoint) -> StaticRuntimePlugin {
        let Self { service, sdk, identities } = self;
        let mut settings = Layer::new("afterwrite");
        settings.store_put(SigningRegion::from(endpoint.signing_region.clone()));
        settings.store_put(SigningName::from_static(service.name));
        settings.store_put(SigV4OperationSigningConfig::default());
        settings.store_put(AuthSchemeOptionResolverParams::new(()));
        settings.store_put(ApiMetadata::new(service.name, env!("CARGO_PKG_VERSION")));
        settings.store_put(SensitiveOutput);
        sdk.retry_config().cloned().map(|retries| settings.store_put(retries));
        sdk.timeout_config().cloned().map(|timeouts| settings.store_put(timeouts));
        sdk.stalled_stream_protection().map(|protection| settings.store_put(protection));
        let mut components = RuntimeComponentsBuilder::new("afterwrite")
            .with_http_client(sdk.http_client())
            .with_identity_cache(Some(identities.clone()))
            .with_sleep_impl(sdk.sleep_impl())
            .with_time_source(sdk.time_source())
            .with_auth_scheme(SigV4AuthScheme::new())
            .with_auth_scheme_option_resolver(Some(StaticAuthSchemeOptionResolver::new(vec![SCHEME_ID])))
            .with_retry_classifier(HttpStatusCodeClassifier::default())
            .with_retry_classifier(AwsErrorCodeClassifier::<ApiError>::new())
            .with_retry_classifier(TransientErrorClassifier::<ApiError>::new())
            .with_interceptor(ServiceClockSkewInterceptor::new())
            .with_interceptor(RequestInfoInterceptor::new())
            .with_interceptor(UserAgentInterceptor::new())
            .with_interceptor(InvocationIdInterceptor::new())
            .with_interceptor(RecursionDetectionInterceptor::new());
        if let Some(credentials) = sdk.credentials_provider() {
            components.set_identity_resolver(SCHEME_ID, credentials);
        }
        StaticRuntimePlugin::new().with_config(settings.freeze()).with_runtime_components(components)
    }
}

/// Where a service is reached, and the region in the signatures of its requests.
struct ServiceEndpoint {
    url: String,
    signing_region: Region,
}

/// The configured endpoint, if there is one. An endpoint that the program sets is used for every service. Otherwise the setting of this
/// service in the environment or the profile precedes the setting for all services, as in the clients of the SDK.
fn configured_endpoint(id: &'static str, sdk: &SdkConfig) -> Option<String> {
    let key = ServiceConfigKey::builder().service_id(id).env("AWS_ENDPOINT_URL").profile("endpoint_url");
    let of_service =
        || sdk.service_config().zip(key.build().ok()).and_then(|(all, key)| all.load_config(key));
    if sdk.get_origin("endpoint_url").is_client_config() {
        return sdk.endpoint_url().map(str::to_owned);
    }
    of_service().or_else(|| sdk.endpoint_url().map(str::to_owned))
}

fn http_request(request: ApiRequest) -> Result<HttpRequest, BoxError> {
    let mut http = HttpRequest::new(SdkBody::from(request.body));
    http.set_method(request.method)?;
    http.set_uri(request.path)?;
    for (name, value) in request.headers {
        http.headers_mut().try_insert(name, value)?;
    }
    Ok(http)
}

fn output(response: &HttpResponse) -> Result<Bytes, OrchestratorError<ApiError>> {
    let body = response.body().bytes().unwrap_or_default();
    if response.status().is_success() {
        return Ok(Bytes::copy_from_slice(body));
    }
    let header = response.headers().get("x-amzn-errortype").map(str::to_owned);
    let code = header.or_else(|| json_code(body)).or_else(|| xml_code(body));
    let code = code.as_deref().map(bare_code).filter(|code| !code.is_empty());
    let metadata = code.map_or_else(ErrorMetadata::builder, |code| ErrorMetadata::builder().code(code));
    Err(OrchestratorError::operation(ApiError { metadata: metadata.build() }))
}

/// The code of a response in JSON.
fn json_code(body: &[u8]) -> Option<String> {
    let response: serde_json::Value = serde_json::from_slice(body).ok()?;
    let code = ["__type", "code", "Code"].iter().find_map(|name| response.get(name))?;
    code.as_str().map(str::to_owned)
}

/// The code of a response in XML: `<ErrorResponse><Error><Code>NoSuchDistribution</Code>…`.
fn xml_code(body: &[u8]) -> Option<String> {
    let (_, after) = std::str::from_utf8(body).ok()?.split_once("<Code>")?;
    after.split_once("</Code>").map(|(code, _)| code.to_owned())
}

/// `com.amazonaws.example#ThrottlingException:http://…` → `ThrottlingException`.
fn bare_code(code: &str) -> &str {
    let code = code.split(':').next().unwrap_or(code);
    code.rsplit('#').next().unwrap_or(code)
}

/// A text as one segment of a path, or as a value in a query.
#[must_use]
pub fn path_segment(text: &str) -> String {
    const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');
    utf8_percent_encode(text, RESERVED).to_string()
}

/// A response in JSON.
///
/// # Errors
/// [`ErrorKind::Unavailable`] if the body is not such a response.
pub fn parse_response<T: serde::de::DeserializeOwned>(body: &[u8]) -> Result<T> {
    serde_json::from_slice(body).map_err(|error| {
        // The cause names a line and a column, and no content.
        Error::new(ErrorKind::Unavailable, "the response of a service is not readable")
            .with("place", format!("line {}, column {}", error.line(), error.column()))
    })
}

impl fmt::Display for ApiError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.metadata.code().unwrap_or("a failure without a code"))
    }
}

impl StdError for ApiError {}

impl ProvideErrorMetadata for ApiError {
    fn meta(&self) -> &ErrorMetadata {
        &self.metadata
    }
}
