//! The place of an attribute in an item.

use std::fmt;
use std::sync::Arc;

use smallvec::{SmallVec, smallvec};

use super::{AttributeValue, Item};

/// The place of an attribute in an item: its name, or the names of the maps around it, outermost first, and its name.
///
/// ```
/// use afterwrite::record::AttributePath;
/// let path = AttributePath::dotted("stats.books");
/// assert_eq!((&**path.root(), path.within().len(), path.to_string()), ("stats", 1, "stats.books".to_owned()));
/// assert_eq!(AttributePath::from("stats.books").names().len(), 1, "the dot is part of the name");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AttributePath {
    /// At least one; most attributes are at the top level.
    names: SmallVec<[Arc<str>; 1]>,
}

impl AttributePath {
    /// The place that is written with dots between the names: `stats.books`.
    #[must_use]
    pub fn dotted(text: &str) -> Self {
        Self { names: text.split('.').map(Arc::from).collect() }
    }

    /// The place below a top-level attribute, through maps of these names.
    #[must_use]
    pub fn nested(root: Arc<str>, within: impl IntoIterator<Item = Arc<str>>) -> Self {
        Self { names: std::iter::once(root).chain(within).collect() }
    }

    /// All names, outermost first.
    #[must_use]
    pub fn names(&self) -> &[Arc<str>] {
        &self.names
    }

    /// The top-level attribute.
    #[must_use]
    #[expect(clippy::indexing_slicing, reason = "every constructor adds a name")]
    pub fn root(&self) -> &Arc<str> {
        &self.names[0]
    }

    /// The names within the top-level attribute, outermost first.
    #[must_use]
    pub fn within(&self) -> &[Arc<str>] {
        self.names.get(1..).unwrap_or_default()
    }

    /// The names of the innermost map around the attribute; `None` for a top-level attribute.
    #[must_use]
    pub fn parent(&self) -> Option<&[Arc<str>]> {
        self.names.split_last().map(|(_, parent)| parent).filter(|parent| !parent.is_empty())
    }

    /// The maps around the attribute, outermost first.
    pub fn maps(&self) -> impl Iterator<Item = Self> {
        (1..self.names.len()).map(|depth| Self { names: self.names.iter().take(depth).cloned().collect() })
    }

    /// The attribute next to this one whose name ends in `suffix`: `stats.books_rev`.
    #[must_use]
    pub fn with_suffix(&self, suffix: &str) -> Self {
        let mut names = self.names.clone();
        if let Some(last) = names.last_mut() {
            *last = Arc::from(format!("{last}{suffix}"));
        }
        Self { names }
    }

    /// Whether this is the other, or lies within it.
    #[must_use]
    pub fn is_within(&self, other: &Self) -> bool {
        self.names.starts_with(&other.names)
    }

    /// The value at this place of an item.
    #[must_use]
    pub fn read<'i>(&self, item: &'i Item) -> Option<&'i AttributeValue<'static>> {
        let mut value = item.get(&**self.root())?;
        for name in self.within() {
            let AttributeValue::M(members) = value else { return None };
            value = members.get(&**name)?;
        }
        Some(value)
    }

    /// Whether one of the two is the other, or lies within it.
    #[must_use]
    pub fn overlaps(&self, other: &Self) -> bool {
        self.names.iter().zip(&other.names).all(|(mine, theirs)| mine == theirs)
    }
}

/// With dots between the names, as model files write it.
impl fmt::Display for AttributePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.names.join("."))
    }
}

impl From<&str> for AttributePath {
    /// A top-level attribute of exactly this name: dots are part of it.
    fn from(name: &str) -> Self {
        Self::from(Arc::from(name))
    }
}

impl From<Arc<str>> for AttributePath {
    fn from(name: Arc<str>) -> Self {
        Self { names: smallvec![name] }
    }
}

impl From<&Arc<str>> for AttributePath {
    fn from(name: &Arc<str>) -> Self {
        Self::from(Arc::clone(name))
    }
}
