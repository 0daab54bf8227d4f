//! A pull reader for JSON: the caller reads the values it needs, borrowed from the text, and skips all others.
//!
//! Skipped values are validated as strictly as values that are read, so a text that was read to its end is JSON. Tests
//! compare the reader with `serde_json`.

use std::borrow::Cow;

use serde::de::IgnoredAny;

use super::shape_cache::ShapeCache;

/// The maximum nesting of objects and lists that are read, because each level uses stack. Skipped values may be deeper.
/// DynamoDB's items have at most 32 levels of two objects each.
const MAX_LEVELS: u8 = 127;

/// Not valid JSON, or a value of an unexpected type.
#[derive(Debug)]
pub(super) struct InvalidJson;

pub(super) type JsonResult<T> = std::result::Result<T, InvalidJson>;

/// A JSON text and the position in it.
pub(super) struct JsonReader<'a> {
    json: &'a str,
    at: usize,
    levels_left: u8,
    /// Whether the last string has escapes.
    is_escaped: bool,
}

impl<'a> JsonReader<'a> {
    /// Reads a whole text.
    pub(super) fn read_all<T>(json: &'a str, read: impl FnOnce(&mut Self) -> JsonResult<T>) -> JsonResult<T> {
        let mut reader = Self { json, at: 0, levels_left: MAX_LEVELS, is_escaped: false };
        let value = read(&mut reader)?;
        match reader.peek() {
            None => Ok(value),
            Some(_) => Err(InvalidJson),
        }
    }

    /// Reads an object: `member` gets each name and reads the value.
    #[inline]
    pub(super) fn object(
        &mut self,
        mut member: impl FnMut(&mut Self, Cow<'a, str>) -> JsonResult<()>,
    ) -> JsonResult<()> {
        self.enter(b'{')?;
        let mut has_next = !self.accept(b'}');
        while has_next {
            let name = self.name()?;
            let name = self.unescape(name)?;
            member(self, name)?;
            has_next = self.has_next(b'}')?;
        }
        self.levels_left += 1;
        Ok(())
    }

    /// Reads an object of a known kind: `member` gets the meaning of each name and the JSON of the name's last value,
    /// and reads the value. `meaning` is called for names that the shape cache does not have.
    #[inline]
    pub(super) fn object_with_shape<M: Copy>(
        &mut self,
        shape: &mut ShapeCache<'a, M>,
        meaning: impl Fn(&str) -> M,
        mut member: impl FnMut(&mut Self, M, &'a str) -> JsonResult<()>,
    ) -> JsonResult<()> {
        self.enter(b'{')?;
        let mut has_next = !self.accept(b'}');
        let mut index = None;
        while has_next {
            let start = self.start();
            let last;
            (index, last) = match shape.expected_after(index) {
                Some((next, expected)) if self.accept_text(expected.name) => (Some(next), expected),
                Some(_) | None => {
                    let name = self.name()?;
                    let name = self.unescape(name)?;
                    shape.insert_after(index, self.text_since(start)?, || meaning(&name))
                }
            };
            let start = self.start();
            member(self, last.meaning, last.value)?;
            shape.set_value(index, self.text_since(start)?);
            has_next = self.has_next(b'}')?;
        }
        self.levels_left += 1;
        Ok(())
    }

    /// Reads a list: `member` reads each value.
    #[inline]
    pub(super) fn list(&mut self, mut member: impl FnMut(&mut Self) -> JsonResult<()>) -> JsonResult<()> {
        self.enter(b'[')?;
        let mut has_next = !self.accept(b']');
        while has_next {
            member(self)?;
            has_next = self.has_next(b']')?;
        }
        self.levels_left += 1;
        Ok(())
    }

    /// Reads a list into a vector.
    pub(super) fn collect_list<T>(
        &mut self,
        mut member: impl FnMut(&mut Self) -> JsonResult<T>,
    ) -> JsonResult<Vec<T>> {
        let mut members = Vec::new();
        self.list(|reader| {
            members.push(member(reader)?);
            Ok(())
        })?;
        Ok(members)
    }

    /// Reads a string.
    #[inline]
    pub(super) fn text(&mut self) -> JsonResult<Cow<'a, str>> {
        let raw = self.string()?;
        self.unescape(raw)
    }

    /// Reads a string; skips any other value, and a string with invalid escapes.
    pub(super) fn text_if_any(&mut self) -> JsonResult<Option<Cow<'a, str>>> {
        if self.peek() != Some(b'"') {
            return self.skip().map(|_| None);
        }
        let raw = self.string()?;
        Ok(self.unescape(raw).ok())
    }

    /// Reads a boolean.
    pub(super) fn boolean(&mut self) -> JsonResult<bool> {
        let is_true = self.peek() == Some(b't');
        self.literal(if is_true { "true" } else { "false" })?;
        Ok(is_true)
    }

    /// Reads null, or a value with `read`.
    #[inline]
    pub(super) fn nullable<T>(
        &mut self,
        read: impl FnOnce(&mut Self) -> JsonResult<T>,
    ) -> JsonResult<Option<T>> {
        match self.peek() {
            Some(b'n') => self.literal("null").map(|()| None),
            Some(_) | None => read(self).map(Some),
        }
    }

    /// Whether the next value is an object.
    pub(super) fn is_object(&mut self) -> bool {
        self.peek() == Some(b'{')
    }

    /// The position at which the next value begins.
    pub(super) fn start(&mut self) -> usize {
        self.peek();
        self.at
    }

    /// The JSON from `start` to the current position.
    pub(super) fn text_since(&self, start: usize) -> JsonResult<&'a str> {
        self.json.get(start..self.at).ok_or(InvalidJson)
    }

    /// Skips one value of any depth and returns its JSON.
    pub(super) fn skip(&mut self) -> JsonResult<&'a str> {
        let start = self.start();
        if self.tagged_text().is_some() {
            return self.text_since(start);
        }
        // The open objects (1) and lists (0) around the value, innermost last, after a leading 1 that remains.
        let mut open = 1_u128;
        loop {
            match self.peek() {
                Some(b'"') => {
                    self.string()?;
                }
                Some(b'{' | b'[') if open.leading_zeros() == 0 => self.skip_deep()?,
                Some(b'{') => {
                    self.at += 1;
                    if !self.accept(b'}') {
                        open = open << 1 | 1;
                        self.name()?;
                        continue;
                    }
                }
                Some(b'[') => {
                    self.at += 1;
                    if !self.accept(b']') {
                        open <<= 1;
                        continue;
                    }
                }
                Some(b't') => self.literal("true")?,
                Some(b'f') => self.literal("false")?,
                Some(b'n') => self.literal("null")?,
                Some(_) | None => self.number()?,
            }
            loop {
                if open == 1 {
                    return self.text_since(start);
                }
                let is_object = open & 1 == 1;
                if self.has_next(if is_object { b'}' } else { b']' })? {
                    if is_object {
                        self.name()?;
                    }
                    break;
                }
                open >>= 1;
            }
        }
    }

    /// Reads the most frequent attribute values: `{"S":"text"}`, and the same for `N` and `B`, without white space or
    /// escapes. Returns the type tag and the text; for every other value `None`, without moving.
    #[inline]
    pub(super) fn tagged_text(&mut self) -> Option<(u8, &'a str)> {
        // The object is a level of its own.
        if self.levels_left == 0 {
            return None;
        }
        let rest = self.json.as_bytes().get(self.at..)?;
        let Some((&[b'{', b'"', tag @ (b'S' | b'N' | b'B'), b'"', b':', b'"'], rest)) =
            rest.split_first_chunk()
        else {
            return None;
        };
        let start = self.at + 6;
        let end = start + plain_length(rest);
        let text = self.json.get(start..end)?;
        if self.json.as_bytes().get(end..)?.first_chunk() != Some(br#""}"#) {
            return None;
        }
        self.at = end + 2;
        Some((tag, text))
    }

    /// Skips one value that probably equals `expected`, the JSON of a whole value.
    #[inline]
    pub(super) fn skip_expecting(&mut self, expected: &str) -> JsonResult<()> {
        self.peek();
        // Text that begins with a delimited value is that value; a number could have more digits.
        let is_delimited = matches!(expected.as_bytes().last(), Some(b'"' | b'}' | b']'));
        if is_delimited && self.accept_text(expected) { Ok(()) } else { self.skip().map(drop) }
    }

    /// Skips one value that is nested deeper than any value of DynamoDB.
    #[cold]
    fn skip_deep(&mut self) -> JsonResult<()> {
        let rest = self.json.get(self.at..).ok_or(InvalidJson)?;
        let mut values = serde_json::Deserializer::from_str(rest).into_iter::<IgnoredAny>();
        let is_value = matches!(values.next(), Some(Ok(_)));
        self.at += values.byte_offset();
        if is_value { Ok(()) } else { Err(InvalidJson) }
    }

    /// Skips white space and returns the next byte.
    #[inline]
    fn peek(&mut self) -> Option<u8> {
        loop {
            match self.byte()? {
                b' ' | b'\n' | b'\t' | b'\r' => self.at += 1,
                byte => return Some(byte),
            }
        }
    }

    #[inline]
    fn byte(&self) -> Option<u8> {
        self.json.as_bytes().get(self.at).copied()
    }

    /// Skips this byte if it is next, and returns whether it was.
    #[inline]
    fn accept(&mut self, byte: u8) -> bool {
        let is_next = self.peek() == Some(byte);
        self.at += usize::from(is_next);
        is_next
    }

    #[inline]
    fn enter(&mut self, opening: u8) -> JsonResult<()> {
        self.levels_left = self.levels_left.checked_sub(1).ok_or(InvalidJson)?;
        if self.accept(opening) { Ok(()) } else { Err(InvalidJson) }
    }

    /// Whether another member of an object or list follows; skips the comma or the closing bracket.
    #[inline]
    fn has_next(&mut self, closing: u8) -> JsonResult<bool> {
        let next = self.peek();
        self.at += 1;
        match next {
            Some(b',') => Ok(true),
            Some(byte) if byte == closing => Ok(false),
            Some(_) | None => Err(InvalidJson),
        }
    }

    /// Reads the name of a member, with its escapes, and the colon.
    #[inline]
    fn name(&mut self) -> JsonResult<&'a str> {
        let rest = self.json.as_bytes().get(self.at..).unwrap_or_default();
        // Every other name is a type tag of DynamoDB, most of which have one letter.
        if let Some([b'"', b'A'..=b'Z', b'"', b':']) = rest.first_chunk() {
            let name = self.json.get(self.at + 1..self.at + 2).ok_or(InvalidJson)?;
            self.at += 4;
            self.is_escaped = false;
            return Ok(name);
        }
        let name = self.string()?;
        self.colon()?;
        Ok(name)
    }

    #[inline]
    fn colon(&mut self) -> JsonResult<()> {
        if self.accept(b':') { Ok(()) } else { Err(InvalidJson) }
    }

    /// Reads a string, with its escapes.
    #[inline]
    fn string(&mut self) -> JsonResult<&'a str> {
        if self.accept(b'"') { self.until_quote() } else { Err(InvalidJson) }
    }

    /// Decodes the escapes of the last string, `raw`.
    #[inline]
    fn unescape(&self, raw: &'a str) -> JsonResult<Cow<'a, str>> {
        if self.is_escaped { decode_escapes(raw) } else { Ok(Cow::Borrowed(raw)) }
    }

    fn until_quote(&mut self) -> JsonResult<&'a str> {
        let start = self.at;
        self.is_escaped = false;
        loop {
            self.at += plain_length(self.json.as_bytes().get(self.at..).unwrap_or_default());
            match self.byte() {
                Some(b'"') => break,
                Some(b'\\') => self.escape()?,
                Some(_) | None => return Err(InvalidJson),
            }
        }
        let raw = self.json.get(start..self.at).ok_or(InvalidJson)?;
        self.at += 1;
        Ok(raw)
    }

    #[cold]
    fn escape(&mut self) -> JsonResult<()> {
        let length = match self.json.as_bytes().get(self.at + 1..).ok_or(InvalidJson)? {
            [b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't', ..] => 2,
            [b'u', a, b, c, d, ..] if [a, b, c, d].iter().all(|digit| digit.is_ascii_hexdigit()) => 6,
            _ => return Err(InvalidJson),
        };
        self.at += length;
        self.is_escaped = true;
        Ok(())
    }

    fn literal(&mut self, literal: &str) -> JsonResult<()> {
        if self.accept_text(literal) { Ok(()) } else { Err(InvalidJson) }
    }

    /// Skips this text if it is next, and returns whether it was.
    #[inline]
    fn accept_text(&mut self, text: &str) -> bool {
        let rest = self.json.as_bytes().get(self.at..).unwrap_or_default();
        let is_next = rest.starts_with(text.as_bytes());
        if is_next {
            self.at += text.len();
        }
        is_next
    }

    fn number(&mut self) -> JsonResult<()> {
        self.accept_any(b"-");
        if !self.accept_any(b"0") {
            self.digits()?;
        }
        if self.accept_any(b".") {
            self.digits()?;
        }
        if self.accept_any(b"eE") {
            self.accept_any(b"+-");
            self.digits()?;
        }
        Ok(())
    }

    fn accept_any(&mut self, bytes: &[u8]) -> bool {
        let is_next = self.byte().is_some_and(|byte| bytes.contains(&byte));
        self.at += usize::from(is_next);
        is_next
    }

    fn digits(&mut self) -> JsonResult<()> {
        let start = self.at;
        while self.byte().is_some_and(|byte| byte.is_ascii_digit()) {
            self.at += 1;
        }
        if self.at > start { Ok(()) } else { Err(InvalidJson) }
    }
}

#[cold]
fn decode_escapes<'a>(raw: &str) -> JsonResult<Cow<'a, str>> {
    let json = ["\"", raw, "\""].concat();
    serde_json::from_str(&json).map(Cow::Owned).map_err(|_| InvalidJson)
}

/// The number of bytes before the first quote, backslash or control character.
#[inline]
fn plain_length(bytes: &[u8]) -> usize {
    let mut rest = bytes;
    while let Some((eight, after)) = rest.split_first_chunk() {
        let special = special_bytes(u64::from_le_bytes(*eight));
        if special != 0 {
            return bytes.len() - rest.len() + (special.trailing_zeros() / 8) as usize;
        }
        rest = after;
    }
    let is_special = |byte: &u8| matches!(byte, b'"' | b'\\' | ..b' ');
    bytes.len() - rest.len() + rest.iter().position(is_special).unwrap_or(rest.len())
}

/// Sets the highest bit of the first of eight bytes that is a quote, a backslash or a control character. The bits of
/// the bytes after it are undefined.
#[inline]
fn special_bytes(bytes: u64) -> u64 {
    const fn each(byte: u8) -> u64 {
        u64::from_ne_bytes([byte; 8])
    }
    // A byte less than the subtrahend borrows from its highest bit. With the second bit flipped, a quote becomes a
    // space, and control characters remain less than a space.
    let quote_or_control = (bytes ^ each(b'"' ^ b' ')).wrapping_sub(each(b' ' + 1));
    let backslash = (bytes ^ each(b'\\')).wrapping_sub(each(1));
    (quote_or_control | backslash) & !bytes & each(0x80)
}

#[cfg(test)]
mod tests;
