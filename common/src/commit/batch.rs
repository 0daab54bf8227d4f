//! A batch in progress.

use hashbrown::HashMap;

use super::core::lookups::LookupResults;
use super::core::{ItemInput, LedgerItem, StepContext};
use crate::Error;
use crate::projection::{RollupTargets, TargetId};
use crate::record::Item;

/// The items of a batch, and what was learned for all of them.
#[derive(Debug)]
pub(crate) struct LedgerBatch<'r> {
    pub(crate) items: Vec<LedgerItem<'r>>,
    pub(crate) targets: RollupTargets,
    pub(crate) lookups: LookupResults,
    /// The rollups with computed measures, as they are stored as far as known.
    pub(crate) computed: HashMap<TargetId, Option<Item>>,
    /// The mirrors that could not be written.
    pub(crate) unwritable_mirrors: Vec<Error>,
    /// The number of the next group of items that share transactions with no others.
    pub(crate) next_group: u32,
    /// How often a transaction was rejected as invalid.
    pub(crate) rejections: usize,
}

impl<'r> LedgerBatch<'r> {
    pub(crate) fn new(items: Vec<LedgerItem<'r>>, targets: RollupTargets) -> Self {
        Self {
            items,
            targets,
            lookups: LookupResults::default(),
            computed: HashMap::new(),
            unwritable_mirrors: Vec::new(),
            next_group: 0,
            rejections: 0,
        }
    }

    pub(crate) fn is_finished(&self) -> bool {
        self.items.iter().all(LedgerItem::is_finished)
    }

    /// The items in progress, with their indexes.
    pub(crate) fn unfinished(&self) -> impl Iterator<Item = (usize, &LedgerItem<'r>)> {
        self.items.iter().enumerate().filter(|(_, item)| !item.is_finished())
    }

    /// The item with this index.
    pub(crate) fn item(&self, index: usize) -> &LedgerItem<'r> {
        #[expect(
            clippy::indexing_slicing,
            reason = "indexes come from enumerating `items`, which never shrinks"
        )]
        &self.items[index]
    }

    /// Tells an item what was learned about it.
    pub(crate) fn step(&mut self, index: usize, input: ItemInput<'r, '_>, context: StepContext<'_>) {
        #[expect(
            clippy::indexing_slicing,
            reason = "indexes come from enumerating `items`, which never shrinks"
        )]
        self.items[index].step(input, context, &mut self.targets);
    }

    /// Ends every item in progress.
    pub(crate) fn give_up(&mut self, error: &Error, context: StepContext<'_>) {
        let unfinished: Vec<usize> = self.unfinished().map(|(index, _)| index).collect();
        for index in unfinished {
            self.step(index, ItemInput::GivenUp(error.restated()), context);
        }
    }

    /// One of these items, which shared a transaction, cannot be written. Alone, it is rejected; otherwise each half of
    /// them gets transactions of its own.
    pub(crate) fn bisect(&mut self, indexes: &[usize], error: &Error, context: StepContext<'_>) {
        self.rejections += 1;
        if let [index] = indexes {
            return self.step(*index, ItemInput::Rejected(error.restated()), context);
        }
        for half in indexes.chunks(indexes.len().div_ceil(2).max(1)) {
            for index in half {
                if let Some(item) = self.items.get_mut(*index) {
                    item.group = Some(self.next_group);
                }
            }
            self.next_group += 1;
        }
    }
}
