//! `afterwrite run`: the consumer of Lambda in a process of its own, against the streams of deployed tables.
//!
//! ```text
//! lease ─▶ checkpoints ─▶ stream of each table ─▶ EventSourceMapping ─▶ projections (AFTERWRITE_PROJECTIONS)
//!                              ▲                                             │
//!                              └── checkpoint in the state table ◀───────────┘
//! ```

mod consumer;
mod recovery;
mod unserved;

use std::collections::BTreeSet;
use std::path::PathBuf;

use afterwrite_functions::ProjectionHost;
use afterwrite_lambda::{LogOutput, start_logging};
use afterwrite_mapping::{MappingControl, MappingSettings, StartingPosition};
use afterwrite_model::record::Timestamp;
use afterwrite_model::{Error, ErrorKind, Result};
use afterwrite_services::config::{EnvironmentSettings, FunctionConfig, ProjectionKind, sdk_config};
use clap::builder::NonEmptyStringValueParser;
use clap::{Args, ValueEnum};
use futures::future::try_join_all;
use serde::Serialize;

use self::consumer::{ConsumedTable, ConsumptionPlan, TableConsumer};
use self::recovery::{ArchiveRecovery, GapRecovery};
use self::unserved::unserved_note;
use crate::arguments::time;
use crate::backfill::BackfillCommand;
use crate::hosted::HostedFunction;
use crate::print::{align_right, json, new_table, print, tell};
use crate::signals::stop_signal;
use crate::state_stream::table_settings;

/// The arguments of `afterwrite run`.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  afterwrite run --name blue\n  afterwrite run --name blue --on-expired stop --table ExamBuddyTable\n  afterwrite run --name blue --on-expired replay-archive\n  afterwrite run --name blue --mapping mapping.json --start latest\n  afterwrite run --name green --from 2026-02-06T10:00:00Z\n\nThe settings are the functions' settings: AFTERWRITE_MODEL, AFTERWRITE_STATE_TABLE, AFTERWRITE_PROJECTIONS and the others. A second process with the\nsame name waits until the first one has ended. SIGTERM and Ctrl-C finish the batch and write the checkpoint.\n\nExit codes: 0 stopped by a signal, 1 a limit of --mapping discarded records, 2 wrong usage or configuration, 3 could not finish: changes are missing from a stream, or it cannot be read."
)]
pub(crate) struct RunArguments {
    /// The name of this consumer; its checkpoints are kept under it.
    #[arg(long, value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    name: String,
    /// The action if the checkpoint lies before the oldest record of the stream, or the stream was created again: changes are missing.
    #[arg(help_heading = "Position", long, value_name = "POLICY", value_enum, default_value_t = ExpiredPolicy::Stop)]
    on_expired: ExpiredPolicy,
    /// Where a consumer without checkpoints begins.
    #[arg(help_heading = "Position", long, value_name = "POSITION", value_enum, default_value_t = StartArgument::TrimHorizon)]
    start: StartArgument,
    /// A consumer without checkpoints begins with the first change of this time or later, of the last 24 hours. Checkpoints that lie before it are refused.
    #[arg(help_heading = "Position", long, value_name = "TIME", value_parser = time, conflicts_with = "start")]
    from: Option<Timestamp>,
    /// Forget the checkpoints of this name and begin at --start or --from.
    #[arg(help_heading = "Position", long)]
    reset: bool,
    /// Consume only this table, by its deployed name; may be repeated; default: all tables of the model.
    #[arg(long, value_name = "TABLE")]
    table: Vec<String>,
    /// A JSON file with the settings of the event source mapping, as AWS's `CreateEventSourceMapping` takes them; default: batches of
    /// 1,000 records, partial responses, bisecting.
    #[arg(long, value_name = "FILE")]
    mapping: Option<PathBuf>,
    /// With --on-expired backfill or replay-archive: accept that the state table has no point-in-time recovery.
    #[arg(long)]
    without_recovery: bool,
    /// Print the totals of each table as one JSON object when the consumer is stopped; before it, a recovery of --on-expired prints its report.
    #[arg(long)]
    json: bool,
}

/// The action if changes are missing from the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ExpiredPolicy {
    /// Name the missing changes and end with exit code 3.
    Stop,
    /// Replay the archive in AFTERWRITE_BUCKET from a day before the checkpoint on, and continue with the oldest record.
    ReplayArchive,
    /// Reconcile all items with the table, and continue with the oldest record.
    Backfill,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum StartArgument {
    /// With the oldest record.
    TrimHorizon,
    /// With the next record that is written.
    Latest,
}

impl RunArguments {
    /// Consumes the streams until a signal; returns `true`.
    pub(crate) async fn run(&self) -> Result<bool> {
        let mut settings = EnvironmentSettings::from_env();
        settings.model.get_or_insert_with(|| afterwrite_model::table::Model::DEFAULT_NAME.to_owned());
        for warning in &settings.warnings {
            tell(warning);
        }
        let config = FunctionConfig::resolve(&settings)?;
        let hosted = settings.projections_or(&[ProjectionKind::Aggregate])?;
        if settings.projections.is_none() {
            unserved_note(&config.model).iter().for_each(|note| tell(note));
        }
        let mappings = self.mappings(&config, &hosted)?;
        let state_table = settings.required_state_table()?;
        let recovery = self.recovery(&settings, &hosted)?;
        let sdk = sdk_config().await?;
        let consumers: Vec<TableConsumer> = try_join_all(
            mappings.iter().map(|(table, _)| TableConsumer::connect(&sdk, &state_table, &self.name, table)),
        )
        .await?;
        start_logging(LogOutput::StandardError);
        let host = ProjectionHost::start("run", &[ProjectionKind::Aggregate], settings);
        let function = HostedFunction(Box::pin(host).await?);
        let control = MappingControl::default();
        let plan = |settings| ConsumptionPlan { settings, reset: self.reset, recovery: recovery.as_ref() };
        let plans: Vec<ConsumptionPlan<'_>> = mappings.iter().map(|(_, settings)| plan(settings)).collect();
        let consume = consumers.iter().zip(&plans);
        let consume = consume.map(|(consumer, plan)| consumer.consume(&function, plan, &control));
        let stop = async {
            stop_signal().await?;
            eprintln!("afterwrite: stopping after the batches under way");
            control.stop();
            Ok::<_, Error>(())
        };
        let consumed = tokio::select! {
            consumed = try_join_all(consume) => consumed?,
            failed = async { stop.await?; std::future::pending::<Result<Vec<ConsumedTable>>>().await } => failed?,
        };
        print(&totals(&consumed, self.json)?)?;
        // Only a --mapping with a limit of attempts or of age discards records.
        Ok(consumed.iter().all(|table| table.counts.skipped == 0))
    }

    /// The recovery of a consumer that misses changes; `None` if it stops.
    fn recovery(
        &self,
        settings: &EnvironmentSettings,
        hosted: &BTreeSet<ProjectionKind>,
    ) -> Result<Option<GapRecovery>> {
        Ok(match self.on_expired {
            ExpiredPolicy::Stop => None,
            ExpiredPolicy::ReplayArchive => Some(GapRecovery::Archive(ArchiveRecovery::new(
                settings,
                hosted,
                self.without_recovery,
                self.json,
            )?)),
            ExpiredPolicy::Backfill => {
                let backfill = BackfillCommand::of_all_items(self.without_recovery, self.json);
                Some(GapRecovery::Backfill(Box::new(backfill)))
            }
        })
    }

    /// The tables to consume. A former name of a table must be named: that table may not exist any more.
    fn tables<'t>(&'t self, config: &'t FunctionConfig) -> Result<Vec<&'t str>> {
        let current = || config.table_names.iter().map(|name| &**name);
        let is_unknown =
            |table: &&String| config.model.table_deployed_as(&config.table_names, table).is_none();
        if let Some(unknown) = self.table.iter().find(is_unknown) {
            return Err(crate::arguments::unknown(
                "a table that the model does not have",
                unknown,
                current(),
            ));
        }
        Ok(if self.table.is_empty() {
            current().collect()
        } else {
            self.table.iter().map(String::as_str).collect()
        })
    }

    /// The tables to consume, each with the settings of its mapping. The state table is one of them only if rollups are used as sources.
    fn mappings<'t>(
        &'t self,
        config: &'t FunctionConfig,
        hosted: &BTreeSet<ProjectionKind>,
    ) -> Result<Vec<(&'t str, MappingSettings)>> {
        let mut mappings = Vec::new();
        for name in self.tables(config)? {
            let table = config.model.table_deployed_as(&config.table_names, name).unwrap_or_default();
            let settings = table_settings(&config.model, table, hosted, self.mapping_settings()?)?;
            mappings.extend(settings.map(|settings| (name, settings)));
        }
        Ok(mappings)
    }

    fn mapping_settings(&self) -> Result<MappingSettings> {
        let settings = match &self.mapping {
            Some(file) => read_mapping(file)?,
            None => MappingSettings { batch_size: 1000, bisects: true, ..MappingSettings::default() },
        };
        // The functions' response always names the failed records, also if the file has no FunctionResponseTypes.
        let settings = MappingSettings { reports_item_failures: true, ..settings };
        if let Some(bucket) = &settings.on_failure_bucket {
            return Err(Error::new(
                ErrorKind::Configuration,
                "DestinationConfig is not supported by this command",
            )
            .with("bucket", bucket)
            .hint("Remove it: a record that cannot be counted is parked in the state table"));
        }
        let starting_position = match (self.from, self.start) {
            (Some(time), _) => StartingPosition::At(time),
            (None, StartArgument::Latest) => StartingPosition::Latest,
            (None, StartArgument::TrimHorizon) => settings.starting_position,
        };
        Ok(MappingSettings { starting_position, ..settings })
    }
}

/// The settings of an event source mapping in a file.
pub(crate) fn read_mapping(file: &std::path::Path) -> Result<MappingSettings> {
    let text = std::fs::read_to_string(file).map_err(|error| {
        Error::new(ErrorKind::Configuration, "the settings of the event source mapping cannot be read")
            .with("file", file.display().to_string())
            .caused_by(error)
    })?;
    MappingSettings::from_json(&text)
}

/// The totals of a consumer.
#[derive(Serialize)]
struct ConsumerTotals<'c> {
    tables: &'c [ConsumedTable],
}

fn totals(tables: &[ConsumedTable], as_json: bool) -> Result<String> {
    if as_json { json(&ConsumerTotals { tables }) } else { Ok(totals_table(tables)) }
}

fn totals_table(consumed: &[ConsumedTable]) -> String {
    let mut table = new_table(&["table", "records", "accepted", "batches", "retries", "discarded"]);
    for ConsumedTable { table: name, counts } in consumed {
        let numbers = [counts.read, counts.accepted, counts.batches, counts.retries, counts.skipped];
        table.add_row([name.clone()].into_iter().chain(numbers.map(|number| number.to_string())));
    }
    align_right(&mut table, 1..6);
    format!("{table}\n")
}
