//! An item's image: the attributes that the model uses.

use super::{AttributeId, AttributeInterner, AttributeValue, Item};

/// The state of one item before or after a change, with the attributes of an [`AttributeInterner`] only.
///
/// An image without attributes is an item that has none of the attributes that the model uses. That there is *no* image is expressed by an
/// `Option` around it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Image<'a> {
    /// A list: an image has few attributes, so a scan is faster than a map.
    pub(super) attributes: Vec<(AttributeId, AttributeValue<'a>)>,
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
