//! Which attributes are worth decoding: those that a table model names.

use std::sync::Arc;

/// The attribute names that a model uses. Every other attribute is skipped while decoding.
///
/// ```
/// use afterwrite::record::Vocabulary;
/// let vocabulary = Vocabulary::new(["status", "score", "status"]);
/// let score = vocabulary.id("score").expect("a name of the vocabulary");
/// assert_eq!(vocabulary.name(score).as_ref(), "score");
/// assert_eq!(vocabulary.len(), 2);
/// assert!(vocabulary.id("colour").is_none());
/// ```
#[derive(Clone, Debug, Default)]
pub struct Vocabulary {
    names: Vec<Arc<str>>,
    /// The ids of the names of each length. Lengths tell nearly all names apart, which beats hashing every attribute's
    /// name of every record.
    by_length: Vec<Vec<AttributeId>>,
}

/// Stands for one name of the [`Vocabulary`] that gave it out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AttributeId(usize);

impl Vocabulary {
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
        let id = AttributeId(self.names.len());
        if self.by_length.len() <= name.len() {
            self.by_length.resize_with(name.len() + 1, Vec::new);
        }
        if let Some(ids) = self.by_length.get_mut(name.len()) {
            ids.push(id);
        }
        self.names.push(name);
        id
    }

    /// The id of a name, if the model uses it.
    #[must_use]
    pub fn id(&self, name: &str) -> Option<AttributeId> {
        self.by_length.get(name.len())?.iter().copied().find(|id| self.name(*id).as_ref() == name)
    }

    /// The name behind an id.
    ///
    /// # Panics
    /// If the id is of another, larger vocabulary.
    #[must_use]
    #[expect(clippy::indexing_slicing, reason = "an id is given out by its own vocabulary only")]
    pub fn name(&self, id: AttributeId) -> &Arc<str> {
        &self.names[id.0]
    }

    /// How many names it holds.
    #[must_use]
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// Whether it holds none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }
}
