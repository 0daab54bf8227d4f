//! `afterwrite invoke`: passes one Lambda event through the functions, and shows its effects.

mod datasets;
mod output;

use std::io::Read as _;
use std::path::PathBuf;
use std::sync::Arc;

use afterwrite_lambda::EventSource;
use afterwrite_model::clock::{Clock as _, SystemClock};
use afterwrite_model::{Error, ErrorKind, Result};
use afterwrite_preview::invocation::{InvocationReport, StreamFunctions, invoke_stream_functions};
use afterwrite_preview::tables::{OverlayTables, SourceItems};
use afterwrite_services::config::{EnvironmentSettings, FunctionConfig, dynamodb_client};
use afterwrite_services::dynamodb::DynamoDb;
use clap::{Args, ValueEnum};
use serde_json::Value;
use serde_json::value::RawValue;

use self::datasets::{DatasetInvocation, DatasetReport};
use crate::model_option::ModelOption;
use crate::print::{json, print, tell};

/// The state table of an invocation without AWS.
const LOCAL_STATE_TABLE: &str = "AfterwriteState";

/// The arguments of `afterwrite invoke`.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  afterwrite invoke --event event.json\n  afterwrite invoke --event event.json --items items.jsonl --json\n  afterwrite invoke --event s3-event.json --objects bucket/\n  afterwrite invoke --event event.json --deployed --dry-run\n\nAn event without records is taken for a stream event. Without --deployed nothing but this process is used: the tables have the items of --items and of the event; the bucket has the files of --objects. The state table is empty. With --deployed, `aggregator` uses the environment's tables, and `exporter` and `compactor` the environment's bucket. Cache keys, paths, archive lines and events of a stream event are shown and never sent.\n\nExit codes: 0 success, 1 a record was not counted or an object not exported, 2 wrong usage or configuration, 3 the command could not finish."
)]
pub struct InvokeArguments {
    /// The event as JSON; - is standard input.
    #[arg(long, value_name = "FILE")]
    event: String,
    /// The function; default: by the event, `aggregator` and `relay` for a stream event, `exporter` for an S3 or SQS event, `compactor`
    /// for {"dataset": …, "dt": …}.
    #[arg(long, value_enum)]
    function: Option<InvokedFunction>,
    /// Use the tables and the bucket of the environment.
    #[arg(long, conflicts_with_all = ["items", "objects"])]
    deployed: bool,
    /// With --deployed: keep the writes of `aggregator` in memory.
    #[arg(long, requires = "deployed")]
    dry_run: bool,
    /// A file with items of the source tables, as JSON lines or a list. Can be repeated.
    #[arg(long, value_name = "FILE")]
    items: Vec<PathBuf>,
    /// A folder with the objects of the bucket: `archive/…`, `datasets/…`.
    #[arg(long, value_name = "DIR")]
    objects: Option<PathBuf>,
    #[command(flatten)]
    model: ModelOption,
    /// Print the result as one JSON object.
    #[arg(long)]
    json: bool,
}

/// A function that can be invoked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum InvokedFunction {
    /// Counts.
    Aggregator,
    /// Invalidates and archives.
    Relay,
    /// Exports objects of the archive.
    Exporter,
    /// Compacts datasets.
    Compactor,
}

/// The functions of an event.
enum EventTarget {
    Stream(StreamFunctions),
    Exporter,
    Compactor,
}

impl InvokeArguments {
    /// Passes the event through the functions and prints the changes; returns whether everything succeeded.
    ///
    /// # Errors
    /// A setting that is missing or wrong, an event that no function reads, the error of the invocation.
    pub async fn run(&self) -> Result<bool> {
        let event = self.read_event()?;
        let mut settings = self.model.settings();
        if !self.deployed {
            // Records of the state table's stream name the deployed table, or this one.
            settings.state_table.get_or_insert_with(|| LOCAL_STATE_TABLE.to_owned());
        }
        let config = FunctionConfig::resolve(&settings)?;
        match self.target(&event)? {
            EventTarget::Stream(functions) => {
                let report = Box::pin(self.invoke_stream(&settings, &config, functions, &event)).await?;
                print(&if self.json {
                    json(&report)?
                } else {
                    output::text(&report, self.lookup_note(&config))
                })?;
                Ok(report.is_counted())
            }
            EventTarget::Exporter => {
                let run =
                    Box::pin(self.dataset_event(&settings, config, &event).export(self.deployed)).await?;
                self.print_dataset_report(&run)
            }
            EventTarget::Compactor => {
                let run =
                    Box::pin(self.dataset_event(&settings, config, &event).compact(self.deployed)).await?;
                self.print_dataset_report(&run)
            }
        }
    }

    fn dataset_event<'i>(
        &'i self,
        settings: &'i EnvironmentSettings,
        config: FunctionConfig,
        event: &'i str,
    ) -> DatasetInvocation<'i> {
        DatasetInvocation { settings, config, objects: self.objects.as_deref(), event }
    }

    /// Where lookups were searched, if that may be why a record was not counted.
    fn lookup_note(&self, config: &FunctionConfig) -> Option<&'static str> {
        (!self.deployed && !config.model.lookups.is_empty()).then_some(
            "lookups find only the items of the event and of --items; if one found no item, pass a file with that item, or use --deployed",
        )
    }

    fn print_dataset_report(&self, report: &DatasetReport) -> Result<bool> {
        print(&if self.json { json(report)? } else { report.text() })?;
        Ok(report.errors.is_empty())
    }

    fn read_event(&self) -> Result<String> {
        let mut text = String::new();
        let read = match self.event.as_str() {
            "-" => std::io::stdin().read_to_string(&mut text).map(|_| ()),
            file => std::fs::read_to_string(file).map(|read| text = read),
        };
        read.map(|()| text).map_err(|error| unreadable(&self.event, error))
    }

    fn target(&self, event: &str) -> Result<EventTarget> {
        Ok(match self.function {
            Some(InvokedFunction::Aggregator) => EventTarget::Stream(StreamFunctions::Aggregator),
            Some(InvokedFunction::Relay) => EventTarget::Stream(StreamFunctions::Relay),
            Some(InvokedFunction::Exporter) => EventTarget::Exporter,
            Some(InvokedFunction::Compactor) => EventTarget::Compactor,
            None => match EventSource::detect(event.as_bytes()) {
                Some(EventSource::DynamoDb) => EventTarget::Stream(StreamFunctions::Both),
                Some(EventSource::S3 | EventSource::Sqs) => EventTarget::Exporter,
                Some(EventSource::EventBridge) => EventTarget::Compactor,
                Some(source @ (EventSource::Kinesis | EventSource::Sns)) => {
                    return Err(source.unexpected(
                        "no function",
                        "such events",
                        "Name the function with --function",
                    ));
                }
                None if has_no_records(event) => {
                    tell(
                        "the event has no records: it is taken for a stream event, of `aggregator` and `relay`; name another function with --function",
                    );
                    EventTarget::Stream(StreamFunctions::Both)
                }
                None if event.contains("\"dynamodb\"") => EventTarget::Stream(StreamFunctions::Both),
                None => EventTarget::Compactor,
            },
        })
    }

    async fn invoke_stream(
        &self,
        settings: &EnvironmentSettings,
        config: &FunctionConfig,
        functions: StreamFunctions,
        event: &str,
    ) -> Result<InvocationReport> {
        let (model, names, event) = (&config.model, &config.table_names, event.as_bytes());
        if !self.deployed {
            let state = local_state_table(config);
            let tables = OverlayTables::new(self.source_items(config, event)?);
            return Box::pin(invoke_stream_functions(model, names, state, tables, functions, event)).await;
        }
        let state = settings.required_state_table()?;
        let tables = DynamoDb::new(Box::pin(dynamodb_client()).await?);
        if self.dry_run {
            let tables = OverlayTables::new(tables);
            return Box::pin(invoke_stream_functions(model, names, state, tables, functions, event)).await;
        }
        Box::pin(invoke_stream_functions(model, names, state, tables, functions, event)).await
    }

    /// The items of the files and of the event.
    fn source_items(&self, config: &FunctionConfig, event: &[u8]) -> Result<SourceItems> {
        let (model, names) = (Arc::clone(&config.model), config.table_names.clone());
        let mut items = SourceItems::new(model, names, local_state_table(config), SystemClock.now());
        for file in &self.items {
            let name = file.display().to_string();
            let text = std::fs::read_to_string(file).map_err(|error| unreadable(&name, error))?;
            let listed: serde_json::Result<Vec<Box<RawValue>>> = if text.trim_start().starts_with('[') {
                serde_json::from_str(&text)
            } else {
                serde_json::Deserializer::from_str(&text).into_iter().collect()
            };
            for item in listed.map_err(|error| unreadable(&name, error.into()))? {
                items.put_json(item.get()).map_err(|error| error.with("file", &name))?;
            }
        }
        let batch = afterwrite_model::record::decode(event, &config.model.attributes)?;
        batch.json.iter().try_for_each(|record| items.add_images(record))?;
        Ok(items)
    }
}

/// Whether an event is a list of records, for whatever function, and the list is empty.
fn has_no_records(event: &str) -> bool {
    let event: Value = serde_json::from_str(event).unwrap_or_default();
    event.get("Records").unwrap_or(&event).as_array().is_some_and(Vec::is_empty)
}

/// The state table in memory: under the name that records of its stream have, if rollups are sources.
fn local_state_table(config: &FunctionConfig) -> Arc<str> {
    let source = config.model.state_source().and_then(|table| config.table_names.get(table));
    source.cloned().unwrap_or_else(|| Arc::from(LOCAL_STATE_TABLE))
}

fn unreadable(file: &str, cause: std::io::Error) -> Error {
    Error::new(ErrorKind::Configuration, "a file cannot be read")
        .with("file", file)
        .hint("Name a file of JSON, or - for standard input")
        .caused_by(cause)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_without_records_is_recognized_in_both_forms() {
        for (event, is_empty) in [
            (r#"{"Records":[]}"#, true),
            ("[]", true),
            (r#"{"Records":[{}]}"#, false),
            (r#"{"dataset":"orders"}"#, false),
            ("{}", false),
            ("no JSON", false),
        ] {
            assert_eq!(has_no_records(event), is_empty, "{event}");
        }
    }
}
