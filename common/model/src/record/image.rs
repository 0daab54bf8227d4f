//! An item's image: the attributes that the model uses.

use super::{AttributeId, AttributeInterner, AttributeValue, Item};

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
