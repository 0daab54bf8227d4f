//! An archive object as it arrives → blocks of whole lines.

use std::io::Write as _;
use std::iter::once;

use afterwrite::{Error, ErrorKind, Result};
use flate2::write::MultiGzDecoder;
use memchr::{memchr_iter, memrchr};

/// How much text is handed on at once: what a processor's own cache holds beside all that is made of it.
const BLOCK_BYTES: usize = 512 * 1024;

/// A line that is longer is none: DynamoDB's items have at most 400 KB, and a line holds two images in JSON.
const LONGEST_LINE: usize = 16 * 1024 * 1024;

/// Unpacks an object chunk by chunk.
pub(super) struct Lines {
    unpacked: MultiGzDecoder<Vec<u8>>,
    /// How much of it has been handed on.
    taken: usize,
    begun: bool,
}

impl Lines {
    pub(super) fn new() -> Self {
        Self { unpacked: MultiGzDecoder::new(Vec::new()), taken: 0, begun: false }
    }

    /// Takes the next chunk; the lines that are whole by now, once they are enough to be worth handing on.
    ///
    /// # Errors
    /// [`ErrorKind::Rejected`] if the object is not gzip, is damaged, or holds no lines.
    pub(super) fn push(&mut self, chunk: &[u8]) -> Result<Option<&[u8]>> {
        self.begun |= !chunk.is_empty();
        self.unpacked.get_mut().drain(..std::mem::take(&mut self.taken));
        self.unpacked.write_all(chunk).map_err(damaged)?;
        let text = self.unpacked.get_ref();
        if text.len() < BLOCK_BYTES {
            return Ok(None);
        }
        let Some(last) = memrchr(b'\n', text) else {
            if text.len() > LONGEST_LINE {
                return Err(Error::new(
                    ErrorKind::Rejected,
                    "an archive object has a line of more than 16 MiB",
                )
                .remedy("It is not one of the archive's; move it elsewhere"));
            }
            return Ok(None);
        };
        self.taken = last + 1;
        Ok(text.get(..self.taken))
    }

    /// The lines that are left.
    ///
    /// # Errors
    /// [`ErrorKind::Rejected`] if the object ends too early.
    pub(super) fn finish(mut self) -> Result<Vec<u8>> {
        self.unpacked.get_mut().drain(..self.taken);
        // An object of no bytes is no gzip either, but nothing is missing of it.
        if self.begun { self.unpacked.finish().map_err(damaged) } else { Ok(Vec::new()) }
    }
}

/// The lines of a block, and what follows its last line feed: mostly nothing.
pub(super) fn lines(block: &[u8]) -> impl Iterator<Item = &[u8]> {
    let ends = memchr_iter(b'\n', block).chain(once(block.len()));
    ends.scan(0, |begin, end| block.get(std::mem::replace(begin, end + 1)..end))
}

fn damaged(error: std::io::Error) -> Error {
    Error::new(
        ErrorKind::Rejected,
        "an archive object is not gzip, or is damaged or cut off; nothing of it was exported",
    )
    .remedy("Write the object again, or replay its hour from another copy")
    .caused_by(error)
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;

    fn gzip(text: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(text).unwrap();
        encoder.finish().unwrap()
    }

    /// Everything that comes out of an object that arrives in chunks of this size.
    fn unpacked(object: &[u8], chunk: usize) -> Result<Vec<u8>> {
        let mut lines = Lines::new();
        let mut all = Vec::new();
        for chunk in object.chunks(chunk) {
            if let Some(block) = lines.push(chunk)? {
                assert_eq!(block.last(), Some(&b'\n'), "a block ends with a line");
                all.extend(block);
            }
        }
        all.extend(lines.finish()?);
        Ok(all)
    }

    #[test]
    fn an_object_comes_out_as_it_went_in_whatever_its_chunks_and_parts() {
        let text: Vec<u8> =
            (0..200_000).flat_map(|line| format!("{{\"line\":{line}}}\n").into_bytes()).collect();
        let (first, second) = text.split_at(1_234_567);
        let object = [gzip(first), gzip(second)].concat();
        for chunk in [1_000, 65_536, object.len()] {
            assert_eq!(unpacked(&object, chunk).unwrap(), text);
        }
        assert_eq!(unpacked(&[], 1).unwrap(), b"");
        assert_eq!(unpacked(&gzip(b""), 100).unwrap(), b"");
        assert_eq!(unpacked(&gzip(b"no line feed"), 5).unwrap(), b"no line feed");
    }

    #[test]
    fn a_damaged_object_is_refused_wherever_it_is_cut() {
        let object = gzip(b"{\"a\":1}\n{\"a\":2}\n");
        for length in 1..object.len() {
            let error = unpacked(&object[..length], 7).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Rejected, "cut to {length} bytes");
        }
        assert_eq!(unpacked(b"{\"a\":1}\n", 100).unwrap_err().kind(), ErrorKind::Rejected);
    }
}
