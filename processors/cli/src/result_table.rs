//! Tables in results: one layout for all commands. Cells are harmless ([`afterwrite_model::harmless`]): a line break in a key does not begin a
//! row.
//!
//! | standard output | layout |
//! |---|---|
//! | a terminal | as wide as the terminal: cells break between words, never within one, so that a key can be copied |
//! | a terminal too narrow for the longest words | a row is a block with a line for each column |
//! | a pipe or a file | a row is a line, however long |

use std::collections::BTreeSet;
use std::fmt;
use std::io::IsTerminal as _;
use std::ops::Range;

use afterwrite_model::harmless::harmless;
use comfy_table::{CellAlignment, ColumnConstraint, ContentArrangement, Table, Width, presets};
use terminal_size::terminal_size_of;

/// The width of a terminal that does not report one.
const USUAL_WIDTH: usize = 80;
/// The spaces around a cell.
const PADDING: usize = 2;

/// A table of a result; it is laid out when it is displayed.
#[derive(Clone, Debug, Default)]
pub(crate) struct ResultTable {
    header: Vec<String>,
    rows: Vec<Vec<String>>,
    /// The columns of numbers.
    right_aligned: BTreeSet<usize>,
}

impl ResultTable {
    /// A table without a header if `header` is empty.
    pub(crate) fn new(header: &[&str]) -> Self {
        Self { header: header.iter().map(|name| harmless(name).into_owned()).collect(), ..Self::default() }
    }

    /// Adds a row of these texts.
    pub(crate) fn add_row<T: ToString>(&mut self, row: impl IntoIterator<Item = T>) {
        self.rows.push(row.into_iter().map(|cell| harmless(&cell.to_string()).into_owned()).collect());
    }

    /// Aligns columns of numbers at their right side.
    pub(crate) fn align_right(&mut self, columns: Range<usize>) {
        self.right_aligned.extend(columns);
    }

    /// Whether it has no rows.
    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The table for a terminal of this width, or for none.
    fn render(&self, width: Option<usize>) -> String {
        let mut table = Table::new();
        table.load_style(presets::NOTHING);
        if !self.header.is_empty() {
            table.set_header(&self.header);
        }
        for row in &self.rows {
            table.add_row(row);
        }
        for column in &self.right_aligned {
            if let Some(column) = table.column_mut(*column) {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        if let Some(width) = width {
            let longest = self.longest_words();
            let narrowest: usize = longest.iter().map(|word| word + PADDING).sum();
            if narrowest > width && !self.header.is_empty() {
                return self.blocks(width);
            }
            table.set_content_arrangement(ContentArrangement::Dynamic).set_width(columns(width));
            for (column, word) in table.column_iter_mut().zip(longest) {
                column.set_constraint(ColumnConstraint::LowerBoundary(Width::Fixed(columns(word + PADDING))));
            }
        }
        table.trim_fmt()
    }

    /// The rows as blocks with a line for each column that is not empty.
    fn blocks(&self, width: usize) -> String {
        let block = |row: &Vec<String>| {
            let mut block = Self::default();
            for (name, cell) in self.header.iter().zip(row).filter(|(_, cell)| !cell.is_empty()) {
                block.add_row([name, cell]);
            }
            block.render(Some(width))
        };
        self.rows.iter().map(block).collect::<Vec<_>>().join("\n\n")
    }

    /// The width of the longest word of each column.
    fn longest_words(&self) -> Vec<usize> {
        let columns = self.rows.iter().chain([&self.header]).map(Vec::len).max().unwrap_or(0);
        (0..columns).map(|column| self.longest_word(column)).collect()
    }

    fn longest_word(&self, column: usize) -> usize {
        let cells = self.rows.iter().chain([&self.header]).filter_map(|row| row.get(column));
        let mut words = Table::new();
        for word in cells.flat_map(|cell| cell.split([' ', '\n'])) {
            words.add_row([word]);
        }
        words.column_max_content_widths().first().map_or(0, |width| usize::from(*width))
    }
}

impl fmt::Display for ResultTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.render(terminal_width()))
    }
}

/// The width of the terminal that standard output goes to; `None` if it goes elsewhere.
fn terminal_width() -> Option<usize> {
    let output = std::io::stdout();
    if !output.is_terminal() {
        return None;
    }
    Some(terminal_size_of(output).map_or(USUAL_WIDTH, |(width, _)| usize::from(width.0)))
}

fn columns(width: usize) -> u16 {
    u16::try_from(width).unwrap_or(u16::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "CANDIDATE#01KAZ3NDEKTSV4RRFFQ69G5FAV";

    fn table() -> ResultTable {
        let mut table = ResultTable::new(&["key", "advice"]);
        table.add_row([KEY, "correct the item, or the model, and run the command again"]);
        table.add_row(["KEY#größe", "なにもしない"]);
        table
    }

    #[test]
    fn a_row_of_a_pipe_is_a_line() {
        let text = table().render(None);
        assert_eq!(text.lines().count(), 3, "{text}");
        assert!(text.contains("correct the item, or the model, and run the command again"), "{text}");
    }

    #[test]
    fn a_terminal_breaks_between_words() {
        for width in 52..80 {
            let text = table().render(Some(width));
            assert!(text.contains(KEY) && text.contains("なにもしない"), "{width}\n{text}");
            assert!(text.lines().count() > 3, "{width}\n{text}");
            assert!(text.lines().all(|line| line.chars().count() <= width), "{width}\n{text}");
            let words: Vec<&str> = text.split_whitespace().collect();
            for word in "correct the item, or the model, and run the command again".split(' ') {
                assert!(words.contains(&word), "{width}: {word}\n{text}");
            }
        }
    }

    #[test]
    fn a_narrow_terminal_gets_a_block_for_each_row() {
        let text = table().render(Some(48));
        assert!(text.contains(KEY) && text.contains("\n\n"), "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= 48), "{text}");
        assert_eq!(text.matches("key").count(), 2, "{text}");
    }

    #[test]
    fn numbers_are_aligned() {
        let mut table = ResultTable::new(&["name", "items"]);
        table.add_row(["a", "7"]);
        table.add_row(["b", "1234"]);
        table.align_right(1..2);
        assert_eq!(table.render(None), " name  items\n a         7\n b      1234");
    }
}
