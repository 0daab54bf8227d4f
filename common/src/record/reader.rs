//! A reader of JSON that is told what to expect: what is wanted is borrowed from the text, all else is passed over.
//!
//! What is passed over is held to JSON's grammar as strictly as what is wanted, so that a text that was read to its end is JSON.

use std::borrow::Cow;

use serde::de::IgnoredAny;

use super::layout::ShapeCache;

/// How deep objects and lists may lie in each other where they are read, not passed over: each takes room on the stack.
/// DynamoDB's items have 32 levels, of two objects each.
const MAX_LEVELS: u8 = 127;

/// The text is no JSON, or has another value there than the one that is wanted.
#[derive(Debug)]
pub(super) struct InvalidJson;

type JsonResult<T> = std::result::Result<T, InvalidJson>;

/// A JSON text, and how far it has been read.
pub(super) struct JsonReader<'a> {
    json: &'a str,
    at: usize,
    levels_left: u8,
    /// Whether the string that was passed last has escapes in it.
    is_escaped: bool,
}

impl<'a> JsonReader<'a> {
    /// Reads a whole text by `read`.
    pub(super) fn whole<T>(json: &'a str, read: impl FnOnce(&mut Self) -> JsonResult<T>) -> JsonResult<T> {
        let mut reader = Self { json, at: 0, levels_left: MAX_LEVELS, is_escaped: false };
        let value = read(&mut reader)?;
        match reader.peek() {
            None => Ok(value),
            Some(_) => Err(InvalidJson),
        }
    }

    /// Reads an object: `member` is told each name, and reads the value that follows.
    #[inline]
    pub(super) fn object(
        &mut self,
        mut member: impl FnMut(&mut Self, Cow<'a, str>) -> JsonResult<()>,
    ) -> JsonResult<()> {
        self.enter(b'{')?;
        let mut goes_on = !self.has(b'}');
        while goes_on {
            let name = self.name()?;
            let name = self.meant(name)?;
            member(self, name)?;
            goes_on = self.goes_on(b'}')?;
        }
        self.levels_left += 1;
        Ok(())
    }

    /// Reads an object as others of its kind were read: `member` is told what each name means, and the JSON that the last value of
    /// this name had, and reads the value that follows. What a name means is asked where the layout does not know it.
    #[inline]
    pub(super) fn object_like<M: Copy>(
        &mut self,
        layout: &mut ShapeCache<'a, M>,
        meaning: impl Fn(&str) -> M,
        mut member: impl FnMut(&mut Self, M, &'a str) -> JsonResult<()>,
    ) -> JsonResult<()> {
        self.enter(b'{')?;
        let mut goes_on = !self.has(b'}');
        let mut place = None;
        while goes_on {
            let start = self.start();
            let last;
            (place, last) = match layout.after(place) {
                Some((next, expected)) if self.passes(expected.name) => (Some(next), expected),
                Some(_) | None => {
                    let name = self.name()?;
                    let name = self.meant(name)?;
                    layout.learn(place, self.since(start)?, || meaning(&name))
                }
            };
            let start = self.start();
            member(self, last.meaning, last.value)?;
            layout.keep(place, self.since(start)?);
            goes_on = self.goes_on(b'}')?;
        }
        self.levels_left += 1;
        Ok(())
    }

    /// Reads a list: `member` reads each value.
    #[inline]
    pub(super) fn list(&mut self, mut member: impl FnMut(&mut Self) -> JsonResult<()>) -> JsonResult<()> {
        self.enter(b'[')?;
        let mut goes_on = !self.has(b']');
        while goes_on {
            member(self)?;
            goes_on = self.goes_on(b']')?;
        }
        self.levels_left += 1;
        Ok(())
    }

    /// Reads a string.
    #[inline]
    pub(super) fn text(&mut self) -> JsonResult<Cow<'a, str>> {
        let raw = self.string()?;
        self.meant(raw)
    }

    /// Reads a string; passes over any other value, and over a string whose escapes mean no text.
    pub(super) fn text_if_any(&mut self) -> JsonResult<Option<Cow<'a, str>>> {
        if self.peek() != Some(b'"') {
            return self.skip().map(|_| None);
        }
        let raw = self.string()?;
        Ok(self.meant(raw).ok())
    }

    /// Reads a boolean.
    pub(super) fn boolean(&mut self) -> JsonResult<bool> {
        let is_true = self.peek() == Some(b't');
        self.literal(if is_true { "true" } else { "false" })?;
        Ok(is_true)
    }

    /// Reads what `read` reads, or null.
    #[inline]
    pub(super) fn unless_null<T>(
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

    /// Where the next value begins.
    pub(super) fn start(&mut self) -> usize {
        self.peek();
        self.at
    }

    /// The JSON of the value that began there and has just been read.
    pub(super) fn since(&self, start: usize) -> JsonResult<&'a str> {
        self.json.get(start..self.at).ok_or(InvalidJson)
    }

    /// Passes over one value, however deep; its JSON.
    pub(super) fn skip(&mut self) -> JsonResult<&'a str> {
        let start = self.start();
        if self.tagged_text().is_some() {
            return self.since(start);
        }
        // What is open around the value, innermost last: 1 for an object, 0 for a list, after a 1 that stays.
        let mut open = 1_u128;
        loop {
            match self.peek() {
                Some(b'"') => {
                    self.string()?;
                }
                Some(b'{' | b'[') if open.leading_zeros() == 0 => self.skip_deep()?,
                Some(b'{') => {
                    self.at += 1;
                    if !self.has(b'}') {
                        open = open << 1 | 1;
                        self.name()?;
                        continue;
                    }
                }
                Some(b'[') => {
                    self.at += 1;
                    if !self.has(b']') {
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
                    return self.since(start);
                }
                let is_object = open & 1 == 1;
                if self.goes_on(if is_object { b'}' } else { b']' })? {
                    if is_object {
                        self.name()?;
                    }
                    break;
                }
                open >>= 1;
            }
        }
    }

    /// Reads what most values of attributes are: `{"S":"text"}`, or so of the types `N` and `B`, without white space or escapes. Its type and
    /// its text; `None` if it is something else, of which nothing is passed.
    #[inline]
    pub(super) fn tagged_text(&mut self) -> Option<(u8, &'a str)> {
        // The object is no level deeper than any may lie.
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

    /// Passes over one value that may well be the same as another, whole one: then it is passed at once.
    #[inline]
    pub(super) fn skip_like(&mut self, other: &str) -> JsonResult<()> {
        self.peek();
        // What begins with a value that ends by itself is that value; a number may go on.
        let ends_by_itself = matches!(other.as_bytes().last(), Some(b'"' | b'}' | b']'));
        if ends_by_itself && self.passes(other) { Ok(()) } else { self.skip().map(drop) }
    }

    /// Passes over one value deeper in others than any of DynamoDB's.
    #[cold]
    fn skip_deep(&mut self) -> JsonResult<()> {
        let rest = self.json.get(self.at..).ok_or(InvalidJson)?;
        let mut values = serde_json::Deserializer::from_str(rest).into_iter::<IgnoredAny>();
        let is_passed = matches!(values.next(), Some(Ok(_)));
        self.at += values.byte_offset();
        if is_passed { Ok(()) } else { Err(InvalidJson) }
    }

    /// The next byte that is no white space, to which it goes.
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

    /// Whether this byte is next; then it is passed.
    #[inline]
    fn has(&mut self, byte: u8) -> bool {
        let is_next = self.peek() == Some(byte);
        self.at += usize::from(is_next);
        is_next
    }

    #[inline]
    fn enter(&mut self, opening: u8) -> JsonResult<()> {
        self.levels_left = self.levels_left.checked_sub(1).ok_or(InvalidJson)?;
        if self.has(opening) { Ok(()) } else { Err(InvalidJson) }
    }

    /// After a member of an object or a list: whether there is another.
    #[inline]
    fn goes_on(&mut self, closing: u8) -> JsonResult<bool> {
        let next = self.peek();
        self.at += 1;
        match next {
            Some(b',') => Ok(true),
            Some(byte) if byte == closing => Ok(false),
            Some(_) | None => Err(InvalidJson),
        }
    }

    /// The name of a member as it stands between its quotes; passes over the colon after it.
    #[inline]
    fn name(&mut self) -> JsonResult<&'a str> {
        let rest = self.json.as_bytes().get(self.at..).unwrap_or_default();
        // The tags of DynamoDB's types, which are every other name, mostly have one letter.
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
        if self.has(b':') { Ok(()) } else { Err(InvalidJson) }
    }

    /// A string, as it stands between its quotes.
    #[inline]
    fn string(&mut self) -> JsonResult<&'a str> {
        if self.has(b'"') { self.until_quote() } else { Err(InvalidJson) }
    }

    /// The text that the string means which was passed last.
    #[inline]
    fn meant(&self, raw: &'a str) -> JsonResult<Cow<'a, str>> {
        if self.is_escaped { unescaped(raw) } else { Ok(Cow::Borrowed(raw)) }
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
        if self.passes(literal) { Ok(()) } else { Err(InvalidJson) }
    }

    /// Whether this text is next; then it is passed.
    #[inline]
    fn passes(&mut self, text: &str) -> bool {
        let rest = self.json.as_bytes().get(self.at..).unwrap_or_default();
        let is_next = rest.starts_with(text.as_bytes());
        if is_next {
            self.at += text.len();
        }
        is_next
    }

    fn number(&mut self) -> JsonResult<()> {
        self.one_of(b"-");
        if !self.one_of(b"0") {
            self.digits()?;
        }
        if self.one_of(b".") {
            self.digits()?;
        }
        if self.one_of(b"eE") {
            self.one_of(b"+-");
            self.digits()?;
        }
        Ok(())
    }

    fn one_of(&mut self, bytes: &[u8]) -> bool {
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

/// The text that a string with escapes means.
#[cold]
fn unescaped<'a>(raw: &str) -> JsonResult<Cow<'a, str>> {
    let json = ["\"", raw, "\""].concat();
    serde_json::from_str(&json).map(Cow::Owned).map_err(|_| InvalidJson)
}

/// How many bytes there are before the first that ends a string, escapes in it or may not stand in it.
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

/// Of eight bytes: marks the highest bit of the first that is a quote, a backslash or a control character; those after it may
/// be marked whatever they are.
#[inline]
fn special_bytes(bytes: u64) -> u64 {
    const fn each(byte: u8) -> u64 {
        u64::from_ne_bytes([byte; 8])
    }
    // A byte below what is subtracted borrows from its highest bit. With the second bit turned, a quote is a space and the
    // control characters stay below it.
    let quote_or_control = (bytes ^ each(b'"' ^ b' ')).wrapping_sub(each(b' ' + 1));
    let backslash = (bytes ^ each(b'\\')).wrapping_sub(each(1));
    (quote_or_control | backslash) & !bytes & each(0x80)
}

#[cfg(test)]
mod tests;
