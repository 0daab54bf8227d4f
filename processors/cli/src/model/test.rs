//! `afterwrite model test`: runs fixtures against a model.

use std::path::PathBuf;

use afterwrite_model::Result;
use afterwrite_preview::fixture::{
    FixtureDifference, FixtureFile, FixtureReport, find_fixtures, run_fixture,
};
use clap::Args;
use serde::Serialize;

use crate::model_option::ModelOption;
use crate::print::{json, new_table, print};
use crate::result_table::ResultTable;

/// The arguments of `afterwrite model test`.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  afterwrite model test fixtures\n  afterwrite model test fixtures/one.json --model my-model.toml --json\n\nA fixture is a file NAME.json with items or change records and the expected rollups, or a folder with expected.json; docs/MODEL.md describes the format. Fixtures run through the ledger that runs in Lambda, over items in memory, without AWS.\n\nExit codes: 0 all fixtures pass, 1 differences were found, 2 wrong usage or configuration, or a fixture that cannot be run."
)]
pub struct TestArguments {
    /// The folder of the fixtures, or one fixture.
    #[arg(value_name = "DIR")]
    fixtures: PathBuf,
    #[command(flatten)]
    model: ModelOption,
    /// Print the results as one JSON object.
    #[arg(long)]
    json: bool,
}

/// The results of all fixtures.
#[derive(Debug, Serialize)]
struct FixtureReports {
    passed: usize,
    failed: usize,
    fixtures: Vec<FixtureReport>,
}

impl TestArguments {
    /// Runs the fixtures and prints the differences; returns whether all pass.
    ///
    /// # Errors
    /// A model that does not load, a file that is not a fixture.
    pub async fn run(&self) -> Result<bool> {
        let config = self.model.config()?;
        let mut reports = Vec::new();
        for path in find_fixtures(&self.fixtures)? {
            let fixture = FixtureFile::read(&path, &self.fixtures).await?;
            reports.push(Box::pin(run_fixture(&config.model, &config.table_names, &fixture)).await?);
        }
        let failed = reports.iter().filter(|report| !report.differences.is_empty()).count();
        let reports = FixtureReports { passed: reports.len() - failed, failed, fixtures: reports };
        print(&if self.json { json(&reports)? } else { reports.text() })?;
        Ok(failed == 0)
    }
}

impl FixtureReports {
    fn text(&self) -> String {
        let mut text = String::new();
        for report in self.fixtures.iter().filter(|report| !report.differences.is_empty()) {
            let about = report.about.as_ref().map(|about| format!(": {about}")).unwrap_or_default();
            text.push_str(&format!("{}{about}\n\n{}\n\n", report.name, table(&report.differences)));
        }
        let micros: u64 = self.fixtures.iter().map(|report| report.micros).sum();
        let Self { passed, failed, .. } = self;
        text.push_str(&format!(
            "{passed} passed, {failed} failed, in {}.{:03} ms\n",
            micros / 1000,
            micros % 1000
        ));
        text
    }
}

fn table(differences: &[FixtureDifference]) -> ResultTable {
    let mut table = new_table(&["", "expected", "found"]);
    for FixtureDifference { place, expected, found } in differences {
        let text = |value: &Option<String>| value.clone().unwrap_or_else(|| "-".to_owned());
        table.add_row([place.clone(), text(expected), text(found)]);
    }
    table
}
