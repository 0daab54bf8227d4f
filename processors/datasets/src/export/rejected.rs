//! The lines of an archive object that cannot be exported.

use std::borrow::Cow;

use afterwrite::{Error, ErrorKind, Result};
use serde::Serialize;

/// An object with more rejected lines, or more bytes of them, is not of the archive. They are held in memory.
const MAX_LINES: usize = 10_000;
const MAX_MEBIBYTES: usize = 64;

/// Rejected lines, as JSON lines with their numbers and the reasons.
#[derive(Default)]
pub(super) struct RejectedLines {
    lines: usize,
    json: Vec<u8>,
}

#[derive(Serialize)]
struct RejectedLine<'l> {
    line: usize,
    reason: String,
    text: Cow<'l, str>,
}

impl RejectedLines {
    /// Adds a line.
    ///
    /// # Errors
    /// [`ErrorKind::Rejected`] if there are too many.
    pub(super) fn add(&mut self, line: usize, text: &[u8], reason: &Error) -> Result<()> {
        self.lines += 1;
        if self.lines > MAX_LINES || self.json.len() + text.len() > MAX_MEBIBYTES * 1024 * 1024 {
            return Err(Error::new(
                ErrorKind::Rejected,
                format!(
                    "an archive object has more than {MAX_LINES} lines that are not change records, or more than {MAX_MEBIBYTES} MiB of \
                     them; nothing of it was exported"
                ),
            )
            .hint("It is not an object of the archive; move it elsewhere"));
        }
        let rejected = RejectedLine { line, reason: reason.to_string(), text: String::from_utf8_lossy(text) };
        // Cannot fail: texts and numbers.
        self.json.extend(serde_json::to_vec(&rejected).unwrap_or_default());
        self.json.push(b'\n');
        Ok(())
    }

    /// How many lines there are.
    pub(super) fn len(&self) -> usize {
        self.lines
    }

    /// The JSON lines.
    pub(super) fn into_json(self) -> Vec<u8> {
        self.json
    }
}
