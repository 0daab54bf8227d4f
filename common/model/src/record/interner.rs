//! The attributes that a table model names. Only these are decoded.

use std::sync::Arc;

use hashbrown::HashMap;

/// The attribute names that a model uses, each with an id. Decoding skips every other attribute.
///
/// ```
/// use afterwrite_model::record::AttributeInterner;
/// let attributes = AttributeInterner::new(["status", "score", "status"]);
/// let score = attributes.id("score").expect("an interned name");
/// assert_eq!(attributes.name(score).as_ref(), "score");
/// assert_eq!(attributes.len(), 2);
/// assert!(attributes.id("colour").is_none());
/// ```
#[derive(Clone, Debug, Default)]
pub struct AttributeInterner {
    /// The names by id. An interner of eager fields has more names than ids.
    names: Vec<Arc<str>>,
    ids: HashMap<Arc<str>, AttributeId>,
    eager_fields: Option<Box<AttributeInterner>>,
}

/// The id of a name in an [`AttributeInterner`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AttributeId(u32);

impl AttributeId {
    /// One of 64 bits; an id shares its bit with few others.
    pub(super) fn bit(self) -> u64 {
        1 << (self.0 % 64)
    }
}

impl AttributeInterner {
    /// An interner of these names; duplicates are ignored.
    pub fn new<N: Into<Arc<str>>>(names: impl IntoIterator<Item = N>) -> Self {
        let mut attributes = Self::default();
        for name in names {
            attributes.intern(name.into());
        }
        attributes
    }

    /// The id of a name, which is added if it is new.
    pub(crate) fn intern(&mut self, name: impl Into<Arc<str>>) -> AttributeId {
        let name = name.into();
        if let Some(id) = self.id(&name) {
            return id;
        }
        // A model file of a few megabytes has fewer than 2^32 names.
        let id = AttributeId(u32::try_from(self.names.len()).unwrap_or(u32::MAX));
        self.names.push(Arc::clone(&name));
        self.ids.insert(name, id);
        id
    }

    /// The same interner with these ids as the eager fields of old images: see [`super::OldImage::eager_fields`].
    pub(crate) fn with_eager_fields(mut self, ids: impl IntoIterator<Item = AttributeId>) -> Self {
        let ids = ids.into_iter().map(|id| (Arc::clone(self.name(id)), id)).collect();
        let eager_fields = Self { names: self.names.clone(), ids, eager_fields: None };
        self.eager_fields = Some(Box::new(eager_fields));
        self
    }

    /// The eager fields of old images, with the same ids.
    pub(crate) fn eager_fields(&self) -> Option<&Self> {
        self.eager_fields.as_deref()
    }

    /// The id of a name, if the model uses the name.
    #[must_use]
    pub fn id(&self, name: &str) -> Option<AttributeId> {
        self.ids.get(name).copied()
    }

    /// The name of an id.
    ///
    /// # Panics
    /// If the id comes from another interner with more names.
    #[must_use]
    #[expect(clippy::indexing_slicing, reason = "an id comes from the interner that it is used with")]
    pub fn name(&self, id: AttributeId) -> &Arc<str> {
        &self.names[id.0 as usize]
    }

    /// The number of names.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ids.len()
    }

    /// Whether there are no names.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }
}
