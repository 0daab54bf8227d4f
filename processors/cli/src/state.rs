//! `afterwrite state`: state tables side by side, and the switch from one to the other.

use std::sync::Arc;

use afterwrite_ledger::tables::TableScan as _;
use afterwrite_model::harmless::harmless;
use afterwrite_model::{Error, ErrorKind, Result};
use afterwrite_operations::replay::LookupCopy;
use afterwrite_operations::state_table::{StateDiff, StateDiffTotals, StateDifference};
use clap::{Args, Subcommand};
use serde::Serialize;

use crate::deployment::{Deployment, DeploymentArguments};
use crate::print::{json_line, new_table, print};

/// The commands of `afterwrite state`.
#[derive(Debug, Subcommand)]
#[command(
    after_help = "Examples:\n  afterwrite state diff my-state new-state\n  afterwrite state promote new-state"
)]
pub enum StateCommand {
    /// Compare two state tables: rollups, contributions of each item, and remembered lookups.
    #[command(
        after_help = "Examples:\n  afterwrite state diff my-state new-state\n  afterwrite state diff my-state new-state --json\n\nRevisions, positions and times are not compared, nor the markers of expiries. While functions count into one of the tables, recent changes differ.\n\nExit codes: 0 equal, 1 the tables differ, 2 wrong usage or configuration, 3 the command could not finish."
    )]
    Diff(StateDiffArguments),
    /// Check a rebuilt state table and print how the deployment switches to it.
    #[command(
        after_help = "Examples:\n  afterwrite state promote new-state\n  afterwrite state promote new-state --accept-differences\n\nA table cannot be renamed: the switch is the variable AFTERWRITE_STATE_TABLE of the functions. This command compares the deployment's state table with the new one, copies remembered lookups that the new one lacks, and prints the steps of the switch. It changes no function.\n\nExit codes: 0 ready to switch, 1 the tables differ, 2 wrong usage or configuration, 3 the command could not finish."
    )]
    Promote(PromoteArguments),
}

/// The arguments of `afterwrite state diff`.
#[derive(Debug, Args)]
pub struct StateDiffArguments {
    /// The first table.
    #[arg(value_name = "A")]
    first: String,
    /// The second table.
    #[arg(value_name = "B")]
    second: String,
    #[command(flatten)]
    deployment: DeploymentArguments,
    /// Print one JSON object for each difference, then the totals.
    #[arg(long)]
    json: bool,
}

/// The arguments of `afterwrite state promote`.
#[derive(Debug, Args)]
pub struct PromoteArguments {
    /// The new state table.
    #[arg(value_name = "TABLE")]
    table: String,
    /// Go on although the tables differ: the differences were reviewed.
    #[arg(long)]
    accept_differences: bool,
    #[command(flatten)]
    deployment: DeploymentArguments,
    /// Print one JSON object for each difference, then the report.
    #[arg(long)]
    json: bool,
}

/// The result of `state promote`.
#[derive(Serialize)]
struct PromotionReport {
    is_ready: bool,
    compared: StateDiffTotals,
    lookups_copied: u64,
    next_steps: Vec<String>,
}

impl StateCommand {
    /// Runs the command; returns whether the tables are equal, or ready to switch.
    ///
    /// # Errors
    /// A setting that is missing or wrong; a table that cannot be read.
    pub async fn run(&self) -> Result<bool> {
        match self {
            Self::Diff(arguments) => Box::pin(arguments.run()).await,
            Self::Promote(arguments) => Box::pin(arguments.run()).await,
        }
    }
}

impl StateDiffArguments {
    async fn run(&self) -> Result<bool> {
        let deployment = Box::pin(self.deployment.connect()).await?;
        let (first, second) = (Arc::from(self.first.as_str()), Arc::from(self.second.as_str()));
        let totals = compare(&deployment, first, second, self.json).await?;
        print(&if self.json { json_line(&totals)? } else { summary(&totals) })?;
        Ok(totals.differences == 0)
    }
}

impl PromoteArguments {
    async fn run(&self) -> Result<bool> {
        let deployment = Box::pin(self.deployment.connect()).await?;
        let (old, new): (Arc<str>, Arc<str>) =
            (Arc::clone(&deployment.state_table), Arc::from(self.table.as_str()));
        let compared = compare(&deployment, Arc::clone(&old), Arc::clone(&new), self.json).await?;
        let is_ready = compared.differences == 0 || self.accept_differences;
        let lookups_copied = if is_ready { copy_lookups(&deployment, &old, &new).await? } else { 0 };
        let next_steps = if is_ready { switch_steps(&old, &new) } else { review_steps(&new) };
        let report = PromotionReport { is_ready, compared, lookups_copied, next_steps };
        print(&if self.json { json_line(&report)? } else { report.text() })?;
        Ok(is_ready)
    }
}

/// Compares two tables and prints each difference.
///
/// # Errors
/// `Configuration` if both names are one table's: it equals itself, which says nothing about the other table.
async fn compare(
    deployment: &Deployment,
    first: Arc<str>,
    second: Arc<str>,
    as_json: bool,
) -> Result<StateDiffTotals> {
    let tables = deployment.patient_tables();
    let (described, other) = (tables.describe(&first).await?, tables.describe(&second).await?);
    if first == second || (described.id.is_some() && described.id == other.id) {
        return Err(Error::new(ErrorKind::Configuration, "a state table cannot be compared with itself")
            .with("table", &*first)
            .hint("Name two tables. `state promote NEW` compares NEW with the table of AFTERWRITE_STATE_TABLE or --state-table, which must still be the old one"));
    }
    let diff = StateDiff::new(tables, first, second);
    let mut printed = Ok(());
    let totals = diff.compare(|difference| {
        if printed.is_ok() {
            printed = line(&difference, as_json).and_then(|line| print(&line));
        }
    });
    let totals = totals.await?;
    printed.map(|()| totals)
}

fn line(difference: &StateDifference, as_json: bool) -> Result<String> {
    if as_json {
        return json_line(difference);
    }
    let value = |value: &Option<String>| value.clone().unwrap_or_else(|| "-".to_owned());
    let StateDifference { entity_type, partition, sort, kind, attribute, first, second } = difference;
    Ok(format!(
        "{}\n",
        harmless(&format!(
            "{entity_type} {partition} {sort}: {}",
            kind.describe(attribute, &value(first), &value(second))
        ))
    ))
}

async fn copy_lookups(deployment: &Deployment, old: &Arc<str>, new: &Arc<str>) -> Result<u64> {
    let copy =
        LookupCopy { tables: Arc::clone(&deployment.tables), from: Arc::clone(old), into: Arc::clone(new) };
    let (mut copied, mut after) = (0, None);
    loop {
        let (count, next) = copy.copy_page(after).await?;
        copied += count;
        match next {
            Some(next) => after = Some(next),
            None => return Ok(copied),
        }
    }
}

fn summary(totals: &StateDiffTotals) -> String {
    let mut table = new_table(&[]);
    for (name, number) in [
        ("items of the first table", totals.first_items),
        ("items of the second table", totals.second_items),
        ("differences", totals.differences),
    ] {
        table.add_row([name.to_owned(), number.to_string()]);
    }
    format!("{table}\n")
}

fn switch_steps(old: &str, new: &str) -> Vec<String> {
    vec![
        format!(
            "set AFTERWRITE_STATE_TABLE={new} in the environment of aggregator and exporter, of everything that reads rollups, and, if rollups of the model are sources, of relay; then {new} needs a stream with the view type NEW_AND_OLD_IMAGES, and the mappings of {old}'s stream are created for it, with the same filters"
        ),
        "wait until no invocation of the old configuration runs: at most the function's timeout".to_owned(),
        format!(
            "replay the archive once more from the beginning of the first replay, with --state-table {new}: records that were counted into {old} only are counted, all others are skipped"
        ),
        format!(
            "compare the rollups, then keep {old} for a while: the switch back is the same variable, and the same replay with --state-table {old}"
        ),
    ]
}

fn review_steps(new: &str) -> Vec<String> {
    vec![
        format!("replay what {new} lacks, or review the differences"),
        format!("afterwrite state promote {new} --accept-differences"),
    ]
}

impl PromotionReport {
    fn text(&self) -> String {
        let state =
            if self.is_ready { "The new table is ready." } else { "The tables differ; nothing was copied." };
        let steps: String =
            self.next_steps.iter().zip(1..).map(|(step, number)| format!("  {number}. {step}\n")).collect();
        format!(
            "{}\n{state} Remembered lookups copied: {}\n\nNext:\n{steps}",
            summary(&self.compared),
            self.lookups_copied
        )
    }
}
