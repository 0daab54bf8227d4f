//! Reads the records of one file or object, in bounded memory.

use std::collections::VecDeque;
use std::fmt;
use std::io::{BufRead, Read as _};

use afterwrite_model::{Error, ErrorKind, Result};

use super::texts::{TextError, failed_records_of, records_of};

/// The maximum length of a line. An event has at most 6 MB; the escaping of an on-failure object at most doubles it.
const MAX_LINE_BYTES: u64 = 64 * 1024 * 1024;

/// Reads records one after the other.
pub struct RecordReader<R> {
    content: R,
    name: String,
    line: usize,
    records: VecDeque<String>,
    /// Text that was read ahead, in lines.
    ahead: VecDeque<Vec<u8>>,
    is_ended: bool,
    form: TextForm,
}

/// The form of the texts with records.
#[derive(Clone, Copy, PartialEq, Eq)]
enum TextForm {
    /// Each form that an input can have.
    Any,
    /// The object of an on-failure destination.
    OnFailure,
}

impl<R> fmt::Debug for RecordReader<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecordReader")
            .field("name", &self.name)
            .field("line", &self.line)
            .finish_non_exhaustive()
    }
}

/// A text that has no records.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RejectedText {
    /// The line at which it begins, from 1.
    pub line: usize,
    /// Why it has none.
    pub reason: &'static str,
}

impl<R: BufRead> RecordReader<R> {
    /// Reads JSON lines, or one JSON value of several lines. `name` is part of errors.
    pub fn new(content: R, name: String) -> Self {
        let (records, ahead) = (VecDeque::new(), VecDeque::new());
        Self { content, name, line: 0, records, ahead, is_ended: false, form: TextForm::Any }
    }

    /// Takes records of on-failure objects only: every other text is rejected, also if it has records.
    #[must_use]
    pub fn of_failures(self) -> Self {
        Self { form: TextForm::OnFailure, ..self }
    }

    /// The JSON of the next record; `None` at the end. A line that has no records is reported, and reading can go on.
    ///
    /// # Errors
    /// `Configuration` if the content cannot be read to its end, for example because gzip is damaged.
    pub fn next_record(&mut self) -> Result<Option<Result<String, RejectedText>>> {
        loop {
            if let Some(record) = self.records.pop_front() {
                return Ok(Some(Ok(record)));
            }
            if self.is_ended {
                return Ok(None);
            }
            let Some(text) = self.next_line()? else {
                self.is_ended = true;
                return Ok(None);
            };
            if text.trim_ascii().is_empty() {
                continue;
            }
            if let Err(rejected) = self.read_text(text)? {
                return Ok(Some(Err(rejected)));
            }
        }
    }

    /// Takes the records of a line, or of the value that begins in it.
    fn read_text(&mut self, mut text: Vec<u8>) -> Result<Result<(), RejectedText>> {
        let line = self.line;
        let rejected = |reason| Ok(Err(RejectedText { line, reason }));
        let mut records = self.form.parse(&text);
        // Only a file that is one value has it on several lines.
        if records == Err(TextError::Incomplete) && line == 1 {
            let first = text.len();
            let rest = self.content.by_ref().take(MAX_LINE_BYTES).read_to_end(&mut text);
            rest.map_err(|error| self.unreadable(error))?;
            if let Ok(whole) = self.form.parse(&text) {
                records = Ok(whole);
            } else {
                let rest = text.get(first..).unwrap_or_default();
                self.ahead = rest.split_inclusive(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect();
            }
        }
        match records {
            Ok(records) => {
                self.records.extend(records);
                Ok(Ok(()))
            }
            Err(TextError::Incomplete) => rejected("the JSON is incomplete"),
            Err(TextError::NotJson) => rejected("the text is not JSON"),
            Err(TextError::NotRecords) => rejected(self.form.missing()),
        }
    }

    fn next_line(&mut self) -> Result<Option<Vec<u8>>> {
        let mut text = self.ahead.pop_front().unwrap_or_default();
        if !text.ends_with(b"\n") {
            let read = self.content.by_ref().take(MAX_LINE_BYTES).read_until(b'\n', &mut text);
            read.map_err(|error| self.unreadable(error))?;
        }
        self.line += 1;
        Ok((!text.is_empty()).then_some(text))
    }

    fn unreadable(&self, cause: std::io::Error) -> Error {
        Error::new(ErrorKind::Configuration, "the input is damaged or truncated")
            .with("input", &self.name)
            .with("line", (self.line + 1).to_string())
            .caused_by(cause)
    }
}

impl TextForm {
    fn parse(self, text: &[u8]) -> Result<Vec<String>, TextError> {
        let text = std::str::from_utf8(text).map_err(|_| TextError::NotJson)?.trim();
        match self {
            Self::Any => records_of(text),
            Self::OnFailure => failed_records_of(text),
        }
    }

    /// Why JSON of another form has no records.
    fn missing(self) -> &'static str {
        match self {
            Self::Any => {
                "the JSON is neither a change record nor a Lambda event nor an on-failure object with its payload"
            }
            Self::OnFailure => "the JSON is not an on-failure object with its payload",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RECORD: &str = r#"{"eventID":"1","dynamodb":{"SequenceNumber":"1"}}"#;

    fn read(text: &str) -> Vec<Result<String, RejectedText>> {
        let mut reader = RecordReader::new(text.as_bytes(), "a file".to_owned());
        std::iter::from_fn(|| reader.next_record().unwrap()).collect()
    }

    #[test]
    fn lines_are_read_and_a_wrong_one_is_reported() {
        let text =
            format!("{RECORD}\nhello\n\n{{\"Records\":[{RECORD},{RECORD}]}}\n{{\"Records\":[\n{RECORD}");
        let rejected = |line, reason| Err(RejectedText { line, reason });
        let record = || Ok(RECORD.to_owned());
        let expected = [
            record(),
            rejected(2, "the text is not JSON"),
            record(),
            record(),
            rejected(5, "the JSON is incomplete"),
            record(),
        ];
        assert_eq!(read(&text), expected);
        assert_eq!(read(""), []);
    }

    #[test]
    fn a_value_may_have_several_lines() {
        let event = format!("{{\n  \"Records\": [\n    {RECORD},\n    {RECORD}\n  ]\n}}\n");
        assert_eq!(read(&event), [Ok(RECORD.to_owned()), Ok(RECORD.to_owned())]);
    }

    #[test]
    fn lines_after_an_incomplete_first_line_are_read() {
        let read = read(&format!("{{\"Records\":[\n{RECORD}\n{RECORD}"));
        let incomplete = RejectedText { line: 1, reason: "the JSON is incomplete" };
        assert_eq!(read, [Err(incomplete), Ok(RECORD.to_owned()), Ok(RECORD.to_owned())]);
    }
}
