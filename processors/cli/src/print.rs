//! Results on standard output.

use std::io::{ErrorKind as IoErrorKind, Write as _};

use afterwrite::{Error, ErrorKind, Result};

/// Prints a result. A reader that has seen enough (`| head`) is no error.
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
