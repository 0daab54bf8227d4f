//! The most telling rollups of a workload: small tables whose rows may end in bars.

use serde::Serialize;

use crate::exact::ExactNumber;
use crate::item::ItemValue;
use crate::rollups::MeasureValues;

/// A table of results.
#[derive(Clone, Debug, Serialize)]
pub struct Chart {
    /// The title.
    pub title: String,
    /// The names of the columns; the first column names a row's subject.
    pub columns: Vec<&'static str>,
    /// The rows, in order.
    pub rows: Vec<ChartRow>,
}

/// A row of a chart.
#[derive(Clone, Debug, Serialize)]
pub struct ChartRow {
    /// A text for each column.
    pub cells: Vec<String>,
    /// The length of its bar, in proportion to the other bars.
    #[serde(skip)]
    pub bar: Option<ExactNumber>,
}

impl Chart {
    /// A chart without rows.
    pub fn new(title: impl Into<String>, columns: &[&'static str]) -> Self {
        Self { title: title.into(), columns: columns.to_vec(), rows: Vec::new() }
    }

    /// Adds a row with a bar.
    pub fn add_bar(&mut self, cells: Vec<String>, bar: ExactNumber) {
        self.rows.push(ChartRow { cells, bar: Some(bar) });
    }

    /// Keeps only the rows with the longest bars, longest first.
    #[must_use]
    pub fn top(mut self, count: usize) -> Self {
        self.rows.sort_by(|one, other| other.bar.cmp(&one.bar).then_with(|| one.cells.cmp(&other.cells)));
        self.rows.truncate(count);
        self
    }
}

/// The cells of a row: its subject and these measures, with a text for absent measures.
#[must_use]
pub fn cells(subject: &str, measures: &MeasureValues, names: &[&str], absent: &str) -> Vec<String> {
    let shown = |name: &&str| measures.get(*name).map_or_else(|| absent.to_owned(), ItemValue::to_string);
    let values = names.iter().map(shown);
    std::iter::once(subject.to_owned()).chain(values).collect()
}

/// `part` of `whole` in percent, without decimals; empty if `whole` is zero.
#[must_use]
pub fn percent(part: &ExactNumber, whole: &ExactNumber) -> String {
    let percent = part.times(&ExactNumber::from(100)).divided_by(whole, 6);
    percent.map_or_else(String::new, |percent| format!("{} %", percent.truncated(0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentage_is_truncated_and_one_of_nothing_is_empty() {
        assert_eq!(percent(&2.into(), &3.into()), "66 %");
        assert_eq!(percent(&ExactNumber::ZERO, &ExactNumber::ZERO), "");
    }
}
