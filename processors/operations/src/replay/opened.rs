//! The input that a replay reads: the position in it, and its reader, which is kept between steps.

use afterwrite_input::{OpenedInput, RejectedText};
use afterwrite_model::clock::Clock;
use afterwrite_model::record::Timestamp;
use afterwrite_model::{Error, ErrorKind, Result};
use futures::future::pending;
use serde::{Deserialize, Serialize};

use super::stream::{StepStage, StreamedInput, StreamedText};
use crate::jobs::WorkUnit;

/// The position in the inputs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ReplayCursor {
    /// The position of the object that is being read, and its name.
    pub(super) index: usize,
    pub(super) object: String,
    /// The records and rejected texts of it that steps have taken.
    pub(super) read: u64,
}

impl ReplayCursor {
    /// The position at which the next step of a unit begins.
    pub(super) fn of(unit: &WorkUnit) -> Result<Self> {
        let Some(cursor) = unit.cursor.clone() else { return Ok(Self::default()) };
        serde_json::from_value(cursor).map_err(|error| {
            Error::new(ErrorKind::State, "the position of the job in its inputs cannot be read")
                .hint("Start another replay: records that were counted are skipped")
                .caused_by(error)
        })
    }
}

/// The object that is being read.
#[derive(Debug)]
pub(super) struct OpenedObject {
    pub(super) cursor: ReplayCursor,
    reader: ObjectReader,
}

/// The reader of an object.
#[derive(Debug)]
enum ObjectReader {
    /// Of a file, or an object of a bucket, which has its content.
    Stored(OpenedInput),
    /// Of a stream, which may have the rest of its content later.
    Stream(StreamedInput),
}

/// The next text of an object.
pub(super) enum NextText {
    /// A record.
    Record(String),
    /// A text that is not a record.
    Rejected(RejectedText),
    /// There is none until the time that was given.
    Late,
    /// There is none.
    End,
}

impl OpenedObject {
    /// A file or an object of a bucket, behind the records that were read.
    ///
    /// # Errors
    /// `Configuration` if it ends before; as [`RecordReader::next_record`](afterwrite_input::RecordReader::next_record).
    pub(super) fn of_stored(cursor: ReplayCursor, mut reader: OpenedInput) -> Result<Self> {
        for _ in 0..cursor.read {
            if reader.next_record()?.is_none() {
                let problem = "the input ends before the record at which the job stopped";
                let error = stopped_elsewhere(problem, &cursor.object);
                return Err(error.with("records before", cursor.read.to_string()));
            }
        }
        Ok(Self { cursor, reader: ObjectReader::Stored(reader) })
    }

    /// A stream, from its beginning.
    pub(super) fn of_stream(cursor: ReplayCursor, reader: StreamedInput) -> Self {
        Self { cursor, reader: ObjectReader::Stream(reader) }
    }

    /// Takes the next text. If a stream has none, waits for it, at most until `until` if there is such a time; `stage` shows the wait.
    ///
    /// # Errors
    /// `Configuration` if the input cannot be read.
    pub(super) async fn next_text(
        &mut self,
        stage: &StepStage,
        clock: &impl Clock,
        until: Option<Timestamp>,
    ) -> Result<NextText> {
        let text = match &mut self.reader {
            ObjectReader::Stored(reader) => reader.next_record()?,
            ObjectReader::Stream(reader) => {
                let limit = async {
                    match until {
                        Some(until) => clock.until(until).await,
                        None => pending().await,
                    }
                };
                match reader.next_text(stage, limit).await? {
                    StreamedText::Read(text) => text,
                    StreamedText::Late => return Ok(NextText::Late),
                }
            }
        };
        self.cursor.read += u64::from(text.is_some());
        Ok(match text {
            Some(Ok(record)) => NextText::Record(record),
            Some(Err(text)) => NextText::Rejected(text),
            None => NextText::End,
        })
    }
}

/// The error of an object that is not as the job left it.
pub(super) fn stopped_elsewhere(problem: &str, object: &str) -> Error {
    Error::new(ErrorKind::Configuration, problem)
        .with("object", object)
        .hint("Restore it, or start another replay: records that were counted are skipped")
}
