//! The shape of earlier JSON objects of one kind.
//!
//! Most items of a table have the same attributes in the same order. So the name that followed last time is compared
//! first and need not be parsed. A wrong expectation costs one comparison.

use hashbrown::HashMap;

/// The number of different names before the cache is emptied. Items of a table have fewer.
const MAX_NAMES: usize = 1_024;

/// The index of a member in a [`ShapeCache`].
type ShapeIndex = usize;

/// The meaning of each name in one kind of objects, and the name that followed it last.
pub(super) struct ShapeCache<'a, M> {
    members: Vec<ShapeMember<'a, M>>,
    indexes: HashMap<&'a str, ShapeIndex>,
    /// The first member of the last object.
    first: Option<ShapeIndex>,
    is_enabled: bool,
}

/// A member of the last object that had it.
#[derive(Clone, Copy)]
pub(super) struct ShapeMember<'a, M> {
    /// The JSON of its name, up to and including the colon.
    pub(super) name: &'a str,
    /// The meaning of the name.
    pub(super) meaning: M,
    /// The JSON of its value; empty if no value has been read.
    pub(super) value: &'a str,
    /// The member that followed it.
    next: Option<ShapeIndex>,
}

impl<M> Default for ShapeCache<'_, M> {
    fn default() -> Self {
        Self { members: Vec::new(), indexes: HashMap::new(), first: None, is_enabled: true }
    }
}

impl<'a, M: Copy> ShapeCache<'a, M> {
    /// A cache for a single object: it stores nothing and allocates nothing.
    pub(super) fn disabled() -> Self {
        Self { is_enabled: false, ..Self::default() }
    }

    /// The member that followed `previous` last; for `None`, the first member of the last object.
    #[inline]
    pub(super) fn expected_after(
        &self,
        previous: Option<ShapeIndex>,
    ) -> Option<(ShapeIndex, ShapeMember<'a, M>)> {
        let next = match previous {
            Some(previous) => self.members.get(previous)?.next,
            None => self.first,
        }?;
        self.members.get(next).map(|member| (next, *member))
    }

    /// Stores that `name` followed `previous`. `meaning` is called if the name is new.
    #[inline]
    pub(super) fn insert_after(
        &mut self,
        previous: Option<ShapeIndex>,
        name: &'a str,
        meaning: impl FnOnce() -> M,
    ) -> (Option<ShapeIndex>, ShapeMember<'a, M>) {
        let known = self.indexes.get(name).and_then(|index| Some((*index, *self.members.get(*index)?)));
        let (index, member) = match known {
            Some(known) => known,
            None => {
                let member = ShapeMember { name, meaning: meaning(), value: "", next: None };
                if !self.is_enabled {
                    return (None, member);
                }
                (self.push(member), member)
            }
        };
        match previous.and_then(|previous| self.members.get_mut(previous)) {
            Some(previous) => previous.next = Some(index),
            None => self.first = Some(index),
        }
        (Some(index), member)
    }

    fn push(&mut self, member: ShapeMember<'a, M>) -> ShapeIndex {
        if self.members.len() == MAX_NAMES {
            *self = Self::default();
        }
        let index = self.members.len();
        self.members.push(member);
        self.indexes.insert(member.name, index);
        index
    }

    /// Stores the JSON of a member's value.
    #[inline]
    pub(super) fn set_value(&mut self, index: Option<ShapeIndex>, value: &'a str) {
        if let Some(member) = index.and_then(|index| self.members.get_mut(index)) {
            member.value = value;
        }
    }
}
