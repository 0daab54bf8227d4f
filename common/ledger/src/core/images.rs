//! The images of an item, by their use.

use afterwrite_model::record::Image;

use super::item::{CountBasis, ItemState, LedgerItem};

impl<'r> LedgerItem<'r> {
    /// The images that the uncounted part of the item depends on. Until its entry is read, these may be the images of all its records.
    pub(crate) fn images_to_count(&self) -> Vec<&Image<'_>> {
        match &self.state {
            ItemState::Unread => self.records.images().map(|image| -> &Image<'_> { image }).collect(),
            ItemState::AwaitingLookup(CountBasis::Table { image, .. }) => {
                image.iter().map(|image| -> &Image<'_> { image }).collect()
            }
            ItemState::AwaitingLookup(CountBasis::Records(decision)) => {
                let uncounted = decision.uncounted.iter().filter_map(|index| self.records.new_image(*index));
                let expired = decision.expiries.iter().filter_map(|index| self.records.old_image(*index));
                uncounted.map(|image| -> &Image<'_> { image }).chain(expired).collect()
            }
            ItemState::AwaitingLookup(CountBasis::Unreadable)
            | ItemState::NeedsItem
            | ItemState::Planned(_)
            | ItemState::Committed
            | ItemState::Failed(_) => Vec::new(),
        }
    }

    /// The newest known image of the item: that of its newest record, or of its table if the item was reconciled.
    pub(crate) fn newest_image(&self) -> Option<&Image<'_>> {
        let reconciled = self.table_image.as_ref().map(|image| -> &Image<'_> { image });
        reconciled.or_else(|| self.records.newest_image().map(|image| -> &Image<'_> { image }))
    }

    /// Every image of the item that is known.
    pub(crate) fn images(&self) -> impl Iterator<Item = &Image<'_>> {
        let reconciled = self.table_image.iter().map(|image| -> &Image<'_> { image });
        reconciled.chain(self.records.images().map(|image| -> &Image<'_> { image }))
    }

    /// Whether all its images are new images of its records, which are known from the beginning.
    pub(crate) fn has_new_images_only(&self) -> bool {
        let is_read = matches!(self.state, ItemState::AwaitingLookup(CountBasis::Table { .. }));
        !is_read && !self.records.has_old_images()
    }

    /// The images that may offer outputs to the lookups of other items: those of its records, and the item as its table has it
    /// while it is reconciled.
    pub(crate) fn offering_images(&self) -> impl Iterator<Item = &Image<'r>> {
        let is_looked_up = self.is_looked_up();
        let reconciled = match &self.state {
            ItemState::AwaitingLookup(CountBasis::Table { image, .. }) => image.as_ref(),
            ItemState::AwaitingLookup(CountBasis::Records(_) | CountBasis::Unreadable)
            | ItemState::Unread
            | ItemState::NeedsItem
            | ItemState::Planned(_)
            | ItemState::Committed
            | ItemState::Failed(_) => None,
        };
        let reconciled = reconciled.into_iter().map(|image| -> &Image<'r> { image });
        self.records.images().chain(reconciled).filter(move |_| is_looked_up)
    }
}
