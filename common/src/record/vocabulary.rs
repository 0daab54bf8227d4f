//! Which attributes are worth decoding: those that a table model names.

use std::sync::Arc;

use smallvec::SmallVec;

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
    /// The names that are known, by the shape that they have: asked for every attribute of every image, most of which have a shape
    /// that no name has, and few one that many have.
    ids: Vec<SmallVec<[AttributeId; 1]>>,
    /// How many are known.
    len: usize,
    /// What of it is read of old images too.
    glimpsed: Option<Box<Vocabulary>>,
}

/// Stands for one name of the [`Vocabulary`] that gave it out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AttributeId(u32);

impl AttributeId {
    /// One bit of 64, the same for few others.
    pub(super) fn bit(self) -> u64 {
        1 << (self.0 % 64)
    }
}

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
        // A model's file, of a few megabytes at most, has no such number of names.
        let id = AttributeId(u32::try_from(self.names.len()).unwrap_or(u32::MAX));
        self.names.push(name);
        self.know(id);
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
        let mut narrowed = Self { names: self.names.clone(), ..Self::default() };
        for id in ids {
            narrowed.know(id);
        }
        narrowed
    }

    fn know(&mut self, id: AttributeId) {
        let shape = shape(self.name(id));
        self.ids.resize(SHAPES, SmallVec::new());
        if let Some(ids) = self.ids.get_mut(shape).filter(|ids| !ids.contains(&id)) {
            ids.push(id);
            self.len += 1;
        }
    }

    /// The id of a name, if the model uses it.
    #[must_use]
    pub fn id(&self, name: &str) -> Option<AttributeId> {
        self.ids.get(shape(name))?.iter().copied().find(|id| **self.name(*id) == *name)
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
        self.len
    }

    /// Whether it holds none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

const SHAPES: usize = 256;

/// One of the shapes that names have: by the length, the first and the last letter.
fn shape(name: &str) -> usize {
    let bytes = name.as_bytes();
    let ends = bytes.first().zip(bytes.last()).map_or(0, |(first, last)| first ^ last.rotate_left(3));
    (usize::from(ends) ^ (bytes.len() << 1)) % SHAPES
}
