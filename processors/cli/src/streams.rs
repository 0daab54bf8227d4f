//! The streams of a model's tables.

use afterwrite_deployment::stream_filters::{MAX_PATTERNS, StreamFilter};
use afterwrite_mapping::FilterCriteria;
use afterwrite_mapping::aws::DeployedStream;
use afterwrite_mapping::tail::{StreamStart, TableStream};
use afterwrite_model::clock::{Clock as _, SystemClock};
use afterwrite_model::record::Timestamp;
use afterwrite_model::table::{Model, STATE_TABLE, Table};
use afterwrite_model::{Error, ErrorKind, Result};
use afterwrite_services::config::{FunctionConfig, ProjectionKind, dynamodb_client_of, sdk_config};
use clap::Args;

use crate::arguments::{stream_start, time_or_age, unknown};

/// Whether a command reads the stream of the state table, if rollups are sources.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RollupChanges {
    /// The changes of rollups that are sources, next to the changes of items.
    Included,
    /// Only with `--table @state`: they follow from the changes of items.
    Named,
}

/// Which streams are read, and from where.
#[derive(Debug, Args)]
pub(crate) struct StreamArguments {
    /// Only the stream of this table, as the model names it; default: the streams of all tables. If rollups are sources, the state table is @state.
    #[arg(help_heading = "Stream", long, value_name = "NAME")]
    table: Option<String>,
    /// Start at the oldest record, up to 24 hours ago; default: only new records.
    #[arg(help_heading = "Stream", long)]
    from_start: bool,
    /// Start with the first change of this time or later: an age of up to 24 hours, such as 10m or 2h, or a time.
    #[arg(help_heading = "Stream", long, value_name = "AGE", value_parser = time_or_age, conflicts_with = "from_start")]
    since: Option<Timestamp>,
    /// The URL of a DynamoDB server, such as the embedded one; default: the environment's.
    #[arg(help_heading = "Stream", long, value_name = "URL")]
    endpoint_url: Option<String>,
}

impl StreamArguments {
    /// Opens the streams. Without an option, they begin at the time `from`, if there is one.
    ///
    /// # Errors
    /// A time that the streams cannot begin at; a table that does not exist or has no stream.
    pub(crate) async fn open(
        &self,
        config: &FunctionConfig,
        rollups: RollupChanges,
        from: Option<Timestamp>,
    ) -> Result<Vec<TableStream>> {
        let mut sdk = Box::pin(sdk_config()).await?;
        if let Some(url) = &self.endpoint_url {
            sdk = sdk.into_builder().endpoint_url(url).build();
        }
        let tables = dynamodb_client_of(&sdk);
        let mut streams = Vec::new();
        for (index, (table, name)) in config.model.tables.iter().zip(&config.table_names).enumerate() {
            if self.reads(table, name, rollups) {
                let client = aws_sdk_dynamodbstreams::Client::new(&sdk);
                let stream = Box::pin(DeployedStream::of_table(&tables, client, name)).await?;
                let start = self.start(from, stream.enabled_later());
                let start = start.map_err(|error| error.with("table", &**name))?;
                let filters = stream_filters(&config.model, index)?;
                streams.push(TableStream::new(stream, start).filtered(filters));
            }
        }
        match &self.table {
            Some(name) if streams.is_empty() => {
                let known = config.model.tables.iter().map(|table| &*table.name);
                Err(unknown("a table that the model does not have", name, known))
            }
            None if streams.is_empty() => {
                Err(Error::new(ErrorKind::Configuration, "the model has no tables"))
            }
            Some(_) | None => Ok(streams),
        }
    }

    fn start(&self, from: Option<Timestamp>, enabled_later: Option<Timestamp>) -> Result<StreamStart> {
        if self.from_start {
            return Ok(StreamStart::Oldest);
        }
        let now = SystemClock.now();
        // Until a time in the future, new records are read and left out.
        match self.since.or_else(|| from.filter(|from| *from <= now)) {
            Some(time) => stream_start(time, now, enabled_later).map(StreamStart::At),
            None => Ok(StreamStart::Latest),
        }
    }

    /// Whether the stream of a table is read. Without AFTERWRITE_STATE_TABLE, the state table is read only if it is named.
    fn reads(&self, table: &Table, deployed: &str, rollups: RollupChanges) -> bool {
        match &self.table {
            Some(only) => **only == *table.name,
            None if table.is_state() => rollups == RollupChanges::Included && deployed != STATE_TABLE,
            None => true,
        }
    }
}

/// Of the state table, only changes of rollups that are sources are shown, as functions get them.
fn stream_filters(model: &Model, table: usize) -> Result<FilterCriteria> {
    if model.state_source() != Some(table) {
        return Ok(FilterCriteria::default());
    }
    let filter = StreamFilter::new(model, table, &ProjectionKind::ALL.into(), MAX_PATTERNS);
    FilterCriteria::from_patterns(filter.patterns.iter().map(String::as_str))
}
