//! An item's image: what of its state the model uses.

use super::json;
use super::{AttributeId, AttributeInterner, AttributeValue, Item};
use crate::Result;

/// How many attributes of an item a model mostly uses at most; a guess that saves growing the list.
const TYPICAL_ATTRIBUTES: usize = 12;

/// The state of one item, before or after a change: only the attributes of a [`AttributeInterner`].
///
/// An image without any attribute is an item whose attributes the model does not use; that there is *no* image is
/// said by an `Option` around it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Image<'a> {
    /// Few, so that a scan beats a map.
    attributes: Vec<(AttributeId, AttributeValue<'a>)>,
}

impl<'a> Image<'a> {
    /// An image without attributes.
    #[must_use]
    pub const fn empty() -> Self {
        Self { attributes: Vec::new() }
    }

    /// An empty one, which need mostly not grow.
    pub(super) fn with_room_for(vocabulary: &AttributeInterner) -> Self {
        Self { attributes: Vec::with_capacity(vocabulary.len().min(TYPICAL_ATTRIBUTES)) }
    }

    /// The image of an item that was read from a table.
    #[must_use]
    pub fn from_item(item: &Item, vocabulary: &AttributeInterner) -> Image<'static> {
        let wanted =
            |(name, value): (_, &AttributeValue<'static>)| Some((vocabulary.id(name)?, value.clone()));
        Image { attributes: item.iter().map(|(name, value)| (&**name, value)).filter_map(wanted).collect() }
    }

    /// The value of an attribute, if the item has it.
    #[must_use]
    pub fn get(&self, id: AttributeId) -> Option<&AttributeValue<'a>> {
        self.attributes.iter().find(|(held, _)| *held == id).map(|(_, value)| value)
    }

    /// All attributes of the image, in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = (AttributeId, &AttributeValue<'a>)> {
        self.attributes.iter().map(|(id, value)| (*id, value))
    }

    /// Sets an attribute that it does not have.
    pub(super) fn add(&mut self, id: AttributeId, value: AttributeValue<'a>) {
        self.attributes.push((id, value));
    }

    /// Sets an attribute; the last value set counts.
    pub(super) fn set(&mut self, id: AttributeId, value: AttributeValue<'a>) {
        match self.attributes.iter_mut().find(|(held, _)| *held == id) {
            Some((_, held)) => *held = value,
            None => self.add(id, value),
        }
    }
}

/// The image before a change, not yet decoded but for a glimpse: nearly all changes are counted from the new image alone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OldImage<'a> {
    json: Option<&'a str>,
    glimpse: Option<Image<'a>>,
}

impl<'a> OldImage<'a> {
    /// `None` if the JSON is neither an object nor null.
    pub(super) fn from_json(json: &'a str, glimpse: Option<Image<'a>>) -> Option<Self> {
        match json {
            "null" => Some(Self::default()),
            _ => json.starts_with('{').then_some(Self { json: Some(json), glimpse }),
        }
    }

    /// Whether the record carries an old image.
    #[must_use]
    pub fn is_present(&self) -> bool {
        self.json.is_some()
    }

    /// What was read of it when it was passed over, which costs hardly more: as much as the vocabulary said that its record was decoded
    /// with. `None` if that said nothing, or the record carries no old image.
    #[must_use]
    pub fn glimpse(&self) -> Option<&Image<'a>> {
        self.glimpse.as_ref()
    }

    /// Decodes it; `None` if the record carries none.
    ///
    /// # Errors
    /// [`crate::ErrorKind::Record`] if it is malformed: then the whole record is.
    pub fn decode(&self, vocabulary: &AttributeInterner) -> Result<Option<Image<'a>>> {
        self.json.map(|json| json::image(json, vocabulary)).transpose()
    }
}
