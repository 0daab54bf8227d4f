//! The streams of a model's tables.

use afterwrite_mapping::aws::DeployedStream;
use afterwrite_mapping::tail::{StreamStart, TableStream};
use afterwrite_model::{Error, ErrorKind, Result};
use afterwrite_services::config::{FunctionConfig, sdk_config};
use clap::Args;

use crate::arguments::unknown;

/// Which streams are read, and from where.
#[derive(Debug, Args)]
pub(crate) struct StreamArguments {
    /// Only the stream of this table, as the model names it; default: the streams of all tables.
    #[arg(help_heading = "Stream", long, value_name = "NAME")]
    table: Option<String>,
    /// Start at the oldest record, up to 24 hours ago; default: only new records.
    #[arg(help_heading = "Stream", long)]
    from_start: bool,
    /// The URL of a DynamoDB server, such as the embedded one; default: the environment's.
    #[arg(help_heading = "Stream", long, value_name = "URL")]
    endpoint_url: Option<String>,
}

impl StreamArguments {
    /// Opens the streams.
    ///
    /// # Errors
    /// A table that does not exist or has no stream.
    pub(crate) async fn open(&self, config: &FunctionConfig) -> Result<Vec<TableStream>> {
        let mut sdk = Box::pin(sdk_config()).await?;
        if let Some(url) = &self.endpoint_url {
            sdk = sdk.into_builder().endpoint_url(url).build();
        }
        let tables = aws_sdk_dynamodb::Client::new(&sdk);
        let start = if self.from_start { StreamStart::Oldest } else { StreamStart::Latest };
        let mut streams = Vec::new();
        for (table, name) in config.model.tables.iter().zip(&config.table_names) {
            if self.table.as_ref().is_none_or(|only| **only == *table.name) {
                let client = aws_sdk_dynamodbstreams::Client::new(&sdk);
                let stream = Box::pin(DeployedStream::of_table(&tables, client, name)).await?;
                streams.push(TableStream::new(stream, start));
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
}
