//! Results on standard output: their layout, and errors while writing them. All printed text is harmless for terminals
//! ([`afterwrite::harmless`]): the cells of tables, and every result as a whole.

use std::fmt;
use std::io::{ErrorKind as IoErrorKind, Write as _};
use std::ops::{Deref, DerefMut};

use afterwrite::harmless::{harmless, harmless_lines};
use afterwrite::{Error, ErrorKind, Result};
use comfy_table::{CellAlignment, Table, presets};
use serde::Serialize;

/// Prints a result without characters that a terminal would obey. A reader that closes the pipe early (`| head`) does not cause an error.
pub(crate) fn print(text: &str) -> Result<()> {
    let mut output = std::io::stdout().lock();
    match output.write_all(harmless_lines(text).as_bytes()).and_then(|()| output.flush()) {
        Err(error) if error.kind() != IoErrorKind::BrokenPipe => {
            Err(Error::new(ErrorKind::Configuration, "the result cannot be written to standard output")
                .caused_by(error))
        }
        Ok(()) | Err(_) => Ok(()),
    }
}

/// A result as JSON, for machines.
pub(crate) fn json(result: &impl Serialize) -> Result<String> {
    let json = serde_json::to_string_pretty(result).map_err(|error| {
        Error::new(ErrorKind::State, "the results cannot be written as JSON").caused_by(error)
    })?;
    Ok(format!("{json}\n"))
}

/// A result as one line of JSON.
pub(crate) fn json_line(result: &impl Serialize) -> Result<String> {
    let json = serde_json::to_string(result).map_err(|error| {
        Error::new(ErrorKind::State, "the results cannot be written as JSON").caused_by(error)
    })?;
    Ok(format!("{json}\n"))
}

/// Tells about something on standard error, on one line.
pub(crate) fn tell(message: &str) {
    eprintln!("afterwrite: {}", harmless(message));
}

/// A table whose cells are harmless: a line break in a key does not begin a row.
pub(crate) struct ResultTable(Table);

/// A table in the layout of all results: no lines, and a header unless it is empty.
pub(crate) fn new_table(header: &[&str]) -> ResultTable {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    if !header.is_empty() {
        table.set_header(header.iter().map(|name| harmless(name).into_owned()));
    }
    ResultTable(table)
}

impl ResultTable {
    /// Adds a row of these texts.
    pub(crate) fn add_row<C: ToString>(&mut self, cells: impl IntoIterator<Item = C>) -> &mut Self {
        self.0.add_row(cells.into_iter().map(|cell| harmless(&cell.to_string()).into_owned()));
        self
    }
}

impl Deref for ResultTable {
    type Target = Table;

    fn deref(&self) -> &Table {
        &self.0
    }
}

impl DerefMut for ResultTable {
    fn deref_mut(&mut self) -> &mut Table {
        &mut self.0
    }
}

impl fmt::Display for ResultTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// Aligns columns of numbers at their right side.
pub(crate) fn align_right(table: &mut Table, columns: std::ops::Range<usize>) {
    for column in columns {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
}
