//! DynamoDB JSON (`{"S": "text"}`, `{"N": "1"}`, …) → attribute values, keys and images.
//!
//! One pass over an event's bytes reads what is wanted and skips the rest. What is wrong with a record is noted in the
//! [`DecodeContext`] and reported from there, because an error must not hold an item's contents.

use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::change::NamedValue;
use super::layout::ShapeCache;
use super::reader::{InvalidJson, JsonReader};
use super::{AttributeId, AttributeInterner, AttributeValue, Decimal, Image, OldImage, PrimaryKey};
use crate::{Error, ErrorKind, Result};

type DecodeResult<T> = Result<T, InvalidJson>;

/// What decoding needs to know, and what it found wrong.
pub(super) struct DecodeContext<'v> {
    pub(super) vocabulary: &'v AttributeInterner,
    fault: RefCell<DecodeFault>,
}

/// The first, innermost fault.
#[derive(Default)]
struct DecodeFault {
    what: Option<&'static str>,
    place: Option<String>,
}

impl<'v> DecodeContext<'v> {
    pub(super) fn new(vocabulary: &'v AttributeInterner) -> Self {
        Self { vocabulary, fault: RefCell::default() }
    }

    /// Notes what is wrong; the result only stops the reader.
    #[cold]
    pub(super) fn wrong(&self, what: &'static str) -> InvalidJson {
        self.fault.borrow_mut().what.get_or_insert(what);
        InvalidJson
    }

    /// Notes the field or attribute in which something is wrong, if something is.
    #[inline]
    pub(super) fn within<T>(&self, place: &str, result: DecodeResult<T>) -> DecodeResult<T> {
        result.inspect_err(|_| self.note_place(place))
    }

    #[cold]
    fn note_place(&self, place: &str) {
        self.fault.borrow_mut().place.get_or_insert_with(|| place.to_owned());
    }

    /// What was found wrong, as the record's error.
    pub(super) fn into_error(self) -> Error {
        let DecodeFault { what, place } = self.fault.into_inner();
        let what = what.unwrap_or("a value has a type that DynamoDB's JSON does not have there");
        let error = Error::new(ErrorKind::Record, format!("a change record is malformed: {what}"));
        match place {
            Some(place) => error.with("in", place),
            None => error,
        }
    }
}

/// Reads an image on its own.
pub(super) fn image<'a>(json: &'a str, vocabulary: &AttributeInterner) -> Result<Image<'a>> {
    let context = DecodeContext::new(vocabulary);
    JsonReader::whole(json, |reader| context.image(reader, &mut ShapeCache::unknown()))
        .map_err(|_| context.into_error())
}

/// What the name of an attribute means to a vocabulary.
#[derive(Clone, Copy)]
pub(super) struct KnownAttribute {
    /// Its id, if it is read of new images; of old images.
    new: Option<AttributeId>,
    old: Option<AttributeId>,
}

impl DecodeContext<'_> {
    /// An image: the attributes of the vocabulary are read, all others are skipped.
    pub(super) fn image<'a>(
        &self,
        reader: &mut JsonReader<'a>,
        layout: &mut ShapeCache<'a, KnownAttribute>,
    ) -> DecodeResult<Image<'a>> {
        let (mut image, mut seen) = (Image::with_room_for(self.vocabulary), 0);
        reader.object_like(
            layout,
            |name| self.attribute(name),
            |reader, attribute, _| match attribute.new {
                Some(id) => self.member(reader, id, &mut image, &mut seen),
                None => reader.skip().map(drop),
            },
        )?;
        Ok(image)
    }

    /// An old image: passed over, but for what the vocabulary says is glimpsed. Most of it is as it is in the new one.
    pub(super) fn old_image<'a>(
        &self,
        reader: &mut JsonReader<'a>,
        layout: &mut ShapeCache<'a, KnownAttribute>,
    ) -> DecodeResult<OldImage<'a>> {
        let start = reader.start();
        let mut glimpse = None;
        if reader.is_object() {
            let (mut image, mut seen) = (self.vocabulary.glimpsed().map(Image::with_room_for), 0);
            reader.object_like(
                layout,
                |name| self.attribute(name),
                |reader, attribute, new| match (attribute.old, &mut image) {
                    (Some(id), Some(image)) => self.member(reader, id, image, &mut seen),
                    _ => reader.skip_like(new),
                },
            )?;
            glimpse = image;
        } else {
            reader.skip()?;
        }
        let old = OldImage::from_json(reader.since(start)?, glimpse);
        old.ok_or_else(|| self.wrong("OldImage must be a map"))
    }

    fn attribute(&self, name: &str) -> KnownAttribute {
        let new = self.vocabulary.id(name);
        // What is glimpsed is of the same vocabulary.
        let old = new.and(self.vocabulary.glimpsed()).and_then(|glimpsed| glimpsed.id(name));
        KnownAttribute { new, old }
    }

    /// One attribute of an image, by its name's id.
    #[inline]
    fn member<'a>(
        &self,
        reader: &mut JsonReader<'a>,
        id: AttributeId,
        image: &mut Image<'a>,
        seen: &mut u64,
    ) -> DecodeResult<()> {
        let value = self.value(reader);
        let value = self.within(self.vocabulary.name(id), value)?;
        // Hardly ever given before.
        if *seen & id.bit() == 0 {
            image.add(id, value)
        } else {
            image.set(id, value)
        }
        *seen |= id.bit();
        Ok(())
    }

    /// The `PrimaryKey` of a record.
    pub(super) fn keys<'a>(&self, reader: &mut JsonReader<'a>) -> DecodeResult<PrimaryKey<'a>> {
        let (mut first, mut second): (Option<NamedValue<'a>>, Option<NamedValue<'a>>) = (None, None);
        reader.object(|reader, name| {
            let value = self.within(&name, self.value(reader))?;
            if !matches!(value, AttributeValue::S(_) | AttributeValue::N(_) | AttributeValue::B(_)) {
                return self.within(&name, Err(self.wrong("a key attribute must be of type S, N or B")));
            }
            // A name that is given twice counts as it was given last.
            let place = match &first {
                Some((held, _)) if *held != name => &mut second,
                Some(_) | None => &mut first,
            };
            if place.as_ref().is_some_and(|(held, _)| *held != name) {
                return Err(self.wrong("a primary key has at most two attributes"));
            }
            *place = Some((name, value));
            Ok(())
        })?;
        match first {
            Some(first) => Ok(PrimaryKey::new(first, second)),
            None => Err(self.wrong("Keys is empty")),
        }
    }

    /// One attribute value.
    #[inline]
    fn value<'a>(&self, reader: &mut JsonReader<'a>) -> DecodeResult<AttributeValue<'a>> {
        // Nearly all are texts and numbers.
        match reader.tagged_text() {
            Some((b'N', text)) => Ok(AttributeValue::N(self.number(text)?)),
            Some((b'B', text)) => Ok(AttributeValue::B(self.bytes(text)?)),
            Some((_, text)) => Ok(AttributeValue::S(Cow::Borrowed(text))),
            None => self.any_value(reader),
        }
    }

    fn any_value<'a>(&self, reader: &mut JsonReader<'a>) -> DecodeResult<AttributeValue<'a>> {
        let mut last: Option<AttributeValue<'a>> = None;
        reader.object(|reader, tag| {
            let value = self.tagged(&tag, reader)?;
            if last.as_ref().is_some_and(|earlier| !value.is_of_type(earlier.type_name())) {
                return Err(self.wrong("an attribute value must have one type"));
            }
            last = Some(value);
            Ok(())
        })?;
        last.ok_or_else(|| self.wrong("an attribute value must have a type"))
    }

    /// What an attribute value holds, by the tag of its type.
    fn tagged<'a>(&self, tag: &str, reader: &mut JsonReader<'a>) -> DecodeResult<AttributeValue<'a>> {
        Ok(match tag {
            "S" => AttributeValue::S(reader.text()?),
            "N" => AttributeValue::N(self.number(&reader.text()?)?),
            "B" => AttributeValue::B(self.bytes(&reader.text()?)?),
            "BOOL" => AttributeValue::Bool(reader.boolean()?),
            "NULL" => match reader.boolean()? {
                true => AttributeValue::Null,
                false => return Err(self.wrong("NULL must be true")),
            },
            "M" => AttributeValue::M(self.members(reader)?),
            "L" => AttributeValue::L(list(reader, |reader| self.value(reader))?),
            "SS" => AttributeValue::Ss(list(reader, JsonReader::text)?),
            "NS" => AttributeValue::Ns(list(reader, |reader| self.number(&reader.text()?))?),
            "BS" => AttributeValue::Bs(list(reader, |reader| self.bytes(&reader.text()?))?),
            _ => return Err(self.wrong("an attribute value has an unknown type")),
        })
    }

    fn members<'a>(
        &self,
        reader: &mut JsonReader<'a>,
    ) -> DecodeResult<BTreeMap<Cow<'a, str>, AttributeValue<'a>>> {
        let mut members = BTreeMap::new();
        reader.object(|reader, name| {
            members.insert(name, self.value(reader)?);
            Ok(())
        })?;
        Ok(members)
    }

    fn number(&self, text: &str) -> DecodeResult<Decimal> {
        text.parse().map_err(|_| self.wrong("N must be a decimal number of at most 38 digits"))
    }

    fn bytes<'a>(&self, text: &str) -> DecodeResult<Cow<'a, [u8]>> {
        let decoded = STANDARD.decode(text);
        decoded.map(Cow::Owned).map_err(|_| self.wrong("B must be base64"))
    }
}

fn list<'a, T>(
    reader: &mut JsonReader<'a>,
    mut member: impl FnMut(&mut JsonReader<'a>) -> DecodeResult<T>,
) -> DecodeResult<Vec<T>> {
    let mut members = Vec::new();
    reader.list(|reader| {
        members.push(member(reader)?);
        Ok(())
    })?;
    Ok(members)
}
