//! How objects of one kind have looked so far. Most items of a table have the same attributes, which come in the same order, so that
//! a name need not be read where it is the one that was expected.

/// Beyond so many different names nothing is expected that was learnt before.
const NAMES_AT_MOST: usize = 64;

/// What the names of one kind of objects mean, and which mostly follows which.
pub(super) struct Layout<'a, M> {
    /// The first stands for the beginning of an object.
    members: Vec<Member<'a, M>>,
    learns: bool,
}

/// A member as it came last.
#[derive(Clone, Copy)]
pub(super) struct Member<'a, M> {
    /// Where the layout keeps it.
    pub(super) place: usize,
    /// Its name in JSON, up to the colon after it.
    pub(super) name: &'a str,
    /// What the name means.
    pub(super) meaning: M,
    /// The JSON of its value; empty if there was none yet.
    pub(super) value: &'a str,
    /// The place of the one that followed it; the beginning if none did yet.
    next: usize,
}

/// The place of an object's beginning.
pub(super) const BEGINNING: usize = 0;

impl<M> Default for Layout<'_, M> {
    fn default() -> Self {
        Self { members: Vec::new(), learns: true }
    }
}

impl<'a, M: Copy> Layout<'a, M> {
    /// For an object that is read alone: it learns nothing, and takes no memory.
    pub(super) const fn unknown() -> Self {
        Self { members: Vec::new(), learns: false }
    }

    /// The member that followed this one last.
    #[inline]
    pub(super) fn after(&self, place: usize) -> Option<Member<'a, M>> {
        let next = self.members.get(place)?.next;
        self.members.get(next).filter(|_| next != BEGINNING).copied()
    }

    /// Learns which member followed this one; what its name means is asked if it is new.
    pub(super) fn learn(&mut self, place: usize, name: &'a str, meaning: impl Fn() -> M) -> Member<'a, M> {
        let held = self.members.iter().skip(1).find(|member| member.name == name).copied();
        let mut member = held.unwrap_or_else(|| Member {
            place: BEGINNING,
            name,
            meaning: meaning(),
            value: "",
            next: BEGINNING,
        });
        if held.is_none() && self.learns {
            if self.members.len() > NAMES_AT_MOST {
                self.members.clear();
            }
            if self.members.is_empty() {
                self.members.push(Member { name: "", ..member });
            }
            member.place = self.members.len();
            self.members.push(member);
        }
        if let Some(before) = self.members.get_mut(place) {
            before.next = member.place;
        }
        member
    }

    /// Keeps the value that a member has now.
    #[inline]
    pub(super) fn keep(&mut self, place: usize, value: &'a str) {
        if let Some(member) = self.members.get_mut(place) {
            member.value = value;
        }
    }
}
