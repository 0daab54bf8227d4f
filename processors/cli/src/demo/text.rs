//! The results of a demo as tables.

use std::fmt::Display;

use afterwrite_demo::archiving::{ArchiveReport, RuleInvalidations};
use afterwrite_demo::chart::{Chart, ChartRow};
use afterwrite_demo::datasets::{DatasetQuestion, DatasetsReport};
use afterwrite_demo::exact::ExactNumber;
use afterwrite_demo::item::ItemValue;
use afterwrite_demo::recount::ComparedValue;
use afterwrite_demo::report::{CountingCost, DemoReport};
use afterwrite_demo::verdict::RecountVerdict;
use afterwrite_model::table::Model;

use crate::print::{align_right, new_table};

/// The longest bar of a chart, in characters.
const BAR_WIDTH: i64 = 24;
/// Lines of an answer that are printed.
const LINES_SHOWN: usize = 14;
/// Differences that are printed; JSON has all of them.
const DIFFERENCES_SHOWN: usize = 20;

pub(super) fn report(report: &DemoReport) -> String {
    let DemoReport { about, size, unit, model, seed, .. } = report;
    let mut text = format!("{about}: {size} {unit} (model {model}, seed {seed}).\n\n");
    for chart in &report.charts {
        text += &format!("{}\n\n", chart_table(chart));
    }
    text += &format!("What it cost:\n{}\n\n", cost_table(&report.cost));
    for skipped in &report.skipped {
        text += &format!("Skipped: record {}: {}\n", skipped.sequence_number, skipped.reason);
    }
    let [first, last] = &report.verdicts;
    text + &format!(
        "Invalidated cache keys by rule (each key counts once a batch):\n{}\n\n{}\n\n{}\n\nAfter {:.1} s: {}\nAfter redelivery of {} old records: {}\n",
        cache_table(&report.cache_keys),
        archive(&report.archive),
        datasets(&report.datasets, model),
        report.seconds,
        verdict(first),
        report.delivered_again,
        verdict(last)
    )
}

fn chart_table(chart: &Chart) -> String {
    let longest = chart.rows.iter().filter_map(|row| row.bar.as_ref()).max();
    let header: Vec<&str> = chart.columns.iter().copied().chain(longest.map(|_| "")).collect();
    let mut table = new_table(&header);
    for ChartRow { cells, bar } in &chart.rows {
        let bar = bar.as_ref().zip(longest).map(|(bar, longest)| "█".repeat(bar_length(bar, longest)));
        table.add_row(cells.iter().cloned().chain(bar));
    }
    align_right(&mut table, 1..chart.columns.len());
    format!("{}:\n{table}", chart.title)
}

/// The length of a bar in proportion to the longest, rounded up.
fn bar_length(bar: &ExactNumber, longest: &ExactNumber) -> usize {
    let length = bar.times(&BAR_WIDTH.into()).negated().floor_divided_by(longest);
    let length = length.and_then(|length| length.negated().to_i64());
    length.and_then(|length| usize::try_from(length).ok()).unwrap_or(0)
}

fn cost_table(cost: &CountingCost) -> impl Display {
    let mut table = new_table(&[]);
    for (name, number) in [
        ("items written by the application", u64::try_from(cost.items_written).unwrap_or(u64::MAX)),
        ("records", cost.records),
        ("batches", cost.batches),
        ("  of them retried", cost.retried_batches),
        ("records redelivered on purpose", cost.redelivered_records),
        ("duplicates skipped", cost.duplicates_skipped),
        ("records folded into a newer one", cost.folded),
        ("transactions", cost.transactions),
        ("mirrors refreshed", cost.mirrors),
        ("write units", cost.write_units),
    ] {
        table.add_row([name.to_owned(), number.to_string()]);
    }
    table.add_row(["write units per record".to_owned(), format!("{:.2}", cost.write_units_a_record)]);
    align_right(&mut table, 1..2);
    table
}

fn cache_table(rules: &[RuleInvalidations]) -> impl Display {
    let mut table = new_table(&["a change of", "invalidates", "keys"]);
    for rule in rules.iter().filter(|rule| !rule.keys.is_empty()) {
        table.add_row([rule.of.clone(), rule.keys.join(", "), rule.invalidated.to_string()]);
    }
    align_right(&mut table, 2..3);
    table
}

fn archive(archive: &ArchiveReport) -> String {
    let ArchiveReport { objects, bytes, lines, changes, expected, billed_units } = archive;
    let verdict = if archive.is_whole() { "holds" } else { "DOES NOT HOLD" };
    format!(
        "The archive {verdict} all {expected} changes: {changes} of them in {lines} lines of {objects} objects \
         ({bytes} bytes compressed; Firehose would bill {billed_units} units of 5 KB)."
    )
}

fn datasets(report: &DatasetsReport, model: &str) -> String {
    let mut table = new_table(&["dataset", "files", "bytes"]);
    for dataset in &report.datasets {
        table.add_row([dataset.name.clone(), dataset.files.to_string(), dataset.bytes.to_string()]);
    }
    align_right(&mut table, 1..3);
    let DatasetsReport { rows, rejected, rescued, exported_files, duplicates, .. } = report;
    let mut text = format!(
        "Datasets: {rows} rows in {exported_files} files, compacted ({duplicates} duplicate rows removed; {rejected} lines \
         rejected, {rescued} rows with values that fit no column):\n{table}\n\n"
    );
    for DatasetQuestion { about, answer, .. } in &report.questions {
        let Some(answer) = answer else { continue };
        let lines: String = answer.lines().take(LINES_SHOWN).map(|line| format!("  {line}\n")).collect();
        text += &format!("{about}:\n{lines}\n");
    }
    let (folder, arguments) = (report.folder.display(), query_arguments(report, model));
    text + &format!(
        "The Parquet is in {folder}/datasets/; query it without an AWS account:\n  \
         {} query --datasets {folder} {arguments}",
        program_with_sql()
    )
}

/// The program that has the SQL engine, as a shell starts it: this one, or else a build with the engine.
fn program_with_sql() -> String {
    let this = std::env::args().next().filter(|_| cfg!(feature = "sql"));
    this.unwrap_or_else(|| "cargo run --release --features sql --".to_owned())
}

/// The arguments of `afterwrite query` for the first question, without the folder.
fn query_arguments(report: &DatasetsReport, model: &str) -> String {
    let model = if model == Model::DEFAULT_NAME { String::new() } else { format!("--model {model} ") };
    let question = match report.questions.first() {
        Some(DatasetQuestion { saved: Some(name), .. }) => format!("--saved {name}"),
        Some(DatasetQuestion { sql, .. }) => format!("\"{sql}\""),
        None => "--list".to_owned(),
    };
    format!("{model}{question}")
}

fn verdict(verdict: &RecountVerdict) -> String {
    let confirms = if verdict.is_equal() { "confirms" } else { "DOES NOT CONFIRM" };
    let mirrored = match verdict.mirrored {
        0 => ".".to_owned(),
        mirrored => format!(" and {mirrored} mirrored attributes."),
    };
    let (values, rollups) = (verdict.values, verdict.rollups);
    let mut text =
        format!("a recount of the base tables {confirms} all {values} values of {rollups} rollups{mirrored}");
    for ComparedValue { place, attribute, expected, found } in
        verdict.differences.iter().take(DIFFERENCES_SHOWN)
    {
        let [found, expected] = [found, expected]
            .map(|value| value.as_ref().map_or_else(|| "nothing".to_owned(), ItemValue::to_string));
        text += &format!("\n  {place} {attribute}: is {found}, must be {expected}");
    }
    match verdict.differences.len().checked_sub(DIFFERENCES_SHOWN) {
        Some(more @ 1..) => text + &format!("\n  and {more} more (see --json)"),
        _ => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_are_in_proportion_and_the_longest_come_first() {
        let mut chart = Chart::new("Ships", &["name", "tons"]);
        for (name, tons) in [("Anna", 1), ("Bella", 4), ("Clara", 2)] {
            chart.add_bar(vec![name.to_owned(), tons.to_string()], tons.into());
        }
        let shown = chart_table(&chart.top(2));
        let rows: Vec<&str> = shown.lines().map(str::trim_end).collect();
        assert_eq!(rows[0], "Ships:");
        let bar = |row: &str| row.chars().filter(|letter| *letter == '█').count();
        assert!(rows[2].contains("Bella") && bar(rows[2]) == 24, "{shown}");
        assert!(rows[3].contains("Clara") && bar(rows[3]) == 12, "{shown}");
        assert_eq!(rows.len(), 4);
    }
}
