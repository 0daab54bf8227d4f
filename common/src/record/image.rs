//! An item's image: the attributes that the model uses.

use super::image_json::decode_image;
use super::{AttributeId, AttributeInterner, AttributeValue, Item};
use crate::Result;

/// The typical number of attributes of an item that a model uses: an estimate for the capacity of the list.
const TYPICAL_ATTRIBUTES: usize = 12;

/// The state of one item before or after a change, with the attributes of an [`AttributeInterner`] only.
///
/// An image without attributes is an item without attributes that the model uses. That there is *no* image is expressed
/// by an `Option` around it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Image<'a> {
    /// A list: an image has few attributes, so a scan is faster than a map.
    attributes: Vec<(AttributeId, AttributeValue<'a>)>,
}

impl<'a> Image<'a> {
    /// An image without attributes.
    #[must_use]
    pub const fn empty() -> Self {
        Self { attributes: Vec::new() }
    }

    /// The image of an item that was read from a table.
    #[must_use]
    pub fn from_item(item: &Item, attributes: &AttributeInterner) -> Image<'static> {
        let known = item.iter().filter_map(|(name, value)| Some((attributes.id(name)?, value.clone())));
        Image { attributes: known.collect() }
    }

    /// The value of an attribute, if the item has it.
    #[must_use]
    pub fn get(&self, id: AttributeId) -> Option<&AttributeValue<'a>> {
        self.attributes.iter().find(|(known, _)| *known == id).map(|(_, value)| value)
    }

    /// All attributes of the image, in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = (AttributeId, &AttributeValue<'a>)> {
        self.attributes.iter().map(|(id, value)| (*id, value))
    }
}

/// An image that is being decoded.
pub(super) struct ImageBuilder<'a> {
    pub(super) image: Image<'a>,
    /// The bits of the attributes that may be set already.
    seen: u64,
}

impl<'a> ImageBuilder<'a> {
    pub(super) fn new(attributes: &AttributeInterner) -> Self {
        let capacity = attributes.len().min(TYPICAL_ATTRIBUTES);
        Self { image: Image { attributes: Vec::with_capacity(capacity) }, seen: 0 }
    }

    /// Sets an attribute; the last value of a duplicate counts.
    #[inline]
    pub(super) fn set(&mut self, id: AttributeId, value: AttributeValue<'a>) {
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

/// The image before a change. It is decoded on demand, because most changes are counted from the new image alone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OldImage<'a> {
    json: Option<&'a str>,
    eager_fields: Option<Image<'a>>,
}

impl<'a> OldImage<'a> {
    /// `None` if the JSON is neither an object nor null.
    pub(super) fn from_json(json: &'a str, eager_fields: Option<Image<'a>>) -> Option<Self> {
        match json {
            "null" => Some(Self::default()),
            _ => json.starts_with('{').then_some(Self { json: Some(json), eager_fields }),
        }
    }

    /// Whether the record has an old image.
    #[must_use]
    pub fn is_present(&self) -> bool {
        self.json.is_some()
    }

    /// The eager fields: attributes that were decoded while the image was skipped, at nearly no extra cost. `None` if the interner has
    /// no eager fields, or the record has no old image.
    #[must_use]
    pub fn eager_fields(&self) -> Option<&Image<'a>> {
        self.eager_fields.as_ref()
    }

    /// Decodes the image; `None` if the record has no old image.
    ///
    /// # Errors
    /// [`crate::ErrorKind::Record`] if the image, and so the whole record, is malformed.
    pub fn decode(&self, attributes: &AttributeInterner) -> Result<Option<Image<'a>>> {
        self.json.map(|json| decode_image(json, attributes)).transpose()
    }
}
