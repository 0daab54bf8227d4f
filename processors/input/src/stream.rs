//! Standard input and pipes: they can be read only once, and a read waits for the process that writes them.

use std::io::{BufRead, BufReader, stdin};
use std::path::PathBuf;

use afterwrite_model::Result;
use afterwrite_services::Bucket;

use super::object::{InputObject, OpenedInput, STANDARD_INPUT, open_file, unpacked};
use super::reader::RecordReader;
use super::stored::{StoredFile, StoredInput};

/// An input that can be read only once. A thread of its own can open and read it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InputStream {
    /// Standard input.
    StandardInput,
    /// A pipe, or another file that is not a regular file.
    Pipe(PathBuf),
}

impl InputStream {
    /// Opens it, with the content that it was stored with if it was stored. Waits until a process writes it.
    ///
    /// # Errors
    /// [`Configuration`](afterwrite_model::ErrorKind::Configuration) if it cannot be read.
    pub fn open(&self, stored: Option<&StoredInput>) -> Result<OpenedInput> {
        let content: Box<dyn BufRead + Send> = match (self, stored) {
            (Self::StandardInput, _) => Box::new(BufReader::new(stdin())),
            (Self::Pipe(path), None) => Box::new(BufReader::new(open_file(path)?)),
            (Self::Pipe(path), Some(stored)) => {
                Box::new(BufReader::new(StoredFile::new(open_file(path)?, stored)))
            }
        };
        let name = self.name();
        Ok(RecordReader::new(unpacked(content, &name)?, name))
    }

    fn name(&self) -> String {
        match self {
            Self::StandardInput => STANDARD_INPUT.to_owned(),
            Self::Pipe(path) => path.display().to_string(),
        }
    }
}

impl<B: Bucket> InputObject<B> {
    /// The input as a stream; `None` if it can be read again.
    #[must_use]
    pub fn stream(&self) -> Option<InputStream> {
        match self {
            Self::StandardInput => Some(InputStream::StandardInput),
            Self::File(path) => self.is_stream().then(|| InputStream::Pipe(path.clone())),
            Self::Object { .. } => None,
        }
    }
}
