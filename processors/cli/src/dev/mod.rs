//! `afterwrite dev`: a whole deployment on this machine, until Ctrl-C.
//!
//! ```text
//! application ──AWS SDK──▶ DynamoDB ──streams──▶ aggregator ──▶ rollups, mirrors
//!                                        └─────▶ relay ──▶ Firehose ──▶ S3 ──notifications──▶ queue ──▶ exporter ──▶ datasets
//!                                        │         ├─────▶ queue of paths ──▶ invalidator ──▶ CloudFront
//!                                        │         └─────▶ events ──▶ EventBridge, or a queue
//!                                        └─────▶ functions of --function                      timer ──▶ compactor
//! ```
//!
//! The functions of Lambda run in this process; `--function` replaces one of them, or adds a consumer of the streams, by a program
//! that speaks the Lambda Runtime API.

mod background;
mod banner;
mod changes;
mod console;
mod data;
mod environment;
mod events;
mod functions;
mod redelivery;
mod servers;
mod state_watch;
mod streams;
mod tables;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use afterwrite_console::board::{DevBoard, EditorItem, Redelivery};
use afterwrite_lambda::{LogOutput, start_logging};
use afterwrite_mapping::{FaultPlan, FaultSwitch, MappingControl};
use afterwrite_model::clock::{Clock as _, SystemClock};
use afterwrite_model::table::Model;
use afterwrite_model::{Error, ErrorKind, Result};
use afterwrite_services::config::{EnvironmentSettings, FunctionConfig};
use clap::Args;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use self::background::BackgroundFunctions;
use self::banner::{DevBanner, editor_items, sample_of};
use self::changes::ChangeLines;
use self::console::DevConsole;
use self::data::DataFolder;
use self::events::EventDisplay;
use self::functions::FunctionSet;
use self::redelivery::deliver_again;
use self::servers::{DevServers, STATE_TABLE};
use self::streams::{StreamDelivery, deliver_streams};
use crate::arguments::pair;
use crate::print::print;
use crate::signals::StopSignal;

/// The arguments of `afterwrite dev`.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  afterwrite dev\n  afterwrite dev --model my-model.toml --data ./dev-data\n  afterwrite dev --function relay=./bootstrap\n  afterwrite dev --function search=./bootstrap --mapping search=mapping.json\n  afterwrite dev --inject duplicate=0.1,crash=0.01,delay=50ms,conflict=0.05\n\nEach counted change is a line on standard output, as `afterwrite tail` prints it. The functions' logs go to standard error; parked items are reported there, too.\n\nExit codes: 0 stopped by Ctrl-C, 2 wrong usage or configuration, 3 a server or a function failed."
)]
pub(crate) struct DevArguments {
    /// A built-in model's name or the path of a TOML file; default: AFTERWRITE_MODEL, else exambuddy.
    #[arg(long)]
    model: Option<String>,
    /// The folder in which the tables, the bucket and the checkpoints of one model stay; without it, they end with the command.
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// The port of DynamoDB; S3, Firehose, the queues, CloudFront, EventBridge and the console use the next six. 0: any free ports.
    #[arg(long, value_name = "PORT", default_value_t = 8000, value_parser = clap::value_parser!(u16).range(..=65_529))]
    port: u16,
    /// A program that speaks the Lambda Runtime API: it replaces the function of this name (aggregator, relay, exporter, compactor,
    /// invalidator), or consumes the streams as one more function. May be repeated.
    #[arg(help_heading = "Functions", long, value_name = "NAME=PATH", value_parser = pair)]
    function: Vec<(String, String)>,
    /// The settings of a stream function's event source mapping: a JSON file as AWS's `CreateEventSourceMapping` takes it. May be
    /// repeated.
    #[arg(help_heading = "Functions", long, value_name = "NAME=FILE", value_parser = pair)]
    mapping: Vec<(String, String)>,
    /// Faults to inject: shares of duplicated batches, crashed invocations and conflicting transactions, and the longest delay. The console
    /// switches them while the command runs.
    #[arg(help_heading = "Functions", long, value_name = "FAULTS", value_parser = faults, default_value = "")]
    inject: FaultPlan,
    /// The seconds between two compactions of the datasets.
    #[arg(help_heading = "Functions", long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    compact_every: u64,
    /// Where the model's events go.
    #[arg(help_heading = "Functions", long, value_enum, default_value_t)]
    events: EventDisplay,
    /// Print the functions' metrics to standard error, too, in the format that CloudWatch reads from logs (EMF).
    #[arg(help_heading = "Functions", long)]
    metrics: bool,
    /// Show the contents of items in the console, too, without secrets. Otherwise the console shows only keys and measures.
    #[arg(long)]
    show_items: bool,
    /// Print JSON: on the first line the endpoints, then each change.
    #[arg(long)]
    json: bool,
}

fn faults(written: &str) -> Result<FaultPlan, String> {
    FaultPlan::parse(written).map_err(|error| error.to_string())
}

impl DevArguments {
    /// Runs until a signal; returns `true`.
    pub(crate) async fn run(&self) -> Result<bool> {
        let mut settings = self.settings();
        let config = FunctionConfig::resolve(&settings)?;
        let faults = FaultSwitch::from(self.inject);
        let servers = Arc::new(Box::pin(DevServers::start(self, &config, &faults)).await?);
        servers.configure(&mut settings, self.events, &config.model);
        let functions = Box::pin(FunctionSet::start(&settings, &self.programs()?, &servers)).await?;
        let mappings = self.mappings(&functions)?;
        let sample = sample_of(&config);
        let (board, redeliveries) = self.board(faults, editor_items(&sample, &config), &settings);
        let console = DevConsole::start(self, &servers, (&config, &settings), &board).await?;
        let stop = StopSignal::listen()?;
        let lines = DevBanner::new(&servers, &config, &settings, sample, (&console.running.url, self.events));
        print(&if self.json { lines.json_line()? } else { lines.text() })?;
        start_logging(LogOutput::StandardError);
        let (streams_control, background_control) =
            (MappingControl::default(), Arc::new(MappingControl::default()));
        let background = BackgroundFunctions {
            servers: Arc::clone(&servers),
            functions: functions.background,
            compact_every: Duration::from_secs(self.compact_every),
            deployment: console.deployment.clone(),
            board: Arc::clone(&board),
            control: Arc::clone(&background_control),
            has_earlier_data: self.data.is_some(),
        }
        .spawn();
        let changes = ChangeLines::new(&servers, &config, self, &board);
        let delivery = StreamDelivery { files: &mappings, board: &board, changes: &changes };
        let deliver = deliver_streams(&servers, &config, &functions.streams, &delivery, &streams_control);
        let delivered = tokio::select! {
            delivered = Box::pin(deliver) => delivered,
            () = Box::pin(deliver_again(redeliveries, &functions.streams)) => Ok(()),
            stopped = stop_after_signal(stop, &streams_control) => stopped,
        };
        background_control.stop();
        console.running.stop().await?;
        ended(background).await?;
        delivered?;
        servers.flush().await.map(|()| true)
    }

    /// The folder of --data.
    fn data_folder(&self, model: &str) -> Result<Option<DataFolder>> {
        self.data.as_deref().map(|folder| DataFolder::open(folder, model)).transpose()
    }

    /// The settings of the functions, without the addresses of the servers.
    fn settings(&self) -> EnvironmentSettings {
        let mut settings = EnvironmentSettings::from_env();
        let named = self.model.clone().or(settings.model);
        settings.model = Some(named.unwrap_or_else(|| Model::DEFAULT_NAME.to_owned()));
        settings.region = None;
        settings.state_table = Some(STATE_TABLE.to_owned());
        settings.hides_metrics = !self.metrics;
        settings
    }

    /// The console's board, with the metrics of the functions in this process, and the records that the console wants again.
    fn board(
        &self,
        faults: FaultSwitch,
        sample: Vec<EditorItem>,
        settings: &EnvironmentSettings,
    ) -> (Arc<DevBoard>, mpsc::Receiver<Redelivery>) {
        let programs = self.function.iter().map(|(name, _)| name.clone());
        let has_cache = settings.cache_url.is_some() || settings.cache_secret.is_some();
        let (board, redeliveries) = DevBoard::new(faults, sample, programs, has_cache);
        let observed = Arc::clone(&board);
        afterwrite_lambda::observe_metrics(move |function, metrics| {
            observed.meters.add_metrics(function, metrics, SystemClock.now());
        });
        let observed = Arc::clone(&board);
        afterwrite_functions::observe_failures(move |function, failures| {
            for failed in failures {
                if let Some(number) = &failed.sequence_number {
                    observed.meters.note_reason(function, number, &failed.error);
                }
            }
        });
        (board, redeliveries)
    }

    /// The programs by function.
    fn programs(&self) -> Result<Vec<(String, PathBuf)>> {
        let mut programs: Vec<(String, PathBuf)> = Vec::new();
        for (name, path) in &self.function {
            if name.is_empty() || programs.iter().any(|(other, _)| other == name) {
                return Err(Error::new(
                    ErrorKind::Configuration,
                    "--function names a function twice, or has an empty name",
                )
                .with("name", name)
                .hint("Give each function a name of its own"));
            }
            programs.push((name.clone(), PathBuf::from(path)));
        }
        Ok(programs)
    }

    /// The settings of mappings by function.
    fn mappings(&self, functions: &FunctionSet) -> Result<streams::MappingFiles> {
        let mut mappings = streams::MappingFiles::new();
        for (name, file) in &self.mapping {
            if !functions.streams.iter().any(|(known, _)| known == name) {
                let known = functions.streams.iter().map(|(name, _)| name.as_str());
                return Err(crate::arguments::unknown(
                    "a mapping of a function that reads no stream",
                    name,
                    known,
                ));
            }
            mappings.insert(name.clone(), crate::run::read_mapping(file.as_ref())?);
        }
        Ok(mappings)
    }
}

/// Waits until the functions behind a queue or a timer have ended.
async fn ended(background: JoinHandle<Result<()>>) -> Result<()> {
    background.await.map_err(|error| {
        Error::new(ErrorKind::State, "a background function ended unexpectedly").caused_by(error)
    })?
}

/// Stops the streams' mappings at the first signal; at the second one, or after ten seconds, nothing is waited for.
async fn stop_after_signal(mut stop: StopSignal, control: &MappingControl) -> Result<()> {
    stop.received().await?;
    eprintln!("afterwrite: stopping");
    control.stop();
    tokio::select! {
        second = stop.received() => second,
        () = tokio::time::sleep(Duration::from_secs(10)) => Ok(()),
    }
}
