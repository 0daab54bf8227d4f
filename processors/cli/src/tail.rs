//! `afterwrite tail`: changes as they flow, one line each.

use std::sync::Arc;

use afterwrite_input::{InputObject, RecordInput, TimeRange};
use afterwrite_ledger::LookupSearch;
use afterwrite_model::{Error, ErrorKind, Result};
use afterwrite_preview::trace::{RecordTrace, RecordTracer, TraceLookups};
use afterwrite_services::config::dynamodb_client;
use afterwrite_services::dynamodb::DynamoDb;
use clap::Args;

use crate::feed::RecordFeed;
use crate::model_option::{ModelOption, remembered_lookups};
use crate::print::{json_line, print_one, tell};
use crate::streams::{RollupChanges, StreamArguments};

/// The arguments of `afterwrite tail`.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  afterwrite tail\n  afterwrite tail --from-start --limit 20 --json\n  afterwrite tail --since 10m\n  afterwrite tail --file recording.jsonl --show-items\n\nEach line: time, operation, table and key → entity → rollups → stale cache keys → stale paths → events (name and id) → rows. If AFTERWRITE_STATE_TABLE is set, outputs of lookups come from it, or else from the item that the lookup finds now: a record whose lookup finds no item waits, and is not counted yet. Without the variable, outputs are shown as <name>. If rollups are sources, their changes are lines, too. Nothing is written. A stream's shard allows two readers at once: this command is one of them.\n\nExit codes: 0 success, 1 a record is malformed or cannot be counted, 2 wrong usage or configuration, 3 the stream could not be read."
)]
pub struct TailArguments {
    /// Read this file instead of streams; - is standard input.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["table", "from_start", "since", "endpoint_url"])]
    file: Option<RecordInput>,
    #[command(flatten)]
    stream: StreamArguments,
    /// Stop after this many records.
    #[arg(long, value_name = "N")]
    limit: Option<u64>,
    /// Show the contents of items, too. Without it, only keys and measures are shown.
    #[arg(long)]
    show_items: bool,
    #[command(flatten)]
    model: ModelOption,
    /// Print one JSON object a line.
    #[arg(long)]
    json: bool,
}

impl TailArguments {
    /// Prints the changes; returns whether every record can be counted.
    ///
    /// # Errors
    /// A setting that is missing or wrong; a file or a stream that cannot be read.
    pub async fn run(&self) -> Result<bool> {
        let (settings, config) = (self.model.settings(), self.model.config()?);
        let (mut feed, remembered, tables) = match &self.file {
            Some(file) => (file_feed(file)?, None, None),
            None => {
                let remembered = remembered_lookups(&settings, &config.model).await?;
                let tables = match &remembered {
                    Some(_) => Some(DynamoDb::retrying(Box::pin(dynamodb_client()).await?)),
                    None => None,
                };
                let streams = Box::pin(self.stream.open(&config, RollupChanges::Included, None)).await?;
                (RecordFeed::of_streams(streams, TimeRange::default()), remembered, tables)
            }
        };
        let mut lookups = TraceLookups::new(&config.model, remembered);
        if let Some(tables) = tables {
            let (model, names) = (Arc::clone(&config.model), config.table_names.clone());
            lookups = lookups.searching(LookupSearch::new(model, names, tables));
        }
        let tracer = RecordTracer::new(config.model, config.table_names, lookups);
        let tracer = tracer.showing_items(self.show_items);
        let (mut shown, mut is_sound) = (0, true);
        while self.limit.is_none_or(|limit| shown < limit) {
            let Some(next) = Box::pin(feed.next()).await? else { break };
            shown += 1;
            match next {
                Ok(record) => {
                    let trace = tracer.trace(&record).await?;
                    is_sound &= trace.problem.is_none();
                    if !print_one(&self.line(&trace)?)? {
                        break;
                    }
                }
                Err((name, rejected)) => {
                    is_sound = false;
                    tell(&format!("{name}, line {}: {}", rejected.line, rejected.reason));
                }
            }
        }
        Ok(is_sound)
    }

    fn line(&self, trace: &RecordTrace) -> Result<String> {
        if self.json { json_line(trace) } else { Ok(format!("{trace}\n")) }
    }
}

fn file_feed(file: &RecordInput) -> Result<RecordFeed> {
    let objects = match file {
        RecordInput::StandardInput => vec![InputObject::StandardInput],
        RecordInput::Path(path) => InputObject::of_path(path)?,
        RecordInput::Prefix { .. } => {
            return Err(Error::new(ErrorKind::Configuration, "--file names an object of a bucket")
                .hint("Name a local file; `afterwrite record` writes the records of a bucket to one"));
        }
    };
    Ok(RecordFeed::of_inputs(objects, TimeRange::default()))
}
