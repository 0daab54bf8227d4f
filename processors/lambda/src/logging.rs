//! The log. A function writes it to standard output, which Lambda sends to CloudWatch Logs; a command writes it to standard error. Metrics are
//! lines of the log.

use std::io::{self, Write};
use std::sync::OnceLock;

use afterwrite_model::harmless::harmless;
use lambda_runtime::tracing::subscriber::fmt::writer::MakeWriterExt as _;
use lambda_runtime::tracing::{Level, init_default_subscriber_with_writer};

/// Where a process logs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogOutput {
    /// Standard output: of a function.
    #[default]
    StandardOutput,
    /// Standard error: of a command, whose standard output has results only.
    StandardError,
}

impl LogOutput {
    fn writer(self) -> Box<dyn Write> {
        match self {
            Self::StandardOutput => Box::new(io::stdout()),
            Self::StandardError => Box::new(io::stderr()),
        }
    }
}

static OUTPUT: OnceLock<LogOutput> = OnceLock::new();

/// Logs at the level and in the format of the function's logging settings. TRACE is capped to DEBUG: at TRACE the Lambda runtime
/// writes every event, and with it the values that a model keeps secret.
pub fn start_logging(output: LogOutput) {
    // A process starts its log once.
    let output = *OUTPUT.get_or_init(|| output);
    let events = move || EventWriter(output.writer());
    init_default_subscriber_with_writer(events.with_max_level(Level::DEBUG));
}

/// Writes a line of metrics to the log.
pub(crate) fn log_metrics(line: &str) {
    let output = OUTPUT.get().copied().unwrap_or_default();
    write_or_lose(output.writer(), &format!("{line}\n"));
}

/// Writes a line of the log. A line that cannot be written, because its reader is gone or a disk is full, is lost: the process goes on.
fn write_or_lose(mut output: impl Write, line: &str) {
    // There is no other place to report the loss.
    let _ = output.write_all(line.as_bytes());
}

/// Writes each event on one line, without characters that a terminal or a reader of logs could misread. So a key with a line break in it
/// does not forge another event, or a line of metrics.
struct EventWriter<W>(W);

impl<W: Write> Write for EventWriter<W> {
    /// Writes an event, which the subscriber passes as a whole.
    fn write(&mut self, event: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(event);
        let (line, end) = text.strip_suffix('\n').map_or((&*text, ""), |line| (line, "\n"));
        write_or_lose(&mut self.0, &format!("{}{end}", harmless(line)));
        Ok(event.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An output whose reader is gone.
    struct ClosedPipe;

    impl Write for ClosedPipe {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::BrokenPipe.into())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_line_without_a_reader_is_lost_and_the_process_goes_on() {
        assert_eq!(EventWriter(ClosedPipe).write(b"WARN\n").unwrap(), 5);
        write_or_lose(ClosedPipe, "{}\n");
    }

    #[test]
    fn an_event_is_one_line() {
        let mut written = Vec::new();
        let forged = "WARN key=a\n{\"_aws\":{}}\u{1b}[2J\n";
        assert_eq!(EventWriter(&mut written).write(forged.as_bytes()).unwrap(), forged.len());
        assert_eq!(String::from_utf8(written).unwrap(), "WARN key=a\\n{\"_aws\":{}}\\u001b[2J\n");
    }
}
