//! A few telling rollups: a small table whose rows may end in bars.

use serde::Serialize;

use super::exact::Exact;

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
    fn parts_of_nothing_are_none() {
        assert_eq!(percent(Exact::whole(2), Exact::whole(3)), "66 %");
        assert_eq!(percent(Exact::ZERO, Exact::ZERO), "");
    }
}
