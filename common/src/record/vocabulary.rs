//! Which attributes are worth decoding: those that a table model names.

use std::sync::Arc;

use hashbrown::HashMap;

/// The attribute names that a model uses. Every other attribute is skipped while decoding.
///
/// ```
/// use afterwrite::record::AttributeInterner;
/// let vocabulary = AttributeInterner::new(["status", "score", "status"]);
/// let score = vocabulary.id("score").expect("a name of the vocabulary");
/// assert_eq!(vocabulary.name(score).as_ref(), "score");
/// assert_eq!(vocabulary.len(), 2);
/// assert!(vocabulary.id("colour").is_none());
/// ```
#[derive(Clone, Debug, Default)]
pub struct AttributeInterner {
    names: Vec<Arc<str>>,
    /// The names that are known.
    ids: HashMap<Arc<str>, AttributeId>,
    /// What of it is read of old images too.
    glimpsed: Option<Box<AttributeInterner>>,
}

/// Stands for one name of the [`AttributeInterner`] that gave it out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AttributeId(u32);

impl AttributeId {
    /// One bit of 64, the same for few others.
    pub(super) fn bit(self) -> u64 {
        1 << (self.0 % 64)
    }
}

impl AttributeInterner {
    /// A vocabulary of these names; a name given twice counts once.
    pub fn new<N: Into<Arc<str>>>(names: impl IntoIterator<Item = N>) -> Self {
        let mut vocabulary = Self::default();
        for name in names {
            vocabulary.intern(name.into());
        }
        vocabulary
    }

    /// The id of a name, which is added if it is new.
    pub(crate) fn intern(&mut self, name: impl Into<Arc<str>>) -> AttributeId {
        let name = name.into();
        if let Some(id) = self.id(&name) {
            return id;
        }
        // A model's file, of a few megabytes at most, has no such number of names.
        let id = AttributeId(u32::try_from(self.names.len()).unwrap_or(u32::MAX));
        self.names.push(Arc::clone(&name));
        self.ids.insert(name, id);
        id
    }

    /// The same vocabulary, with which these of its names are read of old images at once: see [`super::OldImage::glimpse`].
    pub(crate) fn glimpsing(mut self, ids: impl IntoIterator<Item = AttributeId>) -> Self {
        self.glimpsed = Some(Box::new(self.narrowed(ids)));
        self
    }

    /// What is read of old images at once, if anything is.
    pub(crate) fn glimpsed(&self) -> Option<&Self> {
        self.glimpsed.as_deref()
    }

    /// The same ids, of these alone: every other name is unknown to it.
    fn narrowed(&self, ids: impl IntoIterator<Item = AttributeId>) -> Self {
        let ids = ids.into_iter().map(|id| (Arc::clone(self.name(id)), id)).collect();
        Self { names: self.names.clone(), ids, glimpsed: None }
    }

    /// The id of a name, if the model uses it.
    #[must_use]
    pub fn id(&self, name: &str) -> Option<AttributeId> {
        self.ids.get(name).copied()
    }

    /// The name behind an id.
    ///
    /// # Panics
    /// If the id is of another, larger vocabulary.
    #[must_use]
    #[expect(clippy::indexing_slicing, reason = "an id is given out by its own vocabulary only")]
    pub fn name(&self, id: AttributeId) -> &Arc<str> {
        &self.names[id.0 as usize]
    }

    /// How many names it holds.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ids.len()
    }

    /// Whether it holds none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }
}
