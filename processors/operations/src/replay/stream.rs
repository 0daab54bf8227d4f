//! Standard input or a pipe, read by a thread of its own: while a step waits for its records, the job renews its lease and obeys its operator.
//!
//! The thread reads a number of texts ahead. It ends at the end of the stream, or when it has read a text that nobody takes any more. A thread that
//! still waits for the stream does not hold up the end of the process.

use std::future::Future;
use std::pin::pin;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Mutex, PoisonError};
use std::thread;

use afterwrite_input::{InputStream, RejectedText, StoredInput};
use afterwrite_model::{Error, ErrorKind, Result};
use futures::StreamExt as _;
use futures::channel::mpsc::{UnboundedReceiver, UnboundedSender, unbounded};
use futures::future::{Either, select};

/// The texts that the thread reads ahead.
const READ_AHEAD: usize = 64;

/// A record or a rejected text; `None` at the end.
pub(super) type InputText = Option<Result<String, RejectedText>>;

/// A stream that a thread reads.
#[derive(Debug)]
pub(super) struct StreamedInput {
    texts: UnboundedReceiver<Result<InputText>>,
    /// Asks the thread for one more text.
    requests: Sender<()>,
}

impl StreamedInput {
    /// Starts the thread, which opens the stream.
    ///
    /// # Errors
    /// `State` if the thread cannot be started.
    pub(super) fn begin(stream: InputStream, stored: Option<StoredInput>) -> Result<Self> {
        let (requests, requested) = channel();
        let (sender, texts) = unbounded();
        let reading = move || read_stream(&stream, stored.as_ref(), &requested, &sender);
        thread::Builder::new().name("input".to_owned()).spawn(reading).map_err(|error| {
            Error::new(ErrorKind::State, "the thread that reads the input cannot be started").caused_by(error)
        })?;
        let streamed = Self { texts, requests };
        (0..READ_AHEAD).for_each(|_| streamed.request());
        Ok(streamed)
    }

    /// The next text, unless `limit` passes first. `stage` shows that the step waits.
    ///
    /// # Errors
    /// As [`InputStream::open`] and [`RecordReader::next_record`](afterwrite_input::RecordReader::next_record).
    pub(super) async fn next_text(
        &mut self,
        stage: &StepStage,
        limit: impl Future<Output = ()>,
    ) -> Result<StreamedText> {
        let text = {
            let _waiting = stage.begin_wait();
            match select(self.texts.next(), pin!(limit)).await {
                Either::Left((text, _)) => text,
                Either::Right(_) => return Ok(StreamedText::Late),
            }
        };
        self.request();
        // The end of the stream is a text, too. A channel that closes before it has lost records.
        text.unwrap_or_else(|| {
            Err(Error::new(ErrorKind::State, "the thread that reads the input has failed"))
        })
        .map(StreamedText::Read)
    }

    fn request(&self) {
        // The thread has ended at the end of the stream, or with an error that is among the texts.
        let _ = self.requests.send(());
    }
}

/// The result of a wait for a text.
#[derive(Debug)]
pub(super) enum StreamedText {
    /// It was read.
    Read(InputText),
    /// The time is over, and the stream has no other text yet.
    Late,
}

fn read_stream(
    stream: &InputStream,
    stored: Option<&StoredInput>,
    requested: &Receiver<()>,
    texts: &UnboundedSender<Result<InputText>>,
) {
    let mut reader = match stream.open(stored) {
        Ok(reader) => reader,
        Err(error) => {
            let _ = texts.unbounded_send(Err(error));
            return;
        }
    };
    while requested.recv().is_ok() {
        let text = reader.next_record();
        let is_last = !matches!(text, Ok(Some(_)));
        if texts.unbounded_send(text).is_err() || is_last {
            return;
        }
    }
}

/// The stages of a step that reads a stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum ReadingStage {
    /// The step works, and may have begun to deliver records.
    #[default]
    Works,
    /// It waits for the stream, and has delivered nothing.
    Waits,
}

/// The stage of the only step that runs.
#[derive(Debug, Default)]
pub(super) struct StepStage(Mutex<ReadingStage>);

impl StepStage {
    /// Whether the step waits for the stream.
    pub(super) fn is_waiting(&self) -> bool {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) == ReadingStage::Waits
    }

    fn begin_wait(&self) -> StreamWait<'_> {
        self.set(ReadingStage::Waits);
        StreamWait(self)
    }

    fn set(&self, stage: ReadingStage) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = stage;
    }
}

/// Ends the wait, also if its future is dropped.
struct StreamWait<'s>(&'s StepStage);

impl Drop for StreamWait<'_> {
    fn drop(&mut self) {
        self.0.set(ReadingStage::Works);
    }
}

#[cfg(test)]
mod tests {
    use std::fs::OpenOptions;
    use std::future::{pending, ready};
    use std::io::Write as _;
    use std::process::Command;

    use futures::FutureExt as _;
    use futures::executor::block_on;

    use super::*;

    const RECORD: &str = r#"{"eventID":"1","dynamodb":{"SequenceNumber":"1"}}"#;

    #[test]
    fn a_quiet_stream_is_waited_for_and_read_to_its_end() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        let mut writer = OpenOptions::new().read(true).write(true).open(&pipe).unwrap();
        let (stage, stream) = (StepStage::default(), InputStream::Pipe(pipe));
        let mut streamed = StreamedInput::begin(stream, None).unwrap();
        {
            let mut waiting = pin!(streamed.next_text(&stage, pending()));
            assert!(waiting.as_mut().now_or_never().is_none() && stage.is_waiting());
        }
        assert!(!stage.is_waiting(), "the wait was dropped");
        assert!(matches!(block_on(streamed.next_text(&stage, ready(()))), Ok(StreamedText::Late)));
        // More than is read ahead.
        for _ in 0..READ_AHEAD * 2 {
            writeln!(writer, "{RECORD}").unwrap();
        }
        let mut next = || block_on(streamed.next_text(&stage, pending()));
        for _ in 0..READ_AHEAD * 2 {
            let text = next().unwrap();
            assert!(matches!(&text, StreamedText::Read(Some(Ok(record))) if record == RECORD), "{text:?}");
        }
        drop(writer);
        assert!(matches!(next(), Ok(StreamedText::Read(None))));
        assert!(!stage.is_waiting());
    }

    #[test]
    fn a_stream_that_cannot_be_opened_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let stream = InputStream::Pipe(folder.path().join("missing"));
        let mut streamed = StreamedInput::begin(stream, None).unwrap();
        let failed = block_on(streamed.next_text(&StepStage::default(), pending())).unwrap_err();
        assert!(failed.to_string().contains("cannot be read"), "{failed}");
    }
}
