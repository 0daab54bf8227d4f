//! The chunks of an archive object → blocks of whole lines. An object is compressed with gzip, or is text: a delivery stream may be set to
//! either.

use std::io::{self, BufRead, Read};
use std::iter::once;

use afterwrite_model::{Error, ErrorKind, Result};
use bytes::Bytes;
use flate2::bufread::MultiGzDecoder;
use memchr::{memchr_iter, memrchr};

/// The size of a block: it fits into a processor's own cache together with what is made of it.
const BLOCK_BYTES: usize = 512 * 1024;

/// The maximum length of a line. A DynamoDB item has at most 400 KB, and a line has two images in JSON.
const MAX_LINE_BYTES: usize = 16 * 1024 * 1024;

/// The first byte of gzip. No JSON begins with it.
const GZIP: u8 = 0x1f;

/// How many bytes show whether an object is text.
const SHOWN_BYTES: usize = 512;

/// Decompresses an object chunk by chunk.
pub(super) struct LineBlocks {
    content: Content,
    /// A buffer for one block, or for one line if that is longer. It is filled up to `filled`; the text before `returned` is the
    /// last block.
    text: Vec<u8>,
    filled: usize,
    returned: usize,
}

/// The bytes of an object, as they are to be read.
enum Content {
    /// Too few bytes have arrived to tell.
    Unknown(ArrivedChunk),
    Gzip(Box<MultiGzDecoder<ArrivedChunk>>),
    Text(ArrivedChunk),
}

/// The part of an object that has arrived and is not decompressed yet.
#[derive(Default)]
struct ArrivedChunk {
    chunk: Bytes,
    is_last: bool,
}

impl Content {
    fn arrived(&mut self) -> &mut ArrivedChunk {
        match self {
            Self::Unknown(arrived) | Self::Text(arrived) => arrived,
            Self::Gzip(decoder) => decoder.get_mut(),
        }
    }

    /// Decides how the object is read, as soon as enough has arrived.
    fn identify(&mut self) -> Result<()> {
        let Self::Unknown(arrived) = self else { return Ok(()) };
        let is_gzip = arrived.chunk.first() == Some(&GZIP);
        if !is_gzip && !arrived.is_last && arrived.chunk.len() < SHOWN_BYTES {
            return Ok(());
        }
        if !is_gzip && !is_text(&arrived.chunk) {
            return Err(not_lines());
        }
        let arrived = std::mem::take(arrived);
        *self =
            if is_gzip { Self::Gzip(Box::new(MultiGzDecoder::new(arrived))) } else { Self::Text(arrived) };
        Ok(())
    }

    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Unknown(_) => Err(io::ErrorKind::WouldBlock.into()),
            Self::Gzip(decoder) => decoder.read(into),
            Self::Text(arrived) => arrived.read(into),
        }
    }
}

/// Whether an object that begins like this can be JSON lines: UTF-8 without control characters. Other compressions and formats have them.
fn is_text(object: &[u8]) -> bool {
    let shown = object.get(..SHOWN_BYTES).unwrap_or(object);
    let is_utf8 = match std::str::from_utf8(shown) {
        Ok(_) => true,
        // The last character may be cut.
        Err(error) => error.error_len().is_none(),
    };
    is_utf8 && !shown.iter().any(|byte| byte.is_ascii_control() && !byte.is_ascii_whitespace())
}

impl BufRead for ArrivedChunk {
    /// Empty at the end of the object; `WouldBlock` while more is to arrive.
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        let is_ready = self.is_last || !self.chunk.is_empty();
        if is_ready { Ok(&self.chunk) } else { Err(io::ErrorKind::WouldBlock.into()) }
    }

    fn consume(&mut self, bytes: usize) {
        drop(self.chunk.split_to(bytes));
    }
}

impl Read for ArrivedChunk {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let bytes = self.fill_buf()?.read(into)?;
        self.consume(bytes);
        Ok(bytes)
    }
}

impl LineBlocks {
    pub(super) fn new() -> Self {
        let content = Content::Unknown(ArrivedChunk::default());
        Self { content, text: vec![0; BLOCK_BYTES], filled: 0, returned: 0 }
    }

    /// Takes the next chunk, or `None` at the end of the object. All blocks of the chunk before must have been returned.
    pub(super) fn push(&mut self, chunk: Option<Bytes>) {
        let arrived = self.content.arrived();
        arrived.is_last = chunk.is_none();
        let chunk = chunk.unwrap_or_default();
        // Before the first bytes are identified, they are kept.
        arrived.chunk =
            if arrived.chunk.is_empty() { chunk } else { [&*arrived.chunk, &*chunk].concat().into() };
    }

    /// The next block of whole lines that have arrived; at the end of the object the rest, which may end without a line feed.
    ///
    /// # Errors
    /// [`ErrorKind::Rejected`] if the object is neither gzip nor text, is damaged or truncated, or has a line that is too long.
    pub(super) fn next_block(&mut self) -> Result<Option<&[u8]>> {
        self.discard_returned();
        self.content.identify()?;
        loop {
            if self.filled == self.text.len() {
                if let Some(last) = memrchr(b'\n', &self.text) {
                    self.returned = last + 1;
                    break;
                }
                if self.filled >= MAX_LINE_BYTES {
                    return Err(Error::new(
                        ErrorKind::Rejected,
                        "an archive object has a line of more than 16 MiB",
                    )
                    .hint("It is not an object of the archive; move it elsewhere"));
                }
                self.text.resize((2 * self.filled).min(MAX_LINE_BYTES), 0);
            }
            match self.content.read(self.text.get_mut(self.filled..).unwrap_or_default()) {
                Ok(0) => {
                    self.returned = self.filled;
                    break;
                }
                Ok(bytes) => self.filled += bytes,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
                Err(error) => return Err(damaged(error)),
            }
        }
        Ok(self.text.get(..self.returned).filter(|block| !block.is_empty()))
    }

    /// Discards the last block, and with it the space for a long line.
    fn discard_returned(&mut self) {
        let returned = std::mem::take(&mut self.returned);
        if returned > 0 {
            self.text.copy_within(returned..self.filled, 0);
            self.filled -= returned;
            self.text.truncate(self.filled.max(BLOCK_BYTES));
        }
    }
}

/// The lines of a block, and the text after its last line feed, which is usually empty.
pub(super) fn lines(block: &[u8]) -> impl Iterator<Item = &[u8]> {
    let ends = memchr_iter(b'\n', block).chain(once(block.len()));
    ends.scan(0, |begin, end| block.get(std::mem::replace(begin, end + 1)..end))
}

fn damaged(error: io::Error) -> Error {
    Error::new(
        ErrorKind::Rejected,
        "an archive object is damaged or truncated: its gzip cannot be read to its end; nothing of it was exported",
    )
    .hint("Write the object again, or replay its hour from another copy")
    .caused_by(error)
}

fn not_lines() -> Error {
    Error::new(
        ErrorKind::Rejected,
        "an archive object is neither gzip nor JSON lines; nothing of it was exported",
    )
    .hint("Set the compression of the delivery stream to GZIP or to none, without a conversion of the format, and write the object again")
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

    /// The text of an object that arrives in chunks of this size, with empty chunks between them.
    fn decompressed(bytes: &[u8], chunk: usize) -> Result<Vec<u8>> {
        let mut object = LineBlocks::new();
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
    fn the_text_is_the_same_whatever_the_chunks_and_gzip_members() {
        let text: Vec<u8> =
            (0..200_000).flat_map(|line| format!("{{\"line\":{line}}}\n").into_bytes()).collect();
        let (first, second) = text.split_at(1_234_567);
        let object = [gzip(first), gzip(second)].concat();
        for chunk in [1_000, 65_536, object.len()] {
            assert_eq!(decompressed(&object, chunk).unwrap(), text);
        }
        assert_eq!(decompressed(&[], 1).unwrap(), b"");
        assert_eq!(decompressed(&gzip(b""), 100).unwrap(), b"");
        assert_eq!(decompressed(&gzip(b"no line feed"), 5).unwrap(), b"no line feed");
    }

    #[test]
    fn gzip_members_may_be_cut_anywhere() {
        let mut named = flate2::GzBuilder::new().filename("a name").comment("b").extra([1, 2, 3]);
        let mut named = std::mem::take(&mut named).write(Vec::new(), Compression::default());
        named.write_all(b"one\ntwo").unwrap();
        let object = [named.finish().unwrap(), gzip(b""), gzip(b" three\n")].concat();
        for chunk in 1..=object.len() {
            assert_eq!(decompressed(&object, chunk).unwrap(), b"one\ntwo three\n", "in chunks of {chunk}");
        }
    }

    #[test]
    fn a_long_line_is_one_block_and_a_too_long_line_is_an_error() {
        let long =
            |bytes: usize| [b"short\n", &*vec![b'x'; bytes], b"\n", &*b"short\n".repeat(200_000)].concat();
        let text = long(3 * BLOCK_BYTES);
        for chunk in [100, 10_000] {
            assert_eq!(decompressed(&gzip(&text), chunk).unwrap(), text);
        }
        let error = decompressed(&gzip(&long(MAX_LINE_BYTES)), 1_000).unwrap_err();
        assert!(error.to_string().contains("16 MiB"), "{error}");
    }

    #[test]
    fn trailing_bytes_and_a_wrong_checksum_are_refused() {
        let object = gzip(b"{}\n");
        let mut wrong = object.clone();
        let checksum = wrong.len() - 8;
        wrong[checksum] ^= 1;
        for object in [wrong, [&*object, &[0; 16]].concat()] {
            assert_eq!(decompressed(&object, 5).unwrap_err().kind(), ErrorKind::Rejected);
        }
    }

    #[test]
    fn a_truncated_object_is_refused_wherever_it_is_cut() {
        let object = gzip(b"{\"a\":1}\n{\"a\":2}\n");
        for length in 1..object.len() {
            let error = decompressed(&object[..length], 7).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Rejected, "cut to {length} bytes");
        }
    }

    #[test]
    fn an_object_that_is_not_compressed_is_read_whatever_the_chunks() {
        let text: Vec<u8> =
            (0..200_000).flat_map(|line| format!("{{\"größe\":{line}}}\n").into_bytes()).collect();
        for chunk in [1_000, 65_536, text.len()] {
            assert_eq!(decompressed(&text, chunk).unwrap(), text);
        }
        for short in ["{\"a\":1}\n", "{\"a\":1}", "\r\n{}\n", "é"] {
            assert_eq!(decompressed(short.as_bytes(), 1).unwrap(), short.as_bytes());
        }
        // A character is cut where the check ends.
        let cut = [&*vec![b'x'; SHOWN_BYTES - 1], "é\n".as_bytes()].concat();
        assert_eq!(decompressed(&cut, cut.len()).unwrap(), cut);
    }

    #[test]
    fn other_compressions_and_formats_are_refused_as_a_whole() {
        let zip: &[u8] = b"PK\x03\x04\x14\0\0\0";
        let zstd: &[u8] = &[0x28, 0xb5, 0x2f, 0xfd, 0x24];
        let snappy: &[u8] = &[0xff, 0x06, 0x00, 0x00, b's', b'N', b'a', b'P', b'p', b'Y'];
        for object in [zip, zstd, snappy, b"PAR1\x15\x04", b"BZh91AY&SY\0", b"\xe9\n", b"\0"] {
            for chunk in [1, object.len()] {
                let error = decompressed(object, chunk).unwrap_err();
                assert!(error.to_string().contains("neither gzip nor JSON lines"), "{error}");
            }
        }
    }
}
