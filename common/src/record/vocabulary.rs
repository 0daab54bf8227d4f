//! Which attributes are worth decoding: those that a table model names.

use std::sync::Arc;

use hashbrown::HashMap;

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
    /// Looked up for every attribute of every image, hence not std's map: its hash resists chosen keys, which a model's
    /// names are not, and takes several times as long.
    ids: HashMap<Arc<str>, AttributeId>,
    /// The shapes that names have: most names of other attributes have another, and need not be looked up at all.
    shapes: [u64; 4],
    /// What of it is read of old images too.
    glimpsed: Option<Box<Vocabulary>>,
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
        self.know(Arc::clone(&name), id);
        self.names.push(name);
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
            narrowed.know(Arc::clone(self.name(id)), id);
        }
        narrowed
    }

    fn know(&mut self, name: Arc<str>, id: AttributeId) {
        let (word, bit) = shape(&name);
        if let Some(shapes) = self.shapes.get_mut(word) {
            *shapes |= bit;
        }
        self.ids.insert(name, id);
    }

    /// The id of a name, if the model uses it.
    #[must_use]
    pub fn id(&self, name: &str) -> Option<AttributeId> {
        let (word, bit) = shape(name);
        let is_likely = self.shapes.get(word).is_some_and(|shapes| shapes & bit != 0);
        if is_likely { self.ids.get(name).copied() } else { None }
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
        self.ids.len()
    }

    /// Whether it holds none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }
}

/// One of 256 shapes by a name's length, its first and its last letter, as a bit of one of four words.
fn shape(name: &str) -> (usize, u64) {
    let bytes = name.as_bytes();
    let ends = bytes.first().zip(bytes.last()).map_or(0, |(first, last)| first ^ last.rotate_left(3));
    let shape = usize::from(ends) ^ (bytes.len() << 1);
    ((shape >> 6) & 3, 1 << (shape & 63))
}
