//! The lookups of a batch: what each needs, and what was found.

use std::cell::OnceCell;

use afterwrite_model::entity::ItemCandidates;
use afterwrite_model::projection::{KnownLookups, LookupKey, LookupOutputs, lookup_keys};
use afterwrite_model::record::{AttributeValue, Image};
use afterwrite_model::table::Model;
use afterwrite_model::{Error, ErrorKind};
use hashbrown::{Equivalent, HashMap};
use smallvec::SmallVec;

use crate::policy::is_last_query;
use crate::state::lookup::SharedOutputs;

/// A borrowed [`LookupKey`], to search maps without a copy of the key.
#[derive(Hash)]
pub(crate) struct LookupKeyRef<'q>(pub(crate) &'q LookupKey<'q>);

impl Equivalent<LookupKey<'static>> for LookupKeyRef<'_> {
    fn equivalent(&self, known: &LookupKey<'static>) -> bool {
        self.0 == known
    }
}

/// The keys of the lookups that an image needs. They are made when they are first needed, and kept: each stage, and the mirrors, have the same keys.
#[derive(Debug, Default)]
pub(crate) struct ImageLookups(OnceCell<SmallVec<[LookupKey<'static>; 1]>>);

impl ImageLookups {
    /// The keys of the lookups; empty if they were not made.
    pub(crate) fn known_keys(&self) -> &[LookupKey<'static>] {
        self.0.get().map_or(&[], SmallVec::as_slice)
    }
}

/// An image that was read or decoded, with its lookups.
#[derive(Debug)]
pub(crate) struct KeyedImage<'r> {
    pub(crate) image: Image<'r>,
    pub(crate) lookups: ImageLookups,
}

/// An image of an item, with its lookups.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ItemImage<'i> {
    pub(crate) image: &'i Image<'i>,
    pub(crate) lookups: &'i ImageLookups,
}

impl<'r> KeyedImage<'r> {
    pub(crate) fn new(image: Image<'r>) -> Self {
        Self { image, lookups: ImageLookups::default() }
    }

    pub(crate) fn borrowed(&self) -> ItemImage<'_> {
        ItemImage { image: &self.image, lookups: &self.lookups }
    }
}

impl<'i> ItemImage<'i> {
    /// The image, and the keys of its lookups if they were made.
    pub(crate) fn with_known_keys(self) -> (&'i Image<'i>, &'i [LookupKey<'static>]) {
        (self.image, self.lookups.known_keys())
    }

    /// The lookups that it needs, each once. An image without a lookup's inputs has none, and cannot be counted either: planning reports
    /// that as the record's error.
    pub(crate) fn needed_lookups(
        self,
        model: &Model,
        candidates: &ItemCandidates<'_, '_>,
    ) -> &'i [LookupKey<'static>] {
        self.lookups.0.get_or_init(|| {
            let keys = lookup_keys(model, candidates, self.image).unwrap_or_default();
            keys.into_iter().map(LookupKey::into_owned).collect()
        })
    }
}

/// The lookups of a batch. A lookup without a result is open: the items that need it wait, and no other items.
#[derive(Debug, Default)]
pub(crate) struct LookupResults {
    states: HashMap<LookupKey<'static>, LookupState>,
    /// How often a lookup was required.
    required: usize,
}

#[derive(Debug)]
enum LookupState {
    /// It is not remembered. No item needs it yet.
    Unremembered,
    Open(OpenLookup),
    Found(SharedOutputs),
    /// There is no such item.
    NotFound,
    Failed(Error),
}

impl LookupState {
    /// Whether another attempt can have a result.
    fn is_unresolved(&self) -> bool {
        match self {
            Self::Open(_) => true,
            Self::Failed(error) => error.is_retryable(),
            Self::Unremembered | Self::Found(_) | Self::NotFound => false,
        }
    }
}

/// A lookup without a result.
#[derive(Debug, Default)]
pub(crate) struct OpenLookup {
    /// Its place in the order in which items required lookups, that of their records.
    number: usize,
    /// The outputs that a record of the looked-up item in the same batch offers.
    pub(crate) offer: Option<Vec<AttributeValue<'static>>>,
    /// Whether an item of the batch waits for it. If none does, its offer only has to be remembered.
    is_needed: bool,
    /// Whether its next attempt need not search the remembered lookups: the previous search did not find it.
    pub(crate) is_unremembered: bool,
    /// How often it was tried.
    pub(crate) attempts: u32,
    /// How often the index was queried or the item was read, without success.
    queries: u32,
    /// Why the last attempt failed, if it can be repeated.
    delay: Option<Error>,
}

/// The open lookups to try.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LookupChoice {
    All,
    /// Items wait for them.
    Needed,
    /// They have not been tried yet.
    Untried,
    /// They have not been tried yet, and no item waits for them: their offered outputs only have to be remembered.
    UntriedOffers,
}

impl LookupChoice {
    fn includes(self, open: &OpenLookup) -> bool {
        match self {
            Self::All => true,
            Self::Needed => open.is_needed,
            Self::Untried => open.attempts == 0,
            Self::UntriedOffers => open.attempts == 0 && !open.is_needed,
        }
    }
}

impl LookupResults {
    /// Adds a lookup that an item offers outputs for, or needs if it has no offer, unless it is known.
    pub(crate) fn require(
        &mut self,
        key: LookupKey<'_>,
        offer: Option<Vec<AttributeValue<'static>>>,
        cached: impl FnOnce(&LookupKey<'_>) -> Option<SharedOutputs>,
    ) {
        let is_needed = offer.is_none();
        let number = self.required;
        self.required += 1;
        match self.states.get_mut(&LookupKeyRef(&key)) {
            Some(LookupState::Open(open)) => {
                open.is_needed |= is_needed;
                open.offer = open.offer.take().or(offer);
            }
            Some(state @ LookupState::Unremembered) => {
                let is_unremembered = true;
                let open = OpenLookup { number, offer, is_needed, is_unremembered, ..OpenLookup::default() };
                *state = LookupState::Open(open);
            }
            Some(_) => {}
            None => {
                let cached = cached(&key).map(LookupState::Found);
                let open = OpenLookup { number, offer, is_needed, ..OpenLookup::default() };
                self.states.insert(key.into_owned(), cached.unwrap_or(LookupState::Open(open)));
            }
        }
    }

    /// Whether anything is known of a lookup.
    pub(crate) fn is_known(&self, key: &LookupKey<'_>) -> bool {
        self.states.contains_key(&LookupKeyRef(key))
    }

    /// Whether every lookup has outputs.
    pub(crate) fn are_found(&self) -> bool {
        self.states.values().all(|state| matches!(state, LookupState::Found(_)))
    }

    /// Notes that a lookup, which no item needs yet, is not remembered.
    pub(crate) fn note_unremembered(&mut self, key: LookupKey<'static>) {
        self.states.entry(key).or_insert(LookupState::Unremembered);
    }

    /// Drops the open lookups without offers: the items that waited for them are finished.
    pub(crate) fn drop_needed(&mut self) {
        self.states.retain(|_, state| match state {
            LookupState::Open(open) => open.offer.is_some(),
            LookupState::Unremembered
            | LookupState::Found(_)
            | LookupState::NotFound
            | LookupState::Failed(_) => true,
        });
    }

    /// Takes open lookups, in the order in which they were required. Each must be returned with its result.
    pub(crate) fn take(&mut self, choice: LookupChoice) -> Vec<(LookupKey<'static>, OpenLookup)> {
        let is_taken = |_: &LookupKey<'_>, state: &mut LookupState| match state {
            LookupState::Open(open) => choice.includes(open),
            LookupState::Unremembered
            | LookupState::Found(_)
            | LookupState::NotFound
            | LookupState::Failed(_) => false,
        };
        let taken = self.states.extract_if(is_taken).filter_map(|(key, state)| match state {
            LookupState::Open(open) => Some((key, open)),
            LookupState::Unremembered
            | LookupState::Found(_)
            | LookupState::NotFound
            | LookupState::Failed(_) => None,
        });
        let mut taken: Vec<_> = taken.collect();
        taken.sort_by(|(a, left), (b, right)| left.number.cmp(&right.number).then_with(|| a.cmp(b)));
        taken
    }

    pub(crate) fn has_open(&self) -> bool {
        self.open().next().is_some()
    }

    /// Whether items wait for a lookup.
    pub(crate) fn has_needed(&self) -> bool {
        self.open().any(|open| open.is_needed)
    }

    fn open(&self) -> impl Iterator<Item = &OpenLookup> {
        self.states.values().filter_map(|state| match state {
            LookupState::Open(open) => Some(open),
            LookupState::Unremembered
            | LookupState::Found(_)
            | LookupState::NotFound
            | LookupState::Failed(_) => None,
        })
    }

    pub(crate) fn is_open(&self, key: &LookupKey<'_>) -> bool {
        matches!(self.states.get(&LookupKeyRef(key)), Some(LookupState::Open(_)))
    }

    /// Whether another attempt at this lookup can have a result: it is open, or its last attempt failed and can be repeated.
    pub(crate) fn is_unresolved(&self, key: &LookupKey<'_>) -> bool {
        self.states.get(&LookupKeyRef(key)).is_some_and(LookupState::is_unresolved)
    }

    /// Whether another attempt at any lookup can have a result.
    pub(crate) fn has_unresolved(&self) -> bool {
        self.states.values().any(LookupState::is_unresolved)
    }

    /// Notes the outputs of a lookup.
    pub(crate) fn note_found(&mut self, key: LookupKey<'static>, outputs: SharedOutputs) {
        self.states.insert(key, LookupState::Found(outputs));
    }

    /// Returns a lookup that was taken, but not tried.
    pub(crate) fn postpone(&mut self, key: LookupKey<'static>, open: OpenLookup) {
        self.states.insert(key, LookupState::Open(open));
    }

    /// Notes an attempt that can be repeated.
    pub(crate) fn delay(&mut self, key: LookupKey<'static>, open: OpenLookup, error: Error) {
        let attempts = open.attempts + 1;
        let open = OpenLookup { is_unremembered: false, attempts, delay: Some(error), ..open };
        self.states.insert(key, LookupState::Open(open));
    }

    /// Ends all open lookups: there is no time for another attempt.
    pub(crate) fn close(&mut self) {
        for (key, open) in self.take(LookupChoice::All) {
            let late = || Error::new(ErrorKind::Unavailable, "there was no time for a lookup");
            let state = match open.queries {
                0 => LookupState::Failed(open.delay.unwrap_or_else(late)),
                _ => open.delay.map_or(LookupState::NotFound, LookupState::Failed),
            };
            self.states.insert(key, state);
        }
    }

    pub(crate) fn fail(&mut self, key: LookupKey<'static>, error: Error) {
        self.states.insert(key, LookupState::Failed(error));
    }

    /// Notes that neither the remembered lookups nor the index or the table have the item. The next attempt searches all of them:
    /// another writer may remember it before the item is deleted.
    pub(crate) fn miss(&mut self, key: LookupKey<'static>, open: OpenLookup) {
        let (attempts, queries) = (open.attempts + 1, open.queries + 1);
        let open = OpenLookup { is_unremembered: false, attempts, queries, delay: None, ..open };
        let is_last = is_last_query(open.queries);
        self.states.insert(key, if is_last { LookupState::NotFound } else { LookupState::Open(open) });
    }

    /// The most queries that an open lookup has had, if any lookup is open.
    pub(crate) fn most_queries(&self) -> Option<u32> {
        self.open().map(|open| open.queries).max()
    }
}

impl KnownLookups for LookupResults {
    fn outputs(&self, key: &LookupKey<'_>) -> Option<&LookupOutputs> {
        match self.states.get(&LookupKeyRef(key))? {
            LookupState::Found(outputs) => Some(outputs),
            LookupState::Unremembered
            | LookupState::Open(_)
            | LookupState::NotFound
            | LookupState::Failed(_) => None,
        }
    }

    fn is_absent(&self, key: &LookupKey<'_>) -> bool {
        matches!(self.states.get(&LookupKeyRef(key)), Some(LookupState::NotFound))
    }

    fn failure(&self, key: &LookupKey<'_>) -> Option<Error> {
        match self.states.get(&LookupKeyRef(key))? {
            LookupState::Failed(error) => Some(error.restated()),
            LookupState::Unremembered
            | LookupState::Open(_)
            | LookupState::NotFound
            | LookupState::Found(_) => None,
        }
    }
}
