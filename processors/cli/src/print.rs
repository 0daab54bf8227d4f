//! Results on standard output: their layout, and errors while writing them.

use std::io::{ErrorKind as IoErrorKind, Write as _};

use afterwrite::{Error, ErrorKind, Result};
use comfy_table::{CellAlignment, Table, presets};
use serde::Serialize;

/// Prints a result. A reader that closes the pipe early (`| head`) does not cause an error.
pub(crate) fn print(text: &str) -> Result<()> {
    let mut output = std::io::stdout().lock();
    match output.write_all(text.as_bytes()).and_then(|()| output.flush()) {
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

/// A table in the layout of all results: no lines, and a header unless it is empty.
pub(crate) fn new_table(header: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    if !header.is_empty() {
        table.set_header(header);
    }
    table
}

/// Aligns columns of numbers at their right side.
pub(crate) fn align_right(table: &mut Table, columns: std::ops::Range<usize>) {
    for column in columns {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
}
