//! The environments of programs that use the servers of `afterwrite dev`.

use afterwrite_model::table::Model;
use afterwrite_services::config::{EmbeddedEndpoints, EnvironmentSettings};

use super::servers::DevServers;

/// The environment of an application, of `aws` and of `afterwrite` that use the servers. The cache's address may have a password, so it is
/// not shown.
pub(super) fn client_variables(
    settings: &EnvironmentSettings,
    servers: &DevServers,
) -> Vec<(String, String)> {
    let dynamodb = servers.streams.endpoint();
    let model = settings.model.as_deref().map(absolute_model);
    let settings = EnvironmentSettings { model, cache_url: None, ..settings.clone() };
    let endpoints = EmbeddedEndpoints { dynamodb: dynamodb.clone(), ..servers.endpoints() };
    let mut variables = program_variables(&settings, &endpoints);
    variables.push(("AWS_ENDPOINT_URL_DYNAMODB_STREAMS".to_owned(), dynamodb.clone()));
    // No request of a service without a server here leaves the machine.
    variables.push(("AWS_ENDPOINT_URL".to_owned(), dynamodb));
    variables
}

/// The environment of a program that is a function: the settings of Afterwrite's functions, and the endpoints for its AWS SDK.
pub(super) fn program_variables(
    settings: &EnvironmentSettings,
    endpoints: &EmbeddedEndpoints,
) -> Vec<(String, String)> {
    let events = settings.events_to.iter().map(|(name, value)| (name.clone(), value.clone()));
    let set = [
        ("AFTERWRITE_MODEL", settings.model.clone()),
        ("AFTERWRITE_TABLES", settings.tables.clone()),
        ("AFTERWRITE_STATE_TABLE", settings.state_table.clone()),
        ("AFTERWRITE_FIREHOSE_STREAM", settings.firehose_stream.clone()),
        ("AFTERWRITE_BUCKET", settings.bucket.clone()),
        ("AFTERWRITE_CDN_QUEUE", settings.cdn_queue.clone()),
        ("AFTERWRITE_CLOUDFRONT_DISTRIBUTION", settings.distribution.clone()),
        ("AFTERWRITE_EVENTS", settings.events.clone()),
        ("AFTERWRITE_CACHE_URL", settings.cache_url.clone()),
        ("AWS_REGION", Some(endpoints.region.clone())),
        ("AWS_DEFAULT_REGION", Some(endpoints.region.clone())),
        ("AWS_ACCESS_KEY_ID", Some(endpoints.credential.clone())),
        ("AWS_SECRET_ACCESS_KEY", Some(endpoints.credential.clone())),
        ("AWS_ENDPOINT_URL_DYNAMODB", Some(endpoints.dynamodb.clone())),
        ("AWS_ENDPOINT_URL_FIREHOSE", Some(endpoints.firehose.clone())),
        ("AWS_ENDPOINT_URL_S3", Some(endpoints.s3.clone())),
        ("AWS_ENDPOINT_URL_SQS", Some(endpoints.sqs.clone())),
        ("AWS_ENDPOINT_URL_CLOUDFRONT", Some(endpoints.cloudfront.clone())),
        ("AWS_ENDPOINT_URL_EVENTBRIDGE", Some(endpoints.eventbridge.clone())),
    ];
    let set = set.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
    set.chain(events).collect()
}

/// The name of a built-in model, or the whole path of a file: the terminal may be in another folder.
fn absolute_model(model: &str) -> String {
    if Model::built_in_names().any(|name| name == model) {
        return model.to_owned();
    }
    std::path::absolute(model).map_or_else(|_| model.to_owned(), |path| path.display().to_string())
}
