//! The image before a change, decoded on demand.

use super::image_json::decode_image;
use super::{AttributeInterner, Image};
use crate::Result;

/// The image before a change. It is decoded on demand, because most changes are counted from the new image alone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OldImage<'a> {
    json: Option<&'a str>,
    eager_fields: Option<Image<'a>>,
}

impl<'a> OldImage<'a> {
    pub(super) fn new(json: &'a str, eager_fields: Option<Image<'a>>) -> Self {
        Self { json: Some(json), eager_fields }
    }

    /// Whether the record has an old image.
    #[must_use]
    pub fn is_present(&self) -> bool {
        self.json.is_some()
    }

    /// Whether the image has an attribute. An item has its key at least: an image without any stands for an absent one, which some programs
    /// that pass records on write as an empty one.
    #[must_use]
    pub fn has_attributes(&self) -> bool {
        // The text is an object, and only a member has a quote.
        self.json.is_some_and(|json| json.contains('"'))
    }

    /// The eager fields: attributes that were decoded while the image was skipped, at nearly no extra cost. `None` if
    /// the interner has no eager fields, or the record has no old image.
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
