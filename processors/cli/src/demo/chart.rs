//! A few telling rollups: a small table whose rows may end in bars.

use std::fmt;

use serde::Serialize;

use super::exact::Exact;
use crate::print::{align_right, new_table};

const BAR_WIDTH: i128 = 24;

/// A table of results.
#[derive(Clone, Debug, Serialize)]
pub struct Chart {
    /// What it shows.
    pub title: String,
    /// Its columns' names, the first of them that of what a row is about.
    pub columns: Vec<&'static str>,
    /// Its rows, in order.
    pub rows: Vec<Row>,
}

/// A row of a chart.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// A text for each column.
    pub cells: Vec<String>,
    /// What its bar is as long as, in proportion.
    #[serde(skip)]
    pub bar: Option<Exact>,
}

impl Chart {
    /// A chart without rows yet.
    pub fn new(title: impl Into<String>, columns: &[&'static str]) -> Self {
        Self { title: title.into(), columns: columns.to_vec(), rows: Vec::new() }
    }

    /// Adds a row with a bar.
    pub fn bar(&mut self, cells: Vec<String>, bar: Exact) {
        self.rows.push(Row { cells, bar: Some(bar) });
    }

    /// Adds a row without one.
    pub fn row(&mut self, cells: Vec<String>) {
        self.rows.push(Row { cells, bar: None });
    }

    /// Leaves only the rows with the longest bars, longest first.
    #[must_use]
    pub fn top(mut self, count: usize) -> Self {
        self.rows.sort_by(|one, other| other.bar.cmp(&one.bar).then_with(|| one.cells.cmp(&other.cells)));
        self.rows.truncate(count);
        self
    }
}

impl fmt::Display for Chart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let longest = self.rows.iter().filter_map(|row| row.bar).max();
        let header: Vec<&str> = self.columns.iter().copied().chain(longest.map(|_| "")).collect();
        let mut table = new_table(&header);
        for Row { cells, bar } in &self.rows {
            let bar = longest.map(|longest| "█".repeat(bar.unwrap_or_default().part_of(longest, BAR_WIDTH)));
            table.add_row(cells.iter().cloned().chain(bar));
        }
        align_right(&mut table, 1..self.columns.len());
        write!(f, "{}:\n{table}", self.title)
    }
}

/// `part` of `whole` in percent, without decimals; nothing of nothing.
#[must_use]
pub fn percent(part: Exact, whole: Exact) -> String {
    let hundred = part.times(Exact::whole(100));
    match hundred.over(whole) {
        Some(percent) => {
            let text = percent.to_string();
            format!("{} %", text.split('.').next().unwrap_or_default())
        }
        None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_are_in_proportion_and_the_longest_come_first() {
        let mut chart = Chart::new("Ships", &["name", "tons"]);
        for (name, tons) in [("Anna", 1), ("Bella", 4), ("Clara", 2)] {
            chart.bar(vec![name.to_owned(), tons.to_string()], Exact::whole(tons));
        }
        let shown = chart.top(2).to_string();
        let rows: Vec<&str> = shown.lines().map(str::trim_end).collect();
        assert_eq!(rows[0], "Ships:");
        let bar = |row: &str| row.chars().filter(|letter| *letter == '█').count();
        assert!(rows[2].contains("Bella") && bar(rows[2]) == 24, "{shown}");
        assert!(rows[3].contains("Clara") && bar(rows[3]) == 12, "{shown}");
        assert_eq!(rows.len(), 4);
    }

    #[test]
    fn parts_of_nothing_are_none() {
        assert_eq!(percent(Exact::whole(2), Exact::whole(3)), "66 %");
        assert_eq!(percent(Exact::ZERO, Exact::ZERO), "");
    }
}
