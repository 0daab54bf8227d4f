//! How objects of one kind have looked so far. Most items of a table have the same attributes, which come in the same order, so that
//! a name need not be read where it is the one that was expected. An expectation that is wrong costs a comparison, nothing else.

use hashbrown::HashMap;

/// With more different names than these it begins anew: no table's items have so many.
const NAMES_AT_MOST: usize = 1_024;

/// The place of a name in a layout.
type ShapeIndex = usize;

/// What the names of one kind of objects mean, and which mostly follows which.
pub(super) struct ShapeCache<'a, M> {
    members: Vec<ShapeMember<'a, M>>,
    places: HashMap<&'a str, ShapeIndex>,
    /// The name that an object began with last.
    first: Option<ShapeIndex>,
    learns: bool,
}

/// A member as it came last.
#[derive(Clone, Copy)]
pub(super) struct ShapeMember<'a, M> {
    /// Its name in JSON, up to the colon after it.
    pub(super) name: &'a str,
    /// What the name means.
    pub(super) meaning: M,
    /// The JSON of its value, one whole value; empty if none was read yet.
    pub(super) value: &'a str,
    /// The one that followed it.
    next: Option<ShapeIndex>,
}

impl<M> Default for ShapeCache<'_, M> {
    fn default() -> Self {
        Self { members: Vec::new(), places: HashMap::new(), first: None, learns: true }
    }
}

impl<'a, M: Copy> ShapeCache<'a, M> {
    /// For an object that is read alone: it learns nothing, and takes no memory.
    pub(super) fn unknown() -> Self {
        Self { learns: false, ..Self::default() }
    }

    /// What followed this member last, or what an object began with.
    #[inline]
    pub(super) fn after(&self, before: Option<ShapeIndex>) -> Option<(ShapeIndex, ShapeMember<'a, M>)> {
        let next = match before {
            Some(before) => self.members.get(before)?.next,
            None => self.first,
        }?;
        self.members.get(next).map(|member| (next, *member))
    }

    /// Learns what followed this member, or what an object began with. What the name means is asked if it is new.
    pub(super) fn learn(
        &mut self,
        before: Option<ShapeIndex>,
        name: &'a str,
        meaning: impl FnOnce() -> M,
    ) -> (Option<ShapeIndex>, ShapeMember<'a, M>) {
        let known = self.places.get(name).and_then(|place| Some((*place, *self.members.get(*place)?)));
        let (place, member) = match known {
            Some(known) => known,
            None => {
                let member = ShapeMember { name, meaning: meaning(), value: "", next: None };
                if !self.learns {
                    return (None, member);
                }
                (self.add(member), member)
            }
        };
        match before.and_then(|before| self.members.get_mut(before)) {
            Some(before) => before.next = Some(place),
            None => self.first = Some(place),
        }
        (Some(place), member)
    }

    fn add(&mut self, member: ShapeMember<'a, M>) -> ShapeIndex {
        if self.members.len() == NAMES_AT_MOST {
            *self = Self::default();
        }
        let place = self.members.len();
        self.members.push(member);
        self.places.insert(member.name, place);
        place
    }

    /// Keeps the value that a member has now: one whole value.
    #[inline]
    pub(super) fn keep(&mut self, place: Option<ShapeIndex>, value: &'a str) {
        if let Some(member) = place.and_then(|place| self.members.get_mut(place)) {
            member.value = value;
        }
    }
}
