//! Compressed files of items, a line each. The same items give the same bytes.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};

use afterwrite_model::record::{Item, read_item_line, write_item_line};
use afterwrite_model::{Error, ErrorKind, Result};
use afterwrite_services::Bucket;
use flate2::Compression;
use flate2::read::MultiGzDecoder;
use flate2::write::GzEncoder;

use crate::export::read_object;

/// Writes a file.
#[derive(Debug)]
pub(crate) struct ItemWriter {
    packed: GzEncoder<Vec<u8>>,
    line: Vec<u8>,
    items: u64,
    bytes: u64,
}

impl Default for ItemWriter {
    fn default() -> Self {
        Self { packed: GzEncoder::new(Vec::new(), Compression::fast()), line: Vec::new(), items: 0, bytes: 0 }
    }
}

impl ItemWriter {
    /// Adds an item.
    ///
    /// # Errors
    /// [`ErrorKind::State`], which does not happen: it is written to memory.
    pub(crate) fn push(&mut self, item: &Item) -> Result<()> {
        self.line.clear();
        write_item_line(&mut self.line, item);
        self.items += 1;
        self.bytes += u64::try_from(self.line.len()).unwrap_or(0);
        self.packed.write_all(&self.line).map_err(unpacked)
    }

    /// The number of items.
    #[must_use]
    pub(crate) fn items(&self) -> u64 {
        self.items
    }

    /// The uncompressed size.
    #[must_use]
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The compressed size so far, without what the compressor holds back.
    #[must_use]
    pub(crate) fn packed_bytes(&self) -> usize {
        self.packed.get_ref().len()
    }

    /// Completes the file.
    ///
    /// # Errors
    /// As [`ItemWriter::push`].
    pub(crate) fn finish(self) -> Result<Vec<u8>> {
        self.packed.finish().map_err(unpacked)
    }
}

/// Reads a file, and calls `visit` with each item.
///
/// # Errors
/// As [`Bucket::get`]; [`ErrorKind::State`] if the file is not one of these; the error of `visit`.
pub async fn visit_items(
    bucket: &impl Bucket,
    key: &str,
    mut visit: impl FnMut(Item) -> Result<()>,
) -> Result<()> {
    let packed = read_object(bucket, key).await?;
    let mut text = BufReader::new(MultiGzDecoder::new(packed.as_slice()));
    let mut line = Vec::new();
    loop {
        line.clear();
        let read = text.by_ref().read_until(b'\n', &mut line);
        if read.map_err(|error| unreadable(key).caused_by(error))? == 0 {
            return Ok(());
        }
        visit(read_item_line(line.trim_ascii_end(), |_| true).ok_or_else(|| unreadable(key))?)?;
    }
}

fn unreadable(key: &str) -> Error {
    Error::new(ErrorKind::State, "a file of the run cannot be read")
        .with("key", key)
        .hint("Start the backfill again with another --run folder")
}

fn unpacked(error: std::io::Error) -> Error {
    Error::new(ErrorKind::State, "items cannot be compressed").caused_by(error)
}
