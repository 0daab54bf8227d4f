//! Logging to standard output, which Lambda sends to CloudWatch Logs.

use std::io::{self, Write};

use afterwrite_model::harmless::harmless;
use lambda_runtime::tracing::subscriber::fmt::writer::MakeWriterExt as _;
use lambda_runtime::tracing::{Level, init_default_subscriber_with_writer};

/// Logs at the level and in the format of the function's logging settings. TRACE is capped to DEBUG: at TRACE the Lambda runtime
/// writes every event, and with it the values that a model keeps secret.
pub fn start_logging() {
    let events = || EventWriter(io::stdout());
    init_default_subscriber_with_writer(events.with_max_level(Level::DEBUG));
}

/// Writes each event on one line, without characters that a terminal or a reader of logs could misread. So a key with a line break in it
/// does not forge another event, or a line of metrics.
struct EventWriter<W>(W);

impl<W: Write> Write for EventWriter<W> {
    /// Writes an event, which the subscriber passes as a whole.
    fn write(&mut self, event: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(event);
        let (line, end) = text.strip_suffix('\n').map_or((&*text, ""), |line| (line, "\n"));
        self.0.write_all(format!("{}{end}", harmless(line)).as_bytes())?;
        Ok(event.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_one_line() {
        let mut written = Vec::new();
        let forged = "WARN key=a\n{\"_aws\":{}}\u{1b}[2J\n";
        assert_eq!(EventWriter(&mut written).write(forged.as_bytes()).unwrap(), forged.len());
        assert_eq!(String::from_utf8(written).unwrap(), "WARN key=a\\n{\"_aws\":{}}\\u001b[2J\n");
    }
}
