//! An archive object as it arrives → blocks of whole lines.

use std::io::{self, BufRead, Read};
use std::iter::once;

use afterwrite::{Error, ErrorKind, Result};
use bytes::Bytes;
use flate2::bufread::MultiGzDecoder;
use memchr::{memchr_iter, memrchr};

/// How much text is handed on at once: what a processor's own cache holds beside all that is made of it.
const BLOCK_BYTES: usize = 512 * 1024;

/// A line that is longer is none: DynamoDB's items have at most 400 KB, and a line holds two images in JSON.
const LONGEST_LINE: usize = 16 * 1024 * 1024;

/// Unpacks an object chunk by chunk.
pub(super) struct Lines {
    unpacked: MultiGzDecoder<Arrived>,
    /// Room for a block, or for a line if that is longer. It has been filled up to `filled`, and what is before `taken` has been handed on.
    text: Vec<u8>,
    filled: usize,
    taken: usize,
}

/// The part of an object that has arrived and is not unpacked yet.
#[derive(Default)]
struct Arrived {
    chunk: Bytes,
    is_last: bool,
    /// Whether there was anything.
    has_begun: bool,
}

impl BufRead for Arrived {
    /// Empty at the end of the object; until then, what is not there yet "would block".
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        let is_there = self.is_last || !self.chunk.is_empty();
        if is_there { Ok(&self.chunk) } else { Err(io::ErrorKind::WouldBlock.into()) }
    }

    fn consume(&mut self, bytes: usize) {
        drop(self.chunk.split_to(bytes));
    }
}

impl Read for Arrived {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let bytes = self.fill_buf()?.read(into)?;
        self.consume(bytes);
        Ok(bytes)
    }
}

impl Lines {
    pub(super) fn new() -> Self {
        let unpacked = MultiGzDecoder::new(Arrived::default());
        Self { unpacked, text: vec![0; BLOCK_BYTES], filled: 0, taken: 0 }
    }

    /// Takes the next chunk, or that there is no other. What came before must have been handed on.
    pub(super) fn push(&mut self, chunk: Option<Bytes>) {
        let arrived = self.unpacked.get_mut();
        debug_assert!(arrived.chunk.is_empty(), "a chunk is unpacked before the next one comes");
        arrived.is_last = chunk.is_none();
        arrived.chunk = chunk.unwrap_or_default();
        arrived.has_begun |= !arrived.chunk.is_empty();
    }

    /// The next block of whole lines, of what has arrived; at the end of the object what is left, which may end without a line feed.
    ///
    /// # Errors
    /// [`ErrorKind::Rejected`] if the object is not gzip, is damaged or cut off, or holds no lines.
    pub(super) fn next_block(&mut self) -> Result<Option<&[u8]>> {
        self.let_go();
        // An object of no bytes is no gzip either, but nothing is missing of it.
        if !self.unpacked.get_ref().has_begun {
            return Ok(None);
        }
        loop {
            if self.filled == self.text.len() {
                if let Some(last) = memrchr(b'\n', &self.text) {
                    self.taken = last + 1;
                    break;
                }
                if self.filled >= LONGEST_LINE {
                    return Err(Error::new(
                        ErrorKind::Rejected,
                        "an archive object has a line of more than 16 MiB",
                    )
                    .hint("It is not one of the archive's; move it elsewhere"));
                }
                self.text.resize((2 * self.filled).min(LONGEST_LINE), 0);
            }
            match self.unpacked.read(self.text.get_mut(self.filled..).unwrap_or_default()) {
                Ok(0) => {
                    self.taken = self.filled;
                    break;
                }
                Ok(bytes) => self.filled += bytes,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
                Err(error) => return Err(damaged(error)),
            }
        }
        Ok(self.text.get(..self.taken).filter(|block| !block.is_empty()))
    }

    /// Lets go of the block that was handed on; after one of a long line the next is of its size again.
    fn let_go(&mut self) {
        let taken = std::mem::take(&mut self.taken);
        if taken > 0 {
            self.text.copy_within(taken..self.filled, 0);
            self.filled -= taken;
            self.text.truncate(self.filled.max(BLOCK_BYTES));
        }
    }
}

/// The lines of a block, and what follows its last line feed: mostly nothing.
pub(super) fn lines(block: &[u8]) -> impl Iterator<Item = &[u8]> {
    let ends = memchr_iter(b'\n', block).chain(once(block.len()));
    ends.scan(0, |begin, end| block.get(std::mem::replace(begin, end + 1)..end))
}

fn damaged(error: io::Error) -> Error {
    Error::new(
        ErrorKind::Rejected,
        "an archive object is not gzip, or is damaged or cut off; nothing of it was exported",
    )
    .hint("Write the object again, or replay its hour from another copy")
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

    /// Everything that comes out of an object that arrives in chunks of this size, with empty ones between them.
    fn unpacked(bytes: &[u8], chunk: usize) -> Result<Vec<u8>> {
        let mut object = Lines::new();
        let mut all = Vec::new();
        let chunks = bytes.chunks(chunk).flat_map(|chunk| [Some(chunk), Some(&[])]);
        for chunk in chunks.chain([None]) {
            object.push(chunk.map(Bytes::copy_from_slice));
            while let Some(block) = object.next_block()? {
                assert!(chunk.is_none() || block.last() == Some(&b'\n'), "a block ends with a line");
                let has_long_line = lines(block).any(|line| line.len() >= BLOCK_BYTES);
                assert!(block.len() <= BLOCK_BYTES || has_long_line);
                all.extend(block);
            }
        }
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
    fn parts_may_be_cut_anywhere_on_their_way() {
        let mut named = flate2::GzBuilder::new().filename("a name").comment("b").extra([1, 2, 3]);
        let mut named = std::mem::take(&mut named).write(Vec::new(), Compression::default());
        named.write_all(b"one\ntwo").unwrap();
        let object = [named.finish().unwrap(), gzip(b""), gzip(b" three\n")].concat();
        for chunk in 1..=object.len() {
            assert_eq!(unpacked(&object, chunk).unwrap(), b"one\ntwo three\n", "in chunks of {chunk}");
        }
    }

    #[test]
    fn a_long_line_is_one_and_one_that_is_too_long_is_none() {
        let long =
            |bytes: usize| [b"short\n", &*vec![b'x'; bytes], b"\n", &*b"short\n".repeat(200_000)].concat();
        let text = long(3 * BLOCK_BYTES);
        for chunk in [100, 10_000] {
            assert_eq!(unpacked(&gzip(&text), chunk).unwrap(), text);
        }
        let error = unpacked(&gzip(&long(LONGEST_LINE)), 1_000).unwrap_err();
        assert!(error.to_string().contains("16 MiB"), "{error}");
    }

    #[test]
    fn what_follows_the_last_part_and_a_wrong_checksum_are_refused() {
        let object = gzip(b"{}\n");
        let mut wrong = object.clone();
        let checksum = wrong.len() - 8;
        wrong[checksum] ^= 1;
        for object in [wrong, [&*object, &[0; 16]].concat()] {
            assert_eq!(unpacked(&object, 5).unwrap_err().kind(), ErrorKind::Rejected);
        }
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
