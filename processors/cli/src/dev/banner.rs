//! The first lines of `afterwrite dev`, for people and for programs: the endpoints, the environment of an application, and an item to write.

use std::collections::BTreeMap;

use afterwrite_console::board::EditorItem;
use afterwrite_local::sdk::{CREDENTIAL, REGION};
use afterwrite_model::clock::{Clock as _, SystemClock};
use afterwrite_model::table::Table;
use afterwrite_model::{Error, ErrorKind, Result};
use afterwrite_preview::sample::{SampleItem, sample_item};
use afterwrite_services::config::{EnvironmentSettings, FunctionConfig};
use serde_json::{Map, Value, json};

use super::environment::client_variables;
use super::events::EventDisplay;
use super::servers::{BUCKET, DevServers, EVENT_QUEUE, STATE_TABLE};
use crate::print::new_table;

/// Variables that would take precedence over the exported variables, or contradict them.
pub(super) const UNSET: [&str; 2] = ["AWS_PROFILE", "AWS_SESSION_TOKEN"];

/// The first lines of `dev`.
pub(super) struct DevBanner<'b> {
    servers: &'b DevServers,
    config: &'b FunctionConfig,
    variables: Vec<(String, String)>,
    sample: SampleItem,
    console: String,
    /// The URL of the queue that an application receives the model's events from.
    events_queue: Option<String>,
}

impl<'b> DevBanner<'b> {
    pub(super) fn new(
        servers: &'b DevServers,
        config: &'b FunctionConfig,
        settings: &EnvironmentSettings,
        sample: SampleItem,
        (console, events): (&str, EventDisplay),
    ) -> Self {
        let events_queue = events.queue(EVENT_QUEUE).map(|name| servers.sqs.url(name));
        Self {
            servers,
            config,
            variables: client_variables(settings, servers),
            sample,
            console: console.to_owned(),
            events_queue,
        }
    }

    /// The endpoints as a table, the environment as lines for a shell, and commands of the AWS CLI.
    pub(super) fn text(&self) -> String {
        let endpoints = self.servers.endpoints();
        let mut table = new_table(&[]);
        for (service, endpoint, contents) in [
            ("DynamoDB", self.servers.streams.endpoint(), self.tables()),
            ("S3", endpoints.s3, format!("bucket {BUCKET}: archive/, datasets/")),
            ("Firehose", endpoints.firehose, "the archive's delivery stream".to_owned()),
            ("SQS", endpoints.sqs, self.queues()),
            ("CloudFront", endpoints.cloudfront, "takes invalidations".to_owned()),
            ("EventBridge", endpoints.eventbridge, "takes events".to_owned()),
            ("Console", self.console.clone(), "shows everything in a browser".to_owned()),
        ] {
            table.add_row([service.to_owned(), endpoint, contents]);
        }
        let exports = self.variables.iter().map(|(name, value)| format!("export {name}={}\n", quoted(value)));
        let writes = self.sample.in_order().map(|item| {
            let (table, item) =
                (deployed_table(item, self.config), Value::Object(item.attributes.clone()).to_string());
            format!("aws dynamodb put-item --table-name {table} --item {}\n", quoted(&item))
        });
        let items = if self.sample.looked_up.is_empty() {
            "an item"
        } else {
            "an item, the items that it looks up first"
        };
        format!(
            "Model {} runs on this machine; Ctrl-C stops it.\n\n{table}\n\n\
             In another terminal, for `aws`, `afterwrite` and the application:\n\n\
             unset {}\n{}\n\
             Write {items}, and read what follows:\n\n{}\
             aws dynamodb scan --table-name {STATE_TABLE}\n\n",
            self.config.model.name,
            UNSET.join(" "),
            exports.collect::<String>(),
            writes.collect::<String>(),
        )
    }

    /// The same as one line of JSON.
    pub(super) fn json_line(&self) -> Result<String> {
        let endpoints = self.servers.endpoints();
        let tables = self.source_tables();
        let time_to_live: Map<String, Value> =
            tables.clone().map(|(name, attribute)| (name.to_owned(), json!(attribute))).collect();
        let line = json!({
            "model": &*self.config.model.name,
            "tables": tables.map(|(name, _)| name).collect::<Vec<_>>(),
            "time_to_live": time_to_live,
            "state_table": STATE_TABLE,
            "bucket": BUCKET,
            "console": self.console,
            "events_queue": self.events_queue,
            "region": REGION,
            "access_key_id": CREDENTIAL,
            "secret_access_key": CREDENTIAL,
            "endpoints": {
                "dynamodb": self.servers.streams.endpoint(),
                "s3": endpoints.s3,
                "firehose": endpoints.firehose,
                "sqs": endpoints.sqs,
                "cloudfront": endpoints.cloudfront,
            },
            "environment": self.variables.iter().cloned().collect::<BTreeMap<_, _>>(),
            "sample": {
                "table": self.sample_table(),
                "item": self.sample.attributes,
                "looked_up": self.sample.looked_up.iter().map(|item| {
                    json!({ "table": deployed_table(item, self.config), "item": item.attributes })
                }).collect::<Vec<_>>(),
            },
        });
        let line = serde_json::to_string(&line).map_err(|error| {
            Error::new(ErrorKind::State, "the endpoints cannot be written as JSON").caused_by(error)
        })?;
        Ok(format!("{line}\n"))
    }

    /// The source tables, each with the attribute that expires its items, and the state table.
    fn tables(&self) -> String {
        let tables: Vec<String> = self
            .source_tables()
            .map(|(name, attribute)| match attribute {
                Some(attribute) => format!("{name} (items expire by {attribute})"),
                None => format!("{name} (items do not expire)"),
            })
            .collect();
        format!("{}; rollups: {STATE_TABLE}", tables.join(", "))
    }

    fn queues(&self) -> String {
        match &self.events_queue {
            Some(url) => format!("archive objects, stale paths; events: {url}"),
            None => "archive objects, stale paths".to_owned(),
        }
    }

    /// The deployed names of the source tables, each with the attribute that expires its items.
    fn source_tables(&self) -> impl Iterator<Item = (&str, Option<&str>)> + Clone {
        self.config.model.application_tables().filter_map(move |(index, _)| {
            let attribute = self.servers.time_to_live.get(index)?;
            Some((&**self.config.table_names.get(index)?, attribute.as_deref()))
        })
    }

    fn sample_table(&self) -> &str {
        deployed_table(&self.sample, self.config)
    }
}

/// An item of the model, to write first.
pub(super) fn sample_of(config: &FunctionConfig) -> SampleItem {
    let sample = sample_item(&config.model, SystemClock.now());
    sample.unwrap_or_else(|| key_alone(config.model.tables.first()))
}

/// The deployed name of an item's table.
fn deployed_table<'c>(item: &SampleItem, config: &'c FunctionConfig) -> &'c str {
    config.table_names.get(item.table).map_or("", |name| name)
}

/// The items as the console's editor shows them, in the order in which they are written.
pub(super) fn editor_items(sample: &SampleItem, config: &FunctionConfig) -> Vec<EditorItem> {
    let items = sample.in_order().map(|item| {
        let json = serde_json::to_string_pretty(&item.attributes).unwrap_or_default();
        EditorItem { table: deployed_table(item, config).to_owned(), json }
    });
    items.collect()
}

/// An item with only a key, for a model whose keys cannot be made up.
fn key_alone(table: Option<&Table>) -> SampleItem {
    let keys = table.into_iter().flat_map(Table::key);
    let attributes = keys.map(|key| (key.name.to_string(), json!({ key.key_type.name(): "1" })));
    SampleItem { table: 0, attributes: attributes.collect(), looked_up: Vec::new() }
}

/// A value as one word of a POSIX shell.
fn quoted(value: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./:,=@%+".contains(&byte);
    if !value.is_empty() && value.bytes().all(is_plain) {
        return value.to_owned();
    }
    format!("'{}'", value.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_one_word_of_a_shell() {
        assert_eq!(quoted("http://127.0.0.1:8000"), "http://127.0.0.1:8000");
        assert_eq!(quoted("/a b/model's.toml"), r"'/a b/model'\''s.toml'");
        assert_eq!(quoted(""), "''");
    }
}
