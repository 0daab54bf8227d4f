//! The deployment that the pages show.

use std::path::PathBuf;
use std::sync::Arc;

use afterwrite_model::clock::SystemClock;
use afterwrite_model::table::Model;
use afterwrite_operations::DeploymentContext;
use afterwrite_operations::jobs::JobStore;
use afterwrite_services::config::FunctionConfig;
use afterwrite_services::dynamodb::DynamoDb;
use afterwrite_services::s3::S3Bucket;

use crate::board::DevBoard;

/// The deployment that the pages show.
#[derive(Debug)]
pub struct ConsoleContext {
    /// The model, and the deployed names of its tables.
    pub config: FunctionConfig,
    /// The state table.
    pub state_table: Arc<str>,
    /// DynamoDB, whose requests are repeated while they are throttled.
    pub tables: Arc<DynamoDb>,
    /// The same DynamoDB, for queries that return a page.
    pub client: aws_sdk_dynamodb::Client,
    /// The bucket of archive, datasets and reports, if one is named.
    pub bucket: Option<S3Bucket>,
    /// The name of that bucket.
    pub bucket_name: Option<String>,
    /// How commands of Afterwrite are run for this deployment.
    pub commands: CommandLine,
    /// Where the deployment runs.
    pub place: ConsolePlace,
    /// The rights of the console's readers.
    pub options: ConsoleOptions,
}

/// How commands of Afterwrite are run for this deployment.
#[derive(Clone, Debug, Default)]
pub struct CommandLine {
    /// The program.
    pub program: PathBuf,
    /// The options that name the deployment, which every command takes.
    pub deployment: Vec<String>,
    /// Variables of its environment, beside those of this process.
    pub variables: Vec<(String, String)>,
    /// Variables of this process that it must not have.
    pub removed: Vec<String>,
}

/// Where a deployment runs.
#[derive(Clone, Debug)]
pub enum ConsolePlace {
    /// On AWS.
    Deployed,
    /// On this machine, inside `afterwrite dev`.
    Dev(Arc<DevBoard>),
}

/// The rights of the console's readers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConsoleOptions {
    /// Whether contents of items are shown, without secrets. Otherwise only keys and measures are shown.
    pub shows_items: bool,
    /// Whether buttons may write.
    pub allows_writes: bool,
}

impl ConsoleContext {
    pub(crate) fn model(&self) -> &Arc<Model> {
        &self.config.model
    }

    /// The deployment inside `dev`, if it runs there.
    pub(crate) fn board(&self) -> Option<&Arc<DevBoard>> {
        match &self.place {
            ConsolePlace::Deployed => None,
            ConsolePlace::Dev(board) => Some(board),
        }
    }

    /// The jobs of the state table.
    pub(crate) fn jobs(&self) -> JobStore<Arc<DynamoDb>, SystemClock> {
        JobStore::new(Arc::clone(&self.tables), SystemClock, Arc::clone(&self.state_table))
    }

    /// The deployment as operations take it.
    #[must_use]
    pub fn deployment(&self) -> DeploymentContext<Arc<DynamoDb>, SystemClock> {
        DeploymentContext {
            model: Arc::clone(self.model()),
            table_names: self.config.table_names.clone(),
            state_table: Arc::clone(&self.state_table),
            tables: Arc::clone(&self.tables),
            clock: SystemClock,
        }
    }
}
