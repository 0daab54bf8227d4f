//! Results on standard output, and errors while writing them. All printed text is harmless for terminals ([`afterwrite_model::harmless`]): the
//! cells of tables ([`ResultTable`]), and every result as a whole.

use std::io::{ErrorKind as IoErrorKind, Write as _};

use afterwrite_model::harmless::{harmless, harmless_lines};
use afterwrite_model::{Error, ErrorKind, Result};
use serde::Serialize;

use crate::result_table::ResultTable;

/// Prints a result without characters that a terminal would obey. A reader that closes the pipe early (`| head`) does not cause an error.
pub(crate) fn print(text: &str) -> Result<()> {
    print_one(text).map(drop)
}

/// Prints one result of many; returns whether standard output takes more. Once the reader has closed the pipe, the command ends.
pub(crate) fn print_one(text: &str) -> Result<bool> {
    let mut output = std::io::stdout().lock();
    is_written(output.write_all(harmless_lines(text).as_bytes()).and_then(|()| output.flush()))
}

/// Whether an output takes more. A reader that closes the pipe early does not cause an error.
pub(crate) fn is_written(written: std::io::Result<()>) -> Result<bool> {
    match written {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == IoErrorKind::BrokenPipe => Ok(false),
        Err(error) => {
            Err(Error::new(ErrorKind::Configuration, "the results cannot be written to the output")
                .caused_by(error))
        }
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

/// A table of a result, with a header unless it is empty.
pub(crate) fn new_table(header: &[&str]) -> ResultTable {
    ResultTable::new(header)
}

/// Aligns columns of numbers at their right side.
pub(crate) fn align_right(table: &mut ResultTable, columns: std::ops::Range<usize>) {
    table.align_right(columns);
}
