//! `afterwrite console`: pages that show a deployment.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use afterwrite_console::{CommandLine, Console, ConsoleContext, ConsoleOptions, ConsolePlace};
use afterwrite_model::{Error, ErrorKind, Result};
use afterwrite_services::config::{dynamodb_client, s3_client};
use afterwrite_services::dynamodb::DynamoDb;
use afterwrite_services::s3::S3Bucket;
use clap::Args;

use crate::deployment::DeploymentArguments;
use crate::print::print;
use crate::signals::StopSignal;
use crate::verify::deployed::dataset_bucket;

/// The arguments of `afterwrite console`.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  afterwrite console\n  afterwrite console --bucket my-bucket --show-items\n  afterwrite console --allow-writes\n  afterwrite console --listen 0.0.0.0:8006\n\nPages: the flow and its delay, rollups by name and key, one item with everything derived from it, and the health of the deployment. Each table is JSON with ?format=json, and CSV with ?format=csv. A page reads by key, by index, or one page of a table; what scans a table says so, and waits for a click. Beyond this machine, every request needs the token of the printed address.\n\nExit codes: 0 stopped by Ctrl-C, 2 wrong usage or configuration, 3 the command could not finish."
)]
pub(crate) struct ConsoleArguments {
    #[command(flatten)]
    deployment: DeploymentArguments,
    /// The bucket of archive, datasets and reports; default: AFTERWRITE_BUCKET.
    #[arg(long, value_name = "NAME")]
    bucket: Option<String>,
    /// The address at which the console listens. Port 0: any free port.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8006")]
    listen: SocketAddr,
    /// A name by which browsers may reach the console, beside its address and localhost. May be repeated.
    #[arg(long, value_name = "NAME")]
    allow_host: Vec<String>,
    /// Let buttons write: control jobs, and start redrive, verify and repair. Each shows its plan first.
    #[arg(long)]
    allow_writes: bool,
    /// Show the contents of items, too, without secrets. Otherwise only keys and measures are shown.
    #[arg(long)]
    show_items: bool,
}

impl ConsoleArguments {
    /// Serves the pages until a signal; returns `true`.
    ///
    /// # Errors
    /// A setting that is missing or wrong; a model that does not load; an address that is in use.
    pub(crate) async fn run(&self) -> Result<bool> {
        let deployment = Box::pin(self.deployment.connect()).await?;
        let client = Box::pin(dynamodb_client()).await?;
        let bucket_name = dataset_bucket(self.bucket.as_ref());
        let bucket = match &bucket_name {
            Some(name) => Some(S3Bucket::retrying(s3_client().await?, Arc::from(name.as_str()))),
            None => None,
        };
        let context = ConsoleContext {
            config: deployment.config,
            state_table: deployment.state_table,
            tables: Arc::new(DynamoDb::retrying(client.clone())),
            client,
            bucket,
            bucket_name,
            commands: self.commands()?,
            place: ConsolePlace::Deployed,
            options: ConsoleOptions { shows_items: self.show_items, allows_writes: self.allow_writes },
        };
        let mut stop = StopSignal::listen()?;
        let mut console = Console::listen(context, self.listen, self.allow_host.clone()).await?.start();
        print(&format!("The console is at {}; Ctrl-C stops it.\n", console.url))?;
        tokio::select! {
            received = stop.received() => received?,
            ended = console.ended() => return ended.map(|()| true),
        }
        console.stop().await.map(|()| true)
    }

    /// This program, with the options that name the deployment.
    fn commands(&self) -> Result<CommandLine> {
        let DeploymentArguments { model, state_table, tables } = &self.deployment;
        let options = [("--model", model), ("--state-table", state_table), ("--tables", tables)];
        let options = options.into_iter().filter_map(|(name, value)| Some((name, value.clone()?)));
        let deployment = options.flat_map(|(name, value)| [name.to_owned(), value]).collect();
        Ok(CommandLine { program: this_program()?, deployment, ..CommandLine::default() })
    }
}

/// The path of this program.
pub(crate) fn this_program() -> Result<PathBuf> {
    std::env::current_exe().map_err(|error| {
        Error::new(ErrorKind::State, "the path of this program is not known").caused_by(error)
    })
}
