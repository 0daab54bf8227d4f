//! DynamoDB JSON (`{"S": "text"}`, `{"N": "1"}`, …) → attribute values, keys and images.
//!
//! Everything is a serde seed, so that one pass over an event's bytes reads what is wanted and skips the rest. What is
//! wrong with a record is noted in the [`Context`] and reported from there: serde's own messages quote the input, and an
//! error must not hold an item's contents.

use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde::de::{self, DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::change::NamedValue;
use super::{AttributeId, AttributeValue, Decimal, Image, Keys, Vocabulary};
use crate::{Error, ErrorKind, Result};

/// What decoding needs to know, and what it found wrong.
pub(super) struct Context<'v> {
    pub(super) vocabulary: &'v Vocabulary,
    fault: RefCell<Fault>,
}

/// The first, innermost fault.
#[derive(Default)]
struct Fault {
    what: Option<&'static str>,
    place: Option<String>,
}

impl<'v> Context<'v> {
    pub(super) fn new(vocabulary: &'v Vocabulary) -> Self {
        Self { vocabulary, fault: RefCell::default() }
    }

    /// Notes what is wrong; the result only stops serde.
    pub(super) fn wrong<E: de::Error>(&self, what: &'static str) -> E {
        self.fault.borrow_mut().what.get_or_insert(what);
        E::custom(what)
    }

    /// Notes the field or attribute in which something is wrong, if something is.
    #[inline]
    pub(super) fn within<T, E>(&self, place: &str, result: Result<T, E>) -> Result<T, E> {
        result.inspect_err(|_| self.note_place(place))
    }

    #[cold]
    fn note_place(&self, place: &str) {
        self.fault.borrow_mut().place.get_or_insert_with(|| place.to_owned());
    }

    /// What was found wrong, as the record's error.
    pub(super) fn into_error(self) -> Error {
        let Fault { what, place } = self.fault.into_inner();
        let what = what.unwrap_or("a value has a type that DynamoDB's JSON does not have there");
        let error = Error::new(ErrorKind::Record, format!("a change record is malformed: {what}"));
        match place {
            Some(place) => error.with("in", place),
            None => error,
        }
    }
}

/// Reads an image on its own.
pub(super) fn image<'a>(json: &'a str, vocabulary: &Vocabulary) -> Result<Image<'a>> {
    let context = Context::new(vocabulary);
    read(json, ImageSeed(&context)).map_err(|_| context.into_error())
}

/// Runs a seed over a whole JSON text.
pub(super) fn read<'a, S: DeserializeSeed<'a>>(json: &'a str, seed: S) -> serde_json::Result<S::Value> {
    let mut deserializer = serde_json::Deserializer::from_str(json);
    let value = seed.deserialize(&mut deserializer)?;
    deserializer.end()?;
    Ok(value)
}

/// Text, borrowed unless it holds an escape.
#[derive(Deserialize)]
pub(super) struct Text<'a>(#[serde(borrow)] pub(super) Cow<'a, str>);

/// What a seed reads, or null.
pub(super) struct Maybe<S>(pub(super) S);

impl<'de, S: DeserializeSeed<'de>> DeserializeSeed<'de> for Maybe<S> {
    type Value = Option<S::Value>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_option(self)
    }
}

impl<'de, S: DeserializeSeed<'de>> Visitor<'de> for Maybe<S> {
    type Value = Option<S::Value>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value or null")
    }

    fn visit_none<E: de::Error>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        self.0.deserialize(deserializer).map(Some)
    }
}

/// The tag of an attribute value's type.
#[derive(Clone, Copy, PartialEq, Deserialize)]
#[serde(field_identifier, rename_all = "UPPERCASE")]
enum Tag {
    S,
    N,
    B,
    Bool,
    Null,
    M,
    L,
    Ss,
    Ns,
    Bs,
    #[serde(other)]
    Unknown,
}

/// One attribute value.
#[derive(Clone, Copy)]
struct ValueSeed<'c, 'v>(&'c Context<'v>);

impl<'de> DeserializeSeed<'de> for ValueSeed<'_, '_> {
    type Value = AttributeValue<'de>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for ValueSeed<'_, '_> {
    type Value = AttributeValue<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an attribute value")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut last = None;
        while let Some(tag) = map.next_key::<Tag>()? {
            let value = self.read(tag, &mut map)?;
            if last.replace((tag, value)).is_some_and(|(earlier, _)| earlier != tag) {
                return Err(self.0.wrong("an attribute value must have one type"));
            }
        }
        match last {
            Some((_, value)) => Ok(value),
            None => Err(self.0.wrong("an attribute value must have a type")),
        }
    }
}

impl ValueSeed<'_, '_> {
    fn read<'de, A: MapAccess<'de>>(self, tag: Tag, map: &mut A) -> Result<AttributeValue<'de>, A::Error> {
        Ok(match tag {
            Tag::S => AttributeValue::S(map.next_value::<Text<'de>>()?.0),
            Tag::N => AttributeValue::N(self.number(&map.next_value::<Text<'de>>()?.0)?),
            Tag::B => AttributeValue::B(self.bytes(&map.next_value::<Text<'de>>()?.0)?),
            Tag::Bool => AttributeValue::Bool(map.next_value()?),
            Tag::Null => match map.next_value()? {
                true => AttributeValue::Null,
                false => return Err(self.0.wrong("NULL must be true")),
            },
            Tag::M => AttributeValue::M(map.next_value_seed(MapSeed(self))?),
            Tag::L => AttributeValue::L(map.next_value_seed(ListSeed(self))?),
            Tag::Ss => AttributeValue::Ss(set(map, Ok)?),
            Tag::Ns => AttributeValue::Ns(set(map, |text| self.number(&text))?),
            Tag::Bs => AttributeValue::Bs(set(map, |text| self.bytes(&text))?),
            Tag::Unknown => return Err(self.0.wrong("an attribute value has an unknown type")),
        })
    }

    fn number<E: de::Error>(self, text: &str) -> Result<Decimal, E> {
        text.parse().map_err(|_| self.0.wrong("N must be a decimal number of at most 38 digits"))
    }

    fn bytes<'de, E: de::Error>(self, text: &str) -> Result<Cow<'de, [u8]>, E> {
        let decoded = STANDARD.decode(text);
        decoded.map(Cow::Owned).map_err(|_| self.0.wrong("B must be base64"))
    }
}

/// The members of a set, which are written as text whatever their type.
fn set<'de, A: MapAccess<'de>, T>(
    map: &mut A,
    member: impl Fn(Cow<'de, str>) -> Result<T, A::Error>,
) -> Result<Vec<T>, A::Error> {
    map.next_value::<Vec<Text<'de>>>()?.into_iter().map(|text| member(text.0)).collect()
}

/// The content of an `M`.
struct MapSeed<'c, 'v>(ValueSeed<'c, 'v>);

impl<'de> DeserializeSeed<'de> for MapSeed<'_, '_> {
    type Value = BTreeMap<Cow<'de, str>, AttributeValue<'de>>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for MapSeed<'_, '_> {
    type Value = BTreeMap<Cow<'de, str>, AttributeValue<'de>>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map of attribute values")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut members = BTreeMap::new();
        while let Some(name) = map.next_key::<Text<'de>>()? {
            members.insert(name.0, map.next_value_seed(self.0)?);
        }
        Ok(members)
    }
}

/// The content of an `L`.
struct ListSeed<'c, 'v>(ValueSeed<'c, 'v>);

impl<'de> DeserializeSeed<'de> for ListSeed<'_, '_> {
    type Value = Vec<AttributeValue<'de>>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for ListSeed<'_, '_> {
    type Value = Vec<AttributeValue<'de>>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of attribute values")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
        let mut members = Vec::new();
        while let Some(member) = list.next_element_seed(self.0)? {
            members.push(member);
        }
        Ok(members)
    }
}

/// The `Keys` of a record.
pub(super) struct KeysSeed<'c, 'v>(pub(super) &'c Context<'v>);

impl<'de> DeserializeSeed<'de> for KeysSeed<'_, '_> {
    type Value = Keys<'de>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for KeysSeed<'_, '_> {
    type Value = Keys<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a primary key")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let (mut first, mut second): (Option<NamedValue<'de>>, Option<NamedValue<'de>>) = (None, None);
        while let Some(Text(name)) = map.next_key::<Text<'de>>()? {
            let value = self.0.within(&name, map.next_value_seed(ValueSeed(self.0)))?;
            if !matches!(value, AttributeValue::S(_) | AttributeValue::N(_) | AttributeValue::B(_)) {
                return self.0.within(&name, Err(self.0.wrong("a key attribute must be of type S, N or B")));
            }
            // A name that is given twice counts as it was given last.
            let place = match &first {
                Some((held, _)) if *held != name => &mut second,
                Some(_) | None => &mut first,
            };
            if place.as_ref().is_some_and(|(held, _)| *held != name) {
                return Err(self.0.wrong("a primary key has at most two attributes"));
            }
            *place = Some((name, value));
        }
        match first {
            Some(first) => Ok(Keys::new(first, second)),
            None => Err(self.0.wrong("Keys is empty")),
        }
    }
}

/// An image: the attributes of the vocabulary are read, all others are skipped.
pub(super) struct ImageSeed<'c, 'v>(pub(super) &'c Context<'v>);

impl<'de> DeserializeSeed<'de> for ImageSeed<'_, '_> {
    type Value = Image<'de>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for ImageSeed<'_, '_> {
    type Value = Image<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an item's attributes")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let vocabulary = self.0.vocabulary;
        let mut image = Image::default();
        while let Some(wanted) = map.next_key_seed(NameSeed(vocabulary))? {
            match wanted {
                Some(id) => {
                    let value = map.next_value_seed(ValueSeed(self.0));
                    image.set(id, self.0.within(vocabulary.name(id), value)?);
                }
                None => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(image)
    }
}

/// An attribute's name → its id, if the vocabulary has it.
struct NameSeed<'v>(&'v Vocabulary);

impl<'de> DeserializeSeed<'de> for NameSeed<'_> {
    type Value = Option<AttributeId>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_identifier(self)
    }
}

impl Visitor<'_> for NameSeed<'_> {
    type Value = Option<AttributeId>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an attribute's name")
    }

    fn visit_str<E: de::Error>(self, name: &str) -> Result<Self::Value, E> {
        Ok(self.0.id(name))
    }
}
