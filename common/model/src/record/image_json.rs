//! Decodes DynamoDB JSON (`{"S": "text"}`, `{"N": "1"}`, …) into attribute values, keys and images.
//!
//! One pass over the bytes reads what the model needs and skips the rest. Faults are stored in the [`DecodeContext`] as
//! constant texts, so that an error never contains an item's values.

use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::json_reader::{InvalidJson, JsonReader, JsonResult};
use super::key::PrimaryKeyAttribute;
use super::shape_cache::ShapeCache;
use super::{AttributeId, AttributeInterner, AttributeValue, Decimal, Image, Item, PrimaryKey};
use crate::{Error, ErrorKind, Result};

/// The typical number of attributes of an item that a model uses: an estimate for the capacity of the list.
const TYPICAL_ATTRIBUTES: usize = 12;

/// The attributes to decode, and the first fault.
pub(super) struct DecodeContext<'v> {
    attributes: &'v AttributeInterner,
    fault: RefCell<DecodeFault>,
}

/// The first, innermost fault.
#[derive(Default)]
struct DecodeFault {
    message: Option<&'static str>,
    /// The field or attribute that has the fault.
    place: Option<String>,
}

impl<'v> DecodeContext<'v> {
    pub(super) fn new(attributes: &'v AttributeInterner) -> Self {
        Self { attributes, fault: RefCell::default() }
    }

    /// Stores a fault. The returned error only stops the reader.
    #[cold]
    pub(super) fn fault(&self, message: &'static str) -> InvalidJson {
        self.fault.borrow_mut().message.get_or_insert(message);
        InvalidJson
    }

    /// Stores the field or attribute of an error.
    #[inline]
    pub(super) fn within<T>(&self, place: &str, result: JsonResult<T>) -> JsonResult<T> {
        result.inspect_err(|_| self.store_place(place))
    }

    #[cold]
    fn store_place(&self, place: &str) {
        self.fault.borrow_mut().place.get_or_insert_with(|| place.to_owned());
    }

    /// The stored fault as the record's error.
    pub(super) fn into_error(self) -> Error {
        let place = self.fault.borrow_mut().place.take();
        let message = self.into_reason();
        let error = Error::new(ErrorKind::Record, format!("a change record is malformed: {message}"));
        match place {
            Some(place) => error.with("in", place),
            None => error,
        }
    }

    /// The message of the stored fault.
    pub(super) fn into_reason(self) -> &'static str {
        let message = self.fault.into_inner().message;
        message.unwrap_or("a value has a type that DynamoDB's JSON does not allow there")
    }
}

/// An image that is being decoded.
struct ImageBuilder<'a> {
    image: Image<'a>,
    /// The bits of the attributes that may be set already.
    seen: u64,
}

impl<'a> ImageBuilder<'a> {
    fn new(attributes: &AttributeInterner) -> Self {
        let capacity = attributes.len().min(TYPICAL_ATTRIBUTES);
        Self { image: Image { attributes: Vec::with_capacity(capacity) }, seen: 0 }
    }

    /// Sets an attribute; the last value of a duplicate counts.
    #[inline]
    fn set(&mut self, id: AttributeId, value: AttributeValue<'a>) {
        let attributes = &mut self.image.attributes;
        // Duplicates are very rare: only an attribute whose bit is set is searched for.
        if self.seen & id.bit() == 0 {
            attributes.push((id, value));
        } else {
            match attributes.iter_mut().find(|(known, _)| *known == id) {
                Some((_, known)) => *known = value,
                None => attributes.push((id, value)),
            }
        }
        self.seen |= id.bit();
    }
}

/// Decodes a single image.
pub(super) fn decode_image<'a>(json: &'a str, attributes: &AttributeInterner) -> Result<Image<'a>> {
    let context = DecodeContext::new(attributes);
    JsonReader::read_all(json, |reader| context.image(reader, &mut ShapeCache::disabled()))
        .map(Option::unwrap_or_default)
        .map_err(|_| context.into_error())
}

/// The meaning of an attribute name.
#[derive(Clone, Copy)]
pub(super) struct KnownAttribute {
    /// The attribute's id, if it is decoded in new images.
    new: Option<AttributeId>,
    /// The attribute's id, if it is an eager field of old images.
    eager: Option<AttributeId>,
}

impl DecodeContext<'_> {
    /// Decodes the known attributes of an image; all other attributes are skipped. An item has a key, so there is no image without attributes.
    pub(super) fn image<'a>(
        &self,
        reader: &mut JsonReader<'a>,
        shape: &mut ShapeCache<'a, KnownAttribute>,
    ) -> JsonResult<Option<Image<'a>>> {
        let mut builder = ImageBuilder::new(self.attributes);
        let mut has_attributes = false;
        reader.object_with_shape(
            shape,
            |name| self.known_attribute(name),
            |reader, attribute, _| {
                has_attributes = true;
                match attribute.new {
                    Some(id) => self.attribute(reader, id, &mut builder),
                    None => reader.skip().map(drop),
                }
            },
        )?;
        Ok(has_attributes.then_some(builder.image))
    }

    /// Skips an old image, except for its eager fields. Most of its values equal those of the new image.
    pub(super) fn skip_image<'a>(
        &self,
        reader: &mut JsonReader<'a>,
        shape: &mut ShapeCache<'a, KnownAttribute>,
    ) -> JsonResult<(&'a str, Option<Image<'a>>)> {
        let start = reader.start();
        if !reader.is_object() {
            reader.skip()?;
            return Err(self.fault("OldImage must be a map"));
        }
        let mut builder = self.attributes.eager_fields().map(ImageBuilder::new);
        reader.object_with_shape(
            shape,
            |name| self.known_attribute(name),
            |reader, attribute, new| match (attribute.eager, &mut builder) {
                (Some(id), Some(builder)) => self.attribute(reader, id, builder),
                _ => reader.skip_expecting(new),
            },
        )?;
        Ok((reader.text_since(start)?, builder.map(|builder| builder.image)))
    }

    fn known_attribute(&self, name: &str) -> KnownAttribute {
        let new = self.attributes.id(name);
        // Eager fields are a subset of the attributes.
        let eager = new.and(self.attributes.eager_fields()).and_then(|eager| eager.id(name));
        KnownAttribute { new, eager }
    }

    #[inline]
    fn attribute<'a>(
        &self,
        reader: &mut JsonReader<'a>,
        id: AttributeId,
        builder: &mut ImageBuilder<'a>,
    ) -> JsonResult<()> {
        let value = self.value(reader);
        builder.set(id, self.within(self.attributes.name(id), value)?);
        Ok(())
    }

    /// Decodes the primary key of a record.
    pub(super) fn keys<'a>(&self, reader: &mut JsonReader<'a>) -> JsonResult<PrimaryKey<'a>> {
        let (mut first, mut second): (Option<PrimaryKeyAttribute<'a>>, Option<PrimaryKeyAttribute<'a>>) =
            (None, None);
        reader.object(|reader, name| {
            let value = self.within(&name, self.value(reader))?;
            if !matches!(value, AttributeValue::S(_) | AttributeValue::N(_) | AttributeValue::B(_)) {
                return self.within(&name, Err(self.fault("a key attribute must be of type S, N or B")));
            }
            // The last value of a duplicate name counts.
            let place = match &first {
                Some((known, _)) if *known != name => &mut second,
                Some(_) | None => &mut first,
            };
            if place.as_ref().is_some_and(|(known, _)| *known != name) {
                return Err(self.fault("a primary key has at most two attributes"));
            }
            *place = Some((name, value));
            Ok(())
        })?;
        match first {
            Some(first) => Ok(PrimaryKey::new(first, second)),
            None => Err(self.fault("Keys is empty")),
        }
    }

    /// Decodes the attributes of an item that `is_read` accepts; all others are skipped.
    pub(super) fn item(
        &self,
        reader: &mut JsonReader<'_>,
        is_read: &impl Fn(&str) -> bool,
    ) -> JsonResult<Item> {
        let mut item = Item::new();
        reader.object(|reader, name| {
            if is_read(&name) {
                item.insert(Cow::Owned(name.into_owned()), self.value(reader)?.into_owned());
            } else {
                reader.skip()?;
            }
            Ok(())
        })?;
        Ok(item)
    }

    #[inline]
    pub(super) fn value<'a>(&self, reader: &mut JsonReader<'a>) -> JsonResult<AttributeValue<'a>> {
        // Nearly all values are texts and numbers.
        match reader.tagged_text() {
            Some((b'N', text)) => Ok(AttributeValue::N(self.number(text)?)),
            Some((b'B', text)) => Ok(AttributeValue::B(self.bytes(text)?)),
            Some((_, text)) => Ok(AttributeValue::S(Cow::Borrowed(text))),
            None => self.any_value(reader),
        }
    }

    fn any_value<'a>(&self, reader: &mut JsonReader<'a>) -> JsonResult<AttributeValue<'a>> {
        let mut last: Option<AttributeValue<'a>> = None;
        reader.object(|reader, tag| {
            let value = self.tagged_value(&tag, reader)?;
            if last.as_ref().is_some_and(|earlier| !value.is_of_type(earlier.type_name())) {
                return Err(self.fault("an attribute value must have one type"));
            }
            last = Some(value);
            Ok(())
        })?;
        last.ok_or_else(|| self.fault("an attribute value must have a type"))
    }

    /// Decodes the content of an attribute value by its type tag.
    fn tagged_value<'a>(&self, tag: &str, reader: &mut JsonReader<'a>) -> JsonResult<AttributeValue<'a>> {
        Ok(match tag {
            "S" => AttributeValue::S(reader.text()?),
            "N" => AttributeValue::N(self.number(&reader.text()?)?),
            "B" => AttributeValue::B(self.bytes(&reader.text()?)?),
            "BOOL" => AttributeValue::Bool(reader.boolean()?),
            "NULL" => match reader.boolean()? {
                true => AttributeValue::Null,
                false => return Err(self.fault("NULL must be true")),
            },
            "M" => AttributeValue::M(self.members(reader)?),
            "L" => AttributeValue::L(reader.collect_list(|reader| self.value(reader))?),
            "SS" => AttributeValue::Ss(reader.collect_list(JsonReader::text)?),
            "NS" => AttributeValue::Ns(reader.collect_list(|reader| self.number(&reader.text()?))?),
            "BS" => AttributeValue::Bs(reader.collect_list(|reader| self.bytes(&reader.text()?))?),
            _ => return Err(self.fault("an attribute value has an unknown type")),
        })
    }

    fn members<'a>(
        &self,
        reader: &mut JsonReader<'a>,
    ) -> JsonResult<BTreeMap<Cow<'a, str>, AttributeValue<'a>>> {
        let mut members = BTreeMap::new();
        reader.object(|reader, name| {
            members.insert(name, self.value(reader)?);
            Ok(())
        })?;
        Ok(members)
    }

    fn number(&self, text: &str) -> JsonResult<Decimal> {
        text.parse().map_err(|_| self.fault("N must be a decimal number of at most 38 digits"))
    }

    fn bytes<'a>(&self, text: &str) -> JsonResult<Cow<'a, [u8]>> {
        let decoded = STANDARD.decode(text);
        decoded.map(Cow::Owned).map_err(|_| self.fault("B must be base64"))
    }
}
