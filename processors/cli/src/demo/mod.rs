//! `afterwrite demo`: runs a workload, and prints its results as tables or as JSON.

mod text;

use std::path::PathBuf;

use afterwrite_demo::report::DemoReport;
use afterwrite_demo::workload::Workload;
use afterwrite_demo::{Demo, workloads};
use afterwrite_model::Result;
use afterwrite_model::table::Model;
use afterwrite_services::config::EnvironmentSettings;
use clap::Args;

use crate::arguments::whole_number;
use crate::print::{json, print, tell};
use crate::query::{Layout, Place, run_query};

/// The size of the largest run.
const LARGEST_RUN: u64 = 1_000_000;

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  afterwrite demo\n  afterwrite demo --model shop\n  afterwrite demo --seed 7 --attempts 500\n  afterwrite demo --model glad --json | jq .cost\n\nExit codes: 0 every number is right, 1 a number is wrong, 2 wrong usage or configuration, 3 the demo could not finish."
)]
pub(crate) struct DemoArguments {
    /// The built-in model whose application is run: exambuddy (exams), algoitny (a judge of algorithms), quiz (a quiz in five
    /// tables), shop (orders, reviews, sensors), glad (people's skills), or a public design of docs/COOKBOOK.md: ecommerce (orders
    /// and their items), github (a code-hosting service), leaderboard (boards of an online game), marketplace (food delivery), metering
    /// (calls of APIs) or social (a photo-sharing network) [default: AFTERWRITE_MODEL if it is one of these, else exambuddy].
    #[arg(long, value_name = "NAME")]
    model: Option<String>,
    /// Random seed.
    #[arg(long, default_value_t = 42, value_parser = whole_number)]
    seed: u64,
    /// The size of the run: attempts at exams (exambuddy), runs of solutions (algoitny), answers (quiz), orders (shop, ecommerce,
    /// marketplace), skills that people add (glad), issues and pull requests (github), matches (leaderboard), calls (metering) or visits of
    /// users (social) [default: 1000 for shop, ecommerce, marketplace and social, 500 for github, 2000 for all other models].
    #[arg(long, value_name = "NUMBER", value_parser = run_size)]
    attempts: Option<u64>,
    /// The folder for the datasets, as Parquet; the files of an earlier demo are replaced [default: afterwrite-demo in the
    /// folder for temporary files].
    #[arg(long, value_name = "DIR")]
    datasets: Option<PathBuf>,
    /// Print the results as one JSON object.
    #[arg(long)]
    json: bool,
}

fn run_size(written: &str) -> std::result::Result<u64, String> {
    let size = whole_number(written).ok().filter(|size| (1..=LARGEST_RUN).contains(size));
    size.ok_or_else(|| format!("write a whole number from 1 to {LARGEST_RUN}"))
}

impl DemoArguments {
    /// Returns whether every number is right.
    pub(crate) async fn run(&self) -> Result<bool> {
        let datasets = self.datasets.clone().unwrap_or_else(|| std::env::temp_dir().join("afterwrite-demo"));
        let workload = self.workload()?;
        let size = self.attempts.unwrap_or(workload.usual_size);
        let demo = Demo { workload, seed: self.seed, size, datasets };
        let mut report = Box::pin(demo.run()).await?;
        if cfg!(feature = "sql") {
            run_queries(&mut report).await?;
        }
        print(&if self.json { json(&report)? } else { text::report(&report) })?;
        Ok(report.right)
    }
}

impl DemoArguments {
    fn workload(&self) -> Result<&'static Workload> {
        if let Some(model) = &self.model {
            return workloads::of(model);
        }
        let named = EnvironmentSettings::from_env().model;
        if let Some(workload) = named.as_deref().and_then(|named| workloads::of(named).ok()) {
            return Ok(workload);
        }
        if named.is_some() {
            tell(&format!(
                "AFTERWRITE_MODEL is not a built-in model with a demo: this is the demo of {}; --model names another",
                Model::DEFAULT_NAME
            ));
        }
        workloads::of(Model::DEFAULT_NAME)
    }
}

/// Runs the workload's queries, as `afterwrite query` does.
async fn run_queries(report: &mut DemoReport) -> Result<()> {
    let model = Model::load(report.model)?;
    let place = Place::Folder(report.datasets.folder.clone());
    for question in &mut report.datasets.questions {
        question.answer = Some(Box::pin(run_query(&model, &place, &question.sql, Layout::Table)).await?);
    }
    Ok(())
}
